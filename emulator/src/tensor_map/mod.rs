//! Tensor maps: the 128 bytes that tell a tensor copy what its tensor looks like.
//!
//! A GPU's driver encodes a map in a form of its own, which nobody may look into. So does
//! [`TensorMapDesc::encode`] for the emulator; the rules on what may be encoded are the driver's,
//! and so are the names of what they are about.

mod bytes;
mod rules;

pub use rules::TensorMapError;

/// Bytes of an encoded map.
pub const TENSOR_MAP_BYTES: usize = 128;
/// Alignment of an encoded map in memory, in bytes.
pub const TENSOR_MAP_ALIGN: u64 = 64;
/// Most dimensions of a tensor.
pub const TENSOR_MAP_RANK: usize = 5;

/// Element type of a tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
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

    /// Bytes of an element.
    pub const fn bytes(self) -> u64 {
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

/// How a box is rearranged in shared memory: 16-byte units of a row of so many bytes are
/// exchanged by an exclusive-or with the row's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Swizzle {
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

impl Swizzle {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::None, Self::B32, Self::B64, Self::B128];

    /// Bytes of a span; `None` where nothing is rearranged.
    pub const fn span(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::B32 => Some(32),
            Self::B64 => Some(64),
            Self::B128 => Some(128),
        }
    }
}

/// What elements outside of the tensor read as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fill {
    /// Zero.
    #[default]
    Zeros,
    /// A NaN; for float types only.
    Nan,
}

/// A tensor in global memory and the box of it that one copy moves. Dimensions are in order from
/// the innermost, whose elements lie side by side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorMapDesc {
    /// Element type.
    pub data_type: TensorMapType,
    /// Address of the first element.
    pub address: u64,
    /// Elements of each dimension.
    pub dims: Vec<u64>,
    /// Bytes from one index to the next, of every dimension but the innermost.
    pub strides_bytes: Vec<u64>,
    /// Elements of the box in each dimension. Empty for an im2col map, whose box is a
    /// [`Im2col`]'s.
    pub box_dims: Vec<u32>,
    /// Take every n-th element; the innermost dimension's is ignored, as the hardware does.
    pub element_strides: Vec<u32>,
    /// Arrangement in shared memory.
    pub swizzle: Swizzle,
    /// What lies outside of the tensor.
    pub fill: Fill,
}

/// The box of an im2col map: columns of pixels of all channels or a part of them.
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

impl TensorMapDesc {
    /// The map as the emulator's tensor copies read it.
    ///
    /// # Errors
    /// [`TensorMapError`], by the driver's rules.
    pub fn encode(&self) -> Result<[u8; TENSOR_MAP_BYTES], TensorMapError> {
        self.check(None)?;
        Ok(bytes::encode(self, None))
    }

    /// The map of im2col copies; [`box_dims`](Self::box_dims) has to be empty.
    ///
    /// # Errors
    /// [`TensorMapError`], by the driver's rules.
    pub fn encode_im2col(&self, im2col: &Im2col) -> Result<[u8; TENSOR_MAP_BYTES], TensorMapError> {
        self.check(Some(im2col))?;
        Ok(bytes::encode(self, Some(im2col)))
    }

    /// What [`encode`](Self::encode) or [`encode_im2col`](Self::encode_im2col) was given.
    ///
    /// # Errors
    /// [`TensorMapError::NotAMap`] where the bytes come from neither; another one where a kernel
    /// has replaced a field by what is against the rules.
    pub fn decode(map: &[u8; TENSOR_MAP_BYTES]) -> Result<(Self, Option<Im2col>), TensorMapError> {
        let (desc, im2col) = bytes::decode(map)?;
        desc.check(im2col.as_ref())?;
        Ok((desc, im2col))
    }

    /// The same without judging the values: for instructions that replace one field after another.
    pub(crate) fn decode_unchecked(
        map: &[u8; TENSOR_MAP_BYTES],
    ) -> Result<(Self, Option<Im2col>), TensorMapError> {
        bytes::decode(map)
    }

    /// [`encode`](Self::encode) without judging the values.
    pub(crate) fn encode_unchecked(&self, im2col: Option<&Im2col>) -> [u8; TENSOR_MAP_BYTES] {
        bytes::encode(self, im2col)
    }

    /// Bytes that a copy of one box writes to or reads from shared memory.
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
