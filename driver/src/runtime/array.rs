//! Arrays, and copies from and to them.

use crate::api::array::{self, Array3dDesc};
use crate::c::{Address, Copy3d, Handle, In, Out, Side3d};
use crate::code::{Answer, Code};
use crate::state::{Array, current};

use super::copy::{ARRAY, UNIFIED, check_direction, copy, copy_shape};
use super::memory::Extent;
use super::{cu, ready, runtime};

/// `cudaChannelFormatDesc`: bits of each component, and their kind.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct ChannelDesc {
    bits: [i32; 4],
    kind: i32,
}

/// `cudaChannelFormatKindSigned` and so on.
const SIGNED: i32 = 0;
const UNSIGNED: i32 = 1;
const FLOAT: i32 = 2;

impl ChannelDesc {
    /// The format and the number of channels as the driver has them.
    pub(super) fn of_driver(self) -> Answer<(u32, u32)> {
        let bits = self.bits[0];
        let channels = self.bits.iter().take_while(|own| **own == bits).count();
        let format = match (self.kind, bits) {
            (UNSIGNED, 8) => 0x01,
            (UNSIGNED, 16) => 0x02,
            (UNSIGNED, 32) => 0x03,
            (SIGNED, 8) => 0x08,
            (SIGNED, 16) => 0x09,
            (SIGNED, 32) => 0x0a,
            (FLOAT, 16) => 0x10,
            (FLOAT, 32) => 0x20,
            _ => return Err(Code::INVALID_VALUE),
        };
        match self.bits[channels..].iter().all(|bits| *bits == 0) && channels != 3 {
            true => Ok((format, channels as u32)),
            false => Err(Code::INVALID_VALUE),
        }
    }

    /// The description of an array.
    fn of(desc: &Array3dDesc) -> Self {
        let (kind, size) = match desc.format {
            0x01 => (UNSIGNED, 8),
            0x02 => (UNSIGNED, 16),
            0x03 => (UNSIGNED, 32),
            0x08 => (SIGNED, 8),
            0x09 => (SIGNED, 16),
            0x0a => (SIGNED, 32),
            0x10 => (FLOAT, 16),
            _ => (FLOAT, 32),
        };
        let mut bits = [0; 4];
        bits[..desc.channels as usize].fill(size);
        Self { bits, kind }
    }
}

/// The array behind a handle.
pub(super) fn array(handle: Handle) -> Answer<Array> {
    ready()?;
    Ok(current()?.state().array(handle)?.clone())
}

fn create(place: Out<Handle>, desc: In<ChannelDesc>, extent: Extent, flags: u32) -> Answer {
    let (format, channels) = desc.get()?.of_driver()?;
    let desc = Array3dDesc {
        width: extent.width,
        height: extent.height,
        depth: extent.depth,
        format,
        channels,
        flags,
    };
    cu!(array::cuArray3DCreate_v2(place, In::from(&desc)))
}

/// One side of a copy in two dimensions.
#[derive(Clone, Copy)]
enum Side {
    /// Address and pitch.
    Linear(Address, usize),
    /// An array, and where in it: byte of the row, and row.
    Array(Handle, usize, usize),
}

impl Side {
    fn of_driver(self) -> Side3d {
        let mut side = Side3d {
            x_bytes: 0,
            y: 0,
            z: 0,
            level: 0,
            kind: UNIFIED,
            host: 0,
            device: 0,
            array: 0,
            reserved: 0,
            pitch: 0,
            height: 0,
        };
        match self {
            Self::Linear(address, pitch) => (side.device, side.pitch) = (address, pitch),
            Self::Array(array, x, y) => {
                (side.kind, side.array, side.x_bytes, side.y) = (ARRAY, array, x, y);
            }
        }
        side
    }
}

fn copy_2d(
    to: Side,
    from: Side,
    [width_bytes, height]: [usize; 2],
    kind: u32,
    stream: Option<Handle>,
) -> Answer {
    let address = |side| match side {
        Side::Linear(address, _) => Some(address),
        Side::Array(..) => None,
    };
    check_direction(address(to), address(from), kind)?;
    let shape = Copy3d {
        from: from.of_driver(),
        to: to.of_driver(),
        width_bytes,
        height,
        depth: 1,
    };
    copy_shape(shape, stream)
}

/// The address from which `bytes` bytes lie in an array, from a byte of a row on.
fn in_array(handle: Handle, x: usize, y: usize, bytes: usize) -> Answer<Address> {
    let pitch = array(handle)?.image.pitch as usize;
    let row = y.checked_mul(pitch).ok_or(Code::INVALID_VALUE)?;
    let offset = row.checked_add(x).ok_or(Code::INVALID_VALUE)?;
    array::address(handle, offset, bytes)
}

runtime! {
    fn cudaMallocArray(
        place: Out<Handle>, desc: In<ChannelDesc>, width: usize, height: usize, flags: u32,
    ) {
        create(place, desc, Extent { width, height, depth: 0 }, flags)
    }

    fn cudaMalloc3DArray(
        place: Out<Handle>, desc: In<ChannelDesc>, extent: Extent, flags: u32,
    ) {
        create(place, desc, extent, flags)
    }

    fn cudaFreeArray(array: Handle) {
        match array {
            0 => ready(),
            _ => cu!(array::cuArrayDestroy(array)),
        }
    }

    fn cudaGetChannelDesc(place: Out<ChannelDesc>, handle: Handle) {
        place.set(ChannelDesc::of(&array(handle)?.desc))
    }

    fn cudaArrayGetInfo(
        place: Out<ChannelDesc>, extent: Out<Extent>, flags: Out<u32>, handle: Handle,
    ) {
        let desc = array(handle)?.desc;
        let Array3dDesc { width, height, depth, .. } = desc;
        place.set_if_wanted(ChannelDesc::of(&desc));
        extent.set_if_wanted(Extent { width, height, depth });
        flags.set_if_wanted(desc.flags);
        Ok(())
    }

    fn cudaMemcpy2DToArray | cudaMemcpy2DToArray_ptds (
        array: Handle, x: usize, y: usize, from: Address, pitch: usize, width: usize,
        height: usize, kind: u32,
    ) {
        let (to, from) = (Side::Array(array, x, y), Side::Linear(from, pitch));
        copy_2d(to, from, [width, height], kind, None)
    }

    fn cudaMemcpy2DToArrayAsync | cudaMemcpy2DToArrayAsync_ptsz (
        array: Handle, x: usize, y: usize, from: Address, pitch: usize, width: usize,
        height: usize, kind: u32, stream: Handle,
    ) {
        let (to, from) = (Side::Array(array, x, y), Side::Linear(from, pitch));
        copy_2d(to, from, [width, height], kind, Some(stream))
    }

    fn cudaMemcpy2DFromArray | cudaMemcpy2DFromArray_ptds (
        to: Address, pitch: usize, array: Handle, x: usize, y: usize, width: usize,
        height: usize, kind: u32,
    ) {
        let (to, from) = (Side::Linear(to, pitch), Side::Array(array, x, y));
        copy_2d(to, from, [width, height], kind, None)
    }

    fn cudaMemcpy2DFromArrayAsync | cudaMemcpy2DFromArrayAsync_ptsz (
        to: Address, pitch: usize, array: Handle, x: usize, y: usize, width: usize,
        height: usize, kind: u32, stream: Handle,
    ) {
        let (to, from) = (Side::Linear(to, pitch), Side::Array(array, x, y));
        copy_2d(to, from, [width, height], kind, Some(stream))
    }

    fn cudaMemcpy2DArrayToArray | cudaMemcpy2DArrayToArray_ptds (
        to: Handle, to_x: usize, to_y: usize, from: Handle, from_x: usize, from_y: usize,
        width: usize, height: usize, kind: u32,
    ) {
        let (to, from) = (Side::Array(to, to_x, to_y), Side::Array(from, from_x, from_y));
        copy_2d(to, from, [width, height], kind, None)
    }

    fn cudaMemcpyToArray | cudaMemcpyToArray_ptds (
        array: Handle, x: usize, y: usize, from: Address, bytes: usize, kind: u32,
    ) {
        copy(in_array(array, x, y, bytes)?, from, bytes, kind, None)
    }

    fn cudaMemcpyToArrayAsync | cudaMemcpyToArrayAsync_ptsz (
        array: Handle, x: usize, y: usize, from: Address, bytes: usize, kind: u32,
        stream: Handle,
    ) {
        copy(in_array(array, x, y, bytes)?, from, bytes, kind, Some(stream))
    }

    fn cudaMemcpyFromArray | cudaMemcpyFromArray_ptds (
        to: Address, array: Handle, x: usize, y: usize, bytes: usize, kind: u32,
    ) {
        copy(to, in_array(array, x, y, bytes)?, bytes, kind, None)
    }

    fn cudaMemcpyFromArrayAsync | cudaMemcpyFromArrayAsync_ptsz (
        to: Address, array: Handle, x: usize, y: usize, bytes: usize, kind: u32, stream: Handle,
    ) {
        copy(to, in_array(array, x, y, bytes)?, bytes, kind, Some(stream))
    }

    fn cudaMemcpyArrayToArray | cudaMemcpyArrayToArray_ptds (
        to: Handle, to_x: usize, to_y: usize, from: Handle, from_x: usize, from_y: usize,
        bytes: usize, kind: u32,
    ) {
        let to = in_array(to, to_x, to_y, bytes)?;
        copy(to, in_array(from, from_x, from_y, bytes)?, bytes, kind, None)
    }
}

// SAFETY: the name is the API's, and no other item of the crate has it.
#[unsafe(no_mangle)]
extern "C" fn cudaCreateChannelDesc(x: i32, y: i32, z: i32, w: i32, kind: i32) -> ChannelDesc {
    ChannelDesc {
        bits: [x, y, z, w],
        kind,
    }
}
