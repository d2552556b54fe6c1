//! The look-back: how many elements of earlier tiles have a digit, from what their blocks have published.
//!
//! A published word has a number of 32 bits below its state, which says what it is and in which pass.
//! Words of earlier passes are older states, so they need not be cleared.

use abi::sort::{DIGIT_BITS, DIGITS, TICKETS};
use cuda_std::atomic::{ld_relaxed_gpu_u64, st_relaxed_gpu_u64};

/// The words of a digit in the tiles of a row.
pub(super) struct Words {
    first: *mut u64,
    /// The state of a tile's own count; the next one is that of all tiles up to it.
    own: u32,
}

impl Words {
    /// Those of digit `digit`, of the row whose first tile is `tile` of the launch, in the pass of the
    /// digit at bit `shift`.
    #[inline(always)]
    pub(super) fn of(status: *mut u64, tile: u32, digit: u32, shift: u32) -> Self {
        let word = u64::from(tile) * u64::from(DIGITS) + u64::from(digit);
        Self {
            first: status.wrapping_add(TICKETS).wrapping_add(word as usize),
            own: 2 * (shift / DIGIT_BITS) + 1,
        }
    }

    #[inline(always)]
    fn at(&self, tile: u32) -> *mut u64 {
        let word = u64::from(tile) * u64::from(DIGITS);
        self.first.wrapping_add(word as usize)
    }

    /// # Safety
    /// The word is this thread's to publish.
    #[inline(always)]
    unsafe fn publish(&self, tile: u32, state: u32, count: u32) {
        let word = u64::from(state) << 32 | u64::from(count);
        // SAFETY: passed on to the caller.
        unsafe { st_relaxed_gpu_u64(self.at(tile), word) };
    }

    /// Publishes the count of tile `tile` of the row, and returns how many the earlier ones have.
    ///
    /// # Safety
    /// One thread of the tile's block calls this, once. The blocks of all earlier tiles have begun, and
    /// call it.
    #[inline(always)]
    pub(super) unsafe fn before(&self, tile: u32, count: u32) -> u32 {
        let all = self.own + 1;
        // SAFETY: this tile's word is published, and earlier ones are read.
        unsafe {
            if tile == 0 {
                self.publish(0, all, count);
                return 0;
            }
            self.publish(tile, self.own, count);
            let (mut sum, mut earlier) = (0, tile - 1);
            loop {
                let word = ld_relaxed_gpu_u64(self.at(earlier));
                let state = (word >> 32) as u32;
                if state >= self.own {
                    sum += word as u32;
                    if state == all {
                        break;
                    }
                    earlier -= 1;
                }
            }
            self.publish(tile, all, sum + count);
            sum
        }
    }
}
