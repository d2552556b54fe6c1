//! Loads fragments from shared memory to registers, by `ldmatrix` or by words.

use abi::gemm::OperandMap;
use abi::swizzle::CHUNK_BYTES;
use cuda_std::ldmatrix::{ldmatrix_x4, ldmatrix_x4_trans};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;

/// Most xor patterns with which the fragments of a stage are addressed.
const XORS: usize = 4;

/// Addresses of a lane's row for `ldmatrix`, or of its first word, within the stage that is read
/// and for the first 16 of the warp's rows (or columns). The swizzle xors address bits, so there is
/// one address for each xor pattern: for each k step (K-major) or for each 16 rows (MN-major). All
/// other fragments are at fixed distances from these.
///
/// NOTE(perf): these are running addresses, advanced from stage to stage. Offsets to be added to a
/// stage's base would be recomputed by ptxas from the thread's index in each k step, and the `mma`s
/// would wait for `ldmatrix`.
pub(super) struct Reader {
    addrs: [SharedAddr; XORS],
    /// The address that `offset` is relative to.
    smem: *mut u8,
    /// The first word as an offset, for fragments that are loaded by words. No bit that is xored
    /// differs between stages.
    offset: u32,
    /// Order of a fragment's four 8×16-byte matrices: along k first, as B has them; else down the
    /// rows first, as A has them.
    along_k: bool,
}

impl Reader {
    /// Of A in the stage at `smem`, for the warp whose rows begin at `first`.
    #[inline(always)]
    pub(super) fn of_a(map: &OperandMap, smem: *mut u8, first: u32) -> Self {
        Self::new(map, smem, first, false)
    }

    /// Of B likewise. The two registers of 8 columns are consecutive.
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
            // The next 16 rows or k step: two chunks along the row, xored, as the warp's first
            // chunk index is a multiple of all of these.
            addrs[i] = stage.add_bytes(offset ^ (2 * CHUNK_BYTES * i as u32));
        }
        Self {
            addrs,
            smem,
            offset,
            along_k,
        }
    }

    /// Moves to the stage `bytes` further on, or back if negative.
    #[inline(always)]
    pub(super) fn advance(&mut self, bytes: i32) {
        for i in 0..XORS {
            self.addrs[i] = self.addrs[i].add_bytes(bytes as u32);
        }
        self.offset = self.offset.wrapping_add_signed(bytes);
    }

    /// The `i`th fragment of k step `k_step`: 16 rows of A, or 2 × 8 columns of B, by 32 bytes of
    /// k.
    ///
    /// # Safety
    /// All lanes execute it; the stage has been copied.
    #[inline(always)]
    pub(super) unsafe fn load(&self, map: &OperandMap, k_step: u32, i: u32) -> [u32; 4] {
        if !map.k_major && map.size_bytes == 4 {
            // SAFETY: the caller's promise.
            return unsafe { self.load_words(map, k_step, i) };
        }
        let (along, across) = if map.k_major {
            (k_step, i)
        } else {
            (i, k_step)
        };
        let row = self.addrs[along as usize].add_bytes(16 * across * map.row_bytes());
        // SAFETY: the caller's promise; chunks lie at multiples of 16 bytes.
        unsafe {
            if map.k_major {
                ldmatrix_x4(row)
            } else {
                ldmatrix_x4_trans(row)
            }
        }
    }

    /// The same for MN-major elements of 4 bytes, which `ldmatrix` cannot transpose.
    #[inline(always)]
    unsafe fn load_words(&self, map: &OperandMap, k_step: u32, i: u32) -> [u32; 4] {
        let mut words = [0; 4];
        for register in 0..4 {
            let (mn, k) = halves(register as u32, self.along_k);
            let offset = self.offset ^ (CHUNK_BYTES * (4 * i + 2 * mn));
            let row = (8 * k_step + 4 * k) * map.row_bytes();
            // Two additions, so that the row becomes the load's immediate offset.
            let at = self.smem.wrapping_add(offset as usize);
            let at = at.wrapping_add(row as usize);
            // SAFETY: the caller's stage; a word of it.
            words[register] = unsafe { at.cast::<u32>().read() };
        }
        words
    }
}

/// Matrix `idx` of a fragment's four: which 8 rows, and which 16 bytes of k.
#[inline(always)]
fn halves(idx: u32, along_k: bool) -> (u32, u32) {
    if along_k {
        (idx / 2, idx % 2)
    } else {
        (idx % 2, idx / 2)
    }
}
