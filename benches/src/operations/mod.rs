//! Compares operations with those of other libraries, on one GPU and in one process.
//!
//! This side makes the cases and operands, does the timing, compares the results, and writes table
//! and files. The [`Peers`] only know how to enqueue their work on our stream and our operands.
//! `peers/compare.py` provides them from Python (torch and libraries built on it) through
//! [`foreign`]. Without peers, ours is measured alone and compared with the machine's limits.
//!
//! # To add an operation or a set
//!
//! 1. Add a module here with an [`Operation`]: its sets, and a function that makes the [`Case`]s of
//!    a set. A case states its work, gives in [`Case::description`] what a peer has to know beyond
//!    shapes, and prepares operands, results and our launch as [`Prepared`]. `elementwise` is the
//!    shortest example. List the operation in [`OPERATIONS`].
//! 2. Add `benches/peers/<operation>.py` with a function `peers(case)`. It returns a dict from a
//!    peer's name to a function. That function takes the operands of one copy, by name as torch
//!    tensors, and returns a function without arguments, which computes and returns the results by
//!    name.
//! 3. Add a line to the command's list of operations, `cli/src/commands/bench.rs`.
//!
//! Cases of the set `tiny` run on the emulator.

pub mod attention;
pub mod attention_grad;
pub mod block_sparse;
mod compare;
pub mod elementwise;
pub mod foreign;
pub mod gather;
pub mod grouped;
mod prepared;
pub mod reduce;
pub mod rotary;
pub mod rows;
pub mod scatter;
pub mod scored_attention;
pub mod sort;
pub mod topk;

use std::io::Write;
use std::path::PathBuf;

use serde_json::Value;
use warpsmith::{DType, Device, Stream};

use crate::draw::Extents;
use crate::error::{BenchError, Result};
use crate::machine::Machine;
use crate::results::{Report, Target, Unit};
use crate::session::{Session, empty_report, prepare_file};
use crate::table::Table;
use crate::timing::Timer;
use compare::Bench;

pub use prepared::{Operand, Prepared};

/// All operations.
pub const OPERATIONS: [&Operation; 13] = [
    &attention::ATTENTION,
    &attention_grad::ATTENTION_GRAD,
    &block_sparse::BLOCK_SPARSE,
    &scored_attention::SCORED_ATTENTION,
    &reduce::REDUCE,
    &rows::ROWS,
    &sort::SORT,
    &topk::TOPK,
    &elementwise::ELEMENTWISE,
    &gather::GATHER,
    &scatter::SCATTER,
    &rotary::ROTARY,
    &grouped::GROUPED,
];

/// An operation with its cases.
#[derive(Debug)]
pub struct Operation {
    /// The first part of the cases' names, and the name of the Python module with its peers.
    pub name: &'static str,
    /// Its sets. If none is named, the first is measured; on the emulator, `tiny`.
    pub sets: &'static [Set],
    /// The unit of rates.
    pub unit: Unit,
    /// Makes the cases of a set.
    pub cases: fn(&Set, &OperationOptions) -> Vec<Case>,
}

/// Cases that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Set {
    /// Its name in results and options.
    pub name: &'static str,
    /// A description of its cases.
    pub about: &'static str,
    /// The target of the geometric mean of the ratios.
    pub geometric_mean: Option<f64>,
    /// The target of each row's ratio.
    pub ratio: Option<f64>,
    /// Whether launches are captured into CUDA graphs and those are replayed.
    pub in_graphs: bool,
}

impl Set {
    /// A set without targets.
    pub const fn new(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            about,
            geometric_mean: None,
            ratio: None,
            in_graphs: false,
        }
    }

    /// Measures replays of CUDA graphs, each of all the launches between two events.
    pub const fn in_graphs(self) -> Self {
        Self {
            in_graphs: true,
            ..self
        }
    }

    /// Sets the targets: each row is to reach `ratio` times the speed of the fastest peer, and the
    /// geometric mean of all rows `geometric_mean` times.
    pub const fn reaching(self, ratio: Option<f64>, geometric_mean: Option<f64>) -> Self {
        Self {
            ratio,
            geometric_mean,
            ..self
        }
    }
}

/// The work of a case, independent of how it is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes read and written: each input and each output once.
    pub bytes: f64,
    /// Exponentials, for cases that the special function unit may bind.
    pub exponentials: f64,
    /// The type that the tensor cores multiply, if they are used.
    pub tensor_input: Option<DType>,
}

/// Makes the operands, in the given number of copies, and our launch.
pub type Prepare = Box<dyn Fn(&Stream, usize) -> Result<Prepared>>;

/// One case of an operation.
pub struct Case {
    /// Its name, `operation/dtype/..`; the last part has the extents.
    pub name: String,
    /// Its work.
    pub work: Work,
    /// What a peer has to know beyond the operands: a JSON object.
    pub description: Value,
    /// The difference between two correct results that is allowed, relative to the largest result.
    pub difference_allowed: f64,
    /// Makes its operands and our launch.
    pub prepare: Prepare,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Case({}, {:?})", self.name, self.work)
    }
}

/// Other libraries, which work on our operands and our stream.
pub trait Peers {
    /// Their names, with versions.
    fn name(&self) -> &str;

    /// Prepares the next case: its description with the operands of each copy. The operands of the
    /// case before are not used any more.
    ///
    /// # Errors
    /// [`BenchError::Peers`].
    fn prepare(&self, case: &str, description: &Value) -> Result<Offer>;

    /// Enqueues a peer once, on one copy of the operands.
    ///
    /// # Errors
    /// [`BenchError::Peers`].
    fn run(&self, peer: usize, copy: usize) -> Result<()>;

    /// Enqueues a peer on the first copy of the operands, and then a copy of its results to the
    /// place that the description names.
    ///
    /// # Errors
    /// [`BenchError::Peers`].
    fn answer(&self, peer: usize) -> Result<()>;
}

/// The peers that compute a case.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
pub struct Offer {
    /// Their names.
    pub peers: Vec<String>,
    /// The peers that do not compute it, and why.
    #[serde(default)]
    pub absent: Vec<(String, String)>,
}

/// Which cases are measured, how often, and where the results go.
#[derive(Clone, Debug, clap::Args)]
pub struct OperationOptions {
    /// Set of cases; `all` is all but tiny [default: the operation's first, or tiny on the
    /// emulator].
    #[arg(long = "set", value_name = "SET")]
    pub sets: Vec<String>,
    /// Only cases whose name contains this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub only: String,
    /// Seed of the set random.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// Number of cases in the set random.
    #[arg(long = "cases", value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub random_cases: u32,
    /// Repetitions that a median is of.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repetitions: u32,
    /// Launches in a row between two events, at least; short work has more. Times are of one launch.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub launches: u32,
    /// Use the first of our kernels whose name begins so, where the operation lets one choose.
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Folder of results: what is measured replaces the same rows in CARD/OPERATION.csv there;
    /// without it nothing is written.
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
}

impl OperationOptions {
    /// The cases of the set random.
    fn random(&self, mut draw: impl FnMut(&mut Extents) -> Case) -> Vec<Case> {
        let mut extents = Extents::of_seed(self.seed);
        (0..self.random_cases).map(|_| draw(&mut extents)).collect()
    }
}

/// The operation of that name.
///
/// # Errors
/// [`BenchError::NoOperation`].
pub fn by_name(name: &str) -> Result<&'static Operation> {
    let found = OPERATIONS.iter().find(|operation| operation.name == name);
    found.copied().ok_or_else(|| BenchError::NoOperation {
        name: name.to_owned(),
        known: OPERATIONS.map(|operation| operation.name).join(", "),
    })
}

/// The set that is measured on the emulator.
const TINY: &str = "tiny";
/// The name that selects all other sets.
const ALL: &str = "all";
/// The largest number of operations or bytes of a case on the emulator.
const EMULATOR_WORK: f64 = 5e8;

impl Operation {
    /// The sets that `options` select.
    ///
    /// # Errors
    /// [`BenchError::NoSet`].
    fn chosen_sets(
        &'static self,
        options: &OperationOptions,
        device: &Device,
    ) -> Result<Vec<&'static Set>> {
        let named = |name: &str| -> Result<Vec<&'static Set>> {
            if name == ALL {
                let others = self.sets.iter().filter(|set| set.name != TINY);
                return Ok(others.collect());
            }
            let set = self.sets.iter().find(|set| set.name == name);
            let known = || {
                let names = self.sets.iter().map(|set| set.name).chain([ALL]);
                names.collect::<Vec<_>>().join(", ")
            };
            set.map(|set| vec![set]).ok_or_else(|| BenchError::NoSet {
                operation: self.name,
                set: name.to_owned(),
                known: known(),
            })
        };
        if !options.sets.is_empty() {
            let sets = options.sets.iter().map(|name| named(name));
            return Ok(sets.collect::<Result<Vec<_>>>()?.concat());
        }
        match device.is_emulator() {
            true => named(TINY),
            false => Ok(self.sets.iter().take(1).collect()),
        }
    }

    /// The cases that `options` select, each with its set.
    ///
    /// # Errors
    /// [`BenchError::NoSet`], [`BenchError::NoCase`], [`BenchError::TooLargeForEmulator`].
    pub fn chosen(
        &'static self,
        options: &OperationOptions,
        device: &Device,
    ) -> Result<Vec<(&'static Set, Case)>> {
        let sets = self.chosen_sets(options, device)?;
        let of_set = |set: &'static Set| {
            let cases = (self.cases)(set, options).into_iter();
            cases.map(move |case| (set, case))
        };
        let mut cases: Vec<(&'static Set, Case)> = sets.into_iter().flat_map(of_set).collect();
        cases.retain(|(_, case)| case.name.contains(&options.only));
        if cases.is_empty() {
            return Err(BenchError::NoCase {
                only: options.only.clone(),
            });
        }
        let size = |case: &Case| case.work.flops.max(case.work.bytes);
        let too_large = |(_, case): &&(_, Case)| size(case) > EMULATOR_WORK;
        match cases
            .iter()
            .find(too_large)
            .filter(|_| device.is_emulator())
        {
            None => Ok(cases),
            Some((_, case)) => Err(BenchError::TooLargeForEmulator {
                case: case.name.clone(),
                flops: size(case),
                limit: EMULATOR_WORK,
            }),
        }
    }

    /// Measures the cases that `options` select and writes a table to `output` row by row, and the
    /// files if a folder is given. Cases that ours does not compute are listed and left out. A peer
    /// that does not compute a case is named with its reason.
    ///
    /// # Errors
    /// The first error of the device, a peer or a file.
    pub fn run(
        &'static self,
        options: &OperationOptions,
        device: &Device,
        peers: Option<&dyn Peers>,
        output: &mut dyn Write,
    ) -> Result<Report> {
        let cases = self.chosen(options, device)?;
        let out = options.out.as_deref();
        let file = prepare_file(out, &device.info().name, self.name)?;
        let timer = Timer::new(&device.default_stream())?;
        let bench = Bench {
            machine: Machine::of(&timer)?,
            timer,
            peers,
            unit: self.unit,
            repetitions: options.repetitions as usize,
            launches: options.launches as usize,
            kernel: options.kernel.as_deref(),
        };
        let table = Table {
            has_peer: peers.is_some(),
            is_on_gpu: !device.is_emulator(),
            has_bounds: !device.is_emulator(),
            unit: self.unit,
        };
        let peer = match peers {
            Some(peers) => peers.name().to_owned(),
            None => format!(
                "nothing (benches/peers/compare.py {} measures peers)",
                self.name
            ),
        };
        let target = |name: &str| {
            let set = self.sets.iter().find(|set| set.name == name);
            set.and_then(|set| set.geometric_mean)
        };
        let mut session = Session::start(
            empty_report(bench.machine.clone(), peer),
            table,
            bench.repetitions,
            cases.len(),
            &target,
            file,
            output,
        )?;
        for (set, case) in &cases {
            session.announce(&case.name);
            let mut notes = Vec::new();
            let row = bench.row(set, case, &mut notes);
            session.take(set.name, &case.name, row)?;
            for note in notes {
                session.note(&note)?;
            }
        }
        session.finish()
    }
}

/// The target of a set's rows.
fn target(set: &Set) -> Target {
    Target {
        ratio: set.ratio,
        or_share_of_copy: None,
    }
}

#[cfg(test)]
mod tests;
