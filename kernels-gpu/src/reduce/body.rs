//! The general kernel, for any operation and dtype.
//!
//! A block loops over items, `groups` at a time. The threads of an item accumulate its elements and
//! merge their results. Then the result is written or, if the axis is split into parts, left as a
//! partial result for the block that finishes the last part.

use abi::reduce::{BATCH, ReduceParams, THREADS};
use cuda_std::hint::opaque;
use cuda_std::thread;
use cuda_std::warp;

use super::fold::Fold;
use super::fragment::{Fragment, Item, Items, Role, Singles, divide};
use super::load::{Load, together};
use super::own::Own;
use super::settle::{Layout, Partials, Scratch, is_last};

const BATCH_LEN: usize = BATCH as usize;

/// A launch's arguments besides [`ReduceParams`].
pub(super) struct Arrays<F: Fold> {
    pub(super) x: *const u8,
    pub(super) partials: *mut u32,
    pub(super) tickets: *mut u32,
    pub(super) out: *mut F::Out,
}

/// The locals of a thread after all vectors of its place.
///
/// # Safety
/// The place's elements are readable.
#[inline(always)]
unsafe fn take_in<F: Fold, T: Load<V, Number = F::Number>, const V: usize>(
    fragment: &Fragment,
    params: &ReduceParams,
) -> [F::Local; V] {
    let code = params.mask;
    let is_pair = F::IS_PAIR && params.is_pair != 0;
    let mut locals = [F::start(params); V];
    let (mut at, mut k) = (fragment.at, 0);
    let next = |at: *const u8| at.wrapping_offset(fragment.step as isize);
    if F::IS_BATCHED && fragment.is_vector && !is_pair {
        // Rows of 16-bit elements: one tree and one pair of numbers for all lanes, as instructions
        // are the limit here.
        while F::IS_JOINED && V == 8 && params.is_across == 0 && k + BATCH <= fragment.count {
            // SAFETY: these are vectors of the place.
            let x = unsafe { together::<T, V, BATCH_LEN>(at, fragment.step, code) };
            let xs = |u: usize, _| T::number(x[u / V], u % V);
            let [first] = F::batch::<1, { 8 * BATCH_LEN }>([locals[0]], xs, k, params);
            locals[0] = first;
            at = at.wrapping_offset(fragment.step.wrapping_mul(i64::from(BATCH)) as isize);
            k += BATCH;
        }
        // A batch of 64-bit elements would take too many registers: they come by half batches
        // below.
        while V > 2 && k + BATCH <= fragment.count {
            // SAFETY: these are vectors of the place.
            let x = unsafe { together::<T, V, BATCH_LEN>(at, fragment.step, code) };
            let xs = |u: usize, v: usize| T::number(x[u], v);
            locals = F::batch::<V, BATCH_LEN>(locals, xs, k, params);
            at = at.wrapping_offset(fragment.step.wrapping_mul(i64::from(BATCH)) as isize);
            k += BATCH;
        }
        // The remainder of short axes is loaded in half batches too, if that is worth the code.
        while (V == 2 || (V == 4 && F::IS_SHORT)) && k + BATCH / 2 <= fragment.count {
            // SAFETY: as above.
            let x = unsafe { together::<T, V, { BATCH_LEN / 2 }>(at, fragment.step, code) };
            let xs = |u: usize, v: usize| T::number(x[u], v);
            locals = F::batch::<V, { BATCH_LEN / 2 }>(locals, xs, k, params);
            at = at.wrapping_offset(fragment.step.wrapping_mul(i64::from(BATCH / 2)) as isize);
            k += BATCH / 2;
        }
    }
    while k < fragment.count {
        let load = |at| {
            // SAFETY: a vector of the place.
            let raw = unsafe {
                if fragment.is_vector {
                    T::vector(at, code)
                } else {
                    T::gather(at, fragment.lane_step, fragment.valid, code)
                }
            };
            core::array::from_fn(|v| T::number(raw, v))
        };
        let mut x: [F::Number; V] = load(at);
        if is_pair {
            let y = load(at.wrapping_offset(params.to_y as isize));
            x = core::array::from_fn(|v| F::pair(x[v], y[v]));
        }
        locals = F::batch::<V, 1>(locals, |_, v| x[v], k, params);
        at = next(at);
        k += 1;
    }
    locals
}

/// Accumulates a thread's elements that are not in whole vectors.
///
/// # Safety
/// They are readable.
#[inline(always)]
unsafe fn singles<F: Fold, T: Load<V, Number = F::Number>, const V: usize>(
    singles: &Singles,
    y: u32,
    params: &ReduceParams,
) -> F::Acc {
    let is_pair = F::IS_PAIR && params.is_pair != 0;
    let mut acc = F::empty(params);
    let mut i = u64::from(y);
    while i < singles.count {
        let element = if i < singles.head {
            i
        } else {
            i + singles.body
        };
        let at = singles
            .at
            .wrapping_offset((element as i64).wrapping_mul(singles.step) as isize);
        // SAFETY: passed on to the caller.
        let x = unsafe {
            let x = T::one(at, params.mask);
            if is_pair {
                let y = at.wrapping_offset(params.to_y as isize);
                F::pair(x, T::one(y, params.mask))
            } else {
                x
            }
        };
        let single = F::single(x, singles.first + element, params);
        acc = F::merge(acc, single, params);
        i += 1 << params.along_log2;
    }
    acc
}

/// The result of a row over the item's threads in one warp, from their vectors' locals and `rest`,
/// if lanes lie along the axis. The first of these threads has it.
///
/// # Safety
/// All lanes of the warp are here.
#[inline(always)]
unsafe fn of_row<F: Fold, const V: usize>(
    locals: [F::Local; V],
    rest: F::Acc,
    fragment: &Fragment,
    params: &ReduceParams,
) -> F::Acc {
    let indices = fragment.indices(params, V);
    let mut accs: [F::Acc; V] =
        core::array::from_fn(|v| F::close(locals[v], fragment.count, &indices, v));
    let mut half = V / 2;
    while half > 0 {
        for v in 0..half {
            accs[v] = F::merge(accs[v], accs[v + half], params);
        }
        half /= 2;
    }
    let mut acc = F::merge(accs[0], rest, params);
    let mut apart = (1 << params.along_log2.min(5)) / 2;
    while apart > 0 {
        // SAFETY: passed on to the caller.
        let other = unsafe { warp::shfl_bfly(warp::FULL_MASK, acc, apart) };
        acc = F::merge(acc, other, params);
        apart /= 2;
    }
    acc
}

/// A thread's place in its block's items.
#[inline(always)]
pub(super) fn role(thread: u32, params: &ReduceParams) -> Role {
    let of_item = params.along_log2 + params.across_log2;
    let slot = thread & ((1 << of_item) - 1);
    Role {
        group: thread >> of_item,
        y: slot >> params.across_log2,
        x: slot & ((1 << params.across_log2) - 1),
        groups: THREADS >> of_item,
    }
}

/// The kernel's work.
///
/// # Safety
/// The arrays are those of `params`; `scratch` is shared memory for `THREADS · V` accumulators and
/// a word.
#[inline(always)]
pub(super) unsafe fn reduce<F: Fold, T: Load<V, Number = F::Number>, const V: usize>(
    arrays: &Arrays<F>,
    params: &ReduceParams,
    scratch: *mut u32,
) {
    let role = role(thread::thread_idx_x(), params);
    let items = Items::of(params, V as u64);
    let block = Block::new::<V>(arrays, params, &items, scratch, role.groups);
    // A thread has whole columns, or a warp whole rows, which are then not split either.
    let is_own = params.along_log2 <= if params.is_across != 0 { 0 } else { 5 };
    let mut base = u64::from(thread::block_idx_x()) * u64::from(role.groups);
    while base < items.count {
        let number = base + u64::from(role.group);
        let item = Item::number(number.min(items.count - 1), &items);
        let fragment = if number < items.count {
            Fragment::of::<T, V>(arrays.x, &item, &role, params)
        } else {
            Fragment::nothing(arrays.x)
        };
        // SAFETY: elements of the launch; outputs that one thread writes; the whole block is here.
        unsafe {
            let rest = singles::<F, T, V>(&fragment.singles, role.y, params);
            let locals = take_in::<F, T, V>(&fragment, params);
            let row = match params.is_across {
                0 => of_row::<F, V>(locals, rest, &fragment, params),
                _ => rest,
            };
            if !is_own {
                block.settle(base, locals, row, &fragment, &role);
            } else if number < items.count {
                let own = match params.is_across {
                    0 => Own::row(row, number, role.y == 0),
                    _ => Own::columns::<F>(locals, &item, &fragment, &role, params),
                };
                own.write::<F>(arrays, params);
            }
        }
        base += u64::from(thread::grid_dim_x()) * u64::from(role.groups);
    }
}

/// A block that merges its threads' results.
pub(super) struct Block<'a, F: Fold> {
    arrays: &'a Arrays<F>,
    params: &'a ReduceParams,
    items: &'a Items,
    scratch: Scratch,
    groups: u32,
}

impl<'a, F: Fold> Block<'a, F> {
    /// `scratch` is shared memory for `THREADS · V` accumulators and a word.
    #[inline(always)]
    pub(super) fn new<const V: usize>(
        arrays: &'a Arrays<F>,
        params: &'a ReduceParams,
        items: &'a Items,
        scratch: *mut u32,
        groups: u32,
    ) -> Self {
        Self {
            arrays,
            params,
            items,
            scratch: Scratch::new(scratch, THREADS as usize * V),
            groups,
        }
    }

    /// Merges the threads' results of the items from number `base` on, and writes outputs or
    /// partial results. Ends with a barrier.
    ///
    /// # Safety
    /// All threads of the block are here, and nobody uses the slots.
    #[inline(always)]
    pub(super) unsafe fn settle<const V: usize>(
        &self,
        base: u64,
        locals: [F::Local; V],
        row: F::Acc,
        fragment: &Fragment,
        role: &Role,
    ) {
        // SAFETY: passed on to the caller.
        unsafe {
            let (mut entries, layout) = self.share(locals, row, fragment, role);
            let (mut first, mut is_whole) = (base, self.items.parts == 1);
            loop {
                self.scratch.settle::<F>(entries, &layout, self.params);
                if is_whole {
                    self.finish::<V>(first, &layout);
                    break;
                }
                // If there are parts, there are few items. Recomputed here so that it takes no
                // registers before.
                let item = Item::number(u64::from(opaque(base as u32)), self.items);
                if !self.leave(&item, &layout) {
                    break;
                }
                // The slots now hold all parts of one output, or of a tile of outputs.
                (first, is_whole) = (item.group(self.items), true);
                entries = THREADS / layout.columns();
            }
        }
        thread::sync_threads();
    }

    /// Writes the threads' results to slots; with lanes along the axis, those of the warps. Returns
    /// the number of entries of each column, and the layout.
    ///
    /// # Safety
    /// All threads of the block are here, and nobody uses the slots.
    #[inline(always)]
    unsafe fn share<const V: usize>(
        &self,
        locals: [F::Local; V],
        row: F::Acc,
        fragment: &Fragment,
        role: &Role,
    ) -> (u32, Layout) {
        let params = self.params;
        // SAFETY: passed on to the caller; each slot has one writer.
        unsafe {
            if params.is_across == 0 {
                let layout = Layout {
                    side_log2: self.groups.trailing_zeros(),
                    lanes_log2: 0,
                };
                if role.y.is_multiple_of(thread::WARP_THREADS) {
                    let warp = role.y / thread::WARP_THREADS;
                    self.scratch.write(layout.slot(warp, role.group), row);
                }
                // Opaque: not kept in a register from the beginning on.
                let warps = (1_u32 << opaque(params.along_log2)).div_ceil(thread::WARP_THREADS);
                (warps, layout)
            } else {
                let layout = Layout {
                    side_log2: self.groups.trailing_zeros() + params.across_log2,
                    lanes_log2: V.trailing_zeros(),
                };
                let indices = fragment.indices(params, V);
                let number = (role.group << params.across_log2) + role.x;
                for (v, &local) in locals.iter().enumerate() {
                    let acc = F::close(local, fragment.count, &indices, v);
                    let column = ((v as u32) << layout.side_log2) | number;
                    self.scratch.write(layout.slot(role.y, column), acc);
                }
                (1 << opaque(params.along_log2), layout)
            }
        }
    }

    /// Writes the results in the slots, those of the outputs, or tiles of outputs, from number
    /// `first` on.
    ///
    /// # Safety
    /// The slots are settled.
    #[inline(always)]
    unsafe fn finish<const V: usize>(&self, first: u64, layout: &Layout) {
        let view = &self.params.view;
        let mut job = thread::thread_idx_x();
        while job < layout.columns() {
            // Neighbouring threads write neighbouring outputs: all lanes of a place, then the next
            // place.
            let slot = job >> layout.lanes_log2;
            let lane = job & ((1 << layout.lanes_log2) - 1);
            let column = (lane << layout.side_log2) | slot;
            let (at, is_there) = if self.params.is_across == 0 {
                let output = first + u64::from(slot);
                (output, output < view.outer * view.inner)
            } else {
                let across_log2 = self.params.across_log2;
                let tile = first + u64::from(slot >> across_log2);
                let (outer, tile) = match view.outer {
                    1 => (u64::from(tile >= self.items.columns), tile),
                    _ => divide(tile, self.items.columns),
                };
                let x = slot & ((1 << across_log2) - 1);
                let vector = (tile << across_log2) + u64::from(x);
                let inner = (vector << layout.lanes_log2) + u64::from(lane);
                let is_there = outer < view.outer && inner < view.inner;
                (outer * view.inner + inner, is_there)
            };
            if is_there {
                // SAFETY: a settled slot; an output of the launch, which one thread writes.
                unsafe {
                    let slot = layout.slot(0, column);
                    let acc = self.scratch.read(slot, F::empty(self.params));
                    F::finish::<V>(acc, self.params, self.arrays.out, at);
                }
            }
            job += THREADS;
        }
    }

    /// Leaves the results of the block's one item as partial results. If it was the last part of
    /// its output, merges all parts into the slots, an entry for each thread, and returns true.
    ///
    /// # Safety
    /// The slots are settled; there is one item at a time.
    #[inline(always)]
    unsafe fn leave(&self, item: &Item, layout: &Layout) -> bool {
        let (thread, columns) = (thread::thread_idx_x(), layout.columns());
        let (group, parts) = (item.group(self.items), self.items.parts);
        let partials = Partials::<F>::of(self.arrays.partials, group, parts, columns);
        // SAFETY: partial results of the launch, each written by one thread. The barrier and the
        // ticket, which acquires and releases, order these writes before the reads by the last
        // block.
        unsafe {
            if thread < columns {
                let slot = layout.slot(0, thread);
                let acc = self.scratch.read(slot, F::empty(self.params));
                partials.write(item.part, thread, acc);
            }
            let ticket = self.arrays.tickets.wrapping_add(group as usize);
            if !is_last(ticket, parts, self.scratch.flag(F::WORDS)) {
                return false;
            }
            let (entry, column) = (thread / columns, thread % columns);
            let entries = u64::from(THREADS / columns);
            let acc = partials.merged(u64::from(entry), entries, column, self.params);
            self.scratch.write(layout.slot(entry, column), acc);
            true
        }
    }
}
