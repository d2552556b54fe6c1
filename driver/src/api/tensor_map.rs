//! Tensor maps, in the emulator's encoding.

use warpsmith_emulator::{
    Fill, Im2col, Swizzle, TENSOR_MAP_BYTES, TENSOR_MAP_RANK, TensorMapDesc, TensorMapError,
    TensorMapType,
};

use crate::c::{Address, In, InOut, Out};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::report;
use crate::state::driver;

/// An encoded map.
type Map = [u8; TENSOR_MAP_BYTES];

/// The arguments that maps of both kinds have.
struct Common {
    data_type: u32,
    rank: u32,
    address: Address,
    dims: In<u64>,
    strides: In<u64>,
    element_strides: In<u32>,
    interleave: u32,
    swizzle: u32,
    fill: u32,
}

impl Common {
    /// The map without its box.
    fn desc(self) -> Answer<TensorMapDesc> {
        let rank = self.rank as usize;
        if rank == 0 || rank > TENSOR_MAP_RANK {
            return Err(Code::INVALID_VALUE);
        }
        let data_type = TensorMapType::ALL.get(self.data_type as usize).copied();
        let swizzle = Swizzle::ALL.get(self.swizzle as usize).copied();
        let (0, Some(data_type), Some(swizzle)) = (self.interleave, data_type, swizzle) else {
            report::unsupported("a tensor map with interleave, or of a type of Blackwell");
            return Err(Code::NOT_SUPPORTED);
        };
        Ok(TensorMapDesc {
            data_type,
            address: self.address,
            dims: self.dims.list(rank)?,
            strides_bytes: self.strides.list(rank - 1)?,
            box_dims: Vec::new(),
            element_strides: self.element_strides.list(rank)?,
            swizzle,
            fill: match self.fill {
                0 => Fill::Zeros,
                1 => Fill::Nan,
                _ => return Err(Code::INVALID_VALUE),
            },
        })
    }
}

/// Answers with an encoded map, or says which rule it breaks.
fn answer(place: Out<Map>, encoded: Result<Map, TensorMapError>) -> Answer {
    let map = encoded.map_err(|error| {
        report::note(format_args!("tensor map: {error}"));
        Code::INVALID_VALUE
    })?;
    place.set(map)
}

entries! {
    fn cuTensorMapEncodeTiled: "cuTensorMapEncodeTiled" @ 12000 (
        place: Out<Map>, data_type: u32, rank: u32, address: Address, dims: In<u64>,
        strides: In<u64>, box_dims: In<u32>, element_strides: In<u32>, interleave: u32,
        swizzle: u32, _promotion: u32, fill: u32,
    ) {
        driver()?;
        let common = Common {
            data_type, rank, address, dims, strides, element_strides, interleave, swizzle, fill,
        };
        let mut desc = common.desc()?;
        desc.box_dims = box_dims.list(rank as usize)?;
        answer(place, desc.encode())
    }

    fn cuTensorMapEncodeIm2col: "cuTensorMapEncodeIm2col" @ 12000 (
        place: Out<Map>, data_type: u32, rank: u32, address: Address, dims: In<u64>,
        strides: In<u64>, lower: In<i32>, upper: In<i32>, channels: u32, pixels: u32,
        element_strides: In<u32>, interleave: u32, swizzle: u32, _promotion: u32, fill: u32,
    ) {
        driver()?;
        let common = Common {
            data_type, rank, address, dims, strides, element_strides, interleave, swizzle, fill,
        };
        let desc = common.desc()?;
        let between = (rank as usize).checked_sub(2).ok_or(Code::INVALID_VALUE)?;
        let im2col = Im2col {
            lower_corner: lower.list(between)?,
            upper_corner: upper.list(between)?,
            channels_per_pixel: channels,
            pixels_per_column: pixels,
        };
        answer(place, desc.encode_im2col(&im2col))
    }

    fn cuTensorMapReplaceAddress: "cuTensorMapReplaceAddress" @ 12000 (
        map: InOut<Map>, address: Address,
    ) {
        driver()?;
        let (mut desc, im2col) =
            TensorMapDesc::decode(&map.at(0)?).map_err(|_| Code::INVALID_VALUE)?;
        desc.address = address;
        let encoded = match im2col {
            Some(im2col) => desc.encode_im2col(&im2col),
            None => desc.encode(),
        };
        map.set_at(0, encoded.map_err(|_| Code::INVALID_VALUE)?)
    }
}
