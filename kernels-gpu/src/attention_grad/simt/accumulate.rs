//! A result's part of a tile: P or dS times the vectors of the tile's columns.

use cuda_std::hint::opaque;
use cuda_std::math::fma;
use cuda_std::thread;

use super::band::Band;
use super::thread_tile::{THREADS, TILE, ThreadTile, read_pairs};
use super::vectors::Vectors;
use crate::attention::simt::elements::ElementType;
use crate::simt::element::{CHUNK, F32x4};
use crate::simt::operand::{pitch, tile_elements};
use crate::simt::product::{Accumulator, outer_product, read_fragment};

/// Vectors in a stage, of which each thread moves a chunk.
const fn vectors(cap: usize) -> usize {
    THREADS as usize * CHUNK / cap
}

/// f32 elements of both stages.
pub(super) const fn elements(cap: usize) -> usize {
    2 * tile_elements(cap, vectors(cap))
}

/// `result[i] += sum_j pairs[i][j] * columns[j]` over the columns from `start` on, ascending. If
/// `masked`, pairs that the band hides are left out, so that even a NaN or an infinity there does
/// not matter.
///
/// # Safety
/// The vectors can be read. All threads of the block call it together. The pairs have been written,
/// though there need be no barrier behind that. None touches the stages between the last barrier
/// before the call and its return, which is behind a barrier.
#[inline(always)]
pub(super) unsafe fn accumulate<const CAP: usize, const COLUMNS: usize>(
    result: &mut Accumulator<CHUNK, COLUMNS>,
    thread_tile: &ThreadTile,
    (columns, start): (Vectors, u32),
    (band, masked): (&Band, bool),
    element: ElementType,
) {
    let across = (CAP / CHUNK) as u32;
    let thread_idx = thread::thread_idx_x();
    let (vector_idx, first) = (thread_idx / across, thread_idx % across * CHUNK as u32);
    let staged = thread_tile
        .stages()
        .wrapping_add(vector_idx as usize * pitch(CAP) + first as usize);
    let stage_offset = |step: u32| (step % 2) as usize * tile_elements(CAP, vectors(CAP));

    let stages = band.columns.div_ceil(vectors(CAP) as u32);
    let mut step = 0;
    // As in `products`: everything is in the code once.
    while step <= stages {
        let position = start + step * vectors(CAP) as u32 + vector_idx;
        // SAFETY: the caller's promise; beyond the last vector nothing is read.
        let chunk = unsafe { columns.chunk(element, position, first) };
        if opaque(step) > 0 {
            let stage = thread_tile.stages().wrapping_add(stage_offset(step - 1));
            let stage = stage.wrapping_add(thread_tile.first_column as usize);
            let first_idx = (step - 1) * vectors(CAP) as u32;
            // SAFETY: pairs and stage were written before the last barrier.
            unsafe {
                if masked {
                    add_masked::<CAP, COLUMNS>(result, thread_tile, (stage, first_idx), band);
                } else {
                    add::<CAP, COLUMNS>(result, thread_tile, (stage, first_idx));
                }
            }
        }
        let to = staged.wrapping_add(stage_offset(step)).cast::<F32x4>();
        // SAFETY: within the stage, which was last read before the last barrier; no other thread
        // has this chunk. Pitch and first are multiples of 4.
        unsafe { to.write(F32x4(element.widen(chunk))) };
        thread::sync_threads(); // the stage, and at first the pairs, are written
        step += 1;
    }
}

/// Adds a stage whose first column is the tile's `first_idx`-th.
///
/// # Safety
/// Pairs and stage are written.
#[inline(always)]
unsafe fn add<const CAP: usize, const COLUMNS: usize>(
    result: &mut Accumulator<CHUNK, COLUMNS>,
    thread_tile: &ThreadTile,
    (stage, first_idx): (*const f32, u32),
) {
    // So many that there are 64 multiply-adds between jumps.
    let together = 256 / CAP;
    let mut idx = 0;
    while idx < opaque(vectors(CAP) as u32) {
        for further in 0..together {
            // SAFETY: the caller's promise.
            unsafe {
                let pairs = read_pairs(thread_tile, first_idx + idx + further as u32);
                let vector = read_fragment::<CAP, COLUMNS>(stage, idx as usize + further);
                outer_product(result, &pairs, &vector);
            }
        }
        idx += together as u32;
    }
}

/// [`add`] for the pairs that the band shows.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn add_masked<const CAP: usize, const COLUMNS: usize>(
    result: &mut Accumulator<CHUNK, COLUMNS>,
    thread_tile: &ThreadTile,
    (stage, first_idx): (*const f32, u32),
    band: &Band,
) {
    let mut idx = 0;
    while idx < opaque(vectors(CAP) as u32) {
        // SAFETY: the caller's promise.
        let (pairs, vector) = unsafe {
            (
                read_pairs(thread_tile, first_idx + idx),
                read_fragment::<CAP, COLUMNS>(stage, idx as usize),
            )
        };
        for row in 0..CHUNK {
            if band.shows(thread_tile.first_row + row as u32, first_idx + idx) {
                for column in 0..COLUMNS {
                    result[row][column] = fma(pairs[row], vector[column], result[row][column]);
                }
            }
        }
        idx += 1;
    }
}

const _: () = assert!(TILE.is_multiple_of(vectors(64)) && vectors(256) * 256 == 1024);
