//! CUTLASS's GEMMs for sm_80, as `scripts/gpu/cutlass_gemm` compiles them: the second peer of those
//! of our kernels that do not use Hopper's instructions.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;

use libloading::Library;
use warpsmith::{GemmOutput, Stream};

use super::cases::{Case, Layout, Precision};
use super::peers::fastest_kernel;
use super::product::{Copy, Product};
use crate::cublaslt::Epilogue;
use crate::error::{BenchError, Result};
use crate::inputs::Sample;
use crate::opponent::Opponent;
use crate::timing::Timer;

/// Name of the library in its folder.
const LIBRARY: &str = "libcutlass_gemm.so";

// The functions that `benches/peers/cutlass_gemm.cu` exports.
type Count = unsafe extern "C" fn() -> c_uint;
type Version = unsafe extern "C" fn() -> *const c_char;
type Name = unsafe extern "C" fn(c_uint) -> *const c_char;
type IsBf16 = unsafe extern "C" fn(c_uint) -> c_int;
/// Takes index, m, n, k, a, b, d and stream. Returns 0 or another `cutlass::Status`.
type Launch = unsafe extern "C" fn(
    c_uint,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    *mut c_void,
    *mut c_void,
) -> c_int;

/// Its kernels: bf16 and f16, A `[m, k]`, B `[n, k]`.
#[derive(Debug)]
pub(super) struct Cutlass {
    name: String,
    products: Vec<Described>,
    launch: Launch,
    /// Keeps the library loaded, so that `launch` stays valid.
    _library: Library,
}

#[derive(Debug)]
struct Described {
    name: String,
    precision: Precision,
}

impl Cutlass {
    /// Loads the library from `folder`.
    pub(super) fn load(folder: &Path) -> Result<Self> {
        let path = folder.join(LIBRARY);
        let failed = BenchError::library(&path);
        // SAFETY: loading it runs nothing but the registration of its kernels.
        let library = unsafe { Library::new(&path) }.map_err(failed)?;
        // SAFETY: the types are those of the functions in `benches/peers/cutlass_gemm.cu`.
        let symbols = unsafe {
            let count = library.get::<Count>(b"cutlass_gemm_count");
            let version = library.get::<Version>(b"cutlass_gemm_version");
            let name = library.get::<Name>(b"cutlass_gemm_name");
            let is_bf16 = library.get::<IsBf16>(b"cutlass_gemm_is_bf16");
            let launch = library.get::<Launch>(b"cutlass_gemm_launch");
            (
                *count.map_err(failed)?,
                *version.map_err(failed)?,
                *name.map_err(failed)?,
                *is_bf16.map_err(failed)?,
                *launch.map_err(failed)?,
            )
        };
        let (count, version, name, is_bf16, launch) = symbols;
        let text = |text: *const c_char| {
            // SAFETY: a literal of the library.
            let text = unsafe { CStr::from_ptr(text) };
            text.to_string_lossy().into_owned()
        };
        let described = |idx| Described {
            // SAFETY: below the count.
            name: text(unsafe { name(idx) }),
            // SAFETY: below the count.
            precision: match unsafe { is_bf16(idx) } {
                0 => Precision::F16,
                _ => Precision::Bf16,
            },
        };
        // SAFETY: reads a constant.
        let (count, version) = unsafe { (count(), version()) };
        Ok(Self {
            name: format!("CUTLASS {}", text(version)),
            products: (0..count).map(described).collect(),
            launch,
            _library: library,
        })
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The fastest of the kernels that compute `product`; `None` if none does.
    pub(super) fn fastest<'a, In: Sample, Out: GemmOutput + Sample>(
        &'a self,
        product: &'a Product<In, Out>,
        timer: &'a Timer,
    ) -> Result<Option<Opponent<'a>>> {
        let all = self.products.iter().enumerate();
        let fitting = all.filter(|(_, described)| described.computes(&product.case));
        let kernels = fitting.map(|(idx, described)| {
            let enqueue = move |copy: &_| self.enqueue(idx, &product.case, copy, timer.stream());
            (described.name.as_str(), enqueue)
        });
        fastest_kernel(&self.name, product, timer, kernels)
    }

    fn enqueue<In: Sample, Out: GemmOutput + Sample>(
        &self,
        idx: usize,
        case: &Case,
        copy: &Copy<In, Out>,
        stream: &Stream,
    ) -> Result<()> {
        let [m, n, k] = [case.m, case.n, case.k].map(|extent| extent as c_int);
        let at = |address: u64| std::ptr::without_provenance_mut::<c_void>(address as usize);
        let [a, b] = [&copy.a, &copy.b].map(|operand| at(operand.device_ptr().as_raw()));
        let d = at(copy.theirs.device_ptr().as_raw());
        // SAFETY: matrices of these extents and of the product's type, without gaps, B transposed:
        // `computes` made sure; `d` overlaps neither.
        let status = unsafe { (self.launch)(idx as c_uint, m, n, k, a, b, d, stream.as_raw()) };
        match status {
            0 => Ok(()),
            status => Err(BenchError::Cutlass {
                kernel: self.products[idx].name.clone(),
                status,
            }),
        }
    }
}

impl Described {
    fn computes(&self, case: &Case) -> bool {
        let is_plain = case.batch == 1 && case.epilogue == Epilogue::None;
        is_plain && case.precision == self.precision && case.layout == Layout::Nt
    }
}
