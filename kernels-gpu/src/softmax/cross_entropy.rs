//! Cross-entropy of rows of logits, with one target class each, and its gradient, in one read:
//! `loss = log sum exp(x) - (1 - s) x[target] - s mean(x)`, with label smoothing s, and
//! `dx = g (softmax(x) - (1 - s) [j = target] - s / n)`.
//!
//! Classes may have weights w: a row's loss is multiplied by `w[target]`, except for the smoothing
//! part, in which class j counts `s w[j] / n`. Smoothing with weights is computed element by
//! element only, as it needs one more number a class.
//!
//! Targets may also be rows of probabilities p, not classes. Class j then counts
//! `w[j] ((1 - s) p[j] + s / n)` in the loss. Here they are computed element by element;
//! [`soft`](super::soft) has their slices.
//!
//! A row whose target is ignored has loss 0 and gradient 0. A row whose target is not a class has
//! NaN for both.

use super::forward::{share, statistics};
use super::partial::{Exp, MaxSum};
use super::sums;
use super::targets::{Target, Tensors, are_probabilities};
use crate::row::group::Group;
use crate::row::held::{self, RowFragment, row_of, row_of_mut};
use crate::row::loose::{Loose, staging};
use crate::row::packed::{Packed, Raw, pack, unpack};
use crate::row::slices::ThreadGroup;
use abi::rows::{RowParams, flags};
use cuda_std::grid::{griddepcontrol_launch_dependents, griddepcontrol_wait};
use cuda_std::hint::opaque;
use cuda_std::math::fma;
use cuda_std::thread::{WARP_THREADS, grid_dim_x};
use cuda_std::warp::Words;

/// Sums over all classes that label smoothing and probabilities need.
#[derive(Clone, Copy)]
struct Classes {
    /// The sum of the weights, if there are any.
    weight: f32,
    /// The sum of the logits. If there are weights: of each class's weight times its distance from
    /// the maximum.
    total: f32,
}

impl Classes {
    const NONE: Self = Self {
        weight: 0.0,
        total: 0.0,
    };

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self {
            weight: self.weight + other.weight,
            total: self.total + other.total,
        }
    }
}

impl Words for Classes {
    #[inline(always)]
    fn map_words(self, mut f: impl FnMut(u32) -> u32) -> Self {
        Self {
            weight: self.weight.map_words(&mut f),
            total: self.total.map_words(&mut f),
        }
    }
}

/// How far the mean of the logits is below their maximum. A rounding must not put it above, but a sum
/// that overflows may.
#[inline(always)]
fn below(max: f32, mean: f32) -> f32 {
    let apart = max - mean;
    if apart < 0.0 && apart > f32::NEG_INFINITY {
        0.0
    } else {
        apart
    }
}

/// Launches of at most so many blocks let the next one begin. An H200 takes 2.4 ns for each block
/// that does, one after the other. It takes 1 to 2 ns for the 4 KiB that a small block reads, or
/// also writes.
const LETTING_BLOCKS: u32 = 1024;

/// Vectors of a slice from which on blocks take longer than that anyway, and always do.
const LETTING_VECTORS: u32 = 1024;

/// Lets the next launch begin, where blocks are few or have `many` to do. Waits for the preceding
/// launches' writes; with [`flags::EARLY`] the caller waits itself, before it reads the factor.
/// Returns whether that is so.
#[inline(always)]
fn begin(params: &RowParams, many: bool) -> bool {
    if many || grid_dim_x() <= LETTING_BLOCKS {
        griddepcontrol_launch_dependents();
    }
    let is_early = params.flags & flags::EARLY != 0;
    if !is_early {
        griddepcontrol_wait();
    }
    is_early
}

/// Computes the rows of this block, held in registers; the grid covers all rows.
///
/// # Safety
/// `tensors` are those of `params`, launched as `abi::rows` says, aligned unless rows may begin at
/// `ANY` address; `scratch` is shared memory for exchanges.
#[inline(always)]
pub(super) unsafe fn held<T: Packed, const V: usize, const R: usize, const ANY: bool>(
    tensors: &Tensors<T>,
    params: &RowParams,
    scratch: *mut u32,
) {
    let is_early = begin(params, false);
    // SAFETY: the launch's promise.
    let (mut group, row, fragment, ends) =
        unsafe { held::fragment_of::<T, ANY>(tensors.x, params, scratch) };
    let from = row_of(tensors.x, row, params.strides[0]);
    // SAFETY: a row of x, or nothing; all threads come here.
    let (mut raw, end, target): ([Raw; R], _, _) = unsafe {
        let raw = held::load(ends.inner(from), &fragment, params);
        let end = ends.load(from, f32::NEG_INFINITY);
        (raw, end, tensors.target(&group, row, params))
    };
    let mut values = [[0.0; V]; R];
    // SAFETY: all threads of the row come here.
    let (part, whole, total) = unsafe {
        let mut total = 0.0;
        let (part, whole) = statistics::<T, V, R>(
            &mut group,
            &fragment,
            &mut raw,
            end,
            |j, i, power| values[j][i] = power,
            Some(&mut total),
        );
        if params.epsilon != 0.0 {
            total += end.map_or(0.0, |end| ends.or_zero(end));
            total = group.reduce_held(total, 0.0, |a, b| a + b);
        }
        (part, whole, total)
    };
    if is_early {
        griddepcontrol_wait(); // the factor has been written
    }
    // SAFETY: the row's loss and gradient.
    unsafe {
        let of_all = |log_sum| below(whole.max, total / params.n as f32) + log_sum;
        tensors.lose(&group, row, &target, whole, of_all, params);
        if !tensors.dx.is_null() {
            let mut scale =
                tensors.scale(tensors.factor(row, params), &target, params) * target.weight;
            let mut factor = share(part, whole) * scale;
            let mut of_end = end.map(|end| Exp::new(part.max).of(end));
            if target.is_ignored {
                // Whatever the logits and the class's weight are, even NaN.
                (scale, factor) = (0.0, 0.0);
                values = [[0.0; V]; R];
                of_end = of_end.map(|_| 0.0);
            }
            let gradient = Gradient::new(factor, scale, &target, params);
            let to = row_of_mut(tensors.dx, row, params.strides[1]);
            if let Some(of_end) = of_end {
                let is_target = ends.is(target.class as u64);
                ends.store(to, gradient.of(of_end, is_target));
            }
            let gradient = gradient.behind(ends.head());
            gradient.write::<T, V, R, ANY>(ends.inner_mut(to), &fragment, &mut values);
        }
    }
}

/// Computes this thread group's row, of which its blocks have slices; no smoothing with weights of
/// classes.
///
/// # Safety
/// `tensors` are those of `params`, launched as `abi::rows` says, aligned unless rows may begin at
/// `ANY` address.
#[inline(always)]
pub(super) unsafe fn slices<T: Packed, const V: usize, const ANY: bool>(
    tensors: &Tensors<T>,
    params: &RowParams,
) {
    let is_early = begin(params, params.vectors >= LETTING_VECTORS);
    // SAFETY: the launch's promise; a row of x; all threads come here.
    unsafe {
        let (thread_group, end) = ThreadGroup::<ANY>::fetch_parts(params, tensors.x);
        if thread_group.row >= params.rows {
            return;
        }
        // The target is loaded while the row's copy is in flight.
        let mut target = tensors.class_of(thread_group.row, params);
        if is_early {
            griddepcontrol_wait(); // the factor has been written
        }
        let factor = tensors.factor(thread_group.row, params);
        let slice = thread_group.slice(0);
        let has_total = params.epsilon != 0.0;
        let whole = sums::statistics::<T, V, ANY>(&thread_group, slice, end, params, has_total);
        // The block whose slice has the target's logit writes the loss; the first block if the
        // target is not a class.
        let class = target.class as u64;
        let logit = thread_group.element::<T>(class);
        let is_here = logit.is_some() || (class >= params.n && thread_group.group.rank == 0);
        // By the last warp, which may have the fewest vectors. An end's logit is in a register.
        let is_end = thread_group.ends.is(class);
        let is_last = thread_group.group.own == thread_group.group.threads - WARP_THREADS;
        if (is_here && is_last) || is_end {
            target.logit = logit.map_or(f32::NAN, |logit| T::load_alike(logit));
            if let (true, Some(end)) = (is_end, end) {
                target.logit = end;
            }
            let mean = whole.total / params.n as f32;
            let of_all = |log_sum| below(whole.max, mean) + log_sum;
            let about_max = MaxSum {
                max: whole.max,
                sum: whole.sum_about_max(),
            };
            tensors.write_loss(thread_group.row, &target, about_max, of_all, params);
        }
        if tensors.dx.is_null() {
            return;
        }
        let to = row_of_mut(tensors.dx, thread_group.row, params.strides[1]);
        if target.is_ignored && !ANY {
            // Whatever the logits are, even NaN.
            thread_group.write(to, |_| [0; 4]);
            return;
        }
        // Opaque, so that nothing waits for the factor before the sums are there.
        let factor = f32::from_bits(opaque(factor.to_bits()));
        let scale = tensors.scale(factor, &target, params) * target.weight;
        let gradient = Gradient::new(scale / whole.sum, scale, &target, params);
        if let Some(end) = end {
            let value = gradient.of(whole.powers.of(end), is_end);
            let value = if target.is_ignored { 0.0 } else { value };
            thread_group.ends.store(to, value);
        }
        let gradient = gradient.behind(thread_group.ends.head());
        thread_group.write(to, |v| {
            if target.is_ignored && ANY {
                return [0; 4];
            }
            let x = unpack::<T, V>(&slice.read(v));
            let out = gradient.of_vector(x.map(|x| whole.powers.of(x)), thread_group.number(v));
            pack::<T, V>(&out)
        });
    }
}

/// A row's gradient as a function of its exponentials.
#[derive(Clone, Copy)]
struct Gradient {
    factor: f32,
    /// Added for every class.
    addend: f32,
    /// Added for the target as well.
    of_target: f32,
    target: u32,
}

impl Gradient {
    #[inline(always)]
    fn new(factor: f32, scale: f32, target: &Target, params: &RowParams) -> Self {
        Self {
            factor,
            addend: match params.epsilon {
                0.0 => 0.0,
                epsilon => -scale * epsilon / params.n as f32,
            },
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

    /// The same of the elements from `first` on.
    #[inline(always)]
    fn behind(self, first: u32) -> Self {
        Self {
            target: self.target.wrapping_sub(first),
            ..self
        }
    }

    /// The gradient of a vector of exponentials, given the vector's index in the row.
    #[inline(always)]
    fn of_vector<const V: usize>(&self, exponentials: [f32; V], number: u32) -> [f32; V] {
        let mut out = exponentials;
        let mut i = 0;
        while i < V {
            out[i] = fma(out[i], self.factor, self.addend);
            i += 1;
        }
        let ahead = self.target.wrapping_sub(number * V as u32);
        if ahead < V as u32 {
            let mut i = 0;
            while i < V {
                out[i] += if i as u32 == ahead {
                    self.of_target
                } else {
                    0.0
                };
                i += 1;
            }
        }
        out
    }

    #[inline(always)]
    unsafe fn write<T: Packed, const V: usize, const R: usize, const ANY: bool>(
        &self,
        to: *mut T,
        fragment: &RowFragment,
        values: &mut [[f32; V]; R],
    ) {
        let mut raw = [[0; 4]; R];
        let mut j = 0;
        while j < R {
            let first = fragment.vector(j) * V as u32;
            let mut i = 0;
            while i < V {
                values[j][i] = self.of(values[j][i], first + i as u32 == self.target);
                i += 1;
            }
            raw[j] = pack::<T, V>(&values[j]);
            if !ANY {
                // SAFETY: a vector of this row of dx, or nothing.
                unsafe { held::store(to, fragment, j, raw[j]) };
            }
            j += 1;
        }
        if ANY {
            // SAFETY: this row of dx, or nothing; the warp is converged.
            unsafe { held::store_all(to, fragment, &mut raw) };
        }
    }
}

/// Computes all rows of this block, element by element.
///
/// # Safety
/// `tensors` are those of `params`, launched as `abi::rows` says; `scratch` is shared memory for
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
        // SAFETY: the row, and shared memory of the launch, which has room for it if it is staged.
        unsafe {
            let is_soft = are_probabilities(params);
            let target = match is_soft {
                true => Target::NONE,
                false => tensors.target(&group, row, params),
            };
            if params.flags & flags::STAGED != 0 {
                from = from.staged(staging(&group, params.n, 0));
            }
            let push = |state: MaxSum, values, _| state.push(values);
            let part = from.chunks(MaxSum::EMPTY, f32::NEG_INFINITY, push);
            let whole = group.reduce::<_, false>(part, MaxSum::merge);
            let is_weighted = is_soft || (params.epsilon != 0.0 && !tensors.weights.is_null());
            let weight_of = |i| match is_soft {
                true => tensors.share_of(row, i, params),
                false => tensors.weight_of(i),
            };
            let mut classes = Classes::NONE;
            if is_weighted {
                from.for_each(|i| {
                    let weight = weight_of(i);
                    classes.weight += weight;
                    let distance = whole.max - from.get(i);
                    // A class of probability 0 may have a logit of -inf.
                    if !(is_soft && weight == 0.0) {
                        classes.total = fma(weight, distance, classes.total);
                    }
                });
            } else if params.epsilon != 0.0 {
                let add = |sum: f32, [a, b, c, d]: [f32; 4], _| sum + ((a + b) + (c + d));
                classes.total = from.chunks(0.0, 0.0, add);
            }
            if is_weighted || params.epsilon != 0.0 {
                classes = group.reduce::<_, false>(classes, Classes::add);
            }
            // Probabilities are as classes' weights of which all of the loss is spread.
            let (n, epsilon) = match is_soft {
                true => (1.0, 1.0),
                false => (params.n as f32, params.epsilon),
            };
            let spread = RowParams { epsilon, ..*params };
            let of_all = |log_sum| match is_weighted {
                true => fma(classes.weight, log_sum, classes.total) / n,
                false => below(whole.max, classes.total / n) + log_sum,
            };
            tensors.lose(&group, row, &target, whole, of_all, &spread);
            if !tensors.dx.is_null() {
                let exp = Exp::new(whole.max);
                let mut scale = tensors.scale(tensors.factor(row, params), &target, params);
                let of_class = scale * epsilon / n;
                let mut factor = scale * target.weight / whole.sum;
                scale *= target.weight;
                if is_weighted {
                    let own = (1.0 - epsilon) * scale;
                    factor = fma(of_class, classes.weight, own) / whole.sum;
                }
                let gradient = Gradient::new(factor, scale, &target, &spread);
                let of_dx = params.strides[if is_soft { 3 } else { 1 }];
                let to = row_of_mut(tensors.dx, row, of_dx);
                from.for_each(|i| {
                    let mut gradient = gradient;
                    // Opaque, so that LLVM makes one loop for all of these cases.
                    if opaque(is_weighted as u32) != 0 {
                        gradient.addend = -of_class * weight_of(i);
                    }
                    let value = match opaque(target.is_ignored as u32) != 0 {
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
