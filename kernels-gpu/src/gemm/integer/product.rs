//! The product by each thread's own `dp4a`, in any layout.
//!
//! # Roles
//! 256 threads compute 64×64 results, each four neighbours of four rows. All fetch operands.
//!
//! # Shared memory
//! One stage of A and one of B: words of four k, by rows of 64 of A's rows or B's columns, padded.
//! An operand without contiguous k is put into that order while it is fetched, byte by byte. So the
//! products know nothing of layouts.
//!
//! # Timeline
//! For each k tile: fetch it into registers, wait until the one before has been read, put it into
//! the stage, wait, multiply. While a block waits for memory, others on the multiprocessor
//! multiply.

use abi::gemm::integer::INTEGER_TILE;
use abi::gemm::{GemmParams, batch_idx};
use cuda_std::dot::dp4a_s32_s32;
use cuda_std::epilogue::Coord;
use cuda_std::hint::opaque;
use cuda_std::mem::ld_v4_u32;
use cuda_std::thread;

use super::ending::{Ending, WIDTH};

/// Rows of A and columns of B of a tile.
const TILE: u32 = INTEGER_TILE.tile_m;
/// Elements of a word, and words of a k tile.
const BYTES: u32 = 4;
const WORDS: u32 = INTEGER_TILE.tile_k / BYTES;
/// Words from k to k of a stage. A multiple of four, for loads of four. From another k on, as many
/// banks further, for the stores of words that lie along k.
const PITCH: u32 = TILE + 4;
/// Words of a tile that a thread fetches.
const FETCHED: usize = (TILE * WORDS / INTEGER_TILE.threads) as usize;
/// Threads in a row of results.
const THREADS_ACROSS: u32 = TILE / WIDTH as u32;
/// Words of shared memory.
pub(super) const SMEM_WORDS: usize = (2 * WORDS * PITCH) as usize;

const _: () = assert!(INTEGER_TILE.tile_n == TILE);
const _: () = assert!(INTEGER_TILE.threads == THREADS_ACROSS * THREADS_ACROSS);

/// An operand and this block's lines of it.
struct Operand {
    base: *const i8,
    ld: i64,
    is_k_major: bool,
    /// Whether words that lie along k can be read at once.
    is_aligned: bool,
    /// Rows of A or columns of B, from the tile's first.
    mn_left: u32,
    k: u32,
}

impl Operand {
    #[inline(always)]
    fn new(base: *const i8, ld: i64, is_k_major: bool, [first, extent, k]: [u32; 3]) -> Self {
        let step = if is_k_major { ld } else { 1 };
        let base = base.wrapping_offset((i64::from(first) * step) as isize);
        Self {
            base,
            ld,
            is_k_major,
            is_aligned: is_k_major && (base.addr() as u32 | ld as u32).is_multiple_of(BYTES),
            mn_left: extent - first,
            k,
        }
    }

    /// Row or column, and word of k, in the tile, of this thread's `i`th word. Neighbouring threads
    /// have neighbours in memory.
    #[inline(always)]
    fn index(&self, i: usize) -> [u32; 2] {
        let word = thread::thread_idx_x() + i as u32 * INTEGER_TILE.threads;
        if self.is_k_major {
            [word / WORDS, word % WORDS]
        } else {
            [word % TILE, word / TILE]
        }
    }

    /// This thread's words of the tile that begins at `first_k`; zeros outside of the operand.
    ///
    /// # Safety
    /// The operand can be read.
    #[inline(always)]
    unsafe fn fetch(&self, first_k: u32) -> [u32; FETCHED] {
        let mut x = [0; FETCHED];
        for i in 0..FETCHED {
            let [mn, word] = self.index(i);
            let k_left = self.k.saturating_sub(first_k).saturating_sub(word * BYTES);
            if mn < self.mn_left && k_left > 0 {
                // SAFETY: the word's first elements are inside the operand.
                x[i] = unsafe { self.word([mn, first_k + word * BYTES], k_left) };
            }
        }
        x
    }

    /// The word that begins at row or column and k, of which `k_left` elements are left.
    ///
    /// # Safety
    /// So many can be read.
    #[inline(always)]
    unsafe fn word(&self, [mn, k]: [u32; 2], k_left: u32) -> u32 {
        let (mn, k) = (i64::from(mn), i64::from(k));
        let [mn_step, k_step] = if self.is_k_major {
            [self.ld, 1]
        } else {
            [1, self.ld]
        };
        let first = self
            .base
            .wrapping_offset((mn * mn_step + k * k_step) as isize);
        if self.is_aligned && k_left >= BYTES {
            // SAFETY: the caller's promise, and aligned.
            return unsafe { first.cast::<u32>().read() };
        }
        let mut word = 0;
        for byte in 0..BYTES {
            if byte < k_left {
                let at = first.wrapping_offset((i64::from(byte) * k_step) as isize);
                // SAFETY: the caller's promise.
                word |= u32::from(unsafe { at.read() } as u8) << (8 * byte);
            }
        }
        word
    }

    /// Puts them into the stage at `smem`.
    ///
    /// # Safety
    /// Nobody reads the stage before the next barrier.
    #[inline(always)]
    unsafe fn put(&self, x: [u32; FETCHED], smem: *mut u32) {
        for i in 0..FETCHED {
            let [mn, word] = self.index(i);
            // SAFETY: inside the stage, and no other thread's.
            unsafe { smem.wrapping_add((word * PITCH + mn) as usize).write(x[i]) }
        }
    }
}

/// One block's work, in `smem` of [`SMEM_WORDS`].
///
/// # Safety
/// As the launch's.
#[inline(always)]
pub(super) unsafe fn gemm(
    (a, b, k_major): (*const i8, *const i8, u32),
    d: *mut u8,
    params: &GemmParams,
    ending: &Ending<'_>,
    smem: *mut u32,
) {
    let batch = batch_idx(
        thread::block_idx_y(),
        thread::block_idx_z(),
        thread::grid_dim_y(),
    );
    if batch >= u64::from(params.batch) {
        return;
    }
    let tile = &INTEGER_TILE;
    let (row, column) = tile.tile_coordinates(thread::block_idx_x(), params.m, params.n);
    let (first_row, first_column) = (row * TILE, column * TILE);
    let of_batch = |base: *const i8, stride: i64| {
        base.wrapping_offset((batch as i64).wrapping_mul(stride) as isize)
    };
    let a = of_batch(a, params.batch_stride_a);
    let a = Operand::new(
        a,
        params.lda,
        k_major & 1 != 0,
        [first_row, params.m, params.k],
    );
    let b = of_batch(b, params.batch_stride_b);
    let b = Operand::new(
        b,
        params.ldb,
        k_major & 2 != 0,
        [first_column, params.n, params.k],
    );
    let d = ending.offset(d, (batch as i64).wrapping_mul(params.batch_stride_d));
    let row = first_row + thread::thread_idx_x() / THREADS_ACROSS * WIDTH as u32;
    let column = first_column + thread::thread_idx_x() % THREADS_ACROSS * WIDTH as u32;
    // SAFETY: the caller's promise; results of other threads have other places.
    unsafe {
        let mut acc = accumulate((&a, &b), params.k, smem);
        let mut i = 0;
        while i < opaque(WIDTH as u32) {
            let row = row + i;
            if row < params.m && column < params.n {
                let count = (params.n - column).min(WIDTH as u32);
                ending.store(d, Coord { batch, row, column }, acc[0], count);
            }
            acc = [acc[1], acc[2], acc[3], acc[0]];
            i += 1;
        }
    }
}

/// This thread's sums.
///
/// # Safety
/// The operands can be read; all threads of the block call it, and nothing else uses `smem`.
#[inline(always)]
unsafe fn accumulate(
    (a, b): (&Operand, &Operand),
    k: u32,
    smem_a: *mut u32,
) -> [[i32; WIDTH]; WIDTH] {
    let smem_b = smem_a.wrapping_add((WORDS * PITCH) as usize);
    let own_a =
        smem_a.wrapping_add(thread::thread_idx_x() as usize / THREADS_ACROSS as usize * WIDTH);
    let own_b =
        smem_b.wrapping_add(thread::thread_idx_x() as usize % THREADS_ACROSS as usize * WIDTH);
    let mut acc = [[0; WIDTH]; WIDTH];
    // SAFETY: the caller's promise; barriers part writing and reading of the stage, whose rows of
    // words begin at multiples of 16 bytes.
    unsafe {
        let mut first_k = 0;
        for _ in 0..k.div_ceil(INTEGER_TILE.tile_k) {
            let (next_a, next_b) = (a.fetch(first_k), b.fetch(first_k));
            thread::sync_threads(); // the tile before has been read
            a.put(next_a, smem_a);
            b.put(next_b, smem_b);
            thread::sync_threads(); // this one is there
            first_k += INTEGER_TILE.tile_k;
            let mut word = 0;
            while word < opaque(WORDS) {
                let at = (word * PITCH) as usize;
                let x = ld_v4_u32(own_a.wrapping_add(at));
                let y = ld_v4_u32(own_b.wrapping_add(at));
                for i in 0..WIDTH {
                    for j in 0..WIDTH {
                        acc[i][j] = dp4a_s32_s32(x[i], y[j], acc[i][j]);
                    }
                }
                word += 1;
            }
        }
    }
    acc
}
