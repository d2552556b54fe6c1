//! Layer norm and RMS norm of rows, after a residual if there is one: rows in registers, in slices,
//! and element by element.

use crate::row::group::Group;
use crate::row::held::{self, RowFragment, row_of, row_of_mut};
use crate::row::loose::{CHUNK, Loose, staging};
use crate::row::moments::{Count, Moments};
use crate::row::packed::{Packed, Raw, Weights, pack, unpack};
use crate::row::slices::ThreadGroup;
use abi::rows::{RowParams, VECTORS, flags};
use cuda_std::math::{self, fma, mul_rn};
use cuda_std::thread;
use cuda_std::warp::{FULL_MASK, bar_warp_sync};

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
    unsafe fn add_residual<const V: usize, const R: usize>(
        &self,
        raw: &mut [Raw; R],
        row: u64,
        fragment: &RowFragment,
        params: &RowParams,
    ) {
        if self.residual.is_null() {
            return;
        }
        // SAFETY: a row of the residual, and of the sum, or nothing.
        unsafe {
            let residual = row_of(self.residual, row, params.strides[1]);
            let residual: [Raw; R] = held::load(residual, fragment, params);
            let to = row_of_mut(self.sum, row, params.strides[2]);
            let mut j = 0;
            // Unrolled here, as ptxas does not unroll it.
            while j < R {
                let mut x = unpack::<T, V>(&raw[j]);
                let other = unpack::<T, V>(&residual[j]);
                let mut i = 0;
                while i < V {
                    x[i] += other[i];
                    i += 1;
                }
                raw[j] = pack::<T, V>(&x);
                if !self.sum.is_null() {
                    held::store(to, fragment, j, raw[j]);
                }
                j += 1;
            }
        }
    }

    /// The same for a row that has landed in slices.
    #[inline(always)]
    unsafe fn add_slice<const V: usize>(&self, thread_group: &ThreadGroup, params: &RowParams) {
        if self.residual.is_null() {
            return;
        }
        let (slice, residual) = (thread_group.slice(0), thread_group.slice(1));
        let to = row_of_mut(self.sum, thread_group.row, params.strides[2]);
        thread_group.each(|v| {
            // SAFETY: vectors of the slices, which only this thread uses, and of a row of the sum.
            unsafe {
                let mut x = unpack::<T, V>(&slice.read(v));
                let other = unpack::<T, V>(&residual.read(v));
                let mut i = 0;
                while i < V {
                    x[i] += other[i];
                    i += 1;
                }
                let raw = pack::<T, V>(&x);
                slice.write(v, raw);
                if !self.sum.is_null() {
                    thread_group.store(to, v, raw);
                }
            }
        });
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

/// 1 / √(variance + epsilon).
#[inline(always)]
pub(super) fn rstd_of(variance: f32, params: &RowParams) -> f32 {
    math::rsqrt(variance + params.epsilon)
}

/// Normalises the rows of this block, held in registers; the grid covers all rows. If rows are
/// `FEW`, weights are loaded with them, for which there are enough registers; else vector by vector
/// where they are used, so that more rows are held at a time.
///
/// # Safety
/// `tensors` are aligned ones of `params`, with weights of type `W`, launched as `abi::rows` says;
/// `scratch` is shared memory for exchanges.
#[inline(always)]
pub(super) unsafe fn held<T: Packed, W: Packed, const V: usize, const R: usize, const FEW: bool>(
    tensors: &Tensors<T>,
    params: &RowParams,
    scratch: *mut u32,
) {
    // SAFETY: the launch's promise.
    let (mut group, row, fragment) = unsafe { held::fragment::<T>(params, scratch) };
    // SAFETY: a row of each tensor, or nothing; all threads come here.
    let mut raw: [Raw; R] =
        unsafe { held::load(row_of(tensors.x, row, params.strides[0]), &fragment, params) };
    let weights = |j: usize| -> [[Raw; 2]; 2] {
        let at = fragment.nearest(j) as usize * V;
        // SAFETY: a vector of the weights; what a thread has of them beyond the row is not used.
        unsafe { [&tensors.weight, &tensors.bias].map(|of| of.columns::<W, V>(at)) }
    };
    let mut vectors = [([0; 4], [[[0; 4]; 2]; 2]); R];
    if FEW {
        let mut j = 0;
        while j < R {
            vectors[j].1 = weights(j);
            j += 1;
        }
    }
    // SAFETY: as above.
    unsafe {
        tensors.add_residual::<V, R>(&mut raw, row, &fragment, params);
    }
    // SAFETY: all threads of the row come here.
    let (mean, squares) =
        unsafe { moments_held::<T, V, R>(&mut group, &fragment, &mut raw, params) };
    let rstd = rstd_of(squares * params.scale, params);
    // SAFETY: elements of this row.
    unsafe { tensors.keep(&group, row, params.rows, mean, rstd) };
    let to = row_of_mut(tensors.y, row, params.strides[3]);
    held::forget(&mut raw);
    let mut j = 0;
    while j < R {
        vectors[j].0 = raw[j];
        j += 1;
    }
    let write = |j: usize, (raw, early): &mut (Raw, [[Raw; 2]; 2])| {
        let [weight, bias] = if FEW { *early } else { weights(j) };
        let weight: [f32; V] = Weights::unpack::<W, V>(&weight);
        let bias: [f32; V] = Weights::unpack::<W, V>(&bias);
        let mut out = unpack::<T, V>(raw);
        let mut i = 0;
        while i < V {
            out[i] = fma(mul_rn(out[i] - mean, rstd), weight[i], bias[i]);
            i += 1;
        }
        // SAFETY: a vector of this row of y, or nothing.
        unsafe { held::store(to, &fragment, j, pack::<T, V>(&out)) };
    };
    if R <= VECTORS {
        held::each(&mut vectors, write);
        return;
    }
    let mut j = 0;
    // Unrolled here, as ptxas does not unroll so long a loop.
    while j < R {
        write(j, &mut vectors[j]);
        // SAFETY: the warp is converged. Else ptxas unpacks several vectors ahead, and spills.
        unsafe { bar_warp_sync(FULL_MASK) };
        j += 1;
    }
}

/// A row's mean (0 in RMS norm) and the sum of squared deviations from it, with one exchange: each
/// warp computes those of its elements, and they are merged.
///
/// # Safety
/// All threads of the row call it.
#[inline(always)]
unsafe fn moments_held<T: Packed, const V: usize, const R: usize>(
    group: &mut Group,
    fragment: &RowFragment,
    raw: &mut [Raw; R],
    params: &RowParams,
) -> (f32, f32) {
    let of_row = Count {
        count: params.n as f32,
        share: params.scale,
    };
    let is_alone = group.threads <= thread::WARP_THREADS;
    let is_centered = params.flags & flags::CENTER != 0;
    let count = match is_alone {
        true => of_row,
        false => Count::new((fragment.vectors_of_warp::<R>() * V as u32) as f32),
    };
    let mut mean = 0.0;
    if is_centered {
        let mut sum = 0.0;
        // Vectors that the row does not have are 0.
        held::each(raw, |_, raw| sum += sum_of(&unpack::<T, V>(raw)));
        // SAFETY: passed on to the caller.
        mean = unsafe { group.in_warp(sum, &|a, b| a + b) } * count.share;
        // Unpacked elements would take registers from other warps.
        held::forget(raw);
    }
    let mut squares = 0.0;
    held::each(raw, |j, raw| {
        let of_vector = squares_about(&unpack::<T, V>(raw), mean);
        squares += if fragment.has(j) { of_vector } else { 0.0 };
    });
    // SAFETY: passed on to the caller.
    unsafe {
        let squares = group.in_warp(squares, &|a, b| a + b);
        if !is_centered {
            let add = |a: f32, b: f32| a + b;
            return (0.0, group.across::<_, false>(squares, Some(0.0), &add));
        }
        if is_alone {
            return (mean, squares);
        }
        let part = Moments::new(count.count, mean, squares);
        let (part, width) = group.exchange(part, Some(Moments::EMPTY));
        let whole = part.of_lanes::<false>(width, of_row);
        (whole.mean, whole.squares)
    }
}

/// Normalises this thread group's row, of which its blocks have slices.
///
/// # Safety
/// `tensors` are aligned ones of `params`, launched as `abi::rows` says.
#[inline(always)]
pub(super) unsafe fn slices<T: Packed, W: Packed, const V: usize>(
    tensors: &Tensors<T>,
    params: &RowParams,
) {
    // SAFETY: the launch's promise; a row of each tensor; all threads come here.
    unsafe {
        let inputs = 1 + u32::from(!tensors.residual.is_null());
        let thread_group = ThreadGroup::fetch(params, inputs, [tensors.x, tensors.residual]);
        thread_group.land();
        tensors.add_slice::<V>(&thread_group, params);
        let (mean, squares) = moments::<T, V>(&thread_group, params);
        let rstd = rstd_of(squares * params.scale, params);
        tensors.keep(
            &thread_group.group,
            thread_group.row,
            params.rows,
            mean,
            rstd,
        );
        let slice = thread_group.slice(0);
        let to = row_of_mut(tensors.y, thread_group.row, params.strides[3]);
        thread_group.each(|v| {
            let at = thread_group.number(v) as usize * V;
            let weight = tensors.weight.vector::<W, V>(at, true);
            let bias = tensors.bias.vector::<W, V>(at, true);
            let weight: [f32; V] = Weights::unpack::<W, V>(&weight);
            let bias: [f32; V] = Weights::unpack::<W, V>(&bias);
            let mut out = unpack::<T, V>(&slice.read(v));
            let mut i = 0;
            while i < V {
                out[i] = fma(mul_rn(out[i] - mean, rstd), weight[i], bias[i]);
                i += 1;
            }
            thread_group.store(to, v, pack::<T, V>(&out));
        });
    }
}

/// A row's mean (0 in RMS norm) and the sum of squared deviations from it, with one exchange: each
/// warp computes those of its elements, and they are merged.
///
/// # Safety
/// The row has landed; all threads of the thread group call it, once.
#[inline(always)]
unsafe fn moments<T: Packed, const V: usize>(
    thread_group: &ThreadGroup,
    params: &RowParams,
) -> (f32, f32) {
    let slice = thread_group.slice(0);
    let is_centered = params.flags & flags::CENTER != 0;
    let count = (thread_group.vectors_of_warp() * V as u32) as f32;
    let mut mean = 0.0;
    if is_centered {
        let mut sum = 0.0;
        thread_group.each(|v| {
            // SAFETY: a vector of the slice.
            let x = unpack::<T, V>(&unsafe { slice.read(v) });
            sum += sum_of(&x);
        });
        // SAFETY: passed on to the caller.
        mean = unsafe { thread_group.group.in_warp(sum, &|a, b| a + b) } / count.max(1.0);
    }
    let mut squares = 0.0;
    thread_group.each(|v| {
        // SAFETY: a vector of the slice.
        let x = unpack::<T, V>(&unsafe { slice.read(v) });
        squares += squares_about(&x, mean);
    });
    // SAFETY: passed on to the caller.
    let whole = unsafe {
        let squares = thread_group.group.in_warp(squares, &|a, b| a + b);
        // Without means, a count of 0 makes the merge add squares only.
        let count = if is_centered { count } else { 0.0 };
        thread_group.across(Moments::new(count, mean, squares), &Moments::merge)
    };
    (whole.mean, whole.squares)
}

/// The sum of a vector's elements.
#[inline(always)]
pub(super) fn sum_of<const V: usize>(x: &[f32; V]) -> f32 {
    let mut sum = x[0];
    let mut i = 1;
    while i < V {
        sum += x[i];
        i += 1;
    }
    sum
}

/// The sum of a vector's squared deviations from `mean`.
#[inline(always)]
pub(super) fn squares_about<const V: usize>(x: &[f32; V], mean: f32) -> f32 {
    let mut squares = 0.0;
    let mut i = 0;
    while i < V {
        let deviation = x[i] - mean;
        squares = fma(deviation, deviation, squares);
        i += 1;
    }
    squares
}

/// Adds the squares of elements to a sum.
#[inline(always)]
fn squares_of(sum: f32, values: [f32; CHUNK], _: u32) -> f32 {
    let mut sum = sum;
    let mut i = 0;
    while i < CHUNK {
        sum = fma(values[i], values[i], sum);
        i += 1;
    }
    sum
}

/// Normalises all rows of this block, element by element.
///
/// # Safety
/// `tensors` are those of `params`, launched as `abi::rows` says, without a residual; `scratch` is
/// shared memory for exchanges.
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
        let (mean, squares) = unsafe {
            if params.flags & flags::STAGED != 0 {
                from = from.staged(staging(&group, params.n, 0));
            }
            if params.flags & flags::CENTER != 0 {
                let part = from.chunks(Moments::EMPTY, 0.0, Moments::push);
                let whole = group.reduce::<_, false>(part, Moments::merge);
                (whole.mean, whole.squares)
            } else {
                let part = from.chunks(0.0, 0.0, squares_of);
                (0.0, group.reduce::<_, false>(part, |a, b| a + b))
            }
        };
        let rstd = rstd_of(squares / params.n as f32, params);
        // SAFETY: elements of this row.
        unsafe { tensors.keep(&group, row, params.rows, mean, rstd) };
        let to = row_of_mut(tensors.y, row, params.strides[3]);
        from.for_each(|i| {
            let at = i as usize;
            // SAFETY: an element of the row and of the weights.
            unsafe {
                let (weight, bias) = (tensors.weight.one::<T>(at), tensors.bias.one::<T>(at));
                let value = fma(mul_rn(from.get(i) - mean, rstd), weight, bias);
                T::store(to.wrapping_add(at), value);
            }
        });
        base += step;
    }
}
