//! The entries of softmax and cross-entropy, by the table of [`abi::rows`].

use abi::rows::{BLOCK_SCRATCH, HELD_BLOCKS, MAX_THREADS, RowParams, SLICE_THREADS};
use cuda_std::grid::{griddepcontrol_launch_dependents, griddepcontrol_wait};
use cuda_std::{dynamic_shared, kernel, shared_array};
use half::{bf16, f16};

use super::cross_entropy;
use super::targets::Tensors;
use super::{backward, forward, soft, total};
use crate::row::{holding, lanes, slice_blocks, takes_any};

macro_rules! held {
    ($($name:ident($ty:ident);)*) => {$(
        #[doc = concat!("Softmax of rows of ", stringify!($ty), ", held by a block.")]
        ///
        /// # Safety
        /// Launched as `abi::rows` says, with tensors of these extents and strides.
        #[kernel(max_threads = holding!($name).bound, min_blocks = HELD_BLOCKS, arch = "sm_90a")]
        pub unsafe fn $name(x: *const $ty, y: *mut $ty, params: RowParams) {
            // SAFETY: the launch's promise; its shared memory is for this alone.
            unsafe {
                let scratch = dynamic_shared![u32];
                forward::held::<
                    $ty,
                    { lanes::<$ty>() },
                    { holding!($name).vectors as usize },
                    { takes_any!($name) },
                >(x, y, &params, scratch)
            }
        }
    )*};
}

macro_rules! slices {
    ($($name:ident($ty:ident);)*) => {$(
        #[doc = concat!("Softmax of rows of ", stringify!($ty), ", in slices.")]
        ///
        /// # Safety
        /// Launched as `abi::rows` says, with tensors of these extents and strides.
        #[kernel(max_threads = SLICE_THREADS, min_blocks = slice_blocks!($name), arch = "sm_90a")]
        pub unsafe fn $name(x: *const $ty, y: *mut $ty, params: RowParams) {
            // SAFETY: the launch's promise.
            unsafe {
                forward::slices::<$ty, { lanes::<$ty>() }, { takes_any!($name) }>(x, y, &params)
            }
        }
    )*};
}

macro_rules! loose {
    ($($name:ident($ty:ident);)*) => {$(
        #[doc = concat!("Softmax of rows of ", stringify!($ty), ", element by element.")]
        ///
        /// # Safety
        /// Launched as `abi::rows` says, with tensors of these extents and strides.
        #[kernel(max_threads = MAX_THREADS)]
        pub unsafe fn $name(x: *const $ty, y: *mut $ty, params: RowParams) {
            let scratch = shared_array![u32; BLOCK_SCRATCH];
            // SAFETY: the launch's promise; the array is for this alone.
            unsafe { forward::loose(x, y, &params, scratch) }
        }
    )*};
}

macro_rules! held_grads {
    ($($name:ident($ty:ident);)*) => {$(
        #[doc = concat!("Gradient of softmax of rows of ", stringify!($ty), ", held by a block.")]
        ///
        /// # Safety
        /// Launched as `abi::rows` says, with tensors of these extents and strides.
        #[kernel(max_threads = holding!($name).bound, min_blocks = HELD_BLOCKS, arch = "sm_90a")]
        pub unsafe fn $name(y: *const $ty, dy: *const $ty, dx: *mut $ty, params: RowParams) {
            // SAFETY: the launch's promise; its shared memory is for this alone.
            unsafe {
                let scratch = dynamic_shared![u32];
                backward::held::<
                    $ty,
                    { lanes::<$ty>() },
                    { holding!($name).vectors as usize },
                    { takes_any!($name) },
                >([y, dy], dx, &params, scratch)
            }
        }
    )*};
}

macro_rules! slices_grads {
    ($($name:ident($ty:ident);)*) => {$(
        #[doc = concat!("Gradient of softmax of rows of ", stringify!($ty), ", in slices.")]
        ///
        /// # Safety
        /// Launched as `abi::rows` says, with tensors of these extents and strides.
        #[kernel(max_threads = SLICE_THREADS, min_blocks = slice_blocks!($name), arch = "sm_90a")]
        pub unsafe fn $name(y: *const $ty, dy: *const $ty, dx: *mut $ty, params: RowParams) {
            // SAFETY: the launch's promise.
            unsafe {
                backward::slices::<$ty, { lanes::<$ty>() }, { takes_any!($name) }>(
                    [y, dy], dx, &params,
                )
            }
        }
    )*};
}

macro_rules! loose_grads {
    ($($name:ident($ty:ident);)*) => {$(
        #[doc = concat!("Gradient of softmax of rows of ", stringify!($ty), ", one by one.")]
        ///
        /// # Safety
        /// Launched as `abi::rows` says, with tensors of these extents and strides.
        // min_blocks = 1: for two blocks an SM, ptxas would spill on sm_80.
        #[kernel(max_threads = MAX_THREADS, min_blocks = 1)]
        pub unsafe fn $name(y: *const $ty, dy: *const $ty, dx: *mut $ty, params: RowParams) {
            let scratch = shared_array![u32; BLOCK_SCRATCH];
            // SAFETY: the launch's promise; the array is for this alone.
            unsafe { backward::loose([y, dy], dx, &params, scratch) }
        }
    )*};
}

macro_rules! cross_entropy {
    ($name:ident, $ty:ident, $kernel:meta, $body:expr $(, $scratch:expr)?) => {
        #[doc = concat!("Cross-entropy of rows of ", stringify!($ty), ".")]
        ///
        /// # Safety
        /// Launched as `abi::rows` says, with tensors of these extents and strides.
        #[$kernel]
        pub unsafe fn $name(
            x: *const $ty,
            targets: *const i64,
            weights: *const f32,
            losses: *mut f32,
            dx: *mut $ty,
            factor: *const f32,
            params: RowParams,
        ) {
            let tensors = Tensors {
                x,
                targets,
                weights,
                losses,
                dx,
                factor,
            };
            // SAFETY: the launch's promise; the scratch is for this alone.
            unsafe { $body(&tensors, &params $(, $scratch)?) }
        }
    };
}

macro_rules! cross_entropies_held {
    ($($name:ident($ty:ident);)*) => {$(
        cross_entropy!($name, $ty,
            kernel(max_threads = holding!($name).bound, min_blocks = HELD_BLOCKS, arch = "sm_90a"),
            cross_entropy::held::<
                $ty, { lanes::<$ty>() }, { holding!($name).vectors as usize }, { takes_any!($name) },
            >,
            dynamic_shared![u32]);
    )*};
}

macro_rules! cross_entropies_in_slices {
    ($($name:ident($ty:ident);)*) => {$(
        cross_entropy!($name, $ty,
            kernel(max_threads = SLICE_THREADS, min_blocks = slice_blocks!($name), arch = "sm_90a"),
            cross_entropy::slices::<$ty, { lanes::<$ty>() }, { takes_any!($name) }>);
    )*};
}

macro_rules! soft_cross_entropies {
    ($($name:ident($ty:ident);)*) => {$(
        cross_entropy!($name, $ty,
            kernel(max_threads = SLICE_THREADS, min_blocks = slice_blocks!($name), arch = "sm_90a"),
            soft::slices::<$ty, { lanes::<$ty>() }>);
    )*};
}

macro_rules! cross_entropies_loose {
    ($($name:ident($ty:ident);)*) => {$(
        // min_blocks = 1: for two blocks an SM, ptxas would spill on sm_80.
        cross_entropy!($name, $ty, kernel(max_threads = MAX_THREADS, min_blocks = 1),
            cross_entropy::loose::<$ty>, shared_array![u32; BLOCK_SCRATCH]);
    )*};
}

macro_rules! totals {
    ($($weight:ident, $total:ident: $kernel:meta, $is_early:literal;)*) => {$(
        /// 1 / the number of targets that are not to be ignored, or of their weights; of several blocks
        /// the numbers.
        ///
        /// # Safety
        /// Launched as `abi::rows` says.
        #[$kernel]
        pub unsafe fn $weight(
            targets: *const i64,
            weights: *const f32,
            factor: *mut f32,
            params: RowParams,
        ) {
            if $is_early {
                griddepcontrol_launch_dependents();
            }
            let scratch = shared_array![u32; BLOCK_SCRATCH];
            // SAFETY: the launch's promise; the array is for this alone.
            unsafe { total::weight(targets, weights, factor, &params, scratch) }
        }

        /// The sum of losses, or their mean; of each block's.
        ///
        /// # Safety
        /// Launched as `abi::rows` says.
        #[$kernel]
        pub unsafe fn $total(
            losses: *const f32,
            factor: *const f32,
            loss: *mut f32,
            params: RowParams,
        ) {
            if $is_early {
                griddepcontrol_wait();
            }
            let scratch = shared_array![u32; BLOCK_SCRATCH];
            // SAFETY: the launch's promise; the array is for this alone.
            unsafe { total::total(losses, factor, loss, &params, scratch) }
        }
    )*};
}

totals! {
    cross_entropy_weight, cross_entropy_total: kernel(max_threads = MAX_THREADS), false;
    cross_entropy_weight_early, cross_entropy_total_early:
        kernel(max_threads = MAX_THREADS, arch = "sm_90a"), true;
}

abi::softmax_registers!(held);
abi::softmax_cluster!(slices);
abi::softmax_streaming!(loose);
abi::softmax_grad_registers!(held_grads);
abi::softmax_grad_cluster!(slices_grads);
abi::softmax_grad_streaming!(loose_grads);
abi::cross_entropy_registers!(cross_entropies_held);
abi::cross_entropy_cluster!(cross_entropies_in_slices);
abi::cross_entropy_soft_cluster!(soft_cross_entropies);
abi::cross_entropy_streaming!(cross_entropies_loose);
