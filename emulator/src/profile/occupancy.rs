//! How many blocks a multiprocessor holds, by the limits of compute capability 9.0.

use std::fmt;

/// 32-bit registers of a multiprocessor, and of a thread at most.
const REGISTERS: u64 = 64 << 10;
/// Threads of a multiprocessor.
const THREADS: u64 = 2048;
/// Threads of a warp.
const WARP: u64 = 32;
/// Blocks of a multiprocessor.
const BLOCKS: u64 = 32;
/// Shared memory of a multiprocessor in bytes, of which each block takes one KiB for the system.
const SHARED_BYTES: u64 = 228 << 10;
const SHARED_RESERVED: u64 = 1 << 10;

/// Why a multiprocessor holds no more blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OccupancyLimit {
    /// Its registers are taken.
    Registers,
    /// Its shared memory is taken.
    SharedMemory,
    /// It has no room for further threads.
    Threads,
    /// It has as many blocks as it can.
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

/// What a multiprocessor of compute capability 9.0 would hold of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupancy {
    /// Registers of a thread.
    pub registers: u32,
    /// False where the PTX says them (`.maxnreg`); else they are estimated from the registers of
    /// the PTX that live at once. ptxas may take more or fewer.
    pub registers_are_estimated: bool,
    /// Shared memory of a block, static and dynamic, in bytes.
    pub shared_bytes: u64,
    /// Blocks at a time.
    pub blocks: u32,
    /// Warps at a time, of 64.
    pub warps: u32,
    /// What there would have to be more of.
    pub limit: OccupancyLimit,
}

impl Occupancy {
    pub(super) fn new(registers: u32, is_estimated: bool, threads: u64, shared: u64) -> Self {
        let warps = threads.div_ceil(WARP);
        // Where the block would not fit, ptxas spills until it does.
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
