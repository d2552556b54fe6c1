//! A warp's products of one stage.

use cuda_std::ldmatrix::{ldmatrix_x4, ldmatrix_x4_trans};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use spec::gemm::decode::DecodeConfig;

use super::element::MmaElement;

/// Weights (rows), tokens (columns) and k of a tensor core's product; k of one step of ours.
const MMA_WEIGHTS: u32 = 16;
const MMA_TOKENS: u32 = 8;
const MMA_K: u32 = 16;
const STEP_K: u32 = 2 * MMA_K;
const ELEMENT_BYTES: u32 = 2;

/// Sums of a warp: 16 weights each, then 8 tokens each.
pub(super) type Sums<const WEIGHTS: usize, const TOKENS: usize> = [[[f32; 4]; TOKENS]; WEIGHTS];

/// Which part of a stage is this warp's, and where its lanes read.
#[derive(Clone, Copy)]
pub(super) struct WarpPart {
    /// Bytes from the stage to the row of A that this lane addresses.
    a: u32,
    /// The same of B.
    b: u32,
    /// First weight of the tile that is this warp's.
    pub(super) weight: u32,
    /// Which share of k it has.
    pub(super) k_idx: u32,
}

impl WarpPart {
    /// `K_ROWS`: B is stored with n contiguous.
    #[inline(always)]
    pub(super) fn new<const WEIGHTS: usize, const K_ROWS: bool>(
        config: &DecodeConfig,
        pitch_b_bytes: u32,
    ) -> Self {
        let warp_idx = thread::thread_idx_x() / thread::WARP_THREADS;
        let lane_idx = thread::thread_idx_x() % thread::WARP_THREADS;
        let weight = warp_idx % config.warps_n * (WEIGHTS as u32 * MMA_WEIGHTS);
        let k_idx = warp_idx / config.warps_n;
        let k = k_idx * (config.tile_k / config.warps_k());
        // The lane's row of the matrix that it addresses.
        let (matrix, row) = (lane_idx / 8, lane_idx % 8);
        // Matrices of A: one after the other along k.
        let a = row * config.pitch_a_bytes() + (k + 8 * matrix) * ELEMENT_BYTES;
        // Matrices of B: weights first, then k.
        let (down, along) = (matrix % 2 * 8, matrix / 2 * 8);
        let b = if K_ROWS {
            (k + along + row) * pitch_b_bytes + (weight + down) * ELEMENT_BYTES
        } else {
            (weight + down + row) * pitch_b_bytes + (k + along) * ELEMENT_BYTES
        };
        Self {
            a,
            b: config.a_bytes() + b,
            weight,
            k_idx,
        }
    }

    /// Adds the products of the stage at `stage`.
    ///
    /// # Safety
    /// All lanes execute it; the stage has landed.
    #[inline(always)]
    pub(super) unsafe fn multiply<
        T: MmaElement,
        const WEIGHTS: usize,
        const TOKENS: usize,
        const K_ROWS: bool,
    >(
        &self,
        sums: &mut Sums<WEIGHTS, TOKENS>,
        stage: SharedAddr,
        config: &DecodeConfig,
        pitch_b_bytes: u32,
    ) {
        let a = stage.add_bytes(self.a);
        let b = stage.add_bytes(self.b);
        let mut step = 0;
        while step < config.tile_k / config.warps_k() / STEP_K {
            let a = a.add_bytes(step * STEP_K * ELEMENT_BYTES);
            let mut tokens = [[0; 4]; TOKENS];
            for token in 0..TOKENS {
                let row = a.add_bytes(token as u32 * MMA_TOKENS * config.pitch_a_bytes());
                // SAFETY: the caller's.
                tokens[token] = unsafe { ldmatrix_x4(row) };
            }
            for half in 0..2 {
                let k = step * STEP_K + half as u32 * MMA_K;
                for weight in 0..WEIGHTS {
                    let weights = weight as u32 * MMA_WEIGHTS;
                    // SAFETY: the caller's.
                    let fragment = unsafe {
                        if K_ROWS {
                            let offset = k * pitch_b_bytes + weights * ELEMENT_BYTES;
                            ldmatrix_x4_trans(b.add_bytes(offset))
                        } else {
                            let offset = weights * pitch_b_bytes + k * ELEMENT_BYTES;
                            ldmatrix_x4(b.add_bytes(offset))
                        }
                    };
                    for token in 0..TOKENS {
                        let pair = [tokens[token][2 * half], tokens[token][2 * half + 1]];
                        // SAFETY: the caller's.
                        unsafe { T::mma(&mut sums[weight][token], fragment, pair) };
                    }
                }
            }
            step += 1;
        }
    }

    /// Stores the warp's sums at their places in `[warps_k][tile_m][partial_pitch]`.
    ///
    /// # Safety
    /// `all` points to so much shared memory, free for it.
    #[inline(always)]
    pub(super) unsafe fn store<const WEIGHTS: usize, const TOKENS: usize>(
        &self,
        sums: &Sums<WEIGHTS, TOKENS>,
        all: *mut f32,
        config: &DecodeConfig,
    ) {
        let lane_idx = thread::thread_idx_x() % thread::WARP_THREADS;
        let pitch = config.partial_pitch();
        let first = (self.k_idx * config.tile_m + lane_idx % 4 * 2) * pitch;
        let first = first + self.weight + lane_idx / 4;
        for weight in 0..WEIGHTS {
            for token in 0..TOKENS {
                for i in 0..4 {
                    let row = token as u32 * MMA_TOKENS + i as u32 % 2;
                    let column = weight as u32 * MMA_WEIGHTS + i as u32 / 2 * 8;
                    let place = all.wrapping_add((first + row * pitch + column) as usize);
                    // SAFETY: inside of the warp's part; the rest is the caller's.
                    unsafe { place.write(sums[weight][token][i]) };
                }
            }
        }
    }
}
