//! Cross-entropy of rows of logits against a class each, and its gradient, in one read:
//! `loss = log sum exp(x) - (1 - s) x[target] - s mean(x)`, with label smoothing s, and
//! `dx = g (softmax(x) - (1 - s) [j = target] - s / n)`.
//!
//! A row whose target is to be ignored has loss 0 and gradient 0; one whose target is no class has
//! NaN for both.

use super::forward::{share, statistics};
use super::partial::{Exp, MaxSum};
use crate::row::group::Group;
use crate::row::held::{self, Places, row_of, row_of_mut};
use crate::row::loose::{Loose, place};
use crate::row::packed::{Packed, Raw, pack};
use cuda_std::math::{self, fma};
use spec::rows::{RowParams, flags};

/// The tensors of a launch.
pub(super) struct Tensors<T> {
    pub(super) x: *const T,
    pub(super) targets: *const i64,
    /// Null where it is not asked for.
    pub(super) losses: *mut f32,
    /// Null where it is not asked for.
    pub(super) dx: *mut T,
    /// What gradients are multiplied by, beside the parameters' scale; null for 1.
    pub(super) factor: *const f32,
}

/// A row's target, and what of it the loss needs.
struct Target {
    class: i64,
    is_ignored: bool,
    /// Its logit; NaN where the target is no class. Of the thread that writes the loss.
    logit: f32,
}

impl<T: Packed> Tensors<T> {
    /// The target of a row. The logit is read before anything of the row can be written over it.
    ///
    /// # Safety
    /// All threads of the block call it.
    #[inline(always)]
    unsafe fn target(&self, group: &Group, row: u64, params: &RowParams) -> Target {
        let mut target = Target {
            class: -1,
            is_ignored: true,
            logit: f32::NAN,
        };
        if row < params.rows {
            // SAFETY: the row's element.
            target.class = unsafe { self.targets.wrapping_add(row as usize).read() };
            target.is_ignored = target.class == params.ignore_index;
            let is_class = (target.class as u64) < params.n;
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

    /// Writes the loss of a row, once.
    #[inline(always)]
    unsafe fn lose(
        &self,
        group: &Group,
        row: u64,
        target: &Target,
        whole: MaxSum,
        total: f32,
        params: &RowParams,
    ) {
        if self.losses.is_null() || group.own != 0 || group.rank != 0 || row >= params.rows {
            return;
        }
        let log_sum = math::log(whole.sum);
        let smoothing = params.epsilon;
        let mut loss = (whole.max - target.logit) + log_sum;
        if smoothing != 0.0 {
            let mean = total / params.n as f32;
            let of_all = (whole.max - mean) + log_sum;
            loss = fma(smoothing, of_all, (1.0 - smoothing) * loss);
        }
        let loss = if target.is_ignored { 0.0 } else { loss };
        // SAFETY: the row's element.
        unsafe { self.losses.wrapping_add(row as usize).write(loss) };
    }

    /// What the row's gradient is multiplied by.
    #[inline(always)]
    unsafe fn scale(&self, target: &Target, params: &RowParams) -> f32 {
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

/// The rows of this block or cluster, held in registers; the grid has all rows.
///
/// # Safety
/// `tensors` are aligned ones of `params`, launched as `spec::rows` says; `scratch` is shared memory
/// for exchanges.
#[inline(always)]
pub(super) unsafe fn held<T: Packed, const V: usize, const R: usize>(
    tensors: &Tensors<T>,
    params: &RowParams,
    scratch: *mut u32,
) {
    // SAFETY: the launch's promise.
    let mut group = unsafe { Group::of_cluster(params, scratch) };
    let row = group.row();
    let places = Places::new::<T>(&group, params.n, row < params.rows);
    // SAFETY: a row of x, or nothing; all threads come here once.
    let (raw, target): ([Raw; R], _) = unsafe {
        let raw = held::load(row_of(tensors.x, row, params.strides[0]), &places);
        let target = tensors.target(&group, row, params);
        group.meet();
        (raw, target)
    };
    let mut values = [[0.0; V]; R];
    // SAFETY: all threads of the row come here.
    let (part, whole, total) = unsafe {
        let mut total = 0.0;
        let (part, whole) = statistics::<T, V, R>(
            &mut group,
            &places,
            &raw,
            &mut values,
            false,
            Some(&mut total),
        );
        if params.epsilon != 0.0 {
            total = group.reduce::<_, true>(total, |a, b| a + b);
        }
        (part, whole, total)
    };
    // SAFETY: the row's loss and gradient.
    unsafe {
        tensors.lose(&group, row, &target, whole, total, params);
        if !tensors.dx.is_null() {
            let scale = tensors.scale(&target, params);
            let mut factor = share(part, whole) * scale;
            if target.is_ignored {
                // Whatever the logits are, NaN among them.
                factor = 0.0;
                values = [[0.0; V]; R];
            }
            let gradient = Gradient::new(factor, scale, &target, params);
            let to = row_of_mut(tensors.dx, row, params.strides[1]);
            gradient.write::<T, V, R>(to, &places, &mut values);
        }
    }
}

/// A row's gradient, of its exponentials.
struct Gradient {
    factor: f32,
    /// Of every class.
    addend: f32,
    /// Of the target, besides.
    of_target: f32,
    target: u32,
}

impl Gradient {
    #[inline(always)]
    fn new(factor: f32, scale: f32, target: &Target, params: &RowParams) -> Self {
        Self {
            factor,
            addend: -scale * params.epsilon / params.n as f32,
            of_target: -scale * (1.0 - params.epsilon),
            target: target.class as u32,
        }
    }

    #[inline(always)]
    fn of(&self, exponential: f32, is_target: bool) -> f32 {
        let value = fma(exponential, self.factor, self.addend);
        if is_target {
            value + self.of_target
        } else {
            value
        }
    }

    #[inline(always)]
    unsafe fn write<T: Packed, const V: usize, const R: usize>(
        &self,
        to: *mut T,
        places: &Places,
        values: &mut [[f32; V]; R],
    ) {
        let mut j = 0;
        while j < R {
            let first = places.vector(j) * V as u32;
            let mut i = 0;
            while i < V {
                values[j][i] = self.of(values[j][i], first + i as u32 == self.target);
                i += 1;
            }
            // SAFETY: a vector of this row of dx, or nothing.
            unsafe { held::store(to, places, j, pack::<T, V>(&values[j])) };
            j += 1;
        }
    }
}

/// All rows of this block, element by element.
///
/// # Safety
/// `tensors` are those of `params`, launched as `spec::rows` says; `scratch` is shared memory for
/// exchanges.
#[inline(always)]
pub(super) unsafe fn loose<T: Packed>(tensors: &Tensors<T>, params: &RowParams, scratch: *mut u32) {
    // SAFETY: the launch's promise.
    let mut group = unsafe { Group::of_block(params, scratch) };
    let (first, step) = group.rows();
    let mut base = first;
    while base < params.rows {
        let row = base + u64::from(group.index);
        let from = row_of(tensors.x, row, params.strides[0]);
        let mut from = Loose::new(&group, from, params.n, row < params.rows);
        // SAFETY: the row, and as much shared memory as the launch gave where it is staged.
        unsafe {
            let target = tensors.target(&group, row, params);
            if params.flags & flags::STAGED != 0 {
                from = from.staged(place(&group, params.n, 0));
            }
            let push = |state: MaxSum, values, _| state.push(values);
            let part = from.chunks(MaxSum::EMPTY, f32::NEG_INFINITY, push);
            let whole = group.reduce::<_, false>(part, MaxSum::merge);
            let mut total = 0.0;
            if params.epsilon != 0.0 {
                let add = |sum: f32, [a, b, c, d]: [f32; 4], _| sum + ((a + b) + (c + d));
                total = from.chunks(0.0, 0.0, add);
                total = group.reduce::<_, false>(total, |a, b| a + b);
            }
            tensors.lose(&group, row, &target, whole, total, params);
            if !tensors.dx.is_null() {
                let scale = tensors.scale(&target, params);
                let exp = Exp::new(whole.max);
                let gradient = Gradient::new(scale / whole.sum, scale, &target, params);
                let to = row_of_mut(tensors.dx, row, params.strides[1]);
                from.places(|i| {
                    let value = match target.is_ignored {
                        true => 0.0,
                        false => gradient.of(exp.of(from.get(i)), i == target.class as u64),
                    };
                    T::store(to.wrapping_add(i as usize), value);
                });
            }
        }
        base += step;
    }
}
