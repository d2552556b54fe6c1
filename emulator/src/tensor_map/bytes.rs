//! The layout of the 128 bytes, little-endian. They begin with a magic number that no address or
//! size can be. So a copy through other bytes is detected.

use super::{
    Fill, Im2col, Swizzle, TENSOR_MAP_BYTES, TENSOR_MAP_RANK, TensorMapDesc, TensorMapError,
    TensorMapType,
};

/// The magic number: the first eight bytes of every map.
const MAGIC: u64 = 0xf1a7_7e50_12b0_c0de;
/// Rank, type, swizzle, fill, and whether it is an im2col map.
const HEAD: usize = 8;
const ADDRESS: usize = 16;
/// One u64 for each dimension.
const DIMS: usize = 24;
/// Eight bytes for each dimension but the innermost. [`TensorMapDesc`] allows 40 bits;
/// `tensormap.replace` may put anything here.
const STRIDES: usize = 64;
/// One u16 for each dimension; for an im2col map: channels as u16, then pixels as u32.
const BOX: usize = 96;
/// One byte for each dimension.
const ELEMENT_STRIDES: usize = 106;
/// Bounding box corners of an im2col map, one i16 for each spatial dimension.
const LOWER: usize = 112;
const UPPER: usize = 118;

pub(super) fn encode(desc: &TensorMapDesc, im2col: Option<&Im2col>) -> [u8; TENSOR_MAP_BYTES] {
    let mut map = [0; TENSOR_MAP_BYTES];
    let mut put = |at: usize, bytes: &[u8]| map[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &MAGIC.to_le_bytes());
    let head = [
        desc.dims.len() as u8,
        desc.data_type as u8,
        desc.swizzle as u8,
        desc.fill as u8,
        u8::from(im2col.is_some()),
    ];
    put(HEAD, &head);
    put(ADDRESS, &desc.address.to_le_bytes());
    for (axis, dim) in desc.dims.iter().enumerate() {
        put(DIMS + 8 * axis, &dim.to_le_bytes());
    }
    for (axis, stride) in desc.strides_bytes.iter().enumerate() {
        put(STRIDES + 8 * axis, &stride.to_le_bytes());
    }
    for (axis, stride) in desc.element_strides.iter().enumerate() {
        put(ELEMENT_STRIDES + axis, &[*stride as u8]);
    }
    let Some(im2col) = im2col else {
        for (axis, extent) in desc.box_dims.iter().enumerate() {
            put(BOX + 2 * axis, &(*extent as u16).to_le_bytes());
        }
        return map;
    };
    put(BOX, &(im2col.channels_per_pixel as u16).to_le_bytes());
    put(BOX + 2, &im2col.pixels_per_column.to_le_bytes());
    for (at, corner) in [(LOWER, &im2col.lower_corner), (UPPER, &im2col.upper_corner)] {
        for (axis, place) in corner.iter().enumerate() {
            put(at + 2 * axis, &(*place as i16).to_le_bytes());
        }
    }
    map
}

pub(super) fn decode(
    map: &[u8; TENSOR_MAP_BYTES],
) -> Result<(TensorMapDesc, Option<Im2col>), TensorMapError> {
    let u64_at = |at| u64::from_le_bytes(part(map, at));
    let u16_at = |at| u16::from_le_bytes(part(map, at));
    let [rank, data_type, swizzle, fill, is_im2col] = part(map, HEAD);
    let rank = usize::from(rank);
    let known = (
        TensorMapType::ALL.get(usize::from(data_type)),
        Swizzle::ALL.get(usize::from(swizzle)),
        [Fill::Zeros, Fill::Nan].get(usize::from(fill)),
    );
    let (Some(&data_type), Some(&swizzle), Some(&fill)) = known else {
        return Err(TensorMapError::NotAMap);
    };
    if u64_at(0) != MAGIC || !(1..=TENSOR_MAP_RANK).contains(&rank) {
        return Err(TensorMapError::NotAMap);
    }
    let box_dims = |axis| u32::from(u16_at(BOX + 2 * axis));
    let corner = |at: usize| {
        let places = 0..rank.saturating_sub(2);
        let place = |axis| i32::from(i16::from_le_bytes(part(map, at + 2 * axis)));
        places.map(place).collect()
    };
    let im2col = (is_im2col != 0).then(|| Im2col {
        lower_corner: corner(LOWER),
        upper_corner: corner(UPPER),
        channels_per_pixel: u32::from(u16_at(BOX)),
        pixels_per_column: u32::from_le_bytes(part(map, BOX + 2)),
    });
    let desc = TensorMapDesc {
        data_type,
        address: u64_at(ADDRESS),
        dims: (0..rank).map(|axis| u64_at(DIMS + 8 * axis)).collect(),
        strides_bytes: (1..rank)
            .map(|axis| u64_at(STRIDES - 8 + 8 * axis))
            .collect(),
        box_dims: match im2col {
            Some(_) => Vec::new(),
            None => (0..rank).map(box_dims).collect(),
        },
        element_strides: (0..rank)
            .map(|axis| u32::from(map[ELEMENT_STRIDES + axis]))
            .collect(),
        swizzle,
        fill,
    };
    Ok((desc, im2col))
}

fn part<const N: usize>(map: &[u8; TENSOR_MAP_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|i| map[at + i])
}
