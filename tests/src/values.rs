//! The values of operands.

use ndarray::ArrayD;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use warpsmith::DType;

/// The distribution from which the elements of an operand are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// Uniform in -1..1.
    #[default]
    Uniform,
    /// Standard normal, like activations.
    Normal,
    /// Integers from -4 to 4: sums of a few thousand products are exact in f32.
    Integers,
    /// Every magnitude from 2^-12 to 2^12, both signs.
    Wide,
    /// As `Uniform`, with zeros of both signs and denormals of each format among them.
    Tiny,
    /// As `Uniform`, shifted by a thousand.
    Far,
    /// As `Uniform`, with NaN, both infinities and zeros of both signs among them.
    Special,
}

impl Values {
    /// Any distribution; special values less often than the others together.
    pub fn any() -> impl Strategy<Value = Self> {
        prop_oneof![4 => Self::finite(), 1 => Just(Self::Special)]
    }

    /// The distributions without NaN and infinity.
    pub fn finite() -> impl Strategy<Value = Self> {
        prop_oneof![
            Just(Self::Uniform),
            Just(Self::Integers),
            Just(Self::Wide),
            Just(Self::Tiny)
        ]
    }

    /// These for numbers with a fraction, else [`Integers`](Self::Integers): others may be the poison of
    /// outputs.
    pub fn of_moved(self, dtype: DType) -> Self {
        match dtype {
            DType::F64 | DType::F32 | DType::F16 | DType::Bf16 => self,
            DType::E4m3 | DType::E5m2 => self,
            _ => Self::Integers,
        }
    }

    /// Draws an array; the same seed gives the same values.
    pub fn draw(self, shape: &[usize], seed: u64) -> ArrayD<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        ArrayD::from_shape_simple_fn(shape, || self.one(&mut rng))
    }

    fn one(self, rng: &mut ChaCha8Rng) -> f64 {
        let uniform = rng.random_range(-1.0..1.0);
        match self {
            Self::Uniform => uniform,
            // Box-Muller transform; the argument of the logarithm must be above 0.
            Self::Normal => {
                let radius = (-2.0 * (1.0 - rng.random_range(0.0..1.0_f64)).ln()).sqrt();
                radius * (std::f64::consts::PI * uniform).cos()
            }
            Self::Far => 1000.0 + uniform,
            Self::Integers => f64::from(rng.random_range(-4..=4)),
            Self::Wide => uniform * 2f64.powi(rng.random_range(-12..=12)),
            Self::Tiny => match rng.random_range(0..8) {
                0 => 0.0,
                1 => -0.0,
                2 => uniform * 2f64.powi(-127),
                3 => uniform * 2f64.powi(-15),
                4 => uniform * 2f64.powi(-140),
                _ => uniform,
            },
            Self::Special => match rng.random_range(0..40) {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => f64::NEG_INFINITY,
                3 => -0.0,
                4 => 0.0,
                _ => uniform,
            },
        }
    }
}
