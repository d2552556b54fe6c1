//! Textures and surfaces, which kernels name by the handles of objects.

use ptx_syntax::ast::{AddressBase, Instruction, Operand, ScalarType as T};
use ptx_syntax::isa::Opcode;

use super::mods::Mods;
use super::{FunctionLowering, Lowered};
use crate::error::LoadError;
use crate::exec::registers::Slot;
use crate::program::{
    Coordinates, Fetch, ImageAction, ImageOp, Op, Outside, Property, Raw, Reg, Shape, Width,
};

/// The operands in brackets: an object, and where in its image.
struct Place {
    handle: Slot,
    layer: Option<Slot>,
    coordinates: Box<[Slot]>,
}

impl<'a> FunctionLowering<'a, '_> {
    /// `tex` and `tld4`
    pub(super) fn fetch(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        let gathers = match inst.known() {
            Some(Opcode::Tld4) => Some(mods.need(|word| "rgba".find(word))?),
            _ => None,
        };
        // Images have one level, which every level of detail means.
        mods.ignore(&["base"]);
        let given = 2 + usize::from(mods.take("level")) + 2 * usize::from(mods.take("grad"));
        let (shape, layered) = shape(&mut mods)?;
        mods.require("v4")?;
        let (coordinate, result) = (mods.ty()?, mods.ty()?);
        mods.finish()?;
        if !matches!(result, T::F32 | T::S32 | T::U32) || inst.operands.len() != given {
            return Err(Mods::new(inst).unsupported());
        }
        let (d, resident) = match &inst.operands[0] {
            Operand::Pair(d, p) => (&**d, Some(self.destination_of(p, Width::Pred)?)),
            d => (d, None),
        };
        let d = self.channels(d)?;
        let place = self.image_place(&inst.operands[1], shape, layered)?;
        for level in &inst.operands[2..] {
            let parts = match level {
                Operand::Vector(parts) => parts.as_slice(),
                part => std::slice::from_ref(part),
            };
            for part in parts {
                self.source_any(part, Width::B32)?;
            }
        }
        let coordinates = match coordinate {
            T::F32 => Coordinates::Float(place.coordinates),
            T::S32 if gathers.is_none() => Coordinates::Integer(place.coordinates),
            _ => return Err(Mods::new(inst).unsupported()),
        };
        self.emit_image(ImageOp {
            handle: place.handle,
            shape,
            layer: place.layer,
            action: ImageAction::Fetch(Fetch {
                d,
                resident,
                coordinates,
                gathers,
            }),
        });
        Ok(())
    }

    /// `suld` and `sust`
    pub(super) fn surface(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        let loads = inst.known() == Some(Opcode::Suld);
        mods.require("b")?;
        mods.ignore(&super::memory::ORDERING);
        let (shape, layered) = shape(&mut mods)?;
        let outside = mods.need(|word| match word {
            "trap" => Some(Outside::Traps),
            "clamp" => Some(Outside::Clamps),
            "zero" => Some(Outside::Zeros),
            _ => None,
        })?;
        let count = mods.take_map(|word| match word {
            "v2" => Some(2),
            "v4" => Some(4),
            _ => None,
        });
        let element = match mods.ty()? {
            ty @ (T::B8 | T::B16 | T::B32 | T::B64) => ty.bytes() as usize,
            _ => return Err(mods.unsupported()),
        };
        mods.finish()?;
        let count = count.unwrap_or(1);
        if element * count > 16 || shape == Shape::Cube {
            return Err(Mods::new(inst).unsupported());
        }
        let [first, second] = self.operands(inst, "it takes a value and a place")?;
        let (value, place) = if loads {
            (first, second)
        } else {
            (second, first)
        };
        let items = match value {
            Operand::Vector(items) => items.as_slice(),
            item => std::slice::from_ref(item),
        };
        let mut regs = Vec::new();
        for item in items {
            let reg = match loads {
                true => self.destination(item, Width::B64)?,
                false => self.source_any(item, Width::B32)?,
            };
            if reg.width == Width::Pred || (reg.width.bits() as usize) < 8 * element {
                return Err(self.invalid("the register is too narrow"));
            }
            regs.push(Some(reg));
        }
        if regs.len() != count {
            return Err(self.invalid(format!("{} elements given, {count} are needed", regs.len())));
        }
        let place = self.image_place(place, shape, layered)?;
        let raw = Raw {
            regs: regs.into(),
            element,
            coordinates: place.coordinates,
            outside,
        };
        self.emit_image(ImageOp {
            handle: place.handle,
            shape,
            layer: place.layer,
            action: match loads {
                true => ImageAction::Load(raw),
                false => ImageAction::Store(raw),
            },
        });
        Ok(())
    }

    /// `txq` and `suq`
    pub(super) fn image_query(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        let what = mods.need(|word| {
            Some(match word {
                "width" => Property::Width,
                "height" => Property::Height,
                "depth" => Property::Depth,
                "array_size" => Property::Layers,
                "normalized_coords" => Property::Normalized,
                "num_mipmap_levels" => Property::Levels,
                "num_samples" => Property::Samples,
                _ => return None,
            })
        })?;
        mods.require("b32")?;
        mods.finish()?;
        let [d, object] = self.operands(inst, "it takes a destination and an object")?;
        let d = self.destination_reg(d, Width::B32)?;
        let place = self.image_place(object, Shape::Flat(0), false)?;
        self.emit_image(ImageOp {
            handle: place.handle,
            shape: Shape::Flat(0),
            layer: None,
            action: ImageAction::Query { d, what },
        });
        Ok(())
    }

    fn emit_image(&mut self, op: ImageOp) {
        self.emit(Op::Image(Box::new(op)));
    }

    /// The four destinations of a fetch.
    fn channels(&mut self, d: &Operand) -> Result<[Option<Reg>; 4], LoadError> {
        let Operand::Vector(items) = d else {
            return Err(self.invalid("a fetch has four destinations"));
        };
        let [_, _, _, _] = items.as_slice() else {
            return Err(self.invalid("a fetch has four destinations"));
        };
        let mut d = [None; 4];
        for (d, item) in d.iter_mut().zip(items) {
            if !matches!(item, Operand::Sink) {
                *d = Some(self.destination_reg(item, Width::B32)?);
            }
        }
        Ok(d)
    }

    /// `[object, {layer, x, y, z}]`
    fn image_place(
        &mut self,
        operand: &Operand,
        shape: Shape,
        layered: bool,
    ) -> Result<Place, LoadError> {
        let Operand::Address {
            base: AddressBase::Name(name),
            offset: 0,
            extra,
        } = operand
        else {
            return Err(self.invalid("an image is named by an object's handle in brackets"));
        };
        let handle = self.register(name)?;
        self.expect_width(handle, Width::B64)?;
        let given = match extra.as_slice() {
            [] => &[],
            [Operand::Vector(items)] => items.as_slice(),
            [item @ Operand::Name(_)] => std::slice::from_ref(item),
            _ => return Err(self.unsupported("a sampler beside a texture")),
        };
        let wanted = shape.coordinates() + usize::from(layered);
        // Vectors of three have four items.
        if given.len() < wanted || given.len() > wanted.next_power_of_two() {
            return Err(self.invalid(format!("{wanted} coordinates are needed")));
        }
        let mut slots = Vec::new();
        for item in &given[..wanted] {
            slots.push(self.source(item, Width::B32)?);
        }
        let layer = layered.then(|| slots.remove(0));
        Ok(Place {
            handle: handle.slot,
            layer,
            coordinates: slots.into(),
        })
    }
}

/// Takes the geometry: what an image is, and whether it has layers.
fn shape(mods: &mut Mods<'_>) -> Result<(Shape, bool), LoadError> {
    mods.need(|word| {
        Some(match word {
            "1d" => (Shape::Flat(1), false),
            "2d" => (Shape::Flat(2), false),
            "3d" => (Shape::Flat(3), false),
            "a1d" => (Shape::Flat(1), true),
            "a2d" => (Shape::Flat(2), true),
            "cube" => (Shape::Cube, false),
            "acube" => (Shape::Cube, true),
            _ => return None,
        })
    })
}
