//! Whole boxes at a time, for an epilogue that nothing hides.
//!
//! Where consumers take turns, one's epilogue runs under the other's `wgmma`s, and only has to be
//! sparing with registers. Consumers that share tiles and add up products in f32 reach their
//! epilogues together: two warps for each scheduler, who hide little of each other's waits. But
//! then no products are in flight, so registers are free. A thread has 32 results in hand instead
//! of 8. Of each step of a function there are 32 instructions that do not wait for each other, and
//! a quarter of the branches. The operands of the tile's columns are brought into L1 ahead of the
//! mainloop.

use abi::gemm::sm90::MMA_M;
use abi::swizzle::Swizzle;
use cuda_std::accumulator::Accumulator;
use cuda_std::epilogue::{Coord, Epilogue};
use cuda_std::hint::opaque;
use cuda_std::wgmma::MmaAsync;

use super::element::{Fragment, StoreElement};
use super::{Groups, Store, group_of};

impl<Out: StoreElement, E: Epilogue> Store<Out, E> {
    /// Brings into L1 what the epilogue reads for the `columns` columns of the tile at `coord`, if
    /// it goes by [`Groups::Boxes`]. All lanes of a warp call it.
    #[inline(always)]
    pub(in super::super) fn bring_near(
        &self,
        coord: impl FnOnce() -> (u32, u32, u32),
        columns: u32,
    ) {
        if self.code != Groups::Boxes {
            return;
        }
        let ((row, column, batch), (_, n)) = (coord(), self.extents());
        let coord = Coord {
            batch: u64::from(batch),
            row,
            column,
        };
        self.epilogue
            .bring_near(coord, columns.min(n.saturating_sub(column)));
    }

    /// As [`tile`](Self::tile), box by box, each of [`StoreElement::OfBox`].
    ///
    /// # Safety
    /// As for [`tile`](Self::tile), of a tile that is so many boxes wide.
    #[inline(always)]
    pub(super) unsafe fn boxes_of_tile<M, const BLOCKS: usize, const TILE_N: u32>(
        &mut self,
        acc: &Accumulator<M, BLOCKS>,
        coord: (u32, u32, u32),
    ) where
        M: MmaAsync<Acc: AsRef<[f32]> + AsMut<[f32]>>,
    {
        // SAFETY: passed on to the caller.
        let (row, column, batch) = unsafe { self.of_warp(coord) };
        let (m, n) = self.extents();
        let boxes = TILE_N / Out::BOX;
        let mut i = 0;
        while i < BLOCKS as u32 * boxes {
            let (block, of_tile) = (i / boxes, i % boxes * Out::BOX);
            let coord = (row + block * MMA_M, column + of_tile, batch);
            // TMA clips what is partly outside D; a box that is wholly outside is skipped.
            if coord.0 < m && coord.1 < n {
                // SAFETY: passed on to the caller.
                unsafe {
                    let leader = self.open_box();
                    let x = || group_of::<_, Out::OfBox, _, TILE_N>(acc, block, of_tile);
                    let x = self.results(x, coord);
                    self.fill_box(&x, coord);
                    self.send_box(coord, leader);
                }
            }
            i = opaque(i + 1); // not unrolled
        }
    }

    /// Fills the open box, which begins at `coord` of D, or stores its results to D.
    ///
    /// # Safety
    /// The warp calls it, converged.
    #[inline(always)]
    unsafe fn fill_box(&self, x: &Out::OfBox, coord: (u32, u32, u32)) {
        // SAFETY: passed on to the caller; the box is free.
        unsafe {
            if self.is_by_thread(coord.0) {
                self.destination.store(x, coord);
                return;
            }
            let mut within = 0;
            while within < Out::BOX {
                let (column_bytes, part) = (within * size_of::<Out>() as u32, part(x, within));
                Out::write(
                    self.free_box(),
                    Swizzle::B128,
                    column_bytes,
                    Out::round(&part),
                );
                within += Out::GROUP;
            }
        }
    }
}

/// The results of a group that begins at column `first` of `all`.
#[inline(always)]
fn part<F: Fragment, G: Fragment>(all: &F, first: u32) -> G {
    let mut group = G::zero();
    let results = group.as_mut();
    let mut i = 0;
    while i < results.len() {
        results[i] = all.as_ref()[first as usize / 2 + i];
        i += 1;
    }
    group
}
