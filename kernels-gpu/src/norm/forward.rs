//! Layer norm and RMS norm of rows, after a residual if there is one: rows in registers, in slices,
//! and element by element.

use super::tensors::Tensors;
use crate::row::ends::Ends;
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

/// 1 / √(variance + epsilon).
#[inline(always)]
pub(super) fn rstd_of(variance: f32, params: &RowParams) -> f32 {
    let variance = variance + params.epsilon;
    // A sum of squares beyond f32 must not make plausible zeros of the row.
    if variance == f32::INFINITY {
        f32::NAN
    } else {
        math::rsqrt(variance)
    }
}

/// Normalises the rows of this block, held in registers; the grid covers all rows. If rows are
/// `FEW`, there are enough registers to load weights with them. Else weights are loaded vector by
/// vector where they are used, so that more rows are held at a time.
///
/// # Safety
/// `tensors` are those of `params`, with weights of type `W`, launched as `abi::rows` says; `scratch`
/// is shared memory for exchanges. All are aligned, unless rows may begin at `ANY` address: weights
/// are of type `T` then, and the rows of `x` and of the residual lie alike.
#[inline(always)]
pub(super) unsafe fn held<
    T: Packed,
    W: Packed,
    const V: usize,
    const R: usize,
    const FEW: bool,
    const ANY: bool,
>(
    tensors: &Tensors<T>,
    params: &RowParams,
    scratch: *mut u32,
) {
    // SAFETY: the launch's promise.
    let (mut group, row, fragment, ends) =
        unsafe { held::fragment_of::<T, ANY>(tensors.x, params, scratch) };
    let from = row_of(tensors.x, row, params.strides[0]);
    // SAFETY: a row of each tensor, or nothing; all threads come here.
    let (mut raw, mut end): ([Raw; R], _) = unsafe {
        let raw = held::load(ends.inner(from), &fragment, params);
        (raw, ends.load(from, 0.0))
    };
    let weights = |j: usize| -> [[Raw; 2]; 2] {
        let at = fragment.nearest(j) as usize * V;
        if ANY {
            // SAFETY: weights of the row; a row without whole vectors uses none.
            return unsafe { tensors.weights_of(at, fragment.has(j), &ends, params) };
        }
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
        let of_thread = (&mut raw, &mut end);
        tensors.add_residual::<V, R, ANY>(of_thread, row, (&fragment, &ends), params);
    }
    // SAFETY: all threads of the row come here.
    let (mean, squares) = unsafe {
        moments_held::<T, V, R, ANY>(&mut group, (&fragment, &ends), (&mut raw, end), params)
    };
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
        *raw = pack::<T, V>(&out);
        if !ANY {
            // SAFETY: a vector of this row of y, or nothing.
            unsafe { held::store(to, &fragment, j, *raw) };
        }
    };
    if R <= VECTORS {
        held::each(&mut vectors, write);
        if let Some(end) = end {
            // SAFETY: this row of y, or nothing; the warp is converged.
            unsafe {
                tensors.write_end(&ends, to, end, (mean, rstd));
                held::store_all(ends.inner_mut(to), &fragment, &mut vectors.map(|of| of.0));
            }
        }
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
unsafe fn moments_held<T: Packed, const V: usize, const R: usize, const ANY: bool>(
    group: &mut Group,
    (fragment, ends): (&RowFragment, &Ends<ANY>),
    (raw, end): (&mut [Raw; R], Option<f32>),
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
        false => {
            let of_vectors = fragment.vectors_of_warp::<R>() * V as u32;
            Count::new((of_vectors + ends.elements_of_warp(group.own)) as f32)
        }
    };
    let mut mean = 0.0;
    if is_centered {
        // An end that there is not is 0.
        let mut sum = end.unwrap_or(0.0);
        // Vectors that the row does not have are 0.
        held::each(raw, |_, raw| sum += sum_of(&unpack::<T, V>(raw)));
        // SAFETY: passed on to the caller.
        mean = unsafe { group.in_warp(sum, &|a, b| a + b) } * count.share;
        // Unpacked elements would take registers from other warps.
        held::forget(raw);
    }
    let mut squares = square_of_end(end, ends, mean);
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
/// As for [`held`].
#[inline(always)]
pub(super) unsafe fn slices<T: Packed, W: Packed, const V: usize, const ANY: bool>(
    tensors: &Tensors<T>,
    params: &RowParams,
) {
    // SAFETY: the launch's promise; a row of each tensor; all threads come here.
    unsafe {
        let inputs = 1 + u32::from(!tensors.residual.is_null());
        let thread_group = ThreadGroup::<ANY>::fetch(params, inputs, [tensors.x, tensors.residual]);
        let (row, ends) = (thread_group.row, &thread_group.ends);
        let mut end = ends.load(row_of(tensors.x, row, params.strides[0]), 0.0);
        thread_group.land();
        tensors.add_slice::<V, ANY>(&thread_group, &mut end, params);
        let (mean, squares) = moments::<T, V, ANY>(&thread_group, end, params);
        let rstd = rstd_of(squares * params.scale, params);
        tensors.keep(&thread_group.group, row, params.rows, mean, rstd);
        let slice = thread_group.slice(0);
        let to = row_of_mut(tensors.y, row, params.strides[3]);
        if let Some(end) = end {
            tensors.write_end(ends, to, end, (mean, rstd));
        }
        thread_group.write(to, |v| {
            let at = thread_group.number(v) as usize * V;
            let [weight, bias] = match ANY {
                true => tensors.weights_of(at, true, ends, params),
                false => [&tensors.weight, &tensors.bias].map(|of| of.vector::<W, V>(at, true)),
            };
            let weight: [f32; V] = Weights::unpack::<W, V>(&weight);
            let bias: [f32; V] = Weights::unpack::<W, V>(&bias);
            let mut out = unpack::<T, V>(&slice.read(v));
            let mut i = 0;
            while i < V {
                out[i] = fma(mul_rn(out[i] - mean, rstd), weight[i], bias[i]);
                i += 1;
            }
            pack::<T, V>(&out)
        });
    }
}

/// A row's mean (0 in RMS norm) and the sum of squared deviations from it, with one exchange: each
/// warp computes those of its elements, and they are merged.
///
/// # Safety
/// The row has landed; all threads of the thread group call it, once.
#[inline(always)]
unsafe fn moments<T: Packed, const V: usize, const ANY: bool>(
    thread_group: &ThreadGroup<ANY>,
    end: Option<f32>,
    params: &RowParams,
) -> (f32, f32) {
    let (slice, ends) = (thread_group.slice(0), &thread_group.ends);
    let is_centered = params.flags & flags::CENTER != 0;
    let of_ends = ends.elements_of_warp(thread_group.group.own);
    let count = (thread_group.vectors_of_warp() * V as u32 + of_ends) as f32;
    let mut mean = 0.0;
    if is_centered {
        // An end that there is not is 0.
        let mut sum = end.unwrap_or(0.0);
        thread_group.each(|v| {
            // SAFETY: a vector of the slice.
            let x = unpack::<T, V>(&unsafe { slice.read(v) });
            sum += sum_of(&x);
        });
        // SAFETY: passed on to the caller.
        mean = unsafe { thread_group.group.in_warp(sum, &|a, b| a + b) } / count.max(1.0);
    }
    let mut squares = square_of_end(end, ends, mean);
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

/// The squared deviation from `mean` of this thread's element of the ends, if it has one.
#[inline(always)]
fn square_of_end<const ANY: bool>(end: Option<f32>, ends: &Ends<ANY>, mean: f32) -> f32 {
    end.map_or(0.0, |end| ends.or_zero((end - mean) * (end - mean)))
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
