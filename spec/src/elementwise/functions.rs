//! The functions: their names, codes and error bounds.

macro_rules! functions {
    ($(#[$doc:meta])* $enum:ident, $count:literal from $first:literal;
     $($variant:ident: $name:literal, $ulps:literal, $what:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $enum {
            $(#[doc = $what] $variant,)*
        }

        impl $enum {
            /// All of them.
            pub const ALL: [Self; $count] = [$(Self::$variant),*];

            /// Name in tables and messages.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Its number: all functions have different ones.
            pub const fn code(self) -> u32 {
                $first + self as u32
            }

            /// Largest error of the f32 result before it is rounded to the output, in ulp of the true
            /// result (of the least normal number below that); 0 where it is exact.
            pub const fn ulps(self) -> f32 {
                match self {
                    $(Self::$variant => $ulps,)*
                }
            }
        }
    };
}

functions! {
    /// Functions of one element.
    UnaryOp, 44 from 16;
    Neg: "neg", 0.0, "-x.";
    Abs: "abs", 0.0, "|x|.";
    Exp: "exp", 1.1, "e^x.";
    Log: "log", 1.0, "Natural logarithm.";
    Sqrt: "sqrt", 0.5, "Square root.";
    Rsqrt: "rsqrt", 1.5, "1 / square root.";
    Rcp: "rcp", 0.5, "1 / x.";
    Relu: "relu", 0.0, "max(x, 0), NaN stays.";
    Gelu: "gelu", 5.0, "x Φ(x), Φ the normal distribution function.";
    GeluTanh: "gelu_tanh", 6.0, "0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))).";
    Silu: "silu", 5.0, "x sigmoid(x).";
    Sigmoid: "sigmoid", 3.0, "1 / (1 + e^-x).";
    Tanh: "tanh", 2.0, "Hyperbolic tangent.";
    Sin: "sin", 2.0, "Sine of radians.";
    Cos: "cos", 2.0, "Cosine of radians.";
    Erf: "erf", 2.0, "Error function.";
    Square: "square", 0.5, "x².";
    Scale: "scale", 0.5, "`scalar` · x.";
    Offset: "offset", 0.5, "x + `scalar`.";
    Sign: "sign", 0.0, "-1, 0 or 1 by the sign; zeros and NaN stay.";
    Floor: "floor", 0.0, "Largest integer not above x.";
    Ceil: "ceil", 0.0, "Least integer not below x.";
    Round: "round", 0.0, "Nearest integer, ties to even.";
    Trunc: "trunc", 0.0, "Integer part.";
    Exp2: "exp2", 1.0, "2^x.";
    Expm1: "expm1", 1.5, "e^x - 1.";
    Log2: "log2", 1.5, "Logarithm to base 2.";
    Log10: "log10", 2.0, "Logarithm to base 10.";
    Log1p: "log1p", 2.0, "ln(1 + x).";
    Tan: "tan", 4.0, "Tangent of radians.";
    Asin: "asin", 3.0, "Arc sine; NaN beyond ±1.";
    Acos: "acos", 3.0, "Arc cosine; NaN beyond ±1.";
    Atan: "atan", 2.5, "Arc tangent.";
    Sinh: "sinh", 3.0, "Hyperbolic sine.";
    Cosh: "cosh", 2.5, "Hyperbolic cosine.";
    Asinh: "asinh", 3.5, "Inverse hyperbolic sine.";
    Acosh: "acosh", 3.5, "Inverse hyperbolic cosine; NaN below 1.";
    Atanh: "atanh", 3.0, "Inverse hyperbolic tangent; NaN beyond ±1.";
    Erfc: "erfc", 5.0, "Complementary error function 1 - erf x.";
    Not: "not", 0.0, "1 where x is 0, else 0.";
    IsNan: "is_nan", 0.0, "1 where x is NaN, else 0.";
    IsInf: "is_inf", 0.0, "1 where x is infinite, else 0.";
    IsFinite: "is_finite", 0.0, "1 where x is finite, else 0.";
    BitNot: "bit_not", 0.0, "The bits that x has not; of integers.";
}

functions! {
    /// Functions of two elements.
    BinaryOp, 26 from 96;
    Add: "add", 0.5, "a + b.";
    Sub: "sub", 0.5, "a - b.";
    Mul: "mul", 0.5, "a · b.";
    Div: "div", 0.5, "a / b; of integers towards zero, and 0 where b is.";
    Max: "max", 0.0, "The larger; NaN if either is.";
    Min: "min", 0.0, "The smaller; NaN if either is.";
    Pow: "pow", 1.5, "a^b, with the special values of IEEE 754: a^0 and 1^b are 1.";
    Remainder: "remainder", 0.5, "a - floor(a / b) b, with b's sign, as numpy's; of integers 0 where b is.";
    Fmod: "fmod", 0.0, "a - trunc(a / b) b, with a's sign, as C's; of integers 0 where b is.";
    Atan2: "atan2", 3.0, "Angle of the point (b, a), in -π..π.";
    Hypot: "hypot", 1.1, "√(a² + b²) without overflow on the way.";
    CopySign: "copysign", 0.0, "|a| with b's sign.";
    Eq: "eq", 0.0, "1 where a = b, else 0; so are the other comparisons.";
    Ne: "ne", 0.0, "a ≠ b, true for NaN.";
    Lt: "lt", 0.0, "a < b.";
    Le: "le", 0.0, "a ≤ b.";
    Gt: "gt", 0.0, "a > b.";
    Ge: "ge", 0.0, "a ≥ b.";
    And: "and", 0.0, "Neither is 0.";
    Or: "or", 0.0, "Not both are 0.";
    Xor: "xor", 0.0, "One of them is 0.";
    BitAnd: "bit_and", 0.0, "Bits that both have; this and the following of integers.";
    BitOr: "bit_or", 0.0, "Bits that one of them has.";
    BitXor: "bit_xor", 0.0, "Bits that one of them has and the other has not.";
    ShiftLeft: "shift_left", 0.0, "a · 2^b, which wraps; 0 for b below 0 or as large as a's bits are many.";
    ShiftRight: "shift_right", 0.0, "a / 2^b, rounded down; -1 or 0 for such b.";
}

functions! {
    /// Gradients: dx = f'(x) dy. Errors are in ulp of the larger of the result and the terms that f' is
    /// a sum of, times |dy|.
    GradOp, 6 from 160;
    Relu: "relu", 0.5, "Of max(x, 0): 0 at 0.";
    Gelu: "gelu", 6.5, "Of x Φ(x).";
    GeluTanh: "gelu_tanh", 12.5, "Of gelu's approximation by tanh.";
    Silu: "silu", 8.5, "Of x sigmoid(x).";
    Sigmoid: "sigmoid", 5.0, "Of 1 / (1 + e^-x).";
    Tanh: "tanh", 6.5, "Of the hyperbolic tangent.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_numbers_of_their_own() {
        let mut seen = [false; 256];
        let unary = UnaryOp::ALL.iter().map(|op| op.code());
        let binary = BinaryOp::ALL.iter().map(|op| op.code());
        let grad = GradOp::ALL.iter().map(|op| op.code());
        for code in unary.chain(binary).chain(grad).chain(0..16) {
            assert!(!seen[code as usize], "{code}");
            seen[code as usize] = true;
        }
    }
}
