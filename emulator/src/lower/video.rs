//! SIMD video instructions on bytes and halfwords: `vadd4`, `vabsdiff2` and so on.

use ptx_syntax::ast::ScalarType as T;
use ptx_syntax::isa::Opcode as O;

use super::mods::Mods;
use super::recipe::{Recipe, op};
use crate::error::LoadError;
use crate::semantics::video::{Video, VideoMode, video};

/// Lowers an opcode; the forms with masks and selectors are not supported.
pub(super) fn recipe(opcode: O, mods: &mut Mods<'_>) -> Result<Recipe, LoadError> {
    let (op, bits) = match opcode {
        O::Vadd2 => (Video::Add, 16),
        O::Vadd4 => (Video::Add, 8),
        O::Vsub2 => (Video::Sub, 16),
        O::Vsub4 => (Video::Sub, 8),
        O::Vavrg2 => (Video::Average, 16),
        O::Vavrg4 => (Video::Average, 8),
        O::Vabsdiff2 => (Video::AbsDiff, 16),
        O::Vabsdiff4 => (Video::AbsDiff, 8),
        O::Vmin2 => (Video::Min, 16),
        O::Vmin4 => (Video::Min, 8),
        O::Vmax2 => (Video::Max, 16),
        O::Vmax4 => (Video::Max, 8),
        _ => return Err(mods.unsupported()),
    };
    let (b, a, d) = (mods.ty()?, mods.ty()?, mods.ty()?);
    let mut signed = [false; 3];
    for (signed, ty) in signed.iter_mut().zip([d, a, b]) {
        *signed = match ty {
            T::U32 => false,
            T::S32 => true,
            _ => return Err(mods.unsupported()),
        };
    }
    let mode = VideoMode {
        op,
        bits,
        signed,
        saturate: mods.take("sat"),
        accumulate: mods.take("add"),
    };
    let recipe =
        op!(|x, a: u32, b: u32, c: u32| -> u32 { video(VideoMode::decode(x.imm), a, b, c) });
    Ok(recipe.imm(mode.encode()))
}
