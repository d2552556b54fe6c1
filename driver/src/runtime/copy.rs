//! Copies and fills.

use crate::c::{Address, Copy3d, Device, Handle, In, Side3d};
use crate::code::{Answer, Code};
use crate::state::{DEVICE_ADDRESSES, driver};

use super::error::{INVALID_DIRECTION, INVALID_PITCH};
use super::memory::{Extent, PitchedPointer};
use super::registry::variable;
use super::{cu, ready, runtime};

/// `cudaMemcpyHostToHost` and so on.
const HOST_TO_HOST: u32 = 0;
const HOST_TO_DEVICE: u32 = 1;
const DEVICE_TO_HOST: u32 = 2;
const DEVICE_TO_DEVICE: u32 = 3;
const BY_ADDRESS: u32 = 4;

/// `CU_MEMORYTYPE_UNIFIED`
pub(super) const UNIFIED: u32 = 4;
/// `CU_MEMORYTYPE_ARRAY`
pub(super) const ARRAY: u32 = 3;

/// `cudaPos`
#[derive(Clone, Copy)]
#[repr(C)]
struct Position {
    x: usize,
    y: usize,
    z: usize,
}

/// `cudaMemcpy3DParms`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Parameters3d {
    from: Side,
    to: Side,
    extent: Extent,
    kind: u32,
}

/// One side of [`Parameters3d`].
#[derive(Clone, Copy)]
#[repr(C)]
struct Side {
    array: Handle,
    at: Position,
    linear: PitchedPointer,
}

/// Checks that each side is where the direction says. Memory of the host that kernels can use is
/// on both.
pub(super) fn check(to: Address, from: Address, kind: u32) -> Answer {
    check_direction(Some(to), Some(from), kind)
}

/// The same for sides of which some are arrays, which have no address.
pub(super) fn check_direction(to: Option<Address>, from: Option<Address>, kind: u32) -> Answer {
    ready()?;
    let [to_device, from_device] = match kind {
        HOST_TO_HOST => [false, false],
        HOST_TO_DEVICE => [true, false],
        DEVICE_TO_HOST => [false, true],
        DEVICE_TO_DEVICE => [true, true],
        BY_ADDRESS => return Ok(()),
        _ => return Err(INVALID_DIRECTION),
    };
    let state = driver()?.state();
    let fits = |address: Option<Address>, device: bool| {
        address.map_or(device, |address| {
            DEVICE_ADDRESSES.contains(&address) == device || state.range_at(address).is_some()
        })
    };
    match fits(to, to_device) && fits(from, from_device) {
        true => Ok(()),
        false => Err(Code::INVALID_VALUE),
    }
}

/// Copies on a stream; on none, the call waits for it.
pub(super) fn copy(
    to: Address,
    from: Address,
    bytes: usize,
    kind: u32,
    stream: Option<Handle>,
) -> Answer {
    if bytes == 0 {
        return ready();
    }
    check(to, from, kind)?;
    match stream {
        Some(stream) => cu!(copy::cuMemcpyAsync(to, from, bytes, stream)),
        None => cu!(copy::cuMemcpy(to, from, bytes)),
    }
}

/// A side of a copy in three dimensions.
fn side(side: Side) -> Answer<Side3d> {
    let Side { array, at, linear } = side;
    let (kind, unit) = match array {
        0 => (UNIFIED, 1),
        _ => (ARRAY, texel(array)?),
    };
    Ok(Side3d {
        x_bytes: at.x.checked_mul(unit).ok_or(Code::INVALID_VALUE)?,
        y: at.y,
        z: at.z,
        level: 0,
        kind,
        host: 0,
        device: linear.address,
        array,
        reserved: 0,
        pitch: linear.pitch,
        height: linear.height,
    })
}

/// Bytes of an element of an array.
fn texel(array: Handle) -> Answer<usize> {
    Ok(super::array::array(array)?.image.texel() as usize)
}

/// The shape of a copy as the driver has it.
pub(super) fn driver_shape(shape: Parameters3d) -> Answer<Copy3d> {
    let [to, from] =
        [shape.to, shape.from].map(|side| (side.array == 0).then_some(side.linear.address));
    check_direction(to, from, shape.kind)?;
    let array = [shape.to, shape.from]
        .into_iter()
        .find(|side| side.array != 0);
    // If there is an array, the extent counts its elements.
    let unit = array.map_or(Ok(1), |side| texel(side.array))?;
    let width = shape.extent.width.checked_mul(unit);
    Ok(Copy3d {
        from: side(shape.from)?,
        to: side(shape.to)?,
        width_bytes: width.ok_or(Code::INVALID_VALUE)?,
        height: shape.extent.height,
        depth: shape.extent.depth,
    })
}

fn copy_3d(shape: Parameters3d, stream: Option<Handle>) -> Answer {
    copy_shape(driver_shape(shape)?, stream)
}

/// Copies as the driver has it.
pub(super) fn copy_shape(shape: Copy3d, stream: Option<Handle>) -> Answer {
    match stream {
        Some(stream) => cu!(copy::cuMemcpy3DAsync_v2(In::from(&shape), stream)),
        None => cu!(copy::cuMemcpy3D_v2(In::from(&shape))),
    }
}

impl Parameters3d {
    /// A copy between the beginnings of two places.
    pub(super) fn new(to: PitchedPointer, from: PitchedPointer, extent: Extent, kind: u32) -> Self {
        let side = |linear| Side {
            array: 0,
            at: Position { x: 0, y: 0, z: 0 },
            linear,
        };
        Self {
            from: side(from),
            to: side(to),
            extent,
            kind,
        }
    }
}

/// A copy of rows: address and pitch of each side.
fn copy_2d(
    to: (Address, usize),
    from: (Address, usize),
    [width, height]: [usize; 2],
    kind: u32,
    stream: Option<Handle>,
) -> Answer {
    if width > to.1 || width > from.1 {
        return Err(INVALID_PITCH);
    }
    let side = |(address, pitch)| PitchedPointer {
        address,
        pitch,
        width,
        height,
    };
    let extent = Extent {
        width,
        height,
        depth: 1,
    };
    copy_3d(
        Parameters3d::new(side(to), side(from), extent, kind),
        stream,
    )
}

/// The address in a variable from which `bytes` bytes lie in it.
fn in_variable(shadow: usize, offset: usize, bytes: usize) -> Answer<Address> {
    let (address, size) = variable(shadow)?;
    match offset.checked_add(bytes).is_some_and(|end| end <= size) {
        true => Ok(address + offset as u64),
        false => Err(Code::INVALID_VALUE),
    }
}

fn fill_3d(to: PitchedPointer, value: i32, extent: Extent, stream: Handle) -> Answer {
    let slice = to.pitch.checked_mul(to.height).ok_or(Code::INVALID_VALUE)?;
    let all = slice.checked_mul(extent.depth).ok_or(Code::INVALID_VALUE)?;
    to.address
        .checked_add(all as u64)
        .ok_or(Code::INVALID_VALUE)?;
    if extent.width == 0 || extent.height == 0 || slice == 0 {
        return ready();
    }
    (0..extent.depth).try_for_each(|z| {
        let first = to.address + (z * slice) as u64;
        let Extent { width, height, .. } = extent;
        cu!(copy::cuMemsetD2D8Async(
            first,
            to.pitch,
            value as u8,
            width,
            height,
            stream
        ))
    })
}

runtime! {
    fn cudaMemcpy | cudaMemcpy_ptds (to: Address, from: Address, bytes: usize, kind: u32) {
        copy(to, from, bytes, kind, None)
    }

    fn cudaMemcpyAsync | cudaMemcpyAsync_ptsz (
        to: Address, from: Address, bytes: usize, kind: u32, stream: Handle,
    ) {
        copy(to, from, bytes, kind, Some(stream))
    }

    fn cudaMemcpyPeer(
        to: Address, _to_device: Device, from: Address, _from_device: Device, bytes: usize,
    ) {
        copy(to, from, bytes, BY_ADDRESS, None)
    }

    fn cudaMemcpyPeerAsync(
        to: Address, _to_device: Device, from: Address, _from_device: Device, bytes: usize,
        stream: Handle,
    ) {
        copy(to, from, bytes, BY_ADDRESS, Some(stream))
    }

    fn cudaMemcpy2D | cudaMemcpy2D_ptds (
        to: Address, to_pitch: usize, from: Address, from_pitch: usize, width: usize,
        height: usize, kind: u32,
    ) {
        copy_2d((to, to_pitch), (from, from_pitch), [width, height], kind, None)
    }

    fn cudaMemcpy2DAsync | cudaMemcpy2DAsync_ptsz (
        to: Address, to_pitch: usize, from: Address, from_pitch: usize, width: usize,
        height: usize, kind: u32, stream: Handle,
    ) {
        copy_2d((to, to_pitch), (from, from_pitch), [width, height], kind, Some(stream))
    }

    fn cudaMemcpy3D | cudaMemcpy3D_ptds (shape: In<Parameters3d>) {
        copy_3d(shape.get()?, None)
    }

    fn cudaMemcpy3DAsync | cudaMemcpy3DAsync_ptsz (shape: In<Parameters3d>, stream: Handle) {
        copy_3d(shape.get()?, Some(stream))
    }

    fn cudaMemcpyToSymbol | cudaMemcpyToSymbol_ptds (
        shadow: usize, from: Address, bytes: usize, offset: usize, kind: u32,
    ) {
        copy(in_variable(shadow, offset, bytes)?, from, bytes, kind, None)
    }

    fn cudaMemcpyToSymbolAsync | cudaMemcpyToSymbolAsync_ptsz (
        shadow: usize, from: Address, bytes: usize, offset: usize, kind: u32, stream: Handle,
    ) {
        copy(in_variable(shadow, offset, bytes)?, from, bytes, kind, Some(stream))
    }

    fn cudaMemcpyFromSymbol | cudaMemcpyFromSymbol_ptds (
        to: Address, shadow: usize, bytes: usize, offset: usize, kind: u32,
    ) {
        copy(to, in_variable(shadow, offset, bytes)?, bytes, kind, None)
    }

    fn cudaMemcpyFromSymbolAsync | cudaMemcpyFromSymbolAsync_ptsz (
        to: Address, shadow: usize, bytes: usize, offset: usize, kind: u32, stream: Handle,
    ) {
        copy(to, in_variable(shadow, offset, bytes)?, bytes, kind, Some(stream))
    }

    fn cudaMemset | cudaMemset_ptds (to: Address, value: i32, bytes: usize) {
        cu!(copy::cuMemsetD8_v2(to, value as u8, bytes))
    }

    fn cudaMemsetAsync | cudaMemsetAsync_ptsz (
        to: Address, value: i32, bytes: usize, stream: Handle,
    ) {
        cu!(copy::cuMemsetD8Async(to, value as u8, bytes, stream))
    }

    fn cudaMemset2D | cudaMemset2D_ptds (
        to: Address, pitch: usize, value: i32, width: usize, height: usize,
    ) {
        cu!(copy::cuMemsetD2D8_v2(to, pitch, value as u8, width, height))
    }

    fn cudaMemset2DAsync | cudaMemset2DAsync_ptsz (
        to: Address, pitch: usize, value: i32, width: usize, height: usize, stream: Handle,
    ) {
        cu!(copy::cuMemsetD2D8Async(to, pitch, value as u8, width, height, stream))
    }

    fn cudaMemset3D | cudaMemset3D_ptds (to: PitchedPointer, value: i32, extent: Extent) {
        fill_3d(to, value, extent, 0)
    }

    fn cudaMemset3DAsync | cudaMemset3DAsync_ptsz (
        to: PitchedPointer, value: i32, extent: Extent, stream: Handle,
    ) {
        fill_3d(to, value, extent, stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<Parameters3d>(), 160);
    }
}
