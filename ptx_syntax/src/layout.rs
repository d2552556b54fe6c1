//! Sizes and alignments of types and variables: PTX ISA 5.2 and 5.4.

use crate::ast::{ScalarType, Variable};

impl ScalarType {
    /// The type with a name, without its dot: `f32`.
    pub fn from_word(word: &str) -> Option<Self> {
        WORDS
            .iter()
            .find(|(_, name)| *name == word)
            .map(|(ty, _)| *ty)
    }

    /// The name of the type in PTX, without a dot.
    pub fn word(self) -> &'static str {
        WORDS
            .iter()
            .find(|(ty, _)| *ty == self)
            .map_or("", |(_, name)| name)
    }

    /// Size in bytes, which is also the natural alignment. A predicate counts as 1, an opaque
    /// reference as the 8 bytes of its handle.
    pub fn bytes(self) -> u32 {
        use ScalarType as T;
        match self {
            T::B8 | T::U8 | T::S8 | T::E4m3 | T::E5m2 | T::Pred => 1,
            T::B16 | T::U16 | T::S16 | T::F16 | T::Bf16 | T::E4m3x2 | T::E5m2x2 => 2,
            T::B32 | T::U32 | T::S32 | T::F32 | T::Tf32 => 4,
            T::F16x2 | T::Bf16x2 | T::U16x2 | T::S16x2 => 4,
            T::B64 | T::U64 | T::S64 | T::F64 => 8,
            T::Texref | T::Samplerref | T::Surfref => 8,
            T::B128 => 16,
        }
    }
}

impl Variable {
    /// Size in bytes; `None` if an extent is missing (`[]`) or the size overflows.
    pub fn bytes(&self) -> Option<u64> {
        let element = u64::from(self.ty.bytes()) * u64::from(self.vector.unwrap_or(1));
        self.dims
            .iter()
            .try_fold(element, |bytes, extent| bytes.checked_mul((*extent)?))
    }

    /// Alignment in bytes: `.align` if written, else the natural one (of the whole vector).
    pub fn alignment(&self) -> u32 {
        self.align
            .unwrap_or_else(|| self.ty.bytes() * u32::from(self.vector.unwrap_or(1)))
    }
}

/// Every type and its name.
const WORDS: [(ScalarType, &str); 30] = [
    (ScalarType::B8, "b8"),
    (ScalarType::B16, "b16"),
    (ScalarType::B32, "b32"),
    (ScalarType::B64, "b64"),
    (ScalarType::B128, "b128"),
    (ScalarType::U8, "u8"),
    (ScalarType::U16, "u16"),
    (ScalarType::U32, "u32"),
    (ScalarType::U64, "u64"),
    (ScalarType::S8, "s8"),
    (ScalarType::S16, "s16"),
    (ScalarType::S32, "s32"),
    (ScalarType::S64, "s64"),
    (ScalarType::F16, "f16"),
    (ScalarType::F16x2, "f16x2"),
    (ScalarType::Bf16, "bf16"),
    (ScalarType::Bf16x2, "bf16x2"),
    (ScalarType::Tf32, "tf32"),
    (ScalarType::F32, "f32"),
    (ScalarType::F64, "f64"),
    (ScalarType::E4m3, "e4m3"),
    (ScalarType::E5m2, "e5m2"),
    (ScalarType::E4m3x2, "e4m3x2"),
    (ScalarType::E5m2x2, "e5m2x2"),
    (ScalarType::U16x2, "u16x2"),
    (ScalarType::S16x2, "s16x2"),
    (ScalarType::Pred, "pred"),
    (ScalarType::Texref, "texref"),
    (ScalarType::Samplerref, "samplerref"),
    (ScalarType::Surfref, "surfref"),
];
