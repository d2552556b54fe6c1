//! The figures, as callers get them.

use std::collections::BTreeMap;

use ptx_syntax::explain::Class;

use super::occupancy::Occupancy;

/// What a launch counted beyond its instructions, in
/// [`LaunchStats::counters`](crate::LaunchStats::counters). Exact: the same on every machine and
/// with any number of host threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Instructions by kind; kinds without any are left out.
    pub instructions: BTreeMap<Class, Issued>,
    /// Global memory, through loads, stores and atomics of threads and through asynchronous copies.
    pub global: GlobalTraffic,
    /// Shared memory, through loads and stores of threads.
    pub shared: SharedTraffic,
    /// Floating-point operations outside of tensor cores.
    pub flops: Flops,
    /// Tensor-core instructions and their operations.
    pub tensor: TensorFlops,
    /// Asynchronous copies.
    pub copies: Copies,
    /// Instructions that wait, each time they are reached by a warp.
    pub waits: Waits,
    /// What a multiprocessor would hold of the launch.
    pub occupancy: Option<Occupancy>,
    /// Every line of PTX that ran, in the order of the text.
    pub lines: Vec<HotLine>,
}

/// Instructions issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Issued {
    /// To warps.
    pub warp: u64,
    /// Times the lanes that ran them.
    pub lane: u64,
}

/// Accesses of one kind to global memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Accesses of warps, or rows of copies.
    pub requests: u64,
    /// Bytes that all lanes together asked for.
    pub bytes: u64,
    /// Distinct 32-byte sectors of each request, added up.
    pub sectors: u64,
}

impl Traffic {
    /// Bytes asked for over bytes of the sectors moved for them: 1 is perfectly coalesced, more
    /// means that lanes share bytes. `None` where nothing was accessed.
    pub fn efficiency(&self) -> Option<f64> {
        (self.sectors > 0).then(|| self.bytes as f64 / (32 * self.sectors) as f64)
    }
}

/// Global memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalTraffic {
    /// Loads of threads.
    pub loads: Traffic,
    /// Stores of threads.
    pub stores: Traffic,
    /// Atomics and reductions of threads.
    pub atomics: Traffic,
    /// What asynchronous copies read.
    pub copies_in: Traffic,
    /// What asynchronous copies write.
    pub copies_out: Traffic,
    /// Bytes read at least once, by whatever means.
    pub distinct_read: u64,
    /// Bytes written at least once, by whatever means.
    pub distinct_written: u64,
}

/// Shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedTraffic {
    /// Accesses of warps.
    pub requests: u64,
    /// Bytes that all lanes together asked for.
    pub bytes: u64,
    /// Passes that the accesses took.
    pub wavefronts: u64,
    /// Passes beyond those that the same accesses would take without conflicts.
    pub bank_conflicts: u64,
}

/// Floating-point operations outside of tensor cores; a fused multiply-add is two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flops {
    /// On f16 and bf16.
    pub half: u64,
    /// On f32.
    pub single: u64,
    /// On f64.
    pub double: u64,
}

/// Tensor cores: instructions, and operations (a multiply-add is two) by the inputs' type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorFlops {
    /// `wgmma.mma_async` of warpgroups.
    pub wgmma: u64,
    /// `mma.sync` of warps.
    pub mma: u64,
    /// On f16 and bf16.
    pub half: u64,
    /// On tf32.
    pub tf32: u64,
    /// On e4m3 and e5m2.
    pub fp8: u64,
    /// On integers of 8 and 4 bits and single bits.
    pub integer: u64,
    /// On f64.
    pub double: u64,
}

/// Copies of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// How many; a `cp.async` counts for each lane.
    pub copies: u64,
    /// Bytes they moved.
    pub bytes: u64,
}

/// Asynchronous copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// `cp.async`
    pub lanes: Moved,
    /// `cp.async.bulk`
    pub bulk: Moved,
    /// `cp.async.bulk.tensor`; bytes are those of the boxes.
    pub tensor: Moved,
    /// `st.async` and `red.async`
    pub stores: Moved,
}

/// Waits reached by warps, whether or not they had to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// `bar.sync`, `bar.red` and their kin.
    pub barrier: u64,
    /// `barrier.cluster.wait`
    pub cluster: u64,
    /// `mbarrier.try_wait` and `mbarrier.test_wait`, every attempt.
    pub mbarrier: u64,
    /// `cp.async.wait_group`, `cp.async.bulk.wait_group`
    pub copies: u64,
    /// `wgmma.wait_group`
    pub wgmma: u64,
}

/// One line of PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HotLine {
    /// Line, from 1.
    pub ptx_line: u32,
    /// The line itself.
    pub ptx_text: String,
    /// File and line of the source, where the PTX says it.
    pub source: Option<(String, u32)>,
    /// What kind of instruction it is.
    pub class: Class,
    /// How often it ran.
    pub issued: Issued,
    /// Sectors of global memory that it moved.
    pub sectors: u64,
    /// Passes through shared memory that it took.
    pub wavefronts: u64,
    /// Those of them that are conflicts.
    pub bank_conflicts: u64,
}

impl Counters {
    /// Warp instructions of all kinds.
    pub fn warp_instructions(&self) -> u64 {
        self.instructions.values().map(|issued| issued.warp).sum()
    }

    /// The `count` lines with the highest [`cost`](HotLine::cost), highest first; of equals the
    /// first in the text.
    pub fn hottest(&self, count: usize) -> Vec<&HotLine> {
        let mut lines: Vec<&HotLine> = self.lines.iter().collect();
        lines.sort_by_key(|line| (std::cmp::Reverse(line.cost()), line.ptx_line));
        lines.truncate(count);
        lines
    }
}

impl HotLine {
    /// What the line takes of a multiprocessor: a slot for each time it is issued, or more where it
    /// takes more passes through shared memory or sectors of global memory.
    pub fn cost(&self) -> u64 {
        self.issued.warp.max(self.wavefronts).max(self.sectors)
    }
}

impl TensorFlops {
    /// Operations on all types.
    pub fn flops(&self) -> u64 {
        self.half + self.tf32 + self.fp8 + self.integer + self.double
    }
}

impl GlobalTraffic {
    /// Bytes asked for, by whatever means.
    pub fn bytes(&self) -> u64 {
        self.all().iter().map(|traffic| traffic.bytes).sum()
    }

    /// Sectors moved, by whatever means.
    pub fn sectors(&self) -> u64 {
        self.all().iter().map(|traffic| traffic.sectors).sum()
    }

    fn all(&self) -> [&Traffic; 5] {
        [
            &self.loads,
            &self.stores,
            &self.atomics,
            &self.copies_in,
            &self.copies_out,
        ]
    }
}
