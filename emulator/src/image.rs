//! Images: what textures and surfaces read and write, and the objects that kernels name them by.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::ImageError;
pub use crate::semantics::texture::{AddressMode, Channel};

/// Largest extent of an image in texels.
pub const IMAGE_EXTENT: u32 = 1 << 27;

/// Texels in global memory, in rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageDesc {
    /// Address of the first texel, a multiple of the texel's size.
    pub address: u64,
    /// What a channel is.
    pub channel: Channel,
    /// Channels of a texel: 1, 2 or 4.
    pub channels: u32,
    /// Width, height and depth in texels. Axes that the image lacks are 0.
    pub extent: [u32; 3],
    /// Bytes from one row to the next, a multiple of the texel's size.
    pub pitch: u64,
    /// Bytes from one slice or layer to the next, a multiple of the texel's size.
    pub slice: u64,
    /// What the image is.
    pub kind: ImageKind,
}

/// Kinds of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageKind {
    /// A list of texels, which `tex.1d` with an integer coordinate reads. Outside of it are zeros.
    Linear,
    /// One image of one to three dimensions.
    Single,
    /// So many images of one or two dimensions.
    Layers(u32),
    /// So many cubes of six faces each.
    Cubes(u32),
}

/// An image as `tex` reads it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextureDesc {
    /// The texels.
    pub image: ImageDesc,
    /// Whether fetches interpolate between texels; only where they give floats.
    pub linear: bool,
    /// Whether coordinates go from 0 to 1.
    pub normalized: bool,
    /// What coordinates outside of the image mean, for each axis.
    pub modes: [AddressMode; 3],
    /// Colour of the border.
    pub border: [f32; 4],
}

impl ImageDesc {
    /// Bytes of a texel.
    pub fn texel(&self) -> u32 {
        self.channels * self.channel.bits() / 8
    }

    /// Width, height and depth, with 1 for axes that the image lacks.
    pub(crate) fn size(&self) -> [u32; 3] {
        self.extent.map(|extent| extent.max(1))
    }

    /// Number of layers, each of six faces for a cube.
    pub(crate) fn layers(&self) -> u32 {
        match self.kind {
            ImageKind::Layers(layers) | ImageKind::Cubes(layers) => layers,
            _ => 1,
        }
    }

    fn check(&self) -> Result<(), ImageError> {
        let refuse = |what| Err(ImageError { what });
        let texel = u64::from(self.texel());
        if !matches!(self.channels, 1 | 2 | 4) {
            return refuse("a texel has 1, 2 or 4 channels");
        }
        let bits_fit = match self.channel {
            Channel::UnsignedNormalized(bits) | Channel::SignedNormalized(bits) => {
                matches!(bits, 8 | 16)
            }
            channel => matches!(channel.bits(), 8 | 16 | 32),
        };
        if !bits_fit {
            return refuse("the channels of this format have 8, 16 or 32 bits");
        }
        let is_too_large = self.extent.iter().any(|extent| *extent > IMAGE_EXTENT);
        if self.extent[0] == 0 || is_too_large || self.layers() == 0 {
            return refuse("an extent is 0 or too large");
        }
        if [self.address, self.pitch, self.slice]
            .iter()
            .any(|value| !value.is_multiple_of(texel))
        {
            return refuse("address and pitches are multiples of the texel's size");
        }
        Ok(())
    }
}

/// An object that kernels name by a handle.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Texture(TextureDesc),
    Surface(ImageDesc),
}

/// All objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    last: u64,
    live: Arc<BTreeMap<u64, Object>>,
}

/// The objects at one moment.
pub(crate) type ObjectSnapshot = Arc<BTreeMap<u64, Object>>;

impl Objects {
    /// Adds an object, and returns its handle.
    pub(crate) fn add(&mut self, object: Object) -> Result<u64, ImageError> {
        match &object {
            Object::Texture(texture) => {
                texture.image.check()?;
                if texture.linear && !texture.image.channel.is_float() {
                    let what = "only fetches that give floats can interpolate";
                    return Err(ImageError { what });
                }
            }
            Object::Surface(image) => image.check()?,
        }
        self.last += 1;
        Arc::make_mut(&mut self.live).insert(self.last, object);
        Ok(self.last)
    }

    /// Takes an object away; false if there is none.
    pub(crate) fn remove(&mut self, handle: u64) -> bool {
        Arc::make_mut(&mut self.live).remove(&handle).is_some()
    }

    pub(crate) fn snapshot(&self) -> ObjectSnapshot {
        self.live.clone()
    }
}
