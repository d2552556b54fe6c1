//! Allocations at given addresses, and the resources of kernels.

use warpsmith_emulator::{Emulator, EmulatorConfig, LaunchConfig, MemoryError};

const DOUBLE: &str = "
    .version 8.0
    .target sm_90
    .address_size 64
    .visible .entry double(.param .u64 data) .maxntid 64, 1, 1 .reqnctapercluster 2, 1, 1 {
        .reg .u64 %a; .reg .u32 %v;
        .shared .align 4 .b8 tile[512];
        ld.param.u64 %a, [data];
        ld.global.u32 %v, [%a];
        add.u32 %v, %v, %v;
        st.global.u32 [%a], %v;
        ret;
    }";

#[test]
fn kernels_use_memory_at_an_address_of_the_caller() {
    let emulator = Emulator::new(EmulatorConfig {
        memory_bytes: 1 << 20,
        ..EmulatorConfig::default()
    });
    emulator.place_from(0x1000_0000_0000);
    let above = emulator.alloc(16).expect("there is room");
    assert_eq!(above, 0x1000_0000_0000);
    let shared = 0x5600_0000_0010;
    emulator.alloc_at(shared, 4096).expect("nothing is there");
    for (address, bytes) in [(shared, 1), (shared - 1, 2), (shared + 4095, 9), (above, 1)] {
        assert_eq!(
            emulator.alloc_at(address, bytes),
            Err(MemoryError::Occupied { address, bytes })
        );
    }
    assert!(matches!(
        emulator.alloc_at(u64::MAX, 2),
        Err(MemoryError::Occupied { .. })
    ));
    assert!(matches!(
        emulator.alloc_at(shared + 8192, 1 << 20),
        Err(MemoryError::OutOfMemory { .. })
    ));
    let module = emulator.load(DOUBLE).expect("it loads");
    emulator
        .write(shared + 8, &[7, 0, 0, 0])
        .expect("in bounds");
    let two_blocks = LaunchConfig {
        grid: [2, 1, 1],
        block: [1, 1, 1],
        shared_bytes: 0,
        cluster: None,
    };
    // Both blocks double the same word, which is a race.
    let address = (shared + 8).to_le_bytes();
    let report = emulator.launch(&module, "double", &two_blocks, &[&address]);
    let race = report.expect_err("it is a race").to_string();
    assert!(race.contains("race"), "{race}");
    emulator.free(shared).expect("it is live");
    emulator.alloc_at(shared, 8).expect("it is free again");
    let mut out = [1; 8];
    emulator.read(shared, &mut out).expect("in bounds");
    assert_eq!(out, [0; 8]);
}

#[test]
fn a_module_tells_what_its_kernels_need() {
    let emulator = Emulator::new(EmulatorConfig::default());
    let module = emulator.load(DOUBLE).expect("it loads");
    assert_eq!(module.resources("triple"), None);
    let found = module.resources("double").expect("it is there");
    assert_eq!((found.max_threads, found.shared_bytes), (Some(64), 512));
    assert_eq!(found.cluster, Some([2, 1, 1]));
    assert!(found.registers >= 1 && found.registers_are_estimated);
    let occupancy = found.occupancy(64, 100 << 10);
    assert_eq!((occupancy.blocks, occupancy.warps), (2, 4));
}
