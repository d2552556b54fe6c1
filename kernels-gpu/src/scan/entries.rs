//! The entries, one for each dtype.

use cuda_std::{dynamic_shared, kernel};
use half::{bf16, f16};
use spec::scan::{ScanParams, THREADS};

use super::body::scan;

macro_rules! entries {
    ($($name:ident: $ty:ty, $lanes:literal, $blocks:literal, $is_sm80:literal
        $(, arch = $arch:tt)?;)*) => {$(
        #[doc = concat!("Scans rows of ", stringify!($ty) $(, ", for ", $arch)?, ".")]
        ///
        /// # Safety
        /// Launched as `spec::scan` says, with arrays of these extents and strides.
        #[kernel(max_threads = THREADS, min_blocks = $blocks $(, arch = $arch)?)]
        pub unsafe fn $name(x: *const u8, y: *mut u8, status: *mut u64, params: ScanParams) {
            // SAFETY: the launch's promise; the shared memory is for this alone.
            unsafe { scan::<$ty, $lanes, $is_sm80>(x, y, status, &params, dynamic_shared![u32]) }
        }
    )*};
}

entries! {
    scan_f32: f32, 4, 4, false;
    scan_f16: f16, 8, 4, false;
    scan_bf16: bf16, 8, 4, false;
    scan_sm80_bf16: bf16, 8, 4, true, arch = "sm_80";
    scan_f64: f64, 2, 3, false;
    scan_i32: i32, 4, 3, false;
    scan_i64: i64, 2, 3, false;
}
