//! The device, and the calling thread's context on it.

use std::ffi::c_char;

use crate::c::{Data, Device, In, Out, Text};
use crate::code::{Answer, Code};
use crate::state::check_device;

use super::properties::{self, Generation};
use super::{cu, ready, runtime};

/// The version of the runtime API, as 1000 * major + 10 * minor.
const VERSION: i32 = 13_000;

/// The only device, once the runtime has started.
fn check(device: Device) -> Answer {
    ready()?;
    check_device(device)
}

fn synchronize() -> Answer {
    cu!(context::cuCtxSynchronize())
}

/// Destroys all that the program has on the device.
fn reset() -> Answer {
    cu!(context::cuDevicePrimaryCtxReset_v2(0))
}

/// What cannot be had from the device is not an error of the program: the answer says so.
fn entry_point(
    name: Text,
    place: Out<*const ()>,
    version: i32,
    flags: u64,
    status: Out<u32>,
) -> Answer {
    match cu!(lookup::cuGetProcAddress_v2(
        name, place, version, flags, status
    )) {
        Err(Code::NOT_FOUND) => Ok(()),
        answer => answer,
    }
}

runtime! {
    fn cudaGetDeviceCount(count: Out<i32>) {
        cu!(device::cuDeviceGetCount(count))
    }

    fn cudaGetDevice(device: Out<Device>) {
        device.set(0)
    }

    fn cudaSetDevice(device: Device) {
        check(device)
    }

    fn cudaInitDevice(device: Device, _device_flags: u32, _flags: u32) {
        check(device)
    }

    fn cudaChooseDevice(device: Out<Device>, _wanted: Data) {
        ready()?;
        device.set(0)
    }

    fn cudaSetValidDevices(devices: In<Device>, count: i32) {
        let count = usize::try_from(count).map_err(|_| Code::INVALID_VALUE)?;
        devices.list(count)?.into_iter().try_for_each(check)
    }

    fn cudaDeviceGetAttribute(value: Out<i32>, number: u32, device: Device) {
        cu!(device::cuDeviceGetAttribute(value, number, device))
    }

    // The name is that of CUDA 13 alone: earlier runtimes had a smaller struct.
    fn cudaGetDeviceProperties(place: Out<u8>, device: Device) {
        check(device)?;
        let bytes = properties::bytes(Generation::Cuda13)?;
        place.set_all(bytes, usize::MAX)
    }

    fn cudaGetDeviceProperties_v2(place: Out<u8>, device: Device) {
        check(device)?;
        let bytes = properties::bytes(Generation::Cuda12)?;
        place.set_all(bytes, usize::MAX)
    }

    fn cudaDeviceSynchronize() {
        synchronize()
    }

    fn cudaThreadSynchronize() {
        synchronize()
    }

    fn cudaDeviceReset() {
        reset()
    }

    fn cudaThreadExit() {
        reset()
    }

    fn cudaDeviceGetLimit(value: Out<usize>, limit: u32) {
        cu!(context::cuCtxGetLimit(value, limit))
    }

    fn cudaDeviceSetLimit(limit: u32, value: usize) {
        cu!(context::cuCtxSetLimit(limit, value))
    }

    fn cudaDeviceGetCacheConfig(value: Out<i32>) {
        cu!(context::cuCtxGetCacheConfig(value))
    }

    fn cudaDeviceSetCacheConfig(value: i32) {
        cu!(context::cuCtxSetCacheConfig(value))
    }

    fn cudaDeviceGetSharedMemConfig(value: Out<i32>) {
        cu!(context::cuCtxGetSharedMemConfig(value))
    }

    fn cudaDeviceSetSharedMemConfig(value: i32) {
        cu!(context::cuCtxSetSharedMemConfig(value))
    }

    fn cudaCtxResetPersistingL2Cache() {
        cu!(context::cuCtxResetPersistingL2Cache())
    }

    fn cudaDeviceGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) {
        cu!(context::cuCtxGetStreamPriorityRange(least, greatest))
    }

    fn cudaGetDeviceFlags(flags: Out<u32>) {
        cu!(context::cuCtxGetFlags(flags))
    }

    fn cudaSetDeviceFlags(flags: u32) {
        cu!(context::cuDevicePrimaryCtxSetFlags_v2(0, flags))
    }

    fn cudaDeviceCanAccessPeer(can: Out<i32>, device: Device, peer: Device) {
        cu!(device::cuDeviceCanAccessPeer(can, device, peer))
    }

    fn cudaDeviceGetP2PAttribute(value: Out<i32>, number: u32, device: Device, peer: Device) {
        cu!(device::cuDeviceGetP2PAttribute(value, number, device, peer))
    }

    fn cudaDeviceEnablePeerAccess(peer: Device, _flags: u32) {
        check(peer)?;
        Err(Code::PEER_ACCESS_UNSUPPORTED)
    }

    fn cudaDeviceDisablePeerAccess(peer: Device) {
        check(peer)?;
        Err(Code::PEER_ACCESS_NOT_ENABLED)
    }

    fn cudaDeviceGetPCIBusId(name: Out<c_char>, room: i32, device: Device) {
        cu!(device::cuDeviceGetPCIBusId(name, room, device))
    }

    fn cudaDeviceGetByPCIBusId(device: Out<Device>, name: Text) {
        cu!(device::cuDeviceGetByPCIBusId(device, name))
    }

    fn cudaDriverGetVersion(version: Out<i32>) {
        cu!(lookup::cuDriverGetVersion(version))
    }

    fn cudaRuntimeGetVersion(version: Out<i32>) {
        version.set(VERSION)
    }

    fn cudaGetDriverEntryPoint | cudaGetDriverEntryPoint_ptsz (
        name: Text, place: Out<*const ()>, flags: u64, status: Out<u32>,
    ) {
        entry_point(name, place, VERSION, flags, status)
    }

    fn cudaGetDriverEntryPointByVersion | cudaGetDriverEntryPointByVersion_ptsz (
        name: Text, place: Out<*const ()>, version: i32, flags: u64, status: Out<u32>,
    ) {
        entry_point(name, place, version, flags, status)
    }

    fn cudaProfilerStart() {
        Ok(())
    }

    fn cudaProfilerStop() {
        Ok(())
    }
}
