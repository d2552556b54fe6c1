//! A warp's products of one stage, and where its lanes read them.

use cuda_std::ldmatrix::{ldmatrix_x4, ldmatrix_x4_trans};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use spec::gemm::decode::{DecodeConfig, SPAN_BYTES};

use super::element::MmaElement;

/// Weights (rows), tokens (columns) and k of a tensor core's product; k of one step of ours.
const MMA_WEIGHTS: u32 = 16;
const MMA_TOKENS: u32 = 8;
const MMA_K: u32 = 16;
const STEP_K: u32 = 2 * MMA_K;
const ELEMENT_BYTES: u32 = 2;
/// Elements of a row of a swizzled box.
const SPAN: u32 = SPAN_BYTES / ELEMENT_BYTES;

/// Sums of a warp: 16 weights each, then 8 tokens each.
pub(super) type Sums<const WEIGHTS: usize, const TOKENS: usize> = [[[f32; 4]; TOKENS]; WEIGHTS];

/// The part of a block's tile that is this warp's.
#[derive(Clone, Copy)]
pub(super) struct WarpPart {
    /// First weight of the tile.
    weight: u32,
    /// Which share of a stage's k.
    k_idx: u32,
    /// First k of it.
    k: u32,
    /// Of the four matrices that an `ldmatrix` reads: which one this lane addresses, which row.
    matrix: u32,
    row: u32,
}

impl WarpPart {
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

    /// Weight and k, in a fragment of 16×16, of the first element of the lane's row of B: matrices
    /// go along n first.
    #[inline(always)]
    fn corner(&self) -> (u32, u32) {
        (self.matrix % 2 * 8, self.matrix / 2 * 8)
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

/// How a stage lies in shared memory: where the lanes of a warp read its fragments.
pub(super) trait Layout: Copy {
    /// B has n contiguous, and is transposed on the way.
    const TRANSPOSED: bool;

    /// The lane's row of A: 8 tokens from the `token`th eight, over the k of a step.
    fn a(&self, stage: SharedAddr, step: u32, token: u32) -> SharedAddr;

    /// The lane's row of B: 16 weights from the warp's `weight`th sixteen, over one half of the k of
    /// a step.
    fn b(&self, stage: SharedAddr, step: u32, half: u32, weight: u32) -> SharedAddr;
}

/// Adds the products of the warp's part of the stage at `stage`. Returns bits of the last fragments: who
/// has them knows that all reads of the stage are done, which the instructions' order does not say.
///
/// # Safety
/// All lanes execute it; the stage has landed.
#[inline(always)]
pub(super) unsafe fn multiply<
    T: MmaElement,
    L: Layout,
    const WEIGHTS: usize,
    const TOKENS: usize,
>(
    sums: &mut Sums<WEIGHTS, TOKENS>,
    stage: SharedAddr,
    layout: &L,
    config: &DecodeConfig,
) -> u32 {
    let mut last = 0;
    let mut step = 0;
    while step < config.tile_k / config.warps_k() / STEP_K {
        last = 0;
        let mut tokens = [[0; 4]; TOKENS];
        for token in 0..TOKENS {
            // SAFETY: the caller's.
            tokens[token] = unsafe { ldmatrix_x4(layout.a(stage, step, token as u32)) };
            last |= tokens[token][3];
        }
        for half in 0..2 {
            for weight in 0..WEIGHTS {
                let row = layout.b(stage, step, half as u32, weight as u32);
                // SAFETY: the caller's.
                let fragment = unsafe {
                    if L::TRANSPOSED {
                        ldmatrix_x4_trans(row)
                    } else {
                        ldmatrix_x4(row)
                    }
                };
                last |= fragment[3];
                for token in 0..TOKENS {
                    let pair = [tokens[token][2 * half], tokens[token][2 * half + 1]];
                    // SAFETY: the caller's.
                    unsafe { T::mma(&mut sums[weight][token], fragment, pair) };
                }
            }
        }
        step += 1;
    }
    last
}

/// Rows one after the other, padded: A, then B as stored.
#[derive(Clone, Copy)]
pub(super) struct Padded<const K_ROWS: bool> {
    /// Bytes from the stage to the lane's first row of A, and of B.
    a: u32,
    b: u32,
    pitch_a_bytes: u32,
    pitch_b_bytes: u32,
}

impl<const K_ROWS: bool> Padded<K_ROWS> {
    #[inline(always)]
    pub(super) fn new(part: &WarpPart, config: &DecodeConfig, pitch_b_bytes: u32) -> Self {
        let pitch_a_bytes = config.pitch_a_bytes();
        let (down, along) = part.corner();
        let (weight, k) = (part.weight + down, part.k + along);
        let b = if K_ROWS {
            (k + part.row) * pitch_b_bytes + weight * ELEMENT_BYTES
        } else {
            (weight + part.row) * pitch_b_bytes + k * ELEMENT_BYTES
        };
        Self {
            a: part.row * pitch_a_bytes + (part.k + 8 * part.matrix) * ELEMENT_BYTES,
            b: config.padded_a_bytes() + b,
            pitch_a_bytes,
            pitch_b_bytes,
        }
    }
}

impl<const K_ROWS: bool> Layout for Padded<K_ROWS> {
    const TRANSPOSED: bool = K_ROWS;

    #[inline(always)]
    fn a(&self, stage: SharedAddr, step: u32, token: u32) -> SharedAddr {
        let offset = token * MMA_TOKENS * self.pitch_a_bytes + step * STEP_K * ELEMENT_BYTES;
        stage.add_bytes(self.a + offset)
    }

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

/// Boxes of rows of 128 bytes, whose 16-byte units are exchanged by an exclusive-or with the row's
/// number: A's side by side along k, then B's along k or (stored with n contiguous) along n.
#[derive(Clone, Copy)]
pub(super) struct Swizzled<const K_ROWS: bool> {
    /// Bytes from the stage to the lane's first row of A, and of B.
    a: u32,
    b: u32,
    /// Bytes of a box of A, and of B.
    box_a_bytes: u32,
    box_b_bytes: u32,
}

/// Where 16 bytes lie in a box: row and first element of the row.
#[inline(always)]
const fn swizzled(row: u32, element: u32) -> u32 {
    row * SPAN_BYTES + ((element / 8) ^ (row % 8)) * 16
}

impl<const K_ROWS: bool> Swizzled<K_ROWS> {
    #[inline(always)]
    pub(super) fn new(part: &WarpPart, config: &DecodeConfig) -> Self {
        let box_a_bytes = config.tile_m * SPAN_BYTES;
        let box_b_bytes = SPAN_BYTES * if K_ROWS { config.tile_k } else { config.tile_n };
        let (down, along) = part.corner();
        let (weight, k) = (part.weight + down, part.k + along);
        let b = if K_ROWS {
            weight / SPAN * box_b_bytes + swizzled(k + part.row, weight % SPAN)
        } else {
            k / SPAN * box_b_bytes + swizzled(weight + part.row, k % SPAN)
        };
        let k = part.k + 8 * part.matrix;
        Self {
            a: k / SPAN * box_a_bytes + swizzled(part.row, k % SPAN),
            b: config.swizzled_a_bytes() + b,
            box_a_bytes,
            box_b_bytes,
        }
    }
}

impl<const K_ROWS: bool> Layout for Swizzled<K_ROWS> {
    const TRANSPOSED: bool = K_ROWS;

    #[inline(always)]
    fn a(&self, stage: SharedAddr, step: u32, token: u32) -> SharedAddr {
        let k = step * STEP_K;
        let offset = token * MMA_TOKENS * SPAN_BYTES + k / SPAN * self.box_a_bytes;
        stage.add_bytes((self.a ^ (k % SPAN * ELEMENT_BYTES)) + offset)
    }

    #[inline(always)]
    fn b(&self, stage: SharedAddr, step: u32, half: u32, weight: u32) -> SharedAddr {
        let (weight, k) = (weight * MMA_WEIGHTS, step * STEP_K + half * MMA_K);
        // The warp's weights lie in one box where n is contiguous, its k in whole ones or in one.
        let (within, offset) = if K_ROWS {
            (weight, k * SPAN_BYTES)
        } else {
            (k % SPAN, weight * SPAN_BYTES + k / SPAN * self.box_b_bytes)
        };
        stage.add_bytes((self.b ^ (within * ELEMENT_BYTES)) + offset)
    }
}
