//! The tensors of a norm's launch: the residual that is added to rows, and what is kept of them.

use crate::row::ends::Ends;
use crate::row::group::Group;
use crate::row::held::{self, RowFragment, row_of, row_of_mut};
use crate::row::packed::{Packed, Raw, Weights, pack, unpack};
use crate::row::slices::ThreadGroup;
use abi::rows::RowParams;
use cuda_std::math::{fma, mul_rn};

/// The tensors of a launch; null if there is none.
pub(super) struct Tensors<T> {
    pub(super) x: *const T,
    pub(super) residual: *const T,
    pub(super) weight: Weights,
    pub(super) bias: Weights,
    /// x + residual, rounded: this is what is normalised.
    pub(super) sum: *mut T,
    pub(super) y: *mut T,
    /// For each row, kept for the gradient.
    pub(super) mean: *mut f32,
    pub(super) rstd: *mut f32,
}

impl<T: Packed> Tensors<T> {
    /// Adds the residual to a row, rounds, and stores the sum if the launch wants it.
    #[inline(always)]
    pub(super) unsafe fn add_residual<const V: usize, const R: usize, const ANY: bool>(
        &self,
        (raw, end): (&mut [Raw; R], &mut Option<f32>),
        row: u64,
        (fragment, ends): (&RowFragment, &Ends<ANY>),
        params: &RowParams,
    ) {
        if self.residual.is_null() {
            return;
        }
        // SAFETY: a row of the residual, and of the sum, or nothing.
        unsafe {
            let from = row_of(self.residual, row, params.strides[1]);
            let residual: [Raw; R] = held::load(ends.inner(from), fragment, params);
            let to = row_of_mut(self.sum, row, params.strides[2]);
            let mut j = 0;
            // Unrolled here, as ptxas does not unroll it.
            while j < R {
                raw[j] = sum_of_both::<T, V>(&raw[j], &residual[j]);
                if !self.sum.is_null() && !ANY {
                    held::store(to, fragment, j, raw[j]);
                }
                j += 1;
            }
            self.add_end(end, ends, row, params);
            if !self.sum.is_null() && ANY {
                held::store_all(ends.inner_mut(to), fragment, raw);
            }
        }
    }

    /// The same for this thread's element of the ends.
    #[inline(always)]
    pub(super) unsafe fn add_end<const ANY: bool>(
        &self,
        end: &mut Option<f32>,
        ends: &Ends<ANY>,
        row: u64,
        params: &RowParams,
    ) {
        // SAFETY: a row of the residual, and of the sum, or nothing.
        unsafe {
            let residual = ends.load(row_of(self.residual, row, params.strides[1]), 0.0);
            let Some((x, residual)) = end.zip(residual) else {
                return;
            };
            let sum = T::lane(&[T::word(x + residual, 0.0); 4], 0);
            *end = Some(sum);
            if !self.sum.is_null() {
                ends.store(row_of_mut(self.sum, row, params.strides[2]), sum);
            }
        }
    }

    /// The same for a row that has landed in slices.
    #[inline(always)]
    pub(super) unsafe fn add_slice<const V: usize, const ANY: bool>(
        &self,
        thread_group: &ThreadGroup<ANY>,
        end: &mut Option<f32>,
        params: &RowParams,
    ) {
        if self.residual.is_null() {
            return;
        }
        let (slice, residual) = (thread_group.slice(0), thread_group.slice(1));
        let to = row_of_mut(self.sum, thread_group.row, params.strides[2]);
        // SAFETY: vectors of the slices, which only this thread uses, and a row of the sum.
        unsafe {
            self.add_end(end, &thread_group.ends, thread_group.row, params);
            let add = |v: u32| {
                let raw = sum_of_both::<T, V>(&slice.read(v), &residual.read(v));
                slice.write(v, raw);
                raw
            };
            if self.sum.is_null() {
                thread_group.each(|v| {
                    add(v);
                });
            } else {
                thread_group.write(to, add);
            }
        }
    }

    /// The weights and the bias of a whole vector of a row that begins anywhere, `at` elements behind
    /// the row's head, if it `is_there`.
    #[inline(always)]
    pub(super) unsafe fn weights_of<const ANY: bool>(
        &self,
        at: usize,
        is_there: bool,
        ends: &Ends<ANY>,
        params: &RowParams,
    ) -> [[Raw; 2]; 2] {
        let (at, n) = (at + ends.head() as usize, params.n as usize);
        [&self.weight, &self.bias].map(|of| match is_there {
            // SAFETY: passed on to the caller: weights of the row.
            true => unsafe { [of.anywhere::<T>(at, n), [0; 4]] },
            false => [[0; 4]; 2],
        })
    }

    /// Stores this thread's element of the ends, normalised.
    #[inline(always)]
    pub(super) unsafe fn write_end<const ANY: bool>(
        &self,
        ends: &Ends<ANY>,
        to: *mut T,
        end: f32,
        (mean, rstd): (f32, f32),
    ) {
        if ends.has() {
            // SAFETY: passed on to the caller: weights and an element of the row.
            unsafe {
                let [weight, bias] = [&self.weight, &self.bias].map(|of| of.one::<T>(ends.at()));
                ends.store(to, fma(mul_rn(end - mean, rstd), weight, bias));
            }
        }
    }

    /// Stores what the gradient needs of a row, by one of its threads.
    #[inline(always)]
    pub(super) unsafe fn keep(&self, group: &Group, row: u64, rows: u64, mean: f32, rstd: f32) {
        if group.own == 0 && group.rank == 0 && row < rows {
            // SAFETY: an element of each.
            unsafe { self.keep_row(row, mean, rstd) };
        }
    }

    /// Stores it, from the calling thread.
    #[inline(always)]
    pub(super) unsafe fn keep_row(&self, row: u64, mean: f32, rstd: f32) {
        // SAFETY: passed on to the caller: an element of each.
        unsafe {
            if !self.mean.is_null() {
                self.mean.wrapping_add(row as usize).write(mean);
            }
            if !self.rstd.is_null() {
                self.rstd.wrapping_add(row as usize).write(rstd);
            }
        }
    }
}

/// The sum of both vectors, rounded.
#[inline(always)]
fn sum_of_both<T: Packed, const V: usize>(x: &Raw, residual: &Raw) -> Raw {
    let (mut x, residual) = (unpack::<T, V>(x), unpack::<T, V>(residual));
    let mut i = 0;
    while i < V {
        x[i] += residual[i];
        i += 1;
    }
    pack::<T, V>(&x)
}
