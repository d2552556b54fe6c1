//! The sizes at which forms of kernels pay.

use crate::ops::plan::costs;

costs! {
    /// Reductions: the sizes from which on a form of kernel pays, and numbers of blocks. A vector has
    /// 16 bytes.
    ReduceCosts {
        /// Items that keep all SMs busy to the end: two for each block that runs at the same time.
        items: u64 = 528,
        /// The same for items with many columns each, whose parts cost more to merge.
        wide_items: u64 = 264,
        /// Most blocks of a grid; with more items, they loop.
        blocks: u64 = 16_384,
        /// Most blocks if warps or threads finish items by themselves: with more, there would only be
        /// more block starts.
        own_blocks: u64 = 528,
        /// Fewest vectors of a thread for which another block is worth it; with fewer, merging costs
        /// more.
        vectors_of_thread: u64 = 8,
        /// Fewest units of an axis that is split: one block alone is done sooner than several whose
        /// results the last one merges.
        units: u64 = 6,
        /// Most vectors of a row that one warp has.
        warp_vectors: u64 = 128,
        /// The same, if there are enough rows to keep all warps busy.
        warp_vectors_of_many: u64 = 8_192,
        /// Rows that are enough for that.
        many_rows: u64 = 2_112,
        /// Elements of the axis for each thread along it, of tiles of columns.
        column_elements: u64 = 8,
        /// The same, if there are as many tiles as [`items`](Self::items).
        column_elements_of_many: u64 = 64,
        /// Most rows for which each has a small block: as many blocks as run at the same time.
        small_rows: u64 = 1_056,
        /// Fewest short rows; with fewer, the launch itself takes as long.
        short_rows: u64 = 1_024,
        /// Times that a thread takes short rows of 16-bit elements, of which fewer blocks share an SM.
        short_turns: u64 = 2,
        /// Fewest vectors of a row that is worth a block, if there are many rows.
        long_vectors: u64 = 1_024,
        /// Most vectors of a single row that one block has alone: several blocks are not done sooner.
        alone_vectors: u64 = 4_096,
        /// Most vectors of a single row (1 MiB) that is cut into so few parts that a thread block
        /// cluster has them all. Where there are no clusters the parts are the same, so the bits are
        /// too.
        cluster_vectors: u64 = 65_536,
        /// Most vectors of a single row for which a cluster of the size that every device with
        /// clusters has (8 blocks) is enough.
        small_cluster_vectors: u64 = 16_384,
        /// Fewest vectors of a part in a cluster: four a thread, which are in flight together.
        cluster_part_vectors: u64 = 1_024,
        /// Longest rows that are not split if there are many, in batches of a block (64 KiB).
        whole_batches: u64 = 2,
        /// From this number of long rows on, those of [`whole_batches`](Self::whole_batches) are not
        /// split.
        long_rows: u64 = 2_048,
        /// Fewest parts of all long rows together, if a part has at least one batch.
        long_parts: u64 = 4_096,
        /// Most vectors of a part of a long row (128 KiB). An H100 takes less time where blocks
        /// that run together read neighbouring memory: 0.5 % with 256 KiB instead of 1 MiB, 2 to 3
        /// % with one batch (32 KiB). An H200 takes least with 96 to 160 KiB, up to 5 % more with
        /// 64 and 10 with 32.
        part_vectors: u64 = 8_192,
        /// Most parts of a long row that one block merges alone.
        parts_merged: u64 = 4_096,
        /// Parts of a section, if a row has more than that.
        section: u64 = 512,
        /// Longest columns that a thread has whole.
        whole_column: u64 = 64,
        /// Fewest vectors side by side for that: they fill a large GPU twice.
        whole_columns: u64 = 135_168,
        /// Fewest batches of a thread that has a part of columns that are whole.
        column_batches: u64 = 2,
        /// Most parts of columns for which tiles are as wide as they may be.
        few_parts: u64 = 16,
        /// Blocks over columns that run at the same time at two an SM: the number of parts is chosen
        /// for these, unless there are more tiles anyway. Two an SM read faster than three, if there
        /// are that many.
        column_blocks: u64 = 264,
        /// The same at three an SM.
        column_blocks_of_three: u64 = 396,
        /// Fewest blocks over columns if there are more than that, so that the last wave is a small share.
        /// Its blocks do not wait for others.
        column_blocks_of_many: u64 = 1_584,
    }
}
