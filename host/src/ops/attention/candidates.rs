//! The kernels that can compute an attention, their estimates, and their launch.
//!
//! Each family of kernels has a file with three functions: `offer` lists its kernels that compute
//! an [`AttentionDesc`] as candidates, `launch` enqueues one of them, and `model` is its error
//! model. This file has what they share. An estimate is the time, in nanoseconds, of the work
//! without a mask: it ranks candidates, and predicts nothing.

use super::call::Call;
use super::desc::AttentionDesc;
use super::packing::Sharing;
use super::{decode, simt, sm75, sm80, sm90};
use crate::reference::attention::AttentionModel;
use crate::{DeviceInfo, Error, LaunchConfig, Result};
use abi::attention::SimtEntry;
use abi::attention::decode::DecodeEntry;
use abi::attention::sm75::Sm75Entry;
use abi::attention::sm80::Sm80Entry;
use abi::attention::sm90::FwdEntry;
use std::fmt;

/// A kernel of one family; its `Display` is the entry name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Entry {
    Simt(SimtEntry),
    Sm75(Sm75Entry),
    Sm80(Sm80Entry),
    Decode(DecodeEntry),
    Sm90(FwdEntry),
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simt(entry) => entry.fmt(f),
            Self::Sm75(entry) => entry.fmt(f),
            Self::Sm80(entry) => entry.fmt(f),
            Self::Decode(entry) => entry.fmt(f),
            Self::Sm90(entry) => entry.fmt(f),
        }
    }
}

/// One way to compute attention; its `Display` is the entry name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) entry: Entry,
    /// Tile of a block: queries and keys.
    pub(super) tile: [u32; 2],
    pub(super) sharing: Sharing,
    pub(super) config: LaunchConfig,
    pub(super) estimated_ns: f64,
}

impl Candidate {
    /// Enqueues it.
    pub(super) fn launch(&self, call: &Call<'_>) -> Result<()> {
        let packs = match self.entry {
            Entry::Decode(_) => true,
            Entry::Sm90(entry) => entry.is_packed,
            _ => false,
        };
        let mut viewed = None;
        if self.sharing.heads > 1 && !packs {
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
            Entry::Decode(entry) => decode::launch(entry, self, call),
            Entry::Sm90(entry) => sm90::launch(entry, self, call),
        }
    }

    /// Its error model.
    pub(super) fn model(&self, desc: &AttentionDesc) -> AttentionModel {
        match self.entry {
            Entry::Simt(_) => simt::model(desc),
            // sm_75's instructions have half the k of sm_80's; the sm_80 model counts additions
            // twice, which covers that.
            Entry::Sm75(entry) => sm80::model(entry.tile().tile_n, desc),
            Entry::Sm80(entry) => sm80::model(entry.tile().tile_n, desc),
            Entry::Decode(_) => decode::model(self.sharing, desc),
            Entry::Sm90(entry) => sm90::model(entry, self.sharing, desc),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry.fmt(f)
    }
}

/// Calls `offer` with all candidates for `desc` that pack heads and split keys as it requires.
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
    decode::offer(desc, device, offer);
    // Heads as queries: fewer tiles, and none longer, so it is never worse.
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

/// Time of the whole device with `flops_per_cycle` per SM (a multiply-add counts as two). All
/// devices are assumed to have the same clock.
pub(super) fn estimate_ns(desc: &AttentionDesc, device: &DeviceInfo, flops_per_cycle: f64) -> f64 {
    const CYCLES_PER_NS: f64 = 1.5;
    let multiprocessors = f64::from(device.multiprocessors.max(1));
    desc.flops() / (flops_per_cycle * multiprocessors * CYCLES_PER_NS)
}
