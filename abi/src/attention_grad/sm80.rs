//! Kernels by `mma.sync` for sm_80 and everything newer: one for each [`Part`] of the gradients.
//!
//! Entries: `attention_grad_sm80_<dtype>_d<head_dim cap>_<part>`, f16 and bf16;
//! [`Sm80GradEntry::ALL`] has all. They take
//!
//! ```text
//! q, k, v, d_o: *const T, lse, delta: *const f32, of_ds, of_p: *mut T,
//! lengths: FlashFwdLengths, params: AttentionGradParams
//! ```
//!
//! where `of_ds` is dq or dk and `of_p` is dv, as far as the part writes them. Their grid is
//! [`FlashFwdParams::grid`](crate::attention::FlashFwdParams::grid) of [`Sm80GradTile::rows`]
//! queries, or [`AttentionGradParams::grid_of_keys`](super::AttentionGradParams::grid_of_keys) of
//! as many keys. Blocks have [`THREADS`] threads and [`Sm80GradTile::smem_bytes`] of dynamic shared
//! memory. head_dim and head_dim_v are multiples of 8 up to the cap. Rows of q, k, v, d_o and of
//! the gradients are aligned to [`ALIGN_BYTES`]. softmax_scale_log2 is above 0.

use core::fmt;

use super::AttentionGradParams;
use crate::DType;
use crate::attention::FlashFwdLengths;
pub use crate::attention::sm80::THREADS;
use crate::entry::{Parts, entries};

/// Alignment of the rows of all tensors of 16 bits: what a thread copies at once.
pub const ALIGN_BYTES: u32 = 16;

/// What a launch computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// dq, by blocks that own queries.
    Dq,
    /// dk and dv, by blocks that own keys.
    DkDv,
    /// dk alone, by blocks that own keys.
    Dk,
    /// dv alone, by blocks that own keys.
    Dv,
}

impl Part {
    const fn of_name(parts: &mut Parts) -> Self {
        if parts.take("dq") {
            Self::Dq
        } else if parts.take("dkdv") {
            Self::DkDv
        } else if parts.take("dk") {
            Self::Dk
        } else {
            parts.expect("dv");
            Self::Dv
        }
    }

    /// Whether a block's rows are keys; else they are queries.
    pub const fn owns_keys(self) -> bool {
        !matches!(self, Self::Dq)
    }

    /// Whether it computes a product with dS: dq or dk.
    pub const fn of_ds(self) -> bool {
        !matches!(self, Self::Dv)
    }

    /// Whether it computes the product with P: dv.
    pub const fn of_p(self) -> bool {
        matches!(self, Self::DkDv | Self::Dv)
    }
}

/// Tile of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm80GradTile {
    /// Queries or keys that a block owns.
    pub rows: u32,
    /// Keys or queries of a stage.
    pub columns: u32,
    /// Columns whose scores a warp holds at a time.
    pub at_once: u32,
    /// Stages of columns.
    pub stages: u32,
    /// Largest head_dim and head_dim_v.
    pub head_dim_cap: u32,
    /// Whether v or d_o of the rows are needed beside k or q.
    pub both_rows: bool,
    /// Positions whose lse and delta are in shared memory.
    pub moments: u32,
}

impl Sm80GradTile {
    /// The tile of a part for a cap: a warp's scores, dP and results have to fit in its registers.
    pub const fn of(head_dim_cap: u32, part: Part) -> Self {
        let (rows, columns, at_once) = match (head_dim_cap, part) {
            (..=64, _) => (128, 64, 32),
            (..=128, Part::Dq) => (128, 32, 32),
            (..=128, _) => (64, 64, 64),
            _ => (64, 32, 32),
        };
        // Both kinds of 64 rows of cap 256 leave room for one stage, whose kinds are copied in
        // turns.
        let stages = if head_dim_cap > 128 && part.of_ds() {
            1
        } else {
            2
        };
        Self {
            rows,
            columns,
            at_once,
            stages,
            head_dim_cap,
            both_rows: part.of_ds(),
            moments: if part.owns_keys() {
                stages * columns
            } else {
                rows
            },
        }
    }

    /// Bytes of a vector.
    pub const fn row_bytes(&self) -> u32 {
        2 * self.head_dim_cap
    }

    /// Bytes of one kind of vectors of the rows.
    pub const fn rows_bytes(&self) -> u32 {
        self.rows * self.row_bytes()
    }

    /// Bytes of one kind of vectors of a stage.
    pub const fn columns_bytes(&self) -> u32 {
        self.columns * self.row_bytes()
    }

    /// Where the stages begin: behind k of the rows, or q, and v or d_o if they are needed.
    pub const fn stages_at(&self) -> u32 {
        let kinds = if self.both_rows { 2 } else { 1 };
        kinds * self.rows_bytes()
    }

    /// Where lse and delta begin: both of a position, then those of the next.
    pub const fn moments_at(&self) -> u32 {
        self.stages_at() + 2 * self.stages * self.columns_bytes()
    }

    /// Bytes of dynamic shared memory.
    pub const fn smem_bytes(&self) -> u32 {
        self.moments_at() + 2 * 4 * self.moments
    }
}

/// The kernels of an element type and a cap; displays as the beginning of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm80Grad {
    /// The kernel of dq.
    pub dq: Sm80GradEntry,
    /// The first kernel of blocks that own keys.
    pub keys: Sm80GradEntry,
}

impl Sm80Grad {
    /// The kernels of the smallest cap that serves both head dimensions; `None` if there are none.
    pub fn of(dtype: DType, head_dim: u32, head_dim_v: u32) -> Option<Self> {
        let is_whole = head_dim.is_multiple_of(8) && head_dim_v.is_multiple_of(8);
        let has_room = |entry: &Sm80GradEntry| head_dim.max(head_dim_v) <= entry.head_dim_cap;
        let is_of = |entry: &Sm80GradEntry| entry.dtype == dtype && is_whole && has_room(entry);
        let first = |owns_keys| {
            Sm80GradEntry::find(|entry| is_of(entry) && entry.part.owns_keys() == owns_keys)
        };
        Some(Self {
            dq: first(false)?,
            keys: first(true)?,
        })
    }

    /// All of them: first that of dq, then those of blocks that own keys.
    pub fn entries(self) -> impl Iterator<Item = Sm80GradEntry> {
        let kernels = move |entry: &Sm80GradEntry| (entry.dtype, entry.head_dim_cap);
        let all = Sm80GradEntry::ALL.iter().copied();
        all.filter(move |entry| kernels(entry) == kernels(&self.dq))
    }
}

impl fmt::Display for Sm80Grad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.dq.name.trim_end_matches("_dq"))
    }
}

/// One kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm80GradEntry {
    name: &'static str,
    /// Element type of every tensor but lse and delta.
    pub dtype: DType,
    /// Largest head_dim and head_dim_v.
    pub head_dim_cap: u32,
    /// What it computes.
    pub part: Part,
}

impl Sm80GradEntry {
    /// The entry of a name `attention_grad_sm80_<dtype>_d<head_dim cap>_<part>`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("attention_grad_sm80");
        let dtype = parts.expect_dtype();
        let head_dim_cap = parts.number("d");
        let part = Part::of_name(&mut parts);
        parts.end();
        Self {
            name,
            dtype,
            head_dim_cap,
            part,
        }
    }

    /// Its tile.
    pub const fn tile(&self) -> Sm80GradTile {
        Sm80GradTile::of(self.head_dim_cap, self.part)
    }
}

entries! { $ Sm80GradEntry((FlashFwdLengths, AttentionGradParams)) {
    /// The element type. The smallest cap comes first, and of each the part that is launched first.
    /// At cap 256 a warp has registers for dk or dv alone.
    attention_grad_sm80 {
        attention_grad_sm80_bf16_d64_dq(bf16);
        attention_grad_sm80_bf16_d64_dkdv(bf16);
        attention_grad_sm80_bf16_d128_dq(bf16);
        attention_grad_sm80_bf16_d128_dkdv(bf16);
        attention_grad_sm80_bf16_d256_dq(bf16);
        attention_grad_sm80_bf16_d256_dk(bf16);
        attention_grad_sm80_bf16_d256_dv(bf16);
        attention_grad_sm80_f16_d64_dq(f16);
        attention_grad_sm80_f16_d64_dkdv(f16);
        attention_grad_sm80_f16_d128_dq(f16);
        attention_grad_sm80_f16_d128_dkdv(f16);
        attention_grad_sm80_f16_d256_dq(f16);
        attention_grad_sm80_f16_d256_dk(f16);
        attention_grad_sm80_f16_d256_dv(f16);
    }
} }

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn entries_are_named_as_documented_and_take_multiples_of_8() {
        let kernels = Sm80Grad::of(DType::Bf16, 64, 72).expect("there are");
        assert_eq!(kernels.to_string(), "attention_grad_sm80_bf16_d128");
        let names = kernels.entries().map(|entry| entry.name());
        assert!(names.eq([
            "attention_grad_sm80_bf16_d128_dq",
            "attention_grad_sm80_bf16_d128_dkdv",
        ]));
        assert_eq!(Sm80Grad::of(DType::F32, 64, 64), None);
        assert_eq!(Sm80Grad::of(DType::F16, 64, 66), None);
        assert_eq!(Sm80Grad::of(DType::F16, 264, 64), None);
    }

    #[test]
    fn every_result_has_one_owner_and_every_tile_fits_any_device() {
        for &dq in Sm80GradEntry::ALL
            .iter()
            .filter(|entry| entry.part == Part::Dq)
        {
            let cap = dq.head_dim_cap;
            let kernels = Sm80Grad::of(dq.dtype, cap, cap).expect("there are");
            let entries = || kernels.entries();
            let of_keys = || entries().skip(1).map(|entry| entry.part);
            assert_eq!(kernels.dq, dq);
            assert!(entries().take(2).eq([dq, kernels.keys]));
            assert!(of_keys().all(Part::owns_keys));
            assert_eq!(of_keys().filter(|part| part.of_ds()).count(), 1);
            assert_eq!(of_keys().filter(|part| part.of_p()).count(), 1);
            for tile in entries().map(|entry| entry.tile()) {
                assert!(tile.smem_bytes() <= 99 << 10, "{tile:?}");
                assert!(tile.columns.is_multiple_of(tile.at_once));
                assert!(tile.moments <= THREADS);
            }
        }
    }
}
