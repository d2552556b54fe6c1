//! Memory: allocation, and what is known of pointers.

use crate::api::pool::Location;
use crate::c::{Address, Data, Device, Handle, In, InOut, Out};
use crate::code::Code;
use crate::state::{RangeKind, current};

use super::{cu, runtime};

/// `cudaMemoryTypeUnregistered` and so on.
const UNREGISTERED: u32 = 0;
const HOST: u32 = 1;
const DEVICE: u32 = 2;
const MANAGED: u32 = 3;

/// Alignment of elements in memory of `cudaMallocPitch`.
const ELEMENT: u32 = 4;

/// `cudaPitchedPtr`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct PitchedPointer {
    pub(super) address: Address,
    pub(super) pitch: usize,
    pub(super) width: usize,
    pub(super) height: usize,
}

/// `cudaExtent`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Extent {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) depth: usize,
}

/// `cudaPointerAttributes`, up to the fields that are reserved.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "the layout is that of the header")]
#[repr(C)]
pub(super) struct PointerAttributes {
    kind: u32,
    device: Device,
    of_device: Address,
    of_host: Address,
}

runtime! {
    fn cudaMalloc(place: Out<Address>, bytes: usize) {
        match bytes {
            0 => place.set(0),
            _ => cu!(memory::cuMemAlloc_v2(place, bytes)),
        }
    }

    fn cudaFree(address: Address) {
        cu!(memory::cuMemFree_v2(address))
    }

    fn cudaMallocAsync | cudaMallocAsync_ptsz (
        place: Out<Address>, bytes: usize, stream: Handle,
    ) {
        match bytes {
            0 => place.set(0),
            _ => cu!(memory::cuMemAllocAsync(place, bytes, stream)),
        }
    }

    fn cudaFreeAsync | cudaFreeAsync_ptsz (address: Address, stream: Handle) {
        cu!(memory::cuMemFreeAsync(address, stream))
    }

    fn cudaMallocFromPoolAsync | cudaMallocFromPoolAsync_ptsz (
        place: Out<Address>, bytes: usize, pool: Handle, stream: Handle,
    ) {
        cu!(pool::cuMemAllocFromPoolAsync(place, bytes, pool, stream))
    }

    fn cudaMallocPitch(place: Out<Address>, pitch: Out<usize>, width: usize, height: usize) {
        match width == 0 || height == 0 {
            true => pitch.set(0).and(place.set(0)),
            false => cu!(memory::cuMemAllocPitch_v2(place, pitch, width, height, ELEMENT)),
        }
    }

    fn cudaMalloc3D(place: Out<PitchedPointer>, extent: Extent) {
        let rows = extent.height.checked_mul(extent.depth).ok_or(Code::OUT_OF_MEMORY)?;
        let (mut address, mut pitch) = (0, 0);
        if rows > 0 && extent.width > 0 {
            let places = (Out::to(&mut address), Out::to(&mut pitch));
            cu!(memory::cuMemAllocPitch_v2(places.0, places.1, extent.width, rows, ELEMENT))?;
        }
        let Extent { width, height, .. } = extent;
        place.set(PitchedPointer { address, pitch, width, height })
    }

    fn cudaMallocHost(place: Out<Address>, bytes: usize) {
        match bytes {
            0 => place.set(0),
            _ => cu!(host_memory::cuMemAllocHost_v2(place, bytes)),
        }
    }

    fn cudaHostAlloc(place: Out<Address>, bytes: usize, flags: u32) {
        match bytes {
            0 => place.set(0),
            _ => cu!(host_memory::cuMemHostAlloc(place, bytes, flags)),
        }
    }

    fn cudaFreeHost(address: Address) {
        cu!(host_memory::cuMemFreeHost(address))
    }

    fn cudaHostRegister(address: Address, bytes: usize, flags: u32) {
        cu!(host_memory::cuMemHostRegister_v2(address, bytes, flags))
    }

    fn cudaHostUnregister(address: Address) {
        cu!(host_memory::cuMemHostUnregister(address))
    }

    fn cudaHostGetDevicePointer(place: Out<Address>, address: Address, flags: u32) {
        cu!(host_memory::cuMemHostGetDevicePointer_v2(place, address, flags))
    }

    fn cudaHostGetFlags(flags: Out<u32>, address: Address) {
        cu!(host_memory::cuMemHostGetFlags(flags, address))
    }

    fn cudaMallocManaged(place: Out<Address>, bytes: usize, flags: u32) {
        cu!(host_memory::cuMemAllocManaged(place, bytes, flags))
    }

    fn cudaMemAdvise | cudaMemAdvise_v2 (
        _address: Address, _bytes: usize, _advice: u32, _location: u64,
    ) {
        super::ready()
    }

    // The arguments after these differ between versions of the runtime.
    fn cudaMemPrefetchAsync | cudaMemPrefetchAsync_ptsz | cudaMemPrefetchAsync_v2 (
        _address: Address, _bytes: usize,
    ) {
        super::ready()
    }

    fn cudaStreamAttachMemAsync | cudaStreamAttachMemAsync_ptsz (
        stream: Handle, address: Address, bytes: usize, flags: u32,
    ) {
        cu!(host_memory::cuStreamAttachMemAsync(stream, address, bytes, flags))
    }

    fn cudaMemGetInfo(free: Out<usize>, total: Out<usize>) {
        cu!(memory::cuMemGetInfo_v2(free, total))
    }

    fn cudaPointerGetAttributes(place: Out<PointerAttributes>, address: Address) {
        super::ready()?;
        let found = current()?.state().range_at(address);
        let (kind, of_device, of_host) = match found.map(|(_, range)| range.kind) {
            None => (UNREGISTERED, 0, address),
            Some(RangeKind::Device) => (DEVICE, address, 0),
            Some(RangeKind::Managed) => (MANAGED, address, address),
            Some(RangeKind::Host { .. } | RangeKind::Registered { .. }) => (HOST, address, address),
        };
        let device = if kind == UNREGISTERED { -2 } else { 0 };
        place.set(PointerAttributes { kind, device, of_device, of_host })
    }

    fn cudaDeviceGetDefaultMemPool(pool: Out<Handle>, device: Device) {
        cu!(pool::cuDeviceGetDefaultMemPool(pool, device))
    }

    fn cudaDeviceGetMemPool(pool: Out<Handle>, device: Device) {
        cu!(pool::cuDeviceGetMemPool(pool, device))
    }

    fn cudaDeviceSetMemPool(device: Device, pool: Handle) {
        cu!(pool::cuDeviceSetMemPool(device, pool))
    }

    fn cudaMemPoolCreate(pool: Out<Handle>, properties: Data) {
        cu!(pool::cuMemPoolCreate(pool, properties))
    }

    fn cudaMemPoolDestroy(pool: Handle) {
        cu!(pool::cuMemPoolDestroy(pool))
    }

    fn cudaMemPoolGetAttribute(pool: Handle, number: u32, value: InOut<u64>) {
        cu!(pool::cuMemPoolGetAttribute(pool, number, value))
    }

    fn cudaMemPoolSetAttribute(pool: Handle, number: u32, value: InOut<u64>) {
        cu!(pool::cuMemPoolSetAttribute(pool, number, value))
    }

    fn cudaMemGetDefaultMemPool(pool: Out<Handle>, location: In<Location>, memory: u32) {
        cu!(pool::cuMemGetDefaultMemPool(pool, location, memory))
    }

    fn cudaMemGetMemPool(pool: Out<Handle>, location: In<Location>, memory: u32) {
        cu!(pool::cuMemGetMemPool(pool, location, memory))
    }

    fn cudaMemSetMemPool(location: In<Location>, memory: u32, pool: Handle) {
        cu!(pool::cuMemSetMemPool(location, memory, pool))
    }

    fn cudaMemPoolSetAccess(pool: Handle, accesses: Data, count: usize) {
        cu!(pool::cuMemPoolSetAccess(pool, accesses, count))
    }

    fn cudaMemPoolGetAccess(flags: Out<u32>, pool: Handle, location: Data) {
        cu!(pool::cuMemPoolGetAccess(flags, pool, location))
    }

    fn cudaMemRangeGetAttribute(
        place: Out<i32>, bytes: usize, number: u32, address: Address, count: usize,
    ) {
        cu!(pointer::cuMemRangeGetAttribute(place, bytes, number, address, count))
    }

    fn cudaMemRangeGetAttributes(
        places: In<Out<i32>>, bytes: In<usize>, numbers: In<u32>, count: usize, address: Address,
        len: usize,
    ) {
        cu!(pointer::cuMemRangeGetAttributes(places, bytes, numbers, count, address, len))
    }

    fn cudaMemPoolTrimTo(pool: Handle, bytes: usize) {
        cu!(pool::cuMemPoolTrimTo(pool, bytes))
    }
}
