//! `warpsmith run`

mod args;
mod array;
mod description;
mod device;
mod explore;
mod extents;
mod fill;
mod ignore;
mod launch;
mod profile;
mod report;
mod roofline;
mod schedules;
mod small_float;
mod tensor_map;
pub(super) mod trace;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use ptx_syntax::ast::{Function, FunctionKind, Module, Space, Variable};
use warpsmith::{Device, DeviceBuffer};
use warpsmith_emulator::Explorer;

use super::read_text;
use crate::failure::Outcome;
use crate::output::{Output, OutputFiles};
use crate::threads;
use description::{Buffer, Description, Launch, in_launch, listed};
use fill::Fill;
use launch::Launched;
use roofline::GpuModel;

/// Launch kernels of any PTX file, on a GPU or on the emulator.
///
/// A TOML file describes the launch, or several:
///
///   kernel = "saxpy"
///   grid = [4]                # one to three extents
///   block = [256]
///   shared_bytes = 0          # dynamic shared memory; 0 if left out
///   cluster = [2]             # blocks of a cluster; as the kernel requires if left out
///
///   [[buffer]]
///   name = "x"
///   dtype = "f32"             # f64 f32 f16 bf16 e4m3 e5m2 i8 i16 i32 i64 u8 u16 u32 u64
///   shape = [1024]
///   fill = "normal"           # see below
///   seed = 1                  # if left out: --seed plus the buffer's position
///   save = "x.npy"            # optional: written after the last launch
///   variable = "table"        # optional: it is this variable (__device__, __constant__)
///
///   [[arg]]                   # in the kernel's order, each with one key:
///   buffer = "x"              # a buffer's address, or a value:
///   [[arg]]                   # u8, i8, u16, i16, u32, i32, u64, i64, f32 or f64
///   f32 = 2.0
///   [[arg]]                   # a place in a buffer:
///   buffer = { name = "x", offset_bytes = 64 }
///   [[arg]]                   # a struct by value, of values, buffers, maps and structs:
///   struct = [{ u32 = 3 }, { buffer = "x" }, { struct = [{ u8 = 1 }] }]
///
///   [[tensor_map]]            # for TMA copies
///   name = "x"
///   buffer = "x"              # the tensor starts with it, and has its dtype
///   dims = [64, 1024]         # innermost first
///   strides_bytes = [128]     # of all dimensions but the innermost
///   box = [64, 64]
///   element_strides = [1, 1]  # optional
///   swizzle = 128             # 0, 32, 64 or 128; 0 if left out
///   fill = "zeros"            # or "nan"; zeros if left out
///   [[arg]]
///   map = "x"                 # its address, or its 128 bytes where the parameter has 128
///
/// Several launches of one file stand in tables. They run in order on one stream, with the same
/// buffers and tensor maps:
///
///   [[launch]]                # each with its own kernel, grid, block, shared_bytes and cluster
///   kernel = "scale"
///   grid = [4]
///   block = [256]
///   arg = [{ buffer = "x" }, { f32 = 2.0 }]
///   [[launch]]
///   kernel = "sum"
///   grid = [1]
///   block = [256]
///   [[launch.arg]]            # or so
///   buffer = "x"
///
/// Fills: `normal` (mean 0, standard deviation 1; floats only), `uniform` (floats in [0, 1),
/// integers over their whole range), `zeros`, and `iota` (0, 1, 2, ..). `poison` sets every byte to
/// 0xFF, which is NaN for floats. A fill may also be a .npy file of the buffer's shape. It has
/// floats of any width for float buffers, and the same type for integer buffers. The same fill,
/// seed, dtype and shape give the same bytes on every device. A buffer with the fill `unwritten`
/// holds nothing: the emulator reports reads of bytes that the kernel has not written. A variable
/// with it keeps the contents that the PTX file gives it. Paths are relative to the TOML file. Saved floats of 16 or 8 bits are written as f32.
///
/// Files are written only if all launches succeed. If the emulator finds a fault in the kernel, its
/// report goes to stderr, and the exit status is 3.
#[derive(Debug, clap::Args)]
#[allow(rustdoc::broken_intra_doc_links)] // the text is a terminal's, TOML and not markdown
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  warpsmith run saxpy.ptx launch.toml
  warpsmith run saxpy.ptx launch.toml --device gpu:1 --json
  warpsmith run saxpy.ptx launch.toml --device emulator --seed 7
  warpsmith run saxpy.ptx launch.toml --check --schedules 16
  warpsmith run saxpy.ptx launch.toml --explore
  warpsmith run saxpy.ptx launch.toml --check --keep-going --ignore data-race:31
  warpsmith run saxpy.ptx launch.toml --profile --gpu-model a100
  warpsmith run saxpy.ptx launch.toml --html saxpy.html --trace saxpy.json"
)]
pub(crate) struct Args {
    /// The PTX file.
    #[arg(value_name = "FILE.ptx")]
    ptx: PathBuf,
    /// Description of the launch.
    #[arg(value_name = "launch.toml")]
    launch: PathBuf,
    /// Where to run: gpu, gpu:N, emulator, or auto (a GPU if there is one, else the emulator).
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    device: String,
    /// Seed of the emulator's random choices (order of warps, completion of asynchronous work), and
    /// of buffers without a seed of their own.
    #[arg(
        long,
        default_value_t = 0,
        value_name = "N",
        allow_negative_numbers = true
    )]
    seed: u64,
    /// Seed of buffers without a seed of their own [default: --seed].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    fill_seed: Option<u64>,
    /// Run on the emulator with all of its checks, including data races.
    #[arg(long)]
    check: bool,
    /// Run with the checks under N seeds from --seed on, each time with the same buffer contents.
    /// The report of a fault names the seed that reproduces it.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    schedules: Option<u64>,
    /// Run with the checks under each order of warps, strong accesses and asynchronous copies that
    /// may differ from the others, N orders at most [default: 10000]. For small launches.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "10000", conflicts_with_all = ["schedules", "seed", "trace", "html"], value_parser = clap::value_parser!(u64).range(1..))]
    explore: Option<u64>,
    /// Go on after data races and reads of unwritten memory, and report each kind once for each
    /// line. Other faults end the launch.
    #[arg(long)]
    keep_going: bool,
    /// Leave out findings after which a kernel can go on: data-race, read-of-uninitialised-memory or
    /// use-of-an-unwritten-register, of the whole file or of one PTX line. May be given several
    /// times.
    #[arg(long, value_name = "KIND[:LINE]", value_parser = ignore::parse)]
    ignore: Vec<ignore::Ignore>,
    /// Most PTX instructions that the warps of a block may run on the emulator, so that an endless
    /// loop ends with a report [default: 1000000000].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    instruction_budget: Option<u64>,
    /// Seconds that a launch may take on the emulator, after which a report says where its warps
    /// are.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Run on the emulator and print its counters: instructions, memory traffic, bank conflicts,
    /// the hottest lines, and an estimate of the time on a GPU.
    #[arg(long, group = "costs")]
    profile: bool,
    /// The GPU that the estimate is for.
    #[arg(
        long,
        value_enum,
        default_value_t,
        requires = "costs",
        value_name = "MODEL"
    )]
    gpu_model: GpuModel,
    /// Run on the emulator and write a timeline of each warp, copy, mbarrier and `wgmma` as Chrome's
    /// trace events, for Perfetto. Its unit is a step, one instruction of a warp.
    #[arg(long, value_name = "FILE.json", conflicts_with = "schedules")]
    trace: Option<PathBuf>,
    /// Run on the emulator and write one page of HTML with the timeline, the hot lines beside the
    /// source, bank conflicts and the estimate.
    #[arg(
        long,
        value_name = "FILE.html",
        conflicts_with = "schedules",
        group = "costs"
    )]
    html: Option<PathBuf>,
    /// Most blocks in the timeline, from the first on [default: 16].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    trace_blocks: Option<u64>,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    let description = description::read(&args.launch)?;
    let text = read_text(&args.ptx)?;
    let module =
        ptx_syntax::parse(&text).with_context(|| format!("{} is not PTX", args.ptx.display()))?;
    check_launches(&module, &description.launches)
        .and_then(|()| check_variables(&module, &description.buffers))
        .with_context(|| args.launch.display().to_string())?;
    check_places(args, &description.buffers)?;
    let timelines = trace::collector(args);
    let explorer = args.explore.map(|_| Explorer::new());
    let launches = description.launches.len();
    ensure!(
        explorer.is_none() || launches == 1,
        "--explore takes a file of one launch, this has {launches}"
    );
    let parts = device::Parts {
        trace: timelines.clone(),
        explorer: explorer.clone(),
    };
    let device = device::open(args, args.seed, &parts)?;
    check_memory(&device, &description.buffers)?;
    threads::start()?;
    let fill_seed = args.fill_seed.unwrap_or(args.seed);
    let contents = fill::all(&description.buffers, fill_seed)
        .with_context(|| args.launch.display().to_string())?;
    let trial = Trial {
        args,
        text: &text,
        description: &description,
        contents: &contents,
    };
    let found = match explorer {
        Some(explorer) => explore::run(&trial, device, &explorer),
        None => schedules::run(&trial, device),
    };
    if let Some(timelines) = &timelines {
        trace::write(args, &description, timelines, &found)?;
    }
    let ran = match found {
        Ok(ran) => ran,
        Err(error) => {
            if args.json {
                report::print_finding(&error, output)?;
            }
            return Err(error);
        }
    };
    save(&description.buffers, &ran.first.contents)?;
    report::print(args, &description, &ran, output)?;
    Ok(Outcome::Done)
}

/// Kernels with their inputs, to be run once or under many seeds.
struct Trial<'t> {
    args: &'t Args,
    text: &'t str,
    description: &'t Description,
    /// Contents of the buffers before the first launch.
    contents: &'t [Vec<u8>],
}

/// The results of a run.
struct Ran {
    device: Device,
    /// Contents of the buffers after the last launch.
    contents: Vec<Vec<u8>>,
    /// One for each launch.
    launched: Vec<Launched>,
}

impl Trial<'_> {
    /// Runs the kernels on a device, from fresh buffers.
    fn run(&self, device: Device) -> Result<Ran> {
        let ptx = || self.args.ptx.display().to_string();
        let module = device.load_ptx(self.text).with_context(ptx)?;
        let launches = self.description.launches.iter();
        let kernels = launches
            .map(|launch| module.kernel(&launch.kernel).with_context(ptx))
            .collect::<Result<Vec<_>>>()?;
        let place = || self.args.launch.display().to_string();
        let named = self.description.buffers.iter().zip(self.contents);
        let stream = device.default_stream();
        let buffers = named
            .map(|(buffer, bytes)| {
                let made = match (&buffer.variable, &buffer.fill) {
                    (Some(name), fill) => module.global::<u8>(name).and_then(|variable| {
                        let mut own = variable.buffer();
                        if *fill != Fill::Unwritten {
                            own.copy_from_slice(bytes)?;
                        }
                        Ok(own)
                    }),
                    (None, Fill::Unwritten) => DeviceBuffer::uninit(&stream, bytes.len()),
                    (None, _) => DeviceBuffer::from_slice(&device, bytes),
                };
                made.with_context(|| format!("{}: buffer `{}`", place(), buffer.name))
            })
            .collect::<Result<Vec<_>>>()?;
        let launched = launch::launch_all(&device, &kernels, self.description, &buffers)
            .with_context(place)?;
        let contents = buffers
            .iter()
            .map(|buffer| buffer.to_vec().context("copying a result back"))
            .collect::<Result<Vec<_>>>()?;
        Ok(Ran {
            device,
            contents,
            launched,
        })
    }
}

/// Checks that the kernels are there, and that the arguments fit them.
fn check_launches(module: &Module, launches: &[Launch]) -> Result<()> {
    for (at, launch) in launches.iter().enumerate() {
        let kernel = find(module, &launch.kernel).context("kernel");
        let fits = kernel.and_then(|kernel| check_args(kernel, launch));
        in_launch(at, launches.len(), fits)?;
    }
    Ok(())
}

/// Checks that the variables of buffers are there, and that each has its buffer's size.
fn check_variables(module: &Module, buffers: &[Buffer]) -> Result<()> {
    let known = module
        .variables
        .iter()
        .filter(|variable| matches!(variable.space, Space::Global | Space::Const));
    let known: Vec<&Variable> = known.collect();
    for (at, buffer) in buffers.iter().enumerate() {
        let Some(name) = &buffer.variable else {
            continue;
        };
        let context = || format!("buffer `{}`: variable", buffer.name);
        let is_other = |other: &Buffer| other.variable.as_ref() != Some(name);
        ensure!(
            buffers[..at].iter().all(is_other),
            "buffer `{}`: variable: `{name}` has a buffer already",
            buffer.name
        );
        let variable = known.iter().find(|variable| variable.name == *name);
        let variable = variable
            .with_context(|| {
                let names: Vec<&str> = known.iter().map(|known| &*known.name).collect();
                format!("no `{name}` in the PTX file; it has: {}", listed(&names))
            })
            .with_context(context)?;
        let bytes = variable.bytes();
        ensure!(
            bytes == Some(buffer.bytes as u64),
            "buffer `{}` has {} bytes, variable `{variable}` has {}",
            buffer.name,
            buffer.bytes,
            bytes.map_or("an unknown number".into(), |bytes| bytes.to_string())
        );
    }
    Ok(())
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

/// Checks the number and sizes of the arguments against the kernel's parameters.
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
        let sizes = arg.sizes_bytes();
        ensure!(
            want.is_some_and(|want| sizes.contains(&want)),
            "arg {}: `{}` has {} bytes, parameter `{}` has {} in {}",
            index + 1,
            arg.key(),
            sizes
                .iter()
                .map(u64::to_string)
                .collect::<Vec<_>>()
                .join(" or "),
            param.name,
            want.map_or("an unknown number".into(), |want| want.to_string()),
            signature()
        );
    }
    Ok(())
}

/// Fails if a result cannot be saved, or would overwrite another result or an input.
fn check_places(args: &Args, buffers: &[Buffer]) -> Result<()> {
    let mut taken = vec![args.ptx.canonicalize()?, args.launch.canonicalize()?];
    let saved = buffers.iter().filter_map(|buffer| {
        let path = buffer.save.as_ref()?;
        let place = format!("{}: buffer `{}`", args.launch.display(), buffer.name);
        Some(("save", path, place))
    });
    let traced = trace::files(args).map(|(option, path)| (option, path, option.to_owned()));
    for (what, path, context) in saved.chain(traced) {
        OutputFiles::check(path)
            .and_then(|()| OutputFiles::place(path))
            .and_then(|place| {
                ensure!(
                    !taken.contains(&place),
                    "{what}: {} is another result's place, or that of the PTX or TOML file",
                    path.display()
                );
                taken.push(place);
                Ok(())
            })
            .context(context)?;
    }
    Ok(())
}

/// Fails if the buffers cannot fit in the device's memory, before any of them is created.
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
