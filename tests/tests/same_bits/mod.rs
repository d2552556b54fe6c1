//! The same PTX gives the same bits on every device. Each embedded kernel is launched directly, on
//! random shapes, strides and values, including NaN and infinities.
//!
//! With an emulator and a GPU (`WARPSMITH_TEST_DEVICE=all`) all buffers are compared byte for byte
//! after the launches of a case; with one device, each kernel still runs under its checks. The test
//! prints a table: `cargo test -p warpsmith-tests same_bits:: -- --nocapture`.

mod attending;
mod backward;
mod cases;
mod catalogue;
mod double;
mod elementwise;
mod gather;
mod grouped;
mod integer;
mod products;
mod rotary;
mod rows;
mod scatter;
mod topk;
mod trial;

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use warpsmith::Device;
use warpsmith::testing::devices;
use warpsmith_tests::say;

use catalogue::{Family, catalogue};
use trial::Trial;

/// Environment variable with the number of cases per kernel.
const CASES: &str = "WARPSMITH_SAME_BITS_CASES";

#[derive(Default)]
struct Row {
    cases: usize,
    bytes: usize,
    mismatches: usize,
}

#[test]
fn every_kernel_gives_the_same_bits_on_every_device() {
    let devices = devices();
    let cases = match std::env::var(CASES) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{CASES} is `{text}`, want a number")),
        Err(_) => 3,
    };
    let known = catalogue();
    let manifest = warpsmith::builtin_manifest().expect("the embedded manifest");
    let kernels: Vec<&str> = manifest
        .modules
        .iter()
        .flat_map(|module| module.kernels.iter().map(|kernel| kernel.name.as_str()))
        .collect();
    assert!(!kernels.is_empty(), "this build embeds no kernels");
    let outcomes = kernels.par_iter().map(|&kernel| {
        let Some(family) = known.get(kernel) else {
            panic!("no case is made for kernel `{kernel}`: add it to the catalogue");
        };
        run(kernel, family, cases, &devices)
    });
    let outcomes: Vec<(Row, Vec<String>)> = outcomes.collect();
    let (rows, faults): (Vec<_>, Vec<_>) = outcomes.into_iter().unzip();
    let table: BTreeMap<&str, Row> = kernels.into_iter().zip(rows).collect();
    let faults = faults.concat();
    print(&table, &devices);
    assert!(
        faults.is_empty(),
        "{} launches failed:\n{}",
        faults.len(),
        faults.join("\n")
    );
    let wrong: Vec<&&str> = table
        .iter()
        .filter(|(_, row)| row.mismatches > 0)
        .map(|(kernel, _)| kernel)
        .collect();
    assert!(
        wrong.is_empty(),
        "{} kernels differ: {wrong:?}",
        wrong.len()
    );
}

/// Runs `cases` cases of a kernel. Returns its row of the table, and the launches that failed.
fn run(kernel: &str, family: &Family, cases: usize, devices: &[Device]) -> (Row, Vec<String>) {
    let (mut row, mut faults) = (Row::default(), Vec::new());
    for case in 0..cases {
        // The same cases every time; more cases add new ones.
        let seed = case as u64 * 1_000_003 + kernel.bytes().map(u64::from).sum::<u64>();
        let trial = family.trial(&mut ChaCha8Rng::seed_from_u64(seed));
        match compare(&trial, devices) {
            Ok((bytes, mismatches)) => {
                row.cases += 1;
                row.bytes += bytes;
                if !family.approximates() {
                    row.mismatches += mismatches;
                }
            }
            Err(fault) => faults.push(format!("{kernel}, case {case}: {fault}")),
        }
    }
    (row, faults)
}

#[test]
fn kernels_of_others_give_the_same_on_every_device() {
    let devices = devices();
    let mut faults = Vec::new();
    for case in cases::cases() {
        let able = devices.iter().filter(|device| device.arch() >= case.arch);
        let mut first: Option<Vec<Vec<u8>>> = None;
        for device in able {
            let buffers = match case.trial.run(device) {
                Ok(buffers) => buffers,
                Err(error) => {
                    faults.push(format!("{} on {device}: {}", case.name, say(error)));
                    continue;
                }
            };
            let Some(first) = &first else {
                first = Some(buffers);
                continue;
            };
            for (number, (x, y)) in first.iter().zip(&buffers).enumerate() {
                let wrong = case.tolerance.mismatches(number, x, y);
                let bits = x.iter().zip(y).filter(|(x, y)| x != y).count();
                println!(
                    "{:<16} buffer {number}: {} bytes, {bits} differ",
                    case.name,
                    x.len()
                );
                if wrong > 0 {
                    let tolerance = case.tolerance;
                    faults.push(format!(
                        "{}, buffer {number}: {wrong} differ on {device} ({tolerance:?})",
                        case.name
                    ));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Number of bytes compared, and how many differ from the first device's.
fn compare(trial: &Trial, devices: &[Device]) -> Result<(usize, usize), String> {
    let mut first: Option<Vec<Vec<u8>>> = None;
    let (mut bytes, mut mismatches) = (0, 0);
    for device in devices {
        let buffers = trial
            .run(device)
            .map_err(|error| format!("on {device}: {}", say(error)))?;
        match &first {
            None => first = Some(buffers),
            Some(first) => {
                for (x, y) in first.iter().zip(&buffers) {
                    bytes += x.len();
                    mismatches += x.iter().zip(y).filter(|(x, y)| x != y).count();
                }
            }
        }
    }
    Ok((bytes, mismatches))
}

fn print(table: &BTreeMap<&str, Row>, devices: &[Device]) {
    let names: Vec<String> = devices.iter().map(Device::to_string).collect();
    println!("\nSame bits on {}", names.join(" and "));
    println!(
        "{:<36} {:>6} {:>12} {:>16}",
        "kernel", "cases", "bytes", "bytes that differ"
    );
    let mut total = Row::default();
    for (kernel, row) in table {
        println!(
            "{kernel:<36} {:>6} {:>12} {:>16}",
            row.cases, row.bytes, row.mismatches
        );
        total.cases += row.cases;
        total.bytes += row.bytes;
        total.mismatches += row.mismatches;
    }
    let name = format!("{} kernels", table.len());
    println!(
        "{name:<36} {:>6} {:>12} {:>16}",
        total.cases, total.bytes, total.mismatches
    );
    if devices.len() == 1 {
        println!("One device: nothing was compared. Set WARPSMITH_TEST_DEVICE=all.");
    }
}
