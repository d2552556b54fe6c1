//! Results that wait in registers: those of a tile are stored under the `wgmma`s of the next one.
//!
//! Rounded to 16 bits, results take half of the registers of their sums. So a consumer begins its
//! next tile at once, and sends a box of the last one behind each of the next tile's first k tiles.
//! All that stands between the last `wgmma` of a tile and the first of the next is the rounding.
//!
//! Branches on the way are on values that ptxas knows to be the same in all lanes. After any other
//! branch it does not take the warp for converged, and keeps the mainloop's descriptors in vector
//! registers.

use abi::swizzle::Swizzle;
use cuda_std::accumulator::Accumulator;
use cuda_std::epilogue::Epilogue;
use cuda_std::hint::opaque;
use cuda_std::wgmma::{MmaAsync, tie};
use half::f16;

use super::store::{Store, StoreElement, group_of};

/// Boxes of a row of a tile.
const BOXES: usize = 4;
/// Columns of a box.
const COLUMNS: u32 = 64;
/// Groups of columns of a box. Only results of 16 bits are held.
const GROUPS: usize = (COLUMNS / f16::GROUP) as usize;

/// A warp's 16 rows of a tile.
pub(super) struct Held<Out: StoreElement> {
    boxes: [[Out::Rounded; GROUPS]; BOXES],
    /// How many of the boxes are not wholly outside of D.
    count: u32,
    /// Row, column and matrix of D at which they begin.
    coord: (u32, u32, u32),
}

impl<Out: StoreElement> Held<Out> {
    /// Nothing.
    #[inline(always)]
    pub(super) fn none() -> Self {
        Self {
            boxes: Default::default(),
            count: 0,
            coord: (0, 0, 0),
        }
    }

    /// The registers of box `i`. A branch table selects the code that moves them, as register
    /// indices must be constants.
    #[inline(always)]
    fn of_box(&self, i: u32) -> [Out::Rounded; GROUPS] {
        let tied = |mut groups: [Out::Rounded; GROUPS]| {
            // Otherwise LLVM merges the arms into one with a dynamic register index.
            groups.iter_mut().for_each(tie);
            groups
        };
        match opaque(i) {
            0 => tied(self.boxes[0]),
            1 => tied(self.boxes[1]),
            2 => tied(self.boxes[2]),
            _ => tied(self.boxes[3]),
        }
    }
}

impl<Out: StoreElement, E: Epilogue> Store<Out, E> {
    /// Applies the epilogue to a warpgroup's accumulators, which are the rows from `row_of_tile` on
    /// of the tile at `(row, column, batch)`, and rounds them.
    ///
    /// # Safety
    /// The warps of the warpgroup call it, converged; the tile
    /// [holds](abi::gemm::sm90::Sm90Tile::holds_results) results.
    #[inline(always)]
    pub(super) unsafe fn hold<M, const BLOCKS: usize, const TILE_N: u32>(
        &self,
        acc: &Accumulator<M, BLOCKS>,
        (row, column, batch): (u32, u32, u32),
        row_of_tile: u32,
    ) -> Held<Out>
    where
        M: MmaAsync<Acc: AsRef<[f32]> + AsMut<[f32]>>,
    {
        // SAFETY: passed on to the caller.
        let (row, column, batch) = unsafe { self.of_warp((row + row_of_tile, column, batch)) };
        let (m, n) = self.extents();
        let mut held = Held {
            count: match row < m {
                true => n.saturating_sub(column).div_ceil(COLUMNS),
                false => 0,
            },
            coord: (row, column, batch),
            ..Held::none()
        };
        let mut i = 0;
        while i < BOXES * GROUPS {
            let within = i as u32 * Out::GROUP;
            // SAFETY: a group of the tile.
            let x = || unsafe { group_of::<_, Out::Fragment, _, TILE_N>(acc, 0, within) };
            let x = self.results(x, (row, column + within, batch));
            held.boxes[i / GROUPS][i % GROUPS] = Out::round(&x);
            i += 1;
        }
        held
    }

    /// Stores box `i` of what is held, if there is one.
    ///
    /// # Safety
    /// The warp calls it, converged, once for each `i`.
    #[inline(always)]
    pub(super) unsafe fn send(&mut self, held: &Held<Out>, i: u32) {
        if i >= BOXES as u32 || i >= held.count {
            return;
        }
        let (row, column, batch) = held.coord;
        let swizzle = Swizzle::of_span(COLUMNS * size_of::<Out>() as u32);
        // SAFETY: the warp is converged, and the box is free once it is open.
        unsafe {
            let leader = self.open_box();
            let groups = held.of_box(i);
            let mut g = 0;
            while g < GROUPS {
                let column_bytes = g as u32 * Out::GROUP * size_of::<Out>() as u32;
                Out::write(self.free_box(), swizzle, column_bytes, groups[g]);
                g += 1;
            }
            self.send_box((row, column + i * COLUMNS, batch), leader);
        }
    }

    /// Stores the boxes from `first` on.
    ///
    /// # Safety
    /// As for [`send`](Self::send).
    #[inline(always)]
    pub(super) unsafe fn send_rest(&mut self, held: &Held<Out>, first: u32) {
        let mut i = first;
        while i < BOXES as u32 {
            // SAFETY: passed on to the caller.
            unsafe { self.send(held, i) };
            i = opaque(i + 1); // not unrolled
        }
    }
}
