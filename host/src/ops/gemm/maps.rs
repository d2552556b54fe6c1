//! Tensor maps in device memory: kernels take a pointer to each.
//!
//! A map says where a tensor is and how it lies, nothing of what it holds; so it may be kept as
//! long as one likes. Each device keeps those it was asked for last, and a launch that asks for a
//! known one allocates nothing.

use crate::device::lock;
use crate::launch::KernelArg;
use crate::storage::Storage;
use crate::{
    L2Promotion, Result, Stream, TensorMap, TensorMapDesc, TensorMapSwizzle, TensorMapType,
};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

/// Maps that a device keeps: 128 bytes each, and what its allocator rounds that up to.
const KEPT: usize = 1024;

/// Most dimensions of a map.
const RANK: usize = 5;

/// A tiled map that takes every element and fills with zeros. Dimensions are in order from the
/// innermost; those from `rank` on are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MapKey {
    address: u64,
    data_type: TensorMapType,
    rank: usize,
    dims: [u64; RANK],
    /// Of every dimension but the innermost.
    strides_bytes: [u64; RANK],
    box_dims: [u32; RANK],
    swizzle: TensorMapSwizzle,
    l2_promotion: L2Promotion,
}

impl MapKey {
    /// The map of [`TensorMapDesc::new`] at `address`; there are as many strides as dimensions, of
    /// which the first (the innermost) is not looked at.
    pub(super) fn new<const N: usize>(
        address: u64,
        data_type: TensorMapType,
        dims: [u64; N],
        strides_bytes: [u64; N],
        box_dims: [u32; N],
    ) -> Self {
        const { assert!(N >= 1 && N <= RANK, "a tensor map has 1 to 5 dimensions") };
        let mut key = Self {
            address,
            data_type,
            rank: N,
            dims: [0; RANK],
            strides_bytes: [0; RANK],
            box_dims: [0; RANK],
            swizzle: TensorMapSwizzle::None,
            l2_promotion: L2Promotion::None,
        };
        key.dims[..N].copy_from_slice(&dims);
        key.strides_bytes[..N - 1].copy_from_slice(&strides_bytes[1..]);
        key.box_dims[..N].copy_from_slice(&box_dims);
        key
    }

    /// The same with this swizzle.
    pub(super) fn swizzle(self, swizzle: TensorMapSwizzle) -> Self {
        Self { swizzle, ..self }
    }

    /// The same with this promotion.
    pub(super) fn l2_promotion(self, l2_promotion: L2Promotion) -> Self {
        Self {
            l2_promotion,
            ..self
        }
    }

    fn desc(&self) -> TensorMapDesc {
        let strides = &self.strides_bytes[..self.rank - 1];
        let (dims, box_dims) = (&self.dims[..self.rank], &self.box_dims[..self.rank]);
        TensorMapDesc::new(self.data_type, dims, strides, box_dims)
            .swizzle(self.swizzle)
            .l2_promotion(self.l2_promotion)
    }
}

/// A map in device memory; as an argument, the pointer to it.
#[derive(Clone)]
pub(super) struct DeviceMap(Arc<Uploaded>);

struct Uploaded {
    address: u64,
    storage: Storage,
    /// What the copy to the device reads; here as long as the copy may run.
    bytes: [u8; TensorMap::BYTES],
}

// SAFETY: the address is a field of what the argument borrows.
unsafe impl KernelArg for &DeviceMap {
    fn size_bytes(&self) -> usize {
        size_of::<u64>()
    }

    fn bytes(&self) -> *const c_void {
        std::ptr::from_ref(&self.0.address).cast()
    }

    fn use_on(&self, stream: &Stream) -> Result<()> {
        self.0.storage.use_on("tensor map", stream)
    }
}

/// The maps that a device keeps.
#[derive(Default)]
pub(crate) struct MapCache(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    maps: HashMap<MapKey, (DeviceMap, u64)>,
    /// Counts requests.
    now: u64,
}

impl MapCache {
    /// The map of `key`, which work on `stream` from now on can read.
    pub(super) fn get(&self, key: &MapKey, stream: &Stream) -> Result<DeviceMap> {
        let mut kept = lock(&self.0);
        kept.now += 1;
        let now = kept.now;
        if let Some((map, used)) = kept.maps.get_mut(key) {
            *used = now;
            return Ok(map.clone());
        }
        let map = upload(key, stream)?;
        if kept.maps.len() >= KEPT {
            // Half of them at once, so that it is rare. No copy reads their bytes any more.
            stream.device().synchronize()?;
            let mut uses: Vec<u64> = kept.maps.values().map(|&(_, used)| used).collect();
            uses.sort_unstable();
            let oldest_kept = uses[uses.len() / 2];
            kept.maps.retain(|_, (_, used)| *used >= oldest_kept);
        }
        kept.maps.insert(*key, (map.clone(), now));
        Ok(map)
    }
}

fn upload(key: &MapKey, stream: &Stream) -> Result<DeviceMap> {
    let map = key.desc().encode_at(stream.device(), key.address)?;
    let storage = Storage::alloc(stream, TensorMap::BYTES as u64)?;
    let uploaded = Arc::new(Uploaded {
        address: storage.address(),
        storage,
        bytes: *map.bytes(),
    });
    // SAFETY: the bytes live in the cache, which gives them up after a synchronize only.
    unsafe { uploaded.storage.write_unwaited(&uploaded.bytes) }?;
    Ok(DeviceMap(uploaded))
}
