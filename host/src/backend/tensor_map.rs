//! Encodes tensor maps with the emulator's encoder.

use crate::error::{Error, Result};
use crate::tensor_map::{TensorMap, TensorMapDesc, TensorMapFill, TensorMapSwizzle, TensorMapType};
use warpsmith_emulator::{Fill, Im2col, Swizzle, TensorMapDesc as Desc, TensorMapType as Type};

/// Encodes a map that has been checked against the rules.
pub(super) fn encode(address: u64, desc: &TensorMapDesc) -> Result<[u8; TensorMap::BYTES]> {
    let own = Desc {
        data_type: match desc.data_type {
            TensorMapType::U8 => Type::U8,
            TensorMapType::U16 => Type::U16,
            TensorMapType::U32 => Type::U32,
            TensorMapType::I32 => Type::I32,
            TensorMapType::U64 => Type::U64,
            TensorMapType::I64 => Type::I64,
            TensorMapType::F16 => Type::F16,
            TensorMapType::F32 => Type::F32,
            TensorMapType::F64 => Type::F64,
            TensorMapType::Bf16 => Type::Bf16,
            TensorMapType::F32Ftz => Type::F32Ftz,
            TensorMapType::Tf32 => Type::Tf32,
            TensorMapType::Tf32Ftz => Type::Tf32Ftz,
        },
        address,
        dims: desc.dims.clone(),
        strides_bytes: desc.strides_bytes.clone(),
        box_dims: desc.box_dims.clone(),
        element_strides: desc.element_strides.clone(),
        swizzle: match desc.swizzle {
            TensorMapSwizzle::None => Swizzle::None,
            TensorMapSwizzle::B32 => Swizzle::B32,
            TensorMapSwizzle::B64 => Swizzle::B64,
            TensorMapSwizzle::B128 => Swizzle::B128,
        },
        fill: match desc.fill {
            TensorMapFill::Zeros => Fill::Zeros,
            TensorMapFill::Nan => Fill::Nan,
        },
    };
    let encoded = match &desc.im2col {
        None => own.encode(),
        Some(im2col) => own.encode_im2col(&Im2col {
            lower_corner: im2col.lower_corner.clone(),
            upper_corner: im2col.upper_corner.clone(),
            channels_per_pixel: im2col.channels_per_pixel,
            pixels_per_column: im2col.pixels_per_column,
        }),
    };
    encoded.map_err(|_| Error::Bug("the emulator's rules for tensor maps are not the library's"))
}
