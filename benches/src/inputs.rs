//! Random operands, normally distributed as activations and weights are.
//!
//! The operands' values determine how much power a kernel draws and, at the power limit, how fast
//! it runs. Zeros or small integers would make it look faster than it is.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use half::{bf16, f16};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use warpsmith::{Device, DeviceError, E4m3, Element, Error, Result, Stream, Tensor};

/// An element type of random operands.
pub trait Sample: Element {
    /// Rounds `x` to nearest.
    fn rounded(x: f32) -> Self;
    /// Its value.
    fn widened(self) -> f64;
}

macro_rules! samples {
    ($($ty:ty: $rounded:expr, $widened:expr;)*) => {$(
        impl Sample for $ty {
            fn rounded(x: f32) -> Self {
                $rounded(x)
            }

            fn widened(self) -> f64 {
                $widened(self)
            }
        }
    )*};
}

samples! {
    f64: with_low_bits, std::convert::identity;
    f32: std::convert::identity, f64::from;
    f16: f16::from_f32, f16::to_f64;
    bf16: bf16::from_f32, bf16::to_f64;
    E4m3: encode_e4m3, |x| f64::from(decode_e4m3(x));
    i8: quantised, f64::from;
    i32: nearest_integer, f64::from;
}

/// `x`; if it is not an integer, with the bits that f32 does not have. Zeros there would draw less
/// power.
fn with_low_bits(x: f32) -> f64 {
    const LOW_BITS: u64 = (1 << 29) - 1;
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15; // the golden ratio
    let exact = f64::from(x);
    if x.fract() == 0.0 || !x.is_finite() {
        return exact;
    }
    let mixed = u64::from(x.to_bits()).wrapping_mul(MIX) >> 32;
    f64::from_bits(exact.to_bits() | (mixed & LOW_BITS))
}

/// In steps of a thirty-second, as values of four standard deviations are quantised.
fn quantised(x: f32) -> i8 {
    (x * 32.0).round_ties_even() as i8
}

/// The nearest integer; of NaN the lowest, which stands for no result.
fn nearest_integer(x: f32) -> i32 {
    if x.is_nan() {
        i32::MIN
    } else {
        x.round_ties_even() as i32
    }
}

/// Rounds to nearest, ties to even; values that are too large saturate.
fn encode_e4m3(x: f32) -> E4m3 {
    let sign = (x.to_bits() >> 24) as u8 & 0x80;
    let bits = x.abs().to_bits();
    let code = match x.abs() {
        magnitude if magnitude.is_nan() => return E4m3(0x7f),
        // Subnormals are multiples of 2^-9; the eighth multiple is the smallest normal number.
        magnitude if magnitude < 2.0_f32.powi(-6) => (magnitude * 512.0).round_ties_even() as u32,
        // Three bits of mantissa are kept, and the exponents' biases are 127 and 7.
        _ => ((bits + 0x7_ffff + (bits >> 20 & 1)) >> 20) - ((127 - 7) << 3),
    };
    E4m3(sign | code.min(0x7e) as u8)
}

fn decode_e4m3(E4m3(code): E4m3) -> f32 {
    let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
    let mantissa = f32::from(code & 7);
    match i32::from(code >> 3 & 15) {
        _ if code & 0x7f == 0x7f => f32::NAN,
        0 => sign * mantissa * 2.0_f32.powi(-9),
        exponent => sign * (8.0 + mantissa) * 2.0_f32.powi(exponent - 10),
    }
}

/// The number of values from one generator. Each chunk has its own random stream, so that chunks
/// can be drawn in parallel, no two are equal, and the values do not depend on the number of
/// threads.
const CHUNK: usize = 1 << 16;

/// Draws `len` values from the standard normal distribution; the same seed gives the same values.
///
/// # Errors
/// [`DeviceError::OutOfHostMemory`]: a device may have memory for more than the host has.
pub fn normals<T: Sample>(len: usize, seed: u64) -> Result<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| {
        Error::Device(DeviceError::OutOfHostMemory {
            requested_bytes: (len as u64).saturating_mul(size_of::<T>() as u64),
        })
    })?;
    values.resize(len, T::default());
    let chunks = values.par_chunks_mut(CHUNK).enumerate();
    chunks.for_each(|(chunk_idx, chunk)| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(chunk_idx as u64);
        for value in chunk {
            *value = T::rounded(StandardNormal.sample(&mut rng));
        }
    });
    Ok(values)
}

/// A contiguous tensor of [`normals`].
///
/// # Errors
/// As [`normals`] and [`Tensor::from_slice`].
pub fn normal_tensor<T: Sample>(device: &Device, shape: &[usize], seed: u64) -> Result<Tensor<T>> {
    Tensor::from_slice(device, shape, &normals(shape.iter().product(), seed)?)
}

/// The given number of contiguous tensors with the same [`normals`], for launches to rotate
/// through.
///
/// # Errors
/// As [`normals`] and [`Tensor::from_slice`].
pub fn normal_copies<T: Sample>(
    stream: &Stream,
    shape: &[usize],
    seed: u64,
    copies: usize,
) -> Result<Vec<Tensor<T>>> {
    let values = drawn_before::<T>(shape.iter().product(), seed)?;
    let copy = |_| Tensor::from_slice(stream.device(), shape, &values);
    (0..copies).map(copy).collect()
}

/// Drawn values, with their type, number and seed.
type Drawn = ((TypeId, usize, u64), Rc<dyn Any>);

/// How many of them are cached: enough for the inputs of one case.
const KEPT: usize = 4;

thread_local! {
    /// The next case often wants the same in another shape, and to draw them takes a while.
    static DRAWN: RefCell<VecDeque<Drawn>> = const { RefCell::new(VecDeque::new()) };
}

/// As [`normals`], with recently drawn values from the cache.
fn drawn_before<T: Sample>(len: usize, seed: u64) -> Result<Rc<Vec<T>>> {
    let key = (TypeId::of::<T>(), len, seed);
    let kept = DRAWN.with_borrow(|drawn| {
        let found = drawn.iter().find(|(of, _)| *of == key);
        found.and_then(|(_, values)| Rc::clone(values).downcast().ok())
    });
    if let Some(kept) = kept {
        return Ok(kept);
    }
    let values = Rc::new(normals::<T>(len, seed)?);
    DRAWN.with_borrow_mut(|drawn| {
        drawn.truncate(KEPT - 1);
        drawn.push_front((key, Rc::clone(&values) as Rc<dyn Any>));
    });
    Ok(values)
}

/// The given number of contiguous, uninitialised tensors for results.
///
/// # Errors
/// As [`Tensor::empty`].
pub fn unwritten_copies<T: Element>(
    stream: &Stream,
    shape: &[usize],
    copies: usize,
) -> Result<Vec<Tensor<T>>> {
    (0..copies).map(|_| Tensor::empty(stream, shape)).collect()
}

/// The largest |x - y| divided by the largest |y|. If one of the values is not finite, it is
/// `f64::MAX`, which JSON can represent.
pub fn largest_difference<T: Sample>(x: &[T], y: &[T]) -> f64 {
    let pairs = x.par_chunks(CHUNK).zip(y.par_chunks(CHUNK));
    let of_chunk = |(x, y): (&[T], &[T])| {
        x.iter()
            .zip(y)
            .fold((0.0_f64, 0.0_f64), |(difference, largest), (&x, &y)| {
                let (x, y) = (x.widened(), y.widened());
                let apart = if x.is_finite() && y.is_finite() {
                    (x - y).abs()
                } else {
                    f64::INFINITY
                };
                (difference.max(apart), largest.max(y.abs()))
            })
    };
    let (difference, largest) = pairs
        .map(of_chunk)
        .reduce(|| (0.0, 0.0), |a, b| (a.0.max(b.0), a.1.max(b.1)));
    match difference {
        0.0 => 0.0,
        _ => (difference / largest).min(f64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normals_are_normal_repeatable_and_without_repeated_chunks() -> Result<()> {
        let values = normals::<f32>(4 * CHUNK, 7)?;
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let variance = values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32;
        assert!(
            mean.abs() < 0.01 && (variance - 1.0).abs() < 0.01,
            "{mean} {variance}"
        );
        assert_eq!(values, normals::<f32>(4 * CHUNK, 7)?);
        assert_ne!(values[..CHUNK], values[CHUNK..2 * CHUNK]);
        assert_ne!(values[..CHUNK], normals::<f32>(CHUNK, 8)?);
        Ok(())
    }

    #[test]
    fn more_than_the_host_has_memory_for_is_an_error() {
        let refused = normals::<f32>(1 << 50, 1);
        let Err(Error::Device(DeviceError::OutOfHostMemory { requested_bytes })) = refused else {
            panic!("{:?}", refused.map(|values| values.len()));
        };
        assert_eq!(requested_bytes, 1 << 52);
    }

    #[test]
    fn copies_are_of_what_was_asked_for_whether_drawn_before_or_not() -> Result<()> {
        let stream = Device::emulator()?.default_stream();
        for (len, seed) in [(6, 1), (6, 2), (6, 1), (4, 1), (3, 1), (2, 1), (6, 1)] {
            for copy in normal_copies::<f32>(&stream, &[len], seed, 2)? {
                assert_eq!(copy.to_vec()?, normals::<f32>(len, seed)?);
            }
            let [half] = &normal_copies::<f16>(&stream, &[len], seed, 1)?[..] else {
                panic!("one copy");
            };
            assert_eq!(half.to_vec()?, normals::<f16>(len, seed)?);
        }
        Ok(())
    }

    #[test]
    fn e4m3_rounds_as_the_reference_does() {
        use warpsmith::{DType, reference::precision::round_to};
        for code in (0..=u8::MAX).filter(|code| code & 0x7f != 0x7f) {
            let value = decode_e4m3(E4m3(code));
            assert_eq!(encode_e4m3(value), E4m3(code), "{value}");
            for x in [0.9999, 1.0001, 1.03125, 1.0625, 1.09375].map(|factor| value * factor) {
                let want = round_to(DType::E4m3, f64::from(x)) as f32;
                assert_eq!(decode_e4m3(encode_e4m3(x)), want, "{x}");
            }
        }
        assert!(decode_e4m3(encode_e4m3(f32::NAN)).is_nan());
    }

    #[test]
    fn a_difference_counts_against_the_largest_and_a_nan_is_the_most() {
        assert_eq!(largest_difference(&[1.0_f32, 8.0], &[1.0, 8.0]), 0.0);
        assert_eq!(largest_difference(&[2.0_f32, 8.0], &[1.0, 8.0]), 0.125);
        assert_eq!(largest_difference(&[f32::NAN, 8.0], &[1.0, 8.0]), f64::MAX);
        assert_eq!(largest_difference(&[1.0, 8.0], &[f32::NAN, 8.0]), f64::MAX);
    }
}
