//! Rotary position embedding: pairs of elements of each head turned by the angles of the token's
//! position.
//!
//! | entry | parameters |
//! |---|---|
//! | `rotary_<dtype>_<table>_<variant>` | `(x: *const u8, y: *mut u8, cos: *const u8, sin: *const u8, positions: *const i32, params: RotaryParams)` |
//!
//! Threads are counted over tokens, then over groups of heads, then over slots of a head. Thread
//! `group` of a token has the heads `group`, `group + groups` and so on, [`HEADS`] at most.

use crate::division::Division;
use crate::elementwise::WalkParams;
use crate::entry::{Parts, entries};
use crate::kernel_param;
use crate::{DType, elementwise};

/// Threads of a block.
pub const THREADS: u32 = elementwise::THREADS;

/// Heads of a thread, which share what it loads of the tables.
pub const HEADS: u32 = 2;

/// Most threads of a launch, so that indices stay within 31 bits.
pub const MAX_THREADS: u64 = elementwise::MAX_LEN;

/// Bits of [`RotaryParams::flags`].
pub mod flags {
    /// Turns back: by the negative angles.
    pub const INVERSE: u32 = 1;
    /// Pairs are neighbours, not elements of two halves. (Of the strided variant; others have entries
    /// for both.)
    pub const INTERLEAVED: u32 = 2;
}

kernel_param! {
    /// Parameters of a launch. Strides are in elements.
    #[derive(Debug, PartialEq)]
    pub struct RotaryParams {
        /// The walk over tokens: their places in y, in x and in `positions`, and what the place among
        /// them adds to the position.
        pub walk: WalkParams,
        /// What is added to every position.
        pub base: i64,
        /// Rows of the tables: a position that is not below it has none.
        pub rows: u64,
        /// Strides between heads, of y and x.
        pub head_strides: [i64; 2],
        /// Strides between elements of a head, of y and x; 1 but in the strided variant.
        pub last_strides: [i64; 2],
        /// Strides of the cosines between rows and between columns.
        pub cos_strides: [i64; 2],
        /// Strides of the sines.
        pub sin_strides: [i64; 2],
        /// Slots of a head.
        pub slots: Division,
        /// Groups of heads.
        pub groups: Division,
        /// Heads of a token.
        pub heads: u32,
        /// Pairs of a head.
        pub half: u32,
        /// Elements of a head that are written. Those behind the pairs are copied.
        pub written: u32,
        /// See [`flags`].
        pub flags: u32,
    }
}

/// How a kernel goes through a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// By two vectors of 16 bytes, one of each half: a slot has as many pairs as a vector elements.
    Halves,
    /// By the same vectors, where pairs are neighbours.
    Interleaved,
    /// By single pairs, with any strides.
    Strided,
}

/// One kernel; displays as its entry name: `rotary_bf16_f32_halves`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RotaryEntry {
    name: &'static str,
    /// Of x and y: f32, f16 or bf16.
    pub dtype: DType,
    /// Of the tables: f32 or that of x.
    pub table: DType,
    /// How it goes through a head.
    pub variant: Variant,
}

impl RotaryEntry {
    /// The entry of a name `rotary_<dtype>_<table>_<variant>`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("rotary");
        let dtype = parts.expect_dtype();
        let table = parts.expect_dtype();
        let variant = if parts.take("halves") {
            Variant::Halves
        } else if parts.take("interleaved") {
            Variant::Interleaved
        } else {
            parts.expect("strided");
            Variant::Strided
        };
        parts.end();
        Self {
            name,
            dtype,
            table,
            variant,
        }
    }

    /// The entry of these types and variant, if there is one.
    pub fn of(dtype: DType, table: DType, variant: Variant) -> Option<Self> {
        Self::find(|entry| (entry.dtype, entry.table, entry.variant) == (dtype, table, variant))
    }

    /// Elements of a vector of x.
    pub const fn lanes(self) -> u32 {
        16 / self.dtype.size_bytes() as u32
    }

    /// Slots of a head with `half` pairs and `written` elements, each of which is a thread's: pairs
    /// first, then what is copied.
    pub const fn slots(self, half: u32, written: u32) -> u32 {
        let copied = written - 2 * half;
        match self.variant {
            Variant::Strided => half + copied,
            Variant::Halves | Variant::Interleaved => {
                half / self.lanes() + copied.div_ceil(2 * self.lanes())
            }
        }
    }
}

entries! { $ RotaryEntry(RotaryParams) {
    /// By vectors: the element types of x and of the tables, and whether pairs are neighbours.
    rotary_vectors {
        rotary_f32_f32_halves(f32, f32, false);
        rotary_f32_f32_interleaved(f32, f32, true);
        rotary_f16_f32_halves(f16, f32, false);
        rotary_f16_f32_interleaved(f16, f32, true);
        rotary_f16_f16_halves(f16, f16, false);
        rotary_f16_f16_interleaved(f16, f16, true);
        rotary_bf16_f32_halves(bf16, f32, false);
        rotary_bf16_f32_interleaved(bf16, f32, true);
        rotary_bf16_bf16_halves(bf16, bf16, false);
        rotary_bf16_bf16_interleaved(bf16, bf16, true);
    }
    /// By single pairs.
    rotary_strided {
        rotary_f32_f32_strided(f32, f32);
        rotary_f16_f32_strided(f16, f32);
        rotary_f16_f16_strided(f16, f16);
        rotary_bf16_f32_strided(bf16, f32);
        rotary_bf16_bf16_strided(bf16, bf16);
    }
} }
