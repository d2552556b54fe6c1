//! Occupancy: how many blocks fit an SM, by the limits of compute capability 9.0.

use std::fmt;

/// 32-bit registers of an SM.
const REGISTERS: u64 = 64 << 10;
/// Threads that an SM holds.
const THREADS: u64 = 2048;
/// Threads of a warp.
const WARP: u64 = 32;
/// Blocks that an SM holds.
const BLOCKS: u64 = 32;
/// Shared memory of an SM in bytes, of which the system reserves one KiB for each block.
const SHARED_BYTES: u64 = 228 << 10;
const SHARED_RESERVED: u64 = 1 << 10;

/// The resource that keeps an SM from holding more blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OccupancyLimit {
    /// Registers.
    Registers,
    /// Shared memory.
    SharedMemory,
    /// Threads.
    Threads,
    /// The number of blocks.
    Blocks,
}

impl fmt::Display for OccupancyLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Registers => "registers",
            Self::SharedMemory => "shared memory",
            Self::Threads => "threads",
            Self::Blocks => "blocks",
        })
    }
}

/// How much of a launch an SM of compute capability 9.0 holds at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupancy {
    /// Registers per thread.
    pub registers: u32,
    /// Whether `registers` is an estimate from the PTX registers that are live at once; ptxas may
    /// take more or fewer. False if the PTX gives the number (`.maxnreg`).
    pub registers_are_estimated: bool,
    /// Shared memory of a block in bytes, static and dynamic.
    pub shared_bytes: u64,
    /// Blocks per SM.
    pub blocks: u32,
    /// Warps per SM, of at most 64.
    pub warps: u32,
    /// The resource that limits the number of blocks.
    pub limit: OccupancyLimit,
}

impl Occupancy {
    pub(super) fn new(registers: u32, is_estimated: bool, threads: u64, shared: u64) -> Self {
        let warps = threads.div_ceil(WARP);
        // ptxas would spill registers until one block fits.
        let room = (REGISTERS / (warps * WARP) / 8 * 8) as u32;
        let registers = if is_estimated {
            registers.min(room)
        } else {
            registers
        };
        let by = [
            (
                REGISTERS / (u64::from(registers.next_multiple_of(8)) * WARP * warps),
                OccupancyLimit::Registers,
            ),
            (
                SHARED_BYTES / (shared + SHARED_RESERVED),
                OccupancyLimit::SharedMemory,
            ),
            (THREADS / (warps * WARP), OccupancyLimit::Threads),
            (BLOCKS, OccupancyLimit::Blocks),
        ];
        let (mut blocks, mut limit) = by[0];
        for (count, which) in by {
            if count < blocks {
                (blocks, limit) = (count, which);
            }
        }
        Self {
            registers,
            registers_are_estimated: is_estimated,
            shared_bytes: shared,
            blocks: blocks as u32,
            warps: (blocks * warps) as u32,
            limit,
        }
    }
}

impl fmt::Display for Occupancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            registers,
            shared_bytes,
            blocks,
            warps,
            limit,
            ..
        } = self;
        let about = match self.registers_are_estimated {
            true => "about ",
            false => "",
        };
        write!(
            f,
            "{warps} of 64 warps in {blocks} blocks, limited by {limit}: {about}{registers} \
             registers a thread, {shared_bytes} bytes of shared memory a block (sm_90)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(registers: u32, threads: u64, shared: u64) -> (u32, u32, OccupancyLimit) {
        let found = Occupancy::new(registers, false, threads, shared);
        (found.blocks, found.warps, found.limit)
    }

    #[test]
    fn each_resource_can_be_the_limit() {
        assert_eq!(of(32, 256, 0), (8, 64, OccupancyLimit::Registers));
        assert_eq!(of(64, 256, 0), (4, 32, OccupancyLimit::Registers));
        assert_eq!(of(168, 384, 0), (1, 12, OccupancyLimit::Registers));
        assert_eq!(of(16, 32, 0), (32, 32, OccupancyLimit::Blocks));
        assert_eq!(of(16, 1024, 0), (2, 64, OccupancyLimit::Threads));
        assert_eq!(of(16, 128, 100 << 10), (2, 8, OccupancyLimit::SharedMemory));
        assert_eq!(of(16, 128, 227 << 10), (1, 4, OccupancyLimit::SharedMemory));
    }

    #[test]
    fn an_estimate_never_says_that_a_block_does_not_fit() {
        let found = Occupancy::new(255, true, 1024, 0);
        assert_eq!((found.registers, found.blocks), (64, 1));
    }
}
