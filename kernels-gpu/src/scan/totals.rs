//! The totals of a tile's vectors, and what comes before each vector within the tile.

use abi::scan::{ScanParams, VECTORS};
use cuda_std::hint::opaque;
use cuda_std::{thread, warp};

use super::kind::{Kind, by_kind};
use super::launch::Role;
use super::tile::{AT_ONCE, Slots, Stored};
use crate::reduce::number::Number;
use crate::reduce::partial::Partial;

/// Elements of vector `u`.
///
/// # Safety
/// The slot is written.
#[inline(always)]
pub(super) unsafe fn elements<T: Stored<V, Number: Partial>, const V: usize>(
    slots: &Slots,
    u: usize,
) -> [T::Number; V] {
    // SAFETY: passed on to the caller.
    let raw = unsafe { slots.read(u) };
    core::array::from_fn(|v| T::number(raw, v))
}

/// The total of each vector.
///
/// # Safety
/// The slots are written.
#[inline(always)]
pub(super) unsafe fn totals<T: Stored<V, Number: Partial>, const V: usize, const IS_LSE: bool>(
    slots: &Slots,
    kind: Kind<IS_LSE>,
) -> [T::Number; VECTORS] {
    let mut totals = [T::Number::ZERO; VECTORS];
    by_kind!(kind, Number::times, |op| {
        let mut u = opaque(0) as usize; // not unrolled
        while u < opaque(VECTORS as u32) as usize {
            let more = kind.each([T::Number::ZERO; AT_ONCE], |i, _| {
                // SAFETY: passed on to the caller.
                let xs = unsafe { elements::<T, V>(slots, u + i) };
                let total = kind.folded(xs, op);
                match kind.is_rare(total) {
                    true => T::Number::product_of(xs),
                    false => total,
                }
            });
            // Shifts the array, as registers cannot be indexed in a loop.
            totals = core::array::from_fn(|i| match i + AT_ONCE < VECTORS {
                true => totals[i + AT_ONCE],
                false => more[i + AT_ONCE - VECTORS],
            });
            u += AT_ONCE;
        }
    });
    totals
}

/// What comes before each of the thread's vectors within the row's tile, given their totals; and
/// the tile's total.
///
/// # Safety
/// All threads of the block are here; `sums` has a place for each warp, and nobody uses it.
#[inline(always)]
pub(super) unsafe fn of_row<N: Partial, const IS_LSE: bool>(
    totals: [N; VECTORS],
    params: &ScanParams,
    kind: Kind<IS_LSE>,
    none: impl Fn() -> N,
    sums: *mut N,
) -> ([N; VECTORS], N) {
    // SAFETY: passed on to the caller; a place for each warp, and a barrier between writes and
    // reads.
    unsafe {
        let inclusive = of_lanes(totals, params, kind);
        let role = Role::of(params);
        let last = (thread::lane_idx() & !(role.lanes - 1)) + role.lanes - 1;
        let first = none();
        let (exclusive, sum) = by_kind!(kind, Partial::product, |op| {
            let mut sum = first;
            let exclusive: [N; VECTORS] = kind.each(inclusive, |_, x| {
                let whole = warp::shfl_idx(warp::FULL_MASK, x, last);
                let below = warp::shfl_up(warp::FULL_MASK, x, 1);
                let before = op(sum, if role.lane == 0 { first } else { below });
                sum = op(sum, whole);
                before
            });
            (exclusive, sum)
        });
        if role.warps == 1 {
            return (exclusive, sum);
        }
        let of_block = thread::thread_idx_x() / thread::WARP_THREADS;
        if role.lane == 0 {
            sums.add(of_block as usize).write(sum);
        }
        thread::sync_threads();
        let sums = sums.add((of_block - role.warp) as usize);
        let (mut of_warp, mut total) = (none(), none());
        let mut w = 0;
        while w < opaque(role.warps) {
            of_warp = if w == role.warp { total } else { of_warp };
            total = kind.combined(total, sums.add(w as usize).read());
            w += 1;
        }
        (kind.behind(of_warp, exclusive), total)
    }
}

/// Inclusive scan over the lanes of the row.
///
/// # Safety
/// All lanes of the warp are here.
#[inline(always)]
unsafe fn of_lanes<N: Partial, const IS_LSE: bool>(
    xs: [N; VECTORS],
    params: &ScanParams,
    kind: Kind<IS_LSE>,
) -> [N; VECTORS] {
    let mut xs = xs;
    let (role, mut apart) = (Role::of(params), 1);
    while apart < opaque(role.lanes) {
        by_kind!(kind, Partial::product, |op| {
            xs = kind.each(xs, |_, x| {
                // SAFETY: passed on to the caller.
                let below = unsafe { warp::shfl_up(warp::FULL_MASK, x, apart) };
                if role.lane >= apart { op(below, x) } else { x }
            });
        });
        apart *= 2;
    }
    xs
}
