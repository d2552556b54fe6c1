//! The launches of a file under one or more seeds.

use anyhow::Result;
use warpsmith::Device;
use warpsmith_emulator::FaultKind;

use super::{Ran, Trial, device};
use crate::failure::{Allowed, Reproduce, fault_of};
use crate::progress::{Bar, Spinner};

/// The results of the runs.
pub(super) struct Schedules {
    /// The run with the first seed.
    pub(super) first: Ran,
    /// Number of seeds.
    pub(super) count: u64,
    /// Positions of the buffers that differ between seeds, with the first seed that differs.
    pub(super) differing: Vec<(usize, u64)>,
    /// With `--explore`: whether all orders were tried.
    pub(super) explored: Option<bool>,
}

/// Adds the buffers that differ from those of the first run.
pub(super) fn compare(first: &Ran, other: &Ran, name: u64, differing: &mut Vec<(usize, u64)>) {
    for (position, (one, another)) in first.contents.iter().zip(&other.contents).enumerate() {
        if one != another && differing.iter().all(|(known, _)| *known != position) {
            differing.push((position, name));
        }
    }
}

/// Runs the trial under every seed; `first` is the device for the first seed.
pub(super) fn run(trial: &Trial<'_>, first: Device) -> Result<Schedules> {
    let args = trial.args;
    let count = args.schedules.unwrap_or(1);
    let launches = trial.description.launches.iter();
    let kernels: Vec<&str> = launches.map(|launch| launch.kernel.as_str()).collect();
    let what = format!("{} on {first}", kernels.join(", "));
    // A spinner for a single run, whose duration is unknown.
    let (bar, _spinner) = match args.schedules {
        Some(count) => (Some(Bar::start(what, count)), None),
        None => (None, Some(Spinner::start(what))),
    };
    let is_checked = device::is_checked(args);
    let attempt = |seed: u64, device: Device| {
        let ran = trial.run(device).map_err(|error| {
            let Some(fault) = fault_of(&error) else {
                return error;
            };
            let is_over = fault.kind == FaultKind::InstructionBudget;
            let error = match is_over {
                true => error.context(Allowed(device::budget(args))),
                false => error,
            };
            match is_checked {
                true => error.context(reproduce(trial, seed, count)),
                false => error,
            }
        });
        bar.iter().for_each(Bar::step);
        ran
    };
    let first = attempt(args.seed, first)?;
    let mut differing: Vec<(usize, u64)> = Vec::new();
    for offset in 1..count {
        let seed = args.seed.wrapping_add(offset);
        let other = attempt(seed, device::open(args, seed, &device::Parts::default())?)?;
        compare(&first, &other, seed, &mut differing);
    }
    Ok(Schedules {
        first,
        count,
        differing,
        explored: None,
    })
}

/// The options that reproduce a fault.
fn reproduce(trial: &Trial<'_>, seed: u64, count: u64) -> Reproduce {
    let args = trial.args;
    let mut options = Vec::new();
    if args.check || args.schedules.is_some() {
        options.push("--check".to_owned());
    }
    if args.keep_going {
        options.push("--keep-going".to_owned());
    }
    let ignored = args.ignore.iter();
    options.extend(ignored.map(|ignore| format!("--ignore {}", ignore.text)));
    if let Some(budget) = args.instruction_budget {
        options.push(format!("--instruction-budget {budget}"));
    }
    options.push(format!("--seed {seed}"));
    let fill_seed = args.fill_seed.unwrap_or(args.seed);
    let is_filled = trial
        .description
        .buffers
        .iter()
        .any(|buffer| buffer.seed.is_none() && buffer.fill.is_random());
    if fill_seed != seed && is_filled {
        options.push(format!("--fill-seed {fill_seed}"));
    }
    Reproduce {
        seed,
        ran: seed.wrapping_sub(args.seed) + 1,
        count,
        options: options.join(" "),
    }
}
