//! The machine: eight values, a mask, and what each instruction does to them.

use cuda_std::{hint, math, thread};
use spec::elementwise::{BinaryOp, GradOp, Step, THREADS, UnaryOp, code};

use super::access::{Early, Tensors, Tile};
use super::convert;

/// A group's values, and bit j where value j is selected.
pub(super) struct Machine {
    pub(super) value: [f32; 8],
    mask: u32,
}

/// `$body` of each value, unrolled: cheap and common functions.
macro_rules! each {
    ($machine:ident, |$x:ident| $body:expr) => {
        $machine.value = $machine.value.map(|$x| $body)
    };
    ($machine:ident, $operand:ident, |$x:ident, $y:ident| $body:expr) => {
        $machine.value = zip($machine.value, $operand, |$x, $y| $body)
    };
}

/// `$body` of each value, two at a time: the code is there twice, and values move round.
macro_rules! two_by_two {
    ($machine:ident, |$x:ident| $body:expr) => {
        let mut rounds = hint::opaque(4);
        while rounds > 0 {
            let [a, b, c, d, e, f, g, h] = $machine.value;
            let function = |$x: f32| $body;
            $machine.value = [c, d, e, f, g, h, function(a), function(b)];
            rounds -= 1;
        }
    };
}

/// `$body` of each pair, one at a time.
macro_rules! one_by_one {
    ($machine:ident, $operand:ident, |$x:ident, $y:ident| $body:expr) => {
        let mut rounds = hint::opaque(8);
        let mut operand = $operand;
        while rounds > 0 {
            let [a, b, c, d, e, f, g, h] = $machine.value;
            let [s, t, u, v, w, x, y, z] = operand;
            let result = {
                let ($x, $y) = (a, s);
                $body
            };
            $machine.value = [b, c, d, e, f, g, h, result];
            operand = [t, u, v, w, x, y, z, s];
            rounds -= 1;
        }
    };
}

/// `f` of each pair. Spelled out: what a loop indexes would go through local memory.
#[inline(always)]
fn zip(x: [f32; 8], y: [f32; 8], f: impl Fn(f32, f32) -> f32) -> [f32; 8] {
    let [a, b, c, d, e, g, h, i] = x;
    let [s, t, u, v, w, x, y, z] = y;
    [
        f(a, s),
        f(b, t),
        f(c, u),
        f(d, v),
        f(e, w),
        f(g, x),
        f(h, y),
        f(i, z),
    ]
}

/// 1 or 0.
#[inline(always)]
fn claim(holds: bool) -> f32 {
    if holds { 1.0 } else { 0.0 }
}

/// -1, 0 or 1; zeros and NaN stay.
#[inline(always)]
fn sign(x: f32) -> f32 {
    if x.abs() > 0.0 { 1f32.copysign(x) } else { x }
}

/// The arms of a match on an instruction's number.
macro_rules! instructions {
    ($number:expr, $($op:path => $body:block)*) => {{
        let number: u32 = $number;
        $(if number == $op.code() { $body } else)* {}
    }};
}

impl Machine {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self {
            value: [0.0; 8],
            mask: 0,
        }
    }

    /// Runs the program on a group.
    ///
    /// # Safety
    /// The launch's tensors, tile and shared memory.
    #[inline(always)]
    pub(super) unsafe fn interpret<const CVT: bool>(
        &mut self,
        tensors: &Tensors<'_>,
        tile: &Tile,
        group: u32,
        early: &Early,
        kept: *mut [f32; 4],
    ) {
        for at in 0..tensors.params.steps as usize {
            let Step { word, scalar } = tensors.params.program[at];
            let place = (word >> 8) & 0xff;
            let instruction = word & 0xff;
            let mut operand = [scalar; 8];
            if place < Step::KEPT {
                let dtype = (word >> 16) & 0xff;
                // SAFETY: passed on to the caller.
                let words = unsafe { tensors.load(tile, group, early, place, dtype) };
                operand = convert::widen::<CVT>(words, dtype);
            } else if place < Step::SCALAR {
                // Halves of all threads, then those of the next number: no bank conflict.
                let slot = (place - Step::KEPT) * 2 * THREADS + thread::thread_idx_x();
                let low = kept.wrapping_add(slot as usize);
                let high = low.wrapping_add(THREADS as usize);
                let [a, b, c, d, e, f, g, h] = self.value;
                // SAFETY: the thread's own place.
                unsafe {
                    if instruction == code::KEEP {
                        low.write([a, b, c, d]);
                        high.write([e, f, g, h]);
                        continue;
                    }
                    let ([a, b, c, d], [e, f, g, h]) = (low.read(), high.read());
                    operand = [a, b, c, d, e, f, g, h];
                }
            }
            if word >> 24 != 0 {
                core::mem::swap(&mut self.value, &mut operand);
            }
            self.apply(instruction, operand);
        }
    }

    /// value = instruction(value, operand).
    #[inline(always)]
    fn apply(&mut self, instruction: u32, operand: [f32; 8]) {
        const FIRST_COMMON: u32 = UnaryOp::Neg.code();
        const FIRST_BINARY: u32 = BinaryOp::Add.code();
        match instruction {
            code::LOAD => self.value = operand,
            code::MASK => {
                let [a, b, c, d, e, f, g, h] = operand;
                let bit = |x: f32, j: u32| u32::from(x.abs() > 0.0) << j;
                let low = bit(a, 0) | bit(b, 1) | bit(c, 2) | bit(d, 3);
                self.mask = low | bit(e, 4) | bit(f, 5) | bit(g, 6) | bit(h, 7);
            }
            code::SELECT => {
                let [a, b, c, d, e, f, g, h] = self.value;
                let [s, t, u, v, w, x, y, z] = operand;
                let mask = self.mask;
                let pick = |x, y, j: u32| if (mask >> j) & 1 == 1 { x } else { y };
                let (low, middle) = (
                    [pick(a, s, 0), pick(b, t, 1)],
                    [pick(c, u, 2), pick(d, v, 3)],
                );
                let (high, last) = (
                    [pick(e, w, 4), pick(f, x, 5)],
                    [pick(g, y, 6), pick(h, z, 7)],
                );
                self.value = [
                    low[0], low[1], middle[0], middle[1], high[0], high[1], last[0], last[1],
                ];
            }
            FIRST_COMMON..FIRST_BINARY => {
                self.apply_common(instruction);
                self.apply_rare(instruction);
            }
            _ => {
                self.apply_arithmetic(instruction, operand);
                self.apply_binary(instruction, operand);
            }
        }
    }

    /// Functions of one number that are cheap, or that models are made of.
    #[inline(always)]
    fn apply_common(&mut self, instruction: u32) {
        instructions! { instruction,
            UnaryOp::Neg => { each!(self, |x| math::neg(x)) }
            UnaryOp::Abs => { each!(self, |x| math::abs(x)) }
            UnaryOp::Exp => { each!(self, |x| math::exp(x)) }
            UnaryOp::Log => { each!(self, |x| math::log(x)) }
            UnaryOp::Sqrt => { each!(self, |x| math::sqrt(x)) }
            UnaryOp::Rsqrt => { each!(self, |x| math::rsqrt(x)) }
            UnaryOp::Rcp => { each!(self, |x| math::rcp(x)) }
            UnaryOp::Relu => { each!(self, |x| if x < 0.0 { 0.0 } else { x }) }
            UnaryOp::Gelu => { each!(self, |x| math::gelu(x)) }
            UnaryOp::GeluTanh => { each!(self, |x| math::gelu_tanh(x)) }
            UnaryOp::Silu => { each!(self, |x| math::silu(x)) }
            UnaryOp::Sigmoid => { each!(self, |x| math::sigmoid(x)) }
            UnaryOp::Tanh => { each!(self, |x| math::tanh(x)) }
            UnaryOp::Square => { each!(self, |x| x * x) }
            UnaryOp::Sign => { each!(self, |x| sign(x)) }
            UnaryOp::Floor => { each!(self, |x| math::floor(x)) }
            UnaryOp::Ceil => { each!(self, |x| math::ceil(x)) }
            UnaryOp::Round => { each!(self, |x| math::rint(x)) }
            UnaryOp::Trunc => { each!(self, |x| math::trunc(x)) }
            UnaryOp::Not => { each!(self, |x| claim(x == 0.0)) }
            UnaryOp::IsNan => { each!(self, |x| claim(x.is_nan())) }
            UnaryOp::IsInf => { each!(self, |x| claim(x.abs() == f32::INFINITY)) }
            UnaryOp::IsFinite => { each!(self, |x| claim(x.abs() < f32::INFINITY)) }
        }
    }

    /// Longer functions of one number.
    #[inline(always)]
    fn apply_rare(&mut self, instruction: u32) {
        instructions! { instruction,
            UnaryOp::Sin => { two_by_two!(self, |x| math::sin(x)); }
            UnaryOp::Cos => { two_by_two!(self, |x| math::cos(x)); }
            UnaryOp::Tan => { two_by_two!(self, |x| math::tan(x)); }
            UnaryOp::Erf => { two_by_two!(self, |x| math::erf(x)); }
            UnaryOp::Erfc => { two_by_two!(self, |x| math::erfc(x)); }
            UnaryOp::Exp2 => { two_by_two!(self, |x| math::exp2(x)); }
            UnaryOp::Expm1 => { two_by_two!(self, |x| math::expm1(x)); }
            UnaryOp::Log2 => { two_by_two!(self, |x| math::log2(x)); }
            UnaryOp::Log10 => { two_by_two!(self, |x| math::log10(x)); }
            UnaryOp::Log1p => { two_by_two!(self, |x| math::log1p(x)); }
            UnaryOp::Asin => { two_by_two!(self, |x| math::asin(x)); }
            UnaryOp::Acos => { two_by_two!(self, |x| math::acos(x)); }
            UnaryOp::Atan => { two_by_two!(self, |x| math::atan(x)); }
            UnaryOp::Sinh => { two_by_two!(self, |x| math::sinh(x)); }
            UnaryOp::Cosh => { two_by_two!(self, |x| math::cosh(x)); }
            UnaryOp::Asinh => { two_by_two!(self, |x| math::asinh(x)); }
            UnaryOp::Acosh => { two_by_two!(self, |x| math::acosh(x)); }
            UnaryOp::Atanh => { two_by_two!(self, |x| math::atanh(x)); }
        }
    }

    /// Functions of two numbers that are one instruction or few.
    #[inline(always)]
    fn apply_arithmetic(&mut self, instruction: u32, operand: [f32; 8]) {
        let is_true = |x: f32| x != 0.0;
        instructions! { instruction,
            BinaryOp::Add => { each!(self, operand, |x, y| x + y) }
            BinaryOp::Sub => { each!(self, operand, |x, y| x - y) }
            BinaryOp::Mul => { each!(self, operand, |x, y| x * y) }
            BinaryOp::Div => { each!(self, operand, |x, y| x / y) }
            BinaryOp::Max => { each!(self, operand, |x, y| math::max_nan(x, y)) }
            BinaryOp::Min => { each!(self, operand, |x, y| math::min_nan(x, y)) }
            BinaryOp::CopySign => { each!(self, operand, |x, y| x.copysign(y)) }
            BinaryOp::Eq => { each!(self, operand, |x, y| claim(x == y)) }
            BinaryOp::Ne => { each!(self, operand, |x, y| claim(x != y)) }
            BinaryOp::Lt => { each!(self, operand, |x, y| claim(x < y)) }
            BinaryOp::Le => { each!(self, operand, |x, y| claim(x <= y)) }
            BinaryOp::Gt => { each!(self, operand, |x, y| claim(x > y)) }
            BinaryOp::Ge => { each!(self, operand, |x, y| claim(x >= y)) }
            BinaryOp::And => { each!(self, operand, |x, y| claim(is_true(x) && is_true(y))) }
            BinaryOp::Or => { each!(self, operand, |x, y| claim(is_true(x) || is_true(y))) }
            BinaryOp::Xor => { each!(self, operand, |x, y| claim(is_true(x) != is_true(y))) }
            GradOp::Relu => { each!(self, operand, |x, y| math::relu_grad(x) * y) }
        }
    }

    /// Longer functions of two numbers.
    #[inline(always)]
    fn apply_binary(&mut self, instruction: u32, operand: [f32; 8]) {
        instructions! { instruction,
            BinaryOp::Pow => { one_by_one!(self, operand, |x, y| math::pow(x, y)); }
            BinaryOp::Remainder => { one_by_one!(self, operand, |x, y| math::remainder(x, y)); }
            BinaryOp::Fmod => { one_by_one!(self, operand, |x, y| math::fmod(x, y)); }
            BinaryOp::Atan2 => { one_by_one!(self, operand, |x, y| math::atan2(x, y)); }
            BinaryOp::Hypot => { one_by_one!(self, operand, |x, y| math::hypot(x, y)); }
            GradOp::Gelu => { each!(self, operand, |x, y| math::gelu_grad(x) * y) }
            GradOp::GeluTanh => { each!(self, operand, |x, y| math::gelu_tanh_grad(x) * y) }
            GradOp::Silu => { each!(self, operand, |x, y| math::silu_grad(x) * y) }
            GradOp::Sigmoid => { each!(self, operand, |x, y| math::sigmoid_grad(x) * y) }
            GradOp::Tanh => { each!(self, operand, |x, y| math::tanh_grad(x) * y) }
        }
    }
}
