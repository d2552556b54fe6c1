//! The `mma`s of a warp over one stage, and where its lanes read their fragments.

use abi::gemm::decode::{DecodeConfig, partial_pitch};
use cuda_std::bits::prmt;
use cuda_std::ldmatrix::{ldmatrix_x4, ldmatrix_x4_trans};
use cuda_std::mem::ld_shared_v4_u32;
use cuda_std::shared::SharedAddr;
use cuda_std::thread;

use super::element::MmaElement;
use super::stage::position;
use crate::realign::words;

/// Weights (rows), tokens (columns) and k of an `mma`; k of one of our steps, for which one
/// `ldmatrix` loads 8 tokens.
const MMA_WEIGHTS: u32 = 16;
const MMA_TOKENS: u32 = 8;
const MMA_K: u32 = 16;
const STEP_K: u32 = 2 * MMA_K;
/// Elements of a step that a lane of [`Shifted`] reads of a row.
const LANE_K: u32 = STEP_K / 4;
const ELEMENT_BYTES: u32 = 2;

/// A lane's accumulators: for each 16 weights of the warp, for each 8 tokens.
pub(super) type Sums<const WEIGHTS: usize, const TOKENS: usize> = [[[f32; 4]; TOKENS]; WEIGHTS];

/// This warp's part of the block's tile.
#[derive(Clone, Copy)]
pub(super) struct WarpTile {
    /// First weight, in the tile.
    weight: u32,
    /// Index of its share of a stage's k.
    k_idx: u32,
    /// First k of that share.
    k: u32,
    /// Which of the four matrices of an `ldmatrix` this lane addresses, and which row of it.
    matrix: u32,
    row: u32,
}

impl WarpTile {
    #[inline(always)]
    pub(super) fn new<const WEIGHTS: usize>(config: &DecodeConfig) -> Self {
        let warp_idx = thread::thread_idx_x() / thread::WARP_THREADS;
        let lane_idx = thread::thread_idx_x() % thread::WARP_THREADS;
        let k_idx = warp_idx / config.warps_n;
        Self {
            weight: warp_idx % config.warps_n * (WEIGHTS as u32 * MMA_WEIGHTS),
            k_idx,
            k: k_idx * (config.tile_k / config.warps_k()),
            matrix: lane_idx / 8,
            row: lane_idx % 8,
        }
    }

    /// First weight and k, within a 16×16 fragment of B, of the 8×8 matrix that the lane addresses:
    /// matrices follow each other along n first.
    #[inline(always)]
    fn corner(&self) -> (u32, u32) {
        (self.matrix % 2 * 8, self.matrix / 2 * 8)
    }

    /// Stores the warp's sums to their places in `[warps_k][tile_m][partial_pitch]`.
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
        let pitch = partial_pitch(config.tile_n);
        let first = (self.k_idx * config.tile_m + lane_idx % 4 * 2) * pitch;
        let first = first + self.weight + lane_idx / 4;
        for weight in 0..WEIGHTS {
            for token in 0..TOKENS {
                for i in 0..4 {
                    let row = token as u32 * MMA_TOKENS + i as u32 % 2;
                    let column = weight as u32 * MMA_WEIGHTS + i as u32 / 2 * 8;
                    let at = all.wrapping_add((first + row * pitch + column) as usize);
                    // SAFETY: inside the warp's part; the rest is the caller's promise.
                    unsafe { at.write(sums[weight][token][i]) };
                }
            }
        }
    }
}

/// Adds to `sums` the products of the warp's part of the stage at `stage`.
///
/// # Safety
/// All lanes execute it; the stage has landed.
#[inline(always)]
pub(super) unsafe fn multiply<T: MmaElement, const WEIGHTS: usize, const TOKENS: usize>(
    sums: &mut Sums<WEIGHTS, TOKENS>,
    stage: SharedAddr,
    layout: &impl Layout,
    config: &DecodeConfig,
) {
    let mut step = 0;
    while step < config.tile_k / config.warps_k() / STEP_K {
        let mut tokens = [[0; 4]; TOKENS];
        for token in 0..TOKENS {
            // SAFETY: the caller's promise.
            tokens[token] = unsafe { layout.tokens(stage, step, token as u32) };
        }
        let mut weights = [[[0; 4]; 2]; WEIGHTS];
        for weight in 0..WEIGHTS {
            // SAFETY: the caller's promise.
            weights[weight] = unsafe { layout.weights(stage, step, weight as u32) };
        }
        for half in 0..2 {
            for weight in 0..WEIGHTS {
                for token in 0..TOKENS {
                    let pair = [tokens[token][2 * half], tokens[token][2 * half + 1]];
                    // SAFETY: the caller's promise.
                    unsafe { T::mma(&mut sums[weight][token], weights[weight][half], pair) };
                }
            }
        }
        step += 1;
    }
}

/// How fragments are read from a stage.
pub(super) trait Layout {
    /// The `token`th 8 tokens over the k of a step, as the second operand of two `mma`s.
    ///
    /// # Safety
    /// All lanes execute it; the stage has landed.
    unsafe fn tokens(&self, stage: SharedAddr, step: u32, token: u32) -> [u32; 4];

    /// The warp's `weight`th 16 weights over the k of a step, as the first operands of two `mma`s.
    ///
    /// # Safety
    /// As for [`tokens`](Self::tokens).
    unsafe fn weights(&self, stage: SharedAddr, step: u32, weight: u32) -> [[u32; 4]; 2];
}

/// Addresses in a stage of padded rows: A, then B as stored.
#[derive(Clone, Copy)]
pub(super) struct Padded<const K_ROWS: bool> {
    /// Bytes from the stage's start to the lane's first row of A, and of B.
    a: u32,
    b: u32,
    pitch_a_bytes: u32,
    pitch_b_bytes: u32,
}

impl<const K_ROWS: bool> Padded<K_ROWS> {
    #[inline(always)]
    pub(super) fn new(warp_tile: &WarpTile, config: &DecodeConfig, pitch_b_bytes: u32) -> Self {
        let pitch_a_bytes = config.pitch_a_bytes();
        let (down, along) = warp_tile.corner();
        let (weight, k) = (warp_tile.weight + down, warp_tile.k + along);
        let b = if K_ROWS {
            (k + warp_tile.row) * pitch_b_bytes + weight * ELEMENT_BYTES
        } else {
            (weight + warp_tile.row) * pitch_b_bytes + k * ELEMENT_BYTES
        };
        Self {
            a: warp_tile.row * pitch_a_bytes + (warp_tile.k + 8 * warp_tile.matrix) * ELEMENT_BYTES,
            b: config.padded_a_bytes() + b,
            pitch_a_bytes,
            pitch_b_bytes,
        }
    }
}

impl<const K_ROWS: bool> Padded<K_ROWS> {
    /// Address of the lane's row of A: for the `token`th group of 8 tokens, over the k of a step.
    #[inline(always)]
    fn a(&self, stage: SharedAddr, step: u32, token: u32) -> SharedAddr {
        let offset = token * MMA_TOKENS * self.pitch_a_bytes + step * STEP_K * ELEMENT_BYTES;
        stage.add_bytes(self.a + offset)
    }

    /// Address of the lane's row of B: for the warp's `weight`th group of 16 weights, over one half
    /// of the k of a step.
    #[inline(always)]
    fn b(&self, stage: SharedAddr, step: u32, half: u32, weight: u32) -> SharedAddr {
        let (weight, k) = (weight * MMA_WEIGHTS, step * STEP_K + half * MMA_K);
        let offset = if K_ROWS {
            k * self.pitch_b_bytes + weight * ELEMENT_BYTES
        } else {
            weight * self.pitch_b_bytes + k * ELEMENT_BYTES
        };
        stage.add_bytes(self.b + offset)
    }
}

impl<const K_ROWS: bool> Layout for Padded<K_ROWS> {
    #[inline(always)]
    unsafe fn tokens(&self, stage: SharedAddr, step: u32, token: u32) -> [u32; 4] {
        // SAFETY: passed on to the caller.
        unsafe { ldmatrix_x4(self.a(stage, step, token)) }
    }

    #[inline(always)]
    unsafe fn weights(&self, stage: SharedAddr, step: u32, weight: u32) -> [[u32; 4]; 2] {
        [0, 1].map(|half| {
            let row = self.b(stage, step, half, weight);
            // SAFETY: passed on to the caller.
            unsafe {
                if K_ROWS {
                    ldmatrix_x4_trans(row)
                } else {
                    ldmatrix_x4(row)
                }
            }
        })
    }
}

/// A stage of the aligned chunks that hold rows with contiguous k. Rows begin anywhere in their first
/// chunk. A lane's 8 elements of a step are in two neighbouring chunks: the first four of k are those
/// of the first `mma`, in both operands. All its rows begin alike, as they are multiples of 8 rows
/// apart, which is a multiple of 16 bytes.
#[derive(Clone, Copy)]
pub(super) struct Shifted {
    /// Bytes from the stage's start to the first chunk of the lane's first row of A, and of B.
    a: u32,
    b: u32,
    /// Bytes of this chunk that lie before the elements.
    shifts: [u32; 2],
    pitch_bytes: u32,
}

impl Shifted {
    /// `shifts` gives the bytes before a row of A and of B in its first chunk.
    #[inline(always)]
    pub(super) fn new(
        warp_tile: &WarpTile,
        config: &DecodeConfig,
        shifts: impl Fn(u32) -> [u32; 2],
    ) -> Self {
        let pitch_bytes = config.pitch_a_bytes();
        let lane_idx = thread::thread_idx_x() % thread::WARP_THREADS;
        let row = lane_idx / 4;
        let k = warp_tile.k + lane_idx % 4 * LANE_K;
        let a = position::<true>(row) * pitch_bytes + k * ELEMENT_BYTES;
        Self {
            a,
            b: config.padded_a_bytes() + warp_tile.weight * pitch_bytes + a,
            shifts: shifts(row),
            pitch_bytes,
        }
    }

    /// The lane's 8 elements in the chunk at `at` and the next one.
    ///
    /// # Safety
    /// The chunks have landed.
    #[inline(always)]
    unsafe fn elements(at: SharedAddr, shift: u32) -> [u32; 4] {
        // SAFETY: passed on to the caller.
        let [first, second] = unsafe { [0, 16].map(|bytes| ld_shared_v4_u32(at.add_bytes(bytes))) };
        let [a, b, c, d, e] = words(first, second, shift);
        let bytes = 0x3210 + shift % 4 * 0x1111;
        [(a, b), (b, c), (c, d), (d, e)].map(|(low, high)| prmt(low, high, bytes))
    }
}

impl Layout for Shifted {
    #[inline(always)]
    unsafe fn tokens(&self, stage: SharedAddr, step: u32, token: u32) -> [u32; 4] {
        let offset = token * MMA_TOKENS * self.pitch_bytes + step * STEP_K * ELEMENT_BYTES;
        // SAFETY: inside the stage's row; the rest is the caller's promise.
        unsafe { Self::elements(stage.add_bytes(self.a + offset), self.shifts[0]) }
    }

    #[inline(always)]
    unsafe fn weights(&self, stage: SharedAddr, step: u32, weight: u32) -> [[u32; 4]; 2] {
        let offset = weight * MMA_WEIGHTS * self.pitch_bytes + step * STEP_K * ELEMENT_BYTES;
        let first = stage.add_bytes(self.b + offset);
        let [low, high] = [0, 8].map(|rows| {
            let at = first.add_bytes(rows * self.pitch_bytes);
            // SAFETY: inside the stage's rows; the rest is the caller's promise.
            unsafe { Self::elements(at, self.shifts[1]) }
        });
        [0, 2].map(|i| [low[i], high[i], low[i + 1], high[i + 1]])
    }
}
