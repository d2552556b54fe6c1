//! The corpus: operations on small inputs that together launch every kernel of the library.
//!
//! A [`Case`] runs operations as a user does, on a device of one architecture, and reads all
//! results. Programs run the cases under [`capture`](Case::capture), and do what was captured again
//! on other devices, or with bugs planted.

mod attention;
mod foreign;
mod gemm;
mod moves;
mod reductions;
mod rows;

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::testing::Capture;
use warpsmith::{DType, Device, Result, Stream, Tensor};

use crate::element::TestElement;
use crate::recording;

/// What a case runs.
type Run = Box<dyn Fn(&mut Inputs) -> Result<()> + Send + Sync>;

/// Operations on a device of one architecture.
pub struct Case {
    /// Operation, dtypes, architecture.
    pub name: String,
    /// The device's compute capability.
    pub arch: (u32, u32),
    /// How far results on another kind of device may be off.
    pub tolerance: Tolerance,
    run: Run,
}

/// How far results on another kind of device may be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tolerance {
    /// The bits are the same.
    Exact,
    /// The bits of f64 are the same, but for those of NaN: which NaN an instruction of f64 gives
    /// depends on the device.
    AnyNan64,
    /// Elements differ by up to this many bf16 ulps.
    Bf16(u16),
    /// Approximate instructions, whose last bits differ between devices. References judge the
    /// results elsewhere.
    Approximate,
}

/// The device of a case, and its operands.
pub(crate) struct Inputs {
    pub(crate) device: Device,
    pub(crate) stream: Stream,
    rng: ChaCha8Rng,
    specials: bool,
}

pub use foreign::foreign;

/// Every case of the library's operations.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    gemm::add(&mut cases);
    attention::add(&mut cases);
    rows::add(&mut cases);
    reductions::add(&mut cases);
    moves::add(&mut cases);
    cases
}

impl Case {
    pub(crate) fn new(
        name: impl Into<String>,
        arch: (u32, u32),
        run: impl Fn(&mut Inputs) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: format!("{}, sm_{}{}", name.into(), arch.0, arch.1),
            arch,
            tolerance: Tolerance::Exact,
            run: Box::new(run),
        }
    }

    /// The same of kernels that use approximate instructions.
    pub(crate) fn approximate(self) -> Self {
        Self {
            tolerance: Tolerance::Approximate,
            ..self
        }
    }

    /// The same, with results in bf16 that may be off by this many ulps.
    pub(crate) fn within(self, ulps: u16) -> Self {
        Self {
            tolerance: Tolerance::Bf16(ulps),
            ..self
        }
    }

    /// Runs the case on an emulator of its architecture, with inputs of this seed, and returns what
    /// that did. Every other seed has NaN and infinities among the inputs.
    ///
    /// # Errors
    /// Those of the operations, among them the emulator's reports.
    pub fn capture(&self, seed: u64, config: EmulatorConfig) -> Result<Capture> {
        let name = self.name.bytes().map(u64::from).sum::<u64>();
        let rng = ChaCha8Rng::seed_from_u64(seed * 1_000_003 + name);
        record(config, self.arch, MULTIPROCESSORS, |device, stream| {
            (self.run)(&mut Inputs {
                device,
                stream,
                rng,
                specials: (seed + name) % 2 == 1,
            })
        })
    }
}

/// What `run` does on an emulator that presents itself as a device of this architecture, with so
/// many multiprocessors.
///
/// # Errors
/// Those of `run`.
pub fn record(
    config: EmulatorConfig,
    arch: (u32, u32),
    multiprocessors: u32,
    run: impl FnOnce(Device, Stream) -> Result<()>,
) -> Result<Capture> {
    let recording = recording(arch, multiprocessors, config);
    let device = recording.device().clone();
    let stream = device.stream()?;
    run(device, stream)?;
    recording.capture()
}

impl Tolerance {
    /// Number of bytes (of elements, if these may be off) of a result that differ by more than is
    /// allowed.
    pub fn mismatches(self, x: &[u8], y: &[u8]) -> usize {
        if self == Self::AnyNan64 {
            let is_nan = |bytes: &[u8]| {
                let bytes = bytes.try_into().map(f64::from_le_bytes);
                bytes.is_ok_and(f64::is_nan)
            };
            let elements = x.chunks(8).zip(y.chunks(8));
            let differ = |(x, y): &(&[u8], &[u8])| x != y && !(is_nan(x) && is_nan(y));
            return elements.filter(differ).count();
        }
        let Self::Bf16(ulps) = self else {
            return x.iter().zip(y).filter(|(x, y)| x != y).count();
        };
        // The bits of a float as an integer with the same order.
        let ordered = |bytes: &[u8]| match u16::from_le_bytes([bytes[0], bytes[1]]) {
            negative @ 0x8000.. => -((negative & 0x7fff) as i16),
            positive => positive as i16,
        };
        let elements = x.chunks_exact(2).zip(y.chunks_exact(2));
        let differ = |(x, y): &(&[u8], &[u8])| ordered(x).abs_diff(ordered(y)) > ulps;
        elements.filter(differ).count()
    }
}

/// Plans depend on the number of multiprocessors, but not on that of this machine's cores.
const MULTIPROCESSORS: u32 = 8;

impl Inputs {
    /// A contiguous tensor of random elements.
    pub(crate) fn tensor<T: TestElement>(&mut self, shape: &[usize]) -> Result<Tensor<T>> {
        let scale = 2f64.powi(self.rng.random_range(-3..=3));
        let is_special = self.specials;
        let values = (0..shape.iter().product()).map(|_| {
            T::nearest(match self.rng.random_range(0..60) {
                0 if is_special => f64::NAN,
                1 if is_special => f64::INFINITY,
                2 if is_special => f64::NEG_INFINITY,
                3 => -0.0,
                4 => 1e-41,
                _ if is_integer(T::DTYPE) => f64::from(self.rng.random_range(-100..100)),
                _ => self.rng.random_range(-1.0..1.0) * scale,
            })
        });
        let values: Vec<T> = values.collect();
        Tensor::from_slice(&self.device, shape, &values)
    }

    /// The same with these elements.
    pub(crate) fn of<T: TestElement>(&self, shape: &[usize], values: &[T]) -> Result<Tensor<T>> {
        Tensor::from_slice(&self.device, shape, values)
    }

    /// Indices from -1 to `count`, of which the first and the last are out of range.
    pub(crate) fn indices<I: TestElement>(
        &mut self,
        len: usize,
        count: usize,
    ) -> Result<Tensor<I>> {
        let count = count as i64;
        let index = |_| I::nearest(self.rng.random_range(-1..=count) as f64);
        let values: Vec<I> = (0..len).map(index).collect();
        self.of(&[len], &values)
    }
}

/// Whether elements are integers.
pub(crate) fn is_integer(dtype: DType) -> bool {
    use DType::*;
    matches!(dtype, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
}

/// Reads a result, which ends up in the capture.
pub(crate) fn read<T: TestElement>(result: &Tensor<T>) -> Result<()> {
    result.to_vec().map(drop)
}

/// The candidates that a case ran, each entry without launch options and with some.
#[derive(Default)]
pub(crate) struct Seen(BTreeSet<(String, bool)>);

impl Seen {
    /// Those of these names that were not seen yet. Names are `entry+options`.
    pub(crate) fn new_of<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let is_new = |name: &&str| match name.split_once('+') {
            Some((entry, _)) => self.0.insert((entry.to_owned(), true)),
            None => self.0.insert(((*name).to_owned(), false)),
        };
        names.filter(is_new).collect()
    }
}
