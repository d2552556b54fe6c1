//! The device that the options select.

use std::io;

use anyhow::Result;
use warpsmith::Device;
use warpsmith_emulator::{Checks, EmulatorConfig, Output};

use super::Args;
use crate::failure::UsageError;

/// The selected device; the emulator gets this seed. With options that only the emulator supports,
/// `auto` means the emulator.
pub(super) fn open(args: &Args, seed: u64) -> Result<Device> {
    let wanted = [
        (args.check, "--check"),
        (args.schedules.is_some(), "--schedules"),
        (args.profile, "--profile"),
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
        checks: match args.check || args.schedules.is_some() {
            true => Checks::ALL,
            false => Checks::NONE,
        },
        profile: args.profile,
        ..EmulatorConfig::default()
    };
    if args.json {
        // The kernel's own output must not mix with the JSON on stdout.
        config.output = Output::to(io::stderr());
    }
    Ok(Device::emulator_with(config)?)
}
