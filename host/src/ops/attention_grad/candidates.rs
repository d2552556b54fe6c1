//! The kernels that can compute the gradients of an attention, their estimates, and their launch.
//!
//! Each family of kernels has a file with three functions: `offer` lists what computes a
//! [`GradDesc`] as candidates, `launch` enqueues one of them, and `model` is its error model.

use super::call::GradCall;
use super::desc::GradDesc;
use super::{simt, sm80, sm90};
use crate::ops::plan::{Choice, Desc, Machine, MachineModel, Shown};
use crate::reference::attention::AttentionGradModel;
use crate::{DeviceInfo, LaunchConfig, Result};
use abi::attention_grad::SimtGradEntry;
use abi::attention_grad::sink::sink_additions;
use abi::attention_grad::sm80::Sm80Grad;
use abi::attention_grad::sm90::Sm90GradEntry;
use std::fmt;

/// The kernels of one family; its `Display` is the name of the candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Entry {
    Simt(SimtGradEntry),
    Sm80(Sm80Grad),
    /// And how heads are shared.
    Sm90(Sm90GradEntry, Together),
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

/// How a block of Hopper's kernels takes the query heads of a key/value head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Together {
    /// Query heads of a block.
    pub(super) heads: u32,
    /// Turns in which blocks add to the same dk and dv.
    pub(super) adders: u32,
}

/// One way to compute the gradients; its `Display` is its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) entry: Entry,
    /// Tile of a block: queries and keys.
    pub(super) tile: [u32; 2],
    /// Of the main kernel.
    pub(super) config: LaunchConfig,
    pub(super) estimated_ns: f64,
}

impl Candidate {
    /// Its error model.
    pub(super) fn model(&self, desc: &GradDesc) -> AttentionGradModel {
        let forward = &desc.forward;
        let model = match self.entry {
            Entry::Simt(_) => simt::model(),
            Entry::Sm80(kernels) => sm80::model(kernels.dq.dtype),
            Entry::Sm90(entry, together) => sm90::model((entry, together.adders), forward.seqlen_k),
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

impl Choice for Candidate {
    type Call<'a> = GradCall<'a>;

    fn estimated_ns(&self) -> f64 {
        self.estimated_ns
    }

    fn shown(&self) -> Shown {
        let [queries, keys] = self.tile;
        Shown {
            entry: self.entry.to_string(),
            tile: [queries, keys, 0],
            split: 1,
            config: self.config,
        }
    }

    /// Delta is included, the sinks' gradients are not.
    fn launch(&self, call: &GradCall<'_>) -> Result<()> {
        match self.entry {
            Entry::Simt(entry) => simt::launch(entry, call),
            Entry::Sm80(kernels) => sm80::launch(kernels, call),
            Entry::Sm90(entry, together) => sm90::launch((entry, together), self.config, call),
        }
    }
}

impl Desc for GradDesc {
    const OPERATION: &'static str = "attention_grad";

    type Candidate = Candidate;

    fn candidates(
        &self,
        device: &DeviceInfo,
        model: &MachineModel,
        offer: &mut dyn FnMut(Candidate),
    ) {
        let machine = Machine::of(device, model);
        simt::offer(self, &machine, offer);
        sm80::offer(self, &machine, offer);
        sm90::offer(self, &machine, offer);
    }

    fn supported(&self) -> String {
        "head_dim and head_dim_v up to 256, and batch * heads_q and batch * heads_kv below 65,535^2"
            .into()
    }
}

/// Time of a launch by the whole device with `flops_per_cycle` per SM (a multiply-add counts as
/// two), without a mask.
pub(super) fn estimate_ns(desc: &GradDesc, machine: &Machine, flops_per_cycle: f64) -> f64 {
    let flops_per_ns = flops_per_cycle * machine.model.attention.clock_ghz;
    desc.flops() / (flops_per_ns * f64::from(machine.multiprocessors)) + machine.model.launch_ns
}
