//! The kernel, for any dtype: blocks take tiles in order until there are none, or several rows each.

use cuda_std::atomic::{self, Order, Scope};
use cuda_std::hint::opaque;
use cuda_std::{thread, warp};
use spec::scan::{ScanParams, THREADS, VECTORS};

use super::back::Status;
use super::tile::{Slots, Span, Stored, all_combined, by_kind, combined, neutral};
use crate::reduce::number::Number;

/// Warps of a block.
const WARPS: u32 = THREADS / thread::WARP_THREADS;

/// Words of shared memory: the vectors, a number of 64 bits for each warp, what comes before the tile, and the
/// tile's number.
pub(super) const SCRATCH_WORDS: usize = Slots::WORDS + 2 * (WARPS as usize + 2);

/// Vectors of which totals are computed at a time: others wait for them, but all would be much code.
const AT_ONCE: usize = 4;

/// Which part of its block's rows a thread has.
#[derive(Clone, Copy)]
struct Role {
    /// Its row.
    row: u32,
    /// Its warp, of the row's, and how many they are.
    warp: u32,
    warps: u32,
    /// Its lane, of the row's in the warp, and how many they are.
    lane: u32,
    lanes: u32,
}

impl Role {
    #[inline(always)]
    fn of(params: &ScanParams) -> Self {
        let thread = thread::thread_idx_x();
        let lanes = 1 << params.along_log2.min(5);
        let place = thread & ((1 << params.along_log2) - 1);
        Self {
            row: thread >> params.along_log2,
            warp: place / thread::WARP_THREADS,
            warps: 1 << params.along_log2.saturating_sub(5),
            lane: place & (lanes - 1),
            lanes,
        }
    }

    /// The thread's vectors in a tile of whose elements those from `begin` on and before `end` are there.
    #[inline(always)]
    fn span(&self, lanes_of_vector: usize, begin: i32, end: i32) -> Span {
        let vector = self.warp * VECTORS as u32 * self.lanes + self.lane;
        Span {
            first: (vector * lanes_of_vector as u32) as i32,
            step: (self.lanes * lanes_of_vector as u32) as i32,
            begin,
            end,
        }
    }
}

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
    let role = Role::of(params);
    let slots = Slots::own(scratch);
    let scratch = scratch.wrapping_add(Slots::WORDS);
    let back = Status::of::<T::Number>(status, params);
    let taken = scratch.wrapping_add(2 * (WARPS as usize + 1)).cast::<u64>();
    let is_shared = params.tiles > 1;
    let tile_len = (u64::from(THREADS) * (VECTORS * V) as u64) as i64;
    // Where tiles wait for each other, who begins first has the lowest number.
    let ask = || match is_shared && thread::thread_idx_x() == 0 {
        // SAFETY: the launch's counter.
        true => unsafe { atomic::atom_add(status, 1, Order::Relaxed, Scope::Gpu) },
        false => 0,
    };
    let told = |answer: u64| {
        // SAFETY: the barriers, here and of the tile between, part its users.
        unsafe {
            if thread::thread_idx_x() == 0 {
                taken.write(answer);
            }
            thread::sync_threads();
            taken.read()
        }
    };
    let rows = u64::from(THREADS >> params.along_log2);
    let mut tile = match is_shared {
        true => told(ask()),
        false => u64::from(thread::block_idx_x()) * rows,
    };
    while tile < params.rows * params.tiles {
        // No copies of all this for what is the same in every turn.
        let (kind, is_exclusive) = (opaque(params.kind), opaque(params.is_exclusive) != 0);
        let is_shared = opaque(u32::from(is_shared)) != 0;
        let (row, i) = match is_shared {
            true => (tile / params.tiles, tile % params.tiles),
            false => (tile + u64::from(role.row), 0),
        };
        let at = |stride: i64| (row as i64).wrapping_mul(stride.wrapping_mul(T::bytes(0))) as isize;
        let place = |i: u64| {
            let from = x.wrapping_offset(at(params.x_row_stride));
            // Vectors lie at multiples of 16 bytes, the row's first one up to a vector before the row.
            let head = (from.addr() % 16) as i64 / T::bytes(0);
            let first = i as i64 * tile_len - head;
            let begin = if i == 0 { head } else { 0 };
            let end = match row < params.rows {
                true => (params.n as i64 - first).min(tile_len),
                false => begin,
            };
            let tile_at = first.wrapping_mul(T::bytes(0)) as isize;
            (role.span(V, begin as i32, end as i32), tile_at)
        };
        // SAFETY: a tile, or rows, of the launch, of which this block is the only one; all threads are
        // here.
        unsafe {
            let (span, tile_at) = place(i);
            let from = x.wrapping_offset(at(params.x_row_stride));
            span.load::<T, V>(from.wrapping_offset(tile_at), &slots);
            let totals = totals::<T, V>(&slots, &span, kind);
            let before = of_row(totals, &role, kind, scratch, is_shared, |total| {
                back.before(row, i, total, params, kind)
            });
            // The answer comes while results are on their way.
            let next = ask();
            // Computed again, it took no registers meanwhile.
            let (span, tile_at) = place(i + u64::from(opaque(0)));
            results::<T, V>(&slots, &span, before, kind, is_exclusive);
            let to = y.wrapping_offset(at(params.y_row_stride));
            span.store::<T, V>(to.wrapping_offset(tile_at), &slots);
            tile = match is_shared {
                true => told(next),
                false => {
                    thread::sync_threads();
                    tile + u64::from(thread::grid_dim_x()) * rows
                }
            };
        }
    }
}

/// Elements of vector `u`: what is before the row changes nothing.
///
/// # Safety
/// The slots are written.
#[inline(always)]
unsafe fn elements<T: Stored<V, Number: Number>, const V: usize>(
    slots: &Slots,
    u: usize,
    span: &Span,
    kind: u32,
) -> [T::Number; V] {
    // SAFETY: passed on to the caller.
    let raw = unsafe { slots.read(u) };
    core::array::from_fn(|v| match u == 0 && span.first + (v as i32) < span.begin {
        true => neutral(kind),
        false => T::number(raw, v),
    })
}

/// What the elements of each vector come to.
///
/// # Safety
/// The slots are written.
#[inline(always)]
unsafe fn totals<T: Stored<V, Number: Number>, const V: usize>(
    slots: &Slots,
    span: &Span,
    kind: u32,
) -> [T::Number; VECTORS] {
    let mut totals = [neutral(kind); VECTORS];
    by_kind!(kind, |op| {
        let mut u = opaque(0) as usize; // no copies
        while u < opaque(VECTORS as u32) as usize {
            let more: [T::Number; AT_ONCE] = core::array::from_fn(|i| {
                // SAFETY: passed on to the caller.
                let xs = unsafe { elements::<T, V>(slots, u + i, span, kind) };
                let mut total = xs[0];
                for &x in &xs[1..] {
                    total = op(total, x);
                }
                total
            });
            // A loop has no register by number: what comes next is put behind the others.
            totals = core::array::from_fn(|i| match i + AT_ONCE < VECTORS {
                true => totals[i + AT_ONCE],
                false => more[i + AT_ONCE - VECTORS],
            });
            u += AT_ONCE;
        }
    });
    totals
}

/// Puts the results into the slots, given what comes before the vectors.
///
/// # Safety
/// The slots are written.
#[inline(always)]
unsafe fn results<T: Stored<V, Number: Number>, const V: usize>(
    slots: &Slots,
    span: &Span,
    before: [T::Number; VECTORS],
    kind: u32,
    is_exclusive: bool,
) {
    by_kind!(kind, |op| {
        let mut before = before;
        let mut u = opaque(0) as usize; // no copies
        while u < opaque(VECTORS as u32) as usize {
            // SAFETY: passed on to the caller.
            let xs = unsafe { elements::<T, V>(slots, u, span, kind) };
            let mut sum = before[0];
            let ys = xs.map(|x| {
                let before = sum;
                sum = op(sum, x);
                if is_exclusive { before } else { sum }
            });
            // SAFETY: as above.
            unsafe { slots.write(u, T::packed(ys)) };
            // What comes next moves to the front: a loop has no register by number.
            before = core::array::from_fn(|i| before[(i + 1) % VECTORS]);
            u += 1;
        }
    });
}

/// What comes before each of the thread's vectors, given their totals, and, by `before`, what comes
/// before a tile of a total.
///
/// # Safety
/// All threads of the block are here; `scratch` is for this alone.
#[inline(always)]
unsafe fn of_row<N: Number>(
    totals: [N; VECTORS],
    role: &Role,
    kind: u32,
    scratch: *mut u32,
    is_shared: bool,
    before: impl FnOnce(N) -> N,
) -> [N; VECTORS] {
    // SAFETY: passed on to the caller; slots of warps, parted by barriers.
    unsafe {
        let inclusive = of_lanes(totals, role, kind);
        let last = (thread::lane_idx() & !(role.lanes - 1)) + role.lanes - 1;
        let wholes: [N; VECTORS] =
            core::array::from_fn(|u| warp::shfl_idx(warp::FULL_MASK, inclusive[u], last));
        let below: [N; VECTORS] = core::array::from_fn(|u| {
            let below = warp::shfl_up(warp::FULL_MASK, inclusive[u], 1);
            if role.lane == 0 { neutral(kind) } else { below }
        });
        let (exclusive, sum) = by_kind!(kind, |op| {
            let mut sum = neutral(kind);
            let exclusive: [N; VECTORS] = core::array::from_fn(|u| {
                let before = op(sum, below[u]);
                sum = op(sum, wholes[u]);
                before
            });
            (exclusive, sum)
        });
        let warps = role.warps;
        if warps == 1 {
            return exclusive;
        }
        let slots = scratch.cast::<N>();
        let of_block = thread::thread_idx_x() / thread::WARP_THREADS;
        if role.lane == 0 {
            slots.add(of_block as usize).write(sum);
        }
        thread::sync_threads();
        let first = slots.add((of_block - role.warp) as usize);
        let (mut of_warp, mut total) = (neutral(kind), neutral(kind));
        let mut w = 0;
        while w < opaque(warps) {
            of_warp = if w == role.warp { total } else { of_warp };
            total = combined(total, first.add(w as usize).read(), kind);
            w += 1;
        }
        if is_shared {
            let of_tile = slots.add(WARPS as usize);
            if of_block == 0 {
                of_tile.write(before(total));
            }
            thread::sync_threads();
            of_warp = combined(of_tile.read(), of_warp, kind);
        }
        all_combined([of_warp; VECTORS], exclusive, kind)
    }
}

/// Accumulated over the lanes of the row.
///
/// # Safety
/// All lanes of the warp are here.
#[inline(always)]
unsafe fn of_lanes<N: Number>(xs: [N; VECTORS], role: &Role, kind: u32) -> [N; VECTORS] {
    let mut xs = xs;
    let mut apart = 1;
    while apart < opaque(role.lanes) {
        // SAFETY: passed on to the caller.
        let below: [N; VECTORS] =
            core::array::from_fn(|u| unsafe { warp::shfl_up(warp::FULL_MASK, xs[u], apart) });
        let sums = all_combined(below, xs, kind);
        for u in 0..VECTORS {
            xs[u] = if role.lane >= apart { sums[u] } else { xs[u] };
        }
        apart *= 2;
    }
    xs
}
