//! The products of a warp: of rows and columns in shared memory, and of P or dS and columns.

use cuda_std::hint::{opaque, rotate};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;

use crate::attention::sm80::element::Half;
use crate::attention::sm80::fragments::Reader;
use crate::attention::sm80::softmax::Accumulator;

/// P or dS, rounded, as first operands: `M` × 16 rows, `K` × 16 columns.
pub(super) type Fragments<const M: usize, const K: usize> = [[[u32; 4]; K]; M];

/// Vectors in shared memory: of the block's rows, and of `N` × 8 columns.
#[derive(Clone, Copy)]
pub(super) struct Factors {
    pub(super) rows: SharedAddr,
    pub(super) columns: SharedAddr,
}

/// A warp's fragments of [`Factors`].
#[derive(Clone, Copy)]
struct Readers<const CAP: usize> {
    rows: Reader<CAP>,
    columns: Reader<CAP>,
}

impl<const CAP: usize> Readers<CAP> {
    /// Those of a warp with `warp_rows` rows.
    #[inline(always)]
    fn new(of: Factors, warp_rows: u32) -> Self {
        let warp_idx = thread::thread_idx_x() / thread::WARP_THREADS;
        Self {
            rows: Reader::down(of.rows, warp_idx * warp_rows),
            columns: Reader::right(of.columns),
        }
    }

    /// Adds the products of the `step`th 16 elements.
    ///
    /// # Safety
    /// All lanes call it together; both have landed.
    #[inline(always)]
    unsafe fn add<E: Half, const M: usize, const N: usize>(
        &self,
        s: &mut Accumulator<M, N>,
        step: u32,
    ) {
        let mut a = [[0; 4]; M];
        // SAFETY: the caller's promise.
        unsafe {
            for i in 0..M {
                a[i] = self.rows.load(i as u32, step);
            }
            for j in 0..N / 2 {
                let b = self.columns.load(j as u32, step);
                for i in 0..M {
                    E::multiply(&mut s[i][2 * j], a[i], [b[0], b[1]]);
                    E::multiply(&mut s[i][2 * j + 1], a[i], [b[2], b[3]]);
                }
            }
        }
    }
}

/// `rows[i] . columns[j]` of the warp's rows and the columns.
///
/// # Safety
/// All lanes call it together; both have landed.
#[inline(always)]
pub(super) unsafe fn scores<E: Half, const CAP: usize, const M: usize, const N: usize>(
    of: Factors,
) -> Accumulator<M, N> {
    let readers = Readers::<CAP>::new(of, 16 * M as u32);
    let mut s = [[[0.0; 4]; N]; M];
    let mut step = 0;
    while step < opaque(CAP as u32 / 16) {
        // SAFETY: the caller's promise.
        unsafe { readers.add::<E, M, N>(&mut s, step) }
        step += 1;
    }
    s
}

/// `result += pairs @ columns`, which turns the pairs.
///
/// # Safety
/// All lanes call it together; the columns have landed.
#[inline(always)]
pub(super) unsafe fn accumulate<
    E: Half,
    const CAP: usize,
    const M: usize,
    const K: usize,
    const D: usize,
>(
    result: &mut Accumulator<M, D>,
    pairs: &mut Fragments<M, K>,
    columns: SharedAddr,
) {
    let columns = Reader::<CAP>::down(columns, 0);
    let mut step = 0;
    while step < opaque(K as u32) {
        let columns = columns.below(step);
        for j in 0..D / 2 {
            // SAFETY: the caller's promise.
            unsafe {
                let b = columns.load_transposed(0, j as u32);
                for i in 0..M {
                    E::multiply(&mut result[i][2 * j], pairs[i][0], [b[0], b[1]]);
                    E::multiply(&mut result[i][2 * j + 1], pairs[i][0], [b[2], b[3]]);
                }
            }
        }
        // The next step's pairs come to where the code has them.
        for i in 0..M {
            rotate(&mut pairs[i]);
        }
        step += 1;
    }
}
