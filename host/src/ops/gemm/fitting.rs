//! Estimates of plain GEMMs by any constants, for the program that fits them.

use super::candidates::Candidate;
use super::desc::{GemmDesc, MatrixDesc};
use super::options::Precision;
use super::shape::MatrixLayout;
use crate::ops::plan::{self, Choice as _, MachineModel};
use crate::{DType, DeviceInfo};
use abi::gemm::{Activation, Transpose};

/// A GEMM of contiguous matrices without an epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GemmProblem {
    /// Type of A and B.
    pub input: DType,
    /// Type of D.
    pub output: DType,
    /// Whether A is stored as `[k, m]`, and B as `[n, k]`.
    pub transposed: [bool; 2],
    /// Number of products.
    pub batch: u32,
    /// Rows of D.
    pub m: u32,
    /// Columns of D.
    pub n: u32,
    /// Reduction length.
    pub k: u32,
    /// Precision of f32.
    pub precision: Precision,
    /// For 8-bit floats.
    pub fast_accumulation: bool,
}

impl GemmProblem {
    /// The names of all candidates on `device`, and their times in nanoseconds as `model` estimates
    /// them, the first choice first.
    pub fn estimates(&self, device: &DeviceInfo, model: &MachineModel) -> Vec<(String, f64)> {
        let all = plan::all(&self.description(), device, model);
        let named = |each: &Candidate| (each.to_string(), each.estimated_ns());
        all.iter().map(named).collect()
    }

    fn description(&self) -> GemmDesc {
        let &Self { m, n, k, batch, .. } = self;
        let matrix = |dtype, [lines, len]: [u32; 2], transpose| {
            let layout = MatrixLayout {
                transpose,
                ld: i64::from(len),
                batch_stride: match batch {
                    1 => 0,
                    _ => i64::from(lines) * i64::from(len),
                },
            };
            MatrixDesc::new(dtype, layout, MatrixDesc::MOST_ALIGN_BYTES)
        };
        let operand = |is_transposed: bool, [rows, columns]: [u32; 2]| match is_transposed {
            true => matrix(self.input, [columns, rows], Transpose::T),
            false => matrix(self.input, [rows, columns], Transpose::N),
        };
        let [trans_a, trans_b] = self.transposed;
        GemmDesc {
            m,
            n,
            k,
            batch,
            a: operand(trans_a, [m, k]),
            b: operand(trans_b, [k, n]),
            d: matrix(self.output, [m, n], Transpose::N),
            c: None,
            residual: None,
            bias: None,
            row_scale: None,
            column_scale: None,
            activation: Activation::Identity,
            device_scalars: false,
            precision: self.precision,
            fast_accumulation: self.fast_accumulation,
            deterministic: true,
            batch_invariant: false,
            split_k: 0,
        }
    }
}
