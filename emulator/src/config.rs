//! What a caller sets (limits of the emulator, shape of a launch) and what a launch returns.

use std::time::Duration;

use crate::explore::Explorer;
use crate::footprint::Footprint;
use crate::output::Output;
use crate::profile::Counters;
use crate::report::FaultKind;
use crate::trace::Trace;

/// Settings of an [`Emulator`](crate::Emulator); fixed for its lifetime.
#[derive(Clone, Debug)]
pub struct EmulatorConfig {
    /// Number of host threads that run blocks. Values outside 1 to 256 are clamped to that range;
    /// `None` means as many as the machine has. Where the system cannot start them, fewer do, down
    /// to the thread that launches; results are the same.
    pub threads: Option<usize>,
    /// Seed of every choice that hardware leaves open: the order of warps and how long each runs,
    /// and when asynchronous copies land. Seed 0 is the plain schedule: warps take turns in order,
    /// and copies land in the order of their issue, one whenever all warps wait or only poll.
    pub seed: u64,
    /// Capacity of global memory in bytes; an allocation beyond it fails. Host memory is used only
    /// for what is touched.
    pub memory_bytes: u64,
    /// Optional checks. Memory faults and misuse of synchronisation are always reported.
    pub checks: Checks,
    /// Whether a launch goes on after a finding of a kind that [lets it](FaultKind::lets_go_on). At
    /// its end it fails with the last one; the others are in
    /// [`Report::earlier`](crate::Report::earlier). Each kind is reported once for each line. Bytes
    /// and registers that nothing wrote are read as they are.
    pub keep_going: bool,
    /// Findings after which a launch goes on, and which it does not report.
    pub ignored: Vec<Ignored>,
    /// Most warp instructions that the warps of one block may run together, as
    /// [`LaunchStats::warp_instructions`] counts them; the blocks of a cluster share one budget. A
    /// warp that would need one more ends the launch with
    /// [`FaultKind::InstructionBudget`](crate::FaultKind). `None` means no limit.
    pub instruction_budget: Option<u64>,
    /// How long a launch may take, of any grid. A launch that takes longer ends with
    /// [`FaultKind::TimeLimit`](crate::FaultKind), and its report says where the warps of one cluster
    /// are. `None` means no limit.
    pub timeout: Option<Duration>,
    /// Where `vprintf` writes. Of each launch it gets the newest
    /// [`PRINTF_FIFO_BYTES`](crate::PRINTF_FIFO_BYTES), when the launch has ended.
    pub output: Output,
    /// Whether launches fill [`LaunchStats::counters`]. This costs time, so it is off by default.
    pub profile: bool,
    /// Whether launches fill [`LaunchStats::footprint`].
    pub footprint: bool,
    /// Where launches leave their timelines; `None` records none.
    pub trace: Option<Trace>,
    /// Chooses the order of each launch, instead of the seed. All checks have to be on.
    pub explorer: Option<Explorer>,
}

impl Default for EmulatorConfig {
    /// All host threads, seed 0, 16 GiB, all checks, an end at the first finding, no limits of
    /// instructions and time, standard output.
    fn default() -> Self {
        Self {
            threads: None,
            seed: 0,
            memory_bytes: 16 << 30,
            checks: Checks::default(),
            keep_going: false,
            ignored: Vec::new(),
            instruction_budget: None,
            timeout: None,
            output: Output::stdout(),
            profile: false,
            footprint: false,
            trace: None,
            explorer: None,
        }
    }
}

/// Optional checks. Other memory faults and misuse of synchronisation are found without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Data races: unordered accesses to the same bytes by different threads (or by asynchronous
    /// operations), of which at least one is a write. See "What the checks find" in the [crate's
    /// documentation](crate).
    pub races: bool,
    /// Reads of memory that nothing wrote, where what they read matters. They take little time.
    pub unwritten: bool,
}

impl Checks {
    /// All optional checks.
    pub const ALL: Self = Self {
        races: true,
        unwritten: true,
    };
    /// Those optional checks that take little time: all but races.
    pub const QUICK: Self = Self {
        races: false,
        unwritten: true,
    };
    /// No optional checks.
    pub const NONE: Self = Self {
        races: false,
        unwritten: false,
    };
}

impl Default for Checks {
    fn default() -> Self {
        Self::ALL
    }
}

/// Findings that are not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// Their kind. One that does not [let a kernel go on](FaultKind::lets_go_on) is reported anyway.
    pub kind: FaultKind,
    /// The line in the PTX text of the instruction that a report names first, from 1; every line if
    /// it is `None`.
    pub line: Option<u32>,
}

/// Shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Grid size in blocks: x, y, z. Every extent is at least 1 and a multiple of the cluster's.
    pub grid: [u32; 3],
    /// Block size in threads: x, y, z. At most 1024 in total.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// Cluster size in blocks: x, y, z; at most 16 in total. `None` means the size that the kernel
    /// requires (`.reqnctapercluster`), or one block if it requires none.
    pub cluster: Option<[u32; 3]>,
}

/// What a launch counted. The numbers are exact and do not depend on the number of host threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchStats {
    /// Sum over the warp instructions of the lanes that executed each: active lanes whose guard
    /// predicate holds.
    pub lane_instructions: u64,
    /// Instructions issued to warps.
    pub warp_instructions: u64,
    /// The other counters; `None` unless [`EmulatorConfig::profile`] is set.
    pub counters: Option<Box<Counters>>,
    /// What the launch read and wrote; `None` unless [`EmulatorConfig::footprint`] is set.
    pub footprint: Option<Box<Footprint>>,
}

impl LaunchStats {
    /// The profile's counters, for tests that assert on them.
    ///
    /// # Panics
    /// If the emulator was created without [`EmulatorConfig::profile`].
    pub fn counters(&self) -> &Counters {
        let counters = self.counters.as_deref();
        counters.expect("the emulator counts only where `EmulatorConfig::profile` is set")
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.lane_instructions += other.lane_instructions;
        self.warp_instructions += other.warp_instructions;
    }
}
