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
//! | `exchanged`, in clusters | every warp of the cluster, or one of each block | the block | 16 a message |
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
    /// Vectors of the row.
    in_row: u32,
    /// Number in the row of the slice's first vector.
    first: u32,
    /// Vectors of the slice; 0 where the row has ended before, or there is none.
    vectors: u32,
    /// Bytes from slice to slice.
    step: u32,
    /// Slots that are posted to from other blocks, of clusters.
    expected: u32,
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
    unsafe fn new<T: Packed>(params: &RowParams, inputs: u32, mut group: Group) -> Self {
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
            in_row: vectors,
            first,
            vectors: match row < params.rows {
                true => vectors.saturating_sub(first).min(params.vectors),
                false => 0,
            },
            step: params.vectors * VECTOR_BYTES,
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
            // It does not exchange, so it has no scratch.
            let group = Group::of_vectors(params, core::ptr::null_mut());
            let team = Self::new::<T>(params, inputs, group);
            team.ask(|input| match input {
                0 => row_of(tensors[0], team.row, params.strides[0]),
                _ => row_of(tensors[1], team.row, params.strides[1]),
            });
            team
        }
    }

    /// Of this thread, in a block that has rows for itself, in slices with room for `each` vectors a
    /// thread: zeros, where the row has none. `row_of` gives where an input's row begins, from the
    /// team's number on. What a cluster exchanges comes by block, if `is_by_block`, else by warp.
    ///
    /// # Safety
    /// As of [`Team::fetch`]; there is such a row.
    #[inline(always)]
    pub(crate) unsafe fn fetch_padded<T: Packed>(
        params: &RowParams,
        inputs: u32,
        each: usize,
        is_by_block: bool,
        row_of: impl Fn(u64, u32) -> *const T,
    ) -> Self {
        // SAFETY: passed on to the caller; places of its own, which no copy fills.
        unsafe {
            let mut team = Self::new::<T>(params, inputs, Group::of_whole_block(params));
            team.step = team.group.threads * each as u32 * VECTOR_BYTES;
            if is_by_block {
                team.expected = team.group.blocks;
            }
            let mut j = 0;
            while j < each {
                let vector = team.place(j, each);
                let mut input = if vector < team.vectors { inputs } else { 0 };
                while input < inputs {
                    team.slice(input).write(vector, [0; 4]);
                    input += 1;
                }
                j += 1;
            }
            team.ask(|input| row_of(team.row, input));
            team
        }
    }

    /// Number in the slice of the thread's vector `j` of `each`: warps have neighbours.
    #[inline(always)]
    pub(crate) fn place(&self, j: usize, each: usize) -> u32 {
        let (warp, lane) = (self.group.own / LANES, self.group.own % LANES);
        (warp * each as u32 + j as u32) * LANES + lane
    }

    /// Whether the row has it.
    #[inline(always)]
    pub(crate) fn has(&self, j: usize, each: usize) -> bool {
        self.place(j, each) < self.vectors
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
                    self.exchanged()
                        .arrive_expect_tx(self.expected * VECTOR_BYTES);
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

    /// Vectors of a warp of a block of the cluster, whose threads have room for `each`.
    #[inline(always)]
    pub(crate) fn vectors_of(&self, params: &RowParams, rank: u32, warp: u32, each: usize) -> u32 {
        let of_row = self.in_row.saturating_sub(rank * params.vectors);
        let of_warp = LANES * each as u32;
        of_row
            .min(params.vectors)
            .saturating_sub(warp * of_warp)
            .min(of_warp)
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
        // SAFETY: passed on to the caller.
        unsafe { self.store_if(row, vector, raw, true) };
    }

    /// The same where `is_there`.
    ///
    /// # Safety
    /// Then as of [`Team::store`].
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
        let slots = self.slots();
        // SAFETY: passed on to the caller; each warp of each block has a slot.
        unsafe {
            self.post(group.rank * warps(group) + warp, value);
            self.posted();
            let width = slots.min(LANES);
            let first = lane & (width - 1);
            let mut total = self.slot(first, value);
            let mut slot = width;
            while slot < slots {
                total = op(total, self.slot(first + slot, value));
                slot += opaque(width);
            }
            butterfly::<S, false>(total, width, op)
        }
    }

    /// Warps of the team in this block.
    #[inline(always)]
    pub(crate) fn warps(&self) -> u32 {
        warps(&self.group)
    }

    /// Slots of the exchange: one for every warp of every block.
    #[inline(always)]
    pub(crate) fn slots(&self) -> u32 {
        warps(&self.group) * self.group.blocks
    }

    #[inline(always)]
    fn slot_at(&self, slot: u32) -> SharedAddr {
        self.base.add_bytes(BARRIER_BYTES + slot * VECTOR_BYTES)
    }

    /// Puts what the warp has, the same in all its lanes, into a slot of all blocks.
    ///
    /// # Safety
    /// All warps call it, once, converged, each for a slot of its own.
    #[inline(always)]
    pub(crate) unsafe fn post<S: Words>(&self, slot: u32, value: S) {
        // SAFETY: passed on to the caller.
        unsafe {
            if self.group.blocks > 1 {
                self.send(slot, value);
            } else {
                self.keep(slot, value);
            }
        }
    }

    /// Puts what the warp has, the same in all its lanes, into a slot of this block.
    ///
    /// # Safety
    /// The warp calls it, converged, for a slot of its own.
    #[inline(always)]
    pub(crate) unsafe fn keep<S: Words>(&self, slot: u32, value: S) {
        if self.group.own.is_multiple_of(LANES) {
            // SAFETY: passed on to the caller.
            unsafe { mem::st_shared_v4_u32(self.slot_at(slot), words(value)) };
        }
    }

    /// Sends what the warp has, the same in all its lanes, to a slot of all blocks of the cluster.
    ///
    /// # Safety
    /// The warp calls it, converged; nobody else writes the slot, one of those that are expected.
    #[inline(always)]
    pub(crate) unsafe fn send<S: Words>(&self, slot: u32, value: S) {
        let (lane, own) = (self.group.own % LANES, self.slot_at(slot));
        if lane < self.group.blocks {
            // SAFETY: passed on to the caller; other blocks have not exited, as they wait for this.
            unsafe {
                let there = cluster::mapa_shared_cluster(own, lane);
                let barrier = self.exchanged().of_rank(lane);
                cluster::st_async_shared_cluster_v4_u32(there, words(value), barrier);
            }
        }
    }

    /// Waits for what all warps have put into their slots.
    ///
    /// # Safety
    /// All threads of the block call it, once, converged, after [`Team::post`].
    #[inline(always)]
    pub(crate) unsafe fn posted(&self) {
        // SAFETY: passed on to the caller; the barrier has one phase.
        unsafe {
            if self.group.blocks > 1 {
                self.exchanged().wait_parity(0);
            } else {
                thread::sync_threads();
            }
        }
    }

    /// What is in a slot; what `like` holds does not matter.
    ///
    /// # Safety
    /// After [`Team::posted`]; there is such a slot.
    #[inline(always)]
    pub(crate) unsafe fn slot<S: Words>(&self, slot: u32, like: S) -> S {
        // SAFETY: passed on to the caller.
        of_words(unsafe { mem::ld_shared_v4_u32(self.slot_at(slot)) }, like)
    }
}

/// Warps of a team in one block.
#[inline(always)]
fn warps(group: &Group) -> u32 {
    group.threads.div_ceil(LANES)
}
