//! The product by `mma.sync` of f64.
//!
//! # Roles
//! All warps do the same: each computes its part of the tile, as blocks of 16×8, and issues its
//! share of the copies.
//!
//! | tile | warps | results a warp | blocks a multiprocessor |
//! |---|---|---|---|
//! | 128×128 | 2 down, 4 across | 64×32 | 1 |
//! | 64×64 | 2 down, 2 across | 32×32 | 3 |
//!
//! # Pipeline
//! | what | filled by | waited for by |
//! |---|---|---|
//! | stages of A and B, `STAGES` of them | `cp.async`, one commit group a k tile | `wait_group`, then the only barrier of the k tile |
//! | fragments: B's of a k tile, A's of 16 rows | `ld.shared` | the `mma`s that use them |
//!
//! # Timeline
//! For each k tile, and each 16 rows of it but the last: read A's next 16 rows, multiply these.
//! Before the last 16 rows are multiplied all fragments of the tile have been read: wait for the
//! next tile and at the barrier, and read its first fragments. So these arrive under the last
//! `mma`s. Then start copies into the stage that was read, of the tile `STAGES` ahead; beyond the
//! last tile they are of zeros, which nobody multiplies.
//!
//! # Shared memory
//! | what | bytes | lifetime |
//! |---|---|---|
//! | stages: A, then B, each in padded lines ([`abi::gemm::double_pitch`]) | `STAGES * 96 * (TILE_M + TILE_N)` | mainloop |
//! | results by rows | `8 * TILE_M * TILE_N` | after it, in the same place |

use abi::gemm::{DOUBLE_K, DOUBLE_STAGES, TileConfig};
use cuda_std::cp_async::{cp_async_commit_group, cp_async_wait_all, cp_async_wait_group};
use cuda_std::hint::opaque;
use cuda_std::mem::st_v2_f64;
use cuda_std::mma::{mma_m8n8k4_f64_f64_f64_f64, mma_m16n8k8_f64_f64_f64_f64};
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread;

use super::ending::{Launch, TileCoord};
use super::operand::{Copies, Matrix, Reader};

/// Warps down a tile.
const WARPS_DOWN: u32 = 2;

/// A thread's results of a block of 16×8: two neighbours of a row, and two eight rows below.
type Block = [f64; 4];

/// A thread's elements of eight rows or columns, in both halves of k.
type Eight = [f64; 2];

/// The instruction.
pub(super) trait Multiply {
    /// `acc += a @ b` for 16 rows, `a`, over all of a k tile, k ascending.
    ///
    /// # Safety
    /// All lanes of the warp call it.
    unsafe fn multiply<const N: usize>(acc: &mut [Block; N], a: &[Eight; 2], b: &[Eight; N]);
}

/// `m8n8k4`.
pub(super) struct By8;

impl Multiply for By8 {
    #[inline(always)]
    unsafe fn multiply<const N: usize>(acc: &mut [Block; N], a: &[Eight; 2], b: &[Eight; N]) {
        for half in 0..2 {
            for j in 0..N {
                let [x0, x1, y0, y1] = acc[j];
                let (mut x, mut y) = ([x0, x1], [y0, y1]);
                let b = [b[j][half]];
                // SAFETY: the caller's promise.
                unsafe {
                    mma_m8n8k4_f64_f64_f64_f64(&mut x, [a[0][half]], b);
                    mma_m8n8k4_f64_f64_f64_f64(&mut y, [a[1][half]], b);
                }
                acc[j] = [x[0], x[1], y[0], y[1]];
            }
        }
    }
}

/// `m16n8k8`.
pub(super) struct By16;

impl Multiply for By16 {
    #[inline(always)]
    unsafe fn multiply<const N: usize>(acc: &mut [Block; N], a: &[Eight; 2], b: &[Eight; N]) {
        let a = [a[0][0], a[1][0], a[0][1], a[1][1]];
        for j in 0..N {
            // SAFETY: the caller's promise.
            unsafe { mma_m16n8k8_f64_f64_f64_f64(&mut acc[j], a, b[j]) }
        }
    }
}

/// One block's work on tiles of `TILE_M`×`TILE_N` by `THREADS` threads: a warp has `M` × 16 rows
/// and `N` × 8 columns.
///
/// # Safety
/// As the launch's; dynamic shared memory is [`abi::gemm::DoubleEntry::smem_bytes`].
#[inline(always)]
pub(super) unsafe fn gemm<
    I: Multiply,
    const TILE_M: u32,
    const TILE_N: u32,
    const THREADS: u32,
    const M: usize,
    const N: usize,
>(
    (a, b): (*const f64, *const f64),
    launch: Launch<'_>,
    tile: &TileConfig,
) {
    const { assert!(WARPS_DOWN * 16 * M as u32 == TILE_M) };
    const { assert!(THREADS / 32 * (16 * 8 * M * N) as u32 == TILE_M * TILE_N) };
    let params = launch.params;
    let Some(coord) = TileCoord::of(params, tile) else {
        return;
    };
    let matrix = |base: *const f64, ld, stride: i64, is_k_major| Matrix {
        base: base.wrapping_offset(coord.batch.wrapping_mul(stride) as isize),
        ld,
        is_k_major: is_k_major != 0,
    };
    let a = matrix(a, params.lda, params.batch_stride_a, params.a_is_k_major);
    let b = matrix(b, params.ldb, params.batch_stride_b, params.b_is_k_major);
    let warp = thread::thread_idx_x() / thread::WARP_THREADS;
    let warp_row = warp % WARPS_DOWN * (16 * M) as u32;
    let warp_column = warp / WARPS_DOWN * (8 * N) as u32;
    let mut tiles = Tiles {
        read_a: Reader::new(TILE_M, a.is_k_major, warp_row),
        read_b: Reader::new(TILE_N, b.is_k_major, warp_column),
        copies_a: Copies::<TILE_M, THREADS>::new(a, coord.first_row, [params.m, params.k]),
        copies_b: Copies::<TILE_N, THREADS>::new(b, coord.first_column, [params.n, params.k]),
    };
    let smem = dynamic_base();
    let mut acc = [[[0.0; 4]; N]; M];
    // SAFETY: the caller's promise; the results take the stages' place, which the last copies, of
    // zeros, must have reached and all warps must have read.
    unsafe {
        tiles.multiply::<I, M, N>(SharedAddr::of(smem), params.k.div_ceil(DOUBLE_K), &mut acc);
        cp_async_wait_all();
        thread::sync_threads();
        put::<M, N>(&acc, smem.cast(), [warp_row, warp_column], TILE_N);
        thread::sync_threads();
        launch.store(smem.cast(), tile, coord);
    }
}

/// What brings tiles of both operands to registers.
struct Tiles<const TILE_M: u32, const TILE_N: u32, const THREADS: u32> {
    read_a: Reader,
    read_b: Reader,
    copies_a: Copies<TILE_M, THREADS>,
    copies_b: Copies<TILE_N, THREADS>,
}

impl<const TILE_M: u32, const TILE_N: u32, const THREADS: u32> Tiles<TILE_M, TILE_N, THREADS> {
    const STAGE_A_BYTES: u32 = Copies::<TILE_M, THREADS>::STAGE_BYTES;
    const STAGE_BYTES: u32 = Self::STAGE_A_BYTES + Copies::<TILE_N, THREADS>::STAGE_BYTES;

    /// Starts the copies of the next k tile, a group.
    ///
    /// # Safety
    /// As of [`Copies::start`].
    #[inline(always)]
    unsafe fn start(&mut self, stage: SharedAddr) {
        // SAFETY: the caller's promise.
        unsafe {
            self.copies_a.start(stage);
            self.copies_b.start(stage.add_bytes(Self::STAGE_A_BYTES));
        }
        cp_async_commit_group();
    }

    /// Fragments of B, and of 16 rows of A.
    ///
    /// # Safety
    /// The stage is there.
    #[inline(always)]
    unsafe fn first<const N: usize>(&self, stage: SharedAddr) -> ([Eight; 2], [Eight; N]) {
        // SAFETY: the caller's promise.
        unsafe {
            let b = self.read_b.read(stage.add_bytes(Self::STAGE_A_BYTES), 0);
            (self.read_a.read(stage, 0), b)
        }
    }

    /// `acc += a @ b`, over `k_tiles`, with the stages from `smem` on.
    ///
    /// # Safety
    /// The operands can be read, and nobody uses the stages.
    #[inline(always)]
    unsafe fn multiply<I: Multiply, const M: usize, const N: usize>(
        &mut self,
        smem: SharedAddr,
        k_tiles: u32,
        acc: &mut [[Block; N]; M],
    ) {
        let mut i = 0;
        // Opaque, so that the copies are there once and not `STAGES` times.
        while i < opaque(DOUBLE_STAGES) {
            // SAFETY: nobody uses the stages.
            unsafe { self.start(smem.add_bytes(i * Self::STAGE_BYTES)) };
            i += 1;
        }
        // SAFETY: a stage is read when its copies were waited for, behind a barrier, and written
        // behind one that all come to when they have read it.
        unsafe {
            cp_async_wait_group::<{ DOUBLE_STAGES - 1 }>();
            thread::sync_threads();
            let mut stage = 0;
            let (mut rows, mut b) = self.first::<N>(smem);
            for _ in 0..k_tiles {
                let this = smem.add_bytes(stage);
                stage += Self::STAGE_BYTES;
                if stage == DOUBLE_STAGES * Self::STAGE_BYTES {
                    stage = 0;
                }
                for i in 0..M - 1 {
                    let next = self.read_a.read(this, 2 * (i as u32 + 1));
                    I::multiply(&mut acc[i], &rows, &b);
                    rows = next;
                }
                cp_async_wait_group::<{ DOUBLE_STAGES - 2 }>();
                thread::sync_threads();
                let next = self.first(smem.add_bytes(stage));
                I::multiply(&mut acc[M - 1], &rows, &b);
                (rows, b) = next;
                self.start(this);
            }
        }
    }
}

/// Puts a thread's results where the tile lies by rows of `row` elements.
///
/// # Safety
/// Nobody reads `smem` before the next barrier; the tile fits.
#[inline(always)]
unsafe fn put<const M: usize, const N: usize>(
    acc: &[[Block; N]; M],
    smem: *mut f64,
    [first_row, first_column]: [u32; 2],
    row: u32,
) {
    let lane = thread::thread_idx_x() % thread::WARP_THREADS;
    let first = (first_row + lane / 4) * row + first_column + lane % 4 * 2;
    for i in 0..M {
        for j in 0..N {
            let at = first + 16 * i as u32 * row + 8 * j as u32;
            let [x0, x1, y0, y1] = acc[i][j];
            // SAFETY: the caller's promise; places are even, so they are aligned to 16 bytes.
            unsafe {
                st_v2_f64(smem.wrapping_add(at as usize), [x0, x1]);
                st_v2_f64(smem.wrapping_add((at + 8 * row) as usize), [y0, y1]);
            }
        }
    }
}
