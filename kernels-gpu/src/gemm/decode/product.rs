//! The `mma`s of a warp over one stage, and where its lanes read their fragments.

use abi::gemm::decode::{DecodeConfig, partial_pitch};
use cuda_std::bits::prmt;
use cuda_std::ldmatrix::{ldmatrix_x4, ldmatrix_x4_trans};
use cuda_std::mem::ld_shared_u32;
use cuda_std::shared::SharedAddr;
use cuda_std::thread;

use super::element::MmaElement;

/// Weights (rows), tokens (columns) and k of an `mma`; k of one of our steps, for which one
/// `ldmatrix` loads 8 tokens.
const MMA_WEIGHTS: u32 = 16;
const MMA_TOKENS: u32 = 8;
const MMA_K: u32 = 16;
const STEP_K: u32 = 2 * MMA_K;
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
        for half in 0..2 {
            for weight in 0..WEIGHTS {
                // SAFETY: the caller's promise.
                let fragment = unsafe { layout.weights(stage, step, half as u32, weight as u32) };
                for token in 0..TOKENS {
                    let pair = [tokens[token][2 * half], tokens[token][2 * half + 1]];
                    // SAFETY: the caller's promise.
                    unsafe { T::mma(&mut sums[weight][token], fragment, pair) };
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

    /// The warp's `weight`th 16 weights over one half of the k of a step, as an `mma`'s first operand.
    ///
    /// # Safety
    /// As for [`tokens`](Self::tokens).
    unsafe fn weights(&self, stage: SharedAddr, step: u32, half: u32, weight: u32) -> [u32; 4];
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
    unsafe fn weights(&self, stage: SharedAddr, step: u32, half: u32, weight: u32) -> [u32; 4] {
        let row = self.b(stage, step, half, weight);
        // SAFETY: passed on to the caller.
        unsafe {
            if K_ROWS {
                ldmatrix_x4_trans(row)
            } else {
                ldmatrix_x4(row)
            }
        }
    }
}

/// A stage of the aligned chunks that hold rows with contiguous k. Rows begin anywhere in their first
/// chunk, so a lane reads its elements word by word. All its rows begin alike, as they are
/// multiples of 8 rows apart, which is a multiple of 16 bytes.
#[derive(Clone, Copy)]
pub(super) struct Shifted {
    /// Bytes from the stage's start to the word with the lane's first element of A, and of B.
    a: u32,
    b: u32,
    /// What `prmt` takes of this word and the next one: the bytes from the element on.
    a_bytes: u32,
    b_bytes: u32,
    pitch_bytes: u32,
}

impl Shifted {
    /// `shift` gives the bytes before the rows of A and of B with the lane's index in its first chunk.
    #[inline(always)]
    pub(super) fn new(
        warp_tile: &WarpTile,
        config: &DecodeConfig,
        shift: impl Fn(u32) -> [u32; 2],
    ) -> Self {
        let pitch_bytes = config.pitch_a_bytes();
        let lane_idx = thread::thread_idx_x() % thread::WARP_THREADS;
        let row = lane_idx / 4;
        let [shift_a, shift_b] = shift(row);
        let along = row * pitch_bytes + (warp_tile.k + lane_idx % 4 * 2) * ELEMENT_BYTES;
        let b = config.padded_a_bytes() + warp_tile.weight * pitch_bytes;
        Self {
            a: along + shift_a / 4 * 4,
            b: along + b + shift_b / 4 * 4,
            a_bytes: 0x3210 + shift_a % 4 * 0x1111,
            b_bytes: 0x3210 + shift_b % 4 * 0x1111,
            pitch_bytes,
        }
    }

    /// The two elements that `bytes` selects of the two words at `at`.
    ///
    /// # Safety
    /// The two words at `at` have landed.
    #[inline(always)]
    unsafe fn pair(at: SharedAddr, bytes: u32) -> u32 {
        // SAFETY: passed on to the caller.
        let [low, high] = unsafe { [ld_shared_u32(at), ld_shared_u32(at.add_bytes(4))] };
        prmt(low, high, bytes)
    }
}

impl Layout for Shifted {
    #[inline(always)]
    unsafe fn tokens(&self, stage: SharedAddr, step: u32, token: u32) -> [u32; 4] {
        let offset = token * MMA_TOKENS * self.pitch_bytes + step * STEP_K * ELEMENT_BYTES;
        let first = stage.add_bytes(self.a + offset);
        // SAFETY: inside the stage's row; the rest is the caller's promise.
        [0, 8, 16, 24]
            .map(|k| unsafe { Self::pair(first.add_bytes(k * ELEMENT_BYTES), self.a_bytes) })
    }

    #[inline(always)]
    unsafe fn weights(&self, stage: SharedAddr, step: u32, half: u32, weight: u32) -> [u32; 4] {
        let k = step * STEP_K + half * MMA_K;
        let offset = weight * MMA_WEIGHTS * self.pitch_bytes + k * ELEMENT_BYTES;
        let first = stage.add_bytes(self.b + offset);
        [(0, 0), (8, 0), (0, 8), (8, 8)].map(|(row, k)| {
            let at = first.add_bytes(row * self.pitch_bytes + k * ELEMENT_BYTES);
            // SAFETY: inside the stage's rows; the rest is the caller's promise.
            unsafe { Self::pair(at, self.b_bytes) }
        })
    }
}
