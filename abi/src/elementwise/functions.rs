//! The elementwise functions: names, codes and error bounds.

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

            /// Its code, which is unique among all functions.
            pub const fn code(self) -> u32 {
                $first + self as u32
            }

            /// Largest error of the f32 result before it is rounded to the output; 0 if it is
            /// exact. In ulp of the exact result, or of the smallest normal number if that is
            /// subnormal.
            pub const fn ulps(self) -> f32 {
                match self {
                    $(Self::$variant => $ulps,)*
                }
            }
        }
    };
}

functions! {
    /// Elementwise functions of one tensor.
    UnaryOp, 44 from 16;
    Neg: "neg", 0.0, "-x.";
    Abs: "abs", 0.0, "|x|.";
    Exp: "exp", 1.1, "e^x.";
    Log: "log", 1.0, "Natural logarithm.";
    Sqrt: "sqrt", 0.5, "Square root.";
    Rsqrt: "rsqrt", 1.5, "1 / square root.";
    Rcp: "rcp", 0.5, "1 / x.";
    Relu: "relu", 0.0, "max(x, 0); NaN stays NaN.";
    Gelu: "gelu", 5.0, "x Φ(x), with the standard normal cumulative distribution function Φ; 0 at -inf.";
    GeluTanh: "gelu_tanh", 6.0, "0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))); 0 at -inf.";
    Silu: "silu", 5.0, "x sigmoid(x); 0 at -inf.";
    Sigmoid: "sigmoid", 3.0, "1 / (1 + e^-x).";
    Tanh: "tanh", 2.0, "Hyperbolic tangent.";
    Sin: "sin", 2.0, "Sine of x in radians.";
    Cos: "cos", 2.0, "Cosine of x in radians.";
    Erf: "erf", 2.0, "Error function.";
    Square: "square", 0.5, "x².";
    Scale: "scale", 0.5, "`scalar` · x.";
    Offset: "offset", 0.5, "x + `scalar`.";
    Sign: "sign", 0.0, "Sign of x: -1, 0 or 1; zeros keep their sign, and NaN stays NaN.";
    Floor: "floor", 0.0, "Largest integer that is not greater than x.";
    Ceil: "ceil", 0.0, "Smallest integer that is not less than x.";
    Round: "round", 0.0, "Nearest integer, ties to even.";
    Trunc: "trunc", 0.0, "Integer part of x: rounded towards zero.";
    Exp2: "exp2", 1.0, "2^x.";
    Expm1: "expm1", 1.5, "e^x - 1.";
    Log2: "log2", 1.5, "Logarithm to base 2.";
    Log10: "log10", 2.0, "Logarithm to base 10.";
    Log1p: "log1p", 2.0, "ln(1 + x).";
    Tan: "tan", 4.0, "Tangent of x in radians.";
    Asin: "asin", 3.0, "Arc sine; NaN outside of -1..1.";
    Acos: "acos", 3.0, "Arc cosine; NaN outside of -1..1.";
    Atan: "atan", 2.5, "Arc tangent.";
    Sinh: "sinh", 3.0, "Hyperbolic sine.";
    Cosh: "cosh", 2.5, "Hyperbolic cosine.";
    Asinh: "asinh", 3.5, "Inverse hyperbolic sine.";
    Acosh: "acosh", 3.5, "Inverse hyperbolic cosine; NaN for x < 1.";
    Atanh: "atanh", 3.0, "Inverse hyperbolic tangent; NaN outside of -1..1.";
    Erfc: "erfc", 5.0, "Complementary error function, 1 - erf(x).";
    Not: "not", 0.0, "1 if x is 0, else 0.";
    IsNan: "is_nan", 0.0, "1 if x is NaN, else 0.";
    IsInf: "is_inf", 0.0, "1 if x is infinite, else 0.";
    IsFinite: "is_finite", 0.0, "1 if x is finite, else 0.";
    BitNot: "bit_not", 0.0, "Bitwise complement; integers only.";
}

functions! {
    /// Elementwise functions of two tensors.
    BinaryOp, 26 from 96;
    Add: "add", 0.5, "a + b.";
    Sub: "sub", 0.5, "a - b.";
    Mul: "mul", 0.5, "a · b.";
    Div: "div", 0.5, "a / b; for integers rounded towards zero, and 0 if b is 0.";
    Max: "max", 0.0, "Maximum; NaN if either is NaN.";
    Min: "min", 0.0, "Minimum; NaN if either is NaN.";
    Pow: "pow", 1.5, "a^b, with the special values of IEEE 754: a^0 and 1^b are 1.";
    Remainder: "remainder", 0.5, "a - floor(a / b) b, with the sign of b, like NumPy's; for integers 0 if b is 0.";
    Fmod: "fmod", 0.0, "a - trunc(a / b) b, with the sign of a, like C's; for integers 0 if b is 0.";
    Atan2: "atan2", 3.0, "Angle of the point (b, a) in radians, in -π..π.";
    Hypot: "hypot", 1.1, "√(a² + b²) without intermediate overflow.";
    CopySign: "copysign", 0.0, "|a| with the sign of b.";
    Eq: "eq", 0.0, "1 if a = b, else 0; the other comparisons likewise.";
    Ne: "ne", 0.0, "a ≠ b; 1 if either is NaN.";
    Lt: "lt", 0.0, "a < b.";
    Le: "le", 0.0, "a ≤ b.";
    Gt: "gt", 0.0, "a > b.";
    Ge: "ge", 0.0, "a ≥ b.";
    And: "and", 0.0, "Logical and: 1 if neither is 0, else 0.";
    Or: "or", 0.0, "Logical or: 1 if not both are 0, else 0.";
    Xor: "xor", 0.0, "Logical exclusive or: 1 if exactly one is 0, else 0.";
    BitAnd: "bit_and", 0.0, "Bitwise and; integers only, like the following functions.";
    BitOr: "bit_or", 0.0, "Bitwise or.";
    BitXor: "bit_xor", 0.0, "Bitwise exclusive or.";
    ShiftLeft: "shift_left", 0.0, "Left shift of a by b bits; 0 if b is negative or at least the width of a.";
    ShiftRight: "shift_right", 0.0, "Arithmetic right shift of a by b bits; -1 or 0 for such b.";
}

functions! {
    /// Gradients, dx = f'(x) dy. Errors are in ulp of the larger of the result and the terms that f' is
    /// a sum of, times |dy|.
    GradOp, 6 from 160;
    Relu: "relu", 0.5, "Gradient of max(x, 0); 0 at x = 0.";
    Gelu: "gelu", 6.5, "Gradient of x Φ(x).";
    GeluTanh: "gelu_tanh", 12.5, "Gradient of the tanh approximation of gelu.";
    Silu: "silu", 8.5, "Gradient of x sigmoid(x).";
    Sigmoid: "sigmoid", 5.0, "Gradient of 1 / (1 + e^-x).";
    Tanh: "tanh", 6.5, "Gradient of the hyperbolic tangent.";
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
