//! The kernels that can compute a GEMM, and their launch.
//!
//! Each family of kernels has a file with two functions: `offer` lists its kernels that compute a
//! [`GemmDesc`] as candidates, and `launch` enqueues one main kernel. This file has what they
//! share.

use super::call::Call;
use super::desc::GemmDesc;
use super::splits::{KSplits, by_partials};
use super::{decode, decode_sm90, double, integer, invariant, mma, simt, sm90};
use crate::ops::plan::{Choice, Desc, Machine, MachineModel, Shown};
use crate::{DType, DeviceInfo, LaunchConfig, Result};
use abi::gemm::decode::DecodeEntry;
use abi::gemm::decode::sm90::Sm90DecodeEntry;
use abi::gemm::integer::INTEGER_ENTRY;
use abi::gemm::sm90::Sm90Entry;
use abi::gemm::stream_k::Cut;
use abi::gemm::{DoubleEntry, MmaEntry, SimtEntry};
use std::fmt;

/// A kernel of one family; its `Display` is the entry name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Entry {
    Simt(SimtEntry),
    Mma(MmaEntry),
    Sm90(Sm90Entry),
    Decode(DecodeEntry),
    Sm90Decode(Sm90DecodeEntry),
    Double(DoubleEntry),
    Integer,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simt(entry) => entry.fmt(f),
            Self::Mma(entry) => entry.fmt(f),
            Self::Sm90(entry) => entry.fmt(f),
            Self::Decode(entry) => entry.fmt(f),
            Self::Sm90Decode(entry) => entry.fmt(f),
            Self::Double(entry) => entry.fmt(f),
            Self::Integer => INTEGER_ENTRY.fmt(f),
        }
    }
}

/// How the main kernel reads A and B.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reads {
    /// As they are stored.
    InPlace,
    /// Copies in this dtype.
    Converted(DType),
    /// Copies with contiguous k, of operands that the kernel does not read as they are.
    KMajor,
}

/// One way to compute a GEMM. Its `Display` is its name: the entry name and the launch options that
/// distinguish it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) entry: Entry,
    /// Tile of one block: m, n, k.
    pub(super) tile: [u32; 3],
    /// Number of parts of k that were asked for; a short k has fewer.
    pub(super) split_k: u32,
    pub(super) reads: Reads,
    /// The parts of k whose partial results another kernel reduces; `None` if the main kernel
    /// writes D.
    pub(super) partials: Option<KSplits>,
    /// How blocks share tiles (stream-K), if they do.
    pub(super) cut: Option<Cut>,
    /// Rows of D of each launch, if a GEMM is several launches; else 0.
    pub(super) band: u32,
    pub(super) config: LaunchConfig,
    pub(super) estimated_ns: f64,
}

impl Candidate {
    /// One launch that reads A and B in place and writes D. The estimate is to be filled in.
    pub(super) fn direct(entry: Entry, tile: [u32; 3], config: LaunchConfig) -> Self {
        Self {
            entry,
            tile,
            split_k: 1,
            reads: Reads::InPlace,
            partials: None,
            cut: None,
            band: 0,
            config,
            estimated_ns: 0.0,
        }
    }

    /// Cluster extents, in blocks.
    pub(super) fn cluster(&self) -> [u32; 3] {
        self.config.cluster.unwrap_or([1; 3])
    }

    /// Enqueues the main kernel for `call`, which is the whole product, or a part of it.
    fn launch_main(&self, call: &Call<'_>) -> Result<()> {
        match self.entry {
            Entry::Simt(entry) => simt::launch(entry, call),
            Entry::Mma(entry) => mma::launch(entry, call),
            Entry::Sm90(entry) => sm90::launch(entry, self.cut, call),
            Entry::Decode(entry) => decode::launch(entry, self, call),
            Entry::Sm90Decode(entry) => decode_sm90::launch(entry, self, call),
            Entry::Double(entry) => call.launch_double(entry, self.config),
            Entry::Integer => integer::launch(call),
        }
    }
}

impl Choice for Candidate {
    type Call<'a> = Call<'a>;

    fn estimated_ns(&self) -> f64 {
        self.estimated_ns
    }

    fn shown(&self) -> Shown {
        Shown {
            entry: self.entry.to_string(),
            tile: self.tile,
            split: self.split_k,
            config: self.config,
        }
    }

    fn launch(&self, call: &Call<'_>) -> Result<()> {
        let copied;
        let call = match self.reads {
            Reads::InPlace => call,
            Reads::Converted(dtype) => {
                copied = call.converted(dtype)?;
                &copied
            }
            Reads::KMajor => {
                copied = call.k_major()?;
                &copied
            }
        };
        match &self.partials {
            Some(splits) => by_partials(call, splits, &|split| self.launch_main(split)),
            None if self.band > 0 => {
                sm90::bands::each(call, self.band, |band| self.launch_main(band))
            }
            None => self.launch_main(call),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry.fmt(f)?;
        if let Entry::Sm90Decode(_) = self.entry {
            // Chosen at the launch, so not part of the entry name.
            write!(f, "+n{}", self.tile[1])?;
            if self.cluster() != [1; 3] {
                let [x, y, _] = self.cluster();
                write!(f, "+cluster{x}x{y}")?;
            }
        }
        if self.split_k > 1 {
            write!(f, "+split{}", self.split_k)?;
        }
        if self.cut.is_some() {
            f.write_str("+streamk")?;
        }
        if self.band > 0 {
            write!(f, "+bands{}", self.band)?;
        }
        if self.reads == Reads::KMajor {
            f.write_str("+kmajor")?;
        }
        Ok(())
    }
}

impl Desc for GemmDesc {
    const OPERATION: &'static str = "gemm";

    type Candidate = Candidate;

    fn candidates(
        &self,
        device: &DeviceInfo,
        model: &MachineModel,
        offer: &mut dyn FnMut(Candidate),
    ) {
        let machine = Machine::of(device, model);
        match self.a.dtype {
            DType::F64 => double::offer(self, &machine, offer), // the only family that reads it
            DType::I8 => {
                integer::offer(self, &machine, offer);
                decode_sm90::offer(self, &machine, offer);
                mma::offer_k_major(self, &machine, offer);
                sm90::offer(self, &machine, offer);
            }
            _ if self.batch_invariant => invariant::offer(self, &machine, offer),
            _ => {
                decode::offer(self, &machine, offer);
                decode_sm90::offer(self, &machine, offer);
                simt::offer(self, &machine, offer);
                mma::offer(self, &machine, offer);
                sm90::offer(self, &machine, offer);
            }
        }
    }

    fn supported(&self) -> String {
        "fewer than 2^31 tiles of 64 x 64 results, a batch of at most 65535 x 65535, and a `split_k` \
         that a kernel has"
            .into()
    }
}

/// The numbers of parts of k to consider. This is the wanted number, or the `factors` that leave
/// `least_k` to each part, if there are so few tiles that multiprocessors would be idle.
pub(super) fn splits<'a>(
    desc: &GemmDesc,
    machine: &Machine,
    tiles: u64,
    (factors, least_k): (&'a [u32], u32),
) -> impl Iterator<Item = u32> + 'a {
    let &GemmDesc { k, split_k, .. } = desc;
    let blocks = tiles.saturating_mul(u64::from(desc.batch));
    let leaves_room = blocks < 2 * u64::from(machine.multiprocessors);
    let asked = (split_k > 0).then_some(split_k);
    let offered = factors.iter().copied().filter(move |&factor| {
        split_k == 0 && (factor == 1 || (k / factor >= least_k && leaves_room))
    });
    asked.into_iter().chain(offered)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What `offer` offers, the fastest by its estimate first.
    pub(in crate::ops::gemm) fn by_estimate(
        offer: impl FnOnce(&mut dyn FnMut(Candidate)),
    ) -> Vec<Candidate> {
        let mut all = Vec::new();
        offer(&mut |candidate| all.push(candidate));
        all.sort_by(|x, y| x.estimated_ns.total_cmp(&y.estimated_ns));
        all
    }

    pub(in crate::ops::gemm) const H200: Machine = Machine {
        arch: (9, 0),
        multiprocessors: 132,
        shared_bytes: 227 << 10,
        bytes_per_ns: 4_300.0,
        clock_ghz: 1.7,
        model: MachineModel::H200,
    };
}
