//! Rows of whole vectors: which are short, small or long, and how many parts long ones have.

use super::super::{BATCH, ReduceView, THREADS, TICKETS, Variant};
use super::cut::{at_least_one, capped};
use super::{ITEMS, LINE_VECTORS, ROWS_WHOLE, ReducePlan};

/// Fewest vectors of a row that is worth a block, if there are many rows.
const LONG_VECTORS: u64 = 1024;

/// Most vectors of a single row that one block has alone: several blocks are not done sooner.
pub(super) const ALONE_VECTORS: u64 = 4096;

/// Most vectors of a single row (1 MiB) that is cut into so few parts that a thread block cluster
/// has them all. Where there are no clusters the parts are the same, so the bits are too.
pub(super) const CLUSTER_VECTORS: u64 = 65_536;

/// Most vectors of a single row for which a cluster of the size that every device with clusters has
/// (8 blocks) is enough.
const SMALL_CLUSTER_VECTORS: u64 = 16_384;

/// Fewest vectors of a part in a cluster: four a thread, which are in flight together.
pub(super) const CLUSTER_PART_VECTORS: u64 = 1024;

/// Longest rows that are not split if there are many, in batches of a block (64 KiB).
const WHOLE_BATCHES: u64 = 2;

/// From this number of long rows on, those of [`WHOLE_BATCHES`] are not split.
const LONG_ROWS: u64 = 2048;

/// Fewest parts of all long rows together, if a part has at least one batch.
const LONG_PARTS: u64 = 4096;

/// Most vectors of a part of a long row (128 KiB). Where blocks that run together read what lies
/// close together, an H100 takes less time: 0.5 % with 256 KiB instead of 1 MiB, 2 to 3 % with one
/// batch (32 KiB). An H200 takes least with 96 to 160 KiB, up to 5 % more with 64 and 10 with 32.
const PART_VECTORS: u64 = 8192;

/// Most parts of all long rows together, for the memory and the tickets that they take; beyond
/// 512 GiB, parts get longer.
const MAX_PARTS: u64 = 1 << 22;

/// Most parts of a long row that one block merges alone.
const SECTIONED: u64 = 4096;

/// Parts of a section, if a row has more than [`SECTIONED`].
const SECTION: u64 = 512;

/// Most vectors of a short row. Longer rows are worth what an item costs.
const SHORT_VECTORS: u64 = 16;

/// With fewer short rows, the launch itself takes as long.
const SHORT_ROWS: u64 = 1024;

/// Vectors that a thread has of a small row.
pub const SMALL_VECTORS_OF_THREAD: u64 = 4;

/// Most vectors of a small row.
const SMALL_VECTORS: u64 = SMALL_VECTORS_OF_THREAD * THREADS as u64;

/// Most rows that are small: as many blocks as run at the same time.
const SMALL_ROWS: u64 = 1056;

/// Times that a thread takes short rows of 16-bit elements, of which fewer blocks share an SM.
const SHORT_TURNS: u64 = 2;

/// Short rows whose vectors a thread has in flight at a time.
pub const SHORT_ROWS_OF_THREAD: u64 = 8;

// The kernel of bf16 lets the last warp begin further back, so that all of its rows are there.
const _: () = assert!(
    SHORT_ROWS >= 32 * SHORT_ROWS_OF_THREAD,
    "as many rows as a warp takes at a time"
);

impl ReducePlan {
    /// Rows of whole vectors, of which a block has one or a part: [`LONG_PARTS`] of all rows
    /// together, of at least `batches` batches and at most [`PART_VECTORS`]. A single row of medium
    /// length gets parts for a cluster.
    pub(super) const fn long(view: &ReduceView, lanes: u64, batches: u64) -> Option<Self> {
        let vectors = view.n / lanes;
        let batch = THREADS as u64 * BATCH as u64;
        let is_alone = view.outer == 1 && vectors <= ALONE_VECTORS;
        if vectors < LONG_VECTORS && !is_alone {
            return None;
        }
        let is_whole = view.outer >= LONG_ROWS && vectors <= WHOLE_BATCHES * batch;
        let of_part = if is_alone || is_whole || view.outer > TICKETS as u64 {
            vectors
        } else if view.outer == 1 && vectors <= CLUSTER_VECTORS {
            let parts = cluster_parts(vectors);
            vectors.div_ceil(parts).next_multiple_of(LINE_VECTORS)
        } else if view.outer.saturating_mul(vectors.div_ceil(batch / 2)) <= ITEMS {
            batch / 2
        } else {
            let parts = at_least_one(LONG_PARTS / view.outer);
            let even = vectors.div_ceil(parts).next_multiple_of(batch);
            let part = match (even < batches * batch, even > PART_VECTORS) {
                (true, _) => batches * batch,
                (_, true) => PART_VECTORS,
                _ => even,
            };
            let least = vectors.div_ceil(MAX_PARTS / view.outer);
            if least > part {
                least.next_multiple_of(batch)
            } else {
                part
            }
        };
        let chunks = vectors.div_ceil(of_part);
        let blocks = view.outer.saturating_mul(chunks);
        if blocks > i32::MAX as u64 || view.outer == 0 {
            return None;
        }
        Some(Self {
            along: THREADS,
            across: 1,
            is_across: false,
            rows: ROWS_WHOLE,
            variant: Variant::Long,
            chunks,
            chunk_len: of_part * lanes,
            width: 1,
            groups: view.outer,
            parts: chunks,
            section: if chunks > SECTIONED { SECTION } else { chunks },
            blocks: blocks as u32,
        })
    }

    /// Few rows of whole vectors, of which a thread has up to [`SMALL_VECTORS_OF_THREAD`].
    pub(super) const fn small(view: &ReduceView, lanes: u64) -> Option<Self> {
        let vectors = view.n / lanes;
        let is_short = vectors <= SHORT_VECTORS && view.outer >= SHORT_ROWS;
        let is_small = vectors <= SMALL_VECTORS && view.outer >= 1 && view.outer <= SMALL_ROWS;
        if !is_small || is_short {
            return None;
        }
        let threads = vectors
            .div_ceil(SMALL_VECTORS_OF_THREAD)
            .next_power_of_two();
        let threads = if threads < 32 { 32 } else { threads };
        Some(Self::whole_rows(view, Variant::Small, threads, view.outer))
    }

    /// Many rows of so few vectors that a thread has at most one.
    pub(super) const fn short(view: &ReduceView, lanes: u64) -> Option<Self> {
        let vectors = view.n / lanes;
        let is_few = vectors >= 1 && vectors <= SHORT_VECTORS;
        if !(is_few && view.outer >= SHORT_ROWS) {
            return None;
        }
        let along = vectors.next_power_of_two();
        let turns = if lanes >= 8 { SHORT_TURNS } else { 1 };
        let per_block = turns * SHORT_ROWS_OF_THREAD * THREADS as u64 / along;
        let blocks = view.outer.div_ceil(per_block);
        Some(Self::whole_rows(view, Variant::Short, along, blocks))
    }

    /// Rows of whole vectors that nobody cuts, with `along` threads each.
    const fn whole_rows(view: &ReduceView, variant: Variant, along: u64, blocks: u64) -> Self {
        Self {
            along: along as u32,
            across: 1,
            is_across: false,
            rows: ROWS_WHOLE,
            variant,
            chunks: 1,
            chunk_len: view.n,
            width: 1,
            groups: view.outer,
            parts: 1,
            section: 1,
            blocks: capped(blocks, i32::MAX as u32),
        }
    }
}

/// Parts of a single row of medium length: a power of two, as cluster sizes are.
const fn cluster_parts(vectors: u64) -> u64 {
    if vectors > SMALL_CLUSTER_VECTORS {
        16
    } else if vectors >= 8 * CLUSTER_PART_VECTORS {
        8
    } else {
        4
    }
}
