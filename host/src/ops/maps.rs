//! A cache of encoded tensor maps, which kernels take by value.
//!
//! A map contains the address and layout of a tensor, not its contents, so a cached one never goes
//! stale. Each device keeps the maps that were used last, and a launch with a cached map allocates
//! nothing.

use crate::device::lock;
use crate::launch::KernelArg;
use crate::{
    Device, L2Promotion, Result, Stream, TensorMap, TensorMapDesc, TensorMapSwizzle, TensorMapType,
};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Mutex;

/// Capacity of a device's cache, in maps.
const KEPT: usize = 1024;

/// Most dimensions of a map.
const RANK: usize = 5;

/// A tiled map with element strides of 1, zero fill, and the swizzle whose span is the innermost
/// box extent. Dimensions are listed innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MapKey {
    address: u64,
    data_type: TensorMapType,
    rank: usize,
    // Of the following arrays, only the first `rank` (or `rank - 1`) entries are used.
    dims: [u64; RANK],
    strides_bytes: [u64; RANK - 1],
    box_dims: [u32; RANK],
    l2_promotion: L2Promotion,
}

impl MapKey {
    /// The map of the tensor at `address`. `strides_bytes` are the `LESS == N - 1` strides of all
    /// dimensions but the innermost.
    pub(super) fn new<const N: usize, const LESS: usize>(
        (address, data_type): (u64, TensorMapType),
        dims: [u64; N],
        strides_bytes: [u64; LESS],
        box_dims: [u32; N],
        l2_promotion: L2Promotion,
    ) -> Self {
        const { assert!(N <= RANK && LESS + 1 == N) };
        let mut key = Self {
            address,
            data_type,
            rank: N,
            dims: [0; RANK],
            strides_bytes: [0; RANK - 1],
            box_dims: [0; RANK],
            l2_promotion,
        };
        key.dims[..N].copy_from_slice(&dims);
        key.strides_bytes[..LESS].copy_from_slice(&strides_bytes);
        key.box_dims[..N].copy_from_slice(&box_dims);
        key
    }

    fn swizzle(&self) -> TensorMapSwizzle {
        match self.box_dims[0] * self.data_type.size_bytes() as u32 {
            32 => TensorMapSwizzle::B32,
            64 => TensorMapSwizzle::B64,
            _ => TensorMapSwizzle::B128,
        }
    }

    fn encode(&self, device: &Device) -> Result<MapValue> {
        let desc = TensorMapDesc::new(
            self.data_type,
            &self.dims[..self.rank],
            &self.strides_bytes[..self.rank - 1],
            &self.box_dims[..self.rank],
        )
        .swizzle(self.swizzle())
        .l2_promotion(self.l2_promotion);
        Ok(MapValue(*desc.encode_at(device, self.address)?.bytes()))
    }
}

/// A map as a by-value kernel argument. It does not register the use of the tensor's memory on the
/// stream: the launch has to do that.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct MapValue([u8; TensorMap::BYTES]);

// SAFETY: the bytes are a field of what the argument borrows.
unsafe impl KernelArg for &MapValue {
    fn size_bytes(&self) -> usize {
        TensorMap::BYTES
    }

    fn bytes(&self) -> *const c_void {
        std::ptr::from_ref(&self.0).cast()
    }

    fn use_on(&self, _stream: &Stream) -> Result<()> {
        Ok(())
    }
}

/// The tensor maps that a device caches.
#[derive(Default)]
pub(crate) struct MapCache(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    maps: HashMap<MapKey, (MapValue, u64)>,
    /// Counts requests: the time stamp of the next one.
    now: u64,
}

impl MapCache {
    /// The map of `key`.
    pub(super) fn get(&self, key: &MapKey, device: &Device) -> Result<MapValue> {
        let mut kept = lock(&self.0);
        kept.now += 1;
        let now = kept.now;
        if let Some((map, used)) = kept.maps.get_mut(key) {
            *used = now;
            return Ok(*map);
        }
        let map = key.encode(device)?;
        if kept.maps.len() >= KEPT {
            // Evict the least recently used half at once, so that eviction is rare.
            let mut uses: Vec<u64> = kept.maps.values().map(|&(_, used)| used).collect();
            uses.sort_unstable();
            let oldest_kept = uses[uses.len() / 2];
            kept.maps.retain(|_, (_, used)| *used >= oldest_kept);
        }
        kept.maps.insert(*key, (map, now));
        Ok(map)
    }
}
