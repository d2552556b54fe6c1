//! What a kernel needs of a multiprocessor, whatever its launch.

use super::{Occupancy, registers};
use crate::module::{Kernel, Module};
use crate::program::Program;

/// Resources of a kernel and the limits that its directives set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resources {
    /// Registers per thread.
    pub registers: u32,
    /// Whether `registers` is an estimate, as in [`Occupancy::registers_are_estimated`].
    pub registers_are_estimated: bool,
    /// Static shared memory in bytes.
    pub shared_bytes: u64,
    /// Bytes of the kernel's own frame in local memory.
    pub local_bytes: u64,
    /// Most threads of a block that `.maxntid` or `.reqntid` allow.
    pub max_threads: Option<u32>,
    /// Cluster size in blocks that `.reqnctapercluster` requires: x, y, z.
    pub cluster: Option<[u32; 3]>,
}

impl Resources {
    pub(super) fn of(kernel: &Kernel, program: &Program) -> Self {
        let given = kernel.maxnreg;
        Self {
            registers: given.unwrap_or_else(|| registers::estimate(program)),
            registers_are_estimated: given.is_none(),
            shared_bytes: program.shared_bytes,
            local_bytes: program.functions.first().map_or(0, |own| own.frame_bytes),
            max_threads: program.bounds.threads,
            cluster: kernel.cluster,
        }
    }

    /// How many blocks of `threads` threads (1 to 1024) and `dynamic` bytes of dynamic shared memory
    /// fit an SM.
    pub fn occupancy(&self, threads: u64, dynamic: u64) -> Occupancy {
        Occupancy::new(
            self.registers,
            self.registers_are_estimated,
            threads,
            self.shared_bytes + dynamic,
        )
    }
}

impl Module {
    /// Resources of a kernel; `None` if there is no such kernel, or if it cannot run.
    pub fn resources(&self, kernel: &str) -> Option<Resources> {
        let kernel = self.kernel(kernel)?;
        let program = self.program(kernel).ok()?;
        Some(Resources::of(kernel, &program))
    }
}
