//! The product by `mma.sync` of f64.
//!
//! # Roles
//! Four warps, two down and two across; each computes a quarter of the tile, as blocks of 16×8, and
//! issues its share of the copies.
//!
//! # Pipeline
//! `STAGES` stages of A and B, filled by `cp.async`, one commit group a k tile. For each k tile: wait
//! for its copies, the only barrier, start the copies of the one `STAGES - 1` ahead (into the stage
//! that was read before the barrier), read all fragments, multiply. Two blocks share a
//! multiprocessor, so that one multiplies while the other waits.
//!
//! # Shared memory
//! | what | bytes | lifetime |
//! |---|---|---|
//! | stages: A, then B, each in padded lines ([`spec::gemm::double_pitch`]) | `STAGES * 96 * (TILE_M + TILE_N)` | mainloop |
//! | results by rows | `8 * TILE_M * TILE_N` | after it, in the same place |

use cuda_std::cp_async::{cp_async_commit_group, cp_async_wait_all, cp_async_wait_group};
use cuda_std::mem::st_v2_f64;
use cuda_std::mma::{mma_m8n8k4_f64_f64_f64_f64, mma_m16n8k8_f64_f64_f64_f64};
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread;
use spec::gemm::{DOUBLE_K, DOUBLE_STAGES, TileConfig};

use super::ending::{Launch, Place};
use super::operand::{Copies, Matrix, Reader};

/// Groups of copies that may be on their way while a k tile is multiplied.
const IN_FLIGHT: u32 = DOUBLE_STAGES - 2;

/// A thread's results of a block of 16×8: two neighbours of a row, and two eight rows below.
type Block = [f64; 4];

/// A thread's elements of eight rows or columns, in both halves of k.
type Eight = [f64; 2];

/// The instruction.
pub(super) trait Multiply {
    /// `acc += a @ b`, over all of a k tile, k ascending. `a` has `EIGHTS`, twice `M`, times eight
    /// rows.
    ///
    /// # Safety
    /// All lanes of the warp call it.
    unsafe fn multiply<const M: usize, const N: usize, const EIGHTS: usize>(
        acc: &mut [[Block; N]; M],
        a: &[Eight; EIGHTS],
        b: &[Eight; N],
    );
}

/// `m8n8k4`.
pub(super) struct By8;

impl Multiply for By8 {
    #[inline(always)]
    unsafe fn multiply<const M: usize, const N: usize, const EIGHTS: usize>(
        acc: &mut [[Block; N]; M],
        a: &[Eight; EIGHTS],
        b: &[Eight; N],
    ) {
        for half in 0..2 {
            for i in 0..M {
                for j in 0..N {
                    let [x0, x1, y0, y1] = acc[i][j];
                    let (mut x, mut y) = ([x0, x1], [y0, y1]);
                    let b = [b[j][half]];
                    // SAFETY: the caller's promise.
                    unsafe {
                        mma_m8n8k4_f64_f64_f64_f64(&mut x, [a[2 * i][half]], b);
                        mma_m8n8k4_f64_f64_f64_f64(&mut y, [a[2 * i + 1][half]], b);
                    }
                    acc[i][j] = [x[0], x[1], y[0], y[1]];
                }
            }
        }
    }
}

/// `m16n8k8`.
pub(super) struct By16;

impl Multiply for By16 {
    #[inline(always)]
    unsafe fn multiply<const M: usize, const N: usize, const EIGHTS: usize>(
        acc: &mut [[Block; N]; M],
        a: &[Eight; EIGHTS],
        b: &[Eight; N],
    ) {
        for i in 0..M {
            let (upper, lower) = (a[2 * i], a[2 * i + 1]);
            for j in 0..N {
                let a = [upper[0], lower[0], upper[1], lower[1]];
                // SAFETY: the caller's promise.
                unsafe { mma_m16n8k8_f64_f64_f64_f64(&mut acc[i][j], a, b[j]) }
            }
        }
    }
}

/// One block's work on tiles of `TILE_M`×`TILE_N`: a warp has `M` × 16 rows and `N` × 8 columns.
///
/// # Safety
/// As the launch's; dynamic shared memory is [`spec::gemm::DoubleEntry::smem_bytes`].
#[inline(always)]
pub(super) unsafe fn gemm<
    I: Multiply,
    const TILE_M: u32,
    const TILE_N: u32,
    const M: usize,
    const N: usize,
    const EIGHTS: usize,
>(
    (a, b): (*const f64, *const f64),
    launch: Launch<'_>,
    tile: &TileConfig,
) {
    const { assert!(EIGHTS == 2 * M && 32 * M == TILE_M as usize && 16 * N == TILE_N as usize) };
    let params = launch.params;
    let Some(place) = Place::of(params, tile) else {
        return;
    };
    let matrix = |base: *const f64, ld, stride: i64, is_k_major| Matrix {
        base: base.wrapping_offset(place.batch.wrapping_mul(stride) as isize),
        ld,
        is_k_major: is_k_major != 0,
    };
    let a = matrix(a, params.lda, params.batch_stride_a, params.a_is_k_major);
    let b = matrix(b, params.ldb, params.batch_stride_b, params.b_is_k_major);
    let warp = thread::thread_idx_x() / thread::WARP_THREADS;
    let warp_row = warp % 2 * (TILE_M / 2);
    let warp_column = warp / 2 * (TILE_N / 2);
    let read_a = Reader::new(TILE_M, a.is_k_major, warp_row);
    let read_b = Reader::new(TILE_N, b.is_k_major, warp_column);
    let mut copies_a = Copies::<TILE_M>::new(a, place.first_row, [params.m, params.k]);
    let mut copies_b = Copies::<TILE_N>::new(b, place.first_column, [params.n, params.k]);
    let stage_a = Copies::<TILE_M>::STAGE_BYTES;
    let stage_bytes = stage_a + Copies::<TILE_N>::STAGE_BYTES;
    let smem = dynamic_base();
    let mut acc = [[[0.0; 4]; N]; M];
    // SAFETY: the caller's promise. A stage is written after the barrier behind which nobody reads
    // it, and read after its copies were waited for and a barrier.
    unsafe {
        let base = SharedAddr::of(smem);
        let stages_end = DOUBLE_STAGES * stage_bytes;
        let next = |stage: u32| match stage + stage_bytes {
            end if end == stages_end => 0,
            next => next,
        };
        let k_tiles = params.k.div_ceil(DOUBLE_K);
        let (mut write, mut read) = (0, 0);
        // The k tile that is copied; the one that is multiplied is `ahead` behind it.
        let mut i = 0;
        let ahead = DOUBLE_STAGES - 1;
        while i < k_tiles + ahead {
            if i >= ahead {
                cp_async_wait_group::<IN_FLIGHT>();
                thread::sync_threads();
            }
            if i < k_tiles {
                copies_a.start(base.add_bytes(write));
                copies_b.start(base.add_bytes(write + stage_a));
                write = next(write);
            }
            cp_async_commit_group();
            if i >= ahead {
                let a = read_a.read::<EIGHTS>(base.add_bytes(read));
                let b = read_b.read::<N>(base.add_bytes(read + stage_a));
                read = next(read);
                I::multiply(&mut acc, &a, &b);
            }
            i += 1;
        }
        // The results take the stages' place.
        cp_async_wait_all();
        thread::sync_threads();
        put::<M, N>(&acc, smem.cast(), [warp_row, warp_column], TILE_N);
        thread::sync_threads();
        launch.store(smem.cast(), tile, place);
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
