//! The targets of cross-entropy: what the loss and the gradient need of them.

use super::partial::MaxSum;
use crate::row::group::Group;
use crate::row::held::row_of;
use crate::row::packed::Packed;
use cuda_std::math::{self, fma};
use spec::rows::RowParams;

/// The tensors of a launch.
pub(super) struct Tensors<T> {
    pub(super) x: *const T,
    pub(super) targets: *const i64,
    /// Of the classes; null where each is 1.
    pub(super) weights: *const f32,
    /// Null where it is not asked for.
    pub(super) losses: *mut f32,
    /// Null where it is not asked for.
    pub(super) dx: *mut T,
    /// What gradients are multiplied by, beside the parameters' scale; null for 1.
    pub(super) factor: *const f32,
}

/// A row's target, and what of it the loss needs.
pub(super) struct Target {
    pub(super) class: i64,
    pub(super) is_ignored: bool,
    /// Its weight.
    pub(super) weight: f32,
    /// Its logit; NaN where the target is no class. Of the thread that writes the loss.
    pub(super) logit: f32,
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
            let is_weighted = (class as u64) < params.n && !self.weights.is_null();
            Target {
                class,
                is_ignored: class == params.ignore_index,
                weight: match is_weighted {
                    true => self.weight_of(class as u64),
                    false => 1.0,
                },
                logit: f32::NAN,
            }
        }
    }

    /// The target of a row. The logit is read before anything of the row can be written over it.
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
                target.logit = unsafe { T::load(at) };
            }
        }
        // Lanes that write the row have no other barrier between.
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

    /// Writes the loss of a row, once. `of_all` is the mean of all classes' losses, of the logarithm of
    /// the sum, for smoothing.
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

    /// Writes the loss of a row. `of_all` as of [`Tensors::lose`].
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

    /// What the row's gradient is multiplied by, beside its target's weight.
    #[inline(always)]
    pub(super) unsafe fn scale(&self, target: &Target, params: &RowParams) -> f32 {
        if target.is_ignored {
            return 0.0;
        }
        if target.class as u64 >= params.n {
            return f32::NAN;
        }
        if self.factor.is_null() {
            return params.scale;
        }
        // SAFETY: one number.
        params.scale * unsafe { self.factor.read() }
    }
}
