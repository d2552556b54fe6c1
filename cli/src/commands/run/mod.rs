//! `warpsmith run`

mod array;
mod description;
mod fill;
mod launch;
mod small_float;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ptx_syntax::ast::{Function, FunctionKind, Module};
use serde_json::{Value, json};
use warpsmith::{Device, DeviceBuffer};
use warpsmith_emulator::EmulatorConfig;

use super::read_text;
use crate::failure::Outcome;
use crate::output::{Output, OutputFiles};
use crate::progress::Spinner;
use description::{Buffer, Launch};

/// Launch a kernel of any PTX file, on a GPU or on the emulator.
///
/// What to launch stands in a TOML file:
///
///   kernel = "saxpy"
///   grid = [4]                # one to three extents
///   block = [256]
///   shared_bytes = 0          # dynamic shared memory; 0 if left out
///
///   [[buffer]]
///   name = "x"
///   dtype = "f32"             # f64 f32 f16 bf16 e4m3 e5m2 i8 i16 i32 i64 u8 u16 u32 u64
///   shape = [1024]
///   fill = "normal"           # see below
///   seed = 1                  # if left out: --seed plus the buffer's position
///   save = "x.npy"            # optional: written after the launch
///
///   [[arg]]                   # in the kernel's order, each with one key:
///   buffer = "x"              # a buffer's address, or a value:
///   [[arg]]                   # u32, i32, u64, i64, f32, f64, or a struct of these by value:
///   f32 = 2.0                 # struct = [{ u32 = 3 }, { f32 = 0.5 }]
///
/// Fills: `normal` (mean 0, deviation 1; floats only), `uniform` (floats in [0, 1), integers over
/// their whole range), `zeros`, `iota` (0, 1, 2, ..), `poison` (every byte 0xFF: NaN for floats),
/// or a .npy file of that shape: floats of any width for float buffers, the same type for integer
/// ones. The same fill, seed, dtype and shape give the same bytes on every device. Paths are
/// relative to the TOML file. Saved floats of 16 bits and fewer are written as f32.
///
/// Nothing is written unless everything went well.
#[derive(Debug, clap::Args)]
#[allow(rustdoc::broken_intra_doc_links)] // the text is a terminal's, TOML and not markdown
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  warpsmith run saxpy.ptx launch.toml
  warpsmith run saxpy.ptx launch.toml --device gpu:1 --json
  warpsmith run saxpy.ptx launch.toml --device emulator --seed 7"
)]
pub(crate) struct Args {
    /// The PTX file.
    #[arg(value_name = "FILE.ptx")]
    ptx: PathBuf,
    /// What to launch.
    #[arg(value_name = "launch.toml")]
    launch: PathBuf,
    /// Where to run: gpu, gpu:N, emulator, or auto (a GPU if there is one).
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    device: String,
    /// Seed of buffers without one of their own, and of what the emulator leaves to chance.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    let description = description::read(&args.launch)?;
    let text = read_text(&args.ptx)?;
    let module =
        ptx_syntax::parse(&text).with_context(|| format!("{} is not PTX", args.ptx.display()))?;
    let kernel = find(&module, &description.kernel)
        .with_context(|| format!("{}: kernel", args.launch.display()))?;
    check_args(kernel, &description).with_context(|| args.launch.display().to_string())?;
    check_places(args, &description.buffers)?;
    let device = device(args)?;
    check_memory(&device, &description.buffers)?;
    let loaded = device
        .load_ptx(&text)
        .with_context(|| args.ptx.display().to_string())?;
    let spinner = Spinner::start(format!("{} on {device}", description.kernel));
    let buffers = description
        .buffers
        .iter()
        .enumerate()
        .map(|(position, buffer)| {
            let seed = buffer
                .seed
                .unwrap_or(args.seed.wrapping_add(position as u64));
            let made = fill::bytes(buffer, seed)
                .and_then(|bytes| Ok(DeviceBuffer::from_slice(&device, &bytes)?));
            made.with_context(|| format!("{}: buffer `{}`", args.launch.display(), buffer.name))
        })
        .collect::<Result<Vec<_>>>()?;
    let time = launch::launch(&device, &loaded, &description, &buffers)?;
    drop(spinner);
    let contents = buffers
        .iter()
        .map(|buffer| buffer.to_vec().context("copying a result back"))
        .collect::<Result<Vec<_>>>()?;
    save(&description.buffers, &contents)?;
    let report = Report {
        device: &device,
        launch: &description,
        contents: &contents,
        time,
    };
    report.print(args.json, output)?;
    Ok(Outcome::Done)
}

/// The device asked for; an emulator gets the seed.
fn device(args: &Args) -> Result<Device> {
    let device = Device::from_name(&args.device)?;
    if !device.is_emulator() {
        return Ok(device);
    }
    let mut config = EmulatorConfig {
        seed: args.seed,
        ..EmulatorConfig::default()
    };
    if args.json {
        // What a kernel prints must not come between the lines of JSON.
        config.output = warpsmith_emulator::Output::to(io::stderr());
    }
    Ok(Device::emulator_with(config)?)
}

fn find<'m>(module: &'m Module, name: &str) -> Result<&'m Function> {
    let mut kernels = module
        .functions
        .iter()
        .filter(|function| function.kind == FunctionKind::Entry && function.body.is_some());
    let known: Vec<&str> = kernels.clone().map(|kernel| kernel.name.as_str()).collect();
    kernels
        .find(|kernel| kernel.name == name)
        .with_context(|| format!("no `{name}` in the PTX file; it has: {}", known.join(", ")))
}

/// Holds the arguments against the kernel's parameters, in number and size.
fn check_args(kernel: &Function, launch: &Launch) -> Result<()> {
    let signature = || {
        let all: Vec<String> = kernel.params.iter().map(ToString::to_string).collect();
        format!("{}({})", kernel.name, all.join(", "))
    };
    ensure!(
        kernel.params.len() == launch.args.len(),
        "{} [[arg]] tables for the {} parameters of {}",
        launch.args.len(),
        kernel.params.len(),
        signature()
    );
    for (index, (arg, param)) in launch.args.iter().zip(&kernel.params).enumerate() {
        let want = param.bytes();
        ensure!(
            want == Some(arg.size_bytes() as u64),
            "arg {}: `{}` has {} bytes, parameter `{}` has {} in {}",
            index + 1,
            arg.key(),
            arg.size_bytes(),
            param.name,
            want.map_or("an unknown number".into(), |want| want.to_string()),
            signature()
        );
    }
    Ok(())
}

/// Fails where a result cannot be saved, or would take the place of another or of the inputs.
fn check_places(args: &Args, buffers: &[Buffer]) -> Result<()> {
    let mut taken = vec![args.ptx.canonicalize()?, args.launch.canonicalize()?];
    for buffer in buffers {
        let Some(path) = &buffer.save else { continue };
        OutputFiles::check(path)
            .and_then(|()| OutputFiles::place(path))
            .and_then(|place| {
                ensure!(
                    !taken.contains(&place),
                    "save: {} is another result's place, or that of the PTX or TOML file",
                    path.display()
                );
                taken.push(place);
                Ok(())
            })
            .with_context(|| format!("{}: buffer `{}`", args.launch.display(), buffer.name))?;
    }
    Ok(())
}

/// Refuses what cannot fit before any of it is made.
fn check_memory(device: &Device, buffers: &[Buffer]) -> Result<()> {
    let wanted = buffers
        .iter()
        .fold(0_u64, |sum, b| sum.saturating_add(b.bytes as u64));
    let there = device.info().memory_bytes;
    ensure!(
        wanted <= there,
        "the buffers need {wanted} bytes, {device} has {there}"
    );
    Ok(())
}

fn save(buffers: &[Buffer], contents: &[Vec<u8>]) -> Result<()> {
    let mut files = OutputFiles::default();
    for (buffer, bytes) in buffers.iter().zip(contents) {
        if let Some(path) = &buffer.save {
            array::save(&mut files, path, buffer.dtype, &buffer.shape, bytes)?;
        }
    }
    files.commit()
}

/// What is printed after a launch.
struct Report<'r> {
    device: &'r Device,
    launch: &'r Launch,
    contents: &'r [Vec<u8>],
    time: Duration,
}

impl Report<'_> {
    fn print(&self, as_json: bool, output: &mut Output) -> Result<()> {
        let Launch {
            kernel,
            grid,
            block,
            shared_bytes,
            ..
        } = self.launch;
        let milliseconds = self.time.as_secs_f64() * 1e3;
        if as_json {
            let line = json!({
                "device": self.device.kind().to_string(),
                "name": self.device.name(),
                "kernel": kernel,
                "grid": grid,
                "block": block,
                "shared_bytes": shared_bytes,
                "time_ms": milliseconds,
                "buffers": self.buffers().map(|(buffer, hash)| json!({
                    "name": buffer.name,
                    "dtype": buffer.dtype.name(),
                    "shape": buffer.shape,
                    "hash": hash,
                    "save": buffer.save.as_ref().map(|path| path.display().to_string()),
                })).collect::<Vec<Value>>(),
            });
            writeln!(output, "{line}")?;
            return Ok(());
        }
        writeln!(
            output,
            "{kernel} on {}: grid {grid:?}, block {block:?}, {shared_bytes} bytes of dynamic \
             shared memory, {milliseconds:.3} ms",
            self.device
        )?;
        for (buffer, hash) in self.buffers() {
            let saved = buffer
                .save
                .as_ref()
                .map(|path| format!("  -> {}", path.display()));
            writeln!(
                output,
                "  {:<12} {:<5} {:?}  hash {hash}{}",
                buffer.name,
                buffer.dtype.name(),
                buffer.shape,
                saved.unwrap_or_default()
            )?;
        }
        Ok(())
    }

    /// Each buffer with a hash of its bytes, so that two runs compare at a glance.
    fn buffers(&self) -> impl Iterator<Item = (&Buffer, String)> {
        self.launch
            .buffers
            .iter()
            .zip(self.contents)
            .map(|(buffer, bytes)| (buffer, hash(bytes)))
    }
}

/// FNV-1a 64, in hex.
fn hash(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}
