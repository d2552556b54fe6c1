//! The launch of a file in each order that may differ from the others.

use anyhow::Result;
use warpsmith::Device;
use warpsmith_emulator::Explorer;

use super::schedules::{Schedules, compare};
use super::{Trial, device};
use crate::failure::{Reproduce, fault_of};
use crate::progress::Spinner;

/// Runs the trial in one order after another; `device` is for the first.
pub(super) fn run(trial: &Trial<'_>, device: Device, explorer: &Explorer) -> Result<Schedules> {
    let args = trial.args;
    let most = args.explore.unwrap_or(1);
    let _spinner = Spinner::start(format!("exploring on {device}"));
    let parts = device::Parts {
        explorer: Some(explorer.clone()),
        ..device::Parts::default()
    };
    let attempt = |device: Device| {
        trial.run(device).map_err(|error| match fault_of(&error) {
            None => error,
            Some(_) => error.context(Reproduce {
                seed: 0,
                ran: explorer.orders() + 1,
                count: 1,
                options: format!("--explore={most}"),
            }),
        })
    };
    let first = attempt(device)?;
    let mut differing = Vec::new();
    while !explorer.is_complete() && explorer.orders() < most {
        let other = attempt(device::open(args, 0, &parts)?)?;
        if !explorer.was_cut_off() {
            compare(&first, &other, explorer.orders(), &mut differing);
        }
    }
    Ok(Schedules {
        first,
        count: explorer.orders(),
        differing,
        explored: Some(explorer.is_complete()),
    })
}
