//! From shared memory to the registers of the products.

use cuda_std::hint::opaque;
use cuda_std::ldmatrix::{ldmatrix_x4, ldmatrix_x4_trans};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;

/// Where a lane's row lies in the first 16 × 16 elements of a tile with rows of `CAP`: all others lie
/// at fixed distances, and by bits that are xored.
#[derive(Clone, Copy)]
pub(super) struct Reader<const CAP: usize>(SharedAddr);

impl<const CAP: usize> Reader<CAP> {
    const ROW_BYTES: u32 = CAP as u32 * 2;

    /// Registers go down 8 rows first: q as A, and v, transposed, as B. From row `first`, a multiple
    /// of 8, of the tile at `smem`.
    #[inline(always)]
    pub(super) fn down(smem: SharedAddr, first: u32) -> Self {
        let lane = thread::thread_idx_x() % thread::WARP_THREADS;
        Self::new(smem, first + lane % 16, lane / 16)
    }

    /// Registers go 8 columns to the right first: k as B.
    #[inline(always)]
    pub(super) fn right(smem: SharedAddr) -> Self {
        let lane = thread::thread_idx_x() % thread::WARP_THREADS;
        Self::new(smem, lane % 8 + lane / 16 * 8, lane / 8 % 2)
    }

    #[inline(always)]
    fn new(smem: SharedAddr, row: u32, chunk: u32) -> Self {
        // Opaque: addresses that do not change in a loop would be kept, one for each load.
        let offset = row * Self::ROW_BYTES + (chunk ^ (row % 8)) * 16;
        Self(SharedAddr::from_bits(opaque(smem.bits() + offset)))
    }

    /// The address in the `down`th 16 rows and the `right`th 16 columns. Tiles begin at multiples of
    /// their rows' bytes, so that xoring moves along a row.
    #[inline(always)]
    fn at(self, down: u32, right: u32) -> SharedAddr {
        SharedAddr::from_bits(self.0.bits() ^ (32 * right)).add_bytes(16 * down * Self::ROW_BYTES)
    }

    /// Those 16 × 16 elements.
    ///
    /// # Safety
    /// All lanes of the warp execute it; the tile has been copied.
    #[inline(always)]
    pub(super) unsafe fn load(self, down: u32, right: u32) -> [u32; 4] {
        // SAFETY: the caller's.
        unsafe { ldmatrix_x4(self.at(down, right)) }
    }

    /// The same, each 8 × 8 of them transposed.
    ///
    /// # Safety
    /// As [`load`](Self::load).
    #[inline(always)]
    pub(super) unsafe fn load_transposed(self, down: u32, right: u32) -> [u32; 4] {
        // SAFETY: the caller's.
        unsafe { ldmatrix_x4_trans(self.at(down, right)) }
    }
}
