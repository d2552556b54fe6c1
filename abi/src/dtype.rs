//! Element types of tensors.

use core::fmt;

/// Element type of a tensor or buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    Bf16,
    /// 8-bit float, 4 exponent and 3 mantissa bits, no infinity (OCP `E4M3`).
    E4m3,
    /// 8-bit float, 5 exponent and 2 mantissa bits (OCP `E5M2`).
    E5m2,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
}

impl DType {
    /// All dtypes.
    pub const ALL: [Self; 14] = [
        Self::F64,
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::E4m3,
        Self::E5m2,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
    ];

    /// Bytes of one element.
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 | Self::Bf16 | Self::I16 | Self::U16 => 2,
            Self::E4m3 | Self::E5m2 | Self::I8 | Self::U8 => 1,
        }
    }

    /// Name in entry names, files and messages (`bf16`).
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::E4m3 => "e4m3",
            Self::E5m2 => "e5m2",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
        }
    }

    /// The dtype of that [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Element type of the results of a kernel that is told it at run time.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputDType {
    /// f32.
    F32 = 0,
    /// f16.
    F16 = 1,
    /// bf16.
    Bf16 = 2,
}

impl OutputDType {
    /// The code's dtype; `None` if results cannot have it.
    pub const fn new(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F32 => Some(Self::F32),
            DType::F16 => Some(Self::F16),
            DType::Bf16 => Some(Self::Bf16),
            _ => None,
        }
    }

    /// Its code.
    pub const fn code(self) -> u32 {
        self as u32
    }
}
