//! The types of values: PTX ISA 5.2.

macro_rules! scalar_types {
    ($($ty:ident $word:literal $bytes:literal,)+) => {
        /// Fundamental types, and the packed types that variables can have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)] // each variant is the PTX type of that name
        pub enum ScalarType { $($ty,)+ }

        impl ScalarType {
            /// The type with a name, without its dot: `f32`.
            pub fn from_word(word: &str) -> Option<Self> {
                Some(match word {
                    $($word => Self::$ty,)+
                    _ => return None,
                })
            }

            /// The name of the type in PTX, without a dot.
            pub fn word(self) -> &'static str {
                match self { $(Self::$ty => $word,)+ }
            }

            /// Size in bytes, which is also the natural alignment. A predicate counts as 1, an
            /// opaque reference as the 8 bytes of its handle.
            pub fn bytes(self) -> u32 {
                match self { $(Self::$ty => $bytes,)+ }
            }
        }
    };
}

scalar_types! {
    B8 "b8" 1, B16 "b16" 2, B32 "b32" 4, B64 "b64" 8, B128 "b128" 16, U8 "u8" 1, U16 "u16" 2,
    U32 "u32" 4, U64 "u64" 8, S8 "s8" 1, S16 "s16" 2, S32 "s32" 4, S64 "s64" 8, F16 "f16" 2,
    F16x2 "f16x2" 4, Bf16 "bf16" 2, Bf16x2 "bf16x2" 4, Tf32 "tf32" 4, F32 "f32" 4, F64 "f64" 8,
    E4m3 "e4m3" 1, E5m2 "e5m2" 1, E4m3x2 "e4m3x2" 2, E5m2x2 "e5m2x2" 2, U16x2 "u16x2" 4,
    S16x2 "s16x2" 4, Pred "pred" 1, Texref "texref" 8, Samplerref "samplerref" 8,
    Surfref "surfref" 8,
}
