//! What the emulator counts: how often weights are read, and bank conflicts.

use half::bf16;
use warpsmith::Device;
use warpsmith::emulator::EmulatorConfig;

use super::launch::Case;
use super::{integer, run, tiles};

#[test]
fn weights_are_read_once_and_no_bank_twice() {
    let config = EmulatorConfig {
        profile: true,
        ..EmulatorConfig::default()
    };
    let device = Device::emulator_with(config).expect("an emulator");
    for tile in tiles() {
        let case = Case {
            m: tile.config.tile_m,
            n: 2 * tile.config.tile_n,
            k: 8 * tile.config.tile_k,
            ..tile
        };
        run::<bf16, bf16>(&device, &case, |p| integer(1, p), |p| integer(2, p));
        let launch = device.last_launch().expect("a launch");
        let counters = launch.counters();
        let bytes = |rows: u32| u64::from(rows) * u64::from(case.k) * 2;
        let (of_a, of_b) = (bytes(case.m), bytes(case.n));
        // Each of the two tiles along n reads A.
        assert_eq!(counters.global.copies_in.bytes, of_b + 2 * of_a, "{case:?}");
        assert!(counters.global.distinct_read >= of_a + of_b, "{case:?}");
        assert_eq!(counters.shared.bank_conflicts, 0, "{case:?}");
    }
}
