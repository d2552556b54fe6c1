//! The same PTX gives the same bits on every device.
//!
//! Each case of the corpus runs on an emulator, under capture. Its launches are repeated on the
//! GPU, if tests run on one, and on an emulator with another schedule. All results are compared
//! byte for byte. The test prints a table by kernel: `cargo test -p warpsmith-tests same_bits:: --
//! --nocapture`.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::testing::{Capture, Step, devices};
use warpsmith::{Device, Tensor};
use warpsmith_tests::corpus::{self, Case, Tolerance};
use warpsmith_tests::say;

/// Environment variable with the number of seeds of each case.
const SEEDS: &str = "WARPSMITH_SAME_BITS_CASES";

/// Environment variable with a part of the names of the cases that run; all if it is not set.
const ONLY: &str = "ONLY";

/// Kernels that no operation launches, with the reason.
const NEVER_LAUNCHED: [(&str, &str); 0] = [];

/// What was compared.
#[derive(Default)]
struct Row {
    results: usize,
    bytes: usize,
    mismatches: usize,
}

/// Rows of the table by kernel, and what failed.
type Outcome = (BTreeMap<String, Row>, Vec<String>);

#[test]
fn every_kernel_gives_the_same_bits_on_every_device() {
    let seeds = match std::env::var(SEEDS) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{SEEDS} is `{text}`, want a number")),
        Err(_) => 1,
    };
    let only = std::env::var(ONLY).unwrap_or_default();
    let mut cases = corpus::cases();
    cases.retain(|case| case.name.contains(&only));
    let (table, mut faults) = compare(&cases, seeds);
    let manifest = warpsmith::builtin_manifest().expect("the embedded manifest");
    let kernels = manifest.modules.iter().flat_map(|module| &module.kernels);
    let kernels: BTreeSet<&str> = kernels.map(|kernel| kernel.name.as_str()).collect();
    let exempt = NEVER_LAUNCHED.map(|(name, _)| name);
    for kernel in kernels.iter().filter(|_| only.is_empty()) {
        match (table.contains_key(*kernel), exempt.contains(kernel)) {
            (false, false) => faults.push(format!("no case launches `{kernel}`")),
            (true, true) => faults.push(format!("`{kernel}` is launched, against the list")),
            _ => {}
        }
    }
    print(&table);
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn kernels_of_others_give_the_same_on_every_device() {
    let (table, faults) = compare(&corpus::foreign(), 1);
    print(&table);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Runs all cases with so many seeds, and what they launched on the other devices.
fn compare(cases: &[Case], seeds: u64) -> Outcome {
    let outcomes = cases.par_iter().map(|case| {
        let mut outcome = Outcome::default();
        for seed in 0..seeds {
            if let Err(fault) = run(case, seed, &mut outcome) {
                outcome
                    .1
                    .push(format!("{}, seed {seed}: {fault}", case.name));
            }
        }
        outcome
    });
    outcomes.reduce(Outcome::default, |mut all, (table, faults)| {
        for (kernel, row) in table {
            let sum = all.0.entry(kernel).or_default();
            sum.results += row.results;
            sum.bytes += row.bytes;
            sum.mismatches += row.mismatches;
        }
        all.1.extend(faults);
        all
    })
}

fn run(case: &Case, seed: u64, outcome: &mut Outcome) -> Result<(), String> {
    let one_thread = |seed| EmulatorConfig {
        threads: Some(1),
        seed,
        ..EmulatorConfig::default()
    };
    let capture = case.capture(seed, one_thread(0)).map_err(say)?;
    for launch in capture.launches() {
        outcome.0.entry(launch.entry.clone()).or_default();
    }
    let mut others = vec![Device::emulator_with(one_thread(1)).map_err(say)?];
    let gpus = devices().into_iter().filter(|device| !device.is_emulator());
    others.extend(gpus.filter(|device| runs(&capture, case, device)));
    for device in &others {
        // All buffers get other addresses than those of the capture.
        let data = vec![0_u8; 100_000];
        let _before = Tensor::from_slice(device, &[data.len()], &data).map_err(say)?;
        // SAFETY: the emulator ran the same launches on the same bytes, and checked every access.
        let got =
            unsafe { capture.replay(device) }.map_err(|error| format!("{device}: {error}"))?;
        for ((kernels, want), got) in results(&capture).iter().zip(&got) {
            // Another emulator is the same kind of device.
            let tolerance = match case.tolerance {
                _ if device.is_emulator() => Tolerance::Exact,
                Tolerance::Exact if gives_f64(case, kernels) => Tolerance::AnyNan64,
                other => other,
            };
            let differ = match tolerance {
                Tolerance::Approximate => 0,
                other => other.mismatches(want, got),
            };
            if differ > 0 {
                let last = kernels.last().copied().unwrap_or_default();
                let fault = format!(
                    "{}, seed {seed}: {last}: {differ} differ on {device}",
                    case.name
                );
                outcome.1.push(fault);
            }
            for &kernel in kernels {
                let row = outcome.0.entry(kernel.to_owned()).or_default();
                row.results += 1;
                row.bytes += want.len();
                row.mismatches += differ;
            }
        }
    }
    Ok(())
}

/// Whether results are in f64, by the names of the case and of its kernels.
fn gives_f64(case: &Case, kernels: &[&str]) -> bool {
    let says = |kernel: &&str| kernel.contains("_f64") || kernel.contains("_wide");
    case.name.contains("f64") || kernels.iter().any(says)
}

/// Whether a GPU runs what a case launched: code for one architecture runs on that one only.
fn runs(capture: &Capture, case: &Case, device: &Device) -> bool {
    let is_specific = capture
        .modules
        .iter()
        .any(|text| text.contains(".target sm_90a"));
    device.arch() >= case.arch && (!is_specific || device.arch() == (9, 0))
}

/// What the host read, each with the kernels that were launched since it read before.
fn results(capture: &Capture) -> Vec<(Vec<&str>, &[u8])> {
    let mut results: Vec<(Vec<&str>, &[u8])> = Vec::new();
    let mut launched = Vec::new();
    let mut has_read = false;
    for step in &capture.steps {
        match step {
            Step::Launch(launch) => {
                if std::mem::take(&mut has_read) {
                    launched.clear();
                }
                launched.push(launch.entry.as_str());
            }
            Step::Read(_, bytes) => {
                has_read = true;
                results.push((launched.clone(), bytes));
            }
            _ => {}
        }
    }
    results
}

fn print(table: &BTreeMap<String, Row>) {
    let head = ["kernel", "results", "bytes", "that differ"];
    println!(
        "{:<52} {:>8} {:>12} {:>12}",
        head[0], head[1], head[2], head[3]
    );
    for (kernel, row) in table {
        let Row {
            results,
            bytes,
            mismatches,
        } = row;
        println!("{kernel:<52} {results:>8} {bytes:>12} {mismatches:>12}");
    }
    println!("{} kernels", table.len());
}
