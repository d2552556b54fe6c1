//! One GEMM: its description, the algorithms that the library has for it, and its launch.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

use cudarc::cublaslt::{result, sys};
use warpsmith::{DType, DevicePtr};

use super::objects::{Description, Layout, Preference};
use super::{CublasLt, CublasLtError, Result, WORKSPACE_BYTES, failed};

/// The arithmetic of a GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Exact products, accumulated in f32.
    F32,
    /// f64 throughout.
    F64,
    /// i8 operands, accumulated in i32.
    I32,
    /// f32 operands, rounded to TF32.
    Tf32,
    /// fp8 operands with per-tensor scales. With fast accumulation the running sum keeps fewer
    /// bits.
    Fp8 {
        /// `CUBLASLT_MATMUL_DESC_FAST_ACCUM`.
        fast: bool,
    },
}

/// The epilogue of a GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epilogue {
    /// No epilogue.
    None,
    /// `gelu(product + bias)`, with gelu's tanh approximation and one bias element per column.
    BiasGelu,
}

/// A GEMM of row-major matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Rows of d.
    pub m: usize,
    /// Columns of d.
    pub n: usize,
    /// Extent of the reduction.
    pub k: usize,
    /// Number of matrices, which are stored one after the other.
    pub batch: usize,
    /// A is stored `[k, m]`.
    pub trans_a: bool,
    /// B is stored `[n, k]`.
    pub trans_b: bool,
    /// Type of A and B.
    pub input: DType,
    /// Type of D.
    pub output: DType,
    /// The arithmetic.
    pub arithmetic: Arithmetic,
    /// The epilogue.
    pub epilogue: Epilogue,
}

/// Addresses of contiguous operands. The caller keeps the tensors that they were taken from alive
/// until the work is done.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// A as stored.
    pub a: DevicePtr<u8>,
    /// B as stored.
    pub b: DevicePtr<u8>,
    /// D.
    pub d: DevicePtr<u8>,
}

/// Addresses that are part of a description.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras {
    /// n values of D's type.
    pub bias: Option<DevicePtr<u8>>,
    /// One f32 each: the scales of A and B, for fp8.
    pub scales: Option<[DevicePtr<f32>; 2]>,
}

/// One of the library's algorithms for a GEMM.
#[derive(Clone, Copy)]
pub struct Algorithm {
    raw: sys::cublasLtMatmulAlgo_t,
    /// Its position in the library's own order.
    pub rank: usize,
}

/// A GEMM that has been described to the library.
pub struct Matmul<'lib> {
    library: &'lib CublasLt,
    problem: Problem,
    description: Description,
    a: Layout,
    b: Layout,
    d: Layout,
}

impl<'lib> Matmul<'lib> {
    /// Describes `problem` to the library.
    ///
    /// # Errors
    /// [`CublasLtError::DType`], [`CublasLtError::Call`].
    pub fn new(library: &'lib CublasLt, problem: Problem, extras: Extras) -> Result<Self> {
        let Problem { m, n, k, batch, .. } = problem;
        let input = data_type(problem.input)?;
        // The library's A is our B, its rows our columns.
        let as_stored = |transposed: bool, rows: usize, columns: usize| {
            let (rows, columns) = if transposed {
                (columns, rows)
            } else {
                (rows, columns)
            };
            Layout::new(input, rows, columns, batch)
        };
        Ok(Self {
            library,
            problem,
            description: describe(&problem, extras)?,
            a: as_stored(problem.trans_b, n, k)?,
            b: as_stored(problem.trans_a, k, m)?,
            d: Layout::new(data_type(problem.output)?, n, m, batch)?,
        })
    }

    /// Up to `most` algorithms, in the order in which the library expects them to be fast.
    ///
    /// # Errors
    /// [`CublasLtError::NoAlgorithm`], [`CublasLtError::Call`].
    pub fn algorithms(&self, most: usize) -> Result<Vec<Algorithm>> {
        let preference = Preference::new(WORKSPACE_BYTES)?;
        let mut found = vec![MaybeUninit::<sys::cublasLtMatmulHeuristicResult_t>::zeroed(); most];
        let mut count = 0;
        // SAFETY: all objects are live, and there is room for `most` results.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.library.handle,
                self.description.raw(),
                self.a.raw(),
                self.b.raw(),
                self.d.raw(),
                self.d.raw(),
                preference.raw(),
                most as i32,
                found.as_mut_ptr().cast(),
                &raw mut count,
            )
        };
        let none = || CublasLtError::NoAlgorithm(format!("{:?}", self.problem));
        match status {
            sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED => return Err(none()),
            status => status
                .result()
                .map_err(failed("cublasLtMatmulAlgoGetHeuristic"))?,
        }
        let algorithms: Vec<Algorithm> = found
            .iter()
            .take(count.max(0) as usize)
            // SAFETY: the library wrote the first `count` results.
            .map(|result| unsafe { result.assume_init_ref() })
            .enumerate()
            .filter(|(_, result)| result.state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS)
            .map(|(rank, result)| Algorithm {
                raw: result.algo,
                rank,
            })
            .collect();
        if algorithms.is_empty() {
            return Err(none());
        }
        Ok(algorithms)
    }

    /// Enqueues the GEMM on the library's stream.
    ///
    /// # Errors
    /// [`CublasLtError::Call`], also if the algorithm turns out not to support this GEMM.
    ///
    /// # Safety
    /// The operands are contiguous, of the problem's extents and types, on the stream's device,
    /// and live until the stream has done the work, as do those of the extras.
    pub unsafe fn enqueue(&self, algorithm: &Algorithm, operands: Operands) -> Result<()> {
        let (narrow, wide, whole) = ([1.0_f32, 0.0], [1.0_f64, 0.0], [1_i32, 0]);
        let [alpha, beta]: [*const c_void; 2] = match self.problem.arithmetic {
            Arithmetic::F64 => wide.each_ref().map(|x| ptr::from_ref(x).cast()),
            Arithmetic::I32 => whole.each_ref().map(|x| ptr::from_ref(x).cast()),
            _ => narrow.each_ref().map(|x| ptr::from_ref(x).cast()),
        };
        let library = self.library;
        // SAFETY: the objects are live; alpha and beta are read before the call returns; the
        // operands are the caller's; one stream uses the workspace, so in order.
        unsafe {
            result::matmul(
                library.handle,
                self.description.raw(),
                alpha,
                beta,
                operands.b.as_raw() as *const _,
                self.a.raw(),
                operands.a.as_raw() as *const _,
                self.b.raw(),
                operands.d.as_raw() as *const _,
                self.d.raw(),
                operands.d.as_raw() as *mut _,
                self.d.raw(),
                &raw const algorithm.raw,
                library.workspace.device_ptr().as_raw() as *mut _,
                WORKSPACE_BYTES,
                library.stream.as_raw().cast(),
            )
        }
        .map_err(failed("cublasLtMatmul"))
    }
}

fn describe(problem: &Problem, extras: Extras) -> Result<Description> {
    use sys::cublasComputeType_t as Compute;
    use sys::cublasLtMatmulDescAttributes_t as Attribute;
    use sys::cudaDataType_t as Type;
    let (compute, scale) = match problem.arithmetic {
        Arithmetic::F64 => (Compute::CUBLAS_COMPUTE_64F, Type::CUDA_R_64F),
        Arithmetic::I32 => (Compute::CUBLAS_COMPUTE_32I, Type::CUDA_R_32I),
        Arithmetic::F32 | Arithmetic::Fp8 { .. } => (Compute::CUBLAS_COMPUTE_32F, Type::CUDA_R_32F),
        Arithmetic::Tf32 => (Compute::CUBLAS_COMPUTE_32F_FAST_TF32, Type::CUDA_R_32F),
    };
    let description = Description::new(compute, scale)?;
    let operation = |transposed: bool| i32::from(transposed); // CUBLAS_OP_N, CUBLAS_OP_T
    description.set(
        Attribute::CUBLASLT_MATMUL_DESC_TRANSA,
        operation(problem.trans_b),
    )?;
    description.set(
        Attribute::CUBLASLT_MATMUL_DESC_TRANSB,
        operation(problem.trans_a),
    )?;
    if let Arithmetic::Fp8 { fast } = problem.arithmetic {
        description.set(Attribute::CUBLASLT_MATMUL_DESC_FAST_ACCUM, i8::from(fast))?;
    }
    if let Some([a, b]) = extras.scales {
        description.set(Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, b.as_raw())?;
        description.set(Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, a.as_raw())?;
    }
    if problem.epilogue == Epilogue::BiasGelu {
        let epilogue = sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_GELU_BIAS as u32;
        description.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue)?;
    }
    if let Some(bias) = extras.bias {
        description.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.as_raw())?;
    }
    Ok(description)
}

fn data_type(dtype: DType) -> Result<sys::cudaDataType> {
    use sys::cudaDataType_t as Type;
    match dtype {
        DType::F64 => Ok(Type::CUDA_R_64F),
        DType::F32 => Ok(Type::CUDA_R_32F),
        DType::F16 => Ok(Type::CUDA_R_16F),
        DType::Bf16 => Ok(Type::CUDA_R_16BF),
        DType::E4m3 => Ok(Type::CUDA_R_8F_E4M3),
        DType::E5m2 => Ok(Type::CUDA_R_8F_E5M2),
        DType::I8 => Ok(Type::CUDA_R_8I),
        DType::I32 => Ok(Type::CUDA_R_32I),
        other => Err(CublasLtError::DType(other)),
    }
}
