//! The kernel of the sinks' gradients: `d_sink[h] = -sum exp(sink[h] - lse) * delta`, over the
//! queries of head h of all sequences. A query whose lse is -inf contributes 0, whatever its delta
//! is.
//!
//! | entry | arguments | grid |
//! |---|---|---|
//! | [`SINK_ENTRY`] | `sink, lse, delta: *const f32, d_sink: *mut f32, lengths: FlashFwdLengths, params: FlashFwdParams` | `[heads_q, 1, 1]`, with [`SINK_THREADS`] threads |
//!
//! A block has a head. Its threads are divided into teams, a power of two of them: at least as many
//! as there are sequences, but at most one a warp. Team t has sequences t, t + teams and so on. A
//! pass of a team over a sequence takes [`SINK_TOGETHER`] queries a thread, which are as far apart
//! as the team is wide. A thread adds these up, then its passes, in order; the threads are added
//! pairwise.

pub use crate::single::SINK_ENTRY;

/// Threads of a block.
pub const SINK_THREADS: u32 = 1024;

/// Queries of a thread whose lse and delta are loaded before the first of them is needed.
pub const SINK_TOGETHER: u32 = 4;

const WARP_THREADS: u32 = 32;

const WARPS: u32 = SINK_THREADS / WARP_THREADS;

const _: () = assert!(
    SINK_THREADS.is_power_of_two() && WARPS == WARP_THREADS,
    "teams are of whole warps, and one warp adds up those of a block"
);

/// Binary logarithm of the number of teams for `batch` sequences.
#[inline(always)]
pub const fn sink_groups_log2(batch: u32) -> u32 {
    let most = if batch < WARPS { batch } else { WARPS };
    u32::BITS - most.saturating_sub(1).leading_zeros()
}

/// Most roundings of a term of a head's sum, among `batch` sequences of up to `seqlen_q` queries.
/// They are those within a pass, one for each pass of a thread, and those of both trees.
pub const fn sink_additions(batch: u32, seqlen_q: u32) -> u64 {
    let groups_log2 = sink_groups_log2(batch);
    let sequences = batch.div_ceil(1 << groups_log2) as u64;
    let passes = seqlen_q.div_ceil((SINK_THREADS >> groups_log2) * SINK_TOGETHER) as u64;
    sequences * passes + (SINK_TOGETHER + SINK_THREADS.ilog2()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_share_the_block_in_whole_warps() {
        for (batch, groups) in [
            (0, 1),
            (1, 1),
            (2, 2),
            (3, 4),
            (17, 32),
            (32, 32),
            (33, 32),
            (u32::MAX, 32),
        ] {
            assert_eq!(1 << sink_groups_log2(batch), groups, "{batch} sequences");
        }
    }

    #[test]
    fn terms_are_added_few_times_however_many_there_are() {
        assert_eq!(sink_additions(1, 1), 1 + 4 + 10);
        assert_eq!(sink_additions(1, 4097), 2 + 4 + 10);
        assert_eq!(sink_additions(1, 1 << 20), 256 + 4 + 10);
        // Three rounds of 32 sequences, of 5 passes each.
        assert_eq!(sink_additions(70, 520), 15 + 4 + 10);
        assert_eq!(sink_additions(u32::MAX, 1), (1 << 27) + 4 + 10);
    }
}
