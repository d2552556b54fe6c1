//! The entries of portable attention, backward.

use cuda_std::{kernel, shared_array, thread};
use spec::attention::backward::{FlashBwdParams, keys_tile};
use spec::attention::{FlashFwdLengths, TileConfig, simt_tile};

use super::delta::delta;
use super::keys::dkv;
use super::queries::dq;
use super::tile::{Inputs, chunks_v, smem_elements, tile_v};
use crate::attention::lengths::sequence;
use crate::attention::simt::kernel::{columns, rows};

/// delta of every query and head; see [`spec::attention::backward`].
///
/// # Safety
/// `params` and `lengths` describe what the pointers point to; the grid is that of the entry.
#[kernel(max_threads = spec::attention::backward::DELTA_TILE.threads)]
pub unsafe fn attention_backward_delta_simt(
    o: *const u8,
    d_o: *const u8,
    delta_of: *mut f32,
    lengths: FlashFwdLengths,
    params: FlashBwdParams,
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

macro_rules! queries_entries {
    ($($name:ident: $cap:literal, min_blocks = $min_blocks:literal;)*) => {$(
        #[doc = concat!("dq, for head_dim and head_dim_v up to ", stringify!($cap), "; see
            [`spec::attention::backward`].")]
        ///
        /// # Safety
        /// `params` and `lengths` describe what the pointers point to; the grid is that of the entry.
        #[kernel(
            max_threads = spec::attention::simt_tile($cap).threads,
            min_blocks = $min_blocks
        )]
        pub unsafe fn $name(
            q: *const u8,
            k: *const u8,
            v: *const u8,
            d_o: *const u8,
            lse: *const f32,
            delta: *const f32,
            dq_of: *mut u8,
            lengths: FlashFwdLengths,
            params: FlashBwdParams,
        ) {
            const TILE: TileConfig = simt_tile($cap);
            const THREADS: usize = TILE.threads as usize;
            const TILE_D: usize = TILE.tile_k as usize;
            let smem = shared_array![f32; smem_elements($cap, TILE_D)];
            let (head_idx, batch_idx) = params.fwd.head_and_batch(
                thread::block_idx_y(),
                thread::block_idx_z(),
                thread::grid_dim_y(),
            );
            if batch_idx >= params.fwd.batch {
                return;
            }
            let inputs = Inputs { q, k, v, d_o, lse, delta, params: &params };
            // SAFETY: the caller's promise.
            unsafe {
                let sequence = sequence(&lengths, &params.fwd, batch_idx);
                dq::<
                    $cap,
                    { rows(THREADS) },
                    { columns($cap) },
                    TILE_D,
                    { tile_v($cap) },
                    { chunks_v($cap, THREADS) },
                >(inputs, dq_of, (sequence, head_idx), smem);
            }
        }
    )*};
}

macro_rules! keys_entries {
    ($($name:ident: $cap:literal, min_blocks = $min_blocks:literal;)*) => {$(
        #[doc = concat!("dk and dv, for head_dim and head_dim_v up to ", stringify!($cap), "; see
            [`spec::attention::backward`].")]
        ///
        /// # Safety
        /// `params` and `lengths` describe what the pointers point to; the grid is that of the entry.
        #[kernel(
            max_threads = spec::attention::backward::keys_tile($cap).threads,
            min_blocks = $min_blocks
        )]
        pub unsafe fn $name(
            q: *const u8,
            k: *const u8,
            v: *const u8,
            d_o: *const u8,
            lse: *const f32,
            delta: *const f32,
            dk: *mut u8,
            dv: *mut u8,
            lengths: FlashFwdLengths,
            params: FlashBwdParams,
        ) {
            const TILE: TileConfig = keys_tile($cap);
            const THREADS: usize = TILE.threads as usize;
            const TILE_D: usize = TILE.tile_k as usize;
            let smem = shared_array![f32; smem_elements($cap, TILE_D)];
            let (head_kv_idx, batch_idx) = params.head_kv_and_batch(
                thread::block_idx_y(),
                thread::block_idx_z(),
                thread::grid_dim_y(),
            );
            if batch_idx >= params.fwd.batch {
                return;
            }
            let inputs = Inputs { q, k, v, d_o, lse, delta, params: &params };
            // SAFETY: the caller's promise.
            unsafe {
                let sequence = sequence(&lengths, &params.fwd, batch_idx);
                dkv::<
                    $cap,
                    { rows(THREADS) },
                    { columns($cap) },
                    TILE_D,
                    { tile_v($cap) },
                    { chunks_v($cap, THREADS) },
                >(inputs, (dk, dv), (sequence, head_kv_idx), smem);
            }
        }
    )*};
}

// Blocks an SM: limited by the registers for results and scores.
queries_entries! {
    attention_backward_dq_simt_d64: 64, min_blocks = 2;
    attention_backward_dq_simt_d128: 128, min_blocks = 2;
    attention_backward_dq_simt_d256: 256, min_blocks = 1;
}

keys_entries! {
    attention_backward_dkv_simt_d64: 64, min_blocks = 2;
    attention_backward_dkv_simt_d128: 128, min_blocks = 1;
    attention_backward_dkv_simt_d256: 256, min_blocks = 1;
}
