//! The plan of an operation: which of its kernels runs, and why.
//!
//! An operation states its work as a [`Desc`], whose candidates are a [`Choice`] each, with an
//! estimated time. [`choose`] takes one of them. A candidate holds every decision that its launch
//! needs, so nothing is decided twice.

mod machine;
mod ruled;
mod state;
mod tune;
mod tuned;

pub use machine::MachineModel;
pub(super) use machine::{Machine, Work, blocks_at_once, costs};
pub(super) use ruled::Ruled;
pub(crate) use state::Plans;
pub use tune::{Measured, Tuning};
pub(super) use tune::{agree_within, answer, blank, copied, like, numbers, rotation, tune};

use crate::{Device, DeviceInfo, Error, LaunchConfig, Result, Stream};
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

/// A description of work: everything that the choice of a kernel depends on, without addresses and
/// values. Equal descriptions are computed by the same kernel. `Display` is unique among the
/// descriptions of an operation, and serves as the key in the file of tuned choices.
pub(super) trait Desc: Clone + Eq + Hash + fmt::Display + Send + Sync + 'static {
    /// What is computed, such as `gemm`.
    const OPERATION: &'static str;

    /// The name of this one in plans and in the file of tuned choices.
    fn operation(&self) -> &'static str {
        Self::OPERATION
    }

    /// One way to compute it.
    type Candidate: Choice;

    /// Calls `offer` with every candidate that a device has for this work.
    fn candidates(
        &self,
        device: &DeviceInfo,
        model: &MachineModel,
        offer: &mut dyn FnMut(Self::Candidate),
    );

    /// What is supported instead, for an error where there is no candidate.
    fn supported(&self) -> String;
}

/// A candidate. Its `Display` is the name by which it can be requested.
pub(super) trait Choice: Copy + fmt::Display + Send + Sync + 'static {
    /// What a launch needs besides.
    type Call<'a>;

    /// Estimated run time, in nanoseconds.
    fn estimated_ns(&self) -> f64;

    /// Whether it goes before the other candidates, whatever the estimates are.
    fn is_preferred(&self) -> bool {
        false
    }

    /// What a plan shows of it. Its name and estimate are filled in by [`Candidate::of`].
    fn shown(&self) -> Shown;

    /// Enqueues it.
    fn launch(&self, call: &Self::Call<'_>) -> Result<()>;
}

/// What a plan shows of a candidate.
pub(super) struct Shown {
    pub(super) entry: String,
    pub(super) tile: [u32; 3],
    pub(super) split: u32,
    pub(super) config: LaunchConfig,
}

/// One way to compute an operation, as listed by its [`Plan`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Candidate {
    /// Its name, for `with_kernel`: the entry name of the main kernel, and the launch options that
    /// distinguish it. (`with_kernel` also takes the entry name alone, for the best of its candidates.)
    pub name: String,
    /// Entry name of the main kernel.
    pub entry: String,
    /// Tile of one block. Of products: m, n, k. Of attention: queries and keys, and 0. Of rows: rows,
    /// elements of each, and 0. Of other operations: 0.
    pub tile: [u32; 3],
    /// Cluster extents in x, y, z, in blocks.
    pub cluster: [u32; 3],
    /// Number of parts into which the reduced axis is split. It is k of a product, the keys of
    /// attention, the axis of a reduction, or the elements of a row for top-k. Of scans, the tiles
    /// of a row.
    pub split: u32,
    /// Grid extents in x, y, z, in blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Run time estimated by the cost model.
    pub estimated: Duration,
}

impl Candidate {
    pub(super) fn of<C: Choice>(choice: &C) -> Self {
        let Shown {
            entry,
            tile,
            split,
            config,
        } = choice.shown();
        Self {
            name: choice.to_string(),
            entry,
            tile,
            cluster: config.cluster.unwrap_or([1; 3]),
            split,
            grid: config.grid,
            threads: config.block.iter().product(),
            shared_bytes: config.shared_bytes,
            estimated: Duration::from_nanos(choice.estimated_ns() as u64),
        }
    }
}

impl Candidate {
    /// A kernel that is the only one for its work, which moves so many bytes.
    pub(super) fn only(entry: &str, config: LaunchConfig, bytes: f64, device: &DeviceInfo) -> Self {
        let machine = Machine::of(device, MachineModel::of(device));
        let blocks = config
            .grid
            .iter()
            .map(|&extent| f64::from(extent))
            .product();
        let estimated_ns = machine.moving_ns(bytes, blocks);
        Self {
            name: entry.into(),
            entry: entry.into(),
            tile: [0; 3],
            cluster: config.cluster.unwrap_or([1; 3]),
            split: 1,
            grid: config.grid,
            threads: config.block.iter().product(),
            shared_bytes: config.shared_bytes,
            estimated: Duration::from_nanos(estimated_ns as u64),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
        write!(f, "{}: ", self.name)?;
        if self.tile != [0; 3] {
            write!(f, "tile {}, ", by(self.tile))?;
        }
        write!(
            f,
            "cluster {}, split {}, grid {}, {} threads, {} bytes shared, about {:?}",
            by(self.cluster),
            self.split,
            by(self.grid),
            self.threads,
            self.shared_bytes,
            self.estimated
        )
    }
}

/// Why a kernel was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PlanSource {
    /// The cost model expects it to be the fastest.
    Model,
    /// `autotune` found it to be the fastest.
    Tuned,
    /// `with_kernel` requested it.
    Forced,
}

impl fmt::Display for PlanSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Model => "by the cost model",
            Self::Tuned => "by measurement",
            Self::Forced => "by demand",
        })
    }
}

/// The candidate that computes `desc`: the one named `forced`, or the best.
pub(super) fn choose<D: Desc>(
    desc: &D,
    forced: Option<&str>,
    stream: &Stream,
) -> Result<(D::Candidate, PlanSource)> {
    choose_on(desc, forced, stream.device())
}

/// As [`choose`], without a stream.
pub(super) fn choose_on<D: Desc>(
    desc: &D,
    forced: Option<&str>,
    device: &Device,
) -> Result<(D::Candidate, PlanSource)> {
    let info = device.info();
    if let Some(name) = forced {
        return named(desc, name, info).map(|candidate| (candidate, PlanSource::Forced));
    }
    if let Some(known) = device.plans().get(desc) {
        return Ok(known);
    }
    let chosen = match device.plans().earlier_winner(desc, info) {
        Some(winner) => (winner, PlanSource::Tuned),
        None => {
            let best = best(desc, info).ok_or_else(|| no_candidate(desc, info))?;
            (best, PlanSource::Model)
        }
    };
    device.plans().remember(desc, chosen);
    Ok(chosen)
}

/// The candidate that goes first.
pub(super) fn best<D: Desc>(desc: &D, device: &DeviceInfo) -> Option<D::Candidate> {
    let mut best: Option<D::Candidate> = None;
    desc.candidates(device, MachineModel::of(device), &mut |candidate| {
        if best.is_none_or(|best| goes_before(&candidate, &best)) {
            best = Some(candidate);
        }
    });
    best
}

fn goes_before<C: Choice>(x: &C, y: &C) -> bool {
    match (x.is_preferred(), y.is_preferred()) {
        (true, false) => true,
        (false, true) => false,
        _ => x.estimated_ns() < y.estimated_ns(),
    }
}

/// All candidates, the first choice first.
pub(super) fn all<D: Desc>(
    desc: &D,
    device: &DeviceInfo,
    model: &MachineModel,
) -> Vec<D::Candidate> {
    let mut all = Vec::new();
    desc.candidates(device, model, &mut |candidate| all.push(candidate));
    all.sort_by(|x, y| {
        let preferred = y.is_preferred().cmp(&x.is_preferred());
        preferred.then(x.estimated_ns().total_cmp(&y.estimated_ns()))
    });
    all
}

/// The candidate with this name, or the first choice of those of an entry with this name.
fn named<D: Desc>(desc: &D, name: &str, device: &DeviceInfo) -> Result<D::Candidate> {
    let all = all(desc, device, MachineModel::of(device));
    let by_name = all.iter().find(|candidate| candidate.to_string() == name);
    let of_entry = || all.iter().find(|candidate| candidate.shown().entry == name);
    by_name.or_else(of_entry).copied().ok_or_else(|| {
        let names: Vec<String> = all.iter().map(ToString::to_string).collect();
        Error::unsupported(
            format!(
                "kernel `{name}` for {} {desc} on {device}",
                desc.operation()
            ),
            names.join(", "),
        )
    })
}

#[cold]
fn no_candidate<D: Desc>(desc: &D, device: &DeviceInfo) -> Error {
    Error::unsupported(
        format!("{} {desc} on {device}", desc.operation()),
        desc.supported(),
    )
}

/// The kernel that an operation would run, and all other candidates. The operation's `plan` makes
/// it, and its `Display` lists them.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    description: String,
    chosen: Option<(Candidate, PlanSource)>,
    candidates: Vec<Candidate>,
}

impl Plan {
    /// The plan of an operation that has nothing to compute.
    pub(super) fn empty() -> Self {
        Self {
            description: "nothing to compute".into(),
            chosen: None,
            candidates: Vec::new(),
        }
    }

    /// The plan of work for which there is one kernel.
    pub(super) fn only(description: String, candidate: Candidate) -> Self {
        Self {
            description,
            chosen: Some((candidate.clone(), PlanSource::Model)),
            candidates: vec![candidate],
        }
    }

    /// The plan of `desc`, with the kernel named `forced`, or the best.
    pub(super) fn of<D: Desc>(desc: &D, forced: Option<&str>, stream: &Stream) -> Result<Self> {
        let (chosen, source) = choose(desc, forced, stream)?;
        let device = stream.device().info();
        let all = all(desc, device, MachineModel::of(device));
        Ok(Self {
            description: format!("{} {desc}", desc.operation()),
            chosen: Some((Candidate::of(&chosen), source)),
            candidates: all.iter().map(Candidate::of).collect(),
        })
    }

    /// The candidate that runs; `None` if there is nothing to compute.
    pub fn chosen(&self) -> Option<&Candidate> {
        self.chosen.as_ref().map(|(candidate, _)| candidate)
    }

    /// Why it was chosen; `None` if there is nothing to compute.
    pub fn source(&self) -> Option<PlanSource> {
        self.chosen.as_ref().map(|&(_, source)| source)
    }

    /// All candidates, the first choice first.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)?;
        if let Some((chosen, source)) = &self.chosen {
            write!(f, "\n{source}: {chosen}")?;
        }
        let chosen = self.chosen().map(|chosen| &chosen.name);
        for other in &self.candidates {
            if Some(&other.name) != chosen {
                write!(f, "\nor {other}")?;
            }
        }
        Ok(())
    }
}
