//! Textures and surfaces.

mod fetch;
mod raw;

use super::access::{Intent, count};
use super::block::Block;
use super::fault::{Checked, Fault};
use super::row::{Lanes, Row};
use super::warp::Warp;
use crate::image::{ImageDesc, ImageKind, Object};
use crate::memory::space::Space;
use crate::profile::Touch;
use crate::program::{ImageAction, ImageOp, Property, Shape};
use crate::report::FaultKind;

impl Warp {
    /// Runs an operation on images for the lanes of `mask`.
    pub(super) fn image(&mut self, block: &mut Block<'_>, op: &ImageOp, mask: u32) -> Checked<()> {
        let constants = &block.launch.program.constants;
        let handles = *self.regs.row::<u64>(constants, op.handle);
        let mut rest = mask;
        while rest != 0 {
            let first = rest.trailing_zeros();
            let handle = handles.0[first as usize];
            let same = Lanes(rest)
                .filter(|&lane| handles.0[lane] == handle)
                .fold(0, |mask, lane| mask | 1 << lane);
            rest &= !same;
            let object = block.launch.objects.get(&handle).cloned();
            let refuse =
                |message: String| Err(Fault::new(FaultKind::BadImage, Some(first), message));
            let (Object::Texture(crate::image::TextureDesc { image, .. }) | Object::Surface(image)) =
                match &object {
                    Some(object) => object,
                    None => return refuse(format!("0x{handle:x} is no texture or surface object")),
                };
            if !matches!(op.action, ImageAction::Query { .. })
                && let Some(message) = misfit(image, op)
            {
                return refuse(message);
            }
            match (&op.action, &object) {
                (ImageAction::Fetch(fetch), Some(Object::Texture(texture))) => {
                    self.fetch(block, op, fetch, texture, same)?;
                }
                (ImageAction::Load(raw), Some(Object::Surface(image))) => {
                    self.load_raw(block, op, raw, image, same)?;
                }
                (ImageAction::Store(raw), Some(Object::Surface(image))) => {
                    self.store_raw(block, op, raw, image, same)?;
                }
                (ImageAction::Query { d, what }, Some(object)) => {
                    self.regs.splat(d.slot, property(object, *what), same);
                }
                (_, Some(Object::Texture(_))) => {
                    return refuse(format!("0x{handle:x} is a texture, not a surface"));
                }
                _ => return refuse(format!("0x{handle:x} is a surface, not a texture")),
            }
        }
        Ok(())
    }

    /// Reads or writes texels: `bytes` at the address of each lane of `mask`, through the planes.
    fn texels(
        &mut self,
        block: &mut Block<'_>,
        addresses: &Row<u64>,
        mask: u32,
        bytes: usize,
        intent: Intent,
    ) -> Checked<()> {
        if mask == 0 {
            return Ok(());
        }
        self.transfer(block, Space::Global, addresses, mask, bytes, intent)?;
        let touch = match intent {
            Intent::Read => Touch::Load,
            Intent::Write => Touch::Store,
        };
        count(block, Space::Global, touch, addresses, mask, bytes);
        Ok(())
    }

    /// The layer of each lane, brought into the image.
    fn layers(&self, block: &Block<'_>, op: &ImageOp, image: &ImageDesc) -> Row<u64> {
        let Some(slot) = op.layer else {
            return Row::default();
        };
        let last = match op.shape {
            Shape::Cube => image.layers() / 6,
            _ => image.layers(),
        };
        let layers = self.row32(block, slot);
        layers.map(|layer| u64::from(layer.min(last.saturating_sub(1))))
    }
}

/// Why an image does not fit an instruction, if it does not.
fn misfit(image: &ImageDesc, op: &ImageOp) -> Option<String> {
    let axes = match image.size() {
        [_, 1, 1] => 1,
        [_, _, 1] => 2,
        _ => 3,
    };
    let fits = match (op.shape, image.kind) {
        (Shape::Flat(1), ImageKind::Linear) => true,
        (Shape::Flat(wanted), ImageKind::Single) => op.layer.is_none() && axes <= wanted,
        (Shape::Flat(wanted), ImageKind::Layers(_) | ImageKind::Cubes(_)) => {
            op.layer.is_some() && axes <= wanted
        }
        (Shape::Cube, ImageKind::Cubes(_)) => true,
        _ => false,
    };
    (!fits).then(|| {
        let [x, y, z] = image.size();
        format!(
            "the image has {x} x {y} x {z} texels and is {}, which the instruction's geometry does \
             not fit",
            match image.kind {
                ImageKind::Linear => "linear memory",
                ImageKind::Single => "without layers",
                ImageKind::Layers(_) => "layered",
                ImageKind::Cubes(_) => "a cube map",
            }
        )
    })
}

/// What a query says.
fn property(object: &Object, what: Property) -> u32 {
    let (image, normalized) = match object {
        Object::Texture(texture) => (&texture.image, texture.normalized),
        Object::Surface(image) => (image, false),
    };
    match what {
        Property::Width => image.extent[0],
        // Layers count as the axis behind the last.
        Property::Height | Property::Depth => {
            let axis = if what == Property::Height { 1 } else { 2 };
            let is_behind = image.extent[axis] == 0 && image.extent[axis - 1] != 0;
            match image.kind {
                ImageKind::Layers(layers) if is_behind => layers,
                _ => image.extent[axis],
            }
        }
        Property::Layers => image.layers(),
        Property::Normalized => normalized.into(),
        Property::Levels | Property::Samples => 1,
    }
}
