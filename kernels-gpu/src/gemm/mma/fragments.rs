//! From shared memory to the registers of the products.

use cuda_std::ldmatrix::{ldmatrix_x4, ldmatrix_x4_trans};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use spec::gemm::OperandMap;
use spec::swizzle::CHUNK_BYTES;

/// Different bits that fragments of a stage are reached by, at most.
const XORS: usize = 4;

/// Where a lane's row for `ldmatrix`, or its first word, lies in the stage that is read, in the
/// first 16 of a warp's rows (or columns): one address for each bits that are xored, that is, for
/// each step of k (K-major) or each 16 rows (MN-major). All others lie at fixed distances.
///
/// NOTE(perf): addresses that run with the stages, not offsets to add to one: those ptxas computes
/// anew from the thread's index in each step of k, and the products wait for `ldmatrix`.
pub(super) struct Reader {
    addrs: [SharedAddr; XORS],
    /// What `offset` begins at.
    smem: *mut u8,
    /// The same as offsets, where fragments are words that are loaded: no bit that is xored is one
    /// of a stage.
    offset: u32,
    /// Registers go 16 bytes along k first, as B has them; else down 8 rows first, as A.
    along_k: bool,
}

impl Reader {
    /// Of A in the stage at `smem`, of a warp whose rows begin with `first`.
    #[inline(always)]
    pub(super) fn of_a(map: &OperandMap, smem: *mut u8, first: u32) -> Self {
        Self::new(map, smem, first, false)
    }

    /// Of B, so that the two registers of 8 columns are neighbours.
    #[inline(always)]
    pub(super) fn of_b(map: &OperandMap, smem: *mut u8, first: u32) -> Self {
        Self::new(map, smem, first, true)
    }

    #[inline(always)]
    fn new(map: &OperandMap, smem: *mut u8, first: u32, along_k: bool) -> Self {
        let lane = thread::thread_idx_x() % thread::WARP_THREADS;
        let (mn, k) = halves(lane / 8, along_k);
        let offset = if map.k_major {
            map.chunk_offset(first + 8 * mn + lane % 8, k)
        } else if map.size_bytes == 2 {
            map.chunk_offset(8 * k + lane % 8, first * map.size_bytes / CHUNK_BYTES + mn)
        } else {
            map.element_offset(first + lane / 4, lane % 4)
        };
        // SAFETY: shared memory.
        let stage = unsafe { SharedAddr::of(smem) };
        let mut addrs = [stage; XORS];
        for i in 0..XORS {
            // Two chunks further along a row: those of a warp begin at multiples of all there are.
            addrs[i] = stage.add_bytes(offset ^ (2 * CHUNK_BYTES * i as u32));
        }
        Self {
            addrs,
            smem,
            offset,
            along_k,
        }
    }

    /// Goes on to the stage that lies `bytes` further on (or back).
    #[inline(always)]
    pub(super) fn advance(&mut self, bytes: i32) {
        for i in 0..XORS {
            self.addrs[i] = self.addrs[i].add_bytes(bytes as u32);
        }
        self.offset = self.offset.wrapping_add_signed(bytes);
    }

    /// 16 rows of A, or two times 8 columns of B, by 32 bytes of k: the `i`th 16 of the warp's, at
    /// step `k_step`.
    ///
    /// # Safety
    /// All lanes execute it; the stage has been copied.
    #[inline(always)]
    pub(super) unsafe fn load(&self, map: &OperandMap, k_step: u32, i: u32) -> [u32; 4] {
        if !map.k_major && map.size_bytes == 4 {
            // SAFETY: the caller's.
            return unsafe { self.load_words(map, k_step, i) };
        }
        let (along, across) = if map.k_major {
            (k_step, i)
        } else {
            (i, k_step)
        };
        let row = self.addrs[along as usize].add_bytes(16 * across * map.row_bytes());
        // SAFETY: the caller's; chunks lie at multiples of 16 bytes.
        unsafe {
            if map.k_major {
                ldmatrix_x4(row)
            } else {
                ldmatrix_x4_trans(row)
            }
        }
    }

    /// The same of MN-major elements of 4 bytes, which `ldmatrix` does not transpose.
    #[inline(always)]
    unsafe fn load_words(&self, map: &OperandMap, k_step: u32, i: u32) -> [u32; 4] {
        let mut words = [0; 4];
        for register in 0..4 {
            let (mn, k) = halves(register as u32, self.along_k);
            let offset = self.offset ^ (CHUNK_BYTES * (4 * i + 2 * mn));
            let row = (8 * k_step + 4 * k) * map.row_bytes();
            // One after the other: the row becomes part of the instruction.
            let at = self.smem.wrapping_add(offset as usize);
            let at = at.wrapping_add(row as usize);
            // SAFETY: the caller's stage; a word of it.
            words[register] = unsafe { at.cast::<u32>().read() };
        }
        words
    }
}

/// The 8 rows and the 16 bytes of k of the `idx`th of four matrices.
#[inline(always)]
fn halves(idx: u32, along_k: bool) -> (u32, u32) {
    if along_k {
        (idx / 2, idx % 2)
    } else {
        (idx % 2, idx / 2)
    }
}
