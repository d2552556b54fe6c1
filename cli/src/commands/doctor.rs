//! `warpsmith doctor`

use std::io::Write;

use anyhow::Result;
use cuda_builder::toolchain::{DeviceToolchain, PINNED_RUST, Ptxas, ToolchainError};
use serde::Serialize;
use warpsmith::{Device, DeviceError, Error};

use crate::failure::Outcome;
use crate::output::Output;

/// Report what is installed on this machine, and how to install what is missing.
///
/// The emulator needs only the PTX of the kernels. Running on a GPU needs a driver and a GPU.
/// Compiling your own kernels needs the device toolchain. The exit status is 1 if something is
/// installed but broken, and 0 if something is only missing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith doctor
  warpsmith doctor --json | jq 'select(.state != \"found\")'")]
pub(crate) struct Args {
    /// Print each line as JSON.
    #[arg(long)]
    json: bool,
}

/// One component that was looked for.
#[derive(Debug, Serialize)]
struct Check {
    what: &'static str,
    state: State,
    detail: String,
    /// What it is for, and the command that installs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Found,
    Missing,
    Broken,
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    let mut checks = vec![emulator(), kernels(), gpu()];
    checks.extend(toolchain());
    checks.push(ptxas());
    for check in &checks {
        if args.json {
            writeln!(output, "{}", serde_json::to_string(check)?)?;
            continue;
        }
        let mark = match check.state {
            State::Found => "found  ",
            State::Missing => "missing",
            State::Broken => "BROKEN ",
        };
        writeln!(
            output,
            "{mark}  {:<16} {}",
            check.what,
            check.detail.replace('\n', "\n        ")
        )?;
        for line in check.remedy.iter().flat_map(|remedy| remedy.lines()) {
            writeln!(output, "         {:<16} {line}", "")?;
        }
    }
    let broken = checks.iter().any(|check| check.state == State::Broken);
    Ok(if broken {
        Outcome::FoundFaults
    } else {
        Outcome::Done
    })
}

fn found(what: &'static str, detail: String) -> Check {
    Check {
        what,
        state: State::Found,
        detail,
        remedy: None,
    }
}

fn emulator() -> Check {
    match Device::emulator() {
        Ok(device) => found("emulator", device.to_string()),
        Err(error) => Check {
            what: "emulator",
            state: State::Broken,
            detail: error.to_string(),
            remedy: Some("build warpsmith with its default features".into()),
        },
    }
}

fn kernels() -> Check {
    let what = "built-in kernels";
    match warpsmith::builtin_manifest() {
        Ok(manifest) => {
            let kernels: usize = manifest
                .modules
                .iter()
                .map(|module| module.kernels.len())
                .sum();
            let detail = format!(
                "{kernels} in {} modules, built by rustc {} and LLVM {}",
                manifest.modules.len(),
                manifest.toolchain.rustc,
                manifest.toolchain.llvm
            );
            found(what, detail)
        }
        Err(error) => Check {
            what,
            state: State::Broken,
            detail: error.to_string(),
            remedy: Some("build warpsmith from a complete checkout: ptx/ is part of it".into()),
        },
    }
}

fn gpu() -> Check {
    let what = "driver and GPU";
    let device = Device::gpu(0);
    let error = match device {
        Ok(device) => {
            let info = device.info();
            let (major, minor) = info.driver_version.unwrap_or_default();
            let detail = format!(
                "{}, sm_{}{}, {} GiB, driver for CUDA {major}.{minor}",
                info.name,
                info.arch.0,
                info.arch.1,
                info.memory_bytes >> 30
            );
            return found(what, detail);
        }
        Err(error) => error,
    };
    let (state, remedy) = match &error {
        Error::Device(DeviceError::NoDriver { .. }) => (
            State::Missing,
            "to run on a GPU: install NVIDIA's driver, for example `apt-get install \
             nvidia-driver` (Debian)\nor `ubuntu-drivers install` (Ubuntu); without it everything \
             runs on the emulator",
        ),
        Error::Device(DeviceError::NoDevice { .. }) => (
            State::Missing,
            "the driver sees no GPU: look at `nvidia-smi` and at CUDA_VISIBLE_DEVICES",
        ),
        _ => (
            State::Broken,
            "look at `nvidia-smi`; a driver that is older than its GPU fails so",
        ),
    };
    let detail = match &error {
        // Only the detail: the full message also says how to install a driver, as the remedy does.
        Error::Device(DeviceError::NoDriver { detail }) => detail.to_string(),
        other => other.to_string(),
    };
    Check {
        what,
        state,
        detail,
        remedy: Some(remedy.into()),
    }
}

fn toolchain() -> Vec<Check> {
    match DeviceToolchain::discover() {
        Ok(toolchain) => vec![
            found(
                "device toolchain",
                format!(
                    "rustc {} ({}), {}",
                    toolchain.rustc_version,
                    toolchain.origin,
                    toolchain.rustc.display()
                ),
            ),
            found(
                "LLVM tools",
                format!(
                    "{}, {}",
                    toolchain.llvm_version,
                    toolchain.llvm_bin.display()
                ),
            ),
        ],
        Err(ToolchainError::NoToolchain { rejected }) => {
            let looked: Vec<String> = rejected.iter().map(ToString::to_string).collect();
            vec![Check {
                what: "device toolchain",
                state: State::Missing,
                detail: format!(
                    "no rustc {PINNED_RUST} or newer with library sources and LLVM tools of its \
                     version; looked at: {}",
                    looked.join("; ")
                ),
                remedy: Some(format!(
                    "to compile kernels of your own, one of these:\n\
                     rustup toolchain install {PINNED_RUST} --profile minimal -c rust-src -c \
                     llvm-tools\n\
                     apt-get install cargo-web rustc-web rust-web-src llvm-22   (Debian)"
                )),
            }]
        }
        Err(error) => vec![Check {
            what: "device toolchain",
            state: State::Broken,
            detail: error.to_string(),
            remedy: None,
        }],
    }
}

fn ptxas() -> Check {
    let what = "ptxas";
    match Ptxas::discover() {
        Ok(ptxas) => found(what, format!("{}, {}", ptxas.version, ptxas.path.display())),
        Err(error) => Check {
            what,
            state: State::Missing,
            detail: match error {
                ToolchainError::NoPtxas { rejected } => rejected.to_string(),
                other => other.to_string(),
            },
            remedy: Some(
                "optional, checks compiled kernels for spills; needs no GPU:\n\
                 python3 -m pip install nvidia-cuda-nvcc\n\
                 (Debian's Python wants an environment for it, active then and when this runs:\n\
                 python3 -m venv ptxas && . ptxas/bin/activate)"
                    .into(),
            ),
        },
    }
}
