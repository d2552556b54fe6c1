//! Ampere's copies and products.

use abi::tensor_core::fragment::mma_m16n8_acc;
use abi::tensor_core::ldmatrix::tile_16x16;
use cuda_std::shared::SharedAddr;
use cuda_std::{cp_async, kernel, ldmatrix, mma, shared_array, thread};

/// `d = a @ b^T` for 16 × 16 × 16 of bf16, both with k contiguous.
///
/// # Safety
/// One warp; `a` and `b` hold 16 × 16 and are aligned to 16 bytes, `d` holds 16 × 16.
#[kernel(arch = "sm_80", max_threads = 32)]
pub unsafe fn warp_product(a: *const u16, b: *const u16, d: *mut f32) {
    let tiles = shared_array![u16; 512];
    let lane = thread::thread_idx_x();
    // SAFETY: each lane copies 16 bytes of its own for each tile, and all read after the wait and
    // a barrier.
    unsafe {
        let (tile_a, tile_b) = (SharedAddr::of(tiles), SharedAddr::of(tiles.add(256)));
        let at = lane as usize * 8;
        cp_async::cp_async_cg_16(tile_a.add_bytes(16 * lane), a.add(at));
        cp_async::cp_async_ca_16_src_size(tile_b.add_bytes(16 * lane), b.add(at), 16);
        cp_async::cp_async_commit_group();
        cp_async::cp_async_wait_group::<0>();
        thread::sync_threads();
        let place = tile_16x16(lane);
        let row = 32 * place.row + 2 * place.column;
        let a = ldmatrix::ldmatrix_x4(tile_a.add_bytes(row));
        let [b0, b1, b2, b3] = ldmatrix::ldmatrix_x4(tile_b.add_bytes(row));
        for (half, b) in [[b0, b2], [b1, b3]].into_iter().enumerate() {
            let mut acc = [0.0; 4];
            mma::mma_m16n8k16_f32_bf16_bf16_f32(&mut acc, a, b);
            for (element, value) in acc.into_iter().enumerate() {
                let place = mma_m16n8_acc(lane, element as u32);
                let at = place.row as usize * 16 + half * 8 + place.column as usize;
                d.add(at).write(value);
            }
        }
    }
}
