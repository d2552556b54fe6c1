//! The product by each thread's own multiply-adds.
//!
//! It is for Turing, whose f64 is a thirty-second of its f32, and for the emulator: simple before
//! all else. A k tile is fetched into registers while the one before it is multiplied, then put
//! into the one stage there is.

use abi::gemm::{DOUBLE_K, DOUBLE_SIMT, DoubleParams};
use cuda_std::hint::opaque;
use cuda_std::math::wide::fma;
use cuda_std::thread;

use super::ending::{Launch, TileCoord};

/// Rows of A and columns of B of a tile.
const TILE: u32 = DOUBLE_SIMT.tile_m;
/// Elements from k to k of a stage.
const PITCH: u32 = TILE + 1;
/// Elements of a tile that a thread fetches.
const FETCHED: usize = (TILE * DOUBLE_K / DOUBLE_SIMT.threads) as usize;
/// Results of a thread, down and across, and threads in a row of them.
const RESULTS: usize = 4;
const THREADS_ACROSS: u32 = TILE / RESULTS as u32;
/// f64 elements of shared memory: the results, which take the place of the stages.
pub(super) const SMEM_ELEMENTS: usize = (TILE * TILE) as usize;

const _: () = assert!(2 * DOUBLE_K * PITCH <= TILE * TILE);
const _: () = assert!(DOUBLE_SIMT.threads == THREADS_ACROSS * THREADS_ACROSS);

/// An operand and this block's lines of it.
struct Operand {
    base: *const f64,
    /// Elements from row to row of A or column to column of B, and from k to k.
    steps: [i64; 2],
    is_k_major: bool,
    /// Rows of A or columns of B, from the tile's first.
    mn_left: u32,
    k: u32,
}

impl Operand {
    #[inline(always)]
    fn new(base: *const f64, ld: i64, is_k_major: bool, [first, extent, k]: [u32; 3]) -> Self {
        let steps = if is_k_major { [ld, 1] } else { [1, ld] };
        Self {
            base: base.wrapping_offset((i64::from(first) * steps[0]) as isize),
            steps,
            is_k_major,
            mn_left: extent - first,
            k,
        }
    }

    /// Row or column, and k, in the tile, of this thread's `i`th element. Neighbouring threads have
    /// neighbours in memory.
    #[inline(always)]
    fn index(&self, i: usize) -> [u32; 2] {
        let element = thread::thread_idx_x() + i as u32 * DOUBLE_SIMT.threads;
        if self.is_k_major {
            [element / DOUBLE_K, element % DOUBLE_K]
        } else {
            [element % TILE, element / TILE]
        }
    }

    /// This thread's elements of the tile that begins at `first_k`; zeros outside of the operand.
    ///
    /// # Safety
    /// The operand can be read.
    #[inline(always)]
    unsafe fn fetch(&self, first_k: u32) -> [f64; FETCHED] {
        let mut x = [0.0; FETCHED];
        for i in 0..FETCHED {
            let [mn, k] = self.index(i);
            if mn < self.mn_left && first_k < self.k && k < self.k - first_k {
                let k = i64::from(first_k) + i64::from(k);
                let index = i64::from(mn) * self.steps[0] + k * self.steps[1];
                // SAFETY: inside the operand.
                x[i] = unsafe { self.base.wrapping_offset(index as isize).read() };
            }
        }
        x
    }

    /// Puts them into the stage at `smem`.
    ///
    /// # Safety
    /// Nobody reads the stage before the next barrier.
    #[inline(always)]
    unsafe fn put(&self, x: [f64; FETCHED], smem: *mut f64) {
        for i in 0..FETCHED {
            let [mn, k] = self.index(i);
            // SAFETY: inside the stage, and no other thread's.
            unsafe { smem.wrapping_add((k * PITCH + mn) as usize).write(x[i]) }
        }
    }
}

/// One block's work, in `smem` of [`SMEM_ELEMENTS`].
///
/// # Safety
/// As the launch's.
#[inline(always)]
pub(super) unsafe fn gemm((a, b): (*const f64, *const f64), launch: Launch<'_>, smem: *mut f64) {
    let params: &DoubleParams = launch.params;
    let Some(coord) = TileCoord::of(params, &DOUBLE_SIMT) else {
        return;
    };
    let a = a.wrapping_offset((coord.batch * params.batch_stride_a) as isize);
    let b = b.wrapping_offset((coord.batch * params.batch_stride_b) as isize);
    let extents = [coord.first_row, params.m, params.k];
    let a = Operand::new(a, params.lda, params.a_is_k_major != 0, extents);
    let extents = [coord.first_column, params.n, params.k];
    let b = Operand::new(b, params.ldb, params.b_is_k_major != 0, extents);
    let (smem_a, smem_b) = (smem, smem.wrapping_add((DOUBLE_K * PITCH) as usize));
    let row = thread::thread_idx_x() / THREADS_ACROSS;
    let column = thread::thread_idx_x() % THREADS_ACROSS;
    let mut acc = [[0.0; RESULTS]; RESULTS];
    // SAFETY: the caller's promise; barriers part writing and reading of the stage.
    unsafe {
        let (mut next_a, mut next_b) = (a.fetch(0), b.fetch(0));
        let mut first_k = 0;
        for _ in 0..params.k.div_ceil(DOUBLE_K) {
            thread::sync_threads(); // the tile before has been read
            a.put(next_a, smem_a);
            b.put(next_b, smem_b);
            thread::sync_threads(); // this one is there
            first_k += DOUBLE_K;
            (next_a, next_b) = (a.fetch(first_k), b.fetch(first_k));
            let mut k = 0;
            while k < opaque(DOUBLE_K) {
                let line = |smem: *mut f64, first: u32| {
                    let mut x = [0.0; RESULTS];
                    for i in 0..RESULTS {
                        let index = k * PITCH + first + i as u32 * THREADS_ACROSS;
                        x[i] = smem.wrapping_add(index as usize).read();
                    }
                    x
                };
                let (x, y) = (line(smem_a, row), line(smem_b, column));
                for i in 0..RESULTS {
                    for j in 0..RESULTS {
                        acc[i][j] = fma(x[i], y[j], acc[i][j]);
                    }
                }
                k += 1;
            }
        }
        thread::sync_threads(); // the results take the stage's place
        for i in 0..RESULTS {
            for j in 0..RESULTS {
                let row = row + i as u32 * THREADS_ACROSS;
                let column = column + j as u32 * THREADS_ACROSS;
                smem.wrapping_add((row * TILE + column) as usize)
                    .write(acc[i][j]);
            }
        }
        thread::sync_threads(); // they are there
        launch.store(smem, &DOUBLE_SIMT, coord);
    }
}
