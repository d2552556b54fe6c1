//! Tensors with the element type as a run-time value, for operations over several dtypes.

use super::layout::Layout;
use super::overlap;
use crate::Device;
use crate::error::Result;
use crate::launch::KernelArg;
use crate::storage::Storage;
use crate::stream::Stream;
use abi::DType;
use std::ffi::c_void;

/// A borrowed tensor.
#[derive(Clone, Copy)]
pub(crate) struct Erased<'a> {
    storage: &'a Storage,
    layout: &'a Layout,
    address: u64,
    dtype: DType,
}

impl<'a> Erased<'a> {
    pub(crate) fn new(
        storage: &'a Storage,
        layout: &'a Layout,
        address: u64,
        dtype: DType,
    ) -> Self {
        Self {
            storage,
            layout,
            address,
            dtype,
        }
    }

    pub(crate) fn shape(&self) -> &'a [usize] {
        &self.layout.shape
    }

    pub(crate) fn strides(&self) -> &'a [i64] {
        &self.layout.strides
    }

    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    /// Device address of the element at index (0, 0, ..).
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn device(&self) -> &'a Device {
        self.storage.device()
    }

    /// Whether no two indices refer to one element.
    pub(crate) fn is_injective(&self) -> bool {
        self.layout.is_injective()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// Whether both are the same elements in the same order, with the same type.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.address == other.address
            && self.dtype == other.dtype
            && self.shape() == other.shape()
            && self.strides() == other.strides()
            && self.device() == other.device()
    }

    /// Whether the two may share an element; `false` is certain.
    pub(crate) fn overlaps(&self, other: &Erased<'_>) -> bool {
        let sizes = [self.dtype.size_bytes(), other.dtype.size_bytes()];
        if std::ptr::eq(self.storage, other.storage) && sizes[0] == sizes[1] {
            return overlap::may_overlap(self.layout, other.layout);
        }
        match (self.byte_range(), other.byte_range()) {
            (Some(a), Some(b)) => self.device() == other.device() && a.0 < b.1 && b.0 < a.1,
            _ => false,
        }
    }

    /// Addresses of the first byte and of the byte behind the last, over all elements.
    fn byte_range(&self) -> Option<(i128, i128)> {
        let (first, last) = self.layout.bounds()?;
        let size = self.dtype.size_bytes() as i128;
        let base = i128::from(self.storage.address());
        Some((base + first * size, base + (last + 1) * size))
    }

    /// A kernel argument that is `address`, which lies inside of this tensor's storage.
    pub(crate) fn argument(&self, address: u64) -> Address<'a> {
        Address::new(self.storage, address)
    }
}

impl std::fmt::Debug for Erased<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tensor")
            .field("dtype", &self.dtype)
            .field("shape", &self.shape())
            .field("strides", &self.strides())
            .finish_non_exhaustive()
    }
}

/// A kernel argument: an address inside of a tensor's storage, or a null pointer.
#[derive(Clone, Copy)]
pub(crate) struct Address<'a> {
    storage: Option<&'a Storage>,
    address: u64,
}

impl<'a> Address<'a> {
    /// A null pointer.
    pub(crate) const NULL: Self = Self {
        storage: None,
        address: 0,
    };

    /// `address`, which lies in `storage`.
    pub(crate) fn new(storage: &'a Storage, address: u64) -> Self {
        Self {
            storage: Some(storage),
            address,
        }
    }
}

// SAFETY: the address is a field that the argument borrows.
unsafe impl KernelArg for Address<'_> {
    fn size_bytes(&self) -> usize {
        size_of::<u64>()
    }

    fn bytes(&self) -> *const c_void {
        std::ptr::from_ref(&self.address).cast()
    }

    fn use_on(&self, stream: &Stream) -> Result<()> {
        self.storage
            .map_or(Ok(()), |storage| storage.use_on("argument", stream))
    }
}
