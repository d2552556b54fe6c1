//! Tensor maps: what tensor copies (TMA) are told of a tensor in device memory.

mod rules;

use crate::buffer::DeviceBuffer;
use crate::device::Device;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::launch::KernelArg;
use crate::storage::Storage;
use crate::stream::Stream;
use spec::DType;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

/// Element type of a tensor map. [`From<DType>`](#impl-From<DType>-for-TensorMapType) gives the one
/// that copies elements of that type unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorMapType {
    /// Bytes, and floats of 8 bits.
    U8,
    /// 16 bits, unsigned.
    U16,
    /// 32 bits, unsigned.
    U32,
    /// 32 bits, signed.
    I32,
    /// 64 bits, unsigned.
    U64,
    /// 64 bits, signed.
    I64,
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// bfloat16
    Bf16,
    /// f32 whose subnormals become zero.
    F32Ftz,
    /// f32 rounded to tf32.
    Tf32,
    /// The same; subnormals become zero.
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

    /// Whether NaN is among its values.
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

/// How a box is rearranged in shared memory: the 16-byte units of a row of so many bytes are
/// exchanged by an exclusive-or with the row's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TensorMapSwizzle {
    /// As it is.
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
    /// Bytes of a span; `None` where nothing is rearranged.
    pub const fn span_bytes(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::B32 => Some(32),
            Self::B64 => Some(64),
            Self::B128 => Some(128),
        }
    }

    /// The swizzle whose span has so many bytes; 0 stands for none.
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

/// What elements outside of the tensor read as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TensorMapFill {
    /// Zero.
    #[default]
    Zeros,
    /// A NaN; for float types only.
    Nan,
}

/// How much of global memory a GPU brings into its L2 cache at once. Changes no result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum L2Promotion {
    /// What is asked for.
    #[default]
    None,
    /// 64 bytes.
    B64,
    /// 128 bytes.
    B128,
    /// 256 bytes.
    B256,
}

/// The box of an im2col map: columns of pixels, of all channels or a part of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Im2col {
    /// Lower corner of the bounding box of pixels, for the dimensions between channels and images.
    pub lower_corner: Vec<i32>,
    /// Upper corner, likewise, counted from the tensor's end.
    pub upper_corner: Vec<i32>,
    /// Channels of a pixel that one copy moves.
    pub channels_per_pixel: u32,
    /// Pixels that one copy moves.
    pub pixels_per_column: u32,
}

/// A tensor in global memory, and the box of it that one copy moves. Dimensions are in order from
/// the innermost, whose elements lie side by side.
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TensorMapDesc {
    /// Element type.
    pub data_type: TensorMapType,
    /// Elements of each dimension: 1 to 5 of them, each 1 to 2^32.
    pub dims: Vec<u64>,
    /// Bytes from one index to the next, of every dimension but the innermost: multiples of 16
    /// below 2^40.
    pub strides_bytes: Vec<u64>,
    /// Elements of the box in each dimension, 1 to 256. A row is a multiple of 16 bytes, and not
    /// longer than the swizzle's span. Empty where there is an [`im2col`](Self::im2col).
    pub box_dims: Vec<u32>,
    /// Take every n-th element, 1 to 8; the innermost dimension's is ignored by the hardware.
    pub element_strides: Vec<u32>,
    /// Arrangement in shared memory.
    pub swizzle: TensorMapSwizzle,
    /// What lies outside of the tensor.
    pub fill: TensorMapFill,
    /// A hint.
    pub l2_promotion: L2Promotion,
    /// A box of pixels in the place of [`box_dims`](Self::box_dims).
    pub im2col: Option<Im2col>,
}

impl TensorMapDesc {
    /// A tiled map that takes every element, neither swizzles nor promotes, and fills with zeros.
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

    /// The same with these element strides.
    pub fn element_strides(mut self, strides: &[u32]) -> Self {
        self.element_strides = strides.into();
        self
    }

    /// The same with this swizzle.
    pub fn swizzle(mut self, swizzle: TensorMapSwizzle) -> Self {
        self.swizzle = swizzle;
        self
    }

    /// The same with this fill.
    pub fn fill(mut self, fill: TensorMapFill) -> Self {
        self.fill = fill;
        self
    }

    /// The same with this promotion.
    pub fn l2_promotion(mut self, promotion: L2Promotion) -> Self {
        self.l2_promotion = promotion;
        self
    }

    /// The same with a box of pixels in the place of the tiled one.
    pub fn im2col(mut self, im2col: Im2col) -> Self {
        self.box_dims.clear();
        self.im2col = Some(im2col);
        self
    }

    /// The map of a tensor that begins with `buffer` and lies inside of it.
    ///
    /// # Errors
    /// [`Error::TensorMap`], [`Error::OutOfBounds`] where the tensor is larger than the buffer,
    /// [`Error::Unsupported`] on a GPU without tensor copies, [`Error::Driver`].
    pub fn encode<T: Element>(&self, buffer: &DeviceBuffer<T>) -> Result<TensorMap> {
        let storage = buffer.shared_storage();
        self.check(storage.address())?;
        let end = self.extent_bytes();
        if end > u128::from(storage.bytes()) {
            return Err(Error::OutOfBounds {
                what: "end of a tensor map's tensor in bytes",
                got: u64::try_from(end).unwrap_or(u64::MAX),
                limit: storage.bytes() + 1,
            });
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

    /// The map of a tensor at an address of `device`. Whoever launches with it keeps the memory
    /// alive and in order; a copy that leaves live memory is a fault of the kernel.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_at(&self, device: &Device, address: u64) -> Result<TensorMap> {
        self.check(address)?;
        Ok(TensorMap {
            bytes: Aligned(device.backend().encode_tensor_map(address, self)?),
            storage: None,
        })
    }

    /// Bytes from the first element to the end of the last.
    fn extent_bytes(&self) -> u128 {
        let inner = u128::from(self.dims[0]) * u128::from(self.data_type.size_bytes());
        let outer = self.dims[1..].iter().zip(&self.strides_bytes);
        outer.fold(inner, |end, (dim, stride)| {
            end + u128::from(dim - 1) * u128::from(*stride)
        })
    }
}

/// Hardware reads maps in units of 64 bytes.
#[derive(Clone)]
#[repr(align(64))]
struct Aligned([u8; TensorMap::BYTES]);

/// An encoded tensor map: 128 bytes that are good on one device only. As `&map` it is the argument
/// of a parameter of 128 bytes, and keeps its tensor's buffer as `&buffer` does.
#[derive(Clone)]
pub struct TensorMap {
    bytes: Aligned,
    storage: Option<Arc<Storage>>,
}

impl TensorMap {
    /// Size of a map.
    pub const BYTES: usize = 128;

    /// The map's bytes, for a copy in device memory aligned to 64 bytes (every
    /// [`DeviceBuffer`] is). Launches with that copy do not know of the tensor's buffer.
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
