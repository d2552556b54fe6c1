//! Batch invariance: the bits of a row of D depend on this row of A, on B and on the row's own part of
//! the epilogue. They do not depend on the other rows, their number, or the place of the row.
//!
//! All candidates that are offered for one B, dtype and device add up in one order. That holds within
//! a family of kernels, with k in one part or in a requested number of parts. Each element is one
//! chain of tensor-core instructions (or of multiply-adds) with k ascending, whatever the tile is.
//! Between families it does not hold. So the first family that computes such products at all is the
//! only one. Left out is all that depends on the number of rows: stream-K, splits that fill the device,
//! and kernels that share k among warps. (Products of f64 and of i8 have the same bits by every kernel.)

use super::candidates::Candidate;
use super::desc::GemmDesc;
use super::{decode_sm90, mma, simt, sm90};
use crate::DType;
use crate::ops::plan::Machine;

/// A family's offers.
type Offer = fn(&GemmDesc, &Machine, &mut dyn FnMut(Candidate));

/// The families, the fastest first. Whether one offers anything depends on dtypes, k and n.
const FAMILIES: [Offer; 3] = [by_wgmma, mma::offer, simt::offer];

/// Offers the candidates of the one family that computes such products.
pub(super) fn offer(desc: &GemmDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    // A requested number of parts leaves the families no choice, of stream-K either.
    let desc = &GemmDesc {
        split_k: desc.split_k.max(1),
        ..*desc
    };
    for family in FAMILIES {
        let mut is_there = false;
        family(desc, machine, &mut |candidate| {
            is_there = true;
            offer(candidate);
        });
        if is_there {
            return;
        }
    }
}

/// By `wgmma`: of 16 bits also the kernels for few rows, with a block's k not shared. They multiply the
/// same elements of k with each instruction, with the operands in the places of each other.
fn by_wgmma(desc: &GemmDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    sm90::offer(desc, machine, offer);
    if desc.split_k == 1 && matches!(desc.a.dtype, DType::F16 | DType::Bf16) {
        decode_sm90::offer(desc, machine, offer);
    }
}
