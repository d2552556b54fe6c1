//! Fragments: from shared memory to registers, by `ldmatrix`, and from accumulators.

use cuda_std::hint::opaque;
use cuda_std::ldmatrix::{ldmatrix_x4, ldmatrix_x4_trans};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;

use super::element::{Block, Half};

/// Address of a lane's row in the first 16 × 16 elements of a tile with rows of `CAP` elements.
/// Other fragments are reached by a fixed distance down and an xor along the row.
#[derive(Clone, Copy)]
pub(crate) struct Reader<const CAP: usize>(SharedAddr);

impl<const CAP: usize> Reader<CAP> {
    const ROW_BYTES: u32 = CAP as u32 * 2;

    /// For fragments whose registers go down 8 rows first: q as A, and transposed v as B. Begins at
    /// row `first`, a multiple of 8, of the tile at `smem`.
    #[inline(always)]
    pub(crate) fn down(smem: SharedAddr, first: u32) -> Self {
        let lane = thread::thread_idx_x() % thread::WARP_THREADS;
        Self::new(smem, first + lane % 16, lane / 16)
    }

    /// For fragments whose registers go 8 columns to the right first: k as B.
    #[inline(always)]
    pub(crate) fn right(smem: SharedAddr) -> Self {
        let lane = thread::thread_idx_x() % thread::WARP_THREADS;
        Self::new(smem, lane % 8 + lane / 16 * 8, lane / 8 % 2)
    }

    #[inline(always)]
    fn new(smem: SharedAddr, row: u32, chunk: u32) -> Self {
        // Opaque: otherwise each load's address, which is loop-invariant, would be kept in a
        // register.
        let offset = row * Self::ROW_BYTES + (chunk ^ (row % 8)) * 16;
        Self(SharedAddr::from_bits(opaque(smem.bits() + offset)))
    }

    /// Of rows of four chunks, whose swizzle is another one: with the place of a lane's chunk.
    #[inline(always)]
    pub(crate) fn of_four(smem: SharedAddr, row: u32, chunk: u32) -> Self {
        let offset = row * Self::ROW_BYTES + (chunk ^ (row / 2 % 4)) * 16;
        Self(SharedAddr::from_bits(opaque(smem.bits() + offset)))
    }

    /// The address for the `down`th 16 rows and the `right`th 16 columns. Tiles begin at multiples
    /// of their rows' bytes, so an xor moves along a row.
    #[inline(always)]
    fn at(self, down: u32, right: u32) -> SharedAddr {
        SharedAddr::from_bits(self.0.bits() ^ (32 * right)).add_bytes(16 * down * Self::ROW_BYTES)
    }

    /// The reader of what is `down` × 16 rows further down.
    #[inline(always)]
    pub(crate) fn below(self, down: u32) -> Self {
        Self(self.at(down, 0))
    }

    /// Loads that fragment of 16 × 16 elements.
    ///
    /// # Safety
    /// All lanes of the warp execute it; the tile has been copied.
    #[inline(always)]
    pub(crate) unsafe fn load(self, down: u32, right: u32) -> [u32; 4] {
        // SAFETY: the caller's promise.
        unsafe { ldmatrix_x4(self.at(down, right)) }
    }

    /// Loads that fragment, each 8 × 8 of it transposed.
    ///
    /// # Safety
    /// As [`load`](Self::load).
    #[inline(always)]
    pub(crate) unsafe fn load_transposed(self, down: u32, right: u32) -> [u32; 4] {
        // SAFETY: the caller's promise.
        unsafe { ldmatrix_x4_trans(self.at(down, right)) }
    }
}

/// Two neighbouring 16×8 accumulator blocks as a 16×16 fragment of A.
#[inline(always)]
pub(crate) fn joined<E: Half>(left: &Block, right: &Block) -> [u32; 4] {
    [
        E::pack(left[0], left[1]),
        E::pack(left[2], left[3]),
        E::pack(right[0], right[1]),
        E::pack(right[2], right[3]),
    ]
}
