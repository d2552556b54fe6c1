//! Encodes tensor maps with the driver's encoder.

use super::driver::{cu, driver};
use crate::device::DeviceInfo;
use crate::error::{Error, Result};
use crate::tensor_map::{
    L2Promotion, TensorMap, TensorMapDesc, TensorMapFill, TensorMapSwizzle, TensorMapType,
};
use cudarc::driver::sys::{
    CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle,
};

/// First version of CUDA whose driver encodes tensor maps.
const DRIVER_VERSION: i32 = 12_000;

/// Encodes a map that has been checked against the rules.
pub(super) fn encode(
    info: &DeviceInfo,
    address: u64,
    desc: &TensorMapDesc,
) -> Result<[u8; TensorMap::BYTES]> {
    if info.arch < (9, 0) || driver()?.version < DRIVER_VERSION {
        return Err(Error::unsupported(
            format!("a tensor map on {info}"),
            "GPUs of compute capability 9.0 and later with a driver for CUDA 12",
        ));
    }
    let mut map = CUtensorMap { opaque: [0; 16] };
    let rank = desc.dims.len() as u32;
    let data_type = data_type(desc.data_type);
    let swizzle = swizzle(desc.swizzle);
    let promotion = promotion(desc.l2_promotion);
    let fill = match desc.fill {
        TensorMapFill::Zeros => CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        TensorMapFill::Nan => {
            CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
        }
    };
    let interleave = CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE;
    match &desc.im2col {
        // SAFETY: by the rules, the lists have as many values as the rank requires; the driver
        // accesses no byte of the tensor.
        None => unsafe {
            cu!(cuTensorMapEncodeTiled(
                &raw mut map,
                data_type,
                rank,
                address as *mut _,
                desc.dims.as_ptr(),
                desc.strides_bytes.as_ptr(),
                desc.box_dims.as_ptr(),
                desc.element_strides.as_ptr(),
                interleave,
                swizzle,
                promotion,
                fill,
            ))
        },
        // SAFETY: as above.
        Some(im2col) => unsafe {
            cu!(cuTensorMapEncodeIm2col(
                &raw mut map,
                data_type,
                rank,
                address as *mut _,
                desc.dims.as_ptr(),
                desc.strides_bytes.as_ptr(),
                im2col.lower_corner.as_ptr(),
                im2col.upper_corner.as_ptr(),
                im2col.channels_per_pixel,
                im2col.pixels_per_column,
                desc.element_strides.as_ptr(),
                interleave,
                swizzle,
                promotion,
                fill,
            ))
        },
    }?;
    let mut bytes = [0; TensorMap::BYTES];
    for (to, from) in bytes.chunks_exact_mut(8).zip(map.opaque) {
        to.copy_from_slice(&from.to_ne_bytes());
    }
    Ok(bytes)
}

fn data_type(data_type: TensorMapType) -> CUtensorMapDataType {
    use CUtensorMapDataType as D;
    match data_type {
        TensorMapType::U8 => D::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        TensorMapType::U16 => D::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        TensorMapType::U32 => D::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        TensorMapType::I32 => D::CU_TENSOR_MAP_DATA_TYPE_INT32,
        TensorMapType::U64 => D::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        TensorMapType::I64 => D::CU_TENSOR_MAP_DATA_TYPE_INT64,
        TensorMapType::F16 => D::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        TensorMapType::F32 => D::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        TensorMapType::F64 => D::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        TensorMapType::Bf16 => D::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        TensorMapType::F32Ftz => D::CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
        TensorMapType::Tf32 => D::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
        TensorMapType::Tf32Ftz => D::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ,
    }
}

fn swizzle(swizzle: TensorMapSwizzle) -> CUtensorMapSwizzle {
    use CUtensorMapSwizzle as S;
    match swizzle {
        TensorMapSwizzle::None => S::CU_TENSOR_MAP_SWIZZLE_NONE,
        TensorMapSwizzle::B32 => S::CU_TENSOR_MAP_SWIZZLE_32B,
        TensorMapSwizzle::B64 => S::CU_TENSOR_MAP_SWIZZLE_64B,
        TensorMapSwizzle::B128 => S::CU_TENSOR_MAP_SWIZZLE_128B,
    }
}

fn promotion(promotion: L2Promotion) -> CUtensorMapL2promotion {
    use CUtensorMapL2promotion as P;
    match promotion {
        L2Promotion::None => P::CU_TENSOR_MAP_L2_PROMOTION_NONE,
        L2Promotion::B64 => P::CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
        L2Promotion::B128 => P::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        L2Promotion::B256 => P::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
    }
}
