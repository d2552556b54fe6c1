//! Elementwise operations over strided tensors of rank up to [`MAX_RANK`], with broadcasting by
//! stride 0.
//!
//! | entry | parameters |
//! |---|---|
//! | `unary_<op>_<dtype>` | `(x: *const T, y: *mut T, params: ElementwiseParams)` |
//! | `binary_<op>_<dtype>` | `(a: *const T, b: *const T, y: *mut T, params: ElementwiseParams)` |
//! | `cast_<from>_<to>` | `(x: *const From, y: *mut To, params: ElementwiseParams)` |
//! | `copy_b<8, 16, 32, 64>` | `(x: *const uN, y: *mut uN, params: ElementwiseParams)` |
//!
//! `<dtype>` is f32, f16 or bf16 ([`DTYPES`]). Arithmetic is in f32, rounded once to the output.
//! Blocks have [`THREADS`] threads; the grid is [`grid_blocks`] of the length, in x.
//! Elements of y must not overlap inputs, but y may be an input with the same strides.

use crate::DType;

/// Most dimensions a launch handles, after the host has merged those it can.
pub const MAX_RANK: usize = 8;

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Elements that a thread handles at once where all tensors are contiguous.
pub const VECTOR: u64 = 4;

/// Most blocks of a grid; they stride over the rest.
pub const MAX_BLOCKS: u32 = 4096;

/// Dtypes the arithmetic entries exist for.
pub const DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

/// Blocks of a launch over `len` elements; `len` 0 needs no launch.
pub const fn grid_blocks(len: u64) -> u32 {
    let blocks = len.div_ceil(THREADS as u64 * VECTOR);
    if blocks > MAX_BLOCKS as u64 {
        MAX_BLOCKS
    } else if blocks == 0 {
        1
    } else {
        blocks as u32
    }
}

/// Functions of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// -x.
    Neg,
    /// |x|.
    Abs,
    /// e^x.
    Exp,
    /// Natural logarithm.
    Log,
    /// Square root.
    Sqrt,
    /// 1 / square root.
    Rsqrt,
    /// 1 / x.
    Rcp,
    /// max(x, 0), NaN stays.
    Relu,
    /// x Φ(x), Φ the normal distribution function.
    Gelu,
    /// 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))).
    GeluTanh,
    /// x sigmoid(x).
    Silu,
    /// 1 / (1 + e^-x).
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// Sine of radians.
    Sin,
    /// Cosine of radians.
    Cos,
    /// Error function.
    Erf,
    /// x².
    Square,
    /// `scalar` · x.
    Scale,
    /// x + `scalar`.
    Offset,
}

impl UnaryOp {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Neg,
        Self::Abs,
        Self::Exp,
        Self::Log,
        Self::Sqrt,
        Self::Rsqrt,
        Self::Rcp,
        Self::Relu,
        Self::Gelu,
        Self::GeluTanh,
        Self::Silu,
        Self::Sigmoid,
        Self::Tanh,
        Self::Sin,
        Self::Cos,
        Self::Erf,
        Self::Square,
        Self::Scale,
        Self::Offset,
    ];

    /// Name in entry names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Neg => "neg",
            Self::Abs => "abs",
            Self::Exp => "exp",
            Self::Log => "log",
            Self::Sqrt => "sqrt",
            Self::Rsqrt => "rsqrt",
            Self::Rcp => "rcp",
            Self::Relu => "relu",
            Self::Gelu => "gelu",
            Self::GeluTanh => "gelu_tanh",
            Self::Silu => "silu",
            Self::Sigmoid => "sigmoid",
            Self::Tanh => "tanh",
            Self::Sin => "sin",
            Self::Cos => "cos",
            Self::Erf => "erf",
            Self::Square => "square",
            Self::Scale => "scale",
            Self::Offset => "offset",
        }
    }

    /// Entry for a dtype of [`DTYPES`].
    pub const fn entry(self, dtype: DType) -> UnaryEntry {
        UnaryEntry { op: self, dtype }
    }

    /// Largest error of the f32 result before it is rounded to the output, in ulp of the true
    /// result (of the least normal number below that); 0 where it is exact.
    pub const fn ulps(self) -> f32 {
        match self {
            Self::Neg | Self::Abs | Self::Relu => 0.0,
            Self::Sqrt | Self::Rcp | Self::Square | Self::Scale | Self::Offset => 0.5,
            Self::Log => 1.0,
            Self::Exp => 1.1,
            Self::Rsqrt => 1.5,
            Self::Tanh | Self::Sin | Self::Cos | Self::Erf => 2.0,
            Self::Sigmoid => 2.5,
            Self::Silu => 4.5,
            Self::Gelu => 5.0,
            Self::GeluTanh => 5.5,
        }
    }
}

/// Functions of two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// a + b.
    Add,
    /// a - b.
    Sub,
    /// a · b.
    Mul,
    /// a / b.
    Div,
    /// The larger; NaN if either is.
    Max,
    /// The smaller; NaN if either is.
    Min,
}

impl BinaryOp {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Add,
        Self::Sub,
        Self::Mul,
        Self::Div,
        Self::Max,
        Self::Min,
    ];

    /// Name in entry names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Sub => "sub",
            Self::Mul => "mul",
            Self::Div => "div",
            Self::Max => "max",
            Self::Min => "min",
        }
    }

    /// Entry for a dtype of [`DTYPES`].
    pub const fn entry(self, dtype: DType) -> BinaryEntry {
        BinaryEntry { op: self, dtype }
    }

    /// As [`UnaryOp::ulps`].
    pub const fn ulps(self) -> f32 {
        match self {
            Self::Add | Self::Sub | Self::Mul | Self::Div => 0.5,
            Self::Max | Self::Min => 0.0,
        }
    }
}

/// Names an entry: `unary_gelu_bf16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnaryEntry {
    /// The function.
    pub op: UnaryOp,
    /// Of input and output.
    pub dtype: DType,
}

impl core::fmt::Display for UnaryEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "unary_{}_{}", self.op.name(), self.dtype)
    }
}

/// Names an entry: `binary_add_f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BinaryEntry {
    /// The function.
    pub op: BinaryOp,
    /// Of inputs and output.
    pub dtype: DType,
}

impl core::fmt::Display for BinaryEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "binary_{}_{}", self.op.name(), self.dtype)
    }
}

/// Names an entry: `cast_f32_bf16`; the two dtypes differ and are of [`DTYPES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CastEntry {
    /// Of the input.
    pub from: DType,
    /// Of the output.
    pub to: DType,
}

impl core::fmt::Display for CastEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "cast_{}_{}", self.from, self.to)
    }
}

/// Names an entry: `copy_b32`, for elements of 1, 2, 4 or 8 bytes of any dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CopyEntry {
    /// Bytes of an element.
    pub size_bytes: usize,
}

impl core::fmt::Display for CopyEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "copy_b{}", self.size_bytes * 8)
    }
}

/// Extents and strides of a launch with up to three tensors: the output first, then the inputs.
/// Dimensions are outermost first; unused leading ones have extent 1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ElementwiseParams {
    /// Elements of the output.
    pub len: u64,
    /// 1 where all tensors are contiguous in the same order: index = offset; extents and strides
    /// are then not read.
    pub contiguous: u32,
    /// Dimensions in use, counted from the end.
    pub rank: u32,
    /// Extents.
    pub shape: [u64; MAX_RANK],
    /// Element strides of the output, then of the inputs.
    pub strides: [[i64; MAX_RANK]; 3],
    /// The scalar of [`UnaryOp::Scale`] and [`UnaryOp::Offset`]; others do not read it.
    pub scalar: f32,
    /// Keeps the size a multiple of the alignment.
    pub reserved: u32,
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn entry_names_are_as_documented() {
        assert_eq!(
            UnaryOp::GeluTanh.entry(DType::Bf16).to_string(),
            "unary_gelu_tanh_bf16"
        );
        assert_eq!(
            BinaryOp::Add.entry(DType::F32).to_string(),
            "binary_add_f32"
        );
        let cast = CastEntry {
            from: DType::F32,
            to: DType::F16,
        };
        assert_eq!(cast.to_string(), "cast_f32_f16");
        assert_eq!(CopyEntry { size_bytes: 8 }.to_string(), "copy_b64");
    }

    #[test]
    fn grids_cover_small_launches_and_are_capped() {
        for (len, want) in [(0, 1), (1, 1), (1024, 1), (1025, 2), (u64::MAX, MAX_BLOCKS)] {
            assert_eq!(grid_blocks(len), want, "len {len}");
        }
    }
}
