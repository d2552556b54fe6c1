//! The choice of the candidate that runs.

use super::candidates::{Candidate, offer_all};
use super::desc::GradDesc;
use crate::ops::ranked::{self, Plan, Ranked};
use crate::{DeviceInfo, Error, Result, Stream};
use std::fmt;
use std::time::Duration;

/// The candidate that computes `desc`: the one named `forced`, or the best.
pub(super) fn choose(desc: &GradDesc, forced: Option<&str>, stream: &Stream) -> Result<Candidate> {
    let device = stream.device().info();
    let chosen = ranked::choose(forced, |offer| offer_all(desc, device, offer));
    chosen.ok_or_else(|| no_candidate(desc, forced, device))
}

/// All candidates, the one expected to be fastest first.
fn all(desc: &GradDesc, device: &DeviceInfo) -> Vec<Candidate> {
    ranked::all(|offer| offer_all(desc, device, offer))
}

impl Ranked for Candidate {
    fn estimated_ns(&self) -> f64 {
        self.estimated_ns
    }
}

#[cold]
fn no_candidate(desc: &GradDesc, forced: Option<&str>, device: &DeviceInfo) -> Error {
    let names: Vec<String> = all(desc, device).iter().map(ToString::to_string).collect();
    match forced {
        Some(name) => Error::unsupported(
            format!("kernel `{name}` for gradients of attention {desc} on {device}"),
            names.join(", "),
        ),
        None => Error::unsupported(
            format!("gradients of attention {desc} on {device}"),
            "batch * heads_q and batch * heads_kv below 65,535^2",
        ),
    }
}

/// One way to compute the gradients of an attention, as listed by [`AttentionGradPlan`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AttentionGradCandidate {
    /// Its name, for [`AttentionGrad::with_kernel`](crate::AttentionGrad::with_kernel).
    pub name: String,
    /// Entry names of the kernels that run after the one that computes delta, in order. The one of the
    /// sinks' gradients, the same for all candidates, comes last and is not among them.
    pub kernels: Vec<String>,
    /// Tile of a block: queries and keys.
    pub tile: [u32; 2],
    /// Estimate that ranks candidates. It is not a prediction of the run time.
    pub estimated: Duration,
}

impl From<&Candidate> for AttentionGradCandidate {
    fn from(candidate: &Candidate) -> Self {
        Self {
            name: candidate.to_string(),
            kernels: candidate.entry.kernels(),
            tile: candidate.tile,
            estimated: Duration::from_nanos(candidate.estimated_ns as u64),
        }
    }
}

impl fmt::Display for AttentionGradCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n] = self.tile;
        let kernels = self.kernels.join(", ");
        write!(f, "{}: tile {m}x{n}, kernels {kernels}", self.name)
    }
}

/// The kernels that compute the gradients of an attention, and all other candidates.
/// [`AttentionGrad::plan`](crate::AttentionGrad::plan) makes it.
pub type AttentionGradPlan = Plan<AttentionGradCandidate>;

/// The plan of `desc`, with the kernel named `forced`, or the best.
pub(super) fn plan(
    desc: &GradDesc,
    forced: Option<&str>,
    stream: &Stream,
) -> Result<AttentionGradPlan> {
    let chosen = choose(desc, forced, stream)?;
    let all = all(desc, stream.device().info());
    let candidates = all.iter().map(AttentionGradCandidate::from).collect();
    Ok(Plan::of(desc.to_string(), (&chosen).into(), candidates))
}
