//! Rows in shared memory: each block of a cluster has a slice of a row, which one bulk copy brings.
//!
//! A team is a few lanes of a warp, a warp, the threads of a block, or of all blocks of a cluster, and
//! has one row, which it asks for before anything else. As few registers are held, and shared memory is all that a row
//! needs, several teams share a multiprocessor and cover each other's waits.
//!
//! **Pipelines**, each of one phase, 1 arrival:
//!
//! | barrier | producer | consumer | bytes |
//! |---|---|---|---|
//! | `landed`, one a team of the block | bulk copies of the team's first thread | the team's threads of the block | the row's slices of all inputs |
//! | `exchanged`, in clusters | every warp of the cluster | the block | 16 a warp |
//!
//! **Shared memory**: barriers ([`BARRIER_BYTES`]); 16 bytes for every warp of the row, to exchange
//! through; slices, by team and input, each from a line of 128 bytes on: copies to odd multiples of 16
//! bytes take longer.

use super::group::{Group, butterfly};
use super::held::row_of;
use super::packed::{Packed, Raw};
use super::words::{of_words, words};
use cuda_std::cluster;
use cuda_std::fence::fence_mbarrier_init_release_cluster;
use cuda_std::hint::opaque;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::mem;
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread;
use cuda_std::tma::cp_async_bulk_shared_cluster_global;
use cuda_std::warp::Words;
use spec::rows::{BARRIER_BYTES, RowParams, VECTOR_BYTES, slices_offset};

/// Lanes of a warp.
const LANES: u32 = thread::WARP_THREADS;

/// A thread's team, and the slices that its block has of the team's rows.
pub(crate) struct Team {
    /// Its threads in this block.
    pub(crate) group: Group,
    /// Its row.
    pub(crate) row: u64,
    /// Slices that come with each row.
    inputs: u32,
    /// Number in the row of the slice's first vector.
    first: u32,
    /// Vectors of the slice; 0 where the row has ended before, or there is none.
    vectors: u32,
    /// Bytes from slice to slice.
    step: u32,
    base: SharedAddr,
    slices: SharedAddr,
}

/// A slice in shared memory.
#[derive(Clone, Copy)]
pub(crate) struct Slice(SharedAddr);

impl Slice {
    /// A vector of it.
    ///
    /// # Safety
    /// The slice has landed, and has so many.
    #[inline(always)]
    pub(crate) unsafe fn read(self, vector: u32) -> Raw {
        // SAFETY: passed on to the caller.
        unsafe { mem::ld_shared_v4_u32(self.0.add_bytes(vector * VECTOR_BYTES)) }
    }

    /// Puts another vector in its place.
    ///
    /// # Safety
    /// As of [`Slice::read`], and nobody else uses the vector.
    #[inline(always)]
    pub(crate) unsafe fn write(self, vector: u32, raw: Raw) {
        // SAFETY: passed on to the caller.
        unsafe { mem::st_shared_v4_u32(self.0.add_bytes(vector * VECTOR_BYTES), raw) };
    }
}

impl Team {
    /// Of this thread, whose rows come in `inputs` slices each.
    ///
    /// # Safety
    /// All threads call it; launched as `spec::rows` says.
    #[inline(always)]
    unsafe fn new<T: Packed>(params: &RowParams, inputs: u32) -> Self {
        // SAFETY: passed on to the caller; the group does not exchange, so it has no scratch.
        let mut group = unsafe { Group::of_vectors(params, core::ptr::null_mut()) };
        group.blocks = cluster::cluster_nctarank();
        group.rank = cluster::cluster_ctarank();
        let vectors = (params.n / T::LANES as u64) as u32;
        let first = group.rank * params.vectors;
        // SAFETY: the launch's shared memory.
        let base = unsafe { SharedAddr::of(dynamic_base().cast_const()) };
        let slots = warps(&group) * group.blocks;
        let row = group.row();
        Self {
            row,
            inputs,
            first,
            vectors: match row < params.rows {
                true => vectors.saturating_sub(first).min(params.vectors),
                false => 0,
            },
            step: params.vectors * VECTOR_BYTES,
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

    /// The slice of an input's row.
    #[inline(always)]
    pub(crate) fn slice(&self, input: u32) -> Slice {
        let number = self.group.index * self.inputs + input;
        Slice(self.slices.add_bytes(number * self.step))
    }

    /// Of this thread, whose row is on its way, where there is one, from the first `inputs` of these
    /// tensors, which have the first strides of the parameters.
    ///
    /// # Safety
    /// All threads call it, once; launched as `spec::rows` says; the rows are readable and aligned to
    /// vectors.
    #[inline(always)]
    pub(crate) unsafe fn fetch<T: Packed>(
        params: &RowParams,
        inputs: u32,
        tensors: [*const T; 2],
    ) -> Self {
        // SAFETY: passed on to the caller.
        unsafe {
            let team = Self::new::<T>(params, inputs);
            team.ask(|input| match input {
                0 => row_of(tensors[0], team.row, params.strides[0]),
                _ => row_of(tensors[1], team.row, params.strides[1]),
            });
            team
        }
    }

    /// Asks for the row, where there is one. `row_of` gives that of an input.
    ///
    /// # Safety
    /// As of [`Team::fetch`].
    #[inline(always)]
    unsafe fn ask<T: Packed>(&self, row_of: impl Fn(u32) -> *const T) {
        let bytes = self.vectors * VECTOR_BYTES;
        // SAFETY: barriers for this alone; slices have room for the bytes, which lie in the rows.
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
                    let from = row_of(input).wrapping_add(self.first as usize * T::LANES);
                    let Slice(to) = self.slice(input);
                    cp_async_bulk_shared_cluster_global(to, from.cast(), bytes, self.landed());
                    input += 1;
                }
                if self.group.blocks > 1 {
                    let slots = warps(&self.group) * self.group.blocks;
                    self.exchanged().arrive_expect_tx(slots * VECTOR_BYTES);
                }
            }
            thread::sync_threads();
            if self.group.blocks > 1 {
                cluster::barrier_cluster_arrive_relaxed_aligned();
                // All blocks run, and expect what they are sent.
                cluster::barrier_cluster_wait_acquire_aligned();
            }
        }
    }

    /// Waits until the row has landed.
    #[inline(always)]
    pub(crate) fn land(&self) {
        // SAFETY: it has one phase, which the row ends.
        unsafe { self.landed().wait_parity(0) };
    }

    /// Calls `f` with the number of each of the thread's vectors in the slice.
    #[inline(always)]
    pub(crate) fn each(&self, mut f: impl FnMut(u32)) {
        let mut vector = self.group.own;
        while vector < self.vectors {
            f(vector);
            vector += opaque(self.group.threads);
        }
    }

    /// Vectors of the thread's warp.
    #[inline(always)]
    pub(crate) fn vectors_of_warp(&self) -> u32 {
        let threads = self.group.threads;
        let width = threads.min(LANES);
        let first = self.group.own & !(width - 1);
        let rest = self.vectors & (threads - 1);
        (self.vectors >> threads.trailing_zeros()) * width + rest.saturating_sub(first).min(width)
    }

    /// Number in the row of a vector of the slice.
    #[inline(always)]
    pub(crate) fn number(&self, vector: u32) -> u32 {
        self.first + vector
    }

    /// Writes a vector of a row, by its number in the slice.
    ///
    /// # Safety
    /// The row at `row` is writable, and aligned to vectors; the slice has so many.
    #[inline(always)]
    pub(crate) unsafe fn store<T: Packed>(&self, row: *mut T, vector: u32, raw: Raw) {
        let at = row.wrapping_add(self.number(vector) as usize * T::LANES);
        // SAFETY: passed on to the caller.
        unsafe { mem::st_global_v4_u32_if(at.cast(), raw, true) };
    }

    /// An element of a row that has landed, where this block has it.
    #[inline(always)]
    pub(crate) fn element<T: Packed>(&self, element: u64) -> Option<*const T> {
        let ahead = element.wrapping_sub(u64::from(self.first) * T::LANES as u64);
        if ahead >= u64::from(self.vectors) * T::LANES as u64 {
            return None;
        }
        let Slice(slice) = self.slice(0);
        let slice = dynamic_base().wrapping_add((slice.bits() - self.base.bits()) as usize);
        Some(slice.cast::<T>().wrapping_add(ahead as usize).cast_const())
    }

    /// `op` over the values of all threads of the team, of four words at most, in each of them.
    ///
    /// # Safety
    /// All threads of the team call it, once; warps are converged.
    #[inline(always)]
    pub(crate) unsafe fn reduce<S: Words>(&self, value: S, op: impl Fn(S, S) -> S) -> S {
        // SAFETY: passed on to the caller.
        unsafe {
            let width = self.group.threads.min(LANES);
            let value = butterfly::<S, false>(value, width, &op);
            self.across(value, &op)
        }
    }

    /// `op` over the values of all warps of the team, each the same in all its lanes.
    ///
    /// # Safety
    /// As of [`Team::reduce`].
    #[inline(always)]
    pub(crate) unsafe fn across<S: Words>(&self, value: S, op: &impl Fn(S, S) -> S) -> S {
        let group = &self.group;
        if group.threads <= LANES && group.blocks == 1 {
            return value;
        }
        let (warp, lane) = (group.own / LANES, group.own % LANES);
        let slots = warps(group) * group.blocks;
        let all = self.base.add_bytes(BARRIER_BYTES);
        let own = all.add_bytes((group.rank * warps(group) + warp) * VECTOR_BYTES);
        // SAFETY: each warp of each block has a slot in every block of the cluster, which
        // has not exited: it waits here for all of them to have come.
        unsafe {
            if group.blocks > 1 {
                if lane < group.blocks {
                    let there = cluster::mapa_shared_cluster(own, lane);
                    let barrier = self.exchanged().of_rank(lane);
                    cluster::st_async_shared_cluster_v4_u32(there, words(value), barrier);
                }
                self.exchanged().wait_parity(0);
            } else {
                if lane == 0 {
                    mem::st_shared_v4_u32(own, words(value));
                }
                thread::sync_threads();
            }
            let width = slots.min(LANES);
            let first = all.add_bytes((lane & (width - 1)) * VECTOR_BYTES);
            let mut total = of_words(mem::ld_shared_v4_u32(first), value);
            let mut slot = width;
            while slot < slots {
                let other = mem::ld_shared_v4_u32(first.add_bytes(slot * VECTOR_BYTES));
                total = op(total, of_words(other, value));
                slot += opaque(width);
            }
            butterfly::<S, false>(total, width, op)
        }
    }
}

/// Warps of a team in one block.
#[inline(always)]
fn warps(group: &Group) -> u32 {
    group.threads.div_ceil(LANES)
}
