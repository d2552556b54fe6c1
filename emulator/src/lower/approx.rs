//! The approximations: `.approx` of `div rcp sqrt rsqrt ex2 lg2 sin cos tanh`, and `div.full`.

use ptx_syntax::ast::ScalarType as T;
use ptx_syntax::isa::Opcode as O;

use super::mods::Mods;
use super::recipe::{Recipe, op};
use crate::error::LoadError;
use crate::semantics::approx;
use crate::semantics::fp16::{Bf16, F16};

/// The approximate operation of an opcode; takes all modifiers but the type.
pub(super) fn recipe(opcode: O, mods: &mut Mods<'_>, ty: T) -> Result<Recipe, LoadError> {
    mods.ignore(&["approx"]);
    let full = mods.take("full");
    let flush = mods.take("ftz");
    let recipe = match (opcode, ty) {
        (O::Div, T::F32) if full => Some(op!(|x, a: f32, b: f32| -> f32 {
            approx::div_full(a, b, x.imm != 0)
        })),
        (O::Div, T::F32) => Some(op!(|x, a: f32, b: f32| -> f32 {
            approx::div(a, b, x.imm != 0)
        })),
        (_, T::F32) => f32_unary(opcode),
        (O::Rcp, T::F64) if flush => Some(op!(|x, a: f64| -> f64 { approx::rcp_f64(a) })),
        (O::Rsqrt, T::F64) if flush => Some(op!(|x, a: f64| -> f64 { approx::rsqrt_f64_ftz(a) })),
        (O::Rsqrt, T::F64) => Some(op!(|x, a: f64| -> f64 { approx::rsqrt_f64(a) })),
        _ => half(opcode, ty),
    };
    Ok(recipe
        .ok_or_else(|| mods.unsupported())?
        .imm(u32::from(flush)))
}

fn f32_unary(opcode: O) -> Option<Recipe> {
    Some(match opcode {
        O::Rcp => op!(|x, a: f32| -> f32 { approx::rcp(a, x.imm != 0) }),
        O::Sqrt => op!(|x, a: f32| -> f32 { approx::sqrt(a, x.imm != 0) }),
        O::Rsqrt => op!(|x, a: f32| -> f32 { approx::rsqrt(a, x.imm != 0) }),
        O::Lg2 => op!(|x, a: f32| -> f32 { approx::lg2(a, x.imm != 0) }),
        O::Ex2 => op!(|x, a: f32| -> f32 { approx::ex2(a, x.imm != 0) }),
        O::Sin => op!(|x, a: f32| -> f32 { approx::sin(a) }),
        O::Cos => op!(|x, a: f32| -> f32 { approx::cos(a) }),
        O::Tanh => op!(|x, a: f32| -> f32 { approx::tanh(a) }),
        _ => return None,
    })
}

fn half(opcode: O, ty: T) -> Option<Recipe> {
    macro_rules! pair {
        ($f:expr) => {
            op!(|x, a: u32| -> u32 {
                u32::from($f((a >> 16) as u16, x.imm != 0)) << 16
                    | u32::from($f(a as u16, x.imm != 0))
            })
        };
    }
    Some(match (opcode, ty) {
        (O::Ex2, T::F16) => op!(|x, a: u16| -> u16 { approx::ex2_half::<F16>(a, x.imm != 0) }),
        (O::Ex2, T::Bf16) => op!(|x, a: u16| -> u16 { approx::ex2_half::<Bf16>(a, x.imm != 0) }),
        (O::Ex2, T::F16x2) => pair!(approx::ex2_half::<F16>),
        (O::Ex2, T::Bf16x2) => pair!(approx::ex2_half::<Bf16>),
        (O::Tanh, T::F16) => op!(|x, a: u16| -> u16 { approx::tanh_half::<F16>(a) }),
        (O::Tanh, T::Bf16) => op!(|x, a: u16| -> u16 { approx::tanh_half::<Bf16>(a) }),
        (O::Tanh, T::F16x2) => pair!(|a, _| approx::tanh_half::<F16>(a)),
        (O::Tanh, T::Bf16x2) => pair!(|a, _| approx::tanh_half::<Bf16>(a)),
        _ => return None,
    })
}
