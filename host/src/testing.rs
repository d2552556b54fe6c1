//! Tests of kernels: run them on every device, and compare with f64.
//!
//! ```
//! use warpsmith::half::bf16;
//! use warpsmith::{Tensor, testing};
//! let x = testing::random::<f32>(1000, 1);
//! testing::on_every_device(|device| {
//!     let stream = device.default_stream();
//!     let narrow = Tensor::from_slice(device, &[1000], &x)?.cast::<bf16>(&stream)?;
//!     testing::assert_close(&narrow, |i| f64::from(x[i]))
//! });
//! ```

#[doc(hidden)]
pub use crate::capture::{Capture, Data, Launch, Link, Place, Recording, Step};

use crate::device::Device;
use crate::element::{Element, as_bytes};
use crate::error::{DeviceError, Error, Result};
use crate::launch::{KernelArgs, LaunchConfig};
use crate::load;
use crate::ops::Float;
use crate::stream::Stream;
use crate::tensor::Tensor;
use abi::DType;
use abi::entry::Entry;
use half::{bf16, f16};
use ndarray::ArrayD;
use warpsmith_reference::Expected;
use warpsmith_reference::precision::{ETA32, Format, gamma};

/// Runs `test` on each of [`devices`].
///
/// # Panics
/// If the test returns an error, with the device and the report; and as [`devices`].
#[track_caller]
pub fn on_every_device(test: impl Fn(&Device) -> Result<()>) {
    for device in devices() {
        if let Err(error) = test(&device) {
            panic!("on {device}:\n{error}");
        }
    }
}

/// `len` values of at least -1 and less than 1, the same for the same seed.
pub fn random<T: Float>(len: usize, seed: u64) -> Vec<T> {
    // SplitMix64: a counter, whose bits are mixed.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = seed.wrapping_mul(STEP);
    let mut next = || {
        state = state.wrapping_add(STEP);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        // 24 bits, which f32 holds.
        let unit = ((mixed ^ mixed >> 31) >> 40) as f32 / (1 << 24) as f32;
        T::from_f32(2.0 * unit - 1.0)
    };
    (0..len).map(|_| next()).collect()
}

/// What an element should be: its value in f64, and what the rounding errors of a correct kernel
/// grow with. A plain f64 is one term.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Want {
    value: f64,
    /// Sum of the magnitudes of the terms.
    magnitude: f64,
    terms: usize,
}

impl From<f64> for Want {
    fn from(value: f64) -> Self {
        sum([value])
    }
}

/// The sum of terms, which a kernel may add in any order. A term may be a product.
pub fn sum(terms: impl IntoIterator<Item = f64>) -> Want {
    let none = Want {
        value: 0.0,
        magnitude: 0.0,
        terms: 0,
    };
    terms.into_iter().fold(none, |sum, term| Want {
        value: sum.value + term,
        magnitude: sum.magnitude + term.abs(),
        terms: sum.terms + 1,
    })
}

impl Want {
    /// `f` of it, where `f` has no larger relative error than its argument: a root, a reciprocal, a
    /// product with a constant.
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        let value = f(self.value);
        // By how much the terms are larger than their sum.
        let ratio = match self.value == 0.0 {
            true => 1.0,
            false => self.magnitude / self.value.abs(),
        };
        Self {
            value,
            magnitude: value.abs() * ratio,
            terms: self.terms + 1,
        }
    }

    /// The largest error of a correct result before it is rounded to a dtype of less than 32 bits.
    /// It counts a rounding for each term and one more, in f32, or in f64 where the result is f64.
    fn error(self, dtype: DType) -> f64 {
        let roundings = self.terms + 1;
        match dtype {
            DType::F64 => roundings as f64 * 2.0_f64.powi(-52) * self.magnitude,
            _ if Format::of(dtype).is_none() => 0.0,
            _ => gamma(roundings) * self.magnitude + roundings as f64 * ETA32,
        }
    }
}

/// Compares a result with `want`, which gives each element by its index in row-major order. It
/// waits for the work that writes the result.
///
/// The largest error that is accepted follows from the dtype and from the number of terms: see
/// [`sum`]. Integers are accepted if they are equal.
///
/// # Errors
/// Those of reading the result, among them the faults of kernels that a GPU reports late.
///
/// # Panics
/// If an element is wrong. The message names the worst one.
#[track_caller]
pub fn assert_close<T: Element, W: Into<Want>>(
    got: &Tensor<T>,
    want: impl Fn(usize) -> W,
) -> Result<()> {
    let values: Vec<f64> = got.to_vec()?.into_iter().map(to_f64).collect();
    let wanted: Vec<Want> = (0..values.len()).map(|i| want(i).into()).collect();
    let array = |values: Vec<f64>| {
        ArrayD::from_shape_vec(got.shape(), values).map_err(|_| Error::Bug("a shape of its tensor"))
    };
    let errors = wanted.iter().map(|want| want.error(T::DTYPE)).collect();
    let exact = wanted.iter().map(|want| want.value).collect();
    let expected = Expected::rounded_to(T::DTYPE, array(exact)?, &array(errors)?)
        .map_err(|_| Error::Bug("two arrays of one shape"))?;
    if let Err(mismatch) = expected.compare(&array(values)?.view()) {
        panic!("{mismatch}");
    }
    Ok(())
}

/// The value in f64: exact, but for integers beyond 2^53.
fn to_f64<T: Element>(value: T) -> f64 {
    let values = [value];
    let bytes = as_bytes(&values);
    macro_rules! read {
        ($ty:ty) => {
            <$ty>::from_ne_bytes(bytes.try_into().unwrap_or_default())
        };
    }
    match T::DTYPE {
        DType::F64 => read!(f64),
        DType::F32 => read!(f32).into(),
        DType::F16 => f16::from_bits(read!(u16)).into(),
        DType::Bf16 => bf16::from_bits(read!(u16)).into(),
        DType::E4m3 => crate::E4m3(read!(u8)).to_f32().into(),
        DType::E5m2 => crate::E5m2(read!(u8)).to_f32().into(),
        DType::I8 => read!(i8).into(),
        DType::I16 => read!(i16).into(),
        DType::I32 => read!(i32).into(),
        DType::I64 => read!(i64) as f64,
        DType::U8 => read!(u8).into(),
        DType::U16 => read!(u16).into(),
        DType::U32 => read!(u32).into(),
        DType::U64 => read!(u64) as f64,
    }
}

/// The environment variable that selects the devices.
pub const VARIABLE: &str = "WARPSMITH_TEST_DEVICE";

/// The devices that a test runs on. [`VARIABLE`] selects them: `emulator`, `gpu`, or `all` for
/// both. If it is not set: the emulator, and the GPU if there is one.
///
/// # Panics
/// If a selected device does not exist, or an existing one cannot be used: a test must not pass
/// because it did not run.
pub fn devices() -> Vec<Device> {
    let asked = std::env::var(VARIABLE).ok();
    let names: &[&str] = match asked.as_deref() {
        Some("emulator") => &["emulator"],
        Some("gpu") => &["gpu"],
        Some("all") => &["emulator", "gpu"],
        Some(other) => panic!("{VARIABLE} is `{other}`, want emulator, gpu or all"),
        None => {
            let mut devices = Vec::new();
            if cfg!(feature = "emulator") {
                devices.push(open("emulator"));
            }
            match Device::gpu(0) {
                Ok(device) => devices.push(device),
                Err(
                    Error::Device(DeviceError::NoDriver { .. })
                    | Error::Device(DeviceError::NoDevice { .. }),
                ) => {}
                Err(error) => panic!("there is a GPU that cannot be used: {error}"),
            }
            return devices;
        }
    };
    names.iter().map(|name| open(name)).collect()
}

fn open(name: &str) -> Device {
    Device::from_name(name).unwrap_or_else(|error| panic!("{VARIABLE} wants `{name}`: {error}"))
}

/// Enqueues one launch of an entry, as operations do: `memory` is its pointers and tensor maps, and
/// `params` its parameter blocks.
///
/// # Errors
/// As [`Device::builtin_kernel`] and [`Kernel::launch`](crate::Kernel::launch).
///
/// # Safety
/// As [`Kernel::launch`](crate::Kernel::launch).
#[doc(hidden)]
pub unsafe fn launch<E: Entry>(
    stream: &Stream,
    entry: E,
    config: LaunchConfig,
    memory: impl KernelArgs,
    params: &E::Params,
) -> Result<()> {
    let kernel = load::kernel(stream, entry)?;
    // SAFETY: guaranteed by the caller.
    unsafe { kernel.launch(stream, config, memory, params) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn an_error_within_the_roundings_of_its_terms_is_accepted_and_a_larger_one_is_not() {
        let stream = Device::emulator().expect("a device").default_stream();
        let close = |value: f32, want: Want| {
            let got = Tensor::full(&stream, &[3], value).expect("allocates");
            catch_unwind(AssertUnwindSafe(|| assert_close(&got, |_| want))).is_ok()
        };
        let ulp = f32::EPSILON;
        // 1000 and -999 lose more than the 1 that is left.
        let cancelling = sum([1000.0, -999.0]);
        assert!(close(1.0 + 600.0 * ulp, cancelling) && !close(1.0 + 6000.0 * ulp, cancelling));
        assert!(close(1.0 + ulp, sum([1.0])) && !close(1.0 + 3.0 * ulp, 1.0.into()));
        assert!(close(2.0, sum([3.0, 1.0]).map(f64::sqrt)));
        assert!(!close(f32::NAN, 1.0.into()));
    }

    #[test]
    fn integers_are_equal_or_wrong() {
        let stream = Device::emulator().expect("a device").default_stream();
        let got = Tensor::full(&stream, &[2], 7_i32).expect("allocates");
        assert_close(&got, |_| sum([3.0, 4.0])).expect("reads");
        let wrong = catch_unwind(AssertUnwindSafe(|| assert_close(&got, |i| 7.0 + i as f64)));
        let message = wrong.expect_err("8 is not 7");
        let message = message.downcast_ref::<String>().expect("a text");
        assert!(
            message.starts_with("1 of 2 elements are wrong; the worst: [1] is 7e0"),
            "{message}"
        );
    }

    #[test]
    fn random_values_are_in_range_and_of_their_seed() {
        let values = random::<f32>(1000, 7);
        assert!(values.iter().all(|value| (-1.0..1.0).contains(value)));
        assert_eq!(values, random::<f32>(1000, 7));
        assert_ne!(values, random::<f32>(1000, 8));
    }
}
