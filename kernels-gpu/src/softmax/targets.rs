//! The targets of cross-entropy, classes or probabilities: what the loss and the gradient need from
//! them.

use super::partial::MaxSum;
use crate::row::group::Group;
use crate::row::held::row_of;
use crate::row::packed::Packed;
use abi::rows::{RowParams, flags};
use cuda_std::math::{self, fma};

/// The tensors of a launch.
pub(super) struct Tensors<T> {
    pub(super) x: *const T,
    /// A class of each row; with [`flags::PROBABILITIES`], rows of them with the elements of `x`.
    pub(super) targets: *const i64,
    /// Weights of the classes; null if each is 1.
    pub(super) weights: *const f32,
    /// Null if the losses are not wanted.
    pub(super) losses: *mut f32,
    /// Null if the gradient is not wanted.
    pub(super) dx: *mut T,
    /// Factors of the rows' gradients, besides the parameters' scale, `strides[2]` apart; null for 1.
    pub(super) factor: *const f32,
}

/// A row's target, and what the loss needs from it.
pub(super) struct Target {
    pub(super) class: i64,
    pub(super) is_ignored: bool,
    /// Weight of the target's class.
    pub(super) weight: f32,
    /// The target's logit; NaN if it is not a class. Only in the thread that writes the loss.
    pub(super) logit: f32,
}

/// Whether targets are probabilities.
#[inline(always)]
pub(super) const fn are_probabilities(params: &RowParams) -> bool {
    params.flags & flags::PROBABILITIES != 0
}

impl Target {
    /// No class, where targets are probabilities: its part of the loss is 0.
    pub(super) const NONE: Self = Self {
        class: 0,
        is_ignored: false,
        weight: 0.0,
        logit: 0.0,
    };
}

impl<T: Packed> Tensors<T> {
    /// The target of a row, without its logit.
    ///
    /// # Safety
    /// There is such a row.
    #[inline(always)]
    pub(super) unsafe fn class_of(&self, row: u64, params: &RowParams) -> Target {
        // SAFETY: the row's element, and the class's.
        unsafe {
            let class = self.targets.wrapping_add(row as usize).read();
            // Without weights, nothing here waits for the class. A target that is not a class may
            // have any weight: its loss and gradient are NaN.
            let weight = match self.weights.is_null() {
                true => 1.0,
                false => self.weight_of((class as u64).min(params.n - 1)),
            };
            Target {
                class,
                is_ignored: class == params.ignore_index,
                weight,
                logit: f32::NAN,
            }
        }
    }

    /// The target of a row. Its logit is read before the gradient may overwrite the row.
    ///
    /// # Safety
    /// All threads of the block call it.
    #[inline(always)]
    pub(super) unsafe fn target(&self, group: &Group, row: u64, params: &RowParams) -> Target {
        let mut target = Target {
            class: -1,
            is_ignored: true,
            weight: 1.0,
            logit: f32::NAN,
        };
        if row < params.rows {
            // SAFETY: the row's element.
            target.class = unsafe { self.targets.wrapping_add(row as usize).read() };
            target.is_ignored = target.class == params.ignore_index;
            let is_class = (target.class as u64) < params.n;
            if is_class && !self.weights.is_null() {
                // SAFETY: the class's element.
                target.weight = unsafe { self.weight_of(target.class as u64) };
            }
            if is_class && group.own == 0 && group.rank == 0 {
                let at = row_of(self.x, row, params.strides[0]).wrapping_add(target.class as usize);
                // SAFETY: an element of the row.
                target.logit = unsafe { T::load_alike(at) };
            }
        }
        // A barrier: between this read and the row's writes, its lanes may have no other.
        // SAFETY: passed on to the caller.
        unsafe { group.sync() };
        target
    }

    /// # Safety
    /// There are weights, and such a class.
    #[inline(always)]
    pub(super) unsafe fn weight_of(&self, class: u64) -> f32 {
        // SAFETY: passed on to the caller.
        unsafe { self.weights.wrapping_add(class as usize).read() }
    }

    /// The weight of a class in a row's target distribution, smoothed, times that of the class.
    ///
    /// # Safety
    /// Targets are probabilities; there is such a class and such a row.
    #[inline(always)]
    pub(super) unsafe fn share_of(&self, row: u64, class: u64, params: &RowParams) -> f32 {
        let row = row_of(self.targets.cast::<T>(), row, params.strides[1]);
        // SAFETY: passed on to the caller.
        let share = unsafe { T::load_alike(row.wrapping_add(class as usize)) };
        let even = params.epsilon / params.n as f32;
        let share = fma(1.0 - params.epsilon, share, even);
        match self.weights.is_null() {
            true => share,
            // SAFETY: passed on to the caller.
            false => share * unsafe { self.weight_of(class) },
        }
    }

    /// Stores the loss of a row, by one of its threads. `of_all` returns the mean loss over all
    /// classes, for smoothing, given the logarithm of the sum of exponentials.
    #[inline(always)]
    pub(super) unsafe fn lose(
        &self,
        group: &Group,
        row: u64,
        target: &Target,
        whole: MaxSum,
        of_all: impl Fn(f32) -> f32,
        params: &RowParams,
    ) {
        if group.own == 0 && group.rank == 0 && row < params.rows {
            // SAFETY: passed on to the caller.
            unsafe { self.write_loss(row, target, whole, of_all, params) };
        }
    }

    /// Stores the loss of a row. `of_all` is as for [`Tensors::lose`].
    ///
    /// # Safety
    /// There is such a row.
    #[inline(always)]
    pub(super) unsafe fn write_loss(
        &self,
        row: u64,
        target: &Target,
        whole: MaxSum,
        of_all: impl Fn(f32) -> f32,
        params: &RowParams,
    ) {
        if self.losses.is_null() {
            return;
        }
        let log_sum = math::log(whole.sum);
        let smoothing = params.epsilon;
        let mut loss = ((whole.max - target.logit) + log_sum) * target.weight;
        if smoothing != 0.0 {
            loss = fma(smoothing, of_all(log_sum), (1.0 - smoothing) * loss);
        }
        let loss = if target.is_ignored { 0.0 } else { loss };
        // SAFETY: the row's element.
        unsafe { self.losses.wrapping_add(row as usize).write(loss) };
    }

    /// The factor of a row's gradient, besides the parameters' scale. Any will do for a row that
    /// there is not.
    ///
    /// # Safety
    /// It has been written.
    #[inline(always)]
    pub(super) unsafe fn factor(&self, row: u64, params: &RowParams) -> f32 {
        if self.factor.is_null() {
            return 1.0;
        }
        let row = row.min(params.rows - 1);
        // SAFETY: the row's number, or the number of all rows.
        unsafe { row_of(self.factor, row, params.strides[2]).read() }
    }

    /// Factor of the row's gradient, besides its target's weight, given [`factor`](Self::factor).
    #[inline(always)]
    pub(super) fn scale(&self, factor: f32, target: &Target, params: &RowParams) -> f32 {
        if target.is_ignored {
            0.0
        } else if target.class as u64 >= params.n {
            f32::NAN
        } else {
            params.scale * factor
        }
    }
}
