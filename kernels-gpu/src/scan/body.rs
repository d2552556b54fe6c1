//! The kernel, for any dtype: blocks take tiles in order until there are none.

use cuda_std::atomic::{self, Order, Scope};
use cuda_std::{thread, warp};
use spec::scan::{ScanParams, ScanPlan, THREADS, VECTORS};

use super::back::Status;
use super::tile::{Elements, Stored, accumulated, all_combined, combined, load, neutral, store};
use crate::reduce::number::Number;

/// Warps of a block.
const WARPS: u32 = THREADS / thread::WARP_THREADS;

/// Words of shared memory: a number of 64 bits for each warp and vector, which are 32, and a tile's
/// number.
pub(super) const SCRATCH_WORDS: usize = 2 * (WARPS as usize * VECTORS) + 2;

/// A launch.
///
/// # Safety
/// The arrays are those of `params`; `scratch` is shared memory of [`SCRATCH_WORDS`].
#[inline(always)]
pub(super) unsafe fn scan<T: Stored<V, Number: Number>, const V: usize>(
    x: *const u8,
    y: *mut u8,
    status: *mut u64,
    params: &ScanParams,
    scratch: *mut u32,
) {
    let thread = thread::thread_idx_x();
    let words = size_of::<T::Number>() as u64 / 4;
    let totals = status.wrapping_add(1);
    let back = Status {
        tiles: totals,
        groups: totals.wrapping_add((params.rows * params.tiles * words) as usize),
        words,
    };
    let taken = scratch
        .wrapping_add(2 * (WARPS as usize * VECTORS))
        .cast::<u64>();
    let tile_len = u64::from(THREADS) * (VECTORS * V) as u64;
    let all = params.rows * params.tiles;
    let is_shared = params.tiles > 1;
    // Where tiles wait for each other, who begins first has the lowest number.
    let ask = || match is_shared && thread == 0 {
        // SAFETY: the launch's counter.
        true => unsafe { atomic::atom_add(status, 1, Order::Relaxed, Scope::Gpu) },
        false => 0,
    };
    let told = |answer: u64| {
        // SAFETY: the barriers, here and of the tile between, part its users.
        unsafe {
            if thread == 0 {
                taken.write(answer);
            }
            thread::sync_threads();
            taken.read()
        }
    };
    let mut tile = match is_shared {
        true => told(ask()),
        false => u64::from(thread::block_idx_x()),
    };
    loop {
        if tile >= all {
            return;
        }
        let (row, i) = match params.tiles {
            1 => (tile, 0),
            tiles => (tile / tiles, tile % tiles),
        };
        let first = i * tile_len;
        let len = (params.n - first).min(tile_len);
        let at = |row_stride: i64| {
            let element = (row as i64)
                .wrapping_mul(row_stride)
                .wrapping_add(first as i64);
            element.wrapping_mul(T::bytes(0)) as isize
        };
        let kind = params.kind;
        // SAFETY: a tile of the launch, of which this block is the only one; all threads are here.
        unsafe {
            let from = x.wrapping_offset(at(params.x_row_stride));
            let xs = load::<T, V>(from, len, thread, neutral(kind));
            let xs = accumulated(xs, kind);
            let before = of_tile(&xs, kind, scratch, |total| match is_shared {
                true => back.before(row, i, total, params),
                false => neutral(kind),
            });
            // The answer comes while results are on their way.
            let next = ask();
            let ys = results(xs, before, params);
            let to = y.wrapping_offset(at(params.y_row_stride));
            store::<T, V>(to, len, thread, ys);
            tile = match is_shared {
                true => told(next),
                false => tile + u64::from(thread::grid_dim_x()),
            };
        }
    }
}

/// What comes before each of the thread's vectors, given what comes before the tile of that total.
///
/// # Safety
/// All threads of the block are here; `scratch` is for this alone.
#[inline(always)]
unsafe fn of_tile<N: Number, const V: usize>(
    xs: &Elements<N, V>,
    kind: u32,
    scratch: *mut u32,
    before: impl FnOnce(N) -> N,
) -> [N; VECTORS] {
    let (lane, warp_idx) = (
        thread::lane_idx(),
        thread::thread_idx_x() / thread::WARP_THREADS,
    );
    let slots = scratch.cast::<N>();
    // SAFETY: slots of vector and warp, parted by barriers; whole warps shuffle.
    unsafe {
        let inclusive = of_lanes::<N, VECTORS>(core::array::from_fn(|u| xs[u][V - 1]), kind);
        if lane == thread::WARP_THREADS - 1 {
            for (u, &total) in inclusive.iter().enumerate() {
                slots
                    .add(u * WARPS as usize + warp_idx as usize)
                    .write(total);
            }
        }
        thread::sync_threads();
        if warp_idx == 0 {
            // Vectors one after the other, of each the warps: 32 in all.
            let slot = slots.add(lane as usize);
            let [inclusive] = of_lanes([slot.read()], kind);
            let total = warp::shfl_idx(warp::FULL_MASK, inclusive, thread::WARP_THREADS - 1);
            let first = before(total);
            let exclusive = shifted(inclusive, kind);
            slot.write(combined(first, exclusive, kind));
        }
        thread::sync_threads();
        let of_warp: [N; VECTORS] =
            core::array::from_fn(|u| slots.add(u * WARPS as usize + warp_idx as usize).read());
        // The slots are written again behind the next barrier: of the counter, or this one.
        thread::sync_threads();
        let of_lane: [N; VECTORS] = core::array::from_fn(|u| shifted(inclusive[u], kind));
        all_combined(of_warp, of_lane, kind)
    }
}

/// Accumulated over the lanes of the warp.
///
/// # Safety
/// All lanes are here.
#[inline(always)]
unsafe fn of_lanes<N: Number, const K: usize>(xs: [N; K], kind: u32) -> [N; K] {
    let lane = thread::lane_idx();
    let mut xs = xs;
    let mut apart = 1;
    while apart < thread::WARP_THREADS {
        // SAFETY: passed on to the caller.
        let below: [N; K] =
            core::array::from_fn(|i| unsafe { warp::shfl_up(warp::FULL_MASK, xs[i], apart) });
        let sums = all_combined(below, xs, kind);
        for i in 0..K {
            xs[i] = if lane >= apart { sums[i] } else { xs[i] };
        }
        apart *= 2;
    }
    xs
}

/// That of the lane below.
///
/// # Safety
/// All lanes are here.
#[inline(always)]
unsafe fn shifted<N: Number>(x: N, kind: u32) -> N {
    // SAFETY: passed on to the caller.
    let below = unsafe { warp::shfl_up(warp::FULL_MASK, x, 1) };
    if thread::lane_idx() == 0 {
        neutral(kind)
    } else {
        below
    }
}

/// The thread's results: what comes before a vector with what its elements accumulate to.
#[inline(always)]
fn results<N: Number, const V: usize>(
    xs: Elements<N, V>,
    before: [N; VECTORS],
    params: &ScanParams,
) -> Elements<N, V> {
    let kind = params.kind;
    let mut xs = xs;
    if params.is_exclusive != 0 {
        for u in 0..VECTORS {
            let x = xs[u];
            for v in 1..V {
                xs[u][v] = x[v - 1];
            }
            xs[u][0] = neutral(kind);
        }
    }
    core::array::from_fn(|u| all_combined([before[u]; V], xs[u], kind))
}

const _: () =
    assert!(WARPS as usize * VECTORS == 32 && ScanPlan::new(1, 1, spec::DType::F32).tiles == 1);
