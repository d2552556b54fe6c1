//! Columns of whole vectors side by side: a block has a tile of columns, or a part of each, and
//! each thread has eight rows in flight.
//!
//! As in [`super::long`], each block has one item, and computing where it is takes a dozen
//! instructions. The threads' results are merged as in [`super::body`].

use abi::reduce::{BATCH, ReduceParams};
use cuda_std::hint::opaque;
use cuda_std::thread;

use super::body::{Arrays, Block, role};
use super::fold::{Fold, by_operation};
use super::fragment::{Fragment, Item, Items, share};
use super::load::{Load, Raw, together, together_once};
use super::own::Own;

const BATCH_LEN: usize = BATCH as usize;
/// Rows in flight at a time, of the remainder that fills no batch.
const FEW: usize = BATCH_LEN / 2;

/// The kernel's work, over columns.
///
/// # Safety
/// The arrays are those of `params`, of a plan for columns; `scratch` is shared memory as of
/// [`super::body::reduce`]; the whole block is here.
#[inline(always)]
pub(super) unsafe fn columns<F: Fold, T: Load<V, Number = F::Number>, const V: usize>(
    arrays: &Arrays<F>,
    params: &ReduceParams,
    scratch: *mut u32,
) {
    let items = Items::of(params, V as u64);
    let (block, thread) = (thread::block_idx_x(), thread::thread_idx_x());
    let role = role(thread, params);
    let item = Item::number(block.into(), &items);
    let fragment = of_thread::<T, V>(arrays.x, &item, role.x, role.y, params);
    // SAFETY: rows of the launch; outputs, and slots, that one thread writes; the whole block is
    // here.
    unsafe {
        let locals = take_in::<F, T, V>(&fragment, params);
        // Recomputed, so that they take no registers in the loop.
        let number = u64::from(opaque(block));
        let (role, item) = (
            super::body::role(opaque(thread), params),
            Item::number(number, &items),
        );
        if params.along_log2 == 0 {
            let own = Own::columns::<F>(locals, &item, &fragment, &role, params);
            own.write::<F>(arrays, params);
        } else {
            let block = Block::new::<V>(arrays, params, &items, scratch, role.groups);
            block.settle(number, locals, F::empty(params), &fragment, &role);
        }
    }
}

/// The rows of the thread at `x` along `inner` and `y` along the axis: a vector of each.
#[inline(always)]
fn of_thread<T: Load<V>, const V: usize>(
    from: *const u8,
    item: &Item,
    x: u32,
    y: u32,
    params: &ReduceParams,
) -> Fragment {
    let view = &params.view;
    let size = T::bytes(params.mask);
    let inner = ((item.column << params.across_log2) + u64::from(x)) * V as u64;
    let first = item.part * params.chunk_len;
    let len = params.chunk_len.min(view.n - first);
    let before = first + u64::from(y);
    let element = (item.outer as i64)
        .wrapping_mul(view.outer_stride)
        .wrapping_add((before as i64).wrapping_mul(view.axis_stride))
        .wrapping_add(inner as i64);
    Fragment {
        at: from.wrapping_offset(element.wrapping_mul(size) as isize),
        count: if inner < view.inner {
            share(len, y, params.along_log2)
        } else {
            0
        },
        step: view.axis_stride.wrapping_mul(size) << params.along_log2,
        first: before,
        ..Fragment::nothing(from)
    }
}

/// The locals after all rows of a place.
///
/// # Safety
/// The rows are readable.
#[inline(always)]
unsafe fn take_in<F: Fold, T: Load<V, Number = F::Number>, const V: usize>(
    fragment: &Fragment,
    params: &ReduceParams,
) -> [F::Local; V] {
    let mut at = fragment.at;
    let mut load = || {
        // SAFETY: these are vectors of the place.
        let x = unsafe {
            match params.along_log2 {
                // Results are stored while others load, so L1 is not bypassed.
                0 => together::<T, V, BATCH_LEN>(at, fragment.step, params.mask),
                _ => together_once::<BATCH_LEN>(at, fragment.step),
            }
        };
        at = at.wrapping_offset(fragment.step.wrapping_mul(i64::from(BATCH)) as isize);
        x
    };
    let mut locals = by_operation!(F, |params| {
        let mut locals = [F::start(params); V];
        let mut k = 0;
        while k < fragment.count / BATCH * BATCH {
            let x = load();
            locals = F::batch::<V, BATCH_LEN>(locals, |u, v| T::number(x[u], v), k, params);
            k += BATCH;
        }
        locals
    });
    let mut k = fragment.count / BATCH * BATCH;
    while k < fragment.count {
        let mut raws: [Raw; FEW] = [[0; 4]; FEW];
        for (u, raw) in raws.iter_mut().enumerate() {
            if k + (u as u32) < fragment.count {
                // SAFETY: a vector of the place.
                *raw = unsafe { T::vector(at, params.mask) };
            }
            at = at.wrapping_offset(fragment.step as isize);
        }
        let mut left = opaque((fragment.count - k).min(FEW as u32)); // not unrolled
        while left > 0 {
            locals = F::batch::<V, 1>(locals, |_, v| T::number(raws[0], v), k, params);
            raws = core::array::from_fn(|u| raws[(u + 1) % FEW]);
            k += 1;
            left -= 1;
        }
    }
    locals
}
