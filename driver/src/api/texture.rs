//! Texture and surface objects.

use warpsmith_emulator::{AddressMode, Channel, ImageDesc, ImageError, ImageKind, TextureDesc};

use crate::c::{Address, Data, Handle, In, Out};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::report;
use crate::state::{Current, Object, current};

use super::array::channel;

/// `CU_RESOURCE_TYPE_ARRAY` and so on.
pub(crate) const ARRAY: u32 = 0;
pub(crate) const LINEAR: u32 = 2;
pub(crate) const PITCHED: u32 = 3;

/// `CU_TRSF_READ_AS_INTEGER` and so on.
pub(crate) const READ_AS_INTEGER: u32 = 1;
pub(crate) const NORMALIZED: u32 = 2;
pub(crate) const SRGB: u32 = 0x10;
/// Flags for what images without levels and edges between faces do not have.
pub(crate) const OTHERS: u32 = 0x20 | 0x40;

/// `CUDA_RESOURCE_DESC`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ResourceDesc {
    pub(crate) kind: u32,
    pub(crate) resource: Resource,
    pub(crate) flags: u32,
}

/// Its union, all of whose members begin with a pointer.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Resource {
    /// The array, or the address of linear memory.
    pub(crate) pointer: u64,
    pub(crate) format: u32,
    pub(crate) channels: u32,
    /// Bytes of linear memory, or the width in texels.
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) pitch: usize,
    pub(crate) rest: [u64; 11],
}

/// `CUDA_TEXTURE_DESC`
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct SamplingDesc {
    pub(crate) modes: [u32; 3],
    pub(crate) filter: u32,
    pub(crate) flags: u32,
    pub(crate) anisotropy: u32,
    pub(crate) level_filter: u32,
    pub(crate) levels: [f32; 3],
    pub(crate) border: [f32; 4],
    pub(crate) reserved: [i32; 12],
}

/// The image of a resource.
fn image(current: Current, desc: &ResourceDesc) -> Answer<ImageDesc> {
    let Resource {
        pointer,
        format,
        channels,
        width,
        height,
        pitch,
        ..
    } = desc.resource;
    let linear = |width: usize, height: usize, pitch: usize, kind| {
        let extent = |extent: usize| u32::try_from(extent).map_err(|_| Code::INVALID_VALUE);
        Ok(ImageDesc {
            address: pointer as Address,
            channel: channel(format)?,
            channels,
            extent: [extent(width)?, extent(height)?, 0],
            pitch: pitch as u64,
            slice: 0,
            kind,
        })
    };
    match desc.kind {
        ARRAY => Ok(current.state().array(pointer as Handle)?.image),
        LINEAR => {
            let texel = channels as usize * channel(format)?.bits() as usize / 8;
            let texels = width.checked_div(texel).ok_or(Code::INVALID_VALUE)?;
            linear(texels, 0, 0, ImageKind::Linear)
        }
        PITCHED => linear(width, height, pitch, ImageKind::Single),
        _ => {
            report::unsupported("a texture of an array with levels");
            Err(Code::NOT_SUPPORTED)
        }
    }
}

fn mode(number: u32) -> Answer<AddressMode> {
    Ok(match number {
        0 => AddressMode::Wrap,
        1 => AddressMode::Clamp,
        2 => AddressMode::Mirror,
        3 => AddressMode::Border,
        _ => return Err(Code::INVALID_VALUE),
    })
}

/// What the emulator says of an object.
fn created(handle: Result<u64, ImageError>) -> Answer<u64> {
    handle.map_err(|error| {
        report::note(format_args!("texture or surface: {error}"));
        Code::INVALID_VALUE
    })
}

fn create(
    place: Out<u64>,
    resource: In<ResourceDesc>,
    sampling: In<SamplingDesc>,
    view: Data,
) -> Answer {
    let current = current()?;
    let (desc, sampling) = (resource.get()?, sampling.get()?);
    let flags = sampling.flags;
    if !view.is_null() || flags & !(READ_AS_INTEGER | NORMALIZED | OTHERS) != 0 {
        report::unsupported("a texture with a view of its resource, or in sRGB");
        return Err(Code::NOT_SUPPORTED);
    }
    let mut image = image(current, &desc)?;
    image.channel = match image.channel {
        Channel::Unsigned(bits @ (8 | 16)) if flags & READ_AS_INTEGER == 0 => {
            Channel::UnsignedNormalized(bits)
        }
        Channel::Signed(bits @ (8 | 16)) if flags & READ_AS_INTEGER == 0 => {
            Channel::SignedNormalized(bits)
        }
        channel => channel,
    };
    let [x, y, z] = sampling.modes;
    let texture = TextureDesc {
        image,
        linear: match sampling.filter {
            0 => false,
            1 => true,
            _ => return Err(Code::INVALID_VALUE),
        },
        normalized: flags & NORMALIZED != 0,
        modes: [mode(x)?, mode(y)?, mode(z)?],
        border: sampling.border,
    };
    let handle = created(current.driver.emulator.create_texture(&texture))?;
    let object = Object::Texture(desc, sampling);
    current.state().objects.insert(handle, object);
    place.set(handle)
}

/// The descriptions of an object.
fn described(handle: u64) -> Answer<Object> {
    let current = current()?;
    let state = current.state();
    state
        .objects
        .get(&handle)
        .copied()
        .ok_or(Code::INVALID_VALUE)
}

fn destroy(handle: u64, is_kind: fn(&Object) -> bool) -> Answer {
    let current = current()?;
    let mut state = current.state();
    match state.objects.get(&handle) {
        Some(object) if is_kind(object) => {}
        _ => return Err(Code::INVALID_VALUE),
    }
    state.objects.remove(&handle);
    current.driver.emulator.destroy_object(handle);
    Ok(())
}

fn is_texture(object: &Object) -> bool {
    matches!(object, Object::Texture(..))
}

entries! {
    fn cuTexObjectCreate: "cuTexObjectCreate" @ 5000 (
        place: Out<u64>, resource: In<ResourceDesc>, sampling: In<SamplingDesc>, view: Data,
    ) {
        create(place, resource, sampling, view)
    }

    fn cuTexObjectDestroy: "cuTexObjectDestroy" @ 5000 (object: u64) {
        destroy(object, is_texture)
    }

    fn cuTexObjectGetResourceDesc: "cuTexObjectGetResourceDesc" @ 5000 (
        place: Out<ResourceDesc>, object: u64,
    ) {
        match described(object)? {
            Object::Texture(desc, _) => place.set(desc),
            Object::Surface(_) => Err(Code::INVALID_VALUE),
        }
    }

    fn cuTexObjectGetTextureDesc: "cuTexObjectGetTextureDesc" @ 5000 (
        place: Out<SamplingDesc>, object: u64,
    ) {
        match described(object)? {
            Object::Texture(_, sampling) => place.set(sampling),
            Object::Surface(_) => Err(Code::INVALID_VALUE),
        }
    }

    fn cuSurfObjectCreate: "cuSurfObjectCreate" @ 5000 (
        place: Out<u64>, resource: In<ResourceDesc>,
    ) {
        let current = current()?;
        let desc = resource.get()?;
        if desc.kind != ARRAY {
            return Err(Code::INVALID_VALUE);
        }
        let image = image(current, &desc)?;
        let handle = created(current.driver.emulator.create_surface(&image))?;
        current.state().objects.insert(handle, Object::Surface(desc));
        place.set(handle)
    }

    fn cuSurfObjectDestroy: "cuSurfObjectDestroy" @ 5000 (object: u64) {
        destroy(object, |object| !is_texture(object))
    }

    fn cuSurfObjectGetResourceDesc: "cuSurfObjectGetResourceDesc" @ 5000 (
        place: Out<ResourceDesc>, object: u64,
    ) {
        match described(object)? {
            Object::Surface(desc) => place.set(desc),
            Object::Texture(..) => Err(Code::INVALID_VALUE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<ResourceDesc>(), 144);
        assert_eq!(size_of::<SamplingDesc>(), 104);
    }
}
