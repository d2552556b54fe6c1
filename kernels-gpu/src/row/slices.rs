//! Rows in shared memory: each block of a cluster has a slice of a row, which one bulk copy loads.
//!
//! A *thread group* is the threads that share a row: a few lanes of a warp, a warp, a block, or all
//! blocks of a cluster. A thread group has one row, and issues its load before anything else.
//! Threads need few registers, and a row needs nothing but shared memory, so several thread groups
//! run on an SM and hide each other's waits.
//!
//! **Pipelines**, each of one phase, 1 arrival:
//!
//! | barrier | producer | consumer | bytes |
//! |---|---|---|---|
//! | `landed`, one for each thread group of the block, or for each part of a slice | bulk copies issued by the thread group's first thread | the thread group's threads of the block | the row's slices of all inputs, or the part |
//! | `exchanged`, in clusters | every warp of the cluster, or one of each block | the block | 16 a message |
//!
//! **Shared memory**: barriers ([`BARRIER_BYTES`]); 16 bytes for the sums of every warp of the row;
//! the slices, by thread group and input. Each slice begins at a multiple of 128 bytes: bulk copies
//! to odd multiples of 16 bytes take longer. A slice of a row that begins anywhere lies after such
//! a multiple as its whole vectors do in global memory, so that cache lines stay whole.

mod exchange;
mod parts;

use exchange::warps;
use parts::Vectors;

use super::ends::Ends;
use super::group::{Group, butterfly};
use super::held::row_of;
use super::packed::{Packed, Raw};
use super::policy::{of_rows, of_weights};
use crate::realign::{Place, is_whole, store_apart};
use abi::rows::{BARRIER_BYTES, LINE_BYTES, RowParams, VECTOR_BYTES, slices_offset};
use cuda_std::cluster;
use cuda_std::fence::fence_mbarrier_init_release_cluster;
use cuda_std::hint::opaque;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::mem;
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread;
use cuda_std::tma::cp_async_bulk_shared_cluster_global_l2_cache_hint;
use cuda_std::warp::Words;

/// Lanes of a warp.
const LANES: u32 = thread::WARP_THREADS;

/// A thread's thread group, and its block's slices of the thread group's row. Rows begin at `ANY`
/// address, or at multiples of a vector. In the former case a thread group has whole warps.
pub(crate) struct ThreadGroup<const ANY: bool = false> {
    /// The thread group's threads in this block.
    pub(crate) group: Group,
    /// The thread group's row.
    pub(crate) row: u64,
    /// Input tensors, each with a slice of its own.
    inputs: u32,
    /// The ends of the row, which the first block has.
    pub(crate) ends: Ends<ANY>,
    /// Index in the row of the slice's first vector.
    first: u32,
    /// Vectors of the slice; 0 if the row ends before it, or there is no row.
    vectors: u32,
    /// Bytes from one slice to the next.
    step: u32,
    /// Messages that a block expects from the blocks of its cluster, itself included.
    expected: u32,
    base: SharedAddr,
    slices: SharedAddr,
    /// Bytes of each input's slice from a cache line to its first vector.
    ahead: [u32; 2],
}

/// A slice in shared memory.
#[derive(Clone, Copy)]
pub(crate) struct Slice(SharedAddr);

impl Slice {
    /// Reads a vector of the slice.
    ///
    /// # Safety
    /// The slice has landed, and has that vector.
    #[inline(always)]
    pub(crate) unsafe fn read(self, vector: u32) -> Raw {
        // SAFETY: passed on to the caller.
        unsafe { mem::ld_shared_v4_u32(self.0.add_bytes(vector * VECTOR_BYTES)) }
    }

    /// Overwrites a vector of the slice.
    ///
    /// # Safety
    /// As for [`Slice::read`], and nobody else uses the vector.
    #[inline(always)]
    pub(crate) unsafe fn write(self, vector: u32, raw: Raw) {
        // SAFETY: passed on to the caller.
        unsafe { mem::st_shared_v4_u32(self.0.add_bytes(vector * VECTOR_BYTES), raw) };
    }
}

impl<const ANY: bool> ThreadGroup<ANY> {
    /// This thread's thread group, whose row comes in `inputs` slices. `row_of` returns the address
    /// of an input's row, given the thread group's index.
    ///
    /// # Safety
    /// All threads call it; launched as `abi::rows` says.
    #[inline(always)]
    unsafe fn new<T: Packed>(
        params: &RowParams,
        inputs: u32,
        mut group: Group,
        row_of: impl Fn(u64, u32) -> *const T,
    ) -> Self {
        group.blocks = cluster::cluster_nctarank();
        group.rank = cluster::cluster_ctarank();
        let first = group.rank * params.vectors;
        // SAFETY: the launch's shared memory.
        let base = unsafe { SharedAddr::of(dynamic_base().cast_const()) };
        let slots = warps(&group) * group.blocks;
        let row = group.row();
        let is_there = row < params.rows;
        let has_ends = is_there && group.rank == 0;
        let own = if has_ends { Some(group.own) } else { None };
        let ends = Ends::<ANY>::new(row_of(row, 0), params.n, own);
        let ahead = |input: u32| {
            let inner = ends.inner(row_of(row, input));
            let from = inner.addr() as u32 + first * VECTOR_BYTES;
            if ANY && input < inputs {
                from % LINE_BYTES
            } else {
                0
            }
        };
        let step = params.vectors * VECTOR_BYTES;
        Self {
            row,
            inputs,
            first,
            vectors: match is_there {
                true => ends.vectors.saturating_sub(first).min(params.vectors),
                false => 0,
            },
            step: if ANY { step + LINE_BYTES } else { step },
            ahead: [ahead(0), ahead(1)],
            ends,
            expected: slots,
            base,
            slices: base.add_bytes(slices_offset(slots)),
            group,
        }
    }

    #[inline(always)]
    fn landed(&self) -> Mbarrier {
        Mbarrier::at(self.base.add_bytes(8 * self.group.index))
    }

    #[inline(always)]
    fn exchanged(&self) -> Mbarrier {
        Mbarrier::at(self.base.add_bytes(BARRIER_BYTES - 8))
    }

    /// The slice of an input.
    #[inline(always)]
    pub(crate) fn slice(&self, input: u32) -> Slice {
        let number = self.group.index * self.inputs + input;
        let ahead = if input == 0 {
            self.ahead[0]
        } else {
            self.ahead[1]
        };
        Slice(self.slices.add_bytes(number * self.step + ahead))
    }

    /// This thread's thread group. The loads of its row, if there is one, have been issued, from
    /// the first `inputs` of these tensors, which have the first strides of the parameters. The rows
    /// of all of them lie alike to vectors.
    ///
    /// # Safety
    /// All threads call it, once; launched as `abi::rows` says; the rows are readable, and aligned
    /// to vectors unless they begin at `ANY` address.
    #[inline(always)]
    pub(crate) unsafe fn fetch<T: Packed>(
        params: &RowParams,
        inputs: u32,
        tensors: [*const T; 2],
    ) -> Self {
        // SAFETY: passed on to the caller.
        unsafe {
            // This group does not exchange, so it has no scratch memory.
            let group = Group::of_vectors(params, core::ptr::null_mut());
            let row_of = |row: u64, input: u32| match input {
                0 => row_of(tensors[0], row, params.strides[0]),
                _ => row_of(tensors[1], row, params.strides[1]),
            };
            let thread_group = Self::new::<T>(params, inputs, group, row_of);
            thread_group.ask(params, inputs, |input| row_of(thread_group.row, input));
            thread_group
        }
    }

    /// This thread's thread group, in a block that shares no row with other thread groups. Slices
    /// have room for
    /// `each` vectors a thread; vectors that the row does not have are zeros. `row_of` returns the
    /// address of an input's row, given the thread group's index; inputs from `rows` on are the
    /// same for all thread groups. In clusters one message a block is exchanged if `is_by_block`,
    /// else one a warp.
    ///
    /// # Safety
    /// As for [`ThreadGroup::fetch`]; there is such a row.
    #[inline(always)]
    pub(crate) unsafe fn fetch_padded<T: Packed>(
        params: &RowParams,
        inputs: u32,
        rows: u32,
        each: usize,
        is_by_block: bool,
        row_of: impl Fn(u64, u32) -> *const T,
    ) -> Self {
        // SAFETY: passed on to the caller; places that only this thread writes, and no bulk copy.
        unsafe {
            let group = Group::of_whole_block(params);
            let mut thread_group = Self::new::<T>(params, inputs, group, &row_of);
            thread_group.step = thread_group.group.threads * each as u32 * VECTOR_BYTES;
            if is_by_block {
                thread_group.expected = thread_group.group.blocks;
            }
            let mut j = 0;
            while j < each {
                let vector = thread_group.vector_at(j, each);
                let mut input = if vector < thread_group.vectors {
                    inputs
                } else {
                    0
                };
                while input < inputs {
                    thread_group.slice(input).write(vector, [0; 4]);
                    input += 1;
                }
                j += 1;
            }
            thread_group.ask(params, rows, |input| row_of(thread_group.row, input));
            thread_group
        }
    }

    /// Index in the slice of the thread's vector `j` of `each`: the lanes of a warp have
    /// neighbouring vectors.
    #[inline(always)]
    pub(crate) fn vector_at(&self, j: usize, each: usize) -> u32 {
        let (warp, lane) = (self.group.own / LANES, self.group.own % LANES);
        (warp * each as u32 + j as u32) * LANES + lane
    }

    /// Whether the row has that vector.
    #[inline(always)]
    pub(crate) fn has(&self, j: usize, each: usize) -> bool {
        self.vector_at(j, each) < self.vectors
    }

    /// Issues the loads of the row, if there is one. `row_of` returns the address of an input's
    /// row; inputs from `rows` on are the same for all thread groups.
    ///
    /// # Safety
    /// As for [`ThreadGroup::fetch`].
    #[inline(always)]
    unsafe fn ask<T: Packed>(
        &self,
        params: &RowParams,
        rows: u32,
        row_of: impl Fn(u32) -> *const T,
    ) {
        let bytes = self.vectors * VECTOR_BYTES;
        // SAFETY: nobody else uses these barriers; slices have room for the bytes, which are inside
        // the rows.
        unsafe {
            if self.group.own == 0 {
                self.landed().init(1);
                if self.group.blocks > 1 {
                    self.exchanged().init(1);
                }
                fence_mbarrier_init_release_cluster();
                self.landed().arrive_expect_tx(bytes * self.inputs);
                let mut input = 0;
                while input < self.inputs && bytes > 0 {
                    let from = self.ends.inner(row_of(input));
                    let from = from.wrapping_add(self.first as usize * T::LANES);
                    let Slice(to) = self.slice(input);
                    let policy = if input < rows {
                        of_rows(params)
                    } else {
                        of_weights()
                    };
                    cp_async_bulk_shared_cluster_global_l2_cache_hint(
                        to,
                        from.cast(),
                        bytes,
                        self.landed(),
                        policy,
                    );
                    input += 1;
                }
                if self.group.blocks > 1 {
                    self.exchanged()
                        .arrive_expect_tx(self.expected * VECTOR_BYTES);
                }
            }
            self.meet();
        }
    }

    /// Waits until all threads see the barriers, and all blocks run.
    ///
    /// # Safety
    /// All threads of the thread group call it, once; the barriers have been initialised.
    #[inline(always)]
    unsafe fn meet(&self) {
        // SAFETY: passed on to the caller.
        unsafe {
            thread::sync_threads();
            if self.group.blocks > 1 {
                cluster::barrier_cluster_arrive_relaxed_aligned();
                // All blocks run now, and expect their messages.
                cluster::barrier_cluster_wait_acquire_aligned();
            }
        }
    }

    /// Waits until the row has landed.
    #[inline(always)]
    pub(crate) fn land(&self) {
        // SAFETY: the barrier has one phase, which ends when the row has landed.
        unsafe { self.landed().wait_parity(0) };
    }

    /// Calls `f` with the index in the slice of each of the thread's vectors.
    #[inline(always)]
    pub(crate) fn each(&self, f: impl FnMut(u32)) {
        let all = Vectors {
            first: self.group.own,
            end: self.vectors,
            step: self.group.threads,
        };
        all.each(f);
    }

    /// Number of vectors of the thread's warp.
    #[inline(always)]
    pub(crate) fn vectors_of_warp(&self) -> u32 {
        let threads = self.group.threads;
        let width = threads.min(LANES);
        let first = self.group.own & !(width - 1);
        let rest = self.vectors & (threads - 1);
        (self.vectors >> threads.trailing_zeros()) * width + rest.saturating_sub(first).min(width)
    }

    /// Number of vectors of a warp of a block of the cluster, whose threads have room for `each`.
    #[inline(always)]
    pub(crate) fn vectors_of(&self, params: &RowParams, rank: u32, warp: u32, each: usize) -> u32 {
        let of_row = self.ends.vectors.saturating_sub(rank * params.vectors);
        let of_warp = LANES * each as u32;
        of_row
            .min(params.vectors)
            .saturating_sub(warp * of_warp)
            .min(of_warp)
    }

    /// Index of a vector of the slice among the row's whole vectors.
    #[inline(always)]
    pub(crate) fn number(&self, vector: u32) -> u32 {
        self.first + vector
    }

    /// Stores what `f` returns for each of the thread's vectors, given its index in the slice.
    ///
    /// # Safety
    /// The row at `row` is writable, and aligned to vectors unless rows begin at `ANY` address, for
    /// which the warp is converged.
    #[inline(always)]
    pub(crate) unsafe fn write<T: Packed>(&self, row: *mut T, mut f: impl FnMut(u32) -> Raw) {
        if !ANY {
            // SAFETY: passed on to the caller.
            self.each(|v| unsafe { self.store_if(row, v, f(v), true) });
            return;
        }
        let slice = self.ends.inner_mut(row);
        let slice = slice.wrapping_add(self.first as usize * T::LANES);
        let lane = self.group.own % LANES;
        let mut vector = self.group.own;
        while vector - lane < self.vectors {
            let at = slice.wrapping_add(vector as usize * T::LANES);
            let place = Place {
                is_there: vector < self.vectors,
                is_first: lane == 0,
                is_last: lane == LANES - 1 || vector + 1 >= self.vectors,
            };
            let raw = if place.is_there { f(vector) } else { [0; 4] };
            // SAFETY: passed on to the caller; the warp has one row.
            unsafe {
                if is_whole(slice) {
                    mem::st_global_v4_u32_if(at.cast(), raw, place.is_there);
                } else {
                    store_apart(at, raw, place);
                }
            }
            vector += opaque(self.group.threads);
        }
    }

    /// Stores a vector of a row that is aligned to vectors, given its index in the slice, if it
    /// `is_there`.
    ///
    /// # Safety
    /// If it is there, the row at `row` is writable, and the slice has that vector.
    #[inline(always)]
    pub(crate) unsafe fn store_if<T: Packed>(
        &self,
        row: *mut T,
        vector: u32,
        raw: Raw,
        is_there: bool,
    ) {
        let at = row.wrapping_add(self.number(vector) as usize * T::LANES);
        // SAFETY: passed on to the caller.
        unsafe { mem::st_global_v4_u32_if(at.cast(), raw, is_there) };
    }

    /// The address in shared memory of an element of a row that has landed, if this block has it in
    /// its slice.
    #[inline(always)]
    pub(crate) fn element<T: Packed>(&self, element: u64) -> Option<*const T> {
        let first = u64::from(self.first) * T::LANES as u64 + u64::from(self.ends.head());
        let ahead = element.wrapping_sub(first);
        if ahead >= u64::from(self.vectors) * T::LANES as u64 {
            return None;
        }
        let Slice(slice) = self.slice(0);
        let slice = dynamic_base().wrapping_add((slice.bits() - self.base.bits()) as usize);
        Some(slice.cast::<T>().wrapping_add(ahead as usize).cast_const())
    }

    /// Reduces by `op`, over values of at most four words, over all threads of the thread group;
    /// all of them get the result.
    ///
    /// # Safety
    /// All threads of the thread group call it, once; warps are converged.
    #[inline(always)]
    pub(crate) unsafe fn reduce<S: Words>(&self, value: S, op: impl Fn(S, S) -> S) -> S {
        // SAFETY: passed on to the caller.
        unsafe {
            let width = self.group.threads.min(LANES);
            let value = butterfly::<S, false>(value, width, &op);
            self.across(value, &op)
        }
    }

    /// Reduces by `op` over the warps of the thread group; `value` is the same in all lanes of a
    /// warp.
    ///
    /// # Safety
    /// As for [`ThreadGroup::reduce`].
    #[inline(always)]
    pub(crate) unsafe fn across<S: Words>(&self, value: S, op: &impl Fn(S, S) -> S) -> S {
        let group = &self.group;
        if group.threads <= LANES && group.blocks == 1 {
            return value;
        }
        let slots = self.slots();
        // SAFETY: passed on to the caller.
        unsafe {
            self.post_own(value);
            let width = slots.min(LANES);
            let mut total = self.own_slot(0, value);
            let mut slot = width;
            while slot < slots {
                total = op(total, self.own_slot(slot, value));
                slot += opaque(width);
            }
            butterfly::<S, false>(total, width, op)
        }
    }
}
