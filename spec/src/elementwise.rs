//! Elementwise operations over strided tensors of rank up to [`MAX_RANK`], with broadcasting by
//! stride 0.

/// Most dimensions a launch handles, after the host has merged those it can.
pub const MAX_RANK: usize = 8;

/// Extents and strides of a launch with up to three tensors: the output first, then the inputs.
/// Dimensions are outermost first; unused leading ones have extent 1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ElementwiseParams {
    /// Elements of the output.
    pub len: u64,
    /// 1 where all tensors are contiguous in the same order: index = offset.
    pub contiguous: u32,
    /// Dimensions in use, counted from the end.
    pub rank: u32,
    /// Extents.
    pub shape: [u64; MAX_RANK],
    /// Element strides of the output, then of the inputs.
    pub strides: [[i64; MAX_RANK]; 3],
    /// A scalar operand, for operations that take one.
    pub scalar: f32,
    /// Keeps the size a multiple of the alignment.
    pub reserved: u32,
}
