//! cuBLAS's sgemm on the host's own stream and buffers.

use std::cell::Cell;
use std::sync::Arc;

use cudarc::cublas::{result, sys};
use cudarc::driver::CudaContext;
use warpsmith::{Stream, Tensor};

use crate::layout::Layout;

/// Why cuBLAS is not there, or did not do its work.
#[derive(Debug)]
pub(crate) enum CublasError {
    /// No libcublas on the library path.
    Missing,
    /// A call returned this.
    Failed(String),
}

impl std::fmt::Display for CublasError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => {
                f.write_str("no libcublas.so: put the folder that holds it on LD_LIBRARY_PATH")
            }
            Self::Failed(status) => write!(f, "cuBLAS: {status}"),
        }
    }
}

impl std::error::Error for CublasError {}

/// A handle that works on one stream.
pub(crate) struct Cublas {
    handle: sys::cublasHandle_t,
    /// The first failure since the last [`check`](Self::check).
    failure: Cell<Option<String>>,
    /// Keeps the device's primary context, which the host uses too, alive.
    _context: Arc<CudaContext>,
}

impl Cublas {
    /// A handle for `stream`, a stream of GPU 0, with TF32 off.
    pub(crate) fn new(stream: &Stream) -> Result<Self, CublasError> {
        // SAFETY: only looks for the library.
        if !unsafe { sys::is_culib_present() } {
            return Err(CublasError::Missing);
        }
        let context = CudaContext::new(0).map_err(|e| CublasError::Failed(e.to_string()))?;
        context
            .bind_to_thread()
            .map_err(|e| CublasError::Failed(e.to_string()))?;
        let handle = result::create_handle().map_err(failed)?;
        // SAFETY: the handle was made above; the stream is of the same context and outlives it.
        unsafe {
            result::set_stream(handle, stream.as_raw().cast()).map_err(failed)?;
            sys::cublasSetMathMode(handle, sys::cublasMath_t::CUBLAS_DEFAULT_MATH)
                .result()
                .map_err(failed)?;
        }
        Ok(Self {
            handle,
            failure: Cell::new(None),
            _context: context,
        })
    }

    /// `13.1.0` as one number, as cuBLAS gives it.
    pub(crate) fn version(&self) -> Result<i32, CublasError> {
        let mut version = 0;
        // SAFETY: the handle is valid and `version` writable.
        unsafe { sys::cublasGetVersion_v2(self.handle, &raw mut version) }
            .result()
            .map_err(failed)?;
        Ok(version)
    }

    /// Enqueues `d = op(a) @ op(b)`, all row-major: cuBLAS, which is column-major, computes the
    /// transpose, `dᵀ = op(b)ᵀ @ op(a)ᵀ`. A failure is kept for [`check`](Self::check).
    pub(crate) fn sgemm(
        &self,
        layout: Layout,
        (m, n, k): (usize, usize, usize),
        a: &Tensor<f32>,
        b: &Tensor<f32>,
        d: &Tensor<f32>,
    ) {
        let operation = |transposed| {
            if transposed {
                sys::cublasOperation_t::CUBLAS_OP_T
            } else {
                sys::cublasOperation_t::CUBLAS_OP_N
            }
        };
        let (alpha, beta) = (1.0_f32, 0.0_f32);
        // SAFETY: the tensors are contiguous f32 matrices of these extents on the handle's device,
        // and live until the stream is synchronized by the caller's events.
        let status = unsafe {
            result::sgemm(
                self.handle,
                operation(layout.trans_b),
                operation(layout.trans_a),
                n as i32,
                m as i32,
                k as i32,
                &raw const alpha,
                b.device_ptr().as_raw() as *const f32,
                if layout.trans_b { k } else { n } as i32,
                a.device_ptr().as_raw() as *const f32,
                if layout.trans_a { m } else { k } as i32,
                &raw const beta,
                d.device_ptr().as_raw() as *mut f32,
                n as i32,
            )
        };
        if let Err(error) = status {
            self.failure.set(Some(error.to_string()));
        }
    }

    /// The failure of a call since the last check.
    pub(crate) fn check(&self) -> Result<(), CublasError> {
        self.failure
            .take()
            .map_or(Ok(()), |status| Err(CublasError::Failed(status)))
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once. A failure leaves nothing to do.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

fn failed(error: result::CublasError) -> CublasError {
    CublasError::Failed(error.to_string())
}
