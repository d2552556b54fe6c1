//! Measurements: criterion benches, and comparisons with the vendor's libraries.
//!
//! `cargo run --release -p warpsmith-benches --example compare_gemm` compares GEMMs with
//! cuBLASLt's, in one process, on the device that `WARPSMITH_BENCH_DEVICE` names (`auto` if it is
//! not set). `warpsmith bench gemm` does the same.
//!
//! - [`timing`], [`inputs`] and [`gemm`] contain what a fair measurement requires.
//! - [`results`] has what a run measured, [`record`] the files in which it is saved; [`gate`]
//!   compares two of these.
//! - [`fit`] fits the constants of GEMM's cost model to result files.
//! - [`operations`] compares all other operations with torch and libraries built on it; its
//!   documentation explains how to add an operation.
//!
//! Timing, table, files, plots and gate are independent of what is measured.

pub mod cublaslt;
mod draw;
pub mod error;
pub mod fit;
pub mod gate;
pub mod gemm;
pub mod graph;
pub mod inputs;
pub mod machine;
pub mod operations;
pub mod opponent;
pub mod page;
pub mod plot;
pub mod record;
pub mod results;
pub mod session;
pub mod table;
pub mod timing;

use warpsmith::{Device, Result};

/// The device that `WARPSMITH_BENCH_DEVICE` names: `gpu`, `gpu:1`, `emulator` or `auto`.
///
/// # Errors
/// As [`Device::from_name`]: an unknown name, no such device.
pub fn bench_device() -> Result<Device> {
    let name = std::env::var("WARPSMITH_BENCH_DEVICE").unwrap_or_else(|_| "auto".to_owned());
    Device::from_name(&name)
}
