//! The approximations: `.approx` of `div rcp sqrt rsqrt ex2 lg2 sin cos tanh`, and `div.full`.

use ptx_syntax::ast::ScalarType as T;

use super::mods::Mods;
use super::recipe::{Recipe, op};
use crate::error::LoadError;
use crate::semantics::approx;
use crate::semantics::fp16::{Bf16, F16};

/// The approximate operation of an opcode; takes all modifiers but the type.
pub(super) fn recipe(opcode: &str, mods: &mut Mods<'_>, ty: T) -> Result<Recipe, LoadError> {
    mods.ignore(&["approx"]);
    let full = mods.take("full");
    let flush = mods.take("ftz");
    let recipe = match (opcode, ty) {
        ("div", T::F32) if full => Some(op!(|x, a: f32, b: f32| -> f32 {
            approx::div_full(a, b, x.imm != 0)
        })),
        ("div", T::F32) => Some(op!(|x, a: f32, b: f32| -> f32 {
            approx::div(a, b, x.imm != 0)
        })),
        (_, T::F32) => f32_unary(opcode),
        ("rcp", T::F64) if flush => Some(op!(|x, a: f64| -> f64 { approx::rcp_f64(a) })),
        ("rsqrt", T::F64) if flush => Some(op!(|x, a: f64| -> f64 { approx::rsqrt_f64_ftz(a) })),
        ("rsqrt", T::F64) => Some(op!(|x, a: f64| -> f64 { approx::rsqrt_f64(a) })),
        _ => half(opcode, ty),
    };
    Ok(recipe
        .ok_or_else(|| mods.unsupported())?
        .imm(u32::from(flush)))
}

fn f32_unary(opcode: &str) -> Option<Recipe> {
    Some(match opcode {
        "rcp" => op!(|x, a: f32| -> f32 { approx::rcp(a, x.imm != 0) }),
        "sqrt" => op!(|x, a: f32| -> f32 { approx::sqrt(a, x.imm != 0) }),
        "rsqrt" => op!(|x, a: f32| -> f32 { approx::rsqrt(a, x.imm != 0) }),
        "lg2" => op!(|x, a: f32| -> f32 { approx::lg2(a, x.imm != 0) }),
        "ex2" => op!(|x, a: f32| -> f32 { approx::ex2(a, x.imm != 0) }),
        "sin" => op!(|x, a: f32| -> f32 { approx::sin(a) }),
        "cos" => op!(|x, a: f32| -> f32 { approx::cos(a) }),
        "tanh" => op!(|x, a: f32| -> f32 { approx::tanh(a) }),
        _ => return None,
    })
}

fn half(opcode: &str, ty: T) -> Option<Recipe> {
    macro_rules! pair {
        ($f:expr) => {
            op!(|x, a: u32| -> u32 {
                u32::from($f((a >> 16) as u16, x.imm != 0)) << 16
                    | u32::from($f(a as u16, x.imm != 0))
            })
        };
    }
    Some(match (opcode, ty) {
        ("ex2", T::F16) => op!(|x, a: u16| -> u16 { approx::ex2_half::<F16>(a, x.imm != 0) }),
        ("ex2", T::Bf16) => op!(|x, a: u16| -> u16 { approx::ex2_half::<Bf16>(a, x.imm != 0) }),
        ("ex2", T::F16x2) => pair!(approx::ex2_half::<F16>),
        ("ex2", T::Bf16x2) => pair!(approx::ex2_half::<Bf16>),
        ("tanh", T::F16) => op!(|x, a: u16| -> u16 { approx::tanh_half::<F16>(a) }),
        ("tanh", T::Bf16) => op!(|x, a: u16| -> u16 { approx::tanh_half::<Bf16>(a) }),
        ("tanh", T::F16x2) => pair!(|a, _| approx::tanh_half::<F16>(a)),
        ("tanh", T::Bf16x2) => pair!(|a, _| approx::tanh_half::<Bf16>(a)),
        _ => return None,
    })
}
