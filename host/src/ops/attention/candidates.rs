//! The kernels that can compute an attention, their estimates, and their launch.
//!
//! Each family of kernels has a file with three functions. `offer` lists its kernels that compute
//! an [`AttentionDesc`] as candidates, `launch` enqueues one of them, and `model` is its error
//! model. This file has what they share.

use super::call::Call;
use super::desc::AttentionDesc;
use super::packing::Sharing;
use super::{decode, simt, sm75, sm80, sm90};
use crate::ops::plan::{Choice, Desc, Machine, MachineModel, Shown};
use crate::reference::attention::AttentionModel;
use crate::{DeviceInfo, Error, LaunchConfig, Result};
use abi::attention::decode::{self as rows, DecodeEntry};
use abi::attention::sm75::Sm75Entry;
use abi::attention::sm80::Sm80Entry;
use abi::attention::sm90::FwdEntry;
use abi::attention::{FwdPacking, MOST_PACKED_HEADS, MOST_SPLITS, SimtEntry};
use std::fmt;

/// A kernel of one family; its `Display` is the entry name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::ops) enum Entry {
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

/// One way to compute attention. Its `Display` is its name: the entry name and what is shared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::ops) struct Candidate {
    pub(super) entry: Entry,
    /// Tile of a block: queries and keys.
    pub(super) tile: [u32; 2],
    pub(super) sharing: Sharing,
    /// How a tile has several heads or parts of keys, in kernels that pack by themselves.
    pub(super) packing: Option<FwdPacking>,
    /// Whether heads are viewed as queries: [`AttentionDesc::heads_as_queries`].
    pub(super) views_heads: bool,
    pub(super) config: LaunchConfig,
    pub(super) estimated_ns: f64,
}

impl Candidate {
    /// A tile has one head and all of its keys.
    pub(super) fn plain(
        entry: Entry,
        tile: [u32; 2],
        config: LaunchConfig,
        estimated_ns: f64,
    ) -> Self {
        Self {
            entry,
            tile,
            sharing: Sharing::NONE,
            packing: None,
            views_heads: false,
            config,
            estimated_ns,
        }
    }

    /// Its error model.
    pub(super) fn model(&self, desc: &AttentionDesc) -> AttentionModel {
        match self.entry {
            Entry::Simt(_) => simt::model(desc),
            // sm_75's instructions have half the k of sm_80's; the sm_80 model counts additions
            // twice, which covers that.
            Entry::Sm75(entry) => sm80::model(entry.tile().tile_n, desc, desc.dtype),
            Entry::Sm80(entry) => sm80::model(entry.tile().tile_n, desc, desc.dtype),
            Entry::Decode(_) => decode::model(self.sharing, desc),
            Entry::Sm90(entry) => sm90::model(entry, self.sharing, desc),
        }
    }
}

impl Choice for Candidate {
    type Call<'a> = Call<'a>;

    fn estimated_ns(&self) -> f64 {
        self.estimated_ns
    }

    /// The kernels for few queries go first where a tile has room for all of them: other kernels'
    /// tiles have 64 rows or more, and read keys no faster.
    fn is_preferred(&self) -> bool {
        matches!(self.entry, Entry::Decode(_))
    }

    fn shown(&self) -> Shown {
        let [queries, keys] = self.tile;
        Shown {
            entry: self.entry.to_string(),
            tile: [queries, keys, 0],
            split: self.sharing.splits,
            config: self.config,
        }
    }

    fn launch(&self, call: &Call<'_>) -> Result<()> {
        let mut viewed = None;
        if call.desc.has_blocks() {
            let score = call.score.clone();
            let score = score.map(|score| score.for_tile(self.tile, false));
            viewed = Some(Call {
                score: score.transpose()?,
                ..call.clone()
            });
        }
        if self.views_heads {
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
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry.fmt(f)?;
        let Sharing { heads, splits } = self.sharing;
        for (name, count) in [("heads", heads), ("split", splits)] {
            if count > 1 {
                write!(f, "+{name}{count}")?;
            }
        }
        Ok(())
    }
}

impl Desc for AttentionDesc {
    const OPERATION: &'static str = "attention";

    type Candidate = Candidate;

    fn candidates(
        &self,
        device: &DeviceInfo,
        model: &MachineModel,
        offer: &mut dyn FnMut(Candidate),
    ) {
        offer_all(self, &Machine::of(device, model), offer);
    }

    fn supported(&self) -> String {
        if self.kv_dtype != self.dtype {
            return "keys and values in e4m3 with q in f16 or bf16, on sm_80 and newer: head_dim and head_dim_v \
                    multiples of 16 up to 128, rows aligned to 16 bytes, pages of a multiple of 16 positions, \
                    softmax_scale above 0, no block mask"
                .to_owned();
        }
        if self.head_dim.max(self.head_dim_v) > 256 {
            return "head_dim above 256 in f16 and bf16 on sm_90: multiples of 8, rows aligned to 16 bytes, \
                    softmax_scale above 0, no block mask"
                .to_owned();
        }
        if self.packs_heads.is_none() && self.key_splits.is_none() {
            return "batch * heads_q below 65,535^2".to_owned();
        }
        let [mut packs, mut splits] = [(); 2].map(|()| "anything".to_owned());
        if let Some(wanted) = self.packs_heads {
            packs = wanted.to_string();
        }
        if let Some(wanted) = self.key_splits {
            splits = wanted.to_string();
        }
        if self.batch_invariant {
            return format!(
                "pack_heads({packs}) with key_splits({splits}) and batch_invariant: key_splits of 1"
            );
        }
        let group = self.heads_q / self.heads_kv;
        let packed = FwdEntry::ALL.iter().filter(|entry| entry.is_packed);
        let of: Vec<&str> = packed.map(FwdEntry::name).collect();
        let decoding: Vec<&str> = DecodeEntry::ALL.iter().map(DecodeEntry::name).collect();
        let rows = rows::MOST_ROWS;
        format!(
            "pack_heads({packs}) with key_splits({splits}) by {}: on sm_90a, rows aligned to 16 bytes, head_dim \
             and head_dim_v multiples of 8 that the kernel has room for, keys in 1 to {MOST_SPLITS} parts; heads \
             are packed where something above 1 and up to {MOST_PACKED_HEADS} divides the {group} on a key head, \
             or where each sequence has a single query that sees all keys; by {}: on sm_80 and newer, the same, \
             where all queries of the heads on a key head are {rows} at most",
            of.join(", "),
            decoding.join(", ")
        )
    }
}

/// Calls `offer` with all candidates for `desc` that pack heads and split keys as it requires.
fn offer_all(desc: &AttentionDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    let offer = &mut |candidate: Candidate| {
        let Sharing { heads, splits } = candidate.sharing;
        let packs = desc.packs_heads.is_none_or(|packs| packs == (heads > 1));
        if packs && desc.key_splits.is_none_or(|wanted| wanted == splits) {
            offer(candidate);
        }
    };
    if desc.kv_dtype != desc.dtype {
        if !desc.is_placed() {
            decode::offer(desc, machine, offer);
        }
        return;
    }
    if desc.is_placed() && desc.may_hide_keys() {
        // Other kernels count blocks from the first key that some query sees.
        return simt::offer(desc, machine, offer);
    }
    if desc.batch_invariant {
        return offer_invariant(desc, machine, offer);
    }
    if !desc.is_placed() {
        sm90::offer_packed(desc, machine, offer);
        decode::offer(desc, machine, offer);
    }
    with_heads_as_queries(desc, offer, |desc, offer| {
        simt::offer(desc, machine, offer);
        sm75::offer(desc, machine, offer);
        sm80::offer(desc, machine, offer);
        sm90::offer(desc, machine, offer);
    });
}

/// A family's offers.
type Offer = fn(&AttentionDesc, &Machine, &mut dyn FnMut(Candidate));

/// Offers the kernels of the first family that computes a batch-invariant attention. Each row is
/// computed by itself in them, in blocks of keys that are counted from the sequence's first. (With a
/// window, others but those for few queries count keys from the first that some query sees.)
fn offer_invariant(desc: &AttentionDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    if desc.key_splits.is_some_and(|splits| splits > 1) {
        return;
    }
    let families: &[Offer] = match desc.pages {
        Some(_) if desc.is_placed() => &[simt::offer],
        Some(_) => return offer_first(&[decode::offer, simt::offer], desc, machine, offer),
        None if desc.may_hide_keys() => &[simt::offer],
        None => &[sm90::offer, sm80::offer, sm75::offer, simt::offer],
    };
    let mut of_hopper = None;
    with_heads_as_queries(desc, offer, |desc, offer| {
        offer_first(families, desc, machine, &mut |candidate| {
            if let Entry::Sm90(_) = candidate.entry {
                of_hopper = Some(candidate.tile);
            }
            offer(candidate);
        });
    });
    // Packed heads, with keys in one part and in blocks as long.
    if let Some([_, keys]) = of_hopper.filter(|_| !desc.is_placed()) {
        let whole = AttentionDesc {
            key_splits: Some(1),
            ..*desc
        };
        sm90::offer_packed(&whole, machine, &mut |candidate| {
            if candidate.tile[1] == keys {
                offer(candidate);
            }
        });
    }
}

/// Offers what the first of `families` offers that offers anything.
fn offer_first(
    families: &[Offer],
    desc: &AttentionDesc,
    machine: &Machine,
    offer: &mut dyn FnMut(Candidate),
) {
    for family in families {
        let mut is_there = false;
        family(desc, machine, &mut |candidate| {
            is_there = true;
            offer(candidate);
        });
        if is_there {
            return;
        }
    }
}

/// Offers what `offer_all` offers for heads viewed as queries, where they can be.
fn with_heads_as_queries(
    desc: &AttentionDesc,
    offer: &mut dyn FnMut(Candidate),
    offer_all: impl FnOnce(&AttentionDesc, &mut dyn FnMut(Candidate)),
) {
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
            views_heads: heads > 1,
            ..candidate
        });
    };
    offer_all(desc, offer);
}

/// Time of a launch by the whole device with `flops_per_cycle` per SM (a multiply-add counts as two),
/// without a mask.
pub(super) fn estimate_ns(desc: &AttentionDesc, machine: &Machine, flops_per_cycle: f64) -> f64 {
    let flops_per_ns = flops_per_cycle * machine.model.attention.clock_ghz;
    desc.flops() / (flops_per_ns * f64::from(machine.multiprocessors)) + machine.model.launch_ns
}
