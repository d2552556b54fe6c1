//! Entries: `<op>_<dtype>_<form>`.

use cuda_std::grid::{griddepcontrol_launch_dependents, griddepcontrol_wait};
use cuda_std::{dynamic_shared, kernel, shared_array};
use half::{bf16, f16};
use spec::rows::{
    BLOCK_SCRATCH, CROSS_ENTROPY_BOUND, GRAD_VECTORS, HELD_BLOCKS, MAX_THREADS, MORE_VECTORS,
    RowParams, SLICE_BLOCKS, SLICE_THREADS, SOFTMAX_BOUND, SOFTMAX_GRAD_BOUND,
    SOFTMAX_GRAD_MORE_BOUND, SOFTMAX_MORE_BOUND, VECTORS,
};

use super::cross_entropy;
use super::targets::Tensors;
use super::{backward, forward, total};

macro_rules! held {
    ($($ty:ident, $lanes:literal, $vectors:tt, $bound:ident: $name:ident;)*) => {$(
        #[doc = concat!("Softmax of rows of ", stringify!($ty), ", held by a block.")]
        ///
        /// # Safety
        /// Launched as `spec::rows` says, with tensors of these extents and strides.
        #[kernel(max_threads = $bound, min_blocks = HELD_BLOCKS, arch = "sm_90a")]
        pub unsafe fn $name(x: *const $ty, y: *mut $ty, params: RowParams) {
            // SAFETY: the launch's promise; its shared memory is for this alone.
            unsafe { forward::held::<$ty, $lanes, $vectors>(x, y, &params, dynamic_shared![u32]) }
        }
    )*};
}

held! {
    f32, 4, VECTORS, SOFTMAX_BOUND: softmax_f32_held;
    f16, 8, VECTORS, SOFTMAX_BOUND: softmax_f16_held;
    bf16, 8, VECTORS, SOFTMAX_BOUND: softmax_bf16_held;
    bf16, 8, MORE_VECTORS, SOFTMAX_MORE_BOUND: softmax_bf16_held_more;
}

macro_rules! softmax {
    ($($ty:ident, $lanes:literal: $slices:ident, $loose:ident;)*) => {$(
        #[doc = concat!("Softmax of rows of ", stringify!($ty), ", in slices.")]
        ///
        /// # Safety
        /// Launched as `spec::rows` says, with tensors of these extents and strides.
        #[kernel(max_threads = SLICE_THREADS, min_blocks = SLICE_BLOCKS, arch = "sm_90a")]
        pub unsafe fn $slices(x: *const $ty, y: *mut $ty, params: RowParams) {
            // SAFETY: the launch's promise.
            unsafe { forward::slices::<$ty, $lanes>(x, y, &params) }
        }

        #[doc = concat!("Softmax of rows of ", stringify!($ty), ", element by element.")]
        ///
        /// # Safety
        /// Launched as `spec::rows` says, with tensors of these extents and strides.
        #[kernel(max_threads = MAX_THREADS)]
        pub unsafe fn $loose(x: *const $ty, y: *mut $ty, params: RowParams) {
            let scratch = shared_array![u32; BLOCK_SCRATCH];
            // SAFETY: the launch's promise; the array is for this alone.
            unsafe { forward::loose(x, y, &params, scratch) }
        }
    )*};
}

softmax! {
    f32, 4: softmax_f32_slices, softmax_f32_loose;
    f16, 8: softmax_f16_slices, softmax_f16_loose;
    bf16, 8: softmax_bf16_slices, softmax_bf16_loose;
}

macro_rules! held_grads {
    ($($ty:ident, $lanes:literal, $vectors:tt, $bound:ident: $name:ident;)*) => {$(
        #[doc = concat!("Gradient of softmax of rows of ", stringify!($ty), ", held by a block.")]
        ///
        /// # Safety
        /// Launched as `spec::rows` says, with tensors of these extents and strides.
        #[kernel(max_threads = $bound, min_blocks = HELD_BLOCKS, arch = "sm_90a")]
        pub unsafe fn $name(y: *const $ty, dy: *const $ty, dx: *mut $ty, params: RowParams) {
            // SAFETY: the launch's promise; its shared memory is for this alone.
            unsafe {
                let scratch = dynamic_shared![u32];
                backward::held::<$ty, $lanes, $vectors>([y, dy], dx, &params, scratch)
            }
        }
    )*};
}

held_grads! {
    f32, 4, 1, SOFTMAX_GRAD_BOUND: softmax_grad_f32_held;
    f16, 8, 1, SOFTMAX_GRAD_BOUND: softmax_grad_f16_held;
    bf16, 8, 1, SOFTMAX_GRAD_BOUND: softmax_grad_bf16_held;
    bf16, 8, GRAD_VECTORS, SOFTMAX_GRAD_MORE_BOUND: softmax_grad_bf16_held_more;
}

macro_rules! softmax_grad {
    ($($ty:ident, $lanes:literal: $slices:ident, $loose:ident;)*) => {$(
        #[doc = concat!("Gradient of softmax of rows of ", stringify!($ty), ", in slices.")]
        ///
        /// # Safety
        /// Launched as `spec::rows` says, with tensors of these extents and strides.
        #[kernel(max_threads = SLICE_THREADS, min_blocks = SLICE_BLOCKS, arch = "sm_90a")]
        pub unsafe fn $slices(y: *const $ty, dy: *const $ty, dx: *mut $ty, params: RowParams) {
            // SAFETY: the launch's promise.
            unsafe { backward::slices::<$ty, $lanes>([y, dy], dx, &params) }
        }

        #[doc = concat!("Gradient of softmax of rows of ", stringify!($ty), ", one by one.")]
        ///
        /// # Safety
        /// Launched as `spec::rows` says, with tensors of these extents and strides.
        // min_blocks = 1: for two blocks an SM, ptxas would spill on sm_80.
        #[kernel(max_threads = MAX_THREADS, min_blocks = 1)]
        pub unsafe fn $loose(y: *const $ty, dy: *const $ty, dx: *mut $ty, params: RowParams) {
            let scratch = shared_array![u32; BLOCK_SCRATCH];
            // SAFETY: the launch's promise; the array is for this alone.
            unsafe { backward::loose([y, dy], dx, &params, scratch) }
        }
    )*};
}

softmax_grad! {
    f32, 4: softmax_grad_f32_slices, softmax_grad_f32_loose;
    f16, 8: softmax_grad_f16_slices, softmax_grad_f16_loose;
    bf16, 8: softmax_grad_bf16_slices, softmax_grad_bf16_loose;
}

macro_rules! cross_entropy {
    ($name:ident, $ty:ident, $kernel:meta, $body:expr $(, $scratch:expr)?) => {
        #[doc = concat!("Cross-entropy of rows of ", stringify!($ty), ".")]
        ///
        /// # Safety
        /// Launched as `spec::rows` says, with tensors of these extents and strides.
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

macro_rules! cross_entropies {
    ($($ty:ident, $lanes:literal: $held:ident, $slices:ident, $loose:ident;)*) => {$(
        cross_entropy!($held, $ty,
            kernel(max_threads = CROSS_ENTROPY_BOUND, min_blocks = HELD_BLOCKS, arch = "sm_90a"),
            cross_entropy::held::<$ty, $lanes, VECTORS>, dynamic_shared![u32]);
        cross_entropy!($slices, $ty,
            kernel(max_threads = SLICE_THREADS, min_blocks = SLICE_BLOCKS, arch = "sm_90a"),
            cross_entropy::slices::<$ty, $lanes>);
        // min_blocks = 1: for two blocks an SM, ptxas would spill on sm_80.
        cross_entropy!($loose, $ty, kernel(max_threads = MAX_THREADS, min_blocks = 1),
            cross_entropy::loose::<$ty>, shared_array![u32; BLOCK_SCRATCH]);
    )*};
}

cross_entropies! {
    f32, 4: cross_entropy_f32_held, cross_entropy_f32_slices, cross_entropy_f32_loose;
    f16, 8: cross_entropy_f16_held, cross_entropy_f16_slices, cross_entropy_f16_loose;
    bf16, 8: cross_entropy_bf16_held, cross_entropy_bf16_slices, cross_entropy_bf16_loose;
}

macro_rules! totals {
    ($($weight:ident, $total:ident: $kernel:meta, $is_early:literal;)*) => {$(
        /// 1 / the number of targets that are not to be ignored, or of their weights; of several blocks
        /// the numbers.
        ///
        /// # Safety
        /// Launched as `spec::rows` says.
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
        /// Launched as `spec::rows` says.
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
