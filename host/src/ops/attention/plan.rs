//! The choice of the candidate that runs.

use super::candidates::{Candidate, offer_all};
use super::desc::AttentionDesc;
use crate::ops::ranked::{self, Plan, Ranked};
use crate::{DeviceInfo, Error, Result, Stream};
use abi::attention::decode::{self, DecodeEntry};
use abi::attention::sm90::FwdEntry;
use abi::attention::{MOST_PACKED_HEADS, MOST_SPLITS};
use std::fmt;
use std::time::Duration;

/// The candidate that computes `desc`: the one named `forced`, or the best.
pub(super) fn choose(
    desc: &AttentionDesc,
    forced: Option<&str>,
    stream: &Stream,
) -> Result<Candidate> {
    let device = stream.device().info();
    let chosen = ranked::choose(forced, |offer| offer_all(desc, device, offer));
    chosen.ok_or_else(|| no_candidate(desc, forced, device))
}

/// All candidates, the one expected to be fastest first.
fn all(desc: &AttentionDesc, device: &DeviceInfo) -> Vec<Candidate> {
    ranked::all(|offer| offer_all(desc, device, offer))
}

impl Ranked for Candidate {
    fn estimated_ns(&self) -> f64 {
        self.estimated_ns
    }
}

#[cold]
fn no_candidate(desc: &AttentionDesc, forced: Option<&str>, device: &DeviceInfo) -> Error {
    let names: Vec<String> = all(desc, device).iter().map(ToString::to_string).collect();
    match forced {
        Some(name) => Error::unsupported(
            format!("kernel `{name}` for attention {desc} on {device}"),
            names.join(", "),
        ),
        None => Error::unsupported(format!("attention {desc} on {device}"), supported(desc)),
    }
}

/// What is supported instead of a description that no kernel computes.
fn supported(desc: &AttentionDesc) -> String {
    if desc.packs_heads.is_none() && desc.key_splits.is_none() {
        return "batch * heads_q below 65,535^2".to_owned();
    }
    let [mut packs, mut splits] = [(); 2].map(|()| "anything".to_owned());
    if let Some(wanted) = desc.packs_heads {
        packs = wanted.to_string();
    }
    if let Some(wanted) = desc.key_splits {
        splits = wanted.to_string();
    }
    let group = desc.heads_q / desc.heads_kv;
    let packed = FwdEntry::ALL.iter().filter(|entry| entry.is_packed);
    let of: Vec<&str> = packed.map(FwdEntry::name).collect();
    let decoding: Vec<&str> = DecodeEntry::ALL.iter().map(DecodeEntry::name).collect();
    let rows = decode::MOST_ROWS;
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

/// One way to compute attention, as listed by [`AttentionPlan`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AttentionCandidate {
    /// Entry name of the kernel, for [`Attention::with_kernel`](crate::Attention::with_kernel).
    pub name: String,
    /// Tile of a block: queries (times packed heads) and keys.
    pub tile: [u32; 2],
    /// Query heads packed into a tile; 1 if they are not packed.
    pub heads: u32,
    /// Number of key splits, see [`Attention::key_splits`](crate::Attention::key_splits).
    pub splits: u32,
    /// Grid extents in x, y, z, in blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Estimate that ranks candidates. It is not a prediction of the run time.
    pub estimated: Duration,
}

impl From<&Candidate> for AttentionCandidate {
    fn from(candidate: &Candidate) -> Self {
        Self {
            name: candidate.to_string(),
            tile: candidate.tile,
            heads: candidate.sharing.heads,
            splits: candidate.sharing.splits,
            grid: candidate.config.grid,
            threads: candidate.config.block.iter().product(),
            shared_bytes: candidate.config.shared_bytes,
            estimated: Duration::from_nanos(candidate.estimated_ns as u64),
        }
    }
}

impl fmt::Display for AttentionCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n] = self.tile;
        let [x, y, z] = self.grid;
        write!(
            f,
            "{}: tile {m}x{n}, grid {x}x{y}x{z}, {} threads, {} bytes shared",
            self.name, self.threads, self.shared_bytes
        )?;
        if self.heads != 1 {
            write!(f, ", {} heads side by side", self.heads)?;
        }
        if self.splits != 1 {
            write!(f, ", keys in {} parts", self.splits)?;
        }
        Ok(())
    }
}

/// The kernel that an attention would run, and all other candidates.
/// [`Attention::plan`](crate::Attention::plan) makes it.
pub type AttentionPlan = Plan<AttentionCandidate>;

/// The plan of `desc`, with the kernel named `forced`, or the best.
pub(super) fn plan(
    desc: &AttentionDesc,
    forced: Option<&str>,
    stream: &Stream,
) -> Result<AttentionPlan> {
    let chosen = choose(desc, forced, stream)?;
    let all = all(desc, stream.device().info());
    let candidates = all.iter().map(AttentionCandidate::from).collect();
    Ok(Plan::of(desc.to_string(), (&chosen).into(), candidates))
}
