//! The entries, one for each dtype.

use abi::scan::{ScanParams, THREADS};
use cuda_std::{dynamic_shared, kernel};
use half::{bf16, f16};

use super::body::scan;

macro_rules! kernels {
    ($($name:ident($ty:ty, $lanes:literal, $blocks:literal);)*) => {$(
        kernels!(@ $name $ty, $lanes, false, false, max_threads = THREADS, min_blocks = $blocks);
    )*};
    (@ $name:ident $ty:ty, $lanes:literal, $is_lse:literal, $is_sm80:literal,
        $($attribute:tt)*) => {
        #[doc = concat!("Scans rows of ", stringify!($ty), ".")]
        ///
        /// # Safety
        /// Launched as `abi::scan` says, with tensors of these extents and strides.
        #[kernel($($attribute)*)]
        pub unsafe fn $name(x: *const u8, y: *mut u8, status: *mut u64, params: ScanParams) {
            // SAFETY: the launch's promise; its shared memory is for this alone.
            unsafe {
                scan::<$ty, $lanes, $is_lse, $is_sm80>(x, y, status, &params, dynamic_shared![u32])
            }
        }
    };
}

macro_rules! kernels_lse {
    ($($name:ident($ty:ty, $lanes:literal, $blocks:literal);)*) => {$(
        kernels!(@ $name $ty, $lanes, true, false, max_threads = THREADS, min_blocks = $blocks);
    )*};
}

macro_rules! kernels_sm80 {
    ($($name:ident($ty:ty, $lanes:literal, $blocks:literal);)*) => {$(
        kernels!(@ $name $ty, $lanes, false, true,
            max_threads = THREADS, min_blocks = $blocks, arch = "sm_80");
    )*};
}

abi::scan_portable!(kernels);
abi::scan_lse!(kernels_lse);
abi::scan_sm80!(kernels_sm80);
