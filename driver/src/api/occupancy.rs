//! Occupancy, from the resources of a kernel and the limits of an H200.

use warpsmith_emulator::MULTIPROCESSORS;

use crate::c::{Handle, In, LaunchShape, Out, SharedBytesOf};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::state::{Function, driver};

use super::device::{MAX_THREADS, SHARED_BYTES_OPTIN};

const WARP: u32 = 32;
/// Shared memory that the system takes of each block.
const RESERVED: u64 = 1 << 10;
/// Shared memory of a multiprocessor.
const SHARED_OF_MULTIPROCESSOR: u64 = 228 << 10;
/// Most blocks of a cluster, and of one that every device has.
const CLUSTER: u64 = 16;
const PORTABLE_CLUSTER: u64 = 8;

fn find(function: Handle) -> Answer<Function> {
    Ok(driver()?.state().function(function)?.clone())
}

/// Blocks of a kernel that a multiprocessor holds.
fn blocks(function: &Function, threads: u32, dynamic: u64) -> Answer<u32> {
    let resources = function.module.resources(&function.name);
    let resources = resources.ok_or(Code::INVALID_HANDLE)?;
    let most = resources.max_threads.unwrap_or(MAX_THREADS);
    if threads == 0 || threads > MAX_THREADS {
        return Err(Code::INVALID_VALUE);
    }
    if threads > most || dynamic + resources.shared_bytes > SHARED_BYTES_OPTIN.into() {
        return Ok(0);
    }
    Ok(resources.occupancy(threads.into(), dynamic).blocks)
}

fn active_blocks(count: Out<i32>, function: Handle, threads: i32, dynamic: usize) -> Answer {
    let threads = u32::try_from(threads).map_err(|_| Code::INVALID_VALUE)?;
    count.set(blocks(&find(function)?, threads, dynamic as u64)? as i32)
}

/// The block size with the most warps at a time, the largest of several.
fn best_block(
    grid: Out<i32>,
    block: Out<i32>,
    function: Handle,
    shared_of: SharedBytesOf,
    dynamic: usize,
    limit: i32,
) -> Answer {
    let function = find(function)?;
    let most = match limit {
        1.. => limit.unsigned_abs().min(MAX_THREADS),
        _ => MAX_THREADS,
    };
    let (mut best, mut best_threads) = ((0, 0), 0);
    for threads in (1..=most / WARP).rev().map(|warps| warps * WARP) {
        let dynamic = match shared_of {
            // SAFETY: the caller's function, which takes a block size.
            Some(of) => unsafe { of(threads as i32) },
            None => dynamic,
        };
        let count = blocks(&function, threads, dynamic as u64)?;
        if count * threads > best_threads {
            (best, best_threads) = ((count, threads), count * threads);
        }
    }
    grid.set((best.0 * MULTIPROCESSORS) as i32)?;
    block.set(best.1 as i32)
}

/// Blocks of a cluster by a launch's attributes.
fn cluster_of(shape: LaunchShape) -> Answer<u64> {
    /// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`
    const CLUSTER_DIMENSION: u32 = 4;
    let attributes = shape.attributes.list(shape.count as usize)?;
    let found = attributes.iter().find(|a| a.id == CLUSTER_DIMENSION);
    Ok(found.map_or(1, |a| {
        a.value[..3]
            .iter()
            .map(|extent| u64::from(*extent))
            .product()
    }))
}

fn threads_of(shape: LaunchShape) -> u32 {
    shape.block.into_iter().fold(1, u32::saturating_mul)
}

entries! {
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor:
        "cuOccupancyMaxActiveBlocksPerMultiprocessor" @ 6050 (
        count: Out<i32>, function: Handle, threads: i32, dynamic: usize,
    ) {
        active_blocks(count, function, threads, dynamic)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags:
        "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags" @ 7000 (
        count: Out<i32>, function: Handle, threads: i32, dynamic: usize, _flags: u32,
    ) {
        active_blocks(count, function, threads, dynamic)
    }

    fn cuOccupancyMaxPotentialBlockSize: "cuOccupancyMaxPotentialBlockSize" @ 6050 (
        grid: Out<i32>, block: Out<i32>, function: Handle, shared_of: SharedBytesOf,
        dynamic: usize, limit: i32,
    ) {
        best_block(grid, block, function, shared_of, dynamic, limit)
    }

    fn cuOccupancyMaxPotentialBlockSizeWithFlags:
        "cuOccupancyMaxPotentialBlockSizeWithFlags" @ 7000 (
        grid: Out<i32>, block: Out<i32>, function: Handle, shared_of: SharedBytesOf,
        dynamic: usize, limit: i32, _flags: u32,
    ) {
        best_block(grid, block, function, shared_of, dynamic, limit)
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock:
        "cuOccupancyAvailableDynamicSMemPerBlock" @ 10020 (
        bytes: Out<usize>, function: Handle, count: i32, _threads: i32,
    ) {
        let function = find(function)?;
        let count = u64::try_from(count).ok().filter(|count| *count > 0);
        let share = SHARED_OF_MULTIPROCESSOR / count.ok_or(Code::INVALID_VALUE)?;
        let fixed = function.module.shared_bytes(&function.name).unwrap_or(0);
        let most = u64::from(SHARED_BYTES_OPTIN).min(share.saturating_sub(RESERVED));
        bytes.set(most.saturating_sub(fixed) as usize)
    }

    fn cuOccupancyMaxActiveClusters: "cuOccupancyMaxActiveClusters" @ 11070 (
        count: Out<i32>, function: Handle, shape: In<LaunchShape>,
    ) {
        let (function, shape) = (find(function)?, shape.get()?);
        let of_multiprocessor = blocks(&function, threads_of(shape), shape.shared_bytes.into())?;
        let cluster = cluster_of(shape)?;
        if cluster == 0 || cluster > CLUSTER {
            return Err(Code::INVALID_CLUSTER_SIZE);
        }
        let all = u64::from(of_multiprocessor) * u64::from(MULTIPROCESSORS);
        count.set((all / cluster) as i32)
    }

    fn cuOccupancyMaxPotentialClusterSize: "cuOccupancyMaxPotentialClusterSize" @ 11070 (
        size: Out<i32>, function: Handle, shape: In<LaunchShape>,
    ) {
        let (function, shape) = (find(function)?, shape.get()?);
        let fits = blocks(&function, threads_of(shape), shape.shared_bytes.into())? > 0;
        let most = if function.allows_large_clusters() { CLUSTER } else { PORTABLE_CLUSTER };
        size.set(if fits { most as i32 } else { 0 })
    }
}
