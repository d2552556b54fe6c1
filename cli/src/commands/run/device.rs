//! The device that the options select.

use std::io;
use std::time::Duration;

use anyhow::Result;
use warpsmith::Device;
use warpsmith_emulator::trace::Trace;
use warpsmith_emulator::{Checks, EmulatorConfig, Explorer, Output};

use super::Args;
use crate::failure::UsageError;

/// Most instructions of a block's warps unless the options say otherwise. An endless loop ends
/// within half a minute.
const USUAL_BUDGET: u64 = 1_000_000_000;

/// Most instructions that a block's warps may run on the emulator.
pub(super) fn budget(args: &Args) -> u64 {
    args.instruction_budget.unwrap_or(USUAL_BUDGET)
}

/// Whether all checks are on.
pub(super) fn is_checked(args: &Args) -> bool {
    args.check || args.schedules.is_some() || args.explore.is_some()
}

/// What the emulator's configuration shares with this program.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    pub(super) trace: Option<Trace>,
    pub(super) explorer: Option<Explorer>,
}

/// The selected device; the emulator gets this seed. With options that only the emulator supports,
/// `auto` means the emulator.
pub(super) fn open(args: &Args, seed: u64, parts: &Parts) -> Result<Device> {
    let wanted = [
        (args.check, "--check"),
        (args.schedules.is_some(), "--schedules"),
        (args.explore.is_some(), "--explore"),
        (args.keep_going, "--keep-going"),
        (!args.ignore.is_empty(), "--ignore"),
        (args.instruction_budget.is_some(), "--instruction-budget"),
        (args.profile, "--profile"),
        (args.trace.is_some(), "--trace"),
        (args.html.is_some(), "--html"),
    ];
    let name = match wanted.iter().find(|(is_wanted, _)| *is_wanted) {
        None => args.device.as_str(),
        Some((_, option)) => match args.device.as_str() {
            "auto" | "emulator" => "emulator",
            other => {
                let message = format!("{option} needs the emulator, and --device is {other}");
                return Err(UsageError(message).into());
            }
        },
    };
    let device = Device::from_name(name)?;
    if !device.is_emulator() {
        return Ok(device);
    }
    let mut config = EmulatorConfig {
        seed,
        checks: match is_checked(args) {
            true => Checks::ALL,
            false => Checks::QUICK,
        },
        keep_going: args.keep_going,
        ignored: args.ignore.iter().map(|ignore| ignore.ignored).collect(),
        instruction_budget: Some(budget(args)),
        timeout: Some(Duration::from_secs(args.timeout)),
        profile: args.profile || args.html.is_some(),
        trace: parts.trace.clone(),
        explorer: parts.explorer.clone(),
        ..EmulatorConfig::default()
    };
    if args.json {
        // The kernel's own output must not mix with the JSON on stdout.
        config.output = Output::to(io::stderr());
    }
    Ok(Device::emulator_with(config)?)
}
