//! The peer of GEMMs: cuBLASLt, loaded at run time. It uses the host library's streams and buffers.
//!
//! cuBLASLt's matrices are column-major. A row-major GEMM `d = op(a) @ op(b)` is passed to it as
//! its transpose, `dᵀ = op(b)ᵀ @ op(a)ᵀ`, which reads and writes the same bytes: its A is our B. In
//! its names of layouts the two letters are therefore swapped: our `nt` is its `TN`.

mod matmul;
mod objects;

use std::sync::Arc;

use cudarc::cublaslt::{result, sys};
use cudarc::driver::CudaContext;
use thiserror::Error;
use warpsmith::{DType, DeviceKind, Stream};

pub use matmul::{Algorithm, Arithmetic, Epilogue, Extras, Matmul, Operands, Problem};

/// Why cuBLASLt is not available, or refuses something.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CublasLtError {
    /// The device is not a GPU.
    #[error("cuBLASLt computes on GPUs; this device is {0}")]
    NoGpu(DeviceKind),
    /// The library was not found.
    #[error("no libcublasLt.so: put a folder that holds it under this name on LD_LIBRARY_PATH")]
    Missing,
    /// The driver refused its context.
    #[error("the GPU's context: {0}")]
    Context(String),
    /// A call failed.
    #[error("{call} returned {status}")]
    Call {
        /// The function.
        call: &'static str,
        /// What it returned.
        status: String,
    },
    /// A type that it does not support.
    #[error("cuBLASLt does not multiply {0}")]
    DType(DType),
    /// It has no algorithm for the GEMM.
    #[error("cuBLASLt has no algorithm for {0}")]
    NoAlgorithm(String),
}

type Result<T> = std::result::Result<T, CublasLtError>;

/// The workspace size that cuBLASLt's documentation recommends on Hopper.
const WORKSPACE_BYTES: usize = 64 << 20;

/// The library, initialised for one GPU.
pub struct CublasLt {
    handle: sys::cublasLtHandle_t,
    stream: Stream,
    workspace: warpsmith::DeviceBuffer<u8>,
    /// Keeps the device's primary context, which the host library uses too, alive.
    _context: Arc<CudaContext>,
}

impl CublasLt {
    /// Loads the library for work on `stream`.
    ///
    /// # Errors
    /// [`CublasLtError::NoGpu`], [`CublasLtError::Missing`], or what the first calls give.
    pub fn load(stream: &Stream) -> Result<Self> {
        let DeviceKind::Gpu { ordinal } = stream.device().kind() else {
            return Err(CublasLtError::NoGpu(stream.device().kind()));
        };
        // SAFETY: only looks for the library.
        if !unsafe { sys::is_culib_present() } {
            return Err(CublasLtError::Missing);
        }
        let context_error =
            |error: &dyn std::fmt::Display| CublasLtError::Context(error.to_string());
        let context = CudaContext::new(ordinal).map_err(|error| context_error(&error))?;
        context
            .bind_to_thread()
            .map_err(|error| context_error(&error))?;
        let workspace = warpsmith::DeviceBuffer::uninit(stream, WORKSPACE_BYTES)
            .map_err(|error| context_error(&error))?;
        Ok(Self {
            handle: result::create_handle().map_err(failed("cublasLtCreate"))?,
            stream: stream.clone(),
            workspace,
            _context: context,
        })
    }

    /// Its name with its version: `cuBLASLt 13.1.0`.
    pub fn name(&self) -> String {
        // SAFETY: takes nothing; the library was loaded by `load`.
        let version = unsafe { sys::cublasLtGetVersion() };
        let (major, minor, patch) = match version {
            0..100_000 => (version / 10_000, version / 100 % 100, version % 100),
            _ => (version / 10_000, version % 10_000 / 100, version % 100),
        };
        format!("cuBLASLt {major}.{minor}.{patch}")
    }

    /// The stream that it works on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        // SAFETY: made by `load`, destroyed once. A failure leaves nothing to do.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

impl std::fmt::Debug for CublasLt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}", self.name(), self.stream.device())
    }
}

/// For `map_err` on a call of that name.
fn failed(call: &'static str) -> impl Fn(result::CublasError) -> CublasLtError {
    move |error| CublasLtError::Call {
        call,
        status: error.to_string(),
    }
}
