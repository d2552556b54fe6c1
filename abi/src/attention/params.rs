//! Extents, strides and scalars of a launch.

use super::lengths::{Positions, Sequence};
use super::mask::{KeyRange, Mask};
use crate::kernel_param;

kernel_param! {
    /// Element strides of a `[batch, seqlen, heads, head_dim]` tensor whose last dimension is
    /// contiguous. A packed tensor, `[total, heads, head_dim]`, has a batch stride of 0.
    #[derive(Debug, PartialEq, Eq, Hash)]
    pub struct BshStrides {
        /// Elements between batches.
        pub batch: i64,
        /// Elements between positions.
        pub seq: i64,
        /// Elements between heads.
        pub head: i64,
    }
}

impl BshStrides {
    /// Offset in the tensor of the first element of a position.
    #[inline(always)]
    pub const fn offset(&self, batch_idx: u32, position: u32, head_idx: u32) -> i64 {
        let batch = (batch_idx as i64).wrapping_mul(self.batch);
        let position = (position as i64).wrapping_mul(self.seq);
        let head = (head_idx as i64).wrapping_mul(self.head);
        batch.wrapping_add(position).wrapping_add(head)
    }
}

kernel_param! {
    /// Extents, strides and scalars of one forward launch.
    #[derive(Debug, PartialEq)]
    pub struct FlashFwdParams {
        /// Strides of q.
        pub q: BshStrides,
        /// Strides of k.
        pub k: BshStrides,
        /// Strides of v.
        pub v: BshStrides,
        /// Strides of o.
        pub o: BshStrides,
        /// Number of sequences.
        pub batch: u32,
        /// Queries a sequence; if lengths vary, at least those of the longest. Below 2^31.
        pub seqlen_q: u32,
        /// Keys a sequence; if lengths vary, at least those of the longest. Below 2^31.
        pub seqlen_k: u32,
        /// Positions of q and o in all, if sequences are packed; else 0.
        pub total_q: u32,
        /// Positions of k and v in all, if sequences are packed; else 0.
        pub total_k: u32,
        /// Query heads; a multiple of `heads_kv`.
        pub heads_q: u32,
        /// Key and value heads.
        pub heads_kv: u32,
        /// Elements of a query and of a key.
        pub head_dim: u32,
        /// Elements of a value.
        pub head_dim_v: u32,
        /// Query i sees key j if `i + shift - window_left <= j <= i + shift + window_right`. The shift
        /// is 0 if `top_left` is 1, and seqlen_k - seqlen_q of the sequence if it is 0.
        /// [`UNLIMITED`](super::UNLIMITED): no bound. Not negative.
        pub window_left: i32,
        /// As `window_left`; 0 is causal.
        pub window_right: i32,
        /// 1 if the mask's diagonal starts in the top-left corner; see `window_left`.
        pub top_left: u32,
        /// Factor of the scores, times log2(e). With a softcap: the softcap times log2(e).
        pub softmax_scale_log2: f32,
        /// 0 if there is no softcap. Otherwise softmax_scale / softcap: a score s becomes
        /// `tanh(s * softcap_scale)` before it is multiplied by `softmax_scale_log2`.
        pub softcap_scale: f32,
        /// [`OutputDType::code`](crate::OutputDType::code) of o.
        pub o_dtype: u32,
        /// 1 to write lse, in f32, natural log, contiguous `[batch, heads_q, seqlen_q]`, or
        /// `[heads_q, total_q]` if queries are packed.
        pub write_lse: u32,
    }
}

impl FlashFwdParams {
    /// Query heads that share a key head; 0 if there are no heads.
    #[inline(always)]
    pub const fn heads_per_kv(&self) -> u32 {
        match self.heads_q.checked_div(self.heads_kv) {
            Some(group) => group,
            None => 0,
        }
    }

    /// The key head that a query head uses.
    #[inline(always)]
    pub const fn head_kv_idx(&self, head_idx: u32) -> u32 {
        match head_idx.checked_div(self.heads_per_kv()) {
            Some(head_kv_idx) => head_kv_idx,
            None => 0,
        }
    }

    /// The mask of a sequence.
    #[inline(always)]
    pub const fn mask(&self, sequence: &Sequence) -> Mask {
        let (seqlen_q, seqlen_k) = (sequence.q.len, sequence.k.len);
        let window = (self.window_left, self.window_right);
        Mask::new(seqlen_q, seqlen_k, window, self.top_left != 0)
    }

    /// A sequence without the keys before the first and behind the last that some of its queries see,
    /// and its mask. Kernels that multiply values by masked probabilities visit no other keys: 0 times
    /// NaN is NaN.
    #[inline(always)]
    pub const fn seen(&self, sequence: &Sequence) -> (Sequence, Mask) {
        let mask = self.mask(sequence);
        let KeyRange { first, end } = mask.keys_of_tile(0, mask.seqlen_q);
        let end = if end < first { first } else { end };
        let k = Positions {
            first: sequence.k.first.wrapping_add(first),
            len: end - first,
        };
        // `first` is 0 or that of the mask.
        let mask = Mask {
            seqlen_k: k.len,
            first: mask.first.wrapping_sub(first as i32),
            end: mask.end.wrapping_sub(first as i32),
            ..mask
        };
        (Sequence { k, ..*sequence }, mask)
    }

    /// Distance in lse of a query to the same query `heads` heads further on.
    #[inline(always)]
    pub const fn lse_stride(&self, heads: u32) -> u64 {
        let positions = if self.total_q != 0 {
            self.total_q
        } else {
            self.seqlen_q
        };
        (heads as u64).wrapping_mul(positions as u64)
    }

    /// Index of the lse of a sequence's first query.
    #[inline(always)]
    pub const fn lse_offset(&self, sequence: &Sequence, head_idx: u32) -> u64 {
        if self.total_q != 0 {
            let head = (head_idx as u64).wrapping_mul(self.total_q as u64);
            return head.wrapping_add(sequence.q.first as u64);
        }
        let head = (sequence.batch_idx as u64)
            .wrapping_mul(self.heads_q as u64)
            .wrapping_add(head_idx as u64);
        head.wrapping_mul(self.seqlen_q as u64)
            .wrapping_add(sequence.q.first as u64)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::UNLIMITED;
    use super::super::lengths::{Positions, SequenceLengths};
    use super::*;

    const NO_STRIDES: BshStrides = BshStrides {
        batch: 0,
        seq: 0,
        head: 0,
    };

    pub(crate) const PARAMS: FlashFwdParams = FlashFwdParams {
        q: NO_STRIDES,
        k: NO_STRIDES,
        v: NO_STRIDES,
        o: NO_STRIDES,
        batch: 2,
        seqlen_q: 5,
        seqlen_k: 7,
        total_q: 0,
        total_k: 0,
        heads_q: 6,
        heads_kv: 2,
        head_dim: 8,
        head_dim_v: 8,
        window_left: UNLIMITED,
        window_right: UNLIMITED,
        top_left: 0,
        softmax_scale_log2: 1.0,
        softcap_scale: 0.0,
        o_dtype: 0,
        write_lse: 0,
    };

    #[test]
    fn query_heads_share_key_heads_in_groups() {
        let heads_kv = |heads_q, heads_kv| {
            let params = FlashFwdParams {
                heads_q,
                heads_kv,
                ..PARAMS
            };
            (0..heads_q).map(move |head_idx| params.head_kv_idx(head_idx))
        };
        assert!(heads_kv(6, 2).eq([0, 0, 0, 1, 1, 1]));
        assert!(heads_kv(2, 1).eq([0, 0]));
        assert!(heads_kv(2, 2).eq([0, 1]));
        assert!(heads_kv(2, 0).eq([0, 0])); // refused by the host, but no trap
    }

    #[test]
    fn lse_lies_by_batch_and_head_or_by_head_alone_where_packed() {
        let sequence = Sequence::new(&PARAMS, 1, &SequenceLengths::NONE);
        assert_eq!(PARAMS.lse_offset(&sequence, 2), (6 + 2) * 5);
        let packed = FlashFwdParams {
            total_q: 9,
            ..PARAMS
        };
        let sequence = Sequence {
            q: Positions { first: 4, len: 5 },
            ..sequence
        };
        assert_eq!(packed.lse_offset(&sequence, 2), 2 * 9 + 4);
    }

    #[test]
    fn offsets_are_exact_beyond_32_bits_and_may_be_negative() {
        let strides = BshStrides {
            batch: 1 << 40,
            seq: -3,
            head: 7,
        };
        assert_eq!(strides.offset(2, 5, 1), (1 << 41) - 15 + 7);
    }

    #[test]
    fn keys_that_some_query_sees_are_masked_as_before() {
        for (seqlen_q, seqlen_k) in [(1, 1), (3, 9), (9, 3), (4, 0), (6, 40)] {
            for (left, right) in [(0, 0), (2, 0), (1, 3), (UNLIMITED, 0), (0, UNLIMITED)] {
                for top_left in [0, 1] {
                    let params = FlashFwdParams {
                        window_left: left,
                        window_right: right,
                        top_left,
                        ..PARAMS
                    };
                    let (first, len) = (7, seqlen_k);
                    let sequence = Sequence {
                        batch_idx: 1,
                        q: Positions {
                            first: 3,
                            len: seqlen_q,
                        },
                        k: Positions { first, len },
                    };
                    let (seen, mask) = params.seen(&sequence);
                    let whole = params.mask(&sequence);
                    let before = seen.k.first - first;
                    assert!(before + seen.k.len <= seqlen_k);
                    for key in 0..seqlen_k {
                        let by_any = (0..seqlen_q).any(|query| whole.sees(query, key));
                        let is_in = (before..before + seen.k.len).contains(&key);
                        assert_eq!(is_in, by_any, "{params:?}, key {key}");
                        for query in 0..seqlen_q {
                            let sees = is_in && mask.sees(query, key.wrapping_sub(before));
                            assert_eq!(sees, whole.sees(query, key), "{params:?}, key {key}");
                        }
                    }
                }
            }
        }
    }
}
