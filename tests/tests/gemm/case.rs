//! Cases: every option of a GEMM, as read from tables and drawn at random.

use proptest::prelude::*;
use serde::{Deserialize, Deserializer};
use warpsmith::{Activation, DType};
use warpsmith_tests::operand::View;
use warpsmith_tests::operation;
use warpsmith_tests::property::extent;
use warpsmith_tests::values::Values;

/// One GEMM. Options that a table leaves out are absent, or as in a plain GEMM.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Batch sizes of `a` and of `b`; `None` is a single matrix.
    #[serde(default)]
    pub(crate) batch_a: Option<usize>,
    #[serde(default)]
    pub(crate) batch_b: Option<usize>,
    /// Dtype of `a`, and of `b` and `d` unless they have their own.
    #[serde(deserialize_with = "operation::dtype")]
    pub(crate) dtype: DType,
    #[serde(default, deserialize_with = "some_dtype")]
    pub(crate) dtype_b: Option<DType>,
    #[serde(default, deserialize_with = "some_dtype")]
    pub(crate) dtype_d: Option<DType>,
    /// Rounded to f32, except beside f64.
    #[serde(default = "one")]
    pub(crate) alpha: f64,
    #[serde(default)]
    pub(crate) beta: f64,
    /// Whether alpha and beta are read from device memory.
    #[serde(default)]
    pub(crate) device_scalars: bool,
    /// Scales of `a` or the rows, and of `b` or the columns.
    #[serde(default)]
    pub(crate) scales: [Scale; 2],
    #[serde(default)]
    pub(crate) bias: Option<Axis>,
    /// Whether each matrix of the batch has its own bias.
    #[serde(default)]
    pub(crate) bias_batched: bool,
    #[serde(default, deserialize_with = "activation")]
    pub(crate) activation: Activation,
    #[serde(default)]
    pub(crate) residual: bool,
    /// Whether `d` is `c`, or the residual if there is one.
    #[serde(default)]
    pub(crate) in_place: bool,
    #[serde(default)]
    pub(crate) tf32: bool,
    #[serde(default)]
    pub(crate) fast_accumulation: bool,
    #[serde(default)]
    pub(crate) split_k: Option<u32>,
    /// Views of a, b, c and d; the residual has c's.
    #[serde(default)]
    pub(crate) views: [View; 4],
    #[serde(default)]
    pub(crate) values: Values,
    /// All operands but the factors are multiplied by two to this.
    #[serde(default)]
    pub(crate) exponent: i32,
    #[serde(default)]
    pub(crate) seed: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scale {
    #[default]
    None,
    Host,
    Device,
    Each,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Axis {
    Row,
    Column,
}

fn one() -> f64 {
    1.0
}

fn some_dtype<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DType>, D::Error> {
    operation::dtype(deserializer).map(Some)
}

fn activation<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Activation, D::Error> {
    let name = String::deserialize(deserializer)?;
    let found = Activation::ALL
        .into_iter()
        .find(|activation| activation.to_string() == name);
    found.ok_or_else(|| serde::de::Error::custom(format!("no activation is called `{name}`")))
}

impl Case {
    /// Dtypes of a, b and d.
    pub(crate) fn dtypes(&self) -> (DType, DType, DType) {
        let b = self.dtype_b.unwrap_or(self.dtype);
        (self.dtype, b, self.dtype_d.unwrap_or(self.dtype))
    }

    pub(crate) fn batch(&self) -> Option<usize> {
        match (self.batch_a, self.batch_b) {
            (Some(a), Some(b)) => Some(if a == 1 { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}

/// Pairs of operand dtypes that can be multiplied.
const INPUTS: [(DType, DType); 7] = [
    (DType::F32, DType::F32),
    (DType::F16, DType::F16),
    (DType::Bf16, DType::Bf16),
    (DType::E4m3, DType::E4m3),
    (DType::E4m3, DType::E5m2),
    (DType::E5m2, DType::E4m3),
    (DType::E5m2, DType::E5m2),
];

/// Any GEMM with extents up to `largest`.
pub(crate) fn products(largest: usize) -> impl Strategy<Value = Case> {
    let batch = || prop_oneof![3 => Just(None), 1 => Just(Some(1))];
    let shape = (
        (extent(largest), extent(largest), extent(largest)),
        (batch(), batch(), prop::option::weighted(0.3, 0..4_usize)),
    );
    let outputs = vec![DType::F32, DType::F16, DType::Bf16];
    let dtypes = (
        prop::sample::select(INPUTS.to_vec()),
        prop::sample::select(outputs),
        any::<(bool, bool)>(),
        prop::option::weighted(0.2, 1..6_u32),
    );
    let views = (View::any(), View::any(), View::any(), View::writable());
    let values = (Values::any(), any::<u32>());
    (shape, dtypes, views, epilogue(), values).prop_map(
        |(
            ((m, n, k), (a, b, batch)),
            ((dtype, dtype_b), dtype_d, (tf32, fast_accumulation), split_k),
            views,
            epilogue,
            (values, seed),
        )| Case {
            m,
            n,
            k,
            // Operands with a batch of 1, or without a batch, are broadcast.
            batch_a: if a.is_none() { batch } else { a },
            batch_b: match b {
                None => batch.filter(|_| seed % 2 == 0),
                one => one,
            },
            dtype,
            dtype_b: Some(dtype_b),
            dtype_d: Some(dtype_d),
            tf32,
            fast_accumulation,
            split_k: split_k.filter(|&parts| parts as usize <= k),
            views: [views.0, views.1, views.2, views.3],
            values,
            seed: u64::from(seed),
            ..epilogue
        },
    )
}

/// Any epilogue; the rest of the GEMM is filled in later.
fn epilogue() -> impl Strategy<Value = Case> {
    let scalar = || prop::sample::select(vec![0.0, 1.0, -1.0, 0.5, 2.0]);
    let scale = || {
        prop_oneof![
            3 => Just(Scale::None),
            1 => Just(Scale::Host),
            1 => Just(Scale::Device),
            1 => Just(Scale::Each),
        ]
    };
    let bias = prop_oneof![
        2 => Just(None),
        1 => Just(Some(Axis::Row)),
        1 => Just(Some(Axis::Column)),
    ];
    let activation = prop_oneof![
        1 => Just(Activation::Identity),
        1 => prop::sample::select(Activation::ALL.to_vec()),
    ];
    let plain = prop::bool::weighted(0.25);
    (
        (scalar(), scalar(), any::<bool>(), plain),
        (scale(), scale()),
        (bias, any::<bool>()),
        (activation, any::<bool>(), any::<bool>()),
    )
        .prop_map(
            |((alpha, beta, on_device, plain), scales, bias, (activation, residual, in_place))| {
                let base = Case { alpha, ..nothing() };
                if plain {
                    return base;
                }
                Case {
                    beta,
                    device_scalars: on_device,
                    scales: [scales.0, scales.1],
                    bias: bias.0,
                    bias_batched: bias.1,
                    activation,
                    residual,
                    in_place,
                    ..base
                }
            },
        )
}

/// A case without extents and options.
pub(crate) fn nothing() -> Case {
    Case {
        m: 0,
        n: 0,
        k: 0,
        batch_a: None,
        batch_b: None,
        dtype: DType::F32,
        dtype_b: None,
        dtype_d: None,
        alpha: 1.0,
        beta: 0.0,
        device_scalars: false,
        scales: [Scale::None; 2],
        bias: None,
        bias_batched: false,
        activation: Activation::Identity,
        residual: false,
        in_place: false,
        tf32: false,
        fast_accumulation: false,
        split_k: None,
        views: [View::Contiguous; 4],
        values: Values::Uniform,
        exponent: 0,
        seed: 0,
    }
}

/// Views of A, B, C and D, of every order of elements and alignment that kernels tell apart.
pub(crate) fn every_layout() -> impl Iterator<Item = [View; 4]> {
    use View::{Aligned, AlignedColumns, Padded, PaddedColumns, Reversed, Sliced};
    let of_b = [Aligned, AlignedColumns, Padded, Sliced, Reversed];
    [Aligned, AlignedColumns, Padded, PaddedColumns]
        .into_iter()
        .flat_map(move |a| of_b.map(|b| [a, b, Padded, PaddedColumns]))
}
