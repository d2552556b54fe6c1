//! Products in f64: `D[m, n] = epilogue(op(A)[m, k] @ op(B)[k, n])`, batched; see
//! [`abi::gemm::DoubleEntry`].
//!
//! | entry | multiplies by | from |
//! |---|---|---|
//! | `simt` | `fma.rn.f64` | sm_75 |
//! | `mma`, 8 rows | `mma.sync.m8n8k4` | sm_80 |
//! | `mma`, 16 rows | `mma.sync.m16n8k8` | sm_90a |
//!
//! Layouts, strides and alignments are known at run time only: a multiplication in f64 takes so
//! long, even on tensor cores, that the instructions for addresses hide behind it.
//!
//! # Numerics
//! One accumulator an element, from +0, `fma(a, b, acc)` with k ascending. `mma.sync` of f64 is that
//! same chain. The tail of k is padded with zeros, to a multiple of 8 in all entries, since adding
//! +0 may change the sign of a zero. Then [`ending`]. So all entries give the same bits, on every
//! device.
//!
//! # Before you change this
//! `ptxas -v` for sm_80 and sm_90a: no spills; `cargo test -p warpsmith-tests gemm::`, which
//! compares the bits of all entries.

mod ending;
mod entries;
mod mma;
mod operand;
mod simt;

pub use entries::*;
