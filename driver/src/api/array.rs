//! Arrays: images whose place in memory only the driver knows. They lie in rows without gaps.

use warpsmith_emulator::{Channel, IMAGE_EXTENT, ImageDesc, ImageKind};

use crate::c::{Address, Handle, In, Out, Side3d};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::report;
use crate::state::{Array, State, current};

use super::copy;
use super::memory::code_of;

/// `CUDA_ARRAY3D_LAYERED` and so on.
const LAYERED: u32 = 1;
const CUBEMAP: u32 = 4;
/// Flags that need no care: surface access, gathers, depth.
const OTHERS: u32 = 2 | 8 | 0x10;

/// `CUDA_ARRAY_DESCRIPTOR`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ArrayDesc {
    width: usize,
    height: usize,
    format: u32,
    channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Array3dDesc {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
    pub(crate) format: u32,
    pub(crate) channels: u32,
    pub(crate) flags: u32,
}

/// What a channel of a `CUarray_format` is.
pub(crate) fn channel(format: u32) -> Answer<Channel> {
    Ok(match format {
        0x01 => Channel::Unsigned(8),
        0x02 => Channel::Unsigned(16),
        0x03 => Channel::Unsigned(32),
        0x08 => Channel::Signed(8),
        0x09 => Channel::Signed(16),
        0x0a => Channel::Signed(32),
        0x10 => Channel::Half,
        0x20 => Channel::Float,
        _ => {
            report::unsupported("an array of this format");
            return Err(Code::NOT_SUPPORTED);
        }
    })
}

/// The image of a new array, but for its address.
fn image(desc: &Array3dDesc) -> Answer<ImageDesc> {
    if desc.flags & !(LAYERED | CUBEMAP | OTHERS) != 0 {
        report::unsupported("an array with these flags");
        return Err(Code::NOT_SUPPORTED);
    }
    let extent = |extent: usize| match u32::try_from(extent) {
        Ok(extent) if extent <= IMAGE_EXTENT => Ok(extent),
        _ => Err(Code::INVALID_VALUE),
    };
    let [width, height, depth] = [
        extent(desc.width)?,
        extent(desc.height)?,
        extent(desc.depth)?,
    ];
    let is_cube = desc.flags & CUBEMAP != 0;
    if desc.width == 0
        || !matches!(desc.channels, 1 | 2 | 4)
        || is_cube && (width != height || !depth.is_multiple_of(6))
    {
        return Err(Code::INVALID_VALUE);
    }
    let kind = match desc.flags & (LAYERED | CUBEMAP) {
        0 => ImageKind::Single,
        LAYERED => ImageKind::Layers(depth),
        _ => ImageKind::Cubes(depth),
    };
    let mut image = ImageDesc {
        address: 0,
        channel: channel(desc.format)?,
        channels: desc.channels,
        extent: match kind {
            ImageKind::Single => [width, height, depth],
            _ => [width, height, 0],
        },
        pitch: 0,
        slice: 0,
        kind,
    };
    image.pitch = u64::from(width) * u64::from(image.texel());
    image.slice = image.pitch * u64::from(height.max(1));
    Ok(image)
}

fn create(place: Out<Handle>, desc: Array3dDesc) -> Answer {
    let current = current()?;
    let mut image = image(&desc)?;
    current.state().check_unsafe()?;
    let slices = desc.depth.max(1) as u64;
    let bytes = image.slice.checked_mul(slices).ok_or(Code::OUT_OF_MEMORY)?;
    let allocated = current.driver.emulator.alloc(bytes);
    image.address = allocated.map_err(|error| code_of(&error))?;
    let mut state = current.state();
    let handle = state.new_handle();
    let context = current.context;
    let array = Array {
        context,
        desc,
        image,
        bytes,
    };
    state.arrays.insert(handle, array);
    place.set(handle)
}

/// A side of a copy that is an array, as the memory that it lies in.
pub(super) fn resolved(
    state: &State,
    side: Side3d,
    [width, height, depth]: [usize; 3],
) -> Answer<Side3d> {
    let array = state.array(side.array)?;
    let [rows, slices] = [array.desc.height.max(1), array.desc.depth.max(1)];
    let fits =
        |from: usize, len: usize, most: usize| from.checked_add(len).is_some_and(|end| end <= most);
    if !fits(side.x_bytes, width, array.image.pitch as usize)
        || !fits(side.y, height, rows)
        || !fits(side.z, depth, slices)
    {
        return Err(Code::INVALID_VALUE);
    }
    Ok(Side3d {
        kind: copy::DEVICE,
        device: array.image.address,
        array: 0,
        pitch: array.image.pitch as usize,
        height: rows,
        ..side
    })
}

/// The address of bytes of an array.
pub(crate) fn address(array: Handle, offset: usize, len: usize) -> Answer<Address> {
    let current = current()?;
    let state = current.state();
    let array = state.array(array)?;
    match offset.checked_add(len) {
        Some(end) if end as u64 <= array.bytes => Ok(array.image.address + offset as u64),
        _ => Err(Code::INVALID_VALUE),
    }
}

fn descriptor(array: Handle) -> Answer<Array3dDesc> {
    Ok(current()?.state().array(array)?.desc)
}

entries! {
    fn cuArrayCreate_v2: "cuArrayCreate" @ 3020 (place: Out<Handle>, desc: In<ArrayDesc>) {
        let ArrayDesc { width, height, format, channels } = desc.get()?;
        create(place, Array3dDesc { width, height, depth: 0, format, channels, flags: 0 })
    }

    fn cuArray3DCreate_v2: "cuArray3DCreate" @ 3020 (
        place: Out<Handle>, desc: In<Array3dDesc>,
    ) {
        create(place, desc.get()?)
    }

    fn cuArrayGetDescriptor_v2: "cuArrayGetDescriptor" @ 3020 (
        place: Out<ArrayDesc>, array: Handle,
    ) {
        let Array3dDesc { width, height, format, channels, .. } = descriptor(array)?;
        place.set(ArrayDesc { width, height, format, channels })
    }

    fn cuArray3DGetDescriptor_v2: "cuArray3DGetDescriptor" @ 3020 (
        place: Out<Array3dDesc>, array: Handle,
    ) {
        place.set(descriptor(array)?)
    }

    fn cuArrayDestroy: "cuArrayDestroy" @ 2000 (array: Handle) {
        let current = current()?;
        current.state().check_unsafe()?;
        current.driver.in_turn(|| {
            current.driver.order().host_after_all(current.context);
            let removed = current.state().arrays.remove(&array);
            let image = removed.ok_or(Code::INVALID_HANDLE)?.image;
            let freed = current.driver.emulator.free(image.address);
            freed.map_err(|error| code_of(&error))
        })
    }

    fn cuMemcpyHtoA_v2 | cuMemcpyHtoA_v2_ptds: "cuMemcpyHtoA" @ 3020 (
        array: Handle, offset: usize, from: Address, len: usize,
    ) {
        copy::copy_now(address(array, offset, len)?, from, len)
    }

    fn cuMemcpyAtoH_v2 | cuMemcpyAtoH_v2_ptds: "cuMemcpyAtoH" @ 3020 (
        to: Address, array: Handle, offset: usize, len: usize,
    ) {
        copy::copy_now(to, address(array, offset, len)?, len)
    }

    fn cuMemcpyHtoAAsync_v2 | cuMemcpyHtoAAsync_v2_ptsz: "cuMemcpyHtoAAsync" @ 3020 (
        array: Handle, offset: usize, from: Address, len: usize, stream: Handle,
    ) {
        copy::copy_on(stream, address(array, offset, len)?, from, len)
    }

    fn cuMemcpyAtoHAsync_v2 | cuMemcpyAtoHAsync_v2_ptsz: "cuMemcpyAtoHAsync" @ 3020 (
        to: Address, array: Handle, offset: usize, len: usize, stream: Handle,
    ) {
        copy::copy_on(stream, to, address(array, offset, len)?, len)
    }

    fn cuMemcpyDtoA_v2 | cuMemcpyDtoA_v2_ptds: "cuMemcpyDtoA" @ 3020 (
        array: Handle, offset: usize, from: Address, len: usize,
    ) {
        copy::copy_now(address(array, offset, len)?, from, len)
    }

    fn cuMemcpyAtoD_v2 | cuMemcpyAtoD_v2_ptds: "cuMemcpyAtoD" @ 3020 (
        to: Address, array: Handle, offset: usize, len: usize,
    ) {
        copy::copy_now(to, address(array, offset, len)?, len)
    }

    fn cuMemcpyAtoA_v2 | cuMemcpyAtoA_v2_ptds: "cuMemcpyAtoA" @ 3020 (
        to: Handle, to_offset: usize, from: Handle, from_offset: usize, len: usize,
    ) {
        copy::copy_now(address(to, to_offset, len)?, address(from, from_offset, len)?, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<ArrayDesc>(), 24);
        assert_eq!(size_of::<Array3dDesc>(), 40);
    }
}
