//! Short rows that begin at any element and follow each other without gaps: the rows that a warp has at
//! a time are one run (`row::anywhere`).
//!
//! A lane has the elements `own`, `own + lanes`, .. of its row.

use super::Short;
use crate::row::anywhere::{End, Span, put_end, shift_of};
use crate::row::packed::Packed;
use crate::row::policy::of_rows;
use crate::row::ring::Stage;
use abi::rows::RowParams;
use cuda_std::shared::dynamic_base;
use cuda_std::tma::cp_async_bulk_shared_cluster_global_l2_cache_hint;

impl<const R: usize, const ANY: bool> Short<R, ANY> {
    /// The rows of iteration `i`.
    #[inline(always)]
    fn span<T>(&self, i: u32) -> Span {
        let elements = self.rows_of(i) * self.vectors;
        Span {
            is_first: true,
            elements,
            rest_bytes: elements * size_of::<T>() as u32,
        }
    }

    /// Issues the loads of iteration `i`, which has rows; each input's by one lane.
    #[inline(always)]
    pub(super) unsafe fn ask_runs<T: Packed>(
        &self,
        i: u32,
        stage: u32,
        row_of: &impl Fn(u32, u64) -> *const T,
        params: &RowParams,
    ) {
        if self.lane >= self.inputs {
            return;
        }
        let landed = self.barrier(stage);
        let (from, to) = (
            row_of(self.lane, self.first(i)),
            self.part(stage, self.lane),
        );
        let (from, to, bytes) = self.span::<T>(i).whole_vectors(from, to);
        // SAFETY: passed on to the caller; the part has room for the rows.
        unsafe {
            landed.arrive_expect_tx(bytes);
            if bytes > 0 {
                let policy = of_rows(params);
                cp_async_bulk_shared_cluster_global_l2_cache_hint(
                    to,
                    from.cast(),
                    bytes,
                    landed,
                    policy,
                );
            }
        }
    }
}

impl<const R: usize> Short<R, true> {
    /// Index of the lane's row among those of the warp.
    #[inline(always)]
    fn index(&self) -> u32 {
        self.lane / self.lanes
    }

    /// Where the first element of the warp's rows is in a stage; it is at `from` in global memory.
    #[inline(always)]
    fn run<T>(&self, stage: Stage, input: u32, from: *const T) -> *mut T {
        let part = self.part(stage.index(), input).bits() - self.base.bits();
        dynamic_base()
            .wrapping_add((part + shift_of(from)) as usize)
            .cast()
    }

    /// Whether this lane writes what is written once a row.
    #[inline(always)]
    pub(crate) fn is_first(&self) -> bool {
        self.own == 0
    }

    /// Inputs, whose rows are read together.
    #[inline(always)]
    pub(crate) fn inputs(&self) -> u32 {
        self.inputs
    }

    /// Whether iteration `i` has rows.
    #[inline(always)]
    pub(crate) fn has_ends(&self, i: u32) -> bool {
        self.rows_of(i) > 0
    }

    /// Loads this lane's element of the ends of the rows of iteration `i`, which begin at `from`.
    ///
    /// # Safety
    /// The rows are readable.
    #[inline(always)]
    pub(crate) unsafe fn end_of<T>(&self, i: u32, from: *const T) -> End {
        // SAFETY: passed on to the caller.
        unsafe { self.span::<T>(i).end_of(self.lane, from) }
    }

    /// Puts this lane's element of the ends beside what has landed.
    ///
    /// # Safety
    /// The rows have landed in the stage. The lanes of the warp meet before they read them.
    #[inline(always)]
    pub(crate) unsafe fn put_end<T>(&self, stage: Stage, input: u32, from: *const T, end: End) {
        // SAFETY: passed on to the caller; `refill` has the fence.
        unsafe { put_end(self.run(stage, input, from), end) };
    }

    /// Whether a row has an element `i` for any lane.
    #[inline(always)]
    pub(crate) fn reaches(&self, i: usize) -> bool {
        i as u32 * self.lanes < self.vectors
    }

    /// Whether a row has an element `i` for this lane.
    #[inline(always)]
    pub(crate) fn has_element(&self, i: usize) -> bool {
        (self.column(i) as u32) < self.vectors
    }

    /// Index in the row of the lane's element `i`.
    #[inline(always)]
    pub(crate) fn column(&self, i: usize) -> usize {
        (i as u32 * self.lanes + self.own) as usize
    }

    /// Elements `j * V..` of the lane, of an input's row; zeros beyond its end. The warp's rows begin at
    /// `from` in global memory.
    ///
    /// # Safety
    /// The row is in the stage, with its ends.
    #[inline(always)]
    pub(crate) unsafe fn values<T: Packed, const V: usize>(
        &self,
        stage: Stage,
        input: u32,
        from: *const T,
        j: usize,
    ) -> [f32; V] {
        let row = self.run(stage, input, from);
        let row = row.wrapping_add((self.index() * self.vectors) as usize);
        let mut values = [0.0; V];
        let mut i = 0;
        while i < V {
            let number = j * V + i;
            let has = self.has_element(number);
            // The first element instead of one beyond the end: a choice, and no branch.
            let at = if has { self.column(number) } else { 0 };
            // SAFETY: passed on to the caller.
            let value = unsafe { T::load_alike(row.wrapping_add(at)) };
            values[i] = if has { value } else { 0.0 };
            i += 1;
        }
        values
    }
}
