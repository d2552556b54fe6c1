//! Appends keys and values to a paged cache, with keys turned by their positions (rotary embedding).
//!
//! | entry | parameters |
//! |---|---|
//! | `kv_append_<dtype>_<table>` | `(k: *const u8, v: *const u8, cos: *const u8, sin: *const u8, positions: *const i32, rows: *const i32, pool_k: *mut u8, pool_v: *mut u8, params: KvAppendParams)` |
//!
//! | `kv_append_<dtype>_<table>_e4m3` | the same, and behind them `scales: KvAppendScales` |
//!
//! The last are for pools in e4m3: an element is divided by its head's factor and rounded once, to
//! nearest; magnitudes above 448 become 448.
//!
//! `positions` and `rows` have an element for each token: its row of the tables, and its row of the
//! pools, `[rows, heads, head_dim]` and `[rows, heads, head_dim_v]` without gaps. A token whose row is
//! not one of the pools is not written.
//!
//! Threads are counted over tokens, then over heads, then over slots of a head. First are the pairs of
//! a key that are turned, then its elements that are copied, then those of the value.

use crate::division::Division;
use crate::entry::{Parts, entries};
use crate::kernel_param;
use crate::{DType, elementwise};

/// Threads of a block.
pub const THREADS: u32 = elementwise::THREADS;

/// Most threads of a launch, so that indices stay within 31 bits.
pub const MAX_THREADS: u64 = elementwise::MAX_LEN;

kernel_param! {
    /// Parameters of a launch. Strides are in elements.
    #[derive(Debug, PartialEq)]
    pub struct KvAppendParams {
        /// Strides of k between tokens, heads and elements.
        pub k_strides: [i64; 3],
        /// The same of v.
        pub v_strides: [i64; 3],
        /// Strides of the cosines between rows and between columns.
        pub cos_strides: [i64; 2],
        /// Strides of the sines.
        pub sin_strides: [i64; 2],
        /// Rows of the tables: a position that is not below it has none.
        pub table_rows: u64,
        /// Rows of the pools.
        pub pool_rows: u64,
        /// Slots of a head.
        pub slots: Division,
        /// Heads of a token.
        pub heads: Division,
        /// Tokens.
        pub tokens: u32,
        /// Pairs of a key that are turned.
        pub half: u32,
        /// Elements of a key.
        pub head_dim: u32,
        /// Not 0 if pairs are neighbours, not elements of two halves.
        pub is_interleaved: u32,
    }
}

kernel_param! {
    /// Factors of pools in e4m3.
    #[derive(Debug, PartialEq)]
    pub struct KvAppendScales {
        /// Factors of the keys.
        pub k: *const f32,
        /// Factors of the values.
        pub v: *const f32,
        /// Elements of `k` and of `v` between heads: 0 or 1.
        pub strides: [u32; 2],
    }
}

/// One kernel; displays as its entry name: `kv_append_bf16_f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvAppendEntry {
    name: &'static str,
    /// Of keys and values: f32, f16 or bf16.
    pub dtype: DType,
    /// Of the tables: f32 or that of keys.
    pub table: DType,
    /// Of the pools: that of keys and values, or e4m3.
    pub pool: DType,
}

impl KvAppendEntry {
    /// The entry of a name `kv_append_<dtype>_<table>`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("kv_append");
        let dtype = parts.expect_dtype();
        let table = parts.expect_dtype();
        let pool = match parts.dtype() {
            Some(pool) => pool,
            None => dtype,
        };
        parts.end();
        Self {
            name,
            dtype,
            table,
            pool,
        }
    }

    /// The entry of these types, if there is one.
    pub fn of(dtype: DType, table: DType, pool: DType) -> Option<Self> {
        Self::find(|entry| (entry.dtype, entry.table, entry.pool) == (dtype, table, pool))
    }
}

entries! { $ KvAppendEntry((KvAppendParams, Option<KvAppendScales>)) {
    /// The element types of keys and values, and of the tables.
    kv_append {
        kv_append_f32_f32(f32, f32);
        kv_append_f16_f32(f16, f32);
        kv_append_f16_f16(f16, f16);
        kv_append_bf16_f32(bf16, f32);
        kv_append_bf16_bf16(bf16, bf16);
    }
    /// The same for pools in e4m3.
    kv_append_e4m3 {
        kv_append_f16_f32_e4m3(f16, f32);
        kv_append_f16_f16_e4m3(f16, f16);
        kv_append_bf16_f32_e4m3(bf16, f32);
        kv_append_bf16_bf16_e4m3(bf16, bf16);
    }
} }
