//! The kernels that can compute a GEMM, their estimated run times, and their launch.
//!
//! Each family of kernels has a file with two functions: `offer` lists its kernels that compute a
//! [`GemmDesc`] as candidates, and `launch` enqueues one of them. This file has what they share:
//! [`Candidate`], [`Machine`] and the cost model.
//!
//! # The cost model
//! A candidate consists of blocks of equal duration ([`Work`]). The blocks that are resident at the
//! same time form a wave, and a wave takes as long as the SM with the most blocks:
//!
//! ```text
//! wave      = multiprocessors * blocks_per_multiprocessor
//! full      = blocks / wave, rounded down
//! last      = the remaining blocks of the fullest multiprocessor
//! block_ns  = flops_per_block / (flops_per_ns of a full multiprocessor / blocks_per_multiprocessor)
//! compute   = full * (block_ns + overhead_ns)
//!           + (last > 0) * (block_ns * max(last / blocks_per_multiprocessor, alone) + overhead_ns)
//! memory    = bytes / bandwidth
//! estimate  = launch_ns + max(compute, memory) + extra_ns
//! ```
//!
//! `alone` is the fraction of `block_ns` that a block takes when it has an SM to itself: 1 if it is
//! bound by latency, less if it speeds up without other blocks. Padding counts, since a block
//! computes its whole tile. `autotune` measures what the model does not know: power, caches,
//! alignment.

use super::call::Call;
use super::desc::GemmDesc;
use super::{decode, decode_sm90, double, integer, mma, simt, sm90};
use crate::{DType, DeviceInfo, LaunchConfig, Result};
use abi::SingleEntry;
use abi::gemm::decode::DecodeEntry;
use abi::gemm::decode::sm90::Sm90DecodeEntry;
use abi::gemm::sm90::Sm90Entry;
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
    Integer(SingleEntry),
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
            Self::Integer(entry) => entry.fmt(f),
        }
    }
}

/// One way to compute a GEMM. Its `Display` is its name: the entry name and the launch options that
/// distinguish it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) entry: Entry,
    /// Tile of one block: m, n, k.
    pub(super) tile: [u32; 3],
    /// Number of parts of k.
    pub(super) split_k: u32,
    /// Whether tiles are shared by blocks: [`abi::gemm::stream_k`].
    pub(super) stream_k: bool,
    /// Rows of D of each launch, if a GEMM is several launches; else 0.
    pub(super) band: u32,
    /// Whether operands that the kernel cannot read are copied first, with contiguous k.
    pub(super) k_major: bool,
    pub(super) config: LaunchConfig,
    /// Run time in nanoseconds, estimated by the cost model.
    pub(super) estimated_ns: f64,
}

impl Candidate {
    /// Cluster extents, in blocks.
    pub(super) fn cluster(&self) -> [u32; 3] {
        self.config.cluster.unwrap_or([1; 3])
    }

    /// Enqueues it.
    pub(super) fn launch(&self, call: &Call<'_>) -> Result<()> {
        match self.entry {
            Entry::Simt(entry) => simt::launch(entry, self, call),
            Entry::Mma(entry) => mma::launch(entry, self, call),
            Entry::Sm90(entry) => sm90::launch(entry, self, call),
            Entry::Decode(entry) => decode::launch(entry, self, call),
            Entry::Sm90Decode(entry) => decode_sm90::launch(entry, self, call),
            Entry::Double(entry) => double::launch(entry, self, call),
            Entry::Integer(_) => integer::launch(self, call),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry.fmt(f)?;
        if let Entry::Sm90Decode(_) = self.entry {
            write!(f, "+n{}", self.tile[1])?; // chosen at the launch, so not part of the entry name
        }
        if self.cluster() != [1; 3] {
            let [x, y, _] = self.cluster();
            write!(f, "+cluster{x}x{y}")?;
        }
        if self.split_k > 1 {
            write!(f, "+split{}", self.split_k)?;
        }
        if self.stream_k {
            f.write_str("+streamk")?;
        }
        if self.band > 0 {
            write!(f, "+bands{}", self.band)?;
        }
        if self.k_major {
            f.write_str("+kmajor")?;
        }
        Ok(())
    }
}

/// Calls `offer` with all candidates for `desc`.
pub(super) fn offer_all(desc: &GemmDesc, device: &DeviceInfo, offer: &mut dyn FnMut(Candidate)) {
    let machine = Machine::of(device);
    if desc.a.dtype == DType::F64 {
        return double::offer(desc, &machine, offer); // the only family that reads it
    }
    if desc.a.dtype == DType::I8 {
        integer::offer(desc, &machine, offer);
        mma::offer_k_major(desc, &machine, offer);
        return sm90::offer(desc, &machine, offer);
    }
    decode::offer(desc, &machine, offer);
    decode_sm90::offer(desc, &machine, offer);
    simt::offer(desc, &machine, offer);
    mma::offer(desc, &machine, offer);
    sm90::offer(desc, &machine, offer);
}

/// The properties of a device that the cost model uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Machine {
    /// Compute capability.
    pub(super) arch: (u32, u32),
    pub(super) multiprocessors: u32,
    /// Largest shared memory of a block.
    pub(super) shared_bytes: u32,
    /// Bandwidth of device memory, in bytes per nanosecond.
    pub(super) bytes_per_ns: f64,
    /// Clock of the SMs under load, in cycles per nanosecond.
    pub(super) clock_ghz: f64,
}

impl Machine {
    /// Bandwidth and clock by architecture: the vendor's numbers for a typical data-centre or
    /// desktop part. Only their ratios matter.
    pub(super) fn of(device: &DeviceInfo) -> Self {
        const LARGE_HOPPER_BYTES: u64 = 100 << 30;
        let (bytes_per_ns, clock_ghz) = match device.arch {
            (..=7, _) => (300.0, 1.5),
            (8, 0) => (1_500.0, 1.4),
            (8, _) => (800.0, 1.8),
            (9, _) if device.memory_bytes > LARGE_HOPPER_BYTES => (4_300.0, 1.7),
            (9, _) => (3_000.0, 1.7),
            _ => (7_000.0, 1.8),
        };
        Self {
            arch: device.arch,
            multiprocessors: device.multiprocessors.max(1),
            shared_bytes: device.max_shared_bytes_per_block,
            bytes_per_ns,
            clock_ghz,
        }
    }

    /// Estimated run time of `work`, by the cost model of this module's documentation.
    pub(super) fn estimate_ns(&self, work: &Work) -> f64 {
        let resident = f64::from(work.blocks_per_multiprocessor.max(1));
        let wave = f64::from(self.multiprocessors) * resident;
        let full = (work.blocks / wave).floor();
        let last = ((work.blocks - full * wave) / f64::from(self.multiprocessors)).ceil();
        let flops_per_ns = work.flops_per_cycle * self.clock_ghz / resident;
        let block_ns = work.flops_per_block / flops_per_ns;
        let mut compute = full * (block_ns + work.overhead_ns);
        if last > 0.0 {
            compute += block_ns * (last / resident).max(work.alone) + work.overhead_ns;
        }
        let memory = work.bytes / self.bytes_per_ns;
        LAUNCH_NS + compute.max(memory) + work.extra_ns
    }
}

/// Time from the end of one kernel to the first block of the next.
pub(super) const LAUNCH_NS: f64 = 2_000.0;

/// The work of one candidate. Numbers are f64, since products of extents are large.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Work {
    /// Number of blocks: tiles times parts of k times batch.
    pub(super) blocks: f64,
    /// Blocks that are resident on an SM at the same time.
    pub(super) blocks_per_multiprocessor: u32,
    /// Flops of a whole tile over its part of k; a multiply-add counts as two.
    pub(super) flops_per_block: f64,
    /// Flops per cycle that a full SM reaches in the kernel's mainloop.
    pub(super) flops_per_cycle: f64,
    /// Time of a block that has an SM to itself, as a fraction of its time on a full SM.
    pub(super) alone: f64,
    /// Time of a wave before the first and after the last multiply-add.
    pub(super) overhead_ns: f64,
    /// Bytes that at least are moved between device memory and the SMs.
    pub(super) bytes: f64,
    /// Time of further launches.
    pub(super) extra_ns: f64,
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
    };

    const MACHINE: Machine = Machine {
        arch: (9, 0),
        multiprocessors: 100,
        shared_bytes: 227 << 10,
        bytes_per_ns: 4_000.0,
        clock_ghz: 1.0,
    };

    const WORK: Work = Work {
        blocks: 200.0,
        blocks_per_multiprocessor: 2,
        flops_per_block: 1e6,
        flops_per_cycle: 100.0,
        alone: 0.5,
        overhead_ns: 0.0,
        bytes: 0.0,
        extra_ns: 0.0,
    };

    #[test]
    fn a_wave_takes_as_long_as_its_fullest_multiprocessor() {
        let ns = |blocks: f64| MACHINE.estimate_ns(&Work { blocks, ..WORK }) - LAUNCH_NS;
        assert_eq!(ns(200.0), 20_000.0); // one full wave
        assert_eq!(ns(201.0), 30_000.0); // and one block alone, twice as fast
        assert_eq!(ns(300.0), 30_000.0);
        assert_eq!(ns(301.0), 40_000.0);
        assert_eq!(ns(1.0), 10_000.0);
    }

    #[test]
    fn memory_binds_where_there_is_little_to_compute() {
        let work = Work {
            bytes: 4e9,
            extra_ns: 7.0,
            ..WORK
        };
        assert_eq!(MACHINE.estimate_ns(&work), LAUNCH_NS + 1e6 + 7.0);
    }
}
