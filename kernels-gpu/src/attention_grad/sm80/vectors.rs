//! The vectors that a block reads, and their copies.

use abi::attention::{BshStrides, Sequence};
use abi::attention_grad::sm80::THREADS;
use cuda_std::hint::opaque;
use cuda_std::shared::SharedAddr;

use super::kernel::Arguments;
use crate::attention::sm80::copies::Copies;
use crate::attention::sm80::element::Half;

/// Kinds of vectors: 0 is q or k, 1 is d_o or v.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    pub(super) first: u32,
    end: u32,
}

/// q or k.
pub(super) const FIRST: Operands = Operands { first: 0, end: 1 };
/// d_o or v.
pub(super) const SECOND: Operands = Operands { first: 1, end: 2 };
/// All.
pub(super) const BOTH: Operands = Operands { first: 0, end: 2 };

/// Starts the copies of `ROWS` positions of a head from `start` on, of which those that exist are
/// read.
///
/// # Safety
/// The launch's; nobody uses these places, one of each kind, before the copies have been waited
/// for.
#[inline(always)]
pub(super) unsafe fn start<E: Half, const CAP: usize, const ROWS: usize>(
    arguments: &Arguments<'_>,
    (sequence, head_idx): (&Sequence, u32),
    (of_keys, operands): (bool, Operands),
    start: u32,
    to: [SharedAddr; 2],
) {
    let (params, fwd) = (arguments.params, &arguments.params.fwd);
    let (of_first, of_second): ((_, BshStrides), (_, BshStrides)) = if of_keys {
        ((arguments.k, fwd.k), (arguments.v, fwd.v))
    } else {
        ((arguments.q, fwd.q), (arguments.d_o, params.d_o))
    };
    let positions = if of_keys { sequence.k } else { sequence.q };
    let mut operand = operands.first;
    // The code of both is there once; ptxas unrolls it.
    while operand < opaque(operands.end) {
        let is_first = operand == 0;
        let pick = |first: i64, second: i64| if is_first { first } else { second };
        let strides = BshStrides {
            batch: pick(of_first.1.batch, of_second.1.batch),
            seq: pick(of_first.1.seq, of_second.1.seq),
            head: pick(of_first.1.head, of_second.1.head),
        };
        let base = if is_first { of_first.0 } else { of_second.0 };
        let extent = if is_first {
            fwd.head_dim
        } else {
            fwd.head_dim_v
        };
        let smem = if is_first { to[0] } else { to[1] };
        let offset = 2 * strides.offset(sequence.batch_idx, positions.first, head_idx);
        let base = base.wrapping_offset(offset as isize);
        let copies = Copies::<CAP, ROWS, THREADS>::new(base, strides.seq, extent);
        // SAFETY: the caller's promise; only positions of the sequence are read.
        unsafe { copies.start_by_loop::<E>(start, positions.len - start, smem) }
        operand += 1;
    }
}
