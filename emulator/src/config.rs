//! What a caller sets: the emulator's limits, a launch's shape; and what a launch gives back.

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex};

use crate::profile::Counters;

/// Settings of an [`Emulator`](crate::Emulator); fixed for its lifetime.
#[derive(Clone, Debug)]
pub struct EmulatorConfig {
    /// Host threads that run blocks, 1 to 256 (other numbers are taken to the nearest of these);
    /// `None` means as many as the machine has.
    pub threads: Option<usize>,
    /// Seed of everything that hardware leaves open, such as the order in which warps run.
    pub seed: u64,
    /// Capacity of global memory in bytes; allocations beyond it fail. Host memory is only used
    /// for what is touched.
    pub memory_bytes: u64,
    /// What is looked for besides faults of memory and synchronisation, which always are.
    pub checks: Checks,
    /// Stop a block with a report after this many warp instructions; `None` never stops it.
    pub instruction_budget: Option<u64>,
    /// Where `vprintf` writes.
    pub output: Output,
    /// Count what launches do, in [`LaunchStats::counters`]. Costs time, so it is off by default.
    pub profile: bool,
}

impl Default for EmulatorConfig {
    /// All host threads, seed 0, 16 GiB, all checks, no instruction budget, standard output.
    fn default() -> Self {
        Self {
            threads: None,
            seed: 0,
            memory_bytes: 16 << 30,
            checks: Checks::default(),
            instruction_budget: None,
            output: Output::stdout(),
            profile: false,
        }
    }
}

/// What an emulator looks for besides faults of memory and synchronisation, which it always finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Accesses of different threads to the same bytes, one of them a write, that nothing orders.
    pub races: bool,
}

impl Checks {
    /// Everything that can be looked for.
    pub const ALL: Self = Self { races: true };
    /// The least: for speed.
    pub const NONE: Self = Self { races: false };
}

impl Default for Checks {
    fn default() -> Self {
        Self::ALL
    }
}

/// A sink for what kernels print. Clones share the sink.
#[derive(Clone)]
pub struct Output(Arc<Mutex<dyn Write + Send>>);

impl Output {
    /// Standard output of the process.
    pub fn stdout() -> Self {
        Self::to(std::io::stdout())
    }

    /// Any writer.
    pub fn to(writer: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(writer)))
    }

    /// A sink and the buffer that it fills.
    pub fn buffer() -> (Self, Arc<Mutex<Vec<u8>>>) {
        let buffer = Arc::new(Mutex::new(Vec::new()));
        (Self(buffer.clone()), buffer)
    }

    /// Writes one block's text. A closed pipe is not the kernel's fault, so it is let pass.
    pub(crate) fn write(&self, text: &[u8]) {
        let mut sink = match self.0.lock() {
            Ok(sink) => sink,
            Err(poisoned) => poisoned.into_inner(),
        };
        if let Err(error) = sink.write_all(text).and_then(|()| sink.flush()) {
            tracing::debug!(%error, "kernel output was not written");
        }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Output(..)")
    }
}

/// Shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// Blocks of a cluster in x, y, z; `None` means what the kernel requires
    /// (`.reqnctapercluster`), or clusters of one block.
    pub cluster: Option<[u32; 3]>,
}

/// What a launch counted. The figures are exact and do not depend on the number of host threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchStats {
    /// Instructions times the lanes that run them: active, and let through by the guard.
    pub lane_instructions: u64,
    /// Instructions issued to warps.
    pub warp_instructions: u64,
    /// What else was counted; `None` unless [`EmulatorConfig::profile`] is set.
    pub counters: Option<Box<Counters>>,
}

impl LaunchStats {
    /// What a profile counted, for tests that assert on it.
    ///
    /// # Panics
    /// When the emulator was made without [`EmulatorConfig::profile`].
    pub fn counters(&self) -> &Counters {
        let counters = self.counters.as_deref();
        counters.expect("the emulator counts only where `EmulatorConfig::profile` is set")
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.lane_instructions += other.lane_instructions;
        self.warp_instructions += other.warp_instructions;
    }
}
