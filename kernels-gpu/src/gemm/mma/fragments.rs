//! From shared memory to the registers of the products.

use cuda_std::ldmatrix::{ldmatrix_x4, ldmatrix_x4_trans};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use spec::gemm::OperandMap;
use spec::swizzle::CHUNK_BYTES;

/// Where a lane's row for `ldmatrix` lies in a stage, at the first step of k and in the first 16 of
/// a warp's rows (or columns); all others lie at fixed distances, and by bits that are xored.
pub(super) struct Reader {
    offset: u32,
}

impl Reader {
    /// Of A, of a warp whose rows begin with `first`: registers go down 8 rows first, then 16 bytes
    /// along k.
    #[inline(always)]
    pub(super) fn of_a(map: &OperandMap, first: u32) -> Self {
        let lane = thread::thread_idx_x() % thread::WARP_THREADS;
        Self::new(map, first, lane / 8 % 2, lane / 16)
    }

    /// Of B: registers go 16 bytes along k first, so that the two of 8 columns are neighbours.
    #[inline(always)]
    pub(super) fn of_b(map: &OperandMap, first: u32) -> Self {
        let lane = thread::thread_idx_x() % thread::WARP_THREADS;
        Self::new(map, first, lane / 16, lane / 8 % 2)
    }

    /// The lane's matrix is that of rows `8 * mn` and bytes `16 * k` on.
    #[inline(always)]
    fn new(map: &OperandMap, first: u32, mn: u32, k: u32) -> Self {
        let row = thread::thread_idx_x() % 8;
        let offset = if map.k_major {
            map.chunk_offset(first + 8 * mn + row, k)
        } else {
            map.chunk_offset(8 * k + row, first * map.size_bytes / 16 + mn)
        };
        Self { offset }
    }

    /// 16 rows of A, or two times 8 columns of B, by 32 bytes of k: the `i`th 16 of the warp's, at
    /// step `k_step`.
    ///
    /// # Safety
    /// All lanes execute it; the stage has been copied.
    #[inline(always)]
    pub(super) unsafe fn load(
        &self,
        map: &OperandMap,
        stage: SharedAddr,
        k_step: u32,
        i: u32,
    ) -> [u32; 4] {
        let (along, across) = if map.k_major {
            (k_step, i)
        } else {
            (i, k_step)
        };
        // Two chunks further along a row: those of a warp begin at multiples of all there are.
        let offset = self.offset ^ (2 * CHUNK_BYTES * along);
        let row = stage
            .add_bytes(offset)
            .add_bytes(16 * across * map.row_bytes());
        // SAFETY: the caller's; chunks lie at multiples of 16 bytes.
        unsafe {
            if map.k_major {
                ldmatrix_x4(row)
            } else {
                ldmatrix_x4_trans(row)
            }
        }
    }
}
