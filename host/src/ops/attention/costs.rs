//! Constants of the cost model that were fitted to measurements.

use crate::ops::plan::costs;

costs! {
    /// Attention.
    AttentionCosts {
        /// Clock that all devices are assumed to have, in cycles a nanosecond.
        clock_ghz: f64 = 1.5,
        /// Speed of the portable kernels: half the peak of 128 lanes.
        simt_flops: f64 = 128.0,
        /// Speed on Turing: half of its tensor cores' peak.
        sm75_flops: f64 = 512.0,
        /// Speed by `mma.sync`: half of the tensor cores' peak on sm_80.
        sm80_flops: f64 = 1024.0,
        /// Speed by `wgmma`: 2,829 cycles for a block of 128 keys with 128 queries, head_dim 128.
        sm90_flops: f64 = 2800.0,
        /// Relative time per pair of a query and a key in the tile with fewer queries.
        short_tile_time: f64 = 1.16,
        /// A packed kernel is chosen if its estimate is below this fraction of the other kernel's.
        packing_pays: f64 = 0.8,
        /// L2 bandwidth of one SM, in bytes a cycle.
        block_bytes_per_cycle: f64 = 48.0,
        /// L2 bandwidth of all SMs together, in bytes a cycle (measured: 5.4 TB/s).
        l2_bytes_per_cycle: f64 = 3000.0,
        /// Memory bandwidth, in bytes a cycle (copies: 4.3 TB/s).
        memory_bytes_per_cycle: f64 = 2400.0,
        /// Cycles of a tile until its first keys arrive, and from its last keys until its results are
        /// written.
        tile_cycles: f64 = 3000.0,
        /// Cycles of the launch of the merge, which waits for all of the first launch.
        merge_cycles: f64 = 5000.0,
        /// Bytes of partial results per cycle, from their writing to the end of the merge.
        /// Measured: 0.4 us for a split of 512 KiB, which is written and read (2,048 keys and 16
        /// queries of 64 heads on 8).
        merge_bytes_per_cycle: f64 = 1500.0,
        /// Kernels for few queries: memory bandwidth.
        decode_bytes_per_ns: f64 = 4200.0,
        /// The same: bandwidth that one block can have, beside few others.
        decode_block_bytes_per_ns: f64 = 40.0,
        /// The same: time until the first keys arrive, and from the last ones until results are
        /// written.
        decode_block_ns: f64 = 1500.0,
        /// The same: time of the merge.
        decode_merge_ns: f64 = 2500.0,
        /// The same: time of each part of the merge.
        decode_part_ns: f64 = 40.0,
    }
}
