//! The kernel, for any dtype: blocks take tiles in order until there are none, or several rows each.

use cuda_std::atomic::{self, Order, Scope};
use cuda_std::hint::opaque;
use cuda_std::{mem, thread, warp};
use spec::scan::{SCRATCH_BYTES, ScanParams, THREADS, VECTORS};

use super::back::{Status, Tile, WARPS};
use super::tile::{Slots, Span, Stored, all_combined, by_kind, combined};
use crate::reduce::number::Number;

/// Words of shared memory before the slots.
const SCRATCH_WORDS: usize = SCRATCH_BYTES as usize / 4;

/// Tiles that a block knows of, of which it forgets the oldest.
const KNOWN: usize = 4;

/// Shared memory for what threads tell each other.
struct Scratch<N> {
    /// A number of each warp's vectors.
    sums: *mut N,
    /// What comes before a tile: a number of each warp.
    before: *mut N,
    /// The tile of each turn, and its total, which thread 0 alone asks for.
    tiles: *mut Tile,
    totals: *mut N,
}

impl<N> Scratch<N> {
    #[inline(always)]
    fn of(words: *mut u32) -> Self {
        let numbers = |i: usize| words.wrapping_add(2 * i);
        let warps = WARPS as usize;
        Self {
            sums: numbers(0).cast(),
            before: numbers(warps).cast(),
            totals: numbers(2 * warps).cast(),
            tiles: numbers(2 * warps + KNOWN).cast(),
        }
    }

    /// The tile of a turn.
    #[inline(always)]
    fn tile(&self, turn: u32) -> *mut Tile {
        self.tiles.wrapping_add(turn as usize % KNOWN)
    }

    /// Its total.
    #[inline(always)]
    fn total(&self, turn: u32) -> *mut N {
        self.totals.wrapping_add(turn as usize % KNOWN)
    }
}

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
    /// Of a launch. Computed again wherever it is asked for, it takes no registers meanwhile.
    #[inline(always)]
    fn of(params: &ScanParams) -> Self {
        let (thread, along_log2) = (thread::thread_idx_x(), opaque(params.along_log2));
        let lanes = 1 << along_log2.min(5);
        let place = thread & ((1 << along_log2) - 1);
        Self {
            row: thread >> along_log2,
            warp: place / thread::WARP_THREADS,
            warps: 1 << along_log2.saturating_sub(5),
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
struct Launch<'a> {
    x: *const u8,
    y: *mut u8,
    params: &'a ScanParams,
}

impl Launch<'_> {
    /// Where a tile's row begins in x and in y; which vectors of the tile this thread has; and where
    /// the tile is, seen from there.
    #[inline(always)]
    fn place<T: Stored<V>, const V: usize>(&self, tile: &Tile) -> Place {
        let params = self.params;
        let bytes = T::bytes(0);
        let at = |stride: i64| (tile.row as i64).wrapping_mul(stride.wrapping_mul(bytes)) as isize;
        let from = self.x.wrapping_offset(at(params.x_row_stride));
        let to = self.y.wrapping_offset(at(params.y_row_stride));
        // Vectors lie at multiples of 16 bytes, the row's first one up to a vector before the row.
        let head = (from.addr() % 16) as i64 / bytes;
        let tile_len = (u64::from(THREADS) * (VECTORS * V) as u64) as i64;
        let first = tile.i as i64 * tile_len - head;
        let begin = if tile.i == 0 { head } else { 0 };
        let end = match tile.row < params.rows {
            true => (params.n as i64 - first).min(tile_len),
            false => begin,
        };
        let tile_at = first.wrapping_mul(bytes) as isize;
        Place {
            span: Role::of(params).span(V, begin as i32, end as i32),
            from: from.wrapping_offset(tile_at),
            to: to.wrapping_offset(tile_at),
        }
    }
}

/// Where a tile is.
struct Place {
    span: Span,
    from: *const u8,
    to: *mut u8,
}

/// The number of the next tile, to thread 0: who begins first has the lowest.
///
/// # Safety
/// `status` is the launch's, which begins with its counter.
#[inline(always)]
unsafe fn ask(status: *mut u64) -> u64 {
    match thread::thread_idx_x() {
        // SAFETY: passed on to the caller.
        0 => unsafe { atomic::atom_add(status, 1, Order::Relaxed, Scope::Gpu) },
        _ => 0,
    }
}

/// Thread 0 tells which tile has that number.
///
/// # Safety
/// Nobody reads `to`; a barrier comes before somebody does.
#[inline(always)]
unsafe fn tell(to: *mut Tile, number: u64, params: &ScanParams) {
    if thread::thread_idx_x() == 0 {
        let row = match params.rows {
            1 => u64::from(number >= params.tiles),
            _ => number / params.tiles,
        };
        let i = number - row * params.tiles;
        // SAFETY: passed on to the caller.
        unsafe { to.write(Tile { row, i }) };
    }
}

/// # Safety
/// The arrays are those of `params`, the device is of compute capability 8.0 or newer where `IS_SM80`;
/// `shared` is shared memory of [`ScanParams::shared_bytes`].
#[inline(always)]
pub(super) unsafe fn scan<T: Stored<V, Number: Number>, const V: usize, const IS_SM80: bool>(
    x: *const u8,
    y: *mut u8,
    status: *mut u64,
    params: &ScanParams,
    shared: *mut u32,
) {
    let launch = Launch { x, y, params };
    let back = Status::of::<T::Number>(status, params);
    let is_shared = params.tiles > 1;
    let scratch = Scratch::<T::Number>::of(shared);
    let slots = Slots::own(shared.wrapping_add(SCRATCH_WORDS));
    let is_first = thread::thread_idx_x() == 0;
    let rows = u64::from(THREADS >> params.along_log2);
    let (mut base, mut turn) = (u64::from(thread::block_idx_x()) * rows, 0_u32);
    let mut waiting = [T::Number::ZERO; VECTORS];
    // SAFETY: tiles, or rows, of the launch, of which this block is the only one; all threads are here,
    // and barriers part what they do with scratch.
    unsafe {
        if is_shared {
            tell(scratch.tile(0), ask(status), params);
            // Before the first one there is none.
            tell(scratch.tile(u32::MAX), params.rows * params.tiles, params);
            thread::sync_threads();
        }
        loop {
            // No copies of all this for what is the same in every turn.
            let (kind, is_exclusive) = (opaque(params.kind), opaque(params.is_exclusive) != 0);
            let (is_shared, is_late) = (params.tiles > 1, opaque(params.is_late) != 0);
            // Computed again wherever it is asked for.
            let none = || T::neutral(opaque(params.kind));
            // Of several tiles, the one that waits for what comes before it.
            let done = turn.wrapping_sub(u32::from(is_late));
            let mut tile = match is_shared {
                true => scratch.tile(turn).read(),
                false => Tile {
                    row: base + u64::from(Role::of(params).row),
                    i: 0,
                },
            };
            let is_there = match is_shared {
                true => tile.row < params.rows,
                false => base < params.rows,
            };
            if !(is_there || is_shared && scratch.tile(done).read().row < params.rows) {
                break;
            }
            let mut own = slots.other(turn % 2 != 0 && is_late);
            let place = launch.place::<T, V>(&tile);
            place.span.load::<T, V>(place.from, &own, kind);
            let totals = totals::<T, V>(&own, kind);
            let (mut exclusive, total) = of_row(totals, params, kind, none, scratch.sums);
            if is_shared {
                if is_there && is_first {
                    scratch.total(turn).write(total);
                    back.publish(&tile, total);
                }
                let next = ask(status);
                tile = scratch.tile(done).read();
                let is_there = tile.row < params.rows;
                if is_late {
                    // What this tile waits for will be there in the next turn.
                    core::mem::swap(&mut exclusive, &mut waiting);
                    own = slots.other(turn % 2 == 0);
                }
                if is_there {
                    back.gather(&tile, kind, none(), scratch.before);
                }
                tell(scratch.tile(turn.wrapping_add(1)), next, params);
                thread::sync_threads();
                if is_there {
                    let total = scratch.total(done);
                    let before = back.before(&tile, total, kind, scratch.before);
                    exclusive = all_combined([before; VECTORS], exclusive, kind);
                }
            }
            if !is_shared || tile.row < params.rows {
                // Computed again, it took no registers meanwhile.
                tile.i += u64::from(opaque(0));
                let place = launch.place::<T, V>(&tile);
                results::<T, V, IS_SM80>(&own, &place, exclusive, kind, is_exclusive);
                place.span.store_parts::<T, V>(place.to, &own);
            }
            turn = turn.wrapping_add(1);
            base += u64::from(thread::grid_dim_x()) * rows;
            if !is_shared && params.along_log2 > 5 {
                thread::sync_threads();
            }
        }
    }
}

/// Elements of vector `u`.
///
/// # Safety
/// The slot is written.
#[inline(always)]
unsafe fn elements<T: Stored<V, Number: Number>, const V: usize>(
    slots: &Slots,
    u: usize,
) -> [T::Number; V] {
    // SAFETY: passed on to the caller.
    let raw = unsafe { slots.read(u) };
    core::array::from_fn(|v| T::number(raw, v))
}

/// What the elements of each vector come to.
///
/// # Safety
/// The slots are written.
#[inline(always)]
unsafe fn totals<T: Stored<V, Number: Number>, const V: usize>(
    slots: &Slots,
    kind: u32,
) -> [T::Number; VECTORS] {
    let mut totals = [T::Number::ZERO; VECTORS];
    by_kind!(kind, |op| {
        let mut u = opaque(0) as usize; // no copies
        while u < opaque(VECTORS as u32) as usize {
            let more: [T::Number; AT_ONCE] = core::array::from_fn(|i| {
                // SAFETY: passed on to the caller.
                let xs = unsafe { elements::<T, V>(slots, u + i) };
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

/// Writes the results, given what comes before the vectors; those of vectors that are not whole, or not
/// aligned, into the slots.
///
/// # Safety
/// The slots are written, the place is writable.
#[inline(always)]
unsafe fn results<T: Stored<V, Number: Number>, const V: usize, const IS_SM80: bool>(
    slots: &Slots,
    place: &Place,
    before: [T::Number; VECTORS],
    kind: u32,
    is_exclusive: bool,
) {
    let (span, lanes, bytes) = (&place.span, V as i32, T::bytes(0) as isize);
    let to = place.to.wrapping_offset(span.first as isize * bytes);
    let is_aligned = to.addr().is_multiple_of(16);
    by_kind!(kind, |op| {
        let mut before = before;
        let (mut u, mut first, mut to) = (opaque(0) as usize, span.first, to); // no copies
        while u < opaque(VECTORS as u32) as usize {
            // SAFETY: passed on to the caller.
            let xs = unsafe { elements::<T, V>(slots, u) };
            let mut sum = before[0];
            let ys = xs.map(|x| {
                let before = sum;
                sum = op(sum, x);
                if is_exclusive { before } else { sum }
            });
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
            // What comes next moves to the front: a loop has no register by number.
            before = core::array::from_fn(|i| before[(i + 1) % VECTORS]);
            first += span.step;
            to = to.wrapping_offset(span.step as isize * bytes);
            u += 1;
        }
    });
}

/// What comes before each of the thread's vectors in the row's tile, given their totals, and the tile's
/// total.
///
/// # Safety
/// All threads of the block are here; `sums` has a place for each warp, and nobody uses it.
#[inline(always)]
unsafe fn of_row<N: Number>(
    totals: [N; VECTORS],
    params: &ScanParams,
    kind: u32,
    none: impl Fn() -> N,
    sums: *mut N,
) -> ([N; VECTORS], N) {
    // SAFETY: passed on to the caller; slots of warps, parted by a barrier.
    unsafe {
        let role = Role::of(params);
        let inclusive = of_lanes(totals, &role, kind);
        let last = (thread::lane_idx() & !(role.lanes - 1)) + role.lanes - 1;
        let wholes: [N; VECTORS] =
            core::array::from_fn(|u| warp::shfl_idx(warp::FULL_MASK, inclusive[u], last));
        let first = none();
        let below: [N; VECTORS] = core::array::from_fn(|u| {
            let below = warp::shfl_up(warp::FULL_MASK, inclusive[u], 1);
            if role.lane == 0 { first } else { below }
        });
        let (exclusive, sum) = by_kind!(kind, |op| {
            let mut sum = first;
            let exclusive: [N; VECTORS] = core::array::from_fn(|u| {
                let before = op(sum, below[u]);
                sum = op(sum, wholes[u]);
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
            total = combined(total, sums.add(w as usize).read(), kind);
            w += 1;
        }
        (all_combined([of_warp; VECTORS], exclusive, kind), total)
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
