//! Description of an attention: everything that the choice of a kernel may depend on, without
//! addresses and values.

use super::pages::PagesDesc;
use super::score::ScoreDesc;
use crate::DType;
use abi::attention::{BshStrides, UNLIMITED};
use std::fmt;

/// A validated attention with at least one query. Strides are in the order batch, position, head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::ops) struct AttentionDesc {
    /// Dtype of q.
    pub(in crate::ops) dtype: DType,
    /// Dtype of k and v: that of q, or e4m3.
    pub(in crate::ops) kv_dtype: DType,
    /// Dtype of o.
    pub(in crate::ops) o_dtype: DType,
    /// Number of sequences, at least 1.
    pub(in crate::ops) batch: u32,
    /// Queries of the longest sequence, at least 1.
    pub(in crate::ops) seqlen_q: u32,
    /// Keys of the longest sequence; may be 0.
    pub(in crate::ops) seqlen_k: u32,
    /// Number of packed queries; 0 if they are not packed.
    pub(in crate::ops) total_q: u32,
    /// Number of packed keys; 0 if they are not packed.
    pub(in crate::ops) total_k: u32,
    /// At least 1; a multiple of `heads_kv`.
    pub(in crate::ops) heads_q: u32,
    /// At least 1.
    pub(in crate::ops) heads_kv: u32,
    /// May be 0.
    pub(in crate::ops) head_dim: u32,
    /// May be 0.
    pub(in crate::ops) head_dim_v: u32,
    pub(in crate::ops) q: OperandDesc,
    pub(in crate::ops) k: OperandDesc,
    pub(in crate::ops) v: OperandDesc,
    pub(in crate::ops) o: OperandDesc,
    /// As [`abi::attention::FlashFwdParams`] has it.
    pub(in crate::ops) window_left: i32,
    /// As [`abi::attention::FlashFwdParams`] has it.
    pub(in crate::ops) window_right: i32,
    /// As [`abi::attention::FlashFwdParams`] has it.
    pub(in crate::ops) top_left: bool,
    /// Whether the factor of the scores is at least
    /// [`LEAST_SCALE`](abi::attention::sm80::LEAST_SCALE).
    pub(in crate::ops) positive_scale: bool,
    /// Whether scores are soft-capped, by the kernel itself.
    pub(in crate::ops) softcap: bool,
    /// What else is done to scores.
    pub(in crate::ops) score: Option<ScoreDesc>,
    /// Whether there is an attention sink.
    pub(in crate::ops) sink: bool,
    /// Which lengths are given.
    pub(in crate::ops) lengths: LengthsDesc,
    /// Whether keys are paged. k and v then have pages for batches, and positions of a page.
    pub(in crate::ops) pages: Option<PagesDesc>,
    /// Whether lse is written.
    pub(in crate::ops) lse: bool,
    /// Whether heads must be packed, or must not; `None` leaves it to the plan.
    pub(in crate::ops) packs_heads: Option<bool>,
    /// Required number of key splits; `None` leaves it to the plan.
    pub(in crate::ops) key_splits: Option<u32>,
    /// Whether rows must have the same bits whatever the others are.
    pub(in crate::ops) batch_invariant: bool,
}

/// Layout of one tensor, whose last dimension is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::ops) struct OperandDesc {
    /// Strides of its other dimensions.
    pub(in crate::ops) strides: BshStrides,
    /// Largest power of two, up to 128, that divides the address of the first element.
    pub(in crate::ops) align_bytes: u32,
}

impl OperandDesc {
    /// Largest value of [`align_bytes`](Self::align_bytes).
    pub(in crate::ops) const MOST_ALIGN_BYTES: u32 = 128;

    /// Largest power of two, up to 16, that divides the address of every row.
    pub(in crate::ops) fn row_align_bytes(&self, dtype: DType) -> u32 {
        let BshStrides { batch, seq, head } = self.strides;
        let all = (batch | seq | head).wrapping_mul(dtype.size_bytes() as i64);
        self.align_bytes.min(1 << all.trailing_zeros().min(4))
    }
}

/// Which arrays of [`abi::attention::FlashFwdLengths`] are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::ops) struct LengthsDesc {
    pub(in crate::ops) cu_seqlens_q: bool,
    pub(in crate::ops) cu_seqlens_k: bool,
    pub(in crate::ops) seqused_q: bool,
    pub(in crate::ops) seqused_k: bool,
    pub(in crate::ops) leftpad_k: bool,
}

impl LengthsDesc {
    /// Whether any is there.
    pub(in crate::ops) const fn any(&self) -> bool {
        self.cu_seqlens_q || self.cu_seqlens_k || self.seqused_q || self.seqused_k || self.leftpad_k
    }
}

impl AttentionDesc {
    /// The same attention with the query heads that share a key/value head viewed as queries of one
    /// head, which every kernel can compute. It applies if each sequence has a single query that
    /// sees all keys, and query heads share key/value heads. It does not with a sink, which differs
    /// between heads, nor where scores are changed, which may depend on heads.
    pub(in crate::ops) fn heads_as_queries(&self) -> Option<Self> {
        let group = self.heads_q / self.heads_kv;
        let sees_all =
            self.window_left == UNLIMITED && (self.window_right == UNLIMITED || !self.top_left);
        let varies = self.lengths.cu_seqlens_q || self.lengths.seqused_q;
        if self.seqlen_q != 1
            || group == 1
            || !sees_all
            || varies
            || self.sink
            || self.score.is_some()
        {
            return None;
        }
        let shared = |operand: OperandDesc| {
            let BshStrides { batch, head, .. } = operand.strides;
            let strides = BshStrides {
                batch,
                seq: head,
                head: head.checked_mul(i64::from(group))?,
            };
            Some(OperandDesc { strides, ..operand })
        };
        Some(Self {
            seqlen_q: group,
            heads_q: self.heads_kv,
            q: shared(self.q)?,
            o: shared(self.o)?,
            window_right: UNLIMITED,
            ..*self
        })
    }

    /// Whether there is a block mask.
    pub(in crate::ops) fn has_blocks(&self) -> bool {
        self.score.is_some_and(|score| score.blocks.is_some())
    }

    /// Whether kernels count rows and blocks from the sequence's first query and key, and have one
    /// query head a tile.
    pub(in crate::ops) fn is_placed(&self) -> bool {
        self.has_blocks() || self.score.is_some_and(|score| score.dropout)
    }

    /// Whether there may be keys that no query of their sequence sees.
    pub(in crate::ops) fn may_hide_keys(&self) -> bool {
        self.window_left != UNLIMITED || (self.top_left && self.window_right != UNLIMITED)
    }

    /// Number of query positions in the tensor.
    pub(in crate::ops) fn positions_q(&self) -> u32 {
        if self.lengths.cu_seqlens_q {
            self.total_q
        } else {
            self.seqlen_q
        }
    }

    /// Flops without a mask; a multiply-add counts as two.
    pub(in crate::ops) fn flops(&self) -> f64 {
        let scores = f64::from(self.seqlen_q) * f64::from(self.seqlen_k);
        let heads = f64::from(self.batch) * f64::from(self.heads_q);
        2.0 * scores * heads * (f64::from(self.head_dim) + f64::from(self.head_dim_v))
    }
}

/// All fields that differ from those of plain attention.
impl fmt::Display for AttentionDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            dtype,
            batch,
            seqlen_q,
            seqlen_k,
            ..
        } = self;
        write!(f, "{dtype} batch{batch} seqlen{seqlen_q}x{seqlen_k}")?;
        write!(f, " heads{}x{}", self.heads_q, self.heads_kv)?;
        write!(f, " d{}x{}", self.head_dim, self.head_dim_v)?;
        for (name, operand, dtype) in [
            ("q", &self.q, self.dtype),
            ("k", &self.k, self.kv_dtype),
            ("v", &self.v, self.kv_dtype),
            ("o", &self.o, self.o_dtype),
        ] {
            let BshStrides { batch, seq, head } = operand.strides;
            let align_bytes = operand.row_align_bytes(dtype);
            write!(f, " {name}={batch}.{seq}.{head}@{align_bytes}")?;
        }
        for (name, dtype) in [("kv", self.kv_dtype), ("out", self.o_dtype)] {
            if dtype != self.dtype {
                write!(f, " {name}={dtype}")?;
            }
        }
        for (name, window) in [("left", self.window_left), ("right", self.window_right)] {
            if window != UNLIMITED {
                write!(f, " {name}={window}")?;
            }
        }
        let lengths = &self.lengths;
        for (name, is_set) in [
            ("top_left", self.top_left),
            ("scale<=0", !self.positive_scale),
            ("softcap", self.softcap),
            ("sink", self.sink),
            ("lse", self.lse),
            ("cu_seqlens_q", lengths.cu_seqlens_q),
            ("cu_seqlens_k", lengths.cu_seqlens_k),
            ("seqused_q", lengths.seqused_q),
            ("seqused_k", lengths.seqused_k),
            ("leftpad_k", lengths.leftpad_k),
        ] {
            if is_set {
                write!(f, " {name}")?;
            }
        }
        if let Some(score) = self.score {
            write!(f, "{score}")?;
        }
        if let Some(pages) = self.pages {
            write!(f, " pages={}x{}", pages.count, pages.page_size)?;
        }
        if let Some(packs) = self.packs_heads {
            write!(f, " pack_heads={packs}")?;
        }
        if let Some(splits) = self.key_splits {
            write!(f, " key_splits={splits}")?;
        }
        if self.batch_invariant {
            f.write_str(" batch_invariant")?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(in crate::ops) mod tests {
    use super::*;

    /// Attention of one head to its keys, without gaps.
    pub(in crate::ops) fn plain(dtype: DType, seqlen: u32, head_dim: u32) -> AttentionDesc {
        let operand = OperandDesc {
            strides: BshStrides {
                batch: i64::from(seqlen * head_dim),
                seq: i64::from(head_dim),
                head: i64::from(head_dim),
            },
            align_bytes: 128,
        };
        AttentionDesc {
            dtype,
            kv_dtype: dtype,
            o_dtype: dtype,
            batch: 1,
            seqlen_q: seqlen,
            seqlen_k: seqlen,
            total_q: 0,
            total_k: 0,
            heads_q: 1,
            heads_kv: 1,
            head_dim,
            head_dim_v: head_dim,
            q: operand,
            k: operand,
            v: operand,
            o: operand,
            window_left: UNLIMITED,
            window_right: UNLIMITED,
            top_left: false,
            positive_scale: true,
            softcap: false,
            score: None,
            sink: false,
            lengths: LengthsDesc::default(),
            pages: None,
            lse: false,
            packs_heads: None,
            key_splits: None,
            batch_invariant: false,
        }
    }

    #[test]
    fn rows_are_aligned_as_address_and_strides_allow() {
        let desc = |seq, align_bytes| OperandDesc {
            strides: BshStrides {
                batch: 0,
                seq,
                head: 64,
            },
            align_bytes,
        };
        assert_eq!(desc(128, 128).row_align_bytes(DType::Bf16), 16);
        assert_eq!(desc(4, 128).row_align_bytes(DType::Bf16), 8);
        assert_eq!(desc(4, 128).row_align_bytes(DType::F32), 16);
        assert_eq!(desc(-3, 128).row_align_bytes(DType::Bf16), 2);
        assert_eq!(desc(64, 4).row_align_bytes(DType::Bf16), 4);
    }

    #[test]
    fn heads_of_a_single_query_are_as_good_as_queries() {
        let grouped = AttentionDesc {
            seqlen_q: 1,
            seqlen_k: 9,
            heads_q: 6,
            heads_kv: 2,
            window_right: 0,
            ..plain(DType::Bf16, 1, 8)
        };
        let viewed = grouped.heads_as_queries().expect("they are");
        assert_eq!((viewed.seqlen_q, viewed.heads_q), (3, 2));
        let BshStrides { seq, head, .. } = viewed.q.strides;
        assert_eq!((seq, head), (8, 24));
        for other in [
            AttentionDesc {
                window_left: 3,
                ..grouped
            },
            AttentionDesc {
                top_left: true,
                ..grouped
            },
            AttentionDesc {
                sink: true,
                ..grouped
            },
            AttentionDesc {
                seqlen_q: 2,
                ..grouped
            },
            AttentionDesc {
                heads_q: 2,
                ..grouped
            },
        ] {
            assert_eq!(other.heads_as_queries(), None);
        }
    }

    #[test]
    fn descriptions_that_differ_read_differently() {
        let plain = plain(DType::Bf16, 5, 8);
        let mut others = vec![plain];
        others.extend([
            AttentionDesc {
                o_dtype: DType::F32,
                ..plain
            },
            AttentionDesc {
                window_left: 3,
                ..plain
            },
            AttentionDesc {
                window_right: 3,
                ..plain
            },
            AttentionDesc {
                sink: true,
                ..plain
            },
            AttentionDesc {
                kv_dtype: DType::E4m3,
                ..plain
            },
            AttentionDesc { lse: true, ..plain },
            AttentionDesc {
                packs_heads: Some(true),
                ..plain
            },
            AttentionDesc {
                key_splits: Some(2),
                ..plain
            },
            AttentionDesc {
                batch_invariant: true,
                ..plain
            },
            AttentionDesc {
                softcap: true,
                ..plain
            },
            AttentionDesc {
                pages: Some(PagesDesc {
                    count: 3,
                    page_size: 2,
                    row: 3,
                }),
                ..plain
            },
            AttentionDesc {
                lengths: LengthsDesc {
                    seqused_k: true,
                    ..LengthsDesc::default()
                },
                ..plain
            },
        ]);
        let mut seen: Vec<String> = others.iter().map(ToString::to_string).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), others.len());
    }
}
