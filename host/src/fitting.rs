//! What the program that fits the constants of the cost model uses. Not part of the library's
//! interface.

pub use crate::ops::{GemmProblem, MachineModel};

use crate::{DeviceInfo, DeviceKind};

/// The properties of an H200 by which GEMM chooses its kernels.
pub fn h200() -> DeviceInfo {
    DeviceInfo {
        kind: DeviceKind::Gpu { ordinal: 0 },
        name: "NVIDIA H200".into(),
        arch: (9, 0),
        memory_bytes: 141 << 30,
        multiprocessors: 132,
        l2_bytes: 50 << 20,
        max_threads_per_block: 1024,
        max_block: [1024, 1024, 64],
        max_grid: [i32::MAX as u32, 65_535, 65_535],
        max_shared_bytes_per_block: 227 << 10,
        driver_version: None,
    }
}
