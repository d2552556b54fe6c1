//! Reads a tile of A or B of a `wgmma` from shared memory.

use std::ops::Range;

use super::mma::Operand;
use crate::check::{Actor, Operation, Proxy, Target};
use crate::exec::access::Intent;
use crate::exec::block::Block;
use crate::exec::fault::{Checked, Fault};
use crate::memory::shared::SHARED_BASE;
use crate::memory::space::Space;
use crate::memory::words::{Word, low_bits};
use crate::report::FaultKind;
use crate::semantics::tensor::Element;
use crate::semantics::tensor::descriptor::{Descriptor, Swizzle};

/// Bytes that are contiguous in every layout.
const UNIT: usize = 16;

/// An operand tile of a `wgmma`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    /// `A` or `B`.
    pub(super) name: &'static str,
    pub(super) element: Element,
    pub(super) descriptor: u64,
    /// Whether it is contiguous along m or n instead of k.
    pub(super) transposed: bool,
}

/// Reads units from shared memory, and records which.
struct Reader<'a> {
    block: &'a Block<'a>,
    tile: Tile,
    /// A bit for each unit that was read, if races are checked for.
    seen: &'a mut Vec<u64>,
}

impl Reader<'_> {
    /// The four words of a unit.
    fn unit(&mut self, address: u32, place: impl Fn() -> String) -> Checked<[u32; 4]> {
        let shared = self.block.shared();
        let at = address as usize;
        if u64::from(address) < SHARED_BASE || (at + UNIT) as u64 > shared.len() {
            let message = format!(
                "{} of `wgmma` reads {UNIT} bytes at shared address 0x{address:x} ({}); shared \
                 memory of the block is 0x{SHARED_BASE:x} to 0x{:x}",
                self.tile.name,
                place(),
                shared.len()
            );
            return Err(self.fault(FaultKind::OutOfBounds, message, address));
        }
        let bytes = shared.bytes();
        let checks = &self.block.launch.checks;
        if checks.unwritten && bytes.written(at, UNIT) != low_bits(UNIT) {
            let message = format!(
                "{} of `wgmma` reads {UNIT} bytes at shared address 0x{address:x} ({}), and not \
                 all of them were written",
                self.tile.name,
                place()
            );
            let fault = self.fault(FaultKind::Uninitialized, message, address);
            let (at, bytes) = (u64::from(address), UNIT as u64);
            let fault = fault.over(Space::Shared, at, bytes);
            return Err(fault.of_shared(self.block.rank, at, bytes));
        }
        if !self.seen.is_empty() {
            self.seen[at / UNIT / 64] |= 1 << (at / UNIT % 64);
        }
        let words = &bytes.words[at / 4..at / 4 + 4];
        Ok([
            words[0].load(),
            words[1].load(),
            words[2].load(),
            words[3].load(),
        ])
    }

    #[cold]
    fn fault(&self, kind: FaultKind, message: String, address: u32) -> Box<Fault> {
        let d = Descriptor::decode(self.tile.descriptor);
        let layout = format!(
            "its descriptor says: start 0x{:x}, leading offset {}, stride offset {}, base offset {}, \
             swizzle {}",
            d.start,
            d.leading,
            d.stride,
            d.base_offset,
            match d.swizzle {
                Swizzle::None => "none".to_owned(),
                swizzle => format!("{} bytes", swizzle.span()),
            }
        );
        Fault::new(kind, None, message)
            .at(u64::from(address))
            .note(layout)
    }
}

/// Checks what was read of an operand for races.
pub(super) fn check_races(
    block: &Block<'_>,
    operand: &Operand,
    operation: &Operation,
) -> Checked<()> {
    let mut order = block.cluster.order.borrow_mut();
    let target = Target::Shared { rank: block.rank };
    let mut units = operand.seen.iter().enumerate().flat_map(|(place, word)| {
        let mut rest = *word;
        std::iter::from_fn(move || {
            let unit = place * 64 + rest.trailing_zeros() as usize;
            let any = rest != 0;
            rest &= rest.wrapping_sub(1);
            any.then_some(unit)
        })
    });
    let mut run: Option<Range<usize>> = None;
    loop {
        let next = units.next();
        match (&mut run, next) {
            (Some(run), Some(unit)) if run.end == unit => {
                run.end += 1;
                continue;
            }
            (Some(run), _) => order.range(
                Actor::Operation(operation),
                target,
                Intent::Read,
                Proxy::Async,
                (run.start * UNIT) as u64,
                (run.len() * UNIT) as u64,
            )?,
            (None, _) => {}
        }
        let Some(unit) = next else { return Ok(()) };
        run = Some(unit..unit + 1);
    }
}

/// Refuses descriptors that are not valid.
fn check(tile: Tile) -> Checked<Descriptor> {
    let bits = tile.descriptor;
    let reserved = Descriptor::reserved(bits);
    if reserved != 0 {
        let message = format!(
            "the descriptor 0x{bits:016x} of {} has bits 0x{reserved:x} set, which must be zero",
            tile.name
        );
        return Err(Fault::new(FaultKind::Misaligned, None, message));
    }
    let descriptor = Descriptor::decode(bits);
    let want = descriptor.wanted_base_offset();
    // 0 is the pattern by addresses, which is what TMA writes, wherever the matrix begins.
    if descriptor.base_offset != 0 && descriptor.base_offset != want {
        let span = descriptor.swizzle.span();
        let message = format!(
            "{} of `wgmma` starts at shared address 0x{:x}, inside of the pattern of a {span}-byte \
             swizzle, which repeats every {} bytes: its descriptor's base offset must be 0 or {want}, not {}",
            tile.name,
            descriptor.start,
            8 * span,
            descriptor.base_offset
        );
        let fault = Fault::new(FaultKind::Misaligned, None, message);
        return Err(fault.at(u64::from(descriptor.start)));
    }
    Ok(descriptor)
}

/// Reads the bits of the elements in `rows` of A (columns of B), as `[row][k]`; with `notes`, also
/// which units they are from.
///
/// # Errors
/// A descriptor that is not valid, or an access outside shared memory or to bytes that were never
/// written.
pub(super) fn read(
    block: &Block<'_>,
    tile: Tile,
    rows: Range<u32>,
    notes: bool,
    operand: &mut Operand,
) -> Checked<()> {
    let descriptor = check(tile)?;
    let Operand {
        bits: out, seen, ..
    } = operand;
    seen.clear();
    if notes {
        seen.resize((block.shared().len() as usize).div_ceil(UNIT * 64), 0);
    }
    let mut reader = Reader { block, tile, seen };
    let bits = tile.element.unit_bits();
    let (per, units) = (128 / bits, 256 / bits);
    // Each element is written below.
    out.resize(rows.len() * units, 0);
    if tile.transposed {
        // Only 16-bit elements can be MN-major: eight rows in each unit.
        for first in rows.clone().step_by(per) {
            for k in 0..units {
                let address = descriptor.mn_major(first * bits as u32 / 8, k as u32);
                let words = reader.unit(address, || format!("rows from {first} on, k {k}"))?;
                for i in 0..per {
                    let row = (first - rows.start) as usize + i;
                    out[row * units + k] = words[i / 2] >> (16 * (i % 2)) & 0xffff;
                }
            }
        }
    } else {
        for row in rows.clone() {
            let own = &mut out[(row - rows.start) as usize * units..][..units];
            for (half, part) in own.chunks_exact_mut(per).enumerate() {
                let byte = (half * UNIT) as u32;
                let words = reader.unit(descriptor.k_major(row, byte), || {
                    format!("row {row}, bytes of k from {byte} on")
                })?;
                split(&words, bits, part);
            }
        }
    }
    Ok(())
}

/// Splits a unit into elements.
#[inline(always)]
fn split(words: &[u32; 4], bits: usize, out: &mut [u32]) {
    let per = 32 / bits;
    let mask = low_bits(bits);
    for (word, out) in words.iter().zip(out.chunks_exact_mut(per)) {
        for (i, out) in out.iter_mut().enumerate() {
            *out = word >> (i * bits) & mask;
        }
    }
}
