//! The entries of portable attention, backward, and those that other kernels need too.

use abi::attention::{FlashFwdLengths, FlashFwdParams};
use abi::attention_grad::sink::SINK_THREADS;
use abi::attention_grad::{AttentionGradParams, SimtGradEntry, SimtGradLaunch};
use cuda_std::{kernel, shared_array, thread};

use super::delta::delta;
use super::kernel::{Launch, Owned, run};
use super::sink::{self, Read, WARPS};
use super::thread_tile::{TILE, smem_elements};
use crate::attention::lengths::sequence;

/// delta of every query and head; see [`abi::attention_grad`].
///
/// # Safety
/// `params` and `lengths` describe what the pointers point to; the grid is that of the entry.
#[kernel(
    max_threads = abi::attention_grad::DELTA_TILE.threads,
    min_blocks = 4 // unasked, ptxas aims at 8 for sm_90, and spills
)]
pub unsafe fn attention_grad_simt_delta(
    o: *const u8,
    d_o: *const u8,
    delta_of: *mut f32,
    lengths: FlashFwdLengths,
    params: AttentionGradParams,
) {
    let (head_idx, batch_idx) = params.fwd.head_and_batch(
        thread::block_idx_y(),
        thread::block_idx_z(),
        thread::grid_dim_y(),
    );
    if batch_idx < params.fwd.batch {
        // SAFETY: the caller's promise.
        unsafe {
            let sequence = sequence(&lengths, &params.fwd, batch_idx);
            delta((o, d_o), delta_of, (sequence, head_idx), &params);
        }
    }
}

/// The gradient of every head's sink; see [`abi::attention_grad::sink`].
///
/// # Safety
/// `params` and `lengths` describe what the pointers point to; the grid is that of the entry.
#[kernel(max_threads = SINK_THREADS, min_blocks = 1)]
pub unsafe fn attention_grad_simt_sink(
    sink: *const f32,
    lse: *const f32,
    delta: *const f32,
    d_sink: *mut f32,
    lengths: FlashFwdLengths,
    params: FlashFwdParams,
) {
    let scratch = shared_array![f32; WARPS];
    let head_idx = thread::block_idx_x();
    let read = Read { sink, lse, delta };
    // SAFETY: the caller's promise; the shared memory is for this alone.
    let gradient = unsafe { sink::of_head(&read, head_idx, (&lengths, &params), scratch) };
    if thread::thread_idx_x() == 0 {
        // SAFETY: the caller's promise: this block's element.
        unsafe { d_sink.wrapping_add(head_idx as usize).write(gradient) }
    }
}

macro_rules! kernels {
    ($($name:ident;)*) => {$(
        /// dq, or dk and dv, for head_dim and head_dim_v up to the cap in its name; see
        /// [`abi::attention_grad`].
        ///
        /// # Safety
        /// `params` and `lengths` describe what the pointers point to; the grid is that of what the
        /// blocks own.
        #[kernel(
            max_threads = abi::attention::SIMT_WIDE_TILE.threads,
            min_blocks = 1 // limited by the registers for results and scores
        )]
        pub unsafe fn $name(
            q: *const u8,
            k: *const u8,
            v: *const u8,
            d_o: *const u8,
            lse: *const f32,
            delta: *const f32,
            first: *mut u8,
            second: *mut u8,
            lengths: FlashFwdLengths,
            params: AttentionGradParams,
            own: SimtGradLaunch,
        ) {
            const CAP: usize = SimtGradEntry::read(stringify!($name)).head_dim_cap as usize;
            let smem = shared_array![f32; smem_elements(CAP)];
            let keys = own.owns_keys != 0;
            let (head_idx, batch_idx) = params.owner(
                keys,
                [thread::block_idx_y(), thread::block_idx_z()],
                thread::grid_dim_y(),
            );
            if batch_idx >= params.fwd.batch {
                return;
            }
            // SAFETY: the caller's promise.
            let sequence = unsafe { sequence(&lengths, &params.fwd, batch_idx) };
            // The last queries see the most keys, the first keys are seen by the most queries: they
            // start first, so that no long block is left at the end.
            let tile_idx = if keys {
                thread::block_idx_x()
            } else {
                thread::grid_dim_x() - 1 - thread::block_idx_x()
            };
            let start = tile_idx * TILE as u32;
            let owned = if keys { sequence.k.len } else { sequence.q.len };
            if start >= owned {
                return;
            }
            let launch = Launch {
                q, k, v, d_o, lse, delta, first, strides: own.strides, second, params: &params,
            };
            let owned = Owned { sequence, keys, head_idx, start };
            // SAFETY: the caller's promise.
            unsafe { run::<CAP, { CAP / 16 }>(&launch, owned, smem) }
        }
    )*};
}

abi::attention_grad_simt!(kernels);
