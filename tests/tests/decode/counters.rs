//! The emulator's counters: how often weights are read, and bank conflicts.

use half::bf16;
use warpsmith_tests::profiled;

use super::launch::{Case, Way};
use super::{integer, run, tiles};

#[test]
fn weights_are_read_once_and_no_bank_twice() {
    let device = profiled();
    for tile in tiles() {
        let tiles = match tile.way {
            Way::Sm80(_) => 2,
            Way::Sm90(tiling) => 2 * tiling.sharers,
        };
        let case = Case {
            m: tile.way.tile_m(),
            n: tiles * tile.way.tile_n(),
            k: 1024,
            ..tile
        };
        run::<bf16, bf16>(&device, &case, |p| integer(1, p), |p| integer(2, p));
        let launch = device.last_launch().expect("a launch");
        let counters = launch.counters();
        let bytes = |rows: u32| u64::from(rows) * u64::from(case.k) * 2;
        let (of_a, of_b) = (bytes(case.m), bytes(case.n));
        // A is loaded for each tile along n. Multicast copies are counted at each destination.
        let of_all = of_b + u64::from(tiles) * of_a;
        assert_eq!(counters.global.copies_in.bytes, of_all, "{case:?}");
        assert!(counters.global.distinct_read >= of_a + of_b, "{case:?}");
        // Sums are read four at a time: if a row does not fill whole rounds of banks, some reads
        // span two rows.
        if case.way.tile_n().is_multiple_of(32) {
            assert_eq!(counters.shared.bank_conflicts, 0, "{case:?}");
        }
    }
}
