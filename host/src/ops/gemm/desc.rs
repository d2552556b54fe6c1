//! Description of a GEMM: everything that the choice of a kernel may depend on, without addresses
//! and values.

use super::options::Precision;
use super::shape::MatrixLayout;
use abi::DType;
use abi::gemm::{Activation, Transpose};
use std::fmt;

/// A validated GEMM with a row-major D. It is all that the families of kernels look at, and the key
/// of plans and of tuned choices: equal descriptions are computed by the same kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct GemmDesc {
    /// Rows of D, at least 1.
    pub(super) m: u32,
    /// Columns of D, at least 1.
    pub(super) n: u32,
    /// Reduction length; may be 0, and then A and B have no elements.
    pub(super) k: u32,
    /// Batch size, at least 1.
    pub(super) batch: u32,
    /// `[m, k]` (`N`) or `[k, m]` (`T`).
    pub(super) a: MatrixDesc,
    /// `[k, n]` (`N`) or `[n, k]` (`T`).
    pub(super) b: MatrixDesc,
    /// Always `N`.
    pub(super) d: MatrixDesc,
    /// Always `N`; absent if `beta` is known on the host to be 0.
    pub(super) c: Option<MatrixDesc>,
    /// Always `N`.
    pub(super) residual: Option<MatrixDesc>,
    /// Contiguous, in D's dtype.
    pub(super) bias: Option<BiasAxis>,
    /// Contiguous f32.
    pub(super) row_scale: Option<ScaleExtent>,
    /// Contiguous f32.
    pub(super) column_scale: Option<ScaleExtent>,
    /// Activation function of the epilogue.
    pub(super) activation: Activation,
    /// Whether alpha or beta is read from device memory.
    pub(super) device_scalars: bool,
    /// For f32 operands.
    pub(super) precision: Precision,
    /// For fp8 operands: accumulate in the tensor cores over all of k.
    pub(super) fast_accumulation: bool,
    /// Whether the result must have the same bits every run.
    pub(super) deterministic: bool,
    /// Whether a row of D must have the same bits whatever the other rows and their number are.
    pub(super) batch_invariant: bool,
    /// Requested number of parts of k; 0 leaves it to the kernel.
    pub(super) split_k: u32,
}

/// One matrix: `rows` of contiguous elements, `ld` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MatrixDesc {
    /// Element type.
    pub(super) dtype: DType,
    /// Whether it is stored transposed.
    pub(super) transpose: Transpose,
    /// Leading dimension: elements between rows as stored; may be 0 or negative.
    pub(super) ld: i64,
    /// Elements between matrices of the batch; 0 broadcasts one matrix.
    pub(super) batch_stride: i64,
    /// Largest power of two, up to 32, that divides the address of the first element.
    pub(super) align_bytes: u32,
}

impl MatrixDesc {
    /// Largest value of [`align_bytes`](Self::align_bytes). No kernel needs more, and tensors whose
    /// addresses differ beyond that have the same plan and the same tuned choice.
    pub(super) const MOST_ALIGN_BYTES: u32 = 128;

    pub(super) fn new(dtype: DType, layout: MatrixLayout, align_bytes: u32) -> Self {
        let MatrixLayout {
            transpose,
            ld,
            batch_stride,
        } = layout;
        Self {
            dtype,
            transpose,
            ld,
            batch_stride,
            align_bytes,
        }
    }

    /// Lines, and elements of each, of a matrix of `[rows, columns]` as it is stored.
    pub(super) fn stored(&self, [rows, columns]: [u32; 2]) -> [u32; 2] {
        match self.transpose {
            Transpose::N => [rows, columns],
            Transpose::T => [columns, rows],
        }
    }

    /// Largest power of two, up to [`MOST_ALIGN_BYTES`](Self::MOST_ALIGN_BYTES), that divides the address of every row.
    pub(super) fn row_align_bytes(&self) -> u32 {
        let size = self.dtype.size_bytes() as i64;
        let both = (self.ld | self.batch_stride).wrapping_mul(size);
        let of_strides = 1
            << both
                .trailing_zeros()
                .min(Self::MOST_ALIGN_BYTES.trailing_zeros());
        self.align_bytes.min(of_strides)
    }

    /// Whether its rows are aligned to 32 bytes, which L2 reads at once.
    pub(super) fn rows_are_aligned(&self) -> bool {
        self.row_align_bytes() >= 32
    }

    /// Whether a tensor map can describe it: its rows are aligned to 16 bytes, and strides are
    /// positive (that of a broadcast batch may be 0).
    pub(super) fn suits_tensor_map(&self) -> bool {
        self.row_align_bytes() >= 16 && self.ld > 0 && self.batch_stride >= 0
    }
}

/// An operand that is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    A,
    B,
}

impl Side {
    pub(super) const BOTH: [Self; 2] = [Self::A, Self::B];

    /// How it is stored if k is contiguous.
    pub(super) fn k_major(self) -> Transpose {
        match self {
            Self::A => Transpose::N,
            Self::B => Transpose::T,
        }
    }
}

/// Which elements of D share an element of the bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum BiasAxis {
    /// Those of a row: the bias is `[m]`.
    Row,
    /// Those of a column: the bias is `[n]`.
    Column,
}

impl BiasAxis {
    /// The axis in the transposed GEMM.
    pub(super) fn transposed(self) -> Self {
        match self {
            Self::Row => Self::Column,
            Self::Column => Self::Row,
        }
    }
}

/// Number of factors of a row or column scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ScaleExtent {
    /// One factor for the whole matrix.
    One,
    /// One factor per row or column.
    Each,
}

impl GemmDesc {
    /// True where tensor maps can describe A and B, and tensor copies reach all of A, B and D.
    /// Coordinates have 32 bits and a sign. Beyond the operand a copy gives zeros, or stores
    /// nothing.
    pub(super) fn suits_tensor_maps(&self) -> bool {
        const REACH: u32 = 1 << 31;
        self.a.suits_tensor_map()
            && self.b.suits_tensor_map()
            && [self.m, self.n, self.k, self.batch]
                .iter()
                .all(|&extent| extent <= REACH)
    }

    /// Whether rows of both operands are aligned to 32 bytes, which L2 reads at once.
    pub(super) fn rows_are_aligned(&self) -> bool {
        self.a.rows_are_aligned() && self.b.rows_are_aligned()
    }

    pub(super) fn operand(&self, side: Side) -> &MatrixDesc {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }

    pub(super) fn operand_mut(&mut self, side: Side) -> &mut MatrixDesc {
        match side {
            Side::A => &mut self.a,
            Side::B => &mut self.b,
        }
    }

    /// Rows of A, or columns of B.
    pub(super) fn lines(&self, side: Side) -> u32 {
        match side {
            Side::A => self.m,
            Side::B => self.n,
        }
    }

    /// Bytes of the elements of an operand.
    pub(super) fn operand_bytes(&self, side: Side) -> f64 {
        self.matrix_bytes(self.operand(side), [self.lines(side), self.k])
    }

    /// Whether the epilogue has nothing but factors: scales and alpha.
    pub(super) fn is_scaled_product(&self) -> bool {
        self.c.is_none()
            && self.residual.is_none()
            && self.bias.is_none()
            && self.activation == Activation::Identity
    }

    /// Whether the epilogue has nothing but alpha.
    pub(super) fn is_product_alone(&self) -> bool {
        self.is_scaled_product() && self.row_scale.is_none() && self.column_scale.is_none()
    }

    /// Bytes that have to be moved between device memory and the multiprocessors at least once.
    pub(super) fn bytes(&self) -> f64 {
        let outputs = [Some(&self.d), self.c.as_ref(), self.residual.as_ref()];
        let of_outputs = outputs.into_iter().flatten();
        let of_outputs = of_outputs.map(|desc| self.matrix_bytes(desc, [self.m, self.n]));
        Side::BOTH
            .map(|side| self.operand_bytes(side))
            .iter()
            .sum::<f64>()
            + of_outputs.sum::<f64>()
    }

    fn matrix_bytes(&self, matrix: &MatrixDesc, [rows, columns]: [u32; 2]) -> f64 {
        let batch = if matrix.batch_stride == 0 {
            1
        } else {
            self.batch
        };
        let elements = f64::from(rows) * f64::from(columns) * f64::from(batch);
        elements * matrix.dtype.size_bytes() as f64
    }
}

impl fmt::Display for MatrixDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            dtype,
            transpose,
            ld,
            batch_stride,
            align_bytes,
        } = self;
        let letter = transpose.letter();
        write!(f, "{dtype}.{letter}.{ld}.{batch_stride}.{align_bytes}")
    }
}

/// All fields that differ from those of a plain GEMM. It is unique, and serves as the key in the
/// file of tuned choices.
impl fmt::Display for GemmDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { m, n, k, batch, .. } = self;
        write!(f, "m{m} n{n} k{k} batch{batch}")?;
        write!(f, " a={} b={} d={}", self.a, self.b, self.d)?;
        for (name, matrix) in [("c", &self.c), ("residual", &self.residual)] {
            if let Some(matrix) = matrix {
                write!(f, " {name}={matrix}")?;
            }
        }
        if let Some(axis) = self.bias {
            write!(f, " bias={axis:?}")?;
        }
        for (name, scale) in [("rows", self.row_scale), ("columns", self.column_scale)] {
            if let Some(extent) = scale {
                write!(f, " scale_{name}={extent:?}")?;
            }
        }
        if self.activation != Activation::Identity {
            write!(f, " {}", self.activation)?;
        }
        for (name, is_set) in [
            ("device_scalars", self.device_scalars),
            ("tf32", self.precision == Precision::Tf32),
            ("fast_accumulation", self.fast_accumulation),
            ("any_order", !self.deterministic),
            ("batch_invariant", self.batch_invariant),
        ] {
            if is_set {
                write!(f, " {name}")?;
            }
        }
        if self.split_k > 0 {
            write!(f, " split_k={}", self.split_k)?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A plain product by rows of matrices without gaps.
    pub(in crate::ops::gemm) fn plain(dtype: DType, m: u32, n: u32, k: u32) -> GemmDesc {
        let matrix = |ld| MatrixDesc {
            dtype,
            transpose: Transpose::N,
            ld: i64::from(ld),
            batch_stride: 0,
            align_bytes: MatrixDesc::MOST_ALIGN_BYTES,
        };
        GemmDesc {
            m,
            n,
            k,
            batch: 1,
            a: matrix(k),
            b: matrix(n),
            d: matrix(n),
            c: None,
            residual: None,
            bias: None,
            row_scale: None,
            column_scale: None,
            activation: Activation::Identity,
            device_scalars: false,
            precision: Precision::Full,
            fast_accumulation: false,
            deterministic: true,
            batch_invariant: false,
            split_k: 0,
        }
    }

    /// The same by weights `[n, k]`.
    pub(in crate::ops::gemm) fn weighted(dtype: DType, [m, n, k]: [u32; 3]) -> GemmDesc {
        let mut desc = plain(dtype, m, n, k);
        desc.b.transpose = Transpose::T;
        desc.b.ld = i64::from(k);
        desc
    }

    #[test]
    fn rows_are_aligned_as_address_and_strides_allow() {
        let desc = |ld, batch_stride, align_bytes| MatrixDesc {
            dtype: DType::Bf16,
            transpose: Transpose::N,
            ld,
            batch_stride,
            align_bytes,
        };
        assert_eq!(desc(64, 0, 16).row_align_bytes(), 16);
        assert_eq!(desc(64, 4, 16).row_align_bytes(), 8);
        assert_eq!(desc(63, 0, 16).row_align_bytes(), 2);
        assert_eq!(desc(0, 0, 16).row_align_bytes(), 16);
        assert_eq!(desc(64, 0, 4).row_align_bytes(), 4);
        assert!(!desc(-64, 0, 16).suits_tensor_map());
        assert!(desc(64, 128, 16).suits_tensor_map());
    }

    #[test]
    fn descriptions_that_differ_read_differently() {
        let plain = plain(DType::Bf16, 3, 4, 5);
        let others = [
            GemmDesc { k: 6, ..plain },
            GemmDesc {
                activation: Activation::Relu,
                ..plain
            },
            GemmDesc {
                bias: Some(BiasAxis::Row),
                ..plain
            },
            GemmDesc {
                bias: Some(BiasAxis::Column),
                ..plain
            },
            GemmDesc {
                c: Some(plain.d),
                ..plain
            },
            GemmDesc {
                residual: Some(plain.d),
                ..plain
            },
            GemmDesc {
                row_scale: Some(ScaleExtent::One),
                ..plain
            },
            GemmDesc {
                column_scale: Some(ScaleExtent::One),
                ..plain
            },
            GemmDesc {
                device_scalars: true,
                ..plain
            },
            GemmDesc {
                split_k: 2,
                ..plain
            },
            GemmDesc {
                deterministic: false,
                ..plain
            },
            GemmDesc {
                batch_invariant: true,
                ..plain
            },
        ];
        let mut seen: Vec<String> = others.iter().map(ToString::to_string).collect();
        seen.push(plain.to_string());
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), others.len() + 1);
    }
}
