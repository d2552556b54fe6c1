//! Slices that land in parts, one after the other, so that threads begin before all of them have.

use super::{Slice, ThreadGroup};
use crate::row::group::Group;
use crate::row::held::row_of;
use crate::row::packed::Packed;
use crate::row::policy::of_rows;
use abi::rows::{RowParams, VECTOR_BYTES};
use cuda_std::fence::fence_mbarrier_init_release_cluster;
use cuda_std::hint::opaque;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::tma::cp_async_bulk_shared_cluster_global_l2_cache_hint;

impl<const ANY: bool> ThreadGroup<ANY> {
    /// As [`ThreadGroup::fetch`], for one input, in a block that shares no row with other thread
    /// groups. The slice comes in as many parts as the parameters have stages, each of which
    /// [`ThreadGroup::each_part`] waits for. Returns also what [`Ends::load`](crate::row::ends::Ends::load) does, or -inf.
    ///
    /// # Safety
    /// As for [`ThreadGroup::fetch`].
    #[inline(always)]
    pub(crate) unsafe fn fetch_parts<T: Packed>(
        params: &RowParams,
        tensor: *const T,
    ) -> (Self, Option<f32>) {
        // SAFETY: passed on to the caller.
        unsafe {
            let group = Group::of_vectors(params, core::ptr::null_mut());
            let row_of = |row, _| row_of(tensor, row, params.strides[0]);
            let thread_group = Self::new::<T>(params, 1, group, row_of);
            let row = row_of(thread_group.row, 0);
            if thread_group.group.own == 0 {
                let from = thread_group.ends.inner(row);
                let from = from.wrapping_add(thread_group.first as usize * T::LANES);
                thread_group.ask_parts(params, from);
            }
            let end = thread_group.ends.load(row, f32::NEG_INFINITY);
            thread_group.meet();
            (thread_group, end)
        }
    }

    /// Vectors of each part of the slice but the last: whole turns of the thread group's threads.
    #[inline(always)]
    fn of_part(&self, parts: u32) -> u32 {
        let threads = self.group.threads;
        let rounds = (self.vectors + threads - 1) >> threads.trailing_zeros();
        // Parts are a power of two.
        ((rounds + parts - 1) >> parts.trailing_zeros()) * threads
    }

    /// Issues the loads of the slice, which begins at `from`, by one thread.
    ///
    /// # Safety
    /// As for [`ThreadGroup::fetch_parts`].
    #[inline(always)]
    unsafe fn ask_parts<T: Packed>(&self, params: &RowParams, from: *const T) {
        let parts = params.stages;
        let landed = |part: u32| Mbarrier::at(self.base.add_bytes(8 * part));
        let of_part = self.of_part(parts);
        // SAFETY: nobody else uses these barriers; the slice has room for the bytes, which are
        // inside the row.
        unsafe {
            if self.group.blocks > 1 {
                self.exchanged().init(1);
            }
            let (mut part, mut first) = (0, 0);
            while part < opaque(parts) {
                landed(part).init(1);
                fence_mbarrier_init_release_cluster();
                let bytes = self.vectors.saturating_sub(first).min(of_part) * VECTOR_BYTES;
                landed(part).arrive_expect_tx(bytes);
                if bytes > 0 {
                    let Slice(to) = self.slice(0);
                    let to = to.add_bytes(first * VECTOR_BYTES);
                    let from = from.wrapping_add(first as usize * T::LANES);
                    cp_async_bulk_shared_cluster_global_l2_cache_hint(
                        to,
                        from.cast(),
                        bytes,
                        landed(part),
                        of_rows(params),
                    );
                }
                first += of_part;
                part += 1;
            }
            if self.group.blocks > 1 {
                self.exchanged()
                    .arrive_expect_tx(self.expected * VECTOR_BYTES);
            }
        }
    }

    /// Calls `f` with the thread's vectors of each part, as it lands. Then the slice has landed.
    #[inline(always)]
    pub(crate) fn each_part(&self, parts: u32, mut f: impl FnMut(Vectors)) {
        let of_part = self.of_part(parts);
        let (mut part, mut end) = (0, 0);
        let mut first = self.group.own;
        while part < opaque(parts) {
            end = (end + of_part).min(self.vectors);
            // SAFETY: the barrier has one phase, which ends when the part has landed.
            unsafe { Mbarrier::at(self.base.add_bytes(8 * part)).wait_parity(0) };
            f(Vectors {
                first,
                end,
                step: self.group.threads,
            });
            first += of_part;
            part += 1;
        }
    }
}

/// A thread's vectors of a slice, or of a part of it.
#[derive(Clone, Copy)]
pub(crate) struct Vectors {
    pub(super) first: u32,
    pub(super) end: u32,
    pub(super) step: u32,
}

impl Vectors {
    /// Calls `f` with the index in the slice of each of them.
    #[inline(always)]
    pub(crate) fn each(self, mut f: impl FnMut(u32)) {
        let mut vector = self.first;
        while vector < self.end {
            f(vector);
            vector += opaque(self.step);
        }
    }
}
