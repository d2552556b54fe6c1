//! The kernels that can compute the gradients of an attention, their estimates, and their launch.
//!
//! Each family of kernels has a file with three functions: `offer` lists what computes a
//! [`GradDesc`] as candidates, `launch` enqueues one of them, and `model` is its error model. An
//! estimate is the time, in nanoseconds, of the work without a mask: it ranks candidates, and
//! predicts nothing.

use super::call::GradCall;
use super::desc::GradDesc;
use super::{simt, sm80, sm90};
use crate::reference::attention::AttentionGradModel;
use crate::{DeviceInfo, Result};
use abi::attention::backward::BackwardEntry;
use abi::attention::backward::sink::sink_additions;
use abi::attention::backward::sm80::Sm80Bwd;
use abi::attention::backward::sm90::BwdEntry;
use abi::attention::backward::sums::ROUND_ENTRY;
use std::fmt;

/// The kernels of one family; its `Display` is the name of the candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Entry {
    Simt(BackwardEntry),
    Sm80(Sm80Bwd),
    /// And the turns in which blocks add to the same dk and dv.
    Sm90(BwdEntry, u32),
}

impl Entry {
    /// The entries that it launches after delta's, in order.
    pub(super) fn kernels(&self) -> Vec<String> {
        match self {
            // Twice: for dq, then for dk and dv.
            Self::Simt(entry) => vec![entry.to_string(); 2],
            Self::Sm80(kernels) => kernels.entries().map(|entry| entry.to_string()).collect(),
            // Then dq of its sums, and dk and dv where these are sums too.
            Self::Sm90(entry, turns) => {
                let rounded = if *turns > 1 { 3 } else { 1 };
                let mut kernels = vec![entry.to_string()];
                kernels.resize(1 + rounded, ROUND_ENTRY.to_string());
                kernels
            }
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simt(entry) => entry.fmt(f),
            Self::Sm80(kernels) => kernels.fmt(f),
            Self::Sm90(entry, _) => entry.fmt(f),
        }
    }
}

/// One way to compute the gradients; its `Display` is its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) entry: Entry,
    /// Tile of a block: queries and keys.
    pub(super) tile: [u32; 2],
    pub(super) estimated_ns: f64,
}

impl Candidate {
    /// Enqueues it, delta included, but not the sinks' gradients.
    pub(super) fn launch(&self, call: &GradCall<'_>) -> Result<()> {
        match self.entry {
            Entry::Simt(entry) => simt::launch(entry, call),
            Entry::Sm80(kernels) => sm80::launch(kernels, call),
            Entry::Sm90(entry, _) => sm90::launch(entry, call),
        }
    }

    /// Its error model.
    pub(super) fn model(&self, desc: &GradDesc) -> AttentionGradModel {
        let forward = &desc.forward;
        let model = match self.entry {
            Entry::Simt(_) => simt::model(),
            Entry::Sm80(kernels) => sm80::model(kernels.dq.dtype),
            Entry::Sm90(entry, turns) => sm90::model((entry, turns), forward.seqlen_k),
        };
        // Sinks are the same kernel's for all.
        let additions = sink_additions(forward.batch, forward.seqlen_q);
        AttentionGradModel {
            sink_additions: usize::try_from(additions).unwrap_or(usize::MAX),
            ..model
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry.fmt(f)
    }
}

/// Calls `offer` with all candidates for `desc`.
pub(super) fn offer_all(desc: &GradDesc, device: &DeviceInfo, offer: &mut dyn FnMut(Candidate)) {
    simt::offer(desc, device, offer);
    sm80::offer(desc, device, offer);
    sm90::offer(desc, device, offer);
}

/// Time of the whole device with `flops_per_cycle` per SM (a multiply-add counts as two). All
/// devices are assumed to have the same clock.
pub(super) fn estimate_ns(desc: &GradDesc, device: &DeviceInfo, flops_per_cycle: f64) -> f64 {
    const CYCLES_PER_NS: f64 = 1.5;
    let multiprocessors = f64::from(device.multiprocessors.max(1));
    desc.flops() / (flops_per_cycle * multiprocessors * CYCLES_PER_NS)
}
