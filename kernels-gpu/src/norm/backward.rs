//! Gradients of layer norm and RMS norm of rows in registers, and element by element.
//!
//! Blocks loop over the rows, so that a thread has the same columns in each of them and accumulates
//! their `dweight` and `dbias` in registers. Rows in registers are double-buffered: a thread loads
//! its next row before it reduces this one. The accumulators at the end are one row of partial sums
//! for each group of threads; [`super::finish`] adds these up. The order is always the same, as the
//! number of blocks does not depend on the device.

use super::columns::{ThreadGroup, store_quad};
use super::gradient::{Kept, Pair, gradient, means, taken};
use crate::row::group::Group;
use crate::row::held::{self, RowFragment, row_of, row_of_mut};
use crate::row::loose::{Loose, staging};
use crate::row::packed::{Packed, Raw, Weights, pack, unpack};
use abi::rows::{RowParams, flags};
use cuda_std::hint::opaque;
use cuda_std::math::{fma, mul_rn};
use cuda_std::shared::SharedAddr;
use cuda_std::{mem, thread};

/// The tensors of a launch; null if there is none.
pub(super) struct Tensors<T> {
    pub(super) x: *const T,
    pub(super) dy: *const T,
    pub(super) weight: Weights,
    /// Null in RMS norm.
    pub(super) mean: *const f32,
    pub(super) rstd: *const f32,
    /// Added to dx: the gradient of the sum with the residual.
    pub(super) dsum: *const T,
    pub(super) dx: *mut T,
    /// `[partial sums, n]`, f32.
    pub(super) dweight: *mut f32,
    pub(super) dbias: *mut f32,
}

/// A thread's vectors of a row, and what the forward pass kept of the row.
#[derive(Clone, Copy)]
struct Row<const R: usize> {
    x: [Raw; R],
    dy: [Raw; R],
    kept: Kept,
}

impl<T: Packed> Tensors<T> {
    /// Loads what the forward pass kept of a row; [`Kept::NONE`] if there is no such row.
    #[inline(always)]
    pub(super) unsafe fn kept(&self, row: u64, is_there: bool) -> Kept {
        let mut kept = Kept::NONE;
        if is_there {
            // SAFETY: the row's elements.
            unsafe {
                kept.rstd = self.rstd.wrapping_add(row as usize).read();
                if !self.mean.is_null() {
                    kept.mean = self.mean.wrapping_add(row as usize).read();
                }
            }
        }
        kept
    }

    /// Loads the weights of vector `j` of a thread's columns.
    #[inline(always)]
    unsafe fn weight_of<W: Packed, const V: usize>(
        &self,
        columns: &RowFragment,
        j: usize,
    ) -> [Raw; 2] {
        // SAFETY: the columns' weights, or nothing.
        unsafe {
            self.weight
                .vector::<W, V>(columns.element::<T>(j), columns.has(j))
        }
    }

    /// Loads a row; zeros if there is none.
    #[inline(always)]
    unsafe fn load<const R: usize>(&self, group: &Group, row: u64, params: &RowParams) -> Row<R> {
        let fragment = RowFragment::new::<T>(group, params.n, row < params.rows);
        // SAFETY: a row of each, or nothing.
        unsafe {
            let x = held::load(row_of(self.x, row, params.strides[0]), &fragment, params);
            let dy = held::load(row_of(self.dy, row, params.strides[1]), &fragment, params);
            let kept = self.kept(row, row < params.rows);
            Row { x, dy, kept }
        }
    }
}

/// Computes all rows of this block. A row, and the weights of its columns, are in the registers of
/// a warp or a part of one.
///
/// # Safety
/// `tensors` are aligned ones of `params`, launched as `abi::rows` says; `scratch` is shared memory
/// with room for the sums of all threads.
#[inline(always)]
pub(super) unsafe fn held<T: Packed, W: Packed, const V: usize, const R: usize>(
    tensors: &Tensors<T>,
    params: &RowParams,
    scratch: SharedAddr,
) {
    // SAFETY: the launch's promise; the group does not exchange, so it has no scratch.
    let group = unsafe { Group::of_block(params, core::ptr::null_mut()) };
    let columns = RowFragment::new::<T>(&group, params.n, true);
    let (first, step) = group.rows();
    let mut weight = [[[0; 4]; 2]; R];
    let mut dweight = [[0.0; V]; R];
    let mut dbias = [[0.0; V]; R];
    // SAFETY: as above; the columns' weights.
    let mut next: Row<R> = unsafe {
        let next = tensors.load(&group, first + u64::from(group.index), params);
        let mut j = 0;
        while j < R {
            weight[j] = tensors.weight_of::<W, V>(&columns, j);
            j += 1;
        }
        next
    };
    let mut base = first;
    // Every block has rows.
    loop {
        let row = base + u64::from(group.index);
        let mut this = next;
        base += step;
        // SAFETY: a row of each, or nothing.
        next = unsafe { tensors.load(&group, base + u64::from(group.index), params) };
        let mut sums = Pair::ZERO;
        let mut j = 0;
        while j < R {
            let (x, dy) = (unpack::<T, V>(&this.x[j]), unpack::<T, V>(&this.dy[j]));
            let weight: [f32; V] = Weights::unpack::<W, V>(&weight[j]);
            let columns = [&mut dweight[j], &mut dbias[j]];
            sums = taken::<V, true>(sums, [&x, &dy, &weight], this.kept, columns);
            j += 1;
        }
        // SAFETY: all threads of the row come here; rows of dsum and dx.
        unsafe {
            let sums = group.in_warp(sums, &Pair::add);
            // Recomputed for each row, as there is no register for it.
            let share = 1.0 / opaque(params.n as u32) as f32;
            let means = means(sums, share, params);
            held::forget(&mut this.x);
            held::forget(&mut this.dy);
            let mut j = 0;
            while j < R {
                held::forget(&mut weight[j]);
                j += 1;
            }
            write::<T, W, V, R>(tensors, &group, row, &this, &weight, means, params);
        }
        if base >= params.rows {
            break;
        }
    }
    // SAFETY: the block's row of partial sums; the caller's shared memory.
    unsafe {
        ThreadGroup::new(params.threads).keep(
            scratch,
            [&dweight, &dbias],
            [tensors.dweight, tensors.dbias],
            u64::from(thread::block_idx_x()) * params.n,
            |row, j, lane, sums| {
                store_quad(row, (columns.element::<T>(j), columns.has(j)), lane, sums);
            },
        );
    }
}

/// Stores a row of dx.
///
/// # Safety
/// The row exists, or nothing is written.
#[inline(always)]
unsafe fn write<T: Packed, W: Packed, const V: usize, const R: usize>(
    tensors: &Tensors<T>,
    group: &Group,
    row: u64,
    this: &Row<R>,
    weight: &[[Raw; 2]; R],
    means: Pair,
    params: &RowParams,
) {
    let fragment = RowFragment::new::<T>(group, params.n, row < params.rows);
    let to = row_of_mut(tensors.dx, row, params.strides[3]);
    let from = row_of(tensors.dsum, row, params.strides[2]);
    let mut vectors = [([0; 4], [0; 4], [[0; 4]; 2]); R];
    let mut j = 0;
    while j < R {
        vectors[j] = (this.x[j], this.dy[j], weight[j]);
        j += 1;
    }
    held::each(&mut vectors, |j, (x, dy, weight)| {
        let (x, dy) = (unpack::<T, V>(x), unpack::<T, V>(dy));
        let is_there = fragment.has(j) && !tensors.dsum.is_null();
        let at = from.wrapping_add(fragment.element::<T>(j)).cast();
        // SAFETY: a vector of dsum, or nothing.
        let dsum = unsafe { mem::ld_global_v4_u32_if(at, is_there) };
        let mut out = unpack::<T, V>(&dsum);
        let weight: [f32; V] = Weights::unpack::<W, V>(weight);
        let mut i = 0;
        while i < V {
            let z = this.kept.normalised(x[i]);
            let w = mul_rn(dy[i], weight[i]);
            out[i] += gradient(w, z, means, this.kept.rstd);
            i += 1;
        }
        // SAFETY: a vector of this row of dx, or nothing.
        unsafe { held::store(to, &fragment, j, pack::<T, V>(&out)) };
    });
}

/// Computes dx of all rows of this block, element by element, without the weights' gradients.
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
        let is_there = row < params.rows;
        let x = row_of(tensors.x, row, params.strides[0]);
        let dy = row_of(tensors.dy, row, params.strides[1]);
        let mut x = Loose::new(&group, x, params.n, is_there);
        let mut dy = Loose::new(&group, dy, params.n, is_there);
        // SAFETY: rows, and shared memory of the launch, which has room if they are staged.
        unsafe {
            let kept = tensors.kept(row, row < params.rows);
            if params.flags & flags::STAGED != 0 {
                x = x.staged(staging(&group, params.n, 0));
                dy = dy.staged(staging(&group, params.n, 1));
            }
            let mut sums = Pair::ZERO;
            x.for_each(|i| {
                let z = kept.normalised(x.get(i));
                let w = mul_rn(dy.get(i), tensors.weight.one::<T>(i as usize));
                sums = sums.and(w, z);
            });
            let sums = group.reduce::<_, false>(sums, Pair::add);
            // Divided here: kept in a register from the start, it would spill on sm_100.
            let means = means(sums, 1.0 / params.n as f32, params);
            let to = row_of_mut(tensors.dx, row, params.strides[3]);
            let dsum = row_of(tensors.dsum, row, params.strides[2]);
            x.for_each(|i| {
                let z = kept.normalised(x.get(i));
                let w = mul_rn(dy.get(i), tensors.weight.one::<T>(i as usize));
                let mut value = gradient(w, z, means, kept.rstd);
                if !tensors.dsum.is_null() {
                    value += T::load(dsum.wrapping_add(i as usize));
                }
                T::store(to.wrapping_add(i as usize), value);
            });
        }
        base += step;
    }
}

/// Partial sums of the weights' gradients, for rows that are not held in registers: one thread a
/// column, one block a part of the rows. Grid: x = columns, y = parts of the rows.
///
/// # Safety
/// `tensors` are those of `params`, launched as `abi::rows` says.
#[inline(always)]
pub(super) unsafe fn columns<T: Packed>(tensors: &Tensors<T>, params: &RowParams) {
    let column = u64::from(thread::index_1d());
    let part = u64::from(thread::block_idx_y());
    let parts = u64::from(thread::grid_dim_y());
    let (mut dweight, mut dbias) = (0.0, 0.0);
    if column >= params.n {
        return;
    }
    let mut row = part;
    while row < params.rows {
        // SAFETY: an element of each.
        unsafe {
            let kept = tensors.kept(row, row < params.rows);
            let x = row_of(tensors.x, row, params.strides[0]).wrapping_add(column as usize);
            let dy = row_of(tensors.dy, row, params.strides[1]).wrapping_add(column as usize);
            let dy = T::load(dy);
            dweight = fma(dy, kept.normalised(T::load(x)), dweight);
            dbias += dy;
        }
        row += parts * u64::from(opaque(1));
    }
    let at = (part * params.n + column) as usize;
    // SAFETY: an element of the partial sums.
    unsafe {
        if !tensors.dweight.is_null() {
            tensors.dweight.wrapping_add(at).write(dweight);
        }
        if !tensors.dbias.is_null() {
            tensors.dbias.wrapping_add(at).write(dbias);
        }
    }
}
