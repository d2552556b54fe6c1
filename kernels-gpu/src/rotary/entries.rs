//! The entries: for each dtype of x and of the tables, by vectors of halves, by vectors of
//! neighbours, and with any strides.

use abi::rotary::{RotaryParams, THREADS};
use cuda_std::kernel;
use cuda_std::param::ByValue;
use half::{bf16, f16};

use super::coord::Arrays;
use super::{strided, vectors};

macro_rules! kernels {
    (@ $name:ident $ty:ty, $table:ty, $rotate:expr) => {
        #[doc = concat!("Turns pairs of ", stringify!($ty), " by tables of ", stringify!($table), ".")]
        ///
        /// # Safety
        /// Launched as `abi::rotary` says, with arrays of these extents and strides.
        #[kernel(max_threads = THREADS)]
        pub unsafe fn $name(
            x: *const u8,
            y: *mut u8,
            cos: *const u8,
            sin: *const u8,
            positions: *const i32,
            params: ByValue<RotaryParams, 552>,
        ) {
            let params = &*params;
            let arrays = Arrays {
                x,
                y,
                cos,
                sin,
                positions,
                params,
            };
            // SAFETY: the launch's promise.
            unsafe { $rotate(&arrays) }
        }
    };
}

macro_rules! by_vectors {
    ($($name:ident($ty:ty, $table:ty, $is_interleaved:literal);)*) => {$(
        kernels!(@ $name $ty, $table,
            vectors::rotate::<$ty, $table, { 16 / size_of::<$ty>() }, $is_interleaved>);
    )*};
}

macro_rules! by_pairs {
    ($($name:ident($ty:ty, $table:ty);)*) => {$(
        kernels!(@ $name $ty, $table, strided::rotate::<$ty, $table>);
    )*};
}

abi::rotary_vectors!(by_vectors);
abi::rotary_strided!(by_pairs);
