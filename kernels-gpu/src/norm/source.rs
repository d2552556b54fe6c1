//! Rows in shared memory as norms and their gradients see them, wherever they lie there.

use super::columns::store_quad;
use crate::row::anywhere::End;
use crate::row::packed::{Packed, Raw, Weights, pack, unpack};
use crate::row::ring::{Ring, Stage};
use crate::row::short::Short;
use cuda_std::hint::{constant, rotate};
use cuda_std::warp::{FULL_MASK, bar_warp_sync};

/// Most inputs of a launch.
const INPUTS: usize = 3;

/// Shared memory through which rows come, as a thread sees it. Elements of a row go by `V`: a vector of
/// an aligned row.
pub(super) trait RowSource<T: Packed, const V: usize> {
    /// Whether sums of columns must be computed where they stand. Otherwise the compiler computes
    /// them after the exchange of a row's sums, and keeps their inputs until then.
    const SETTLES: bool;

    /// What threads load of a row ahead, as bulk copies do not bring it.
    type Ends: Copy;

    /// Loads it, of the thread's row `i`, if there is one. The inputs of that row begin at `row_of`; if
    /// lanes have rows of their own, those of the warp's first row.
    ///
    /// # Safety
    /// The row is readable.
    unsafe fn ends(&self, i: u32, row_of: &impl Fn(u32) -> *const T) -> Self::Ends;

    /// Completes row `i`, which has landed in a stage.
    ///
    /// # Safety
    /// The warp calls it, converged. The ends are those of the row.
    unsafe fn complete(
        &self,
        at: (u32, Stage),
        row_of: &impl Fn(u32) -> *const T,
        ends: Self::Ends,
    );

    /// Whether a row has a vector `j` for any thread of the warp.
    fn reaches(&self, j: usize) -> bool;

    /// Whether the row has element `i` of the thread's vector `j`.
    fn has(&self, j: usize, i: usize) -> bool;

    /// Vector `j` of the thread, of an input's row; zeros if the row does not have it. `from` is
    /// as for [`RowSource::ends`].
    ///
    /// # Safety
    /// The row is in the stage.
    unsafe fn read(&self, stage: Stage, input: u32, from: *const T, j: usize) -> [f32; V];

    /// Stores vector `j` of the thread to the row `to`, if the row has it and `to` is not null.
    ///
    /// # Safety
    /// The row is writable. It is null only in a source whose lanes have rows of their own.
    unsafe fn store(&self, to: *mut T, j: usize, values: [f32; V]);

    /// The weights of the thread's vector `j`, of type `W`; anything if the row does not have it.
    ///
    /// # Safety
    /// There is a weight for each column.
    unsafe fn weight<W: Packed>(&self, weights: &Weights, j: usize) -> [Raw; 2];

    /// Stores four sums of the columns of vector `j`, which begin with its element `lane`.
    ///
    /// # Safety
    /// The row of sums has an element for each column.
    unsafe fn keep(&self, row: *mut f32, j: usize, lane: usize, sums: [f32; 4]);
}

macro_rules! row_source {
    ([$($generics:tt)*] $source:ty, settles = $settles:literal) => {
        impl<T: Packed, const V: usize $($generics)*> RowSource<T, V> for $source {
            const SETTLES: bool = $settles;

            type Ends = ();

            #[inline(always)]
            unsafe fn ends(&self, _: u32, _: &impl Fn(u32) -> *const T) {}

            #[inline(always)]
            unsafe fn complete(&self, _: (u32, Stage), _: &impl Fn(u32) -> *const T, (): ()) {}

            #[inline(always)]
            fn reaches(&self, _: usize) -> bool {
                true
            }

            #[inline(always)]
            fn has(&self, j: usize, _: usize) -> bool {
                self.has(j)
            }

            #[inline(always)]
            unsafe fn read(&self, stage: Stage, input: u32, _: *const T, j: usize) -> [f32; V] {
                // SAFETY: the caller's promise.
                unpack::<T, V>(&unsafe { self.read(stage, input, j) })
            }

            #[inline(always)]
            unsafe fn store(&self, to: *mut T, j: usize, values: [f32; V]) {
                // SAFETY: the caller's promise; rows are aligned to vectors.
                unsafe { self.store(to, j, pack::<T, V>(&values)) }
            }

            #[inline(always)]
            unsafe fn weight<W: Packed>(&self, weights: &Weights, j: usize) -> [Raw; 2] {
                let at = self.number(j) as usize * V;
                // SAFETY: the caller's promise; a vector that the row has.
                unsafe { weights.vector::<W, V>(at, self.has(j)) }
            }

            #[inline(always)]
            unsafe fn keep(&self, row: *mut f32, j: usize, lane: usize, sums: [f32; 4]) {
                let column = self.number(j) as usize * V;
                // SAFETY: the caller's promise; rows of sums are whole vectors here.
                unsafe { store_quad(row, (column, self.has(j)), lane, sums) }
            }
        }
    };
}

row_source! { [, const R: usize] Ring<R>, settles = false }
row_source! { [, const R: usize] Short<R>, settles = true }

macro_rules! run_source {
    ($source:ident, settles = $settles:literal) => {
        impl<T: Packed, const V: usize, const R: usize> RowSource<T, V> for $source<R, true> {
            const SETTLES: bool = $settles;

            type Ends = [End; INPUTS];

            #[inline(always)]
            unsafe fn ends(&self, i: u32, row_of: &impl Fn(u32) -> *const T) -> [End; INPUTS] {
                let mut ends = [End::NONE; INPUTS];
                let mut input = 0;
                while input < INPUTS && self.has_ends(i) {
                    if (input as u32) < self.inputs() {
                        // SAFETY: the caller's promise.
                        ends[input] = unsafe { self.end_of(i, row_of(input as u32)) };
                    }
                    input += 1;
                }
                ends
            }

            #[inline(always)]
            unsafe fn complete(
                &self,
                (i, stage): (u32, Stage),
                row_of: &impl Fn(u32) -> *const T,
                ends: [End; INPUTS],
            ) {
                if !self.has_ends(i) {
                    return;
                }
                let mut input = 0;
                while input < INPUTS {
                    if (input as u32) < self.inputs() {
                        let (row, end) = (row_of(input as u32), ends[input]);
                        // SAFETY: the caller's promise.
                        unsafe { self.put_end(stage, input as u32, row, end) };
                    }
                    input += 1;
                }
                // SAFETY: the caller's promise.
                unsafe { bar_warp_sync(FULL_MASK) };
            }

            #[inline(always)]
            fn reaches(&self, j: usize) -> bool {
                self.reaches(j * V)
            }

            #[inline(always)]
            fn has(&self, j: usize, i: usize) -> bool {
                self.has_element(j * V + i)
            }

            #[inline(always)]
            unsafe fn read(&self, stage: Stage, input: u32, from: *const T, j: usize) -> [f32; V] {
                // SAFETY: the caller's promise.
                unsafe { self.values::<T, V>(stage, input, from, j) }
            }

            #[inline(always)]
            unsafe fn store(&self, to: *mut T, j: usize, values: [f32; V]) {
                let mut i = 0;
                while i < V {
                    let number = j * V + i;
                    let at = to.wrapping_add(self.column(number));
                    // Two of 16 bits are rounded together.
                    let word = T::word(values[i & !1], values[i | 1]);
                    // SAFETY: the caller's promise: an element of the row.
                    unsafe {
                        match size_of::<T>() {
                            _ if to.is_null() || !self.has_element(number) => {}
                            2 => at.cast::<u16>().write((word >> (16 * (i % 2))) as u16),
                            _ => T::store(at, values[i]),
                        }
                    }
                    i += 1;
                }
            }

            #[inline(always)]
            unsafe fn weight<W: Packed>(&self, weights: &Weights, j: usize) -> [Raw; 2] {
                let mut raw = [[0; 4]; 2];
                let mut i = 0;
                while i < V / 4 {
                    let mut words = [0; 4];
                    let mut k = 0;
                    // Once in PTX.
                    while k < constant::<4>() {
                        let number = j * V + 4 * i + k;
                        if self.has_element(number) {
                            // SAFETY: the caller's promise: a column of the row.
                            let weight = unsafe { weights.one::<T>(self.column(number)) };
                            words[0] = W::word(weight, 0.0);
                        }
                        rotate(&mut words);
                        k += 1;
                    }
                    raw[i] = words;
                    i += 1;
                }
                raw
            }

            #[inline(always)]
            unsafe fn keep(&self, row: *mut f32, j: usize, lane: usize, sums: [f32; 4]) {
                let mut sums = sums;
                let mut i = 0;
                // Once in PTX.
                while i < constant::<4>() {
                    let number = j * V + lane + i;
                    if self.has_element(number) {
                        let at = row.wrapping_add(self.column(number));
                        // SAFETY: the caller's promise: a column of the row.
                        unsafe { at.write(sums[0]) };
                    }
                    rotate(&mut sums);
                    i += 1;
                }
            }
        }
    };
}

run_source! { Ring, settles = false }
run_source! { Short, settles = true }
