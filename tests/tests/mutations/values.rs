//! Operands as bytes and as exact values, and comparison of results with references.

use abi::DType;
use half::bf16;
use ndarray::{ArrayD, IxDyn};
use warpsmith_reference::{Expected, precision::round_to};
use warpsmith_tests::values::Values;

/// A tensor as the kernel reads it, and as the reference does.
pub(crate) struct Operand {
    pub(crate) bytes: Vec<u8>,
    pub(crate) exact: ArrayD<f64>,
}

impl Operand {
    /// Contiguous elements of `dtype`, the last dimension innermost.
    pub(crate) fn draw(dtype: DType, values: Values, shape: &[usize], seed: u64) -> Self {
        let exact = values.draw(shape, seed).mapv(|x| round_to(dtype, x));
        let bytes = exact.iter().flat_map(|x| to_bytes(dtype, *x)).collect();
        Self { bytes, exact }
    }
}

/// The initial bytes of an output: NaN in every float format.
pub(crate) fn poison(dtype: DType, elements: usize) -> Vec<u8> {
    vec![0xff; elements * dtype.size_bytes()]
}

/// Compares a result with the expected values.
pub(crate) fn hold(bytes: &[u8], expected: &Expected) -> Result<(), String> {
    let values = from_bytes(expected.dtype, bytes);
    let got = ArrayD::from_shape_vec(IxDyn(expected.values.shape()), values)
        .map_err(|error| error.to_string())?;
    match expected.compare(&got.view()) {
        Ok(_) => Ok(()),
        Err(mismatch) => Err(mismatch.to_string()),
    }
}

fn to_bytes(dtype: DType, x: f64) -> Vec<u8> {
    match dtype {
        DType::F32 => (x as f32).to_le_bytes().to_vec(),
        DType::Bf16 => bf16::from_f64(x).to_le_bytes().to_vec(),
        other => panic!("no kernel of these tests has {other}"),
    }
}

fn from_bytes(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        DType::F32 => {
            let words = bytes.chunks_exact(4);
            words
                .map(|w| f64::from(f32::from_le_bytes([w[0], w[1], w[2], w[3]])))
                .collect()
        }
        DType::Bf16 => {
            let halves = bytes.chunks_exact(2);
            halves
                .map(|h| bf16::from_le_bytes([h[0], h[1]]).to_f64())
                .collect()
        }
        other => panic!("no kernel of these tests has {other}"),
    }
}
