//! Rows that begin at any element, in a ring: a warp's part of a row is a run (`row::anywhere`).
//!
//! A lane has the elements `lane`, `lane + 32`, .. of the warp's part: the same columns in each row.
//! Elements beyond the row are 0.

use super::{LANES, Ring, Stage};
use crate::row::anywhere::{End, Span, put_end, shift_of};
use crate::row::packed::Packed;
use abi::rows::{RingLayout, RowParams, VECTOR_BYTES};
use cuda_std::fence::fence_proxy_async_shared_cta;
use cuda_std::mem;
use cuda_std::shared::dynamic_base;

impl<const R: usize, const ANY: bool> Ring<R, ANY> {
    /// The warp's part of a row.
    #[inline(always)]
    pub(super) fn span(&self) -> Span {
        Span {
            is_first: self.first == 0,
            elements: self.elements,
            rest_bytes: self.rest_bytes,
        }
    }

    /// Whether the warp's part may hold the first or the last vector of a row.
    #[inline(always)]
    pub(super) fn may_have_ends(&self) -> bool {
        let part_bytes = RingLayout::part_bytes(R as u32, true);
        self.first == 0 || self.rest_bytes < part_bytes + VECTOR_BYTES
    }

    /// Zeros the warp's stages.
    ///
    /// # Safety
    /// All lanes call it before the first bulk copy.
    #[inline(always)]
    pub(super) unsafe fn clear(&self) {
        let bytes = RingLayout::part_bytes(R as u32, true) * self.stages * self.inputs;
        let mut at = self.lane * VECTOR_BYTES;
        while at < bytes {
            // SAFETY: the warp's stages, which nothing else uses.
            unsafe { mem::st_shared_v4_u32(self.parts.add_bytes(at), [0; 4]) };
            at += LANES * VECTOR_BYTES;
        }
        fence_proxy_async_shared_cta();
    }
}

impl<const R: usize> Ring<R, true> {
    /// Where the warp's part of a row begins.
    #[inline(always)]
    fn part_of<T: Packed>(&self, row: *const T) -> *const T {
        row.wrapping_add(self.first as usize * T::LANES)
    }

    /// Whether row `i` is there, and the warp's part may hold its first or last vector.
    #[inline(always)]
    pub(crate) fn has_ends(&self, i: u32) -> bool {
        i < self.rows && self.may_have_ends()
    }

    /// Loads this lane's element of the ends of row `i`, at `row`.
    ///
    /// # Safety
    /// The row is readable.
    #[inline(always)]
    pub(crate) unsafe fn end_of<T: Packed>(&self, _: u32, row: *const T) -> End {
        // SAFETY: passed on to the caller.
        unsafe { self.span().end_of(self.lane, self.part_of(row)) }
    }

    /// Puts this lane's element of the ends of a row beside what has landed.
    ///
    /// # Safety
    /// The row has landed in the stage. The lanes of the warp meet before they read it.
    #[inline(always)]
    pub(crate) unsafe fn put_end<T: Packed>(
        &self,
        stage: Stage,
        input: u32,
        row: *const T,
        end: End,
    ) {
        // SAFETY: passed on to the caller; `refill` has the fence.
        unsafe { put_end(self.element(stage, input, row), end) };
    }

    /// Where the first element of the warp's part of the row at `row` is in a stage.
    #[inline(always)]
    fn element<T: Packed>(&self, stage: Stage, input: u32, row: *const T) -> *mut T {
        let part = self.part(stage.index, input).bits() - self.base.bits();
        let shift = shift_of(self.part_of(row));
        dynamic_base().wrapping_add((part + shift) as usize).cast()
    }

    /// Elements of the warp's part.
    #[inline(always)]
    pub(crate) fn elements(&self) -> u32 {
        self.elements
    }

    /// Elements of the block's part of a row.
    #[inline(always)]
    pub(crate) fn elements_of_block<T: Packed>(&self, params: &RowParams) -> u32 {
        let of_block = params.vectors * T::LANES as u32;
        let rest = params.n.saturating_sub(u64::from(self.rank * of_block));
        rest.min(u64::from(of_block)) as u32
    }

    /// Number of the lane's elements.
    #[inline(always)]
    fn own(&self) -> u32 {
        (self.elements + LANES - 1 - self.lane) / LANES
    }

    /// Whether the warp's part has an element `i` for any lane.
    #[inline(always)]
    pub(crate) fn reaches(&self, i: usize) -> bool {
        i as u32 * LANES < self.elements
    }

    /// Whether the row has an element `i` for this lane.
    #[inline(always)]
    pub(crate) fn has_element(&self, i: usize) -> bool {
        (i as u32) < self.own()
    }

    /// Index in the row of the lane's element `i`.
    #[inline(always)]
    pub(crate) fn column(&self, i: usize) -> usize {
        self.first_element as usize + i * LANES as usize + self.lane as usize
    }

    /// Elements `j * V..` of the lane, of an input's row, which begins at `row` in global memory.
    ///
    /// # Safety
    /// The row is in the stage, with its ends.
    #[inline(always)]
    pub(crate) unsafe fn values<T: Packed, const V: usize>(
        &self,
        stage: Stage,
        input: u32,
        row: *const T,
        j: usize,
    ) -> [f32; V] {
        let own = self.element(stage, input, row);
        let own = own.wrapping_add(self.lane as usize);
        let mut values = [0.0; V];
        let mut i = 0;
        while i < V {
            // SAFETY: passed on to the caller.
            values[i] = unsafe { T::load_alike(own.wrapping_add((j * V + i) * LANES as usize)) };
            i += 1;
        }
        values
    }
}
