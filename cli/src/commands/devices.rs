//! `warpsmith devices`

use std::io::Write;

use anyhow::Result;
use serde_json::json;
use warpsmith::{DeviceInfo, DeviceKind};

use crate::failure::Outcome;
use crate::output::Output;

/// List the devices that kernels can run on.
///
/// The first column is the name that `--device` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith devices
  warpsmith devices --json | jq -r .device")]
pub(crate) struct Args {
    /// Print each device as one line of JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    let devices = warpsmith::devices()?;
    if !args.json {
        writeln!(
            output,
            "{:<10} {:<28} {:<8} {:>10} {:>5}  driver",
            "device", "name", "arch", "memory", "SMs"
        )?;
    }
    for device in &devices {
        if args.json {
            writeln!(output, "{}", as_json(device))?;
        } else {
            writeln!(output, "{}", as_row(device).trim_end())?;
        }
    }
    Ok(Outcome::Done)
}

fn as_row(device: &DeviceInfo) -> String {
    let (major, minor) = device.arch;
    let is_emulator = device.kind == DeviceKind::Emulator;
    let driver = match device.driver_version {
        Some((major, minor)) => format!("CUDA {major}.{minor}"),
        None => "none needed".into(),
    };
    format!(
        "{:<10} {:<28} {:<8} {:>6} GiB {:>5}  {driver}",
        device.kind.to_string(),
        device.name,
        format!("sm_{major}{minor}"),
        device.memory_bytes >> 30,
        if is_emulator {
            "-".into()
        } else {
            device.multiprocessors.to_string()
        },
    )
}

fn as_json(device: &DeviceInfo) -> serde_json::Value {
    let (major, minor) = device.arch;
    json!({
        "device": device.kind.to_string(),
        "name": device.name,
        "arch": format!("sm_{major}{minor}"),
        "memory_bytes": device.memory_bytes,
        "multiprocessors": device.multiprocessors,
        "l2_bytes": device.l2_bytes,
        "max_threads_per_block": device.max_threads_per_block,
        "max_shared_bytes_per_block": device.max_shared_bytes_per_block,
        "driver": device.driver_version.map(|(major, minor)| format!("{major}.{minor}")),
    })
}
