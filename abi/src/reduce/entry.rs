//! The table of entries.

use super::{DTYPES, Family, Reads, ReduceParams, Variant};
use crate::DType;
use crate::entry::{Parts, entries};

/// One kernel; displays as its entry name: `reduce_value_f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReduceEntry {
    name: &'static str,
    /// The family.
    pub family: Family,
    /// What it reads.
    pub reads: Reads,
    /// The variant.
    pub variant: Variant,
}

impl ReduceEntry {
    /// The entry of a name `reduce_<family>_<reads>[_<variant>]`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("reduce");
        let family = Family::of_name(&mut parts);
        let reads = Reads::of_name(&mut parts);
        let variant = Variant::of_name(&mut parts);
        parts.end();
        Self {
            name,
            family,
            reads,
            variant,
        }
    }

    /// The general entry for elements of a dtype, computed in f64 if `wide`. `None` if there is none:
    /// for other dtypes, and for integers with real results unless `wide`. Of u8 and i8, only
    /// [`Family::Count`] has one.
    pub fn of(family: Family, dtype: DType, wide: bool) -> Option<Self> {
        let is_counted = matches!((family, dtype), (Family::Count, DType::U8 | DType::I8));
        if !is_counted && !DTYPES.contains(&dtype) {
            return None;
        }
        let reads = match family {
            Family::Count => Reads::Bits(8 * dtype.size_bytes() as u32),
            Family::Arg => Reads::Of(dtype),
            _ if wide && dtype != DType::F64 => Reads::Wide,
            _ => Reads::Of(dtype),
        };
        Self::find(|entry| {
            (entry.family, entry.reads, entry.variant) == (family, reads, Variant::General)
        })
    }

    /// Element type of the results.
    pub const fn out(self) -> DType {
        match (self.family, self.reads) {
            (Family::Arg | Family::Count, _) => DType::I64,
            (_, Reads::Of(DType::I32 | DType::I64)) => DType::I64,
            (_, Reads::Of(DType::F64) | Reads::Wide) => DType::F64,
            _ => DType::F32,
        }
    }

    /// Whether a launch may round results to `dtype`, that of 16-bit elements
    /// ([`is_rounded`](super::ReduceParams::is_rounded)).
    pub const fn rounds_to(self, dtype: DType) -> bool {
        let is_alike = matches!(
            (self.reads, dtype),
            (Reads::Of(DType::F16), DType::F16) | (Reads::Of(DType::Bf16), DType::Bf16)
        );
        is_alike && matches!(self.out(), DType::F32)
    }

    /// Elements of a vector, which a thread loads at once: 16 bytes, or two wide ones.
    pub const fn lanes(self) -> u64 {
        match self.reads {
            Reads::Of(dtype) => 16 / dtype.size_bytes() as u64,
            Reads::Bits(bits) => 128 / bits as u64,
            Reads::Wide => 2,
        }
    }

    /// The same entry in another variant, which exists for the most common operations.
    pub fn with(self, variant: Variant) -> Option<Self> {
        let (family, reads) = (self.family, self.reads);
        Self::find(|entry| (entry.family, entry.reads, entry.variant) == (family, reads, variant))
    }

    /// The same entry for another family.
    pub fn of_family(self, family: Family) -> Option<Self> {
        let (reads, variant) = (self.reads, self.variant);
        Self::find(|entry| (entry.family, entry.reads, entry.variant) == (family, reads, variant))
    }

    /// 32-bit words of a partial result.
    pub const fn partial_words(self) -> usize {
        let value = match self.out() {
            DType::F32 => 1,
            _ => 2,
        };
        match self.family {
            Family::Value | Family::Count | Family::Extreme => value,
            Family::Lse => 2 * value,
            Family::Moments => 3 * value,
            Family::Arg => match self.reads {
                Reads::Of(DType::F32 | DType::F16 | DType::Bf16) => 3,
                _ => 4,
            },
        }
    }
}

entries! { $ ReduceEntry(ReduceParams) {
    /// The general kernel: the fold, the Rust type of elements, those that are loaded at once, and the
    /// Rust type of results.
    reduce_general {
        reduce_value_f32(Value<f32>, f32, 4 -> f32);
        reduce_value_f16(Value<f32>, f16, 8 -> f32);
        reduce_value_bf16(Value<f32>, bf16, 8 -> f32);
        reduce_value_f64(Value<f64>, f64, 2 -> f64);
        reduce_value_i32(Value<i64>, i32, 4 -> i64);
        reduce_value_i64(Value<i64>, i64, 2 -> i64);
        reduce_value_wide(Value<f64>, Wide, 2 -> f64);
        reduce_arg_f32(Arg<f32>, f32, 4 -> i64);
        reduce_arg_f16(Arg<f32>, f16, 8 -> i64);
        reduce_arg_bf16(Arg<f32>, bf16, 8 -> i64);
        reduce_arg_f64(Arg<f64>, f64, 2 -> i64);
        reduce_arg_i32(Arg<i64>, i32, 4 -> i64);
        reduce_arg_i64(Arg<i64>, i64, 2 -> i64);
        reduce_count_b8(Count<u32>, u8, 16 -> i64);
        reduce_count_b16(Count<u32>, u16, 8 -> i64);
        reduce_count_b32(Count<u32>, u32, 4 -> i64);
        reduce_count_b64(Count<u64>, u64, 2 -> i64);
        reduce_lse_f32(Lse<f32>, f32, 4 -> f32);
        reduce_lse_f16(Lse<f32>, f16, 8 -> f32);
        reduce_lse_bf16(Lse<f32>, bf16, 8 -> f32);
        reduce_lse_f64(Lse<f64>, f64, 2 -> f64);
        reduce_lse_wide(Lse<f64>, Wide, 2 -> f64);
        reduce_moments_f32(Moments<f32>, f32, 4 -> f32);
        reduce_moments_f16(Moments<f32>, f16, 8 -> f32);
        reduce_moments_bf16(Moments<f32>, bf16, 8 -> f32);
        reduce_moments_f64(Moments<f64>, f64, 2 -> f64);
        reduce_moments_wide(Moments<f64>, Wide, 2 -> f64);
    }
    /// Special forms: the fold, the Rust types of elements and results, blocks of an SM, the least
    /// architecture if it is not sm_75, the function, and words of shared memory.
    reduce_formed {
        reduce_value_f32_short(Value<f32>, f32 => f32, 4 blocks, short::rows::<Value<f32>, f32, 4>);
        reduce_value_bf16_short(Value<f32>, bf16 => f32, 3 blocks, short16::rows);
        reduce_value_f32_small(
            Value<f32>, f32 => f32, 4 blocks,
            small::rows::<Value<f32>, f32, 4, 16>, long::words(1)
        );
        reduce_value_bf16_small(
            Value<f32>, bf16 => f32, 4 blocks,
            small::rows::<Value<f32>, Alone, 8, 32>, long::words(1)
        );
        reduce_value_f32_long(
            Value<f32>, f32 => f32, 4 blocks,
            long::rows::<Value<f32>, f32, 4, 16>, long::words(1)
        );
        reduce_value_bf16_long(
            Value<f32>, bf16 => f32, 4 blocks,
            long::rows::<Value<f32>, Alone, 8, 16>, long::words(1)
        );
        reduce_moments_f32_long(
            Moments<f32>, f32 => f32, 4 blocks,
            long::rows::<Moments<f32>, f32, 4, 32>, long::words(3)
        );
        reduce_moments_bf16_long(
            Moments<f32>, bf16 => f32, 4 blocks,
            long::rows::<Moments<f32>, Alone, 8, 64>, long::words(3)
        );
        reduce_arg_f32_long(
            Arg<f32>, f32 => i64, 3 blocks,
            long::rows::<Arg<f32>, f32, 4, 16>, long::words(3)
        );
        reduce_value_f32_cluster(
            Value<f32>, f32 => f32, 4 blocks for "sm_90",
            cluster::row::<Value<f32>, f32, 4, 16>, cluster::words(1)
        );
        reduce_value_bf16_cluster(
            Value<f32>, bf16 => f32, 4 blocks for "sm_90",
            cluster::row::<Value<f32>, Alone, 8, 16>, cluster::words(1)
        );
        reduce_value_f32_columns(
            Value<f32>, f32 => f32, 3 blocks,
            columns::columns::<Value<f32>, f32, 4>, columns_words(4)
        );
        reduce_value_bf16_columns(
            Value<f32>, bf16 => f32, 3 blocks,
            columns::columns::<Value<f32>, Alone, 8>, columns_words(8)
        );
        reduce_extreme_bf16_long(
            Extreme, bf16 => f32, 4 blocks for "sm_80",
            long::rows::<Extreme, Pairs, 8, 32>, long::words(1)
        );
        reduce_extreme_bf16_columns(
            Extreme, bf16 => f32, 3 blocks for "sm_80",
            columns::columns::<Extreme, Pairs, 8>, columns_words(8)
        );
    }
} }
