//! Where a launch's tiles are.

use abi::gemm::GemmParams;
use abi::gemm::sm90::{Sm90Launch, Sm90Tile, TileOrder};
use cuda_std::epilogue::Epilogue;
use cuda_std::shared::SharedAddr;

use super::load::Boxes;
use super::store::{Store, StoreElement};

/// The tiles of a launch, by their numbers. Places are a row and a column of D, and a matrix of B.
pub trait TileCoords: Copy {
    /// What the host tells the kernel.
    type Launch: Copy;

    /// Whether all is known before the launches before this one have ended. If not, there is no
    /// stream-K.
    const ARE_KNOWN: bool;

    /// The places of a launch of tiles of `tile_m` rows.
    ///
    /// # Safety
    /// All threads of the block call it, once. `launch` and `params` are of the same launch. `ring`
    /// is where tiles of A will be, of so many bytes, and `shared` is memory of the block behind
    /// all else.
    unsafe fn new(
        launch: &Self::Launch,
        params: &GemmParams,
        ring: (SharedAddr, u32),
        shared: *mut u32,
        tile_m: u32,
    ) -> Self;

    /// Number of tiles.
    fn count(&self) -> u32;

    /// How many tiles stream-K cuts, and for how many blocks.
    fn cut(launch: &Self::Launch) -> (u32, u32);

    /// Row, column and matrix at which the tile of number `index` begins: the cluster's.
    fn at(&self, tile: &Sm90Tile, index: u32) -> (u32, u32, u32);

    /// Of a tile at `coord`: row of A, column and matrix of B.
    fn of_operands(&self, coord: (u32, u32, u32)) -> (u32, u32, u32);

    /// Of a tile of `tile_m` rows at `coord`: what is loaded of A. Rows that are not stay as they
    /// are.
    fn boxes(&self, coord: (u32, u32, u32), tile_m: u32) -> Boxes;

    /// Of a tile at `coord`: row, column and matrix of D. `store` learns what of it is stored.
    fn of_results<Out: StoreElement, E: Epilogue>(
        &self,
        coord: (u32, u32, u32),
        store: &mut Store<Out, E>,
    ) -> (u32, u32, u32);
}

/// Whole matrices, all of one size.
#[derive(Clone, Copy, Debug)]
pub struct Whole(TileOrder);

impl TileCoords for Whole {
    type Launch = Sm90Launch;

    const ARE_KNOWN: bool = true;

    #[inline(always)]
    unsafe fn new(
        launch: &Sm90Launch,
        _: &GemmParams,
        _: (SharedAddr, u32),
        _: *mut u32,
        _: u32,
    ) -> Self {
        Self(launch.order)
    }

    #[inline(always)]
    fn count(&self) -> u32 {
        self.0.count
    }

    #[inline(always)]
    fn cut(launch: &Sm90Launch) -> (u32, u32) {
        (launch.shared_tiles, launch.sharers)
    }

    #[inline(always)]
    fn at(&self, tile: &Sm90Tile, index: u32) -> (u32, u32, u32) {
        let at = self.0.at(tile.raster, index);
        let (rows, columns) = tile.cluster_extents();
        (at.m * rows, at.n * columns, at.batch)
    }

    #[inline(always)]
    fn of_operands(&self, coord: (u32, u32, u32)) -> (u32, u32, u32) {
        coord
    }

    #[inline(always)]
    fn boxes(&self, _: (u32, u32, u32), tile_m: u32) -> Boxes {
        Boxes {
            count: 1,
            rows: tile_m,
        }
    }

    #[inline(always)]
    fn of_results<Out: StoreElement, E: Epilogue>(
        &self,
        coord: (u32, u32, u32),
        _: &mut Store<Out, E>,
    ) -> (u32, u32, u32) {
        coord
    }
}
