//! Errors of measurements.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::cublaslt::CublasLtError;

/// Why a measurement was not made or not saved.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// An error of the device or of an operation of warpsmith.
    #[error(transparent)]
    Device(#[from] warpsmith::Error),
    /// An error of cuBLASLt.
    #[error(transparent)]
    CublasLt(#[from] CublasLtError),
    /// The GPU's driver does not report a property.
    #[error("the driver does not say {what}: {message}")]
    Property {
        /// What was asked for.
        what: &'static str,
        /// Its answer.
        message: String,
    },
    /// A file that cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that is not a result file.
    #[error("{path} is not a result file: {source}")]
    NotResults {
        /// Which.
        path: PathBuf,
        /// Where and why parsing failed.
        source: csv::Error,
    },
    /// Work that would keep the emulator busy for hours.
    #[error(
        "{case} is {flops:.1e} operations, more than the {limit:.1e} that the emulator is given: \
         choose smaller extents, or a GPU"
    )]
    TooLargeForEmulator {
        /// Which case.
        case: String,
        /// Its operations.
        flops: f64,
        /// Most operations.
        limit: f64,
    },
    /// Operands and results that the device has no memory for.
    #[error(
        "{case} takes {bytes} bytes, more than the {limit} that are free on the device: choose smaller \
         extents"
    )]
    TooLargeForMemory {
        /// Which case.
        case: String,
        /// Bytes of one copy of its operands and of its result.
        bytes: u64,
        /// Bytes that are free.
        limit: u64,
    },
    /// A library that cannot be loaded, or lacks a symbol.
    #[error("{path} cannot be loaded: {source}")]
    Library {
        /// Which.
        path: PathBuf,
        /// Why.
        source: libloading::Error,
    },
    /// A GEMM that CUTLASS refused.
    #[error("CUTLASS's {kernel} returned status {status}")]
    Cutlass {
        /// Which of its kernels.
        kernel: String,
        /// A `cutlass::Status`.
        status: i32,
    },
    /// A CUDA graph that cannot be made or replayed.
    #[error("{call} made no graph: {message}")]
    Graph {
        /// What refused.
        call: &'static str,
        /// Its answer.
        message: String,
    },
    /// An error that the peers' side reported.
    #[error("peers of {case}: {message}")]
    Peers {
        /// The case.
        case: String,
        /// Their message.
        message: String,
    },
    /// The operation has no set of this name.
    #[error("there is no set '{set}' of {operation}: want {known}")]
    NoSet {
        /// The operation.
        operation: &'static str,
        /// What was asked for.
        set: String,
        /// Those that there are.
        known: String,
    },
    /// There is no operation of this name.
    #[error("there is no operation '{name}': want {known}")]
    NoOperation {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// No kernel for the cases has a name that begins so.
    #[error("--kernel {name}: {reason}")]
    NoKernel {
        /// What was asked for.
        name: String,
        /// Why there is none, and what there is.
        reason: String,
    },
    /// The selection of cases is empty.
    #[error("no case is left: no name of the chosen sets contains '{only}'")]
    NoCase {
        /// The text that names had to contain.
        only: String,
    },
    /// The named sets have types and layouts of their own.
    #[error("--precision and --layout are of --shape and of --set random; want one of these")]
    UnusedTypes,
}

impl BenchError {
    /// For `map_err` on what reads or writes `path`.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }

    /// For `map_err` on what loads `path`.
    pub(crate) fn library(path: &Path) -> impl Fn(libloading::Error) -> Self + Copy {
        move |source| Self::Library {
            path: path.to_owned(),
            source,
        }
    }
}

/// The result of a measurement.
pub type Result<T> = std::result::Result<T, BenchError>;
