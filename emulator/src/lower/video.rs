//! SIMD video instructions on bytes and halfwords: `vadd4`, `vabsdiff2` and so on.

use ptx_syntax::ast::ScalarType as T;

use super::mods::Mods;
use super::recipe::{Recipe, op};
use crate::error::LoadError;
use crate::semantics::video::{Video, VideoMode, video};

/// The operation of an opcode, and the width in bits of its parts.
fn operation(opcode: &str) -> Option<(Video, u32)> {
    let (name, bits) = match (opcode.strip_suffix('4'), opcode.strip_suffix('2')) {
        (Some(name), _) => (name, 8),
        (_, Some(name)) => (name, 16),
        _ => return None,
    };
    let op = match name {
        "vadd" => Video::Add,
        "vsub" => Video::Sub,
        "vavrg" => Video::Average,
        "vabsdiff" => Video::AbsDiff,
        "vmin" => Video::Min,
        "vmax" => Video::Max,
        _ => return None,
    };
    Some((op, bits))
}

/// Whether the opcode is lowered here.
pub(super) fn is_video(opcode: &str) -> bool {
    operation(opcode).is_some()
}

/// Lowers an opcode; the forms with masks and selectors are not supported.
pub(super) fn recipe(opcode: &str, mods: &mut Mods<'_>) -> Result<Recipe, LoadError> {
    let (op, bits) = operation(opcode).ok_or_else(|| mods.unsupported())?;
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
