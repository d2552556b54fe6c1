//! Pools of memory. A pool keeps nothing: what is freed goes back to the device at once.

use crate::c::{Address, Data, Device, Handle, In, InOut, Out};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::report;
use crate::state::{Pool, check_device, current_of, driver};

use super::memory;

/// The handle of the device's own pool.
const DEFAULT_POOL: Handle = 0x2000_0000_0010;

/// Attributes by their numbers in the API.
const REUSE: std::ops::RangeInclusive<u32> = 1..=3;
const RELEASE_THRESHOLD: u32 = 4;
const USED: std::ops::RangeInclusive<u32> = 5..=8;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`
const READ_WRITE: u32 = 3;

/// `CUmemLocation`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Location {
    kind: u32,
    id: i32,
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`, and `CU_MEM_ALLOCATION_TYPE_PINNED`
const ON_DEVICE: u32 = 1;
const PINNED: u32 = 1;

impl Location {
    /// Refuses all places but the device.
    pub(super) fn check_device(self) -> Answer {
        driver()?;
        match self.kind {
            ON_DEVICE => check_device(self.id),
            _ => {
                report::unsupported("memory in another place than the device");
                Err(Code::NOT_SUPPORTED)
            }
        }
    }
}

/// Refuses the pools of other places than the device, and of managed memory.
fn check_place(location: In<Location>, memory: u32) -> Answer {
    if memory != PINNED {
        report::unsupported("a pool of managed memory");
        return Err(Code::NOT_SUPPORTED);
    }
    location.get()?.check_device()
}

fn check(pool: Handle) -> Answer {
    let driver = driver()?;
    match pool == DEFAULT_POOL || driver.state().pools.contains_key(&pool) {
        true => Ok(()),
        false => Err(Code::INVALID_VALUE),
    }
}

fn allocate(place: Out<Address>, bytes: usize, pool: Handle, stream: Handle) -> Answer {
    let current = current_of(stream)?;
    check(pool)?;
    current.check_stream(stream)?;
    place.set(memory::allocate_on(current, bytes, stream)?)
}

/// The value of an attribute that has four bytes.
fn as_i32(value: InOut<u64>) -> InOut<i32> {
    // SAFETY: null, or by the contract of such attributes a place of four bytes.
    unsafe { InOut::new(value.pointer().cast()) }
}

entries! {
    fn cuDeviceGetDefaultMemPool: "cuDeviceGetDefaultMemPool" @ 11020 (
        pool: Out<Handle>, device: Device,
    ) {
        driver()?;
        check_device(device)?;
        pool.set(DEFAULT_POOL)
    }

    fn cuDeviceGetMemPool: "cuDeviceGetMemPool" @ 11020 (pool: Out<Handle>, device: Device) {
        driver()?;
        check_device(device)?;
        pool.set(DEFAULT_POOL)
    }

    fn cuDeviceSetMemPool: "cuDeviceSetMemPool" @ 11020 (device: Device, pool: Handle) {
        check_device(device)?;
        check(pool)
    }

    fn cuMemGetDefaultMemPool: "cuMemGetDefaultMemPool" @ 13000 (
        pool: Out<Handle>, location: In<Location>, memory: u32,
    ) {
        check_place(location, memory)?;
        pool.set(DEFAULT_POOL)
    }

    fn cuMemGetMemPool: "cuMemGetMemPool" @ 13000 (
        pool: Out<Handle>, location: In<Location>, memory: u32,
    ) {
        check_place(location, memory)?;
        pool.set(DEFAULT_POOL)
    }

    fn cuMemSetMemPool: "cuMemSetMemPool" @ 13000 (
        location: In<Location>, memory: u32, pool: Handle,
    ) {
        check_place(location, memory)?;
        check(pool)
    }

    fn cuMemPoolCreate: "cuMemPoolCreate" @ 11020 (place: Out<Handle>, properties: Data) {
        let driver = driver()?;
        if properties.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let mut state = driver.state();
        let handle = state.new_handle();
        state.pools.insert(handle, Pool::default());
        place.set(handle)
    }

    fn cuMemPoolDestroy: "cuMemPoolDestroy" @ 11020 (pool: Handle) {
        let removed = driver()?.state().pools.remove(&pool);
        removed.map(|_| ()).ok_or(Code::INVALID_VALUE)
    }

    fn cuMemPoolGetAttribute: "cuMemPoolGetAttribute" @ 11020 (
        pool: Handle, number: u32, value: InOut<u64>,
    ) {
        check(pool)?;
        let state = driver()?.state();
        let set = state.pools.get(&pool).and_then(|pool| pool.attributes.get(&number)).copied();
        match number {
            number if REUSE.contains(&number) => {
                as_i32(value).set_at(0, set.unwrap_or(1) as i32)
            }
            RELEASE_THRESHOLD => value.set_at(0, set.unwrap_or(0)),
            number if USED.contains(&number) => value.set_at(0, 0),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuMemPoolSetAttribute: "cuMemPoolSetAttribute" @ 11020 (
        pool: Handle, number: u32, value: InOut<u64>,
    ) {
        check(pool)?;
        let value = match number {
            number if REUSE.contains(&number) => {
                as_i32(value).at(0)? as u64
            }
            RELEASE_THRESHOLD => value.at(0)?,
            number if USED.contains(&number) => 0,
            _ => return Err(Code::INVALID_VALUE),
        };
        let mut state = driver()?.state();
        state.pools.entry(pool).or_default().attributes.insert(number, value);
        Ok(())
    }

    fn cuMemPoolSetAccess: "cuMemPoolSetAccess" @ 11020 (
        pool: Handle, _accesses: Data, _count: usize,
    ) {
        check(pool)
    }

    fn cuMemPoolGetAccess: "cuMemPoolGetAccess" @ 11020 (
        flags: Out<u32>, pool: Handle, _location: Data,
    ) {
        check(pool)?;
        flags.set(READ_WRITE)
    }

    fn cuMemPoolTrimTo: "cuMemPoolTrimTo" @ 11020 (pool: Handle, _bytes: usize) {
        check(pool)
    }

    fn cuMemAllocFromPoolAsync | cuMemAllocFromPoolAsync_ptsz: "cuMemAllocFromPoolAsync" @ 11020 (
        place: Out<Address>, bytes: usize, pool: Handle, stream: Handle,
    ) {
        allocate(place, bytes, pool, stream)
    }
}
