//! Texture and surface objects.

use crate::api::texture::{
    ARRAY, LINEAR, NORMALIZED, OTHERS, PITCHED, READ_AS_INTEGER, Resource, ResourceDesc, SRGB,
    SamplingDesc,
};
use crate::c::{Data, In, Out};
use crate::code::{Answer, Code};
use crate::report;

use super::array::ChannelDesc;
use super::{cu, runtime};

/// `cudaResourceDesc`, up to where all versions have the same.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct RuntimeResource {
    kind: u32,
    /// The array, or the address of linear memory.
    pointer: u64,
    channel: ChannelDesc,
    /// Bytes of linear memory, or the width in texels.
    width: usize,
    height: usize,
    pitch: usize,
}

/// `cudaTextureDesc`
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct RuntimeSampling {
    modes: [u32; 3],
    filter: u32,
    reads_normalized: u32,
    srgb: i32,
    border: [f32; 4],
    normalized: i32,
    anisotropy: u32,
    level_filter: u32,
    levels: [f32; 3],
    disable_trilinear: i32,
    seamless: i32,
}

impl RuntimeResource {
    fn of_driver(self) -> Answer<ResourceDesc> {
        let pointer = self.pointer;
        let mut resource = Resource {
            pointer,
            ..Resource::default()
        };
        match self.kind {
            ARRAY => {}
            LINEAR | PITCHED => {
                (resource.format, resource.channels) = self.channel.of_driver()?;
                resource.width = self.width;
                if self.kind == PITCHED {
                    (resource.height, resource.pitch) = (self.height, self.pitch);
                }
            }
            _ => {
                report::unsupported("a texture of an array with levels");
                return Err(Code::NOT_SUPPORTED);
            }
        }
        Ok(ResourceDesc {
            kind: self.kind,
            resource,
            flags: 0,
        })
    }
}

impl RuntimeSampling {
    fn of_driver(self) -> SamplingDesc {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let flags = flag(self.reads_normalized == 0, READ_AS_INTEGER)
            | flag(self.normalized != 0, NORMALIZED)
            | flag(self.srgb != 0, SRGB)
            | flag(self.disable_trilinear != 0 || self.seamless != 0, OTHERS);
        SamplingDesc {
            modes: self.modes,
            filter: self.filter,
            flags,
            anisotropy: self.anisotropy,
            level_filter: self.level_filter,
            levels: self.levels,
            border: self.border,
            reserved: [0; 12],
        }
    }
}

runtime! {
    fn cudaCreateTextureObject(
        place: Out<u64>, resource: In<RuntimeResource>, sampling: In<RuntimeSampling>, view: Data,
    ) {
        // An array's description ends behind its handle, but the memory behind it is there.
        let (resource, sampling) = (resource.get()?.of_driver()?, sampling.get()?.of_driver());
        let (resource, sampling) = (In::from(&resource), In::from(&sampling));
        cu!(texture::cuTexObjectCreate(place, resource, sampling, view))
    }

    fn cudaDestroyTextureObject(object: u64) {
        cu!(texture::cuTexObjectDestroy(object))
    }

    fn cudaCreateSurfaceObject(place: Out<u64>, resource: In<RuntimeResource>) {
        let resource = resource.get()?.of_driver()?;
        cu!(texture::cuSurfObjectCreate(place, In::from(&resource)))
    }

    fn cudaDestroySurfaceObject(object: u64) {
        cu!(texture::cuSurfObjectDestroy(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<RuntimeResource>(), 64);
        assert_eq!(size_of::<RuntimeSampling>(), 72);
        assert_eq!(std::mem::offset_of!(RuntimeResource, width), 40);
    }
}
