//! The `k` largest or smallest elements of rows, with their indices.
//!
//! An element and its index make a *pair*, an integer of 64 or 128 bits. It has the place of the
//! element in the order above, and the complement of the index below ([`TopKParams::index_bits`]).
//! All pairs of a row are different, and the results have the order of the pairs, largest first. So the result does
//! not depend on which thread looks where, or when.
//!
//! | kernel | rows |
//! |---|---|
//! | *short* | some lanes of a warp have a row of up to [`SHORT_N`] elements in registers; k up to [`SHORT_K`] |
//! | *rows* | a block has a row, or a part of one, whose `k` first pairs it finds |
//! | *pairs* | a block finds the `k` first among the pairs of a row's parts |
//!
//! | entry | parameters |
//! |---|---|
//! | `topk_<dtype>` | `(x: *const u8, values: *mut u8, indices: *mut i64, pairs: *mut u64, params: TopKParams)` |
//! | `topk_<dtype>_short` | `(x: *const u8, values: *mut u8, indices: *mut i64, params: TopKParams)` |
//! | `topk_pairs`, `topk_pairs_wide` | `(x: *const u8, values: *mut u8, indices: *mut i64, pairs: *const u64, params: TopKParams)` |
//!
//! `<dtype>` is f32, f16, bf16, f64, i32 and i64; of the short kernel, those of up to 32 bits. Pairs of
//! elements of 64 bits are *wide*: they have 128 bits. `pairs` may be null if rows are not cut.

use crate::DType;
use crate::entry::{Parts, entries};
use crate::kernel_param;

/// The largest `k`.
pub const K_MAX: u64 = 2048;

/// The most elements of a row: counters of 32 bits go beyond them by a block's threads.
pub const N_MAX: u64 = i32::MAX as u64;

/// Dtypes of the elements.
pub const DTYPES: [DType; 6] = crate::reduce::DTYPES;

/// Fewest and most threads of a block that has a row.
pub const THREADS: [u32; 2] = [64, 512];

/// Groups in which a thread of a block looks at its vectors of 16 bytes.
pub const GROUPS: usize = 8;

/// Words of shared memory before the pairs: a histogram of 256 bins, and what threads tell each other.
pub const HEAD_WORDS: usize = 256 + 8;

/// Threads of a block of the short kernel.
pub const SHORT_THREADS: u32 = 256;

/// Elements of a row that a lane has in the short kernel.
pub const SHORT_HELD: usize = 16;

/// Most elements of a row for the short kernel: those of a warp.
pub const SHORT_N: u64 = 32 * SHORT_HELD as u64;

/// Largest `k` for the short kernel, which takes elements from a row one by one.
pub const SHORT_K: u64 = 32;

/// Parts begin at multiples of so many elements, so that vectors lie as they do in the whole row.
pub const PART_UNIT: u64 = 64;

/// How a kernel goes through its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// A block a row, or a part of one.
    Rows,
    /// Lanes of a warp a row.
    Short,
    /// A block a row of pairs of an element's key and its index.
    Pairs,
    /// The same of wide pairs.
    WidePairs,
}

/// One kernel; displays as its entry name: `topk_f32`, `topk_f32_short`, `topk_pairs_wide`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopKEntry {
    name: &'static str,
    /// How it goes through rows.
    pub variant: Variant,
    /// Element type of the rows; none of pairs.
    pub dtype: Option<DType>,
}

impl TopKEntry {
    /// The entry of a name `topk_<dtype>[_short]` or `topk_pairs[_wide]`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("topk");
        let dtype = parts.dtype();
        let variant = match dtype {
            None => {
                parts.expect("pairs");
                match parts.take("wide") {
                    true => Variant::WidePairs,
                    false => Variant::Pairs,
                }
            }
            Some(_) if parts.take("short") => Variant::Short,
            Some(_) => Variant::Rows,
        };
        parts.end();
        Self {
            name,
            variant,
            dtype,
        }
    }

    /// The entry of this variant for rows of `dtype`, or for pairs.
    pub fn of(variant: Variant, dtype: Option<DType>) -> Option<Self> {
        Self::find(|entry| entry.variant == variant && entry.dtype == dtype)
    }
}

entries! { $ TopKEntry(TopKParams) {
    /// A block a row: the element type.
    topk_rows {
        topk_f32(f32);
        topk_f16(f16);
        topk_bf16(bf16);
        topk_f64(f64);
        topk_i32(i32);
        topk_i64(i64);
    }
    /// Lanes of a warp a row: the element type, and the type that holds its key and index.
    topk_short {
        topk_f32_short(f32, u64);
        topk_f16_short(f16, u32);
        topk_bf16_short(bf16, u32);
        topk_i32_short(i32, u64);
    }
    /// Pairs, and the type of one.
    topk_of_pairs {
        topk_pairs(u64);
        topk_pairs_wide(u128);
    }
} }

/// How a launch shares out its work. The host chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopKPlan {
    /// Whether lanes of a warp have a row each.
    pub is_short: bool,
    /// Lanes of a row in the short kernel: a power of two.
    pub lanes: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Parts of a row; 1 if it is not cut.
    pub parts: u32,
    /// Elements of a part; the last one may have fewer.
    pub part_len: u64,
    /// Pairs that a block has room for: a power of two, at least `k`.
    pub capacity: u32,
    /// [`pair_bytes`].
    pub pair_bytes: u32,
}

impl TopKPlan {
    /// Rows that a block has, or has parts of.
    pub const fn rows_per_block(&self) -> u32 {
        if self.is_short {
            self.threads / self.lanes
        } else {
            1
        }
    }

    /// Blocks for `rows` rows; `None` if they are more than a grid has.
    pub const fn blocks(&self, rows: u64) -> Option<u32> {
        let groups = rows.div_ceil(self.rows_per_block() as u64);
        let blocks = groups.saturating_mul(self.parts as u64);
        if blocks <= i32::MAX as u64 {
            Some(blocks as u32)
        } else {
            None
        }
    }

    /// Bytes of dynamic shared memory of a block: the head, then pairs and, unless they are wide, a
    /// list of as many groups. Before there are pairs, the largest elements of groups are there.
    pub const fn shared_bytes(&self) -> u32 {
        if self.is_short {
            return 0;
        }
        let listed = if self.pair_bytes == 8 { 2 } else { 0 };
        let pairs = (self.pair_bytes + listed) * self.capacity;
        let groups = 4 * GROUPS as u32 * self.threads;
        4 * HEAD_WORDS as u32 + if pairs > groups { pairs } else { groups }
    }
}

/// Bytes of a pair of an element of this dtype.
pub const fn pair_bytes(dtype: DType) -> u32 {
    if dtype.size_bytes() == 8 { 16 } else { 8 }
}

/// Bits of a pair above the index: those of the dtype.
pub const fn key_bits(dtype: DType) -> u32 {
    8 * dtype.size_bytes() as u32
}

/// Bits of the index in a pair of a row of `n` elements. All ones stand for no element.
pub const fn index_bits(n: u64) -> u32 {
    match n {
        0..0x100 => 8,
        0x100..0x1_0000 => 16,
        0x1_0000..0x100_0000 => 24,
        _ => 32,
    }
}

kernel_param! {
    /// Extents and strides of one launch.
    #[derive(Debug, PartialEq, Eq)]
    pub struct TopKParams {
        /// Number of rows.
        pub rows: u64,
        /// Elements of a row, which are contiguous; of `topk_pairs`, pairs.
        pub n: u64,
        /// [`TopKPlan::part_len`].
        pub part_len: u64,
        /// Elements between rows of x.
        pub x_row_stride: i64,
        /// Elements between rows of the values.
        pub values_row_stride: i64,
        /// Elements between rows of the indices.
        pub indices_row_stride: i64,
        /// Elements that are wanted of a row.
        pub k: u32,
        /// [`TopKPlan::parts`]. If there are several, each of them writes its pairs instead of values and
        /// indices.
        pub parts: u32,
        /// [`TopKPlan::capacity`].
        pub capacity: u32,
        /// What is xored to the upper bits of an element, so that the largest is wanted: the sign, for
        /// the smallest elements.
        pub turn: u32,
        /// [`index_bits`] of a whole row of x.
        pub index_bits: u32,
        /// [`key_bits`].
        pub key_bits: u32,
        /// Bytes of an element of x.
        pub element_bytes: u32,
        /// Log2 of [`TopKPlan::lanes`].
        pub lanes_log2: u32,
    }
}

impl TopKParams {
    /// [`TopKParams::turn`] for the smallest elements.
    pub const SMALLEST: u32 = 1 << 31;

    /// Those of a plan for rows without gaps between them.
    pub const fn new(plan: &TopKPlan, rows: u64, n: u64, k: u64, dtype: DType, turn: u32) -> Self {
        Self {
            rows,
            n,
            part_len: plan.part_len,
            x_row_stride: n as i64,
            values_row_stride: k as i64,
            indices_row_stride: k as i64,
            k: k as u32,
            parts: plan.parts,
            capacity: plan.capacity,
            turn,
            index_bits: index_bits(n),
            key_bits: key_bits(dtype),
            element_bytes: dtype.size_bytes() as u32,
            lanes_log2: if plan.is_short {
                plan.lanes.trailing_zeros()
            } else {
                0
            },
        }
    }

    /// Those of the second launch, over the pairs of the first one's parts.
    pub const fn of_pairs(&self, plan: &TopKPlan) -> Self {
        let n = self.parts as u64 * self.k as u64;
        Self {
            n,
            part_len: n,
            parts: 1,
            capacity: plan.capacity,
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_has_the_bits_that_it_needs() {
        for n in [1, 255, 256, 65_535, 65_536, (1 << 24) - 1, 1 << 24, N_MAX] {
            let bits = index_bits(n);
            assert!(n < 1 << bits && (bits == 8 || n >= 1 << (bits - 8)), "{n}");
        }
    }
}
