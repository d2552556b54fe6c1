//! Tensor maps: the 128-byte descriptors of a tensor and its box that TMA copies read.
//!
//! The driver's encoding is opaque, so [`TensorMapDesc::encode`] uses one of the emulator's own. A
//! map of the driver is not valid here, nor the reverse. The rules on what may be encoded are the
//! driver's, and so are the names of the fields.

mod bytes;
mod rules;

pub use rules::TensorMapError;

/// Size of an encoded map in bytes.
pub const TENSOR_MAP_BYTES: usize = 128;
/// Alignment of an encoded map in memory, in bytes.
pub const TENSOR_MAP_ALIGN: u64 = 64;
/// Most dimensions of a tensor.
pub const TENSOR_MAP_RANK: usize = 5;

/// Element type of a tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TensorMapType {
    /// Bytes; also used for 8-bit floats.
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
    /// f32; a copy flushes subnormals to zero.
    F32Ftz,
    /// f32; a copy rounds to tf32.
    Tf32,
    /// As `Tf32`, and a copy flushes subnormals to zero.
    Tf32Ftz,
}

impl TensorMapType {
    /// All types.
    pub const ALL: [Self; 13] = [
        Self::U8,
        Self::U16,
        Self::U32,
        Self::I32,
        Self::U64,
        Self::I64,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::Bf16,
        Self::F32Ftz,
        Self::Tf32,
        Self::Tf32Ftz,
    ];

    /// Size of an element in bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 | Self::F32Ftz | Self::Tf32 | Self::Tf32Ftz => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether it is a floating-point type, and so has NaNs.
    pub const fn is_float(self) -> bool {
        !matches!(
            self,
            Self::U8 | Self::U16 | Self::U32 | Self::I32 | Self::U64 | Self::I64
        )
    }
}

/// Swizzle of a box in shared memory. Within a span of 32, 64 or 128 bytes, 16-byte units are
/// permuted by an exclusive-or of address bits from bit 4 on with those from bit 7 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Swizzle {
    /// No swizzle.
    #[default]
    None,
    /// Spans of 32 bytes.
    B32,
    /// Spans of 64 bytes.
    B64,
    /// Spans of 128 bytes.
    B128,
}

impl Swizzle {
    /// All swizzles.
    pub const ALL: [Self; 4] = [Self::None, Self::B32, Self::B64, Self::B128];

    /// Length of a span in bytes; `None` without swizzle.
    pub const fn span(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::B32 => Some(32),
            Self::B64 => Some(64),
            Self::B128 => Some(128),
        }
    }
}

/// What elements outside the tensor read as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fill {
    /// Zero.
    #[default]
    Zeros,
    /// NaN; only for floating-point types.
    Nan,
}

/// A tensor in global memory, and the box of it that one copy moves. Dimensions are listed from the
/// innermost, which is contiguous, to the outermost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorMapDesc {
    /// Element type.
    pub data_type: TensorMapType,
    /// Address of the first element; a multiple of 16.
    pub address: u64,
    /// Extent of each dimension in elements: 1 to 5 dimensions (im2col: 3 to 5), 1 to 2^32
    /// elements.
    pub dims: Vec<u64>,
    /// Stride of every dimension but the innermost, in bytes: a multiple of 16 below 2^40.
    pub strides_bytes: Vec<u64>,
    /// Extent of the box in each dimension, 1 to 256 elements. Empty for an im2col map, where
    /// [`Im2col`] describes the box.
    pub box_dims: Vec<u32>,
    /// Traversal stride of each dimension, 1 to 8: the box takes every n-th element. As on
    /// hardware, that of the innermost dimension has no effect.
    pub element_strides: Vec<u32>,
    /// Swizzle of the box in shared memory.
    pub swizzle: Swizzle,
    /// What elements outside the tensor read as.
    pub fill: Fill,
}

/// The box of an im2col map: a column of pixels, with all or some of their channels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Im2col {
    /// Lower corner of the bounding box of pixels, in the dimensions between channels and images.
    pub lower_corner: Vec<i32>,
    /// Upper corner in the same dimensions, relative to the tensor's end.
    pub upper_corner: Vec<i32>,
    /// Channels of each pixel that one copy moves: 1 to 256.
    pub channels_per_pixel: u32,
    /// Pixels that one copy moves: 1 to 1024.
    pub pixels_per_column: u32,
}

impl TensorMapDesc {
    /// Encodes the map, for tensor copies in the emulator.
    ///
    /// # Errors
    /// [`TensorMapError`] if the description breaks one of the driver's rules.
    pub fn encode(&self) -> Result<[u8; TENSOR_MAP_BYTES], TensorMapError> {
        self.check(None)?;
        Ok(bytes::encode(self, None))
    }

    /// Encodes the map for im2col copies; [`box_dims`](Self::box_dims) has to be empty.
    ///
    /// # Errors
    /// [`TensorMapError`] if the description breaks one of the driver's rules.
    pub fn encode_im2col(&self, im2col: &Im2col) -> Result<[u8; TENSOR_MAP_BYTES], TensorMapError> {
        self.check(Some(im2col))?;
        Ok(bytes::encode(self, Some(im2col)))
    }

    /// Decodes a map of [`encode`](Self::encode) or [`encode_im2col`](Self::encode_im2col).
    ///
    /// # Errors
    /// [`TensorMapError::NotAMap`] if the bytes come from neither; another error if a kernel has
    /// replaced a field so that the map breaks a rule.
    pub fn decode(map: &[u8; TENSOR_MAP_BYTES]) -> Result<(Self, Option<Im2col>), TensorMapError> {
        let (desc, im2col) = bytes::decode(map)?;
        desc.check(im2col.as_ref())?;
        Ok((desc, im2col))
    }

    /// The map that 128 bytes of zeros are: all fields are zero, and the rank is encoded as one
    /// less.
    pub(crate) fn zeroed() -> Self {
        Self {
            data_type: TensorMapType::U8,
            address: 0,
            dims: vec![0],
            strides_bytes: Vec::new(),
            box_dims: vec![0],
            element_strides: vec![0],
            swizzle: Swizzle::None,
            fill: Fill::Zeros,
        }
    }

    /// [`decode`](Self::decode) without checking the rules, for instructions that replace one field
    /// after another.
    pub(crate) fn decode_unchecked(
        map: &[u8; TENSOR_MAP_BYTES],
    ) -> Result<(Self, Option<Im2col>), TensorMapError> {
        bytes::decode(map)
    }

    /// [`encode`](Self::encode) without checking the rules.
    pub(crate) fn encode_unchecked(&self, im2col: Option<&Im2col>) -> [u8; TENSOR_MAP_BYTES] {
        bytes::encode(self, im2col)
    }

    /// Bytes that a tiled copy of one box moves to or from shared memory, padding of a swizzle
    /// aside. Empty `box_dims` (im2col) give the size of one element.
    pub fn box_bytes(&self) -> u64 {
        let elements = self.box_dims.iter().enumerate().map(|(axis, extent)| {
            let stride = match axis {
                0 => 1,
                _ => self.element_strides.get(axis).copied().unwrap_or(1).max(1),
            };
            u64::from(extent.div_ceil(stride))
        });
        elements.product::<u64>() * self.data_type.bytes()
    }
}
