//! The choice of the candidate that runs.

use super::candidates::{Candidate, offer_all};
use super::desc::GemmDesc;
use super::tuned::Tuned;
use crate::device::lock;
use crate::{DeviceInfo, Error, Result, Stream};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

/// State that a device keeps for GEMMs.
#[derive(Default)]
pub(crate) struct GemmState {
    chosen: RwLock<HashMap<GemmDesc, (Candidate, PlanSource)>>,
    tuned: OnceLock<Mutex<Tuned>>,
}

/// Capacity of the cache of choices, which is cleared when it is full.
const REMEMBERED: usize = 8192;

impl GemmState {
    fn get(&self, desc: &GemmDesc) -> Option<(Candidate, PlanSource)> {
        let chosen = self.chosen.read().unwrap_or_else(PoisonError::into_inner);
        chosen.get(desc).copied()
    }

    /// Makes `candidate` the choice for `desc` from now on.
    pub(super) fn remember(&self, desc: &GemmDesc, candidate: Candidate, source: PlanSource) {
        let mut chosen = self.chosen.write().unwrap_or_else(PoisonError::into_inner);
        if chosen.len() >= REMEMBERED {
            chosen.clear();
        }
        chosen.insert(*desc, (candidate, source));
    }

    /// The tuned choices for this kind of device, loaded on first use.
    fn tuned(&self, device: &DeviceInfo) -> &Mutex<Tuned> {
        self.tuned.get_or_init(|| Mutex::new(Tuned::load(device)))
    }

    /// Stores the winner of a measurement for later processes.
    pub(super) fn keep(&self, desc: &GemmDesc, winner: Candidate, device: &DeviceInfo) {
        lock(self.tuned(device)).keep(desc.to_string(), winner.to_string());
    }

    /// The winner of an earlier measurement, if such a candidate still exists.
    fn earlier_winner(&self, desc: &GemmDesc, device: &DeviceInfo) -> Option<Candidate> {
        let name = lock(self.tuned(device)).get(&desc.to_string())?.to_owned();
        named(desc, &name, device)
            .inspect_err(|error| tracing::warn!(%error, "a tuned choice is not there any more"))
            .ok()
    }
}

/// Why a kernel was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PlanSource {
    /// The cost model expects it to be the fastest.
    Model,
    /// [`Gemm::autotune`](crate::Gemm::autotune) found it to be the fastest.
    Tuned,
    /// [`Gemm::with_kernel`](crate::Gemm::with_kernel) requested it.
    Forced,
}

/// The candidate that computes `desc`: the one named `forced`, or the best.
pub(super) fn choose(
    desc: &GemmDesc,
    forced: Option<&str>,
    stream: &Stream,
) -> Result<(Candidate, PlanSource)> {
    let device = stream.device();
    if let Some(name) = forced {
        return named(desc, name, device.info()).map(|candidate| (candidate, PlanSource::Forced));
    }
    if let Some(known) = device.gemm().get(desc) {
        return Ok(known);
    }
    if let Some(winner) = device.gemm().earlier_winner(desc, device.info()) {
        device.gemm().remember(desc, winner, PlanSource::Tuned);
        return Ok((winner, PlanSource::Tuned));
    }
    let mut best: Option<Candidate> = None;
    offer_all(desc, device.info(), &mut |candidate| {
        if best.is_none_or(|best| candidate.estimated_ns < best.estimated_ns) {
            best = Some(candidate);
        }
    });
    let best = best.ok_or_else(|| no_candidate(desc, device.info()))?;
    device.gemm().remember(desc, best, PlanSource::Model);
    Ok((best, PlanSource::Model))
}

/// All candidates, the one expected to be fastest first.
pub(super) fn all(desc: &GemmDesc, device: &DeviceInfo) -> Vec<Candidate> {
    let mut all = Vec::new();
    offer_all(desc, device, &mut |candidate| all.push(candidate));
    all.sort_by(|x, y| x.estimated_ns.total_cmp(&y.estimated_ns));
    all
}

fn named(desc: &GemmDesc, name: &str, device: &DeviceInfo) -> Result<Candidate> {
    let all = all(desc, device);
    let found = all.iter().find(|candidate| candidate.to_string() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<String> = all.iter().map(ToString::to_string).collect();
        Error::unsupported(
            format!("kernel `{name}` for the product {desc} on {device}"),
            names.join(", "),
        )
    })
}

#[cold]
fn no_candidate(desc: &GemmDesc, device: &DeviceInfo) -> Error {
    Error::unsupported(
        format!("the product {desc} on {device}"),
        "fewer than 2^31 tiles of 64 x 64 results, a batch of at most 65535 x 65535, \
                    and a `split_k` that a kernel has",
    )
}

/// One way to compute a GEMM, as listed by [`GemmPlan`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GemmCandidate {
    /// Its name, for [`Gemm::with_kernel`](crate::Gemm::with_kernel): the entry name of the main
    /// kernel, and the launch options that distinguish it.
    pub name: String,
    /// Entry name of the main kernel.
    pub entry: String,
    /// Tile of one block: m, n, k.
    pub tile: [u32; 3],
    /// Cluster extents in x, y, z, in blocks.
    pub cluster: [u32; 3],
    /// Number of parts into which k is split (split-K).
    pub split_k: u32,
    /// Whether blocks share tiles and add up their partial sums (stream-K).
    pub stream_k: bool,
    /// Grid extents in x, y, z, in blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Run time estimated by the cost model.
    pub estimated: Duration,
}

impl From<&Candidate> for GemmCandidate {
    fn from(candidate: &Candidate) -> Self {
        Self {
            name: candidate.to_string(),
            entry: candidate.entry.to_string(),
            tile: candidate.tile,
            cluster: candidate.cluster(),
            split_k: candidate.split_k,
            stream_k: candidate.stream_k,
            grid: candidate.config.grid,
            threads: candidate.config.block.iter().product(),
            shared_bytes: candidate.config.shared_bytes,
            estimated: Duration::from_nanos(candidate.estimated_ns as u64),
        }
    }
}

impl fmt::Display for GemmCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
        write!(
            f,
            "{}: tile {}, cluster {}, split {}, grid {}, {} threads, {} bytes shared, about {:?}",
            self.name,
            by(self.tile),
            by(self.cluster),
            self.split_k,
            by(self.grid),
            self.threads,
            self.shared_bytes,
            self.estimated
        )
    }
}

/// The kernel that a GEMM would run, and all other candidates. [`Gemm::plan`](crate::Gemm::plan)
/// makes it, and its `Display` lists them.
#[derive(Clone, Debug, PartialEq)]
pub struct GemmPlan {
    description: String,
    chosen: Option<(GemmCandidate, PlanSource)>,
    candidates: Vec<GemmCandidate>,
}

impl GemmPlan {
    /// The plan of a GEMM without elements.
    pub(super) fn empty() -> Self {
        Self {
            description: "nothing to compute".into(),
            chosen: None,
            candidates: Vec::new(),
        }
    }

    pub(super) fn new(desc: &GemmDesc, forced: Option<&str>, stream: &Stream) -> Result<Self> {
        let (candidate, source) = choose(desc, forced, stream)?;
        let all = all(desc, stream.device().info());
        Ok(Self {
            description: desc.to_string(),
            chosen: Some((GemmCandidate::from(&candidate), source)),
            candidates: all.iter().map(GemmCandidate::from).collect(),
        })
    }

    /// The candidate that runs; `None` if there is nothing to compute.
    pub fn chosen(&self) -> Option<&GemmCandidate> {
        self.chosen.as_ref().map(|(candidate, _)| candidate)
    }

    /// Why it was chosen; `None` if there is nothing to compute.
    pub fn source(&self) -> Option<PlanSource> {
        self.chosen.as_ref().map(|&(_, source)| source)
    }

    /// All candidates, the one with the lowest estimate first.
    pub fn candidates(&self) -> &[GemmCandidate] {
        &self.candidates
    }
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

impl fmt::Display for GemmPlan {
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
