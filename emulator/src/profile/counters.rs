//! The counters, as callers get them.

use std::collections::BTreeMap;

use ptx_syntax::isa::Class;

use super::occupancy::Occupancy;

/// What a launch did, beyond the instruction counts of [`LaunchStats`](crate::LaunchStats). The
/// numbers are exact: the same on every machine and with any number of host threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Instructions issued, by class; a class without any has no entry.
    pub instructions: BTreeMap<Class, Issued>,
    /// Global memory: loads, stores and atomics of threads, and asynchronous copies.
    pub global: GlobalTraffic,
    /// Shared memory: loads, stores and atomics of threads, `ldmatrix` and `stmatrix`. Accesses by
    /// asynchronous copies and `wgmma` are not counted.
    pub shared: SharedTraffic,
    /// Floating-point operations outside of tensor cores.
    pub flops: Flops,
    /// Tensor-core instructions and their operations.
    pub tensor: TensorFlops,
    /// Asynchronous copies.
    pub copies: Copies,
    /// Instructions that wait, counted each time that a warp reaches one.
    pub waits: Waits,
    /// Occupancy on an SM of compute capability 9.0.
    pub occupancy: Option<Occupancy>,
    /// One entry for each instruction that was executed, in the order of the PTX text.
    pub lines: Vec<HotLine>,
}

/// How often instructions were issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Issued {
    /// To warps.
    pub warp: u64,
    /// Summed over the lanes that executed them: active, and not masked by the guard.
    pub lane: u64,
}

/// One kind of access to global memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Accesses: instructions of a warp, or rows of asynchronous copies.
    pub requests: u64,
    /// Bytes requested, summed over all lanes.
    pub bytes: u64,
    /// Distinct 32-byte sectors of each request, summed.
    pub sectors: u64,
}

impl Traffic {
    /// Bytes requested divided by the bytes of the sectors: 1 is perfectly coalesced, less means
    /// that parts of sectors are not used, more that lanes read the same bytes. `None` without
    /// accesses.
    pub fn efficiency(&self) -> Option<f64> {
        (self.sectors > 0).then(|| self.bytes as f64 / (32 * self.sectors) as f64)
    }
}

/// Global memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalTraffic {
    /// Loads by threads.
    pub loads: Traffic,
    /// Stores by threads.
    pub stores: Traffic,
    /// Atomics and reductions (`atom`, `red`) by threads.
    pub atomics: Traffic,
    /// Reads by asynchronous copies.
    pub copies_in: Traffic,
    /// Writes by asynchronous copies.
    pub copies_out: Traffic,
    /// Bytes that were read at least once, in any of these ways.
    pub distinct_read: u64,
    /// Bytes that were written at least once, in any of these ways.
    pub distinct_written: u64,
}

/// Shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedTraffic {
    /// Accesses by warps.
    pub requests: u64,
    /// Bytes requested, summed over all lanes.
    pub bytes: u64,
    /// Wavefronts: passes through the banks that the accesses took.
    pub wavefronts: u64,
    /// Wavefronts beyond those that the same accesses would take without bank conflicts.
    pub bank_conflicts: u64,
}

/// Floating-point operations outside of tensor cores; a fused multiply-add counts as two. `abs`,
/// `neg`, `copysign`, comparisons, conversions and approximations do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flops {
    /// On f16 and bf16.
    pub half: u64,
    /// On f32.
    pub single: u64,
    /// On f64.
    pub double: u64,
}

/// Tensor cores: instructions, and operations by the type of the inputs (a multiply-add counts as
/// two).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorFlops {
    /// `wgmma.mma_async` instructions, one per warpgroup.
    pub wgmma: u64,
    /// `mma.sync` instructions, one per warp.
    pub mma: u64,
    /// Operations on f16 and bf16.
    pub half: u64,
    /// Operations on tf32.
    pub tf32: u64,
    /// Operations on e4m3 and e5m2.
    pub fp8: u64,
    /// Operations on 8-bit and 4-bit integers and single bits.
    pub integer: u64,
    /// Operations on f64.
    pub double: u64,
}

/// One kind of asynchronous copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// How many; each lane of a `cp.async` counts as one.
    pub copies: u64,
    /// Bytes that they moved.
    pub bytes: u64,
}

/// Asynchronous copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// `cp.async`
    pub lanes: Moved,
    /// `cp.async.bulk`
    pub bulk: Moved,
    /// `cp.async.bulk.tensor`; the bytes are those of the whole boxes.
    pub tensor: Moved,
    /// `st.async` and `red.async`
    pub stores: Moved,
}

/// Instructions that wait, counted for each warp that reaches one, whether or not it had to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// `bar.sync`, `bar.red` and the like.
    pub barrier: u64,
    /// `barrier.cluster.wait`
    pub cluster: u64,
    /// `mbarrier.try_wait` and `mbarrier.test_wait`, counted each time that one returns.
    pub mbarrier: u64,
    /// `cp.async.wait_group`, `cp.async.bulk.wait_group`
    pub copies: u64,
    /// `wgmma.wait_group`
    pub wgmma: u64,
}

/// One PTX instruction that was executed, with its counts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HotLine {
    /// Line in the PTX text, from 1.
    pub ptx_line: u32,
    /// The line itself.
    pub ptx_text: String,
    /// Source file and line in the kernel, if the PTX has a `.loc` for it.
    pub source: Option<(String, u32)>,
    /// Class of the instruction.
    pub class: Class,
    /// How often it was issued.
    pub issued: Issued,
    /// Sectors of global memory that it accessed.
    pub sectors: u64,
    /// Wavefronts of its accesses to shared memory.
    pub wavefronts: u64,
    /// How many of those are due to bank conflicts.
    pub bank_conflicts: u64,
}

impl Counters {
    /// Warp instructions of all classes.
    pub fn warp_instructions(&self) -> u64 {
        self.instructions.values().map(|issued| issued.warp).sum()
    }

    /// The `count` lines with the highest [`cost`](HotLine::cost), highest first; equal ones in the
    /// order of the text.
    pub fn hottest(&self, count: usize) -> Vec<&HotLine> {
        let mut lines: Vec<&HotLine> = self.lines.iter().collect();
        lines.sort_by_key(|line| (std::cmp::Reverse(line.cost()), line.ptx_line));
        lines.truncate(count);
        lines
    }
}

impl HotLine {
    /// A rough cost for ranking lines: the largest of issue slots (one each time a warp issues it),
    /// wavefronts in shared memory, and sectors of global memory. It is not a time.
    pub fn cost(&self) -> u64 {
        self.issued.warp.max(self.wavefronts).max(self.sectors)
    }
}

impl TensorFlops {
    /// Operations on all types of inputs.
    pub fn flops(&self) -> u64 {
        self.half + self.tf32 + self.fp8 + self.integer + self.double
    }
}

impl GlobalTraffic {
    /// Bytes requested by all kinds of access.
    pub fn bytes(&self) -> u64 {
        self.all().iter().map(|traffic| traffic.bytes).sum()
    }

    /// Sectors of all kinds of access.
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
