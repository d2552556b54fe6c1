//! Adds the rows of few indices, in one launch and without a sort.
//!
//! A warp has a position and 32 columns at a time. The chain of waits is short: a block's indices
//! are read at once, together with the row of the warp's own position.

use core::num::NonZero;

use abi::scatter_add::{AddParams, FEW, FINISH_THREADS, GROUP, PART};
use cuda_std::hint::opaque;
use cuda_std::param::ByValue;
use cuda_std::warp::{self, FULL_MASK};
use cuda_std::{kernel, mem, shared_array, thread};

use super::any_vector::AnyVector;
use super::pairs::{indices_at, offsets};
use crate::rank::{lane_idx, warp_idx};
use crate::reduce::load::Raw;

/// Rows on their way to a thread at a time.
const AT_ONCE: usize = 2;

/// Words of a list that are compared at a time.
const WORDS: u32 = 2;

/// For up to so many indices, a warp reads its own row before it has found out whether it is the
/// first. That is a wait less, and a row may be read twice.
const EARLY: u32 = 256;

/// What no index in range is.
const NONE: u32 = u32::MAX;

type Sums = [f32; 8];

/// What changes no sums.
const NOTHING: Sums = [-0.0; 8];

const LANES: u32 = thread::WARP_THREADS;

/// Shared memory of a block.
#[derive(Clone, Copy)]
struct Shared {
    /// All indices.
    list: *mut u32,
    /// Of each warp, the positions that have its index: a word of 32 for each lane.
    equal: *mut u32,
    /// Of each warp, its index, if it has a segment of several parts.
    longs: *mut u32,
    /// Of each warp, the positions of the rows that it adds, in order.
    slots: *mut u32,
    /// The sums of parts.
    numbers: *mut f32,
}

/// The positions of a list that have this index, a word of 32 for each lane; and their number.
///
/// # Safety
/// The list has `words` words, a multiple of [`WORDS`]; all lanes are here.
#[inline(always)]
unsafe fn equal(list: *const u32, words: u32, own: u32) -> (u32, u32) {
    let lane = lane_idx();
    let (mut equal, mut count, mut first) = (0, 0, 0);
    while first < words {
        for j in 0..WORDS {
            let slot = (first + j) * LANES + lane;
            // SAFETY: passed on to the caller.
            let word = unsafe {
                let is_equal = list.add(slot as usize).read() == own;
                warp::vote_ballot(FULL_MASK, is_equal)
            };
            if lane == first + j {
                equal = word;
            }
            count += word.count_ones();
        }
        first = opaque(first) + WORDS;
    }
    (equal, count)
}

/// Writes the positions of a part in order, from a word of 32 positions for each lane. Returns how
/// many the part has, if it has any.
///
/// # Safety
/// There is room for [`PART`]; all lanes are here.
#[inline(always)]
unsafe fn put_part(positions: u32, part: u32, room: *mut u32) -> u32 {
    let (own, lane) = (positions.count_ones(), lane_idx());
    let (mut end, mut delta) = (own, 1);
    // SAFETY: passed on to the caller; a rank is one position's. No lane writes while another
    // reads.
    unsafe {
        while delta < LANES {
            let before = warp::shfl_up(FULL_MASK, end, delta);
            if lane >= delta {
                end += before;
            }
            delta = opaque(delta) * 2;
        }
        let (mut rank, mut rest) = (end - own, positions);
        while rest != 0 {
            if rank / PART == part {
                let position = lane * LANES + rest.trailing_zeros();
                room.add((rank % PART) as usize).write(position);
            }
            rest &= rest - 1;
            rank += 1;
        }
        warp::bar_warp_sync(FULL_MASK);
        let all = warp::shfl_idx(FULL_MASK, end, LANES - 1);
        all.saturating_sub(part * PART).min(PART)
    }
}

/// What comes after the rows of a share.
struct After {
    /// Whether the share is one part of several, the sum of which is the warp's if `is_mine`.
    is_part: bool,
    is_mine: bool,
    /// Room for the sums of parts.
    numbers: *mut f32,
    /// The elements of y.
    old: Raw,
}

/// The sums of the rows of the first `count` of these positions, one after the other, then of
/// parts, and then of what is in y. The first row is `early`, if there is that.
///
/// # Safety
/// The positions have rows, and all lanes have the same; as for [`over_parts`].
#[inline(always)]
unsafe fn sums(
    elements: AnyVector,
    (slots, count): (*const u32, u32),
    (early, mut is_early): (Raw, bool),
    (src, is_there): (*const u8, bool),
    after: &After,
) -> Sums {
    let (mut sums, mut rank) = (NOTHING, 0);
    loop {
        let is_last = rank >= count;
        let mut raws = [after.old, [elements.nothing(); 4]];
        // SAFETY: passed on to the caller. Beyond the last row the last, which is not read there.
        unsafe {
            if is_last {
                if after.is_part {
                    sums = over_parts(sums, after.is_mine, after.numbers);
                }
            } else {
                let slots = core::array::from_fn(|j| {
                    let rank = (rank + j as u32).min(count - 1);
                    slots.add(rank as usize).read()
                });
                let of_rows = offsets::<0, 1, AT_ONCE>(&elements.0.positions, slots);
                raws = core::array::from_fn(|j| {
                    let is_read = j == 0 && is_early;
                    let is_there = is_there & (rank + (j as u32) < count) & !is_read;
                    elements.row(src.wrapping_offset(of_rows[j][1] as isize), is_there)
                });
                if is_early {
                    raws[0] = early;
                }
                is_early = false;
            }
        }
        sums = elements.plus(sums, raws);
        if is_last {
            return sums;
        }
        rank += AT_ONCE as u32;
    }
}

/// What a warp has of a segment.
struct Share {
    index: u32,
    /// Positions of its rows, a word of 32 for each lane, of which it adds this part.
    positions: u32,
    part: u32,
    /// Whether the sum is the warp's to add to y.
    is_mine: bool,
}

/// The warp's own segment, of which it has no positions if it is another's, or one of several
/// parts; and which warps' segments have several.
///
/// # Safety
/// As for [`scatter_add_few`]; the block's list is written; all threads of the block are here.
#[inline(always)]
unsafe fn segments(position: u32, shared: Shared, params: &AddParams) -> (Share, u32) {
    let (lane, warp, warps) = (lane_idx(), warp_idx(), thread::block_dim_x() / LANES);
    // SAFETY: passed on to the caller; a barrier is between writes and reads.
    unsafe {
        // A block's last positions may be beyond the last index: there the list has none.
        let index = shared.list.add(position as usize).read();
        let (mut positions, count) = equal(shared.list, 2 * warps, index);
        // The own position is one of them, so neither word is 0.
        let words = warp::vote_ballot(FULL_MASK, positions != 0);
        let of_first = NonZero::new_unchecked(words).trailing_zeros();
        let word = warp::shfl_idx(FULL_MASK, positions, of_first);
        let in_word = NonZero::new_unchecked(word).trailing_zeros();
        let is_first = of_first * LANES + in_word == position;
        let mut is_mine = is_first & (index < params.extent);
        let mut longs = 0;
        if params.positions.len > PART {
            shared
                .equal
                .add((warp * LANES + lane) as usize)
                .write(positions);
            let is_long = is_mine & (count > PART);
            is_mine &= !is_long;
            if lane == 0 {
                let index = if is_long { index } else { NONE };
                shared.longs.add(warp as usize).write(index);
            }
            thread::sync_threads();
            let is_long = lane < warps && shared.longs.add(lane as usize).read() != NONE;
            longs = warp::vote_ballot(FULL_MASK, is_long);
        }
        if !is_mine {
            positions = 0;
        }
        let share = Share {
            index,
            positions,
            part: 0,
            is_mine,
        };
        (share, longs)
    }
}

/// The sum of the parts of a block's warps, in the warp whose segment it is.
///
/// # Safety
/// All threads of the block are here; there is room for the sums of each, which is aligned to 16
/// bytes.
#[inline(always)]
unsafe fn over_parts(own: Sums, is_mine: bool, numbers: *mut f32) -> Sums {
    let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    let mut sums = NOTHING;
    // SAFETY: passed on to the caller; barriers are between writes and reads.
    unsafe {
        let [a, b, c, d, e, f, g, h] = own;
        let at = numbers.add(thread as usize * NOTHING.len());
        mem::st_v4_f32(at, [a, b, c, d]);
        mem::st_v4_f32(at.add(4), [e, f, g, h]);
        thread::sync_threads();
        let mut other = lane_idx();
        while is_mine && other < threads {
            // What has no rows changes nothing.
            let at = numbers.add(other as usize * NOTHING.len());
            let (low, high) = (mem::ld_v4_f32(at), mem::ld_v4_f32(at.add(4)));
            for v in 0..4 {
                sums[v] += low[v];
                sums[v + 4] += high[v];
            }
            other = opaque(other) + LANES;
        }
        thread::sync_threads();
    }
    sums
}

/// Adds rows of f32, f16 or bf16 by few indices, by vectors: a block the segments of which its
/// positions are the first, and all together those of several parts.
///
/// # Safety
/// Launched as `abi::scatter_add` says, with tensors of these extents and strides.
#[kernel(max_threads = FINISH_THREADS)]
pub unsafe fn scatter_add_few(
    indices: *const u8,
    src: *const u8,
    y: *mut u8,
    params: ByValue<AddParams, 928>,
    index_bytes: u32,
) {
    let params = &*params;
    let elements = AnyVector(params);
    let words = shared_array![u32; (2 * FEW + FINISH_THREADS + GROUP) as usize];
    let shared = Shared {
        list: words,
        slots: words.wrapping_add(FEW as usize),
        equal: words.wrapping_add(2 * FEW as usize),
        longs: words.wrapping_add((2 * FEW + FINISH_THREADS) as usize),
        numbers: shared_array![f32; FINISH_THREADS as usize * NOTHING.len()],
    };
    let (lane, warp, thread) = (lane_idx(), warp_idx(), thread::thread_idx_x());
    let (threads, len) = (thread::block_dim_x(), params.positions.len);
    let (group, of_row) = params.warps.div_rem(thread::block_idx_x());
    let position = group * (threads / LANES) + warp;
    let slots = [position, thread, thread + threads];
    let at = offsets::<1, 2, 3>(&params.positions, slots.map(|slot| slot.min(len - 1)));
    // SAFETY: the launch's promise. An element of y is one thread's, of the warp whose position is
    // the first; a barrier is between two uses of shared memory. All lanes of a warp have the same
    // position, and all threads of the block the same segments of several parts.
    unsafe {
        let of_list = [at[1][1], at[2][1]];
        let found = indices_at(indices, of_list, index_bytes, (params.extent, params.wrap));
        let column = of_row * LANES + lane;
        // Beyond the last one the last, which is not used there.
        let last = params.columns.len - 1;
        let [[of_y, of_src]] = offsets::<0, 1, 1>(&params.columns, [column.min(last)]);
        let (y, is_there) = (y.wrapping_offset(of_y as isize), column <= last);
        let src = src.wrapping_offset(of_src as isize);
        let mut is_early = (len <= EARLY) & (position < len);
        let early = elements.row(src.wrapping_offset(at[0][0] as isize), is_early & is_there);
        for j in 0..2 {
            let index = if slots[1 + j] < len { found[j] } else { NONE };
            shared.list.add(slots[1 + j] as usize).write(index);
        }
        thread::sync_threads();
        let (mut share, mut longs) = segments(position, shared, params);
        let room = shared.slots.add((warp * PART) as usize);
        let mut is_part = false;
        loop {
            let row = i64::from(share.index).wrapping_mul(params.y_stride);
            let (at, is_mine) = (y.wrapping_offset(row as isize), share.is_mine & is_there);
            let old = mem::ld_global_v4_u32_if(at.cast(), is_mine);
            let count = put_part(share.positions, share.part, room);
            let after = After {
                is_part,
                is_mine: share.is_mine,
                numbers: shared.numbers,
                old,
            };
            let (early, from) = ((early, is_early), (src, is_there));
            let sums = sums(elements, (room, count), early, from, &after);
            if is_mine {
                mem::st_global_v4_u32(at.cast(), elements.packed(sums));
            }
            if longs == 0 {
                return;
            }
            let of_warp = longs.trailing_zeros();
            longs &= longs - 1;
            (is_part, is_early) = (true, false);
            share = Share {
                index: shared.longs.add(of_warp as usize).read(),
                positions: shared.equal.add((of_warp * LANES + lane) as usize).read(),
                part: warp,
                is_mine: of_warp == warp,
            };
            // All have read the positions before.
            warp::bar_warp_sync(FULL_MASK);
        }
    }
}
