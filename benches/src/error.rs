//! What can go wrong in a measurement.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::cublaslt::CublasLtError;

/// Why a measurement was not made or not kept.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The device, or an operation of ours.
    #[error(transparent)]
    Device(#[from] warpsmith::Error),
    /// The peer.
    #[error(transparent)]
    CublasLt(#[from] CublasLtError),
    /// The GPU's driver, asked for a property.
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
    /// A file that holds no results.
    #[error("{path} is not a result file: {source}")]
    NotResults {
        /// Which.
        path: PathBuf,
        /// Where it stops being one.
        source: serde_json::Error,
    },
    /// A plot that cannot be drawn.
    #[error("{path}: the plot cannot be drawn: {message}")]
    Plot {
        /// Where it was to go.
        path: PathBuf,
        /// Why.
        message: String,
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
    /// A library that cannot be loaded, or lacks what it is to export.
    #[error("{path} cannot be loaded: {source}")]
    Library {
        /// Which.
        path: PathBuf,
        /// Why.
        source: libloading::Error,
    },
    /// A product that CUTLASS refused.
    #[error("CUTLASS's {kernel} returned status {status}")]
    Cutlass {
        /// Which of its kernels.
        kernel: String,
        /// A `cutlass::Status`.
        status: i32,
    },
    /// What other libraries were asked for.
    #[error("peers of {case}: {message}")]
    Peers {
        /// Of which case.
        case: String,
        /// Their answer.
        message: String,
    },
    /// A set that the operation has not.
    #[error("there is no set '{set}' of {operation}: want {known}")]
    NoSet {
        /// The operation.
        operation: &'static str,
        /// What was asked for.
        set: String,
        /// Those that there are.
        known: String,
    },
    /// An operation that there is not.
    #[error("there is no operation '{name}': want {known}")]
    NoOperation {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// A choice of cases that leaves none.
    #[error("no case is left: no name of the chosen sets contains '{only}'")]
    NoCase {
        /// What names were to contain.
        only: String,
    },
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

/// Of a measurement.
pub type Result<T> = std::result::Result<T, BenchError>;
