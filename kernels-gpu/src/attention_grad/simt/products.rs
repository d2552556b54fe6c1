//! Scores and dP of a tile: products of the vectors of its rows and of its columns.

use cuda_std::hint::opaque;
use cuda_std::thread;

use super::thread_tile::{TILE, ThreadTile};
use super::vectors::Vectors;
use crate::attention::simt::elements::ElementType;
use crate::simt::element::CHUNK;
use crate::simt::operand::{pitch, tile_elements};
use crate::simt::product::{Accumulator, outer_product, read_fragment};

/// Elements of the vectors in a stage.
const TILE_D: usize = 8;

/// f32 elements of an operand's stage.
const OPERAND: usize = tile_elements(TILE, TILE_D);

/// f32 elements of both stages.
pub(super) const ELEMENTS: usize = 4 * OPERAND;

/// Threads that move an operand, each a chunk of every stage.
const THREADS: u32 = (TILE * TILE_D / CHUNK) as u32;

const _: () = assert!(
    2 * THREADS == super::thread_tile::THREADS,
    "half of the threads move the rows, the others the columns"
);

/// `rows[i] . columns[j]` for this thread's pairs of the tile of rows and columns that begin with
/// `starts`: one accumulator each, elements ascending.
///
/// # Safety
/// The vectors can be read. All threads of the block call it together, and none touches the stages
/// between the last barrier before the call and its return, which is behind a barrier.
#[inline(always)]
pub(super) unsafe fn products(
    thread_tile: &ThreadTile,
    (rows, columns): (Vectors, Vectors),
    starts: (u32, u32),
    element: ElementType,
) -> Accumulator<CHUNK, CHUNK> {
    let thread_idx = thread::thread_idx_x();
    let moves_rows = thread_idx < THREADS;
    let in_operand = thread_idx % THREADS;
    let (vector_idx, first) = (in_operand / 2, in_operand % 2 * CHUNK as u32);
    let moved = Vectors::select(&[columns, rows], moves_rows);
    let start = if moves_rows { starts.0 } else { starts.1 };
    let operand = if moves_rows { 0 } else { OPERAND };
    let staged = thread_tile
        .stages()
        .wrapping_add(operand + first as usize * pitch(TILE) + vector_idx as usize);

    let stages = rows.extent.div_ceil(TILE_D as u32);
    let mut acc = [[0.0; CHUNK]; CHUNK];
    let mut step = 0;
    // A pass loads a stage, works on the one before, and puts away what it loaded: so everything is
    // in the code once. The opaque step keeps the first pass from being made a case of its own.
    while step <= stages {
        let element_idx = step * TILE_D as u32 + first;
        // SAFETY: the caller's promise; beyond the last stage nothing is read.
        let chunk = unsafe { moved.chunk(element, start + vector_idx, element_idx) };
        if opaque(step) > 0 {
            let stage = thread_tile.stages().wrapping_add(stage_offset(step - 1));
            let (a, b) = (
                stage.wrapping_add(thread_tile.first_row as usize),
                stage.wrapping_add(OPERAND + thread_tile.first_column as usize),
            );
            for k_idx in 0..TILE_D {
                // SAFETY: staged before the last barrier.
                unsafe {
                    let a = read_fragment::<TILE, CHUNK>(a, k_idx);
                    let b = read_fragment::<TILE, CHUNK>(b, k_idx);
                    outer_product(&mut acc, &a, &b);
                }
            }
        }
        let values = element.widen(chunk);
        let to = staged.wrapping_add(stage_offset(step));
        for idx in 0..CHUNK {
            // SAFETY: within the stage, which was last read before the last barrier; no other
            // thread has this chunk.
            unsafe { to.wrapping_add(idx * pitch(TILE)).write(values[idx]) }
        }
        thread::sync_threads(); // the stage is written
        step += 1;
    }
    acc
}

/// Where a step's stage begins.
#[inline(always)]
fn stage_offset(step: u32) -> usize {
    (step % 2) as usize * 2 * OPERAND
}
