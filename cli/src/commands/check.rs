//! `warpsmith check`: any program on the emulated GPU.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, ensure};

use crate::failure::Outcome;
use crate::output::Output;

/// File of the driver's library, as cargo builds it.
const DRIVER: &str = "libwarpsmith_driver.so";

/// Names by which programs open the library: the driver, and the runtime of CUDA 12 and 13.
const LIBRARIES: [&str; 5] = [
    "libcuda.so.1",
    "libcuda.so",
    "libcudart.so.12",
    "libcudart.so.13",
    "libcudart.so",
];

/// Run any program on an emulated GPU that checks every access of its kernels.
///
/// The program loads warpsmith's library in the place of NVIDIA's libcuda.so.1 and libcudart.so. It
/// has to bring its kernels as PTX. Reports go to stderr. The exit status is 3 if a kernel had a
/// fault, else the program's.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith check -- ./program its arguments
  warpsmith check --seed 7 -- python train.py
  warpsmith check --schedules 20 -- ./program")]
pub(crate) struct Args {
    /// Seed of the order of warps and of asynchronous work.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Run the program under so many seeds, from --seed on, until one has a report or the program
    /// fails.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    schedules: u64,
    /// Go on after data races and reads of unwritten memory: kernels to their end, and the program
    /// after them. Each is reported once for each kernel and line. Other faults stop it as before.
    #[arg(long)]
    keep_going: bool,
    /// Seconds that a launch may take, after which a report says where its warps are.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// The driver's library, instead of the one beside this program.
    #[arg(long, value_name = "FILE")]
    driver: Option<PathBuf>,
    /// The program and its arguments, after `--`.
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    output.flush()?;
    let driver = match &args.driver {
        Some(file) => file.clone(),
        None => find_driver()?,
    };
    let driver = driver
        .canonicalize()
        .with_context(|| format!("cannot read the driver {}", driver.display()))?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    for name in LIBRARIES {
        link(&driver, &folder.path().join(name))?;
    }
    for schedule in 0..args.schedules {
        let seed = args.seed.wrapping_add(schedule);
        let outcome = run_under(args, seed, folder.path())?;
        let is_clean = matches!(outcome, Outcome::Exited(0));
        if !is_clean || schedule + 1 == args.schedules {
            if !is_clean && args.schedules > 1 {
                writeln!(io::stderr(), "warpsmith: this was --seed {seed}").ok();
            }
            return Ok(outcome);
        }
    }
    Ok(Outcome::Exited(0))
}

/// Runs the program under one seed. The folder has the driver's library.
fn run_under(args: &Args, seed: u64, folder: &Path) -> Result<Outcome> {
    let reports = folder.join("reports");
    let (program, arguments) = args.program.split_first().context("no program is given")?;
    let status = Command::new(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", search_path(folder)?)
        .env("TRITON_LIBCUDA_PATH", folder)
        .env("WARPSMITH_REPORTS", &reports)
        .env("WARPSMITH_SEED", seed.to_string())
        .env("WARPSMITH_TIMEOUT", args.timeout.to_string())
        .env(
            "WARPSMITH_KEEP_GOING",
            if args.keep_going { "1" } else { "0" },
        )
        .status()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let found = std::fs::read_to_string(&reports).unwrap_or_default();
    let faults = found
        .lines()
        .filter(|line| line.starts_with("error: "))
        .count();
    if faults > 0 {
        let what = match (args.keep_going, faults) {
            (true, 1) => "finding",
            (true, _) => "findings",
            (false, 1) => "launch had a fault",
            (false, _) => "launches had a fault",
        };
        writeln!(io::stderr(), "warpsmith: {faults} {what}").ok();
        return Ok(Outcome::FoundFaultsInKernels);
    }
    Ok(Outcome::Exited(code_of(status)))
}

/// The library beside this program, where cargo builds it, or in `lib` beside the program's folder.
fn find_driver() -> Result<PathBuf> {
    let program = std::env::current_exe().context("this program's place is unknown")?;
    let folder = program.parent().unwrap_or(Path::new("."));
    let places = ["", "deps", "../lib"].map(|place| folder.join(place).join(DRIVER));
    let found = places.iter().find(|place| place.exists());
    ensure!(
        found.is_some(),
        "no {DRIVER} in {}: build it by `cargo build --release -p warpsmith-driver`, or name it \
         by --driver",
        folder.display()
    );
    found.cloned().context("just found")
}

/// The folder in front of where the loader looks already.
fn search_path(folder: &Path) -> Result<OsString> {
    let set = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let others = std::env::split_paths(&set).filter(|path| path.as_os_str() != OsStr::new(""));
    let all = std::iter::once(folder.to_path_buf()).chain(others);
    std::env::join_paths(all).context("the temporary folder's name has a colon")
}

#[cfg(unix)]
fn link(file: &Path, name: &Path) -> Result<()> {
    std::os::unix::fs::symlink(file, name).context("cannot link to the driver")
}

#[cfg(not(unix))]
fn link(_file: &Path, _name: &Path) -> Result<()> {
    anyhow::bail!("`warpsmith check` runs on Linux only")
}

/// The exit status to pass on; of a program that a signal ended, what a shell gives.
fn code_of(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1)
}
