//! A kernel's launches with all that they need, and the check of its results.

use std::fmt;

use warpsmith::emulator::{Checks, EmulatorConfig, LaunchError, Report};
use warpsmith::testing::{Capture, Launch, Step};
use warpsmith::{Device, EmulatorError, Error, Stream};
use warpsmith_tests::corpus::record;

/// Warp instructions of a block after which a mutated kernel counts as looping forever.
const BUDGET: u64 = 320_000_000;

/// What is launched, and the check of what it leaves in its buffers.
pub(crate) struct Problem {
    capture: Capture,
    entry: &'static str,
    judge: Judge,
}

/// Examines what is read after the launch; the error says what is wrong.
pub(crate) type Judge = Box<dyn Fn(&[Vec<u8>]) -> Result<(), String> + Send + Sync>;

/// How a run ended.
pub(crate) enum Outcome {
    /// No report, and the results are right.
    Clean,
    /// No report, but a wrong result.
    Wrong(String),
    /// The kernel hit a fault.
    Fault(Box<Report>),
    /// The module or the launch was refused.
    Refused(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clean => f.write_str("clean"),
            Self::Wrong(why) => write!(f, "wrong result: {why}"),
            Self::Fault(report) => report.fmt(f),
            Self::Refused(why) => write!(f, "refused: {why}"),
        }
    }
}

/// An emulator with all checks.
fn config(seed: u64, threads: Option<usize>) -> EmulatorConfig {
    EmulatorConfig {
        threads,
        seed,
        checks: Checks::ALL,
        instruction_budget: Some(BUDGET),
        ..EmulatorConfig::default()
    }
}

impl Problem {
    /// The launches of kernel `entry` in what `run` does on a device of this architecture. Buffers
    /// must hold the same bytes afterwards as without a bug.
    pub(crate) fn of(
        entry: &'static str,
        arch: (u32, u32),
        run: fn(Device, Stream) -> warpsmith::Result<()>,
    ) -> Self {
        // On one multiprocessor, blocks work on one tile after the other.
        let capture = record(config(0, Some(1)), arch, 1, run);
        let capture = capture.unwrap_or_else(|error| panic!("{entry}: {error}"));
        let names: Vec<&str> = capture.launches().map(|launch| &*launch.entry).collect();
        assert!(
            names.contains(&entry),
            "{entry} is not launched, but {names:?}"
        );
        let capture = capture.up_to(entry);
        let device = Device::emulator_with(config(0, Some(1))).expect("an emulator");
        // SAFETY: the emulator checks every access.
        let want = unsafe { capture.replay(&device) };
        let want = want.unwrap_or_else(|error| panic!("{entry}: {error}"));
        let judge = move |got: &[Vec<u8>]| match want.iter().zip(got).position(|(a, b)| a != b) {
            None => Ok(()),
            Some(buffer) => Err(format!("buffer {buffer} of {} is wrong", want.len())),
        };
        Self::new(capture, entry, Box::new(judge))
    }

    /// The launches of kernel `entry` in a capture.
    pub(crate) fn new(capture: Capture, entry: &'static str, judge: Judge) -> Self {
        Self {
            capture,
            entry,
            judge,
        }
    }

    /// The same launched as one block, which processes all rows and reuses its shared memory.
    pub(crate) fn in_one_block(mut self) -> Self {
        for launch in self.launches() {
            launch.config.grid = [1; 3];
        }
        self
    }

    /// The launches of the kernel.
    fn launches(&mut self) -> impl Iterator<Item = &mut Launch> {
        let entry = self.entry;
        let steps = self.capture.steps.iter_mut();
        steps.filter_map(move |step| match step {
            Step::Launch(launch) if launch.entry == entry => Some(launch),
            _ => None,
        })
    }

    /// Runs it with `ptx` in place of the kernel's text, with all checks, on a separate emulator with
    /// one host thread.
    pub(crate) fn run(&self, ptx: &str, seed: u64) -> Outcome {
        self.run_on(ptx, seed, Some(1))
    }

    /// The same with a number of host threads; `None` means all.
    pub(crate) fn run_on(&self, ptx: &str, seed: u64, threads: Option<usize>) -> Outcome {
        let device = Device::emulator_with(config(seed, threads)).expect("an emulator");
        let mut capture = self.capture.clone();
        let module = capture.modules.len();
        capture.modules.push(ptx.to_owned());
        for step in &mut capture.steps {
            if let Step::Launch(launch) = step
                && launch.entry == self.entry
            {
                launch.module = module;
                // A file's text does not wait for the launch before; a loaded text does.
                launch.begins_early = false;
            }
        }
        // SAFETY: the emulator checks every access.
        match unsafe { capture.replay(&device) } {
            Ok(got) => match (self.judge)(&got) {
                Ok(()) => Outcome::Clean,
                Err(why) => Outcome::Wrong(why),
            },
            Err(Error::Emulator(EmulatorError::Launch(error))) => match *error {
                LaunchError::Fault(report) => Outcome::Fault(report),
                refused => Outcome::Refused(refused.to_string()),
            },
            Err(refused) => Outcome::Refused(refused.to_string()),
        }
    }
}
