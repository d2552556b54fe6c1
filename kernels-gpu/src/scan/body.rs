//! The kernel, for any dtype: a block takes tiles in order until there are none, or it loops over
//! rows.

use abi::scan::{SCRATCH_BYTES, ScanParams, VECTORS};
use cuda_std::hint::opaque;
use cuda_std::{mem, thread};

use super::back::Status;
use super::block::{Block, Scratch};
use super::kind::{Kind, by_kind};
use super::launch::{Launch, TileAddress};
use super::tile::{Slots, Stored};
use super::totals::elements;
use crate::reduce::number::Number;
use crate::reduce::partial::Partial;

/// Words of shared memory before the slots.
const SCRATCH_WORDS: usize = SCRATCH_BYTES as usize / 4;

/// # Safety
/// The arrays are those of `params`, whose kind is the logsumexp if `IS_LSE`; if `IS_SM80`, the device has compute capability 8.0 or newer;
/// `shared` is shared memory of [`ScanPlan::shared_bytes`](abi::scan::ScanPlan::shared_bytes).
#[inline(always)]
pub(super) unsafe fn scan<
    T: Stored<V, Number: Partial>,
    const V: usize,
    const IS_LSE: bool,
    const IS_SM80: bool,
>(
    x: *const u8,
    y: *mut u8,
    status: *mut u64,
    params: &ScanParams,
    shared: *mut u32,
) {
    let block = Block::<T::Number> {
        launch: Launch { x, y, params },
        status,
        back: Status::of::<T::Number>(status, params),
        scratch: Scratch::of(shared),
    };
    let slots = |is_second| Slots::own(shared.wrapping_add(SCRATCH_WORDS)).other(is_second);
    let mut iteration = 0_u32;
    let mut waiting = [T::Number::ZERO; VECTORS];
    // SAFETY: tiles, or rows, of the launch that only this block has; all threads are here, and
    // barriers separate their uses of scratch.
    unsafe {
        if params.tiles > 1 {
            block.begin();
        }
        loop {
            // Recomputed at each use, so that they take no registers meanwhile; and LLVM does not
            // specialise the loop for them.
            let (kind, is_late) = (
                || Kind::<IS_LSE>::of(params),
                || opaque(params.is_late) != 0,
            );
            let is_shared = params.tiles > 1;
            let none = || T::neutral(Kind::<IS_LSE>::of(params));
            // The iteration whose tile is finished now: this one, or, with slots for two tiles, the
            // one before.
            let done = iteration.wrapping_sub(u32::from(is_late()));
            let (tile, is_there) = block.tile(iteration);
            let has_more = || block.scratch.tile(done).read().row < params.rows;
            if !(is_there || is_shared && has_more()) {
                break;
            }
            let own = slots(!iteration.is_multiple_of(2) && is_late());
            let (mut exclusive, total) =
                block.take::<T, V, _>(iteration, &tile, &own, kind(), none);
            // Read again, so that it takes no registers meanwhile.
            let (mut tile, is_there) = block.tile(opaque(iteration));
            if is_shared {
                if is_there && thread::thread_idx_x() == 0 {
                    block.scratch.total(iteration).write(total);
                    block.back.publish(&tile, total);
                }
                if is_late() {
                    // What this tile waits for will have been published by the next iteration.
                    core::mem::swap(&mut exclusive, &mut waiting);
                }
                exclusive = block.look_back(iteration, done, kind(), none, exclusive);
                tile = block.scratch.tile(done).read();
            }
            if !is_shared || tile.row < params.rows {
                // Opaque: recomputed here, the place takes no registers meanwhile.
                tile.i += u64::from(opaque(0));
                let own = slots(opaque(iteration).is_multiple_of(2) && is_late());
                let address = block.launch.address::<T, V>(&tile);
                let is_exclusive = opaque(params.is_exclusive) != 0;
                results::<T, V, _, IS_SM80>(&own, &address, exclusive, kind(), is_exclusive);
                address.span.store_parts::<T, V>(address.to, &own);
            }
            iteration = iteration.wrapping_add(1);
            if !is_shared && params.along_log2 > 5 {
                thread::sync_threads();
            }
        }
    }
}

/// Computes and stores the results, given what comes before each vector. Vectors that are not
/// whole, or not aligned, go to the slots.
///
/// # Safety
/// The slots have been written, and the place is writable.
#[inline(always)]
unsafe fn results<
    T: Stored<V, Number: Partial>,
    const V: usize,
    const IS_LSE: bool,
    const IS_SM80: bool,
>(
    slots: &Slots,
    address: &TileAddress,
    before: [T::Number; VECTORS],
    kind: Kind<IS_LSE>,
    is_exclusive: bool,
) {
    let (span, lanes, bytes) = (&address.span, V as i32, T::bytes(0) as isize);
    let to = address.to.wrapping_offset(span.first as isize * bytes);
    let is_aligned = to.addr().is_multiple_of(16);
    by_kind!(kind, Number::times, |op| {
        let mut before = before;
        let (mut u, mut first, mut to) = (opaque(0) as usize, span.first, to); // not unrolled
        while u < opaque(VECTORS as u32) as usize {
            // SAFETY: passed on to the caller.
            let xs = unsafe { elements::<T, V>(slots, u) };
            let mut sum = before[0];
            let mut ys = kind.each(xs, |_, x| {
                let before = sum;
                sum = op(sum, x);
                if is_exclusive { before } else { sum }
            });
            if kind.is_rare(sum) {
                sum = before[0];
                let (mut xs, mut left) = (xs, opaque(V as u32)); // not unrolled
                while left > 0 {
                    let before = sum;
                    sum = sum.product(Partial::product_of([xs[0]]));
                    let y = if is_exclusive { before } else { sum }.product_result();
                    xs = core::array::from_fn(|i| xs[(i + 1) % V]);
                    ys = core::array::from_fn(|i| if i + 1 < V { ys[i + 1] } else { y });
                    left -= 1;
                }
            }
            let raw = match IS_SM80 {
                true => T::packed_sm80(ys),
                false => T::packed(ys),
            };
            // SAFETY: as above.
            unsafe {
                match is_aligned && span.is_whole(first, lanes) {
                    true => mem::st_v4_u32(to.cast(), raw),
                    false => slots.write(u, raw),
                }
            }
            // Rotates the array, as registers cannot be indexed in a loop.
            before = core::array::from_fn(|i| before[(i + 1) % VECTORS]);
            first += span.step;
            to = to.wrapping_offset(span.step as isize * bytes);
            u += 1;
        }
    });
}
