//! Runs random programs of asynchronous work on the emulator under several seeds, and on the GPU if
//! there is one, and compares the answers:
//!
//! ```sh
//! cargo run --release -p warpsmith-tests --example asynchronous -- FIRST COUNT [SEEDS]
//! ```
//!
//! `WARPSMITH_SHARD=3/16` runs the fourth of sixteen shares, so that several processes can divide
//! the work: the driver compiles the modules of a process one by one. The exit status is 1 if
//! anything differs or fails.

use std::collections::BTreeMap;
use std::time::Instant;

use warpsmith::{Device, Error};
use warpsmith_emulator::EmulatorConfig;
use warpsmith_tests::differential::asynchronous::{self, Program};
use warpsmith_tests::differential::engine::MODULE;

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let (first, count, seeds) = match numbers[..] {
        [first, count] => (first, count, 2),
        [first, count, seeds] => (first, count, seeds),
        _ => {
            eprintln!("usage: asynchronous FIRST COUNT [SEEDS]");
            std::process::exit(2)
        }
    };
    let gpu = match Device::gpu(0) {
        Ok(device) => Some(device),
        Err(Error::Device(error)) => {
            println!("emulator only: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    };
    let (index, of) = shard();
    let (mut programs, mut failures) = (0, 0);
    let mut steps = BTreeMap::new();
    let start = Instant::now();
    let modules = (first..first + count).step_by(MODULE).enumerate();
    for (_, from) in modules.filter(|(at, _)| at % of == index) {
        let seeds_of = from..(from + MODULE as u64).min(first + count);
        let all: Vec<Program> = seeds_of.map(asynchronous::generate).collect();
        programs += all.len();
        for step in all.iter().flat_map(|program| &program.steps) {
            *steps.entry(*step).or_insert(0_usize) += 1;
        }
        failures += judge(&all, seeds, gpu.as_ref());
    }
    let seconds = start.elapsed().as_secs();
    let device = gpu.map_or("the emulator".to_owned(), |gpu| {
        format!("the emulator and {gpu}")
    });
    println!("{programs} programs on {device}, {seeds} seeds: {failures} failures, {seconds} s");
    println!("steps: {steps:?}");
    std::process::exit(i32::from(failures != 0));
}

/// Compares the answers to the programs of a module. Returns the number of failures.
fn judge(programs: &[Program], seeds: u64, gpu: Option<&Device>) -> usize {
    let emulators = (0..seeds).map(|seed| {
        let config = EmulatorConfig {
            seed: seed.wrapping_mul(programs[0].seed + 1),
            threads: Some(1),
            ..EmulatorConfig::default()
        };
        Device::emulator_with(config)
            .map(|device| (format!("the emulator under seed {seed}"), device))
    });
    let emulators: Vec<_> = emulators
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{error}"));
    let gpus = gpu.map(|gpu| (gpu.name().to_owned(), gpu.clone()));
    let mut failures = 0;
    let mut right: Option<Vec<Option<Vec<u64>>>> = None;
    for (name, device) in gpus.into_iter().chain(emulators) {
        // One by one if one of a module fails.
        let answers = match asynchronous::run(&device, programs) {
            Ok(answers) => answers.into_iter().map(Some).collect(),
            Err(error) => {
                println!("programs from {} on {name}: {error}", programs[0].seed);
                let alone = |program| alone(&device, &name, program, &mut failures);
                programs.iter().map(alone).collect()
            }
        };
        let Some(want) = &right else {
            right = Some(answers);
            continue;
        };
        for (program, (answer, want)) in programs.iter().zip(answers.iter().zip(want)) {
            let (Some(answer), Some(want)) = (answer, want) else {
                continue;
            };
            let mut both = answer.iter().zip(want).enumerate();
            if let Some((word, (one, other))) = both.find(|(_, (one, other))| one != other) {
                failures += 1;
                println!(
                    "program {}: word {word}: {name} gives {one:#x}, not {other:#x}",
                    program.seed
                );
            }
        }
    }
    failures
}

fn alone(device: &Device, name: &str, program: &Program, failures: &mut usize) -> Option<Vec<u64>> {
    match asynchronous::run(device, std::slice::from_ref(program)) {
        Ok(mut answers) => answers.pop(),
        Err(error) => {
            *failures += 1;
            println!("program {} on {name}: {error}", program.seed);
            None
        }
    }
}

/// The index of this process's share of the work, and the number of shares.
fn shard() -> (usize, usize) {
    let text = std::env::var("WARPSMITH_SHARD").unwrap_or("0/1".to_owned());
    let parsed = text.split_once('/');
    let parsed = parsed.and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
    parsed.unwrap_or_else(|| panic!("WARPSMITH_SHARD is `{text}`, want 0/16 to 15/16, say"))
}
