//! Which kernels compute an attention, what each is expected to take, and how it is launched.
//!
//! A family of kernels is a file of its own with three functions: `offer` adds those that compute an
//! [`AttentionDesc`], `launch` enqueues one of them, `model` says how it computes. What they share is
//! here. An estimate is in nanoseconds of the work that there would be without a mask: it ranks
//! candidates, no more.

use super::call::Call;
use super::desc::AttentionDesc;
use super::packing::Sharing;
use super::{simt, sm75, sm80, sm90};
use crate::reference::attention::AttentionModel;
use crate::{DeviceInfo, Error, LaunchConfig, Result};
use spec::attention::SimtEntry;
use spec::attention::sm75::Sm75Entry;
use spec::attention::sm80::Sm80Entry;
use spec::attention::sm90::FwdEntry;
use std::fmt;

/// A kernel of one family; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Entry {
    Simt(SimtEntry),
    Sm75(Sm75Entry),
    Sm80(Sm80Entry),
    Sm90(FwdEntry),
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simt(entry) => entry.fmt(f),
            Self::Sm75(entry) => entry.fmt(f),
            Self::Sm80(entry) => entry.fmt(f),
            Self::Sm90(entry) => entry.fmt(f),
        }
    }
}

/// One way to compute an attention. Displays as its entry's name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) entry: Entry,
    /// Queries and keys that a block takes at once.
    pub(super) tile: [u32; 2],
    pub(super) sharing: Sharing,
    pub(super) config: LaunchConfig,
    pub(super) estimated_ns: f64,
}

impl Candidate {
    /// Enqueues it.
    pub(super) fn launch(&self, call: &Call<'_>) -> Result<()> {
        let is_packed = matches!(self.entry, Entry::Sm90(entry) if entry.is_packed);
        let mut viewed = None;
        if self.sharing.heads > 1 && !is_packed {
            const OFFERED: Error = Error::Bug("heads were offered as queries that cannot be");
            viewed = Some(Call {
                desc: call.desc.heads_as_queries().ok_or(OFFERED)?,
                ..call.clone()
            });
        }
        let call = viewed.as_ref().unwrap_or(call);
        match self.entry {
            Entry::Simt(entry) => simt::launch(entry, self, call),
            Entry::Sm75(entry) => sm75::launch(entry, self, call),
            Entry::Sm80(entry) => sm80::launch(entry, self, call),
            Entry::Sm90(entry) => sm90::launch(entry, self, call),
        }
    }

    /// How it computes, for error bounds.
    pub(super) fn model(&self, desc: &AttentionDesc) -> AttentionModel {
        match self.entry {
            Entry::Simt(_) => simt::model(desc),
            // Half the products of an instruction each: what is counted twice is counted for both.
            Entry::Sm75(entry) => sm80::model(entry.tile(), desc),
            Entry::Sm80(entry) => sm80::model(entry.tile(), desc),
            Entry::Sm90(entry) => sm90::model(entry, self.sharing, desc),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry.fmt(f)
    }
}

/// Hands all candidates for `desc` to `offer`: those that share heads and keys as it wants.
pub(super) fn offer_all(
    desc: &AttentionDesc,
    device: &DeviceInfo,
    offer: &mut dyn FnMut(Candidate),
) {
    let offer = &mut |candidate: Candidate| {
        let Sharing { heads, splits } = candidate.sharing;
        let packs = desc.packs_heads.is_none_or(|packs| packs == (heads > 1));
        if packs && desc.key_splits.is_none_or(|wanted| wanted == splits) {
            offer(candidate);
        }
    };
    sm90::offer_packed(desc, device, offer);
    // Fewer tiles, and none longer: never worse.
    let viewed = match desc.packs_heads {
        Some(false) => None,
        _ => desc.heads_as_queries(),
    };
    let (desc, heads) = match &viewed {
        Some(viewed) => (viewed, viewed.seqlen_q),
        None => (desc, 1),
    };
    let offer = &mut |candidate: Candidate| {
        let splits = candidate.sharing.splits;
        offer(Candidate {
            sharing: Sharing { heads, splits },
            ..candidate
        });
    };
    simt::offer(desc, device, offer);
    sm75::offer(desc, device, offer);
    sm80::offer(desc, device, offer);
    sm90::offer(desc, device, offer);
}

/// Nanoseconds that the whole device takes, where a multiprocessor does `flops_per_cycle`
/// multiply-adds, counted as two, in a cycle. All devices are taken to have one clock.
pub(super) fn estimate_ns(desc: &AttentionDesc, device: &DeviceInfo, flops_per_cycle: f64) -> f64 {
    const CYCLES_PER_NS: f64 = 1.5;
    let multiprocessors = f64::from(device.multiprocessors.max(1));
    desc.flops() / (flops_per_cycle * multiprocessors * CYCLES_PER_NS)
}
