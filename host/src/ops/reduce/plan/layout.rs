//! How each form of kernel cuts a reduction, and for which sizes it pays.

use super::super::costs::ReduceCosts;
use super::TICKETS;
use abi::reduce::{
    BATCH, COLUMNS_ACROSS, ROWS_ANY, ROWS_WHOLE, ReducePlan, ReduceView, SHORT_ROWS,
    SHORT_ROWS_OF_THREAD, SHORT_VECTORS, SMALL_VECTORS_OF_THREAD, THREADS, Variant,
};

/// Threads of a block.
const BLOCK: u64 = THREADS as u64;

/// Vectors that a block loads at a time.
const BATCH_VECTORS: u64 = BLOCK * BATCH as u64;

/// Vectors of 128 bytes, a line of the L2 cache: parts in clusters begin where a line does, if the row
/// does.
pub(super) const LINE_VECTORS: u64 = 8;

/// Most parts of all long rows together, for the memory and the tickets that they take; beyond
/// 512 GiB, parts get longer.
const MAX_PARTS: u64 = 1 << 22;

/// A view in vectors of so many elements.
pub(super) struct Cutter<'a> {
    pub(super) view: &'a ReduceView,
    pub(super) lanes: u64,
    pub(super) costs: &'a ReduceCosts,
}

impl Cutter<'_> {
    /// Vectors of a row.
    fn vectors(&self) -> u64 {
        self.view.n / self.lanes
    }

    /// Whether the reduction is over rows of whole vectors.
    fn is_of_rows(&self) -> bool {
        let view = self.view;
        let is_row = view.axis_stride == 1 && view.inner == 1 && view.segments == 1;
        is_row && view.n.is_multiple_of(self.lanes) && self.is_whole(view.outer_stride)
    }

    /// Whether a stride is that of whole vectors.
    fn is_whole(&self, stride: i64) -> bool {
        stride.unsigned_abs().is_multiple_of(self.lanes)
    }

    /// Splits `n` into at most `wanted` chunks of whole units; their number and their length.
    fn cut(&self, unit: u64, wanted: u64) -> (u64, u64) {
        let n = self.view.n;
        let units = n.div_ceil(unit).max(1);
        let wanted = if units < self.costs.units { 1 } else { wanted };
        let len = units.div_ceil(units.min(wanted).max(1)) * unit;
        (n.div_ceil(len).max(1), len)
    }

    /// The general kernel, for any view.
    pub(super) fn general(&self) -> ReducePlan {
        let view = self.view;
        let is_across =
            view.inner > 1 && view.inner_stride.unsigned_abs() < view.axis_stride.unsigned_abs();
        match is_across {
            true => self.across(),
            false => self.along(),
        }
    }

    /// Lanes of a vector lie along the axis.
    fn along(&self) -> ReducePlan {
        let &Self { view, lanes, costs } = self;
        let outputs = view.outer.saturating_mul(view.inner);
        let vectors = view.n.div_ceil(lanes);
        let rows = outputs.saturating_mul(view.segments);
        // If there are enough rows to keep all warps busy, it is cheapest to finish each within a
        // warp.
        let of_warp = match rows >= costs.many_rows {
            true => costs.warp_vectors_of_many,
            false => costs.warp_vectors,
        };
        let along = match vectors > of_warp || view.segments > 1 {
            true => BLOCK,
            false => vectors.div_ceil(BATCH.into()).next_power_of_two().min(32),
        };
        let (chunks, chunk_len) = match along < BLOCK {
            true => (1, view.n.max(1)),
            false => {
                let unit = along * costs.vectors_of_thread * lanes;
                self.cut(unit, wanted(costs.items, rows))
            }
        };
        let parts = view.segments.saturating_mul(chunks);
        ReducePlan {
            along: along as u32,
            across: 1,
            is_across: false,
            rows: match self.is_of_rows() {
                true => ROWS_WHOLE,
                false => ROWS_ANY,
            },
            variant: Variant::General,
            chunks,
            chunk_len,
            width: 1,
            groups: outputs,
            parts,
            section: parts.max(1),
            blocks: match along {
                ..=32 => capped(outputs.div_ceil(BLOCK / along), costs.own_blocks),
                _ => capped(outputs.saturating_mul(parts), costs.blocks),
            },
        }
    }

    /// Lanes of a vector lie along `inner`.
    fn across(&self) -> ReducePlan {
        let &Self { view, lanes, costs } = self;
        let across = view.inner.div_ceil(lanes).next_power_of_two().min(32);
        let width = across * lanes;
        let groups = view.outer.saturating_mul(view.inner.div_ceil(width));
        let most = BLOCK / across;
        let items = groups.saturating_mul(view.segments);
        // Threads along the axis: few enough that each has several batches, but more if there are
        // few blocks.
        let per_thread = match items >= costs.items {
            true => costs.column_elements_of_many,
            false => costs.column_elements,
        };
        let along = match view.segments > 1 || view.n / per_thread >= most {
            true => most,
            false => (view.n / per_thread + 1).next_power_of_two() / 2,
        };
        let along = along.max(1);
        let (chunks, chunk_len) = match along < most {
            true => (1, view.n.max(1)),
            false => {
                let unit = along * 2 * costs.vectors_of_thread;
                self.cut(unit, wanted(costs.wide_items, items))
            }
        };
        let parts = view.segments.saturating_mul(chunks);
        let per_block = most / along;
        ReducePlan {
            along: along as u32,
            across: across as u32,
            is_across: true,
            rows: ROWS_ANY,
            variant: Variant::General,
            chunks,
            chunk_len,
            width,
            groups,
            parts,
            section: parts.max(1),
            blocks: match along {
                1 => capped(groups.div_ceil(per_block), costs.own_blocks),
                _ => capped(
                    groups.saturating_mul(parts).div_ceil(per_block),
                    costs.blocks,
                ),
            },
        }
    }

    /// Few rows of whole vectors, of which a thread has up to [`SMALL_VECTORS_OF_THREAD`]; and whether
    /// that pays.
    pub(super) fn small(&self) -> Option<(ReducePlan, bool)> {
        let (rows, vectors) = (self.view.outer, self.vectors());
        let fits = self.is_of_rows() && vectors <= SMALL_VECTORS_OF_THREAD * BLOCK;
        if !fits || rows == 0 || rows > i32::MAX as u64 {
            return None;
        }
        let is_short = vectors <= SHORT_VECTORS && rows >= self.costs.short_rows;
        let threads = vectors
            .div_ceil(SMALL_VECTORS_OF_THREAD)
            .next_power_of_two();
        let plan = self.whole_rows(Variant::Small, threads.max(32), rows);
        Some((plan, rows <= self.costs.small_rows && !is_short))
    }

    /// Many rows of so few vectors that a thread has at most one; and whether that pays.
    pub(super) fn short(&self) -> Option<(ReducePlan, bool)> {
        let (rows, vectors) = (self.view.outer, self.vectors());
        if !self.is_of_rows() || vectors > SHORT_VECTORS || rows < SHORT_ROWS {
            return None;
        }
        let along = vectors.next_power_of_two();
        let turns = if self.lanes >= 8 {
            self.costs.short_turns
        } else {
            1
        };
        let per_block = turns * SHORT_ROWS_OF_THREAD * BLOCK / along;
        let plan = self.whole_rows(Variant::Short, along, rows.div_ceil(per_block));
        Some((plan, rows >= self.costs.short_rows))
    }

    /// Rows of whole vectors that are not cut, with `along` threads each.
    fn whole_rows(&self, variant: Variant, along: u64, blocks: u64) -> ReducePlan {
        ReducePlan {
            along: along as u32,
            across: 1,
            is_across: false,
            rows: ROWS_WHOLE,
            variant,
            chunks: 1,
            chunk_len: self.view.n,
            width: 1,
            groups: self.view.outer,
            parts: 1,
            section: 1,
            blocks: capped(blocks, i32::MAX as u64),
        }
    }

    /// Rows of whole vectors, of which a block has one or a part; and whether that pays. A part has at
    /// least `batches` batches, but for a single row of medium length, which gets parts for a cluster.
    pub(super) fn long(&self, batches: u64) -> Option<(ReducePlan, bool)> {
        let &Self { view, lanes, costs } = self;
        if !self.is_of_rows() || view.outer == 0 {
            return None;
        }
        let vectors = self.vectors();
        let is_alone = view.outer == 1 && vectors <= costs.alone_vectors;
        let of_part = match is_alone {
            true => vectors,
            false => self.long_part(vectors, batches),
        };
        let chunks = vectors.div_ceil(of_part);
        let blocks = view.outer.saturating_mul(chunks);
        if blocks > i32::MAX as u64 {
            return None;
        }
        let plan = ReducePlan {
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
            section: match chunks > costs.parts_merged {
                true => costs.section,
                false => chunks,
            },
            blocks: blocks as u32,
        };
        Some((plan, vectors >= costs.long_vectors || is_alone))
    }

    /// Vectors of a part of a long row.
    fn long_part(&self, vectors: u64, batches: u64) -> u64 {
        let (rows, costs) = (self.view.outer, self.costs);
        let is_whole = rows >= costs.long_rows && vectors <= costs.whole_batches * BATCH_VECTORS;
        if is_whole || rows > TICKETS as u64 {
            return vectors;
        }
        if rows == 1 && vectors <= costs.cluster_vectors {
            let parts = self.cluster_parts(vectors);
            return vectors.div_ceil(parts).next_multiple_of(LINE_VECTORS);
        }
        let half = BATCH_VECTORS / 2;
        if rows.saturating_mul(vectors.div_ceil(half)) <= costs.items {
            return half;
        }
        let parts = (costs.long_parts / rows).max(1);
        let even = vectors.div_ceil(parts).next_multiple_of(BATCH_VECTORS);
        let part = match even < batches * BATCH_VECTORS {
            true => batches * BATCH_VECTORS,
            false => even.min(costs.part_vectors),
        };
        let least = vectors.div_ceil(MAX_PARTS / rows);
        match least > part {
            true => least.next_multiple_of(BATCH_VECTORS),
            false => part,
        }
    }

    /// Parts of a single row of medium length: a power of two, as cluster sizes are.
    fn cluster_parts(&self, vectors: u64) -> u64 {
        if vectors > self.costs.small_cluster_vectors {
            16
        } else if vectors >= 8 * self.costs.cluster_part_vectors {
            8
        } else {
            4
        }
    }

    /// Columns of whole vectors side by side.
    pub(super) fn columns(&self) -> Option<ReducePlan> {
        let &Self { view, lanes, costs } = self;
        let is_whole = view.inner.is_multiple_of(lanes)
            && self.is_whole(view.axis_stride)
            && self.is_whole(view.outer_stride);
        let vectors = view.inner / lanes;
        let is_column = view.inner_stride == 1 && view.segments == 1;
        if !is_whole || !is_column || vectors < COLUMNS_ACROSS || view.outer == 0 {
            return None;
        }
        let is_whole_column = view.n <= costs.whole_column
            && view.outer.saturating_mul(vectors) >= costs.whole_columns;
        let across = match is_whole_column {
            true => BLOCK,
            false => self.columns_across(vectors),
        };
        let along = BLOCK / across;
        let tiles = view.outer.saturating_mul(vectors.div_ceil(across));
        let (chunks, chunk_len) = match is_whole_column {
            true => (1, view.n),
            false => self.cut(along * u64::from(BATCH), self.columns_parts(tiles)),
        };
        let blocks = tiles.saturating_mul(chunks);
        (blocks <= i32::MAX as u64).then_some(ReducePlan {
            along: along as u32,
            across: across as u32,
            is_across: true,
            rows: ROWS_ANY,
            variant: Variant::Columns,
            chunks,
            chunk_len,
            width: across * lanes,
            groups: tiles,
            parts: chunks,
            section: chunks,
            blocks: blocks as u32,
        })
    }

    /// Vectors along `inner` of a block of columns. The most that leave columns whole, if there are
    /// then two blocks an SM of a large GPU. Else the most that leave them few parts, which are
    /// merged soon.
    fn columns_across(&self, vectors: u64) -> u64 {
        let (view, costs) = (self.view, self.costs);
        let two = costs.column_blocks;
        let (mut across, mut with_few) = (COLUMNS_ACROSS, None);
        while across >= LINE_VECTORS {
            let tiles = view.outer.saturating_mul(vectors.div_ceil(across));
            let batches = costs.column_batches * u64::from(BATCH);
            let is_long = view.n >= batches * (BLOCK / across);
            if tiles <= two && tiles >= two - two / 10 && is_long {
                return across;
            }
            if self.columns_parts(tiles) <= costs.few_parts {
                with_few = with_few.or(Some(across));
            }
            across /= 2;
        }
        with_few.unwrap_or(LINE_VECTORS)
    }

    /// Parts that each of `tiles` tiles of columns is split into.
    fn columns_parts(&self, tiles: u64) -> u64 {
        let (two, three) = (self.costs.column_blocks, self.costs.column_blocks_of_three);
        if tiles > three {
            self.costs.column_blocks_of_many.div_ceil(tiles)
        } else if two % tiles <= two / 10 {
            two / tiles
        } else {
            three / tiles
        }
    }
}

/// Parts that each of `items` items should be split into, for `all` parts in all.
fn wanted(all: u64, items: u64) -> u64 {
    all.checked_div(items).unwrap_or(1)
}

/// A number of blocks from 1 to `most`.
fn capped(blocks: u64, most: u64) -> u32 {
    blocks.clamp(1, most) as u32
}
