//! Sequences of different lengths: where each begins, and how long it is.
//!
//! Three things can vary by sequence, independently for queries and keys (`leftpad_k` for keys
//! only):
//! - Packed tensors, `[total, heads, head_dim]`, have cumulative lengths: sequence b is positions
//!   `cu_seqlens[b]..cu_seqlens[b + 1]`.
//! - `seqused` ends a sequence early.
//! - `leftpad_k` starts its keys late.
//!
//! `seqused` and `leftpad_k` count from the sequence's begin, so its keys are
//! `leftpad_k[b]..seqused_k[b]`, and the key of index 0 is the first of these. Addresses outside
//! are not read, and nothing is written for them.
//!
//! Whatever the arrays hold, positions are clamped to the tensors.

use super::params::{BshStrides, FlashFwdParams};
use crate::kernel_param;

kernel_param! {
    /// Arrays of lengths in device memory; null if there are none.
    #[derive(Debug, PartialEq, Eq)]
    pub struct FlashFwdLengths {
        /// `[batch + 1]`; if not null, q and o are packed.
        pub cu_seqlens_q: *const i32,
        /// `[batch + 1]`; if not null, k and v are packed.
        pub cu_seqlens_k: *const i32,
        /// `[batch]`: number of queries of each sequence.
        pub seqused_q: *const i32,
        /// `[batch]`: number of keys of each sequence, including its left padding.
        pub seqused_k: *const i32,
        /// `[batch]`: number of keys of left padding of each sequence.
        pub leftpad_k: *const i32,
    }
}

impl FlashFwdLengths {
    /// All sequences are as long as the tensors are.
    pub const NONE: Self = Self {
        cu_seqlens_q: core::ptr::null(),
        cu_seqlens_k: core::ptr::null(),
        seqused_q: core::ptr::null(),
        seqused_k: core::ptr::null(),
        leftpad_k: core::ptr::null(),
    };
}

/// What a kernel has read from [`FlashFwdLengths`] for one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceLengths {
    /// `cu_seqlens_q[b]` and `cu_seqlens_q[b + 1]`.
    pub packed_q: Option<(i32, i32)>,
    /// `cu_seqlens_k[b]` and `cu_seqlens_k[b + 1]`.
    pub packed_k: Option<(i32, i32)>,
    /// `seqused_q[b]`.
    pub used_q: Option<i32>,
    /// `seqused_k[b]`.
    pub used_k: Option<i32>,
    /// `leftpad_k[b]`.
    pub leftpad_k: Option<i32>,
}

impl SequenceLengths {
    /// As long as the tensors are.
    pub const NONE: Self = Self {
        packed_q: None,
        packed_k: None,
        used_q: None,
        used_k: None,
        leftpad_k: None,
    };
}

/// A range of positions of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Positions {
    /// The first, counted in its batch, or in the whole tensor if sequences are packed.
    pub first: u32,
    /// Number of positions.
    pub len: u32,
}

impl Positions {
    /// Positions `begin..end` of a packed tensor of `total`.
    #[inline(always)]
    pub const fn packed((begin, end): (i32, i32), total: u32) -> Self {
        let first = cut(begin, total);
        let end = cut(end, total);
        Self {
            first,
            len: end.saturating_sub(first),
        }
    }

    /// The first `used` of them.
    #[inline(always)]
    pub const fn used(self, used: i32) -> Self {
        Self {
            len: cut(used, self.len),
            ..self
        }
    }

    /// Those after the first `padding`.
    #[inline(always)]
    pub const fn without_left_padding(self, padding: i32) -> Self {
        let padding = cut(padding, self.len);
        Self {
            first: self.first.wrapping_add(padding),
            len: self.len - padding,
        }
    }
}

/// One sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sequence {
    /// Index in the batch.
    pub batch_idx: u32,
    /// Its queries, which are also the positions of o.
    pub q: Positions,
    /// Its keys and values.
    pub k: Positions,
}

impl Sequence {
    /// Sequence `batch_idx` of a launch. Queries beyond `params.seqlen_q` are left out, as the grid
    /// does not reach them.
    #[inline(always)]
    pub const fn new(params: &FlashFwdParams, batch_idx: u32, lengths: &SequenceLengths) -> Self {
        let mut q = match lengths.packed_q {
            Some(bounds) => Positions::packed(bounds, params.total_q),
            None => Positions {
                first: 0,
                len: params.seqlen_q,
            },
        };
        if let Some(used) = lengths.used_q {
            q = q.used(used);
        }
        if q.len > params.seqlen_q {
            q.len = params.seqlen_q;
        }
        let mut k = match lengths.packed_k {
            Some(bounds) => Positions::packed(bounds, params.total_k),
            None => Positions {
                first: 0,
                len: params.seqlen_k,
            },
        };
        if let Some(used) = lengths.used_k {
            k = k.used(used);
        }
        if let Some(padding) = lengths.leftpad_k {
            k = k.without_left_padding(padding);
        }
        Self { batch_idx, q, k }
    }

    /// Offset of the sequence's first query in q or o, in elements.
    #[inline(always)]
    pub const fn offset_q(&self, strides: &BshStrides, head_idx: u32) -> i64 {
        strides.offset(self.batch_idx, self.q.first, head_idx)
    }

    /// Offset of the sequence's first key in k or v, in elements.
    #[inline(always)]
    pub const fn offset_k(&self, strides: &BshStrides, head_kv_idx: u32) -> i64 {
        strides.offset(self.batch_idx, self.k.first, head_kv_idx)
    }
}

/// `x` clamped to `0..=most`.
const fn cut(x: i32, most: u32) -> u32 {
    if x < 0 {
        0
    } else if x as u32 > most {
        most
    } else {
        x as u32
    }
}

#[cfg(test)]
mod tests {
    use super::super::params::tests::PARAMS;
    use super::*;

    const PACKED: FlashFwdParams = FlashFwdParams {
        total_q: 11,
        total_k: 20,
        ..PARAMS // at most 5 queries and 7 keys
    };

    fn sequence(lengths: &SequenceLengths) -> (Positions, Positions) {
        let sequence = Sequence::new(&PACKED, 1, lengths);
        (sequence.q, sequence.k)
    }

    fn positions(first: u32, len: u32) -> Positions {
        Positions { first, len }
    }

    #[test]
    fn a_sequence_is_as_long_as_the_tensor_unless_told() {
        let whole = Sequence::new(&PARAMS, 1, &SequenceLengths::NONE);
        assert_eq!((whole.q, whole.k), (positions(0, 5), positions(0, 7)));
    }

    #[test]
    fn packed_sequences_end_early_and_their_keys_start_late() {
        let lengths = SequenceLengths {
            packed_q: Some((3, 7)),
            packed_k: Some((10, 17)),
            ..SequenceLengths::NONE
        };
        assert_eq!(sequence(&lengths), (positions(3, 4), positions(10, 7)));
        let used = SequenceLengths {
            used_q: Some(2),
            used_k: Some(6),
            leftpad_k: Some(4),
            ..lengths
        };
        assert_eq!(sequence(&used), (positions(3, 2), positions(14, 2)));
        let nothing = SequenceLengths {
            used_q: Some(0),
            used_k: Some(3),
            ..used
        };
        assert_eq!(sequence(&nothing), (positions(3, 0), positions(13, 0)));
    }

    #[test]
    fn wrong_lengths_stay_inside_of_the_tensors() {
        let wild = [i32::MIN, -1, 0, 6, 13, 25, i32::MAX];
        for begin in wild {
            for end in wild {
                for other in wild {
                    let lengths = SequenceLengths {
                        packed_q: Some((begin, end)),
                        packed_k: Some((begin, end)),
                        used_q: Some(other),
                        used_k: Some(end),
                        leftpad_k: Some(other),
                    };
                    let (q, k) = sequence(&lengths);
                    assert!(q.first + q.len <= 11 && q.len <= 5);
                    assert!(k.first + k.len <= 20);
                }
            }
        }
    }
}
