//! Random programs of asynchronous work: the same bits under several seeds of the emulator, and on
//! every device. The example `asynchronous` runs more of them.

use warpsmith::{Device, testing};
use warpsmith_emulator::EmulatorConfig;
use warpsmith_tests::differential::asynchronous::{self, Program};

/// Number of programs.
const PROGRAMS: u64 = 16;

#[test]
fn asynchronous_programs_give_the_same_bits_under_all_seeds_and_on_all_devices() {
    let programs: Vec<Program> = (0..PROGRAMS).map(asynchronous::generate).collect();
    let seeded = (1..4).map(|seed| {
        let config = EmulatorConfig {
            seed,
            ..EmulatorConfig::default()
        };
        Device::emulator_with(config).expect("there is always an emulator")
    });
    let mut right: Option<Vec<Vec<u64>>> = None;
    for device in testing::devices().into_iter().chain(seeded) {
        let answers = asynchronous::run(&device, &programs);
        let answers = answers.unwrap_or_else(|error| panic!("{device}: {error}"));
        let want = right.get_or_insert_with(|| answers.clone());
        for (program, (answer, want)) in programs.iter().zip(answers.iter().zip(&*want)) {
            assert!(answer == want, "program {} on {device}", program.seed);
        }
    }
}

#[test]
fn asynchronous_programs_use_all_kinds_of_steps() {
    let programs: Vec<Program> = (0..64).map(asynchronous::generate).collect();
    let has = |step| programs.iter().any(|program| program.steps.contains(&step));
    for step in [
        "cp.async",
        "bulk load",
        "tensor load",
        "multicast",
        "st.async",
        "copy across",
        "bulk store",
        "tensor store",
        "read output",
        "remote read",
        "remote write",
        "remote atomic",
        "pipeline",
        "loop",
    ] {
        assert!(has(step), "{step}");
    }
    assert_eq!(programs[3].ptx, asynchronous::generate(3).ptx);
    assert_ne!(programs[3].ptx, programs[4].ptx);
}
