//! Rows of a wgmma accumulator in f32: the words of a softmax.
//!
//! A thread has elements of two rows, and four neighbouring lanes share a row. A value of the rows
//! is an array of two: register `i` of an [`Accumulator`] is in the thread's row `i / 2 % 2`.

use crate::accumulator::Accumulator;
use crate::math::approx::ex2_approx_ftz;
use crate::thread;
use crate::warp::{FULL_MASK, shfl_bfly};
use crate::wgmma::MmaAsync;
use abi::tensor_core::fragment::{Coord, wgmma_acc};

/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;

/// A number for each of a thread's rows.
pub type Rows = [f32; 2];

impl<M: MmaAsync<Acc: AsRef<[f32]> + AsMut<[f32]>>> Accumulator<M> {
    /// The largest element of each row; -inf if all are NaN.
    ///
    /// # Safety
    /// All lanes of the warp call it, converged.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn row_max(&self) -> Rows {
        // SAFETY: passed on to the caller.
        unsafe { self.of_rows(f32::NEG_INFINITY, f32::max) }
    }

    /// The sum of each row, in f32: first a thread's elements from left to right, then its neighbour's,
    /// then those of the next two.
    ///
    /// # Safety
    /// All lanes of the warp call it, converged.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn row_sum(&self) -> Rows {
        // SAFETY: passed on to the caller.
        unsafe { self.of_rows(0.0, |a, b| a + b) }
    }

    /// Makes `2^(x * scale - offset)` of each element x, with the offset of its row, to 2.1 ulp of
    /// `ex2.approx.ftz`. Subnormal results are 0.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub fn exp2(&mut self, scale: f32, offsets: Rows) {
        self.each(|x, row| ex2_approx_ftz(x * scale - offsets[row]));
    }

    /// Multiplies each element by the factor of its row.
    #[inline(always)]
    pub fn scale_rows(&mut self, factors: Rows) {
        self.each(|x, row| x * factors[row]);
    }

    /// Replaces each element by what `change` makes of its place in the 64 rows, and of it. For masks,
    /// for example.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub fn map(&mut self, change: impl Fn(Coord, f32) -> f32) {
        let thread = thread::thread_idx_x() % WARPGROUP;
        let [registers] = self.registers_mut();
        let registers = registers.as_mut();
        let mut i = 0;
        while i < registers.len() {
            registers[i] = change(wgmma_acc(thread, i as u32), registers[i]);
            i += 1;
        }
    }

    /// Replaces each element by what `change` makes of it and its row.
    #[inline(always)]
    fn each(&mut self, change: impl Fn(f32, usize) -> f32) {
        let [registers] = self.registers_mut();
        let registers = registers.as_mut();
        let mut i = 0;
        while i < registers.len() {
            registers[i] = change(registers[i], i / 2 % 2);
            i += 1;
        }
    }

    /// Folds each row.
    ///
    /// # Safety
    /// All lanes of the warp call it, converged.
    #[inline(always)]
    unsafe fn of_rows(&self, initial: f32, fold: impl Fn(f32, f32) -> f32) -> Rows {
        let [registers] = self.registers();
        let registers = registers.as_ref();
        let mut rows = [initial; 2];
        let mut i = 0;
        while i < registers.len() {
            rows[i / 2 % 2] = fold(rows[i / 2 % 2], registers[i]);
            i += 1;
        }
        let mut row = 0;
        while row < 2 {
            // SAFETY: passed on to the caller.
            unsafe {
                rows[row] = fold(rows[row], shfl_bfly(FULL_MASK, rows[row], 1));
                rows[row] = fold(rows[row], shfl_bfly(FULL_MASK, rows[row], 2));
            }
            row += 1;
        }
        rows
    }
}
