//! Cross-entropy of rows of logits x and probabilities p, with its gradient, in one read of both:
//! `q_j = (1 - s) p_j + s / n`, `loss = sum_j q_j (log sum exp(x) - x_j)`, and
//! `dx_j = g (softmax(x)_j sum q - q_j)`. Rows may begin at any address, where those of x and p lie alike.
//!
//! A class whose q is 0 counts nothing, whatever its logit is. Classes with weights are computed element
//! by element ([`cross_entropy`](super::cross_entropy)).

use super::partial::{Exp, MaxSum};
use super::targets::Tensors;
use crate::row::held::{row_of, row_of_mut};
use crate::row::packed::{Packed, pack, unpack};
use crate::row::slices::ThreadGroup;
use abi::rows::RowParams;
use cuda_std::grid::{griddepcontrol_launch_dependents, griddepcontrol_wait};
use cuda_std::math::{self, fma};
use cuda_std::warp::Words;

/// What a part of a row has.
#[derive(Clone, Copy)]
struct Part {
    x: MaxSum,
    /// The sum of q.
    share: f32,
    /// The sum of q times the distance from the maximum.
    distance: f32,
}

impl Words for Part {
    #[inline(always)]
    fn map_words(self, mut f: impl FnMut(u32) -> u32) -> Self {
        Self {
            x: self.x.map_words(&mut f),
            share: self.share.map_words(&mut f),
            distance: self.distance.map_words(&mut f),
        }
    }
}

impl Part {
    /// The distance about a maximum that is not smaller.
    #[inline(always)]
    fn about(self, max: f32) -> f32 {
        match self.share == 0.0 || self.x.max == max {
            true => self.distance,
            false => fma(self.share, max - self.x.max, self.distance),
        }
    }

    #[inline(always)]
    fn merge(self, other: Self) -> Self {
        let x = self.x.merge(other.x);
        Self {
            x,
            share: self.share + other.share,
            distance: self.about(x.max) + other.about(x.max),
        }
    }

    /// With another class; `exp` is about the maximum.
    #[inline(always)]
    fn with(&mut self, x: f32, q: f32, exp: Exp) {
        self.x.sum += exp.of(x);
        self.share += q;
        if q != 0.0 {
            self.distance = fma(-q, exp.distance(x), self.distance);
        }
    }
}

/// Computes this thread group's row, of which its blocks have slices. Strides are those of x, p, the
/// factors and dx.
///
/// # Safety
/// `tensors` are those of `params`, launched as `abi::rows` says; the rows of x and p lie alike.
#[inline(always)]
pub(super) unsafe fn slices<T: Packed, const V: usize>(tensors: &Tensors<T>, params: &RowParams) {
    griddepcontrol_launch_dependents();
    griddepcontrol_wait();
    let inputs = [tensors.x, tensors.targets.cast::<T>()];
    // SAFETY: the launch's promise; all threads come here; rows of both.
    let (thread_group, end) = unsafe {
        let thread_group = ThreadGroup::<true>::fetch(params, 2, inputs);
        if thread_group.row >= params.rows {
            return;
        }
        let load = |input: usize, otherwise| {
            let row = row_of(inputs[input], thread_group.row, params.strides[input]);
            thread_group.ends.load(row, otherwise)
        };
        let end = load(0, f32::NEG_INFINITY).zip(load(1, 0.0));
        (thread_group, end)
    };
    thread_group.land();
    let (own, even) = (1.0 - params.epsilon, params.epsilon / params.n as f32);
    let share = |p: f32| fma(own, p, even);
    let end = end.map(|(x, p)| (x, thread_group.ends.or_zero(share(p))));
    let (xs, ps) = (thread_group.slice(0), thread_group.slice(1));
    // SAFETY: vectors of the slices; all threads of the thread group come here, once.
    let whole = unsafe {
        let mut part = Part {
            x: MaxSum::EMPTY,
            share: 0.0,
            distance: 0.0,
        };
        if let Some((x, _)) = end {
            // NaN is not a maximum.
            part.x.max = x.max(part.x.max);
        }
        thread_group.each(|v| {
            let x = unpack::<T, V>(&xs.read(v));
            part.x.max = x.into_iter().fold(part.x.max, f32::max);
        });
        let exp = Exp::new(part.x.max);
        if let Some((x, q)) = end {
            part.with(x, q, exp);
        }
        thread_group.each(|v| {
            let (x, p) = (unpack::<T, V>(&xs.read(v)), unpack::<T, V>(&ps.read(v)));
            let mut i = 0;
            while i < V {
                part.with(x[i], share(p[i]), exp);
                i += 1;
            }
        });
        thread_group.reduce(part, Part::merge)
    };
    let row = thread_group.row;
    let is_first = thread_group.group.own == 0 && thread_group.group.rank == 0;
    if is_first && !tensors.losses.is_null() {
        let loss = fma(whole.share, math::log(whole.x.sum), whole.distance);
        // SAFETY: the row's element.
        unsafe { tensors.losses.wrapping_add(row as usize).write(loss) };
    }
    if tensors.dx.is_null() {
        return;
    }
    let exp = Exp::new(whole.x.max);
    // SAFETY: it has been written.
    let scale = params.scale * unsafe { tensors.factor(row, params) };
    let factor = scale * whole.share / whole.x.sum;
    let gradient = |x: f32, q: f32| fma(exp.of(x), factor, -scale * q);
    let to = row_of_mut(tensors.dx, row, params.strides[3]);
    // SAFETY: vectors of the slices, and this row of dx; the warp is converged.
    unsafe {
        if let Some((x, q)) = end {
            thread_group.ends.store(to, gradient(x, q));
        }
        thread_group.write(to, |v| {
            let (mut x, p) = (unpack::<T, V>(&xs.read(v)), unpack::<T, V>(&ps.read(v)));
            let mut i = 0;
            while i < V {
                x[i] = gradient(x[i], share(p[i]));
                i += 1;
            }
            pack::<T, V>(&x)
        });
    }
}
