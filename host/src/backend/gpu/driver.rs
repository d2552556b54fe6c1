//! Finds and initialises the driver, once per process. Nothing else may call cudarc before: it
//! panics where the driver's library or one of its functions is missing.

use crate::error::{DeviceError, Error, Result};
use cudarc::driver::sys::{self, CUresult};
use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

/// Functions of the driver that this crate calls, by their names in the library.
const FUNCTIONS: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2",
    "cuDevicePrimaryCtxRetain",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuStreamCreate",
    "cuStreamSynchronize",
    "cuStreamQuery",
    "cuStreamIsCapturing",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventQuery",
    "cuEventElapsedTime",
    "cuMemGetInfo_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemsetD8Async",
    "cuMemsetD16Async",
    "cuMemsetD32Async",
    "cuMemsetD2D32Async",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuModuleGetGlobal_v2",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuLaunchKernel",
];

/// A driver that was found and initialised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Driver {
    /// Newest CUDA version that it supports, as 1000 * major + 10 * minor.
    pub(crate) version: c_int,
    /// Number of GPUs that it sees.
    pub(crate) count: usize,
}

/// The driver of this machine; [`DeviceError::NoDriver`] where there is no usable one. It is looked
/// for once per process.
pub(crate) fn driver() -> Result<Driver> {
    static DRIVER: OnceLock<Result<Driver, Box<str>>> = OnceLock::new();
    match DRIVER.get_or_init(find) {
        Ok(driver) => Ok(*driver),
        Err(detail) => Err(Error::Device(DeviceError::NoDriver {
            detail: detail.clone(),
        })),
    }
}

fn find() -> Result<Driver, Box<str>> {
    // SAFETY: loading the driver's library runs its initialisers, which is what it is made for.
    if !unsafe { sys::is_culib_present() } {
        return Err("its library (libcuda.so, nvcuda.dll) is not in the loader's path".into());
    }
    // SAFETY: the library is there, so this does not panic.
    let library = unsafe { sys::culib() };
    for name in FUNCTIONS {
        // SAFETY: the symbol is only looked up, not called.
        if unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_err() {
            return Err(format!("its library has no `{name}`: too old, or a stub").into());
        }
    }
    // SAFETY: cuInit may be called first and any number of times.
    let code = unsafe { sys::cuInit(0) };
    match code {
        CUresult::CUDA_SUCCESS => {}
        // The driver works, but there is no GPU.
        CUresult::CUDA_ERROR_NO_DEVICE => {
            return Ok(Driver {
                version: version(),
                count: 0,
            });
        }
        _ => return Err(format!("cuInit failed: {}", describe(code)).into()),
    }
    let mut count = 0;
    // SAFETY: `count` is a valid place for the answer.
    let code = unsafe { sys::cuDeviceGetCount(&raw mut count) };
    if code != CUresult::CUDA_SUCCESS {
        return Err(format!("cuDeviceGetCount failed: {}", describe(code)).into());
    }
    Ok(Driver {
        version: version(),
        count: usize::try_from(count).unwrap_or(0),
    })
}

fn version() -> c_int {
    let mut version = 0;
    // SAFETY: `version` is a valid place; needs no initialised driver. On failure it stays 0.
    let _ = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    version
}

/// Name of a result code and the driver's description of it.
pub(super) fn describe(code: CUresult) -> String {
    let mut name: *const c_char = std::ptr::null();
    let mut text: *const c_char = std::ptr::null();
    // SAFETY: both are valid places; the driver stores static strings or leaves null.
    unsafe {
        let _ = sys::cuGetErrorName(code, &raw mut name);
        let _ = sys::cuGetErrorString(code, &raw mut text);
    }
    let show = |text: *const c_char| {
        (!text.is_null()).then(|| {
            // SAFETY: not null, so one of the driver's static strings.
            unsafe { CStr::from_ptr(text) }
                .to_string_lossy()
                .into_owned()
        })
    };
    match (show(name), show(text)) {
        (Some(name), Some(text)) => format!("{name} ({text})"),
        (Some(name), None) => name,
        _ => format!("code {}", code as u32),
    }
}

/// The error of a failed driver call.
#[cold]
pub(super) fn failure(call: &'static str, code: CUresult) -> Error {
    Error::Device(DeviceError::Driver {
        call,
        code: code as u32,
        message: describe(code).into(),
    })
}

/// Calls a function of the driver by name, and turns its result into ours:
/// `cu!(cuStreamSynchronize(stream))?`.
macro_rules! cu {
    ($function:ident($($argument:expr),* $(,)?)) => {
        match ::cudarc::driver::sys::$function($($argument),*) {
            ::cudarc::driver::sys::CUresult::CUDA_SUCCESS => Ok(()),
            code => Err($crate::backend::gpu::driver::failure(stringify!($function), code)),
        }
    };
}
pub(super) use cu;
