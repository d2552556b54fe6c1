//! Bank conflicts: how many wavefronts a warp's access to shared memory takes.

use crate::exec::row::{LANES, Lanes, Row};

/// Banks of shared memory, each 4 bytes wide.
const BANKS: usize = 32;

/// Wavefronts of one access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wavefronts {
    /// Wavefronts that it takes.
    pub(super) taken: u64,
    /// Wavefronts that it would take if no bank were asked for two different words.
    pub(super) least: u64,
}

/// Wavefronts of an access of `bytes` by each lane of `mask` at its address.
pub(super) fn wavefronts(addresses: &Row<u64>, mask: u32, bytes: usize) -> Wavefronts {
    let parts = bytes.div_ceil(4).clamp(1, LANES);
    let lanes = LANES / parts;
    let mut found = Wavefronts::default();
    for part in 0..parts {
        let own = (u64::from(u32::MAX) >> (LANES - lanes)) as u32;
        let active = mask & own << (part * lanes);
        if active != 0 {
            found.taken += passes(addresses, active, bytes);
            found.least += 1;
        }
    }
    found
}

/// The largest number of different words that the lanes request from one bank.
fn passes(addresses: &Row<u64>, mask: u32, bytes: usize) -> u64 {
    // The first word requested from each bank, and all further ones. An access is split into parts
    // such that the lanes of a part request at most 32 words.
    let mut first_of = [0_u64; BANKS];
    let mut further = [0_u64; LANES];
    let mut count = 0;
    let mut in_bank = [0_u64; BANKS];
    let mut most = 0;
    for lane in Lanes(mask) {
        let first = addresses.0[lane] / 4;
        for word in first..first + bytes.div_ceil(4) as u64 {
            let bank = word as usize % BANKS;
            if in_bank[bank] == 0 {
                first_of[bank] = word;
            } else if first_of[bank] == word || further[..count].contains(&word) {
                continue;
            } else {
                further[count] = word;
                count += 1;
            }
            in_bank[bank] += 1;
            most = most.max(in_bank[bank]);
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::row::FULL_MASK;

    fn of(bytes: usize, mask: u32, address: impl Fn(u64) -> u64) -> (u64, u64) {
        let addresses = Row(std::array::from_fn(|lane| address(lane as u64)));
        let found = wavefronts(&addresses, mask, bytes);
        (found.taken, found.taken - found.least)
    }

    #[test]
    fn words_side_by_side_and_broadcasts_take_one_pass() {
        assert_eq!(of(4, FULL_MASK, |lane| 4 * lane), (1, 0));
        assert_eq!(of(4, FULL_MASK, |_| 64), (1, 0));
        assert_eq!(of(4, FULL_MASK, |lane| 4 * (31 - lane)), (1, 0));
        assert_eq!(of(1, FULL_MASK, |lane| lane), (1, 0));
        assert_eq!(of(2, FULL_MASK, |lane| 2 * lane), (1, 0));
    }

    #[test]
    fn a_stride_of_words_conflicts_by_its_power_of_two() {
        for (stride, passes) in [(1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (32, 32), (33, 1)] {
            let (taken, conflicts) = of(4, FULL_MASK, |lane| 4 * stride * lane);
            assert_eq!((taken, conflicts), (passes, passes - 1), "stride {stride}");
        }
    }

    #[test]
    fn wide_accesses_go_in_parts() {
        assert_eq!(of(8, FULL_MASK, |lane| 8 * lane), (2, 0));
        assert_eq!(of(16, FULL_MASK, |lane| 16 * lane), (4, 0));
        // Rows of 128 bytes: the eight lanes of each quarter-warp meet in the same four banks.
        assert_eq!(of(16, FULL_MASK, |lane| 128 * lane), (32, 28));
        // Lanes of a single half-warp (quarter-warp) take a single wavefront.
        assert_eq!(of(8, 0xffff, |lane| 8 * lane), (1, 0));
        assert_eq!(of(16, 0xff, |lane| 16 * lane), (1, 0));
    }

    #[test]
    fn lanes_that_are_off_do_not_count() {
        assert_eq!(of(4, 1, |lane| 128 * lane), (1, 0));
        assert_eq!(of(4, 3, |lane| 128 * lane), (2, 1));
        assert_eq!(of(4, 0, |lane| 128 * lane), (0, 0));
    }
}
