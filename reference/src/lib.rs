//! References in f64 for every operation, each with an upper bound of the error of a correct f32
//! implementation.
//!
//! A reference takes arrays of f64 whose elements are already rounded to the dtype that the tested
//! implementation reads ([`precision::round_array`]). It evaluates the operation's definition in
//! f64 and returns an [`Expected`]: the values, and for each element the largest error that the
//! roundings of the implementation can cause. [`Expected::compare`] then checks a result.
//!
//! A [`Model`] describes the implementation as far as the bound depends on it: the length of its
//! longest chain of additions, and the error of its `exp` in ulp.
//!
//! # How the bounds are derived
//!
//! `u = 2^-24` is the unit roundoff of f32: each f32 operation returns `x (1 + d)` with `|d| <= u`,
//! plus an error of at most `eta = 2^-149` if the result is subnormal. `n` operations in a row have
//! a factor `(1 + d)^n`, and `|(1 + d)^n - 1| <= gamma(n) = n u / (1 - n u)` (Higham, Accuracy and
//! Stability of Numerical Algorithms, 2nd ed., lemma 3.1). So a sum whose longest chain has `n`
//! additions has an error of at most `gamma(n) * sum |term|` for all data. Each module derives its
//! bound from that and documents the derivation. The last step is always the rounding to the
//! output's dtype, [`Expected::rounded_to`].
//!
//! The evaluation in f64 has errors too, of the same form with `2^-53` in place of `2^-24`. All
//! bounds are widened by the factor `1 + 2^-20`, which covers these errors and the roundings in the
//! computation of the bound itself.
//!
//! This crate shares no code with kernels, host or emulator, only shapes and dtypes (`abi`).
#![forbid(unsafe_code)]

pub mod attention;
mod compare;
pub mod cross_entropy;
pub mod elementwise;
mod error;
mod expected;
pub mod gemm;
mod model;
pub mod norm;
pub mod norm_grad;
pub mod precision;
pub mod reduce;
pub mod rotary;
pub mod scan;
pub mod scatter;
pub mod softmax;
pub mod softmax_grad;
pub mod sort;
mod special;
mod sum;
pub mod take;
pub mod topk;

pub use compare::{Agreement, Mismatch};
pub use error::ReferenceError;
pub use expected::Expected;
pub use model::Model;
