//! Tensor maps: the descriptors of tensors in global memory that TMA copies
//! (`cp.async.bulk.tensor`) take, `CUtensorMap` in CUDA.

mod rules;

use crate::buffer::DeviceBuffer;
use crate::device::Device;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::launch::KernelArg;
use crate::storage::Storage;
use crate::stream::Stream;
use abi::DType;
use serde::{Deserialize, Serialize};
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

/// Element type of a tensor map (`CUtensorMapDataType`).
/// [`From<DType>`](#impl-From<DType>-for-TensorMapType) gives the one that copies elements of a
/// dtype unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TensorMapType {
    /// 8-bit integers and 8-bit floats.
    U8,
    /// 16-bit integers.
    U16,
    /// Unsigned 32-bit integers.
    U32,
    /// Signed 32-bit integers.
    I32,
    /// Unsigned 64-bit integers.
    U64,
    /// Signed 64-bit integers.
    I64,
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// bfloat16
    Bf16,
    /// f32; subnormals are flushed to zero.
    F32Ftz,
    /// f32, rounded to tf32.
    Tf32,
    /// f32, rounded to tf32; subnormals are flushed to zero.
    Tf32Ftz,
}

impl TensorMapType {
    /// Size of an element in bytes.
    pub const fn size_bytes(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 | Self::F32Ftz | Self::Tf32 | Self::Tf32Ftz => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether it is a floating-point type, which [`TensorMapFill::Nan`] requires.
    pub const fn is_float(self) -> bool {
        !matches!(
            self,
            Self::U8 | Self::U16 | Self::U32 | Self::I32 | Self::U64 | Self::I64
        )
    }
}

impl From<DType> for TensorMapType {
    fn from(dtype: DType) -> Self {
        match dtype {
            DType::F64 => Self::F64,
            DType::F32 => Self::F32,
            DType::F16 => Self::F16,
            DType::Bf16 => Self::Bf16,
            DType::E4m3 | DType::E5m2 | DType::I8 | DType::U8 => Self::U8,
            DType::I16 | DType::U16 => Self::U16,
            DType::I32 => Self::I32,
            DType::U32 => Self::U32,
            DType::I64 => Self::I64,
            DType::U64 => Self::U64,
        }
    }
}

/// How a copy arranges a box in shared memory, to avoid bank conflicts. Within spans of 32, 64 or
/// 128 bytes, the index of each 16-byte unit is XORed with bits of the row index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TensorMapSwizzle {
    /// Row-major, unchanged.
    #[default]
    None,
    /// Spans of 32 bytes.
    B32,
    /// Spans of 64 bytes.
    B64,
    /// Spans of 128 bytes.
    B128,
}

impl TensorMapSwizzle {
    /// Bytes of a span; `None` without a swizzle.
    pub const fn span_bytes(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::B32 => Some(32),
            Self::B64 => Some(64),
            Self::B128 => Some(128),
        }
    }

    /// The swizzle with spans of `bytes` bytes; 0 means [`TensorMapSwizzle::None`].
    pub const fn from_span_bytes(bytes: u64) -> Option<Self> {
        match bytes {
            0 => Some(Self::None),
            32 => Some(Self::B32),
            64 => Some(Self::B64),
            128 => Some(Self::B128),
            _ => None,
        }
    }
}

/// The value that a load writes for elements outside of the tensor's bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TensorMapFill {
    /// Zero.
    #[default]
    Zeros,
    /// A NaN; for floating-point types only.
    Nan,
}

/// Granularity at which a GPU fetches global memory into its L2 cache. It affects speed only; the
/// emulator ignores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum L2Promotion {
    /// No promotion: only what is accessed.
    #[default]
    None,
    /// 64 bytes.
    B64,
    /// 128 bytes.
    B128,
    /// 256 bytes.
    B256,
}

/// The bounding box of an im2col map (`cuTensorMapEncodeIm2col`): columns of pixels, with all
/// channels or a part of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Im2col {
    /// Lower corner of the bounding box of pixels: an offset from the start of each spatial
    /// dimension, which are those between the channels (innermost) and the images (outermost).
    pub lower_corner: Vec<i32>,
    /// Upper corner likewise, as offsets from the end of each spatial dimension.
    pub upper_corner: Vec<i32>,
    /// Channels of a pixel that one copy moves.
    pub channels_per_pixel: u32,
    /// Pixels that one copy moves.
    pub pixels_per_column: u32,
}

/// Description of a tensor in global memory and of the box that one TMA copy moves. Dimensions are
/// listed innermost first; the elements of the innermost one are contiguous.
///
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{Device, DeviceBuffer, TensorMapDesc, TensorMapSwizzle, TensorMapType};
/// let device = Device::emulator()?;
/// let tensor = DeviceBuffer::<f32>::zeros(&device.default_stream(), 300 * 1000)?;
/// // 300 rows of 1000 elements; a copy moves 64 rows of 32 of them.
/// let map = TensorMapDesc::new(TensorMapType::F32, &[1000, 300], &[4000], &[32, 64])
///     .swizzle(TensorMapSwizzle::B128)
///     .encode(&tensor)?;
/// // `kernel.launch(&stream, config, (&map, ..))` where the parameter is 128 bytes by value, or
/// // upload `map.bytes()` and pass that buffer where it is a pointer.
/// assert_eq!(map.bytes().len(), 128);
///
/// let ragged = TensorMapDesc::new(TensorMapType::F32, &[1001, 300], &[4004], &[32, 64]);
/// let error = ragged.encode(&tensor).unwrap_err().to_string();
/// assert_eq!(error, "tensor map: strides_bytes[0] is 4004, want a multiple of 16");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TensorMapDesc {
    /// Element type.
    pub data_type: TensorMapType,
    /// Extents of the tensor in elements: 1 to 5 dimensions (3 to 5 with an
    /// [`im2col`](Self::im2col)), each 1 to 2^32.
    pub dims: Vec<u64>,
    /// Strides in bytes of every dimension but the innermost: multiples of 16 below 2^40.
    pub strides_bytes: Vec<u64>,
    /// Extents of the box in elements, each 1 to 256. The innermost extent must be a multiple of 16
    /// bytes, and not longer than the swizzle's span. Empty with an [`im2col`](Self::im2col).
    pub box_dims: Vec<u32>,
    /// Traversal strides, 1 to 8: a copy takes every n-th element of a dimension. The hardware
    /// ignores that of the innermost dimension.
    pub element_strides: Vec<u32>,
    /// Arrangement of the box in shared memory.
    pub swizzle: TensorMapSwizzle,
    /// Value of elements outside of the tensor.
    pub fill: TensorMapFill,
    /// L2 fetch granularity, a hint.
    pub l2_promotion: L2Promotion,
    /// The im2col bounding box, which replaces [`box_dims`](Self::box_dims); `None` is a tiled map.
    pub im2col: Option<Im2col>,
}

impl TensorMapDesc {
    /// A tiled map with element strides of 1, no swizzle, no L2 promotion, and zero fill.
    pub fn new(
        data_type: TensorMapType,
        dims: &[u64],
        strides_bytes: &[u64],
        box_dims: &[u32],
    ) -> Self {
        Self {
            data_type,
            dims: dims.into(),
            strides_bytes: strides_bytes.into(),
            box_dims: box_dims.into(),
            element_strides: vec![1; dims.len()],
            swizzle: TensorMapSwizzle::None,
            fill: TensorMapFill::Zeros,
            l2_promotion: L2Promotion::None,
            im2col: None,
        }
    }

    /// Sets the field `element_strides`.
    pub fn element_strides(mut self, strides: &[u32]) -> Self {
        self.element_strides = strides.into();
        self
    }

    /// Sets the field `swizzle`.
    pub fn swizzle(mut self, swizzle: TensorMapSwizzle) -> Self {
        self.swizzle = swizzle;
        self
    }

    /// Sets the field `fill`.
    pub fn fill(mut self, fill: TensorMapFill) -> Self {
        self.fill = fill;
        self
    }

    /// Sets the field `l2_promotion`.
    pub fn l2_promotion(mut self, promotion: L2Promotion) -> Self {
        self.l2_promotion = promotion;
        self
    }

    /// Makes it an im2col map: clears the field `box_dims` and sets the field `im2col`.
    pub fn im2col(mut self, im2col: Im2col) -> Self {
        self.box_dims.clear();
        self.im2col = Some(im2col);
        self
    }

    /// Encodes the map of a tensor that starts at the first element of `buffer`.
    ///
    /// # Errors
    /// [`DeviceError::Driver`](crate::DeviceError::Driver).
    /// [`ArgumentError::TensorMap`](crate::ArgumentError::TensorMap) where a rule is broken.
    /// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) where the tensor is larger than
    /// the buffer. [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) on a GPU
    /// without TMA (compute capability below 9.0) or with a driver for CUDA before 12.0.
    pub fn encode<T: Element>(&self, buffer: &DeviceBuffer<T>) -> Result<TensorMap> {
        let storage = buffer.shared_storage();
        self.check(storage.address())?;
        let end = self.extent_bytes();
        if end > u128::from(storage.bytes()) {
            return Err(Error::out_of_bounds(
                "end of a tensor map's tensor in bytes",
                u64::try_from(end).unwrap_or(u64::MAX),
                storage.bytes() + 1,
            ));
        }
        let bytes = storage
            .device()
            .backend()
            .encode_tensor_map(storage.address(), self)?;
        Ok(TensorMap {
            bytes: Aligned(bytes),
            storage: Some(storage),
        })
    }

    /// Encodes the map of a tensor at an address of `device`, which is not checked against any
    /// allocation. The caller keeps the memory allocated until launches with the map are done, and
    /// orders them with other work. A copy outside of allocated memory is a fault of the kernel.
    ///
    /// # Errors
    /// As [`encode`](Self::encode), but for
    /// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds).
    pub fn encode_at(&self, device: &Device, address: u64) -> Result<TensorMap> {
        self.check(address)?;
        Ok(TensorMap {
            bytes: Aligned(device.backend().encode_tensor_map(address, self)?),
            storage: None,
        })
    }

    /// Bytes from the start of the first element to the end of the last.
    fn extent_bytes(&self) -> u128 {
        let inner = u128::from(self.dims[0]) * u128::from(self.data_type.size_bytes());
        let outer = self.dims[1..].iter().zip(&self.strides_bytes);
        outer.fold(inner, |end, (dim, stride)| {
            end + u128::from(dim - 1) * u128::from(*stride)
        })
    }
}

/// Tensor maps must be aligned to 64 bytes.
#[derive(Clone)]
#[repr(align(64))]
struct Aligned([u8; TensorMap::BYTES]);

/// An encoded tensor map: 128 opaque bytes, valid on one device only. `&map` is the kernel argument
/// for a parameter of 128 bytes, and keeps the tensor's buffer allocated until the launch is done,
/// as `&buffer` does.
#[derive(Clone)]
pub struct TensorMap {
    bytes: Aligned,
    storage: Option<Arc<Storage>>,
}

impl TensorMap {
    /// Size of an encoded map.
    pub const BYTES: usize = 128;

    /// The encoded bytes, to be copied to device memory aligned to 64 bytes (every [`DeviceBuffer`]
    /// is). A launch that gets that copy does not keep the tensor's buffer allocated.
    pub fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.bytes.0
    }
}

impl fmt::Debug for TensorMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TensorMap(..)")
    }
}

// SAFETY: the pointer is to the 128 initialised bytes that `self` borrows.
unsafe impl KernelArg for &TensorMap {
    fn size_bytes(&self) -> usize {
        TensorMap::BYTES
    }

    fn bytes(&self) -> *const c_void {
        std::ptr::from_ref(&self.bytes).cast()
    }

    fn use_on(&self, stream: &Stream) -> Result<()> {
        match &self.storage {
            Some(storage) => storage.use_on("tensor map", stream),
            None => Ok(()),
        }
    }
}
