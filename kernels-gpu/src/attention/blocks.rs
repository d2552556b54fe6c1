//! Builds block masks: see [`abi::attention::blocks`]. A warp has a line of indices, a cell, or a line.
//!
//! **Numerics**: integers. The same bits every run: cells that several indices name get the same bits.

use abi::attention::blocks::{
    BlockMarkParams, CELL, FULL, IS_PARTIAL, LineParams, PARTIAL, ShowParams, THREADS, WARPS,
};
use abi::attention::sm90::divided;
use cuda_std::atomic::{Order, Scope, atom_or};
use cuda_std::hint::opaque;
use cuda_std::warp::{FULL_MASK, vote_any, vote_ballot};
use cuda_std::{hole, kernel, thread};

/// The warp's index in the launch, and the lane.
#[inline(always)]
fn warp_and_lane() -> (u32, u32) {
    let thread = thread::thread_idx_x();
    (thread::block_idx_x() * WARPS + thread / 32, thread % 32)
}

/// Sets the cells of blocks by their indices.
///
/// # Safety
/// Launched as [`abi::attention::blocks`] says: indices and cells of these extents.
#[kernel(max_threads = THREADS)]
pub unsafe fn attention_blocks_mark(indices: *const i32, cells: *mut u32, params: BlockMarkParams) {
    let (line, lane) = warp_and_lane();
    if line >= params.lines {
        return;
    }
    let (matrix, q_block) = divided(line, params.q_blocks);
    let first_row = q_block * params.q_cells;
    let end_row = params.rows.min(first_row + params.q_cells);
    let mut i = lane;
    while i < params.count {
        let at = u64::from(line) * u64::from(params.count) + u64::from(i);
        // SAFETY: the caller's promise.
        let block = unsafe { indices.wrapping_add(at as usize).read() } as u32;
        i += 32;
        if block >= params.k_blocks {
            continue;
        }
        let first = block * params.k_cells;
        let end = params.columns.min(first + params.k_cells);
        let mut row = first_row;
        while row < end_row {
            let of_row = u64::from(matrix) * u64::from(params.rows) + u64::from(row);
            let of_row = of_row * u64::from(params.pitch / 4);
            let mut column = first;
            while column < end {
                let at = of_row + u64::from(column / 4);
                let bits = params.value << (column % 4 * 8);
                // SAFETY: a cell of the matrix, which is only accessed atomically.
                unsafe {
                    let word = cells.wrapping_add(at as usize);
                    atom_or(word, bits, Order::Relaxed, Scope::Gpu);
                }
                column += 1;
            }
            row += 1;
        }
    }
}

/// Whether the mask shows a pair.
#[inline(always)]
fn is_shown(batch: u32, head: u32, query: u32, key: u32) -> bool {
    let shown: u32;
    hole!("shown", [shown] <- [batch, head, query, key]);
    shown != 0
}

/// Sets all cells by what the mask shows of each.
///
/// # Safety
/// As [`attention_blocks_mark`].
#[kernel(max_threads = THREADS)]
pub unsafe fn attention_blocks_show(cells: *mut u8, params: ShowParams) {
    let (warp, lane) = warp_and_lane();
    let (line, column) = divided(warp, params.columns);
    let (matrix, row) = divided(line, params.rows);
    if matrix >= params.batch * params.heads {
        return;
    }
    let (batch, head) = divided(matrix, params.heads);
    let (mut shows, mut hides) = (false, false);
    // One pair's code: the mask may be long.
    let mut i = 0;
    while i < opaque(CELL * CELL / 32) {
        let (query, key) = (row * CELL + i / 2, column * CELL + i % 2 * 32 + lane);
        if query < params.seqlen_q && key < params.seqlen_k {
            let shown = is_shown(batch, head, query, key);
            shows |= shown;
            hides |= !shown;
        }
        i += 1;
    }
    // SAFETY: all lanes are here; a warp has its cell.
    unsafe {
        let (shows, hides) = (vote_any(FULL_MASK, shows), vote_any(FULL_MASK, hides));
        let cell = match (shows, hides) {
            (false, _) => 0,
            (true, true) => PARTIAL,
            (true, false) => FULL,
        };
        if lane == 0 {
            let at = u64::from(line) * u64::from(params.pitch) + u64::from(column);
            cells.wrapping_add(at as usize).write(cell as u8);
        }
    }
}

/// Whether some of a block's cells show anything, and whether some do not show all.
///
/// # Safety
/// The line's cells can be read, from `cells` on.
#[inline(always)]
unsafe fn block_of(cells: *const u8, params: &LineParams, line: u32, block: u32) -> (bool, bool) {
    let (mut shows, mut hides) = (false, false);
    let mut row = line * params.line_cells;
    let end_row = params.rows.min(row + params.line_cells);
    let first = block * params.block_cells;
    let end = params.columns.min(first.wrapping_add(params.block_cells));
    while row < end_row {
        let mut column = first;
        while column < end {
            let at = u64::from(row) * u64::from(params.row_bytes)
                + u64::from(column) * u64::from(params.column_bytes);
            // SAFETY: the caller's promise.
            let cell = u32::from(unsafe { cells.wrapping_add(at as usize).read() });
            shows |= cell & (PARTIAL | FULL) != 0;
            hides |= cell & FULL == 0;
            column = opaque(column + 1); // not unrolled: there are few cells
        }
        row += 1;
    }
    (shows, shows && hides)
}

/// Writes the planes of lines.
///
/// # Safety
/// As [`attention_blocks_mark`].
#[kernel(max_threads = THREADS)]
pub unsafe fn attention_blocks_lines(cells: *const u8, planes: *mut u32, params: LineParams) {
    let (warp, lane) = warp_and_lane();
    if warp >= params.matrices * params.lines {
        return;
    }
    let (matrix, line) = divided(warp, params.lines);
    let of_matrix = u64::from(matrix) * u64::from(params.matrix_bytes);
    let cells = cells.wrapping_add(of_matrix as usize);
    let words = u64::from(params.blocks);
    let before = planes.wrapping_add((u64::from(warp) * words) as usize);
    // Computed where it is used: there are few registers.
    let in_plane = |number: u32| {
        let lines = opaque(params.matrices * params.lines) * number;
        before.wrapping_add((u64::from(lines) * u64::from(params.blocks)) as usize)
    };
    let word = |block: u32, partials: u32, at: u32| {
        block
            | if partials & (1 << at) != 0 {
                IS_PARTIAL
            } else {
                0
            }
    };
    let chunks = params.blocks.div_ceil(32);
    // SAFETY: all lanes are here; a warp has its line.
    unsafe {
        let (mut last, mut count, mut chunk) = (0, 0, 0);
        while chunk < chunks {
            let first = chunk * 32;
            let is_there = first + lane < params.blocks;
            let (shows, is_partial) = match is_there {
                true => block_of(cells, &params, line, first + lane),
                false => (false, false),
            };
            let (shown, partials) = (
                vote_ballot(FULL_MASK, shows),
                vote_ballot(FULL_MASK, is_partial),
            );
            let up_to = shown & (u32::MAX >> (31 - lane));
            let at = 31 - (up_to | 1).leading_zeros();
            if is_there {
                let own = if up_to == 0 {
                    last
                } else {
                    word(first + at + 1, partials, at)
                };
                before.wrapping_add((first + lane) as usize).write(own);
                let own = count + up_to.count_ones();
                in_plane(2).wrapping_add((first + lane) as usize).write(own);
            }
            if shown != 0 {
                let at = 31 - shown.leading_zeros();
                last = word(first + at + 1, partials, at);
            }
            count += shown.count_ones();
            chunk += 1;
        }
        let mut next = params.blocks;
        while chunk > 0 {
            chunk -= 1;
            let first = chunk * 32;
            let is_there = first + lane < params.blocks;
            let (shows, is_partial) = match is_there {
                true => block_of(cells, &params, line, first + lane),
                false => (false, false),
            };
            let (shown, partials) = (
                vote_ballot(FULL_MASK, shows),
                vote_ballot(FULL_MASK, is_partial),
            );
            let from = shown & (u32::MAX << lane);
            if is_there {
                let at = from.trailing_zeros() % 32;
                let own = if from == 0 {
                    next
                } else {
                    word(first + at, partials, at)
                };
                in_plane(1).wrapping_add((first + lane) as usize).write(own);
            }
            if shown != 0 {
                let at = shown.trailing_zeros() % 32;
                next = word(first + at, partials, at);
            }
        }
    }
}
