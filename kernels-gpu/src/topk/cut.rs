//! A bound among integers that the threads of a block have: a search byte by byte from the top, by
//! histograms.

use abi::topk::HEAD_WORDS;
use cuda_std::atomic::{atom_shared_add_u32, red_shared_add_u32};
use cuda_std::hint::opaque;
use cuda_std::shared::SharedAddr;
use cuda_std::{thread, warp};

use super::key::Pair;
use super::row::Pairs;

/// Bins of a histogram, for the values of a byte.
const BINS: u32 = 256;

/// Bins of a lane of the warp that looks for the bin of the bound.
const BINS_OF_LANE: u32 = BINS / thread::WARP_THREADS;

/// What is counted in shared memory, by its place behind the bins and what was found in them.
#[derive(Clone, Copy)]
pub(super) enum Count {
    /// Pairs that were collected.
    Pairs = 3,
    /// Groups that were listed.
    Groups = 4,
}

/// Shared memory of a block.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    words: *mut u32,
    address: SharedAddr,
}

impl Shared {
    /// # Safety
    /// The block's shared memory begins there.
    #[inline(always)]
    pub(super) unsafe fn new(words: *mut u32) -> Self {
        Self {
            words,
            // SAFETY: passed on to the caller.
            address: unsafe { SharedAddr::of(words) },
        }
    }

    #[inline(always)]
    fn bin(self, bin: u32) -> *mut u32 {
        self.words.wrapping_add(bin as usize)
    }

    /// The bin of the bound, how many integers are above it, and how many in it.
    #[inline(always)]
    fn found(self) -> *mut [u32; 3] {
        self.bin(BINS).cast()
    }

    /// How many of something there are.
    #[inline(always)]
    pub(super) fn count(self, of: Count) -> *mut u32 {
        self.bin(BINS + of as u32)
    }

    /// A place for one more, and counts it.
    ///
    /// # Safety
    /// Between barriers, all accesses to the count are such ones.
    #[inline(always)]
    pub(super) unsafe fn slot(self, of: Count) -> u32 {
        let address = self.address.add_bytes(4 * (BINS + of as u32));
        // SAFETY: passed on to the caller.
        unsafe { atom_shared_add_u32(address, 1) }
    }

    /// The collected pairs.
    #[inline(always)]
    pub(super) fn pairs<P: Pair>(self) -> *mut P {
        self.words.wrapping_add(HEAD_WORDS).cast()
    }

    /// The largest elements of groups, before there are pairs.
    #[inline(always)]
    pub(super) fn largest(self) -> *mut u32 {
        self.words.wrapping_add(HEAD_WORDS)
    }
}

/// What to look for.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// The bound is to be reached by so many at least,
    pub(super) k: u32,
    /// and, if some bound allows it, by no more than so many.
    pub(super) most: u32,
    /// Bits of an integer: a multiple of 8.
    pub(super) bits: u32,
}

/// A bound for these integers: `wanted.k` of them reach it, and all of its bits are 0 that did not
/// have to be looked at. There is a barrier before any of them is read.
///
/// # Safety
/// All threads of the block are here, with the same arguments. Together they have `wanted.k`
/// integers at least, which are readable. Nobody else uses the histogram, and there is a barrier
/// before anybody does.
#[inline(always)]
pub(super) unsafe fn cut<S: Pairs>(pairs: &S, wanted: Wanted, shared: Shared) -> S::Pair {
    let thread = thread::thread_idx_x();
    let (mut least, mut shift) = (S::Pair::NONE, wanted.bits);
    let (mut above, mut inside) = (0, pairs.len());
    while above + inside > wanted.most && shift > 0 {
        let below = shift;
        shift -= 8;
        // SAFETY: the histogram's bins, by ordinary accesses and by atomics, with barriers between
        // them; the first warp is here as a whole.
        unsafe {
            let mut bin = thread;
            while bin < BINS {
                shared.bin(bin).write(0);
                bin += thread::block_dim_x();
            }
            thread::sync_threads();
            pairs.each(|pair| {
                if pair.is_like(least, below) {
                    let bin = pair.byte(shift);
                    red_shared_add_u32(shared.address.add_bytes(4 * bin), 1);
                }
            });
            thread::sync_threads();
            if thread < thread::WARP_THREADS {
                find(wanted.k - above, shared);
            }
            thread::sync_threads();
            let [bin, more, of_bin] = shared.found().read();
            least = least.with_byte(bin, shift);
            above += more;
            inside = of_bin;
        }
    }
    least
}

/// Writes down the highest bin that `wanted` integers reach.
///
/// # Safety
/// All lanes of one warp are here; the histogram is written, and has so many.
#[inline(always)]
unsafe fn find(wanted: u32, shared: Shared) {
    let lane = thread::lane_idx();
    let top = BINS - 1 - lane * BINS_OF_LANE;
    // SAFETY: bins of the histogram; all lanes shuffle together, and one of them writes.
    unsafe {
        let mut own = 0;
        for i in 0..BINS_OF_LANE {
            own += shared.bin(top - i).read();
        }
        let mut through = own;
        let mut apart = 1;
        while apart < opaque(thread::WARP_THREADS) {
            let before = warp::shfl_up(warp::FULL_MASK, through, apart);
            through += if lane >= apart { before } else { 0 };
            apart *= 2;
        }
        let mut above = through - own;
        for i in 0..BINS_OF_LANE {
            let count = shared.bin(top - i).read();
            if above < wanted && wanted <= above + count {
                shared.found().write([top - i, above, count]);
            }
            above += count;
        }
    }
}
