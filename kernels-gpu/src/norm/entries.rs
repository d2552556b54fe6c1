//! Entries: `norm_<dtype>_<form>` and their gradients. Weights have the rows' dtype, or are f32 in
//! `norm_wf32` entries and, element by element, if a flag says so.

use cuda_std::shared::SharedAddr;
use cuda_std::{dynamic_shared, kernel, shared_array, thread};
use half::{bf16, f16};
use spec::rows::{
    AHEAD, AHEAD_BLOCKS, AHEAD_THREADS, BLOCK_SCRATCH, BOUND_THREADS, FEW_BLOCKS, FEW_THREADS,
    FINISH_COLUMNS, GRAD_BLOCKS, GRAD_VECTORS, HELD_BLOCKS, MAX_THREADS, MORE_VECTORS, NORM_BOUND,
    NORM_F32_BOUND, NORM_MORE_BOUND, PAIRS, RING_VECTORS, RING_VECTORS_F32, RING_WARPS, RowParams,
    SHARED_BLOCK, SHORT_BLOCKS, SHORT_THREADS, SLICE_BLOCKS, SLICE_THREADS, VECTORS, WIDE_THREADS,
    WIDE_VECTORS, flags,
};

use super::forward::{self, Tensors};
use super::{ahead, backward, finish, grad_ring, grad_short, ring};
use crate::row::packed::Weights;

macro_rules! entry {
    ($name:ident, $ty:ident, $kernel:meta, $body:expr $(, $scratch:expr)?) => {
        #[doc = concat!("Norms of rows of ", stringify!($ty), ".")]
        ///
        /// # Safety
        /// Launched as `spec::rows` says, with tensors of these extents and strides.
        #[$kernel]
        pub unsafe fn $name(
            x: *const $ty,
            residual: *const $ty,
            weight: *const u8,
            bias: *const u8,
            sum: *mut $ty,
            y: *mut $ty,
            mean: *mut f32,
            rstd: *mut f32,
            params: RowParams,
        ) {
            let is_f32 = params.flags & flags::F32_WEIGHTS != 0;
            let tensors = Tensors {
                x,
                residual,
                weight: Weights::new(weight, is_f32, 1.0),
                bias: Weights::new(bias, is_f32, 0.0),
                sum,
                y,
                mean,
                rstd,
            };
            // SAFETY: the launch's promise; the scratch is for this alone.
            unsafe { $body(&tensors, &params $(, $scratch)?) }
        }
    };
}

macro_rules! held {
    ($($ty:ident, $weight:ident, $lanes:literal, $vectors:tt, $bound:ident: $name:ident;)*) => {$(
        entry!($name, $ty,
            kernel(max_threads = $bound, min_blocks = HELD_BLOCKS, arch = "sm_90a"),
            forward::held::<$ty, $weight, $lanes, $vectors, false>, dynamic_shared![u32]);
    )*};
}

held! {
    f32, f32, 4, VECTORS, NORM_BOUND: norm_f32_held;
    f16, f16, 8, VECTORS, NORM_BOUND: norm_f16_held;
    bf16, bf16, 8, VECTORS, NORM_BOUND: norm_bf16_held;
    bf16, f32, 8, VECTORS, NORM_F32_BOUND: norm_wf32_bf16_held;
    bf16, bf16, 8, MORE_VECTORS, NORM_MORE_BOUND: norm_bf16_held_more;
}

macro_rules! few {
    ($($ty:ident, $lanes:literal: $name:ident;)*) => {$(
        entry!($name, $ty,
            kernel(max_threads = FEW_THREADS, min_blocks = FEW_BLOCKS, arch = "sm_90a"),
            forward::held::<$ty, $ty, $lanes, VECTORS, true>, dynamic_shared![u32]);
    )*};
}

few! {
    f16, 8: norm_f16_few;
    bf16, 8: norm_bf16_few;
}

macro_rules! slices {
    ($($ty:ident, $weight:ident, $lanes:literal: $name:ident;)*) => {$(
        entry!($name, $ty,
            kernel(max_threads = SLICE_THREADS, min_blocks = SLICE_BLOCKS, arch = "sm_90a"),
            forward::slices::<$ty, $weight, $lanes>);
    )*};
}

slices! {
    f32, f32, 4: norm_f32_slices;
    f16, f16, 8: norm_f16_slices;
    bf16, bf16, 8: norm_bf16_slices;
    bf16, f32, 8: norm_wf32_bf16_slices;
}

macro_rules! aheads {
    ($($ty:ident, $lanes:literal: $alone:ident, $pairs:ident;)*) => {$(
        entry!($alone, $ty,
            kernel(max_threads = AHEAD_THREADS, min_blocks = AHEAD_BLOCKS, arch = "sm_90a"),
            ahead::ahead::<$ty, $lanes, { AHEAD.vectors as usize }, 1, false>);
        entry!($pairs, $ty,
            kernel(max_threads = AHEAD_THREADS, min_blocks = AHEAD_BLOCKS, arch = "sm_90a"),
            ahead::ahead::<$ty, $lanes, { PAIRS.vectors as usize }, 2, true>);
    )*};
}

aheads! {
    f32, 4: norm_f32_ahead, norm_f32_pairs;
    f16, 8: norm_f16_ahead, norm_f16_pairs;
    bf16, 8: norm_bf16_ahead, norm_bf16_pairs;
}

macro_rules! rings {
    ($($ty:ident, $weight:ident, $lanes:literal, $vectors:tt: $name:ident;)*) => {$(
        entry!($name, $ty,
            kernel(max_threads = BOUND_THREADS, min_blocks = 1, arch = "sm_90a"),
            ring::ring::<$ty, $weight, $lanes, $vectors, true>);
    )*};
}

macro_rules! wide_rings {
    ($($ty:ident, $lanes:literal: $name:ident;)*) => {$(
        entry!($name, $ty,
            kernel(max_threads = WIDE_THREADS, min_blocks = 1, arch = "sm_90a"),
            ring::ring::<$ty, $ty, $lanes, WIDE_VECTORS, false>);
    )*};
}

wide_rings! {
    bf16, 8: norm_bf16_wide;
}

rings! {
    f32, f32, 4, RING_VECTORS: norm_f32_ring;
    f16, f16, 8, RING_VECTORS: norm_f16_ring;
    bf16, bf16, 8, RING_VECTORS: norm_bf16_ring;
    bf16, f32, 8, RING_VECTORS_F32: norm_wf32_bf16_ring;
}

macro_rules! loose {
    ($($ty:ident: $name:ident;)*) => {$(
        entry!($name, $ty, kernel(max_threads = MAX_THREADS),
            forward::loose::<$ty>, shared_array![u32; BLOCK_SCRATCH]);
    )*};
}

loose! {
    f32: norm_f32_loose;
    f16: norm_f16_loose;
    bf16: norm_bf16_loose;
}

macro_rules! grad {
    ($name:ident, $ty:ident, $kernel:meta, $body:expr) => {
        #[doc = concat!("Gradients of norms of rows of ", stringify!($ty), ".")]
        ///
        /// # Safety
        /// Launched as `spec::rows` says, with tensors of these extents and strides.
        #[$kernel]
        pub unsafe fn $name(
            x: *const $ty,
            dy: *const $ty,
            weight: *const u8,
            mean: *const f32,
            rstd: *const f32,
            dsum: *const $ty,
            dx: *mut $ty,
            dweight: *mut f32,
            dbias: *mut f32,
            params: RowParams,
        ) {
            let is_f32 = params.flags & flags::F32_WEIGHTS != 0;
            let tensors = backward::Tensors {
                x,
                dy,
                weight: Weights::new(weight, is_f32, 1.0),
                mean,
                rstd,
                dsum,
                dx,
                dweight,
                dbias,
            };
            let body = $body;
            body(&tensors, &params)
        }
    };
}

macro_rules! held_grads {
    ($($ty:ident, $weight:ident, $lanes:literal, $vectors:tt: $name:ident;)*) => {$(
        grad!($name, $ty,
            kernel(max_threads = SHARED_BLOCK, min_blocks = GRAD_BLOCKS, arch = "sm_90a"),
            |tensors, params| {
                let scratch = shared_array![u32; 2 * SHARED_BLOCK as usize * $vectors * $lanes];
                // SAFETY: as the entry; the array is for this alone.
                unsafe {
                    let scratch = SharedAddr::of(scratch.cast_const());
                    backward::held::<$ty, $weight, $lanes, $vectors>(tensors, params, scratch)
                }
            });
    )*};
}

held_grads! {
    f32, f32, 4, GRAD_VECTORS: norm_grad_f32_held;
    f16, f16, 8, GRAD_VECTORS: norm_grad_f16_held;
    bf16, f32, 8, 1: norm_grad_wf32_bf16_held;
}

grad!(
    norm_grad_bf16_short,
    bf16,
    kernel(
        max_threads = SHORT_THREADS,
        min_blocks = SHORT_BLOCKS,
        arch = "sm_90a"
    ),
    |tensors, params| {
        // SAFETY: as the entry.
        unsafe { grad_short::short::<bf16, 8>(tensors, params) }
    }
);

/// Most threads of a block of a ring of gradients.
const RING_THREADS: u32 = RING_WARPS * thread::WARP_THREADS;

macro_rules! ring_grads {
    ($($ty:ident, $weight:ident, $lanes:literal, $vectors:tt: $name:ident;)*) => {$(
        grad!($name, $ty,
            kernel(max_threads = RING_THREADS, min_blocks = 1, arch = "sm_90a"),
            |tensors, params| {
                // SAFETY: as the entry.
                unsafe { grad_ring::ring::<$ty, $weight, $lanes, $vectors>(tensors, params) }
            });
    )*};
}

ring_grads! {
    f32, f32, 4, RING_VECTORS: norm_grad_f32_ring;
    f16, f16, 8, RING_VECTORS: norm_grad_f16_ring;
    bf16, bf16, 8, RING_VECTORS: norm_grad_bf16_ring;
    bf16, f32, 8, RING_VECTORS_F32: norm_grad_wf32_bf16_ring;
}

macro_rules! loose_grads {
    ($($ty:ident: $name:ident, $columns:ident;)*) => {$(
        grad!($name, $ty, kernel(max_threads = MAX_THREADS), |tensors, params| {
            let scratch = shared_array![u32; BLOCK_SCRATCH];
            // SAFETY: as the entry; the array is for this alone.
            unsafe { backward::loose::<$ty>(tensors, params, scratch) }
        });

        grad!($columns, $ty, kernel(max_threads = MAX_THREADS), |tensors, params| {
            // SAFETY: as the entry.
            unsafe { backward::columns::<$ty>(tensors, params) }
        });
    )*};
}

loose_grads! {
    f32: norm_grad_f32_loose, norm_grad_f32_columns;
    f16: norm_grad_f16_loose, norm_grad_f16_columns;
    bf16: norm_grad_bf16_loose, norm_grad_bf16_columns;
}

/// Adds up the partial sums of columns, of two tensors.
///
/// # Safety
/// Launched as `spec::rows` says, with tensors of these extents.
#[kernel(max_threads = MAX_THREADS)]
pub unsafe fn norm_grad_finish(
    weight_parts: *const f32,
    bias_parts: *const f32,
    dweight: *mut f32,
    dbias: *mut f32,
    params: RowParams,
) {
    let scratch = shared_array![f32; (FINISH_COLUMNS * MAX_THREADS) as usize];
    let (parts, outs) = ([weight_parts, bias_parts], [dweight, dbias]);
    // SAFETY: the launch's promise; the array is for this alone.
    unsafe { finish::finish(parts, outs, &params, scratch) }
}
