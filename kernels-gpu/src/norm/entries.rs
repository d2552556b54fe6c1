//! The entries of norms and their gradients, by the table of [`abi::rows`]. Weights have the rows'
//! dtype. They are f32 in `norm_wf32` entries and, element by element, if a flag says so.

use abi::rows::{
    AHEAD, AHEAD_BLOCKS, AHEAD_THREADS, BLOCK_SCRATCH, BOUND_THREADS, FEW_BLOCKS, FEW_THREADS,
    FINISH_COLUMNS, GRAD_BLOCKS, HELD_BLOCKS, MAX_THREADS, PAIRS, RING_WARPS, RowEntry, RowParams,
    SHARED_BLOCK, SHORT_BLOCKS, SHORT_THREADS, SLICE_THREADS, VECTORS, WIDE_THREADS, WIDE_VECTORS,
    flags,
};
use cuda_std::shared::SharedAddr;
use cuda_std::{dynamic_shared, kernel, shared_array, thread};
use half::{bf16, f16};

use super::forward;
use super::tensors::Tensors;
use super::{ahead, any, backward, finish, grad_ring, grad_short, ring};
use crate::row::packed::Weights;
use crate::row::{holding, lanes, slice_blocks, takes_any};

/// Most threads of a block of a ring of gradients, or of rows that begin anywhere.
const RING_THREADS: u32 = RING_WARPS * thread::WARP_THREADS;

macro_rules! entry {
    ($name:ident, $ty:ident, $kernel:meta, $body:expr $(, $scratch:expr)?) => {
        #[doc = concat!("Norms of rows of ", stringify!($ty), ".")]
        ///
        /// # Safety
        /// Launched as `abi::rows` says, with tensors of these extents and strides.
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
    ($($name:ident($ty:ident, $weight:ident);)*) => {$(
        entry!($name, $ty,
            kernel(max_threads = holding!($name).bound, min_blocks = HELD_BLOCKS, arch = "sm_90a"),
            forward::held::<
                $ty,
                $weight,
                { lanes::<$ty>() },
                { holding!($name).vectors as usize },
                false,
                { takes_any!($name) },
            >,
            dynamic_shared![u32]);
    )*};
}

macro_rules! few {
    ($($name:ident($ty:ident);)*) => {$(
        entry!($name, $ty,
            kernel(max_threads = FEW_THREADS, min_blocks = FEW_BLOCKS, arch = "sm_90a"),
            forward::held::<$ty, $ty, { lanes::<$ty>() }, VECTORS, true, false>,
            dynamic_shared![u32]);
    )*};
}

macro_rules! slices {
    ($($name:ident($ty:ident, $weight:ident);)*) => {$(
        entry!($name, $ty,
            kernel(max_threads = SLICE_THREADS, min_blocks = slice_blocks!($name), arch = "sm_90a"),
            forward::slices::<$ty, $weight, { lanes::<$ty>() }, { takes_any!($name) }>);
    )*};
}

macro_rules! alone {
    ($($name:ident($ty:ident);)*) => {$(
        entry!($name, $ty,
            kernel(max_threads = AHEAD_THREADS, min_blocks = AHEAD_BLOCKS, arch = "sm_90a"),
            ahead::ahead::<$ty, { lanes::<$ty>() }, { AHEAD.vectors as usize }, 1, false>);
    )*};
}

macro_rules! pairs {
    ($($name:ident($ty:ident);)*) => {$(
        entry!($name, $ty,
            kernel(max_threads = AHEAD_THREADS, min_blocks = AHEAD_BLOCKS, arch = "sm_90a"),
            ahead::ahead::<$ty, { lanes::<$ty>() }, { PAIRS.vectors as usize }, 2, true>);
    )*};
}

/// Vectors of each tensor that a thread of the ring `$name` has.
macro_rules! ring_vectors {
    ($name:ident) => {
        const { RowEntry::read(stringify!($name)).ring_vectors() as usize }
    };
}

macro_rules! rings {
    ($($name:ident($ty:ident, $weight:ident);)*) => {$(
        entry!($name, $ty,
            kernel(max_threads = BOUND_THREADS, min_blocks = 1, arch = "sm_90a"),
            ring::ring::<$ty, $weight, { lanes::<$ty>() }, { ring_vectors!($name) }, true>);
    )*};
}

macro_rules! rings_any {
    ($($name:ident($ty:ident);)*) => {$(
        entry!($name, $ty,
            kernel(max_threads = RING_THREADS, min_blocks = 1, arch = "sm_90a"),
            any::ring::<$ty, { lanes::<$ty>() }, { ring_vectors!($name) }>);
    )*};
}

macro_rules! shorts_any {
    ($($name:ident($ty:ident);)*) => {$(
        entry!($name, $ty,
            kernel(max_threads = SHORT_THREADS, min_blocks = SHORT_BLOCKS, arch = "sm_90a"),
            any::short::<$ty, { lanes::<$ty>() }, { ring_vectors!($name) }>);
    )*};
}

macro_rules! wide_rings {
    ($($name:ident($ty:ident);)*) => {$(
        entry!($name, $ty,
            kernel(max_threads = WIDE_THREADS, min_blocks = 1, arch = "sm_90a"),
            ring::ring::<$ty, $ty, { lanes::<$ty>() }, WIDE_VECTORS, false>);
    )*};
}

macro_rules! loose {
    ($($name:ident($ty:ident);)*) => {$(
        entry!($name, $ty, kernel(max_threads = MAX_THREADS),
            forward::loose::<$ty>, shared_array![u32; BLOCK_SCRATCH]);
    )*};
}

abi::norm_registers!(held);
abi::norm_registers_weights!(few);
abi::norm_cluster!(slices);
abi::norm_cluster_ahead!(alone);
abi::norm_cluster_pairs!(pairs);
abi::norm_smem_ring_wide!(wide_rings);
abi::norm_smem_ring!(rings);
abi::norm_smem_ring_any!(rings_any);
abi::norm_smem_ring_short_any!(shorts_any);
abi::norm_streaming!(loose);

macro_rules! grad {
    ($name:ident, $ty:ident, $kernel:meta, $body:expr) => {
        #[doc = concat!("Gradients of norms of rows of ", stringify!($ty), ".")]
        ///
        /// # Safety
        /// Launched as `abi::rows` says, with tensors of these extents and strides.
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
    ($($name:ident($ty:ident, $weight:ident);)*) => {$(
        grad!($name, $ty,
            kernel(max_threads = SHARED_BLOCK, min_blocks = GRAD_BLOCKS, arch = "sm_90a"),
            |tensors, params| {
                const VECTORS: usize = holding!($name).vectors as usize;
                const LANES: usize = lanes::<$ty>();
                let scratch = shared_array![u32; 2 * SHARED_BLOCK as usize * VECTORS * LANES];
                // SAFETY: as the entry; the array is for this alone.
                unsafe {
                    let scratch = SharedAddr::of(scratch.cast_const());
                    backward::held::<$ty, $weight, LANES, VECTORS>(tensors, params, scratch)
                }
            });
    )*};
}

macro_rules! short_grads {
    ($($name:ident($ty:ident, $weight:ident);)*) => {$(
        grad!($name, $ty,
            kernel(max_threads = SHORT_THREADS, min_blocks = SHORT_BLOCKS, arch = "sm_90a"),
            |tensors, params| {
                // SAFETY: as the entry.
                unsafe {
                    grad_short::short::<
                        $ty,
                        $weight,
                        { lanes::<$ty>() },
                        { ring_vectors!($name) },
                        { takes_any!($name) },
                    >(tensors, params)
                }
            });
    )*};
}

macro_rules! ring_grads {
    ($($name:ident($ty:ident, $weight:ident);)*) => {$(
        grad!($name, $ty,
            kernel(max_threads = RING_THREADS, min_blocks = 1, arch = "sm_90a"),
            |tensors, params| {
                // SAFETY: as the entry.
                unsafe {
                    grad_ring::ring::<
                        $ty,
                        $weight,
                        { lanes::<$ty>() },
                        { ring_vectors!($name) },
                        { takes_any!($name) },
                    >(tensors, params)
                }
            });
    )*};
}

macro_rules! short_grads_any {
    ($($name:ident($ty:ident);)*) => {
        short_grads! { $($name($ty, f32);)* }
    };
}

macro_rules! ring_grads_any {
    ($($name:ident($ty:ident);)*) => {
        ring_grads! { $($name($ty, f32);)* }
    };
}

macro_rules! loose_grads {
    ($($name:ident($ty:ident);)*) => {$(
        grad!($name, $ty, kernel(max_threads = MAX_THREADS), |tensors, params| {
            let scratch = shared_array![u32; BLOCK_SCRATCH];
            // SAFETY: as the entry; the array is for this alone.
            unsafe { backward::loose::<$ty>(tensors, params, scratch) }
        });
    )*};
}

macro_rules! columns_grads {
    ($($name:ident($ty:ident);)*) => {$(
        grad!($name, $ty, kernel(max_threads = MAX_THREADS), |tensors, params| {
            // SAFETY: as the entry.
            unsafe { backward::columns::<$ty>(tensors, params) }
        });
    )*};
}

abi::norm_grad_registers!(held_grads);
abi::norm_grad_smem_ring_short!(short_grads);
abi::norm_grad_smem_ring!(ring_grads);
abi::norm_grad_smem_ring_short_any!(short_grads_any);
abi::norm_grad_smem_ring_any!(ring_grads_any);
abi::norm_grad_streaming!(loose_grads);
abi::norm_grad_columns!(columns_grads);

/// Adds up the partial sums of columns, of two tensors.
///
/// # Safety
/// Launched as `abi::rows` says, with tensors of these extents.
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
