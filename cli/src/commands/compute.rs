//! Code shared by the commands that compute on arrays: options, reading, timing, writing,
//! reporting.

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use ndarray::{ArrayD, ArrayViewD};
use serde_json::{Value, json};
use warpsmith::{Device, E4m3, E5m2, Element, Float, MAX_RANK, Stream, Tensor};
use warpsmith_emulator::EmulatorConfig;
use warpsmith_emulator::trace::Trace;

use super::run::trace::{USUAL_BLOCKS, chrome};
use crate::failure::UsageError;
use crate::memory;
use crate::npy::{self, FloatArray, Written};
use crate::output::{Output, OutputFiles};
use crate::progress::Spinner;

/// Options of every command that computes.
#[derive(Debug, clap::Args)]
pub(super) struct DeviceArgs {
    /// Where to compute: gpu, gpu:N, emulator, or auto (a GPU if there is one, else the emulator).
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// Print the summary as one line of JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Compute on the emulator and write a timeline of each warp, copy, mbarrier and `wgmma` as
    /// Chrome's trace events, for Perfetto.
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
    /// Where the launches leave their timelines.
    #[arg(skip = Trace::of_blocks(USUAL_BLOCKS))]
    timelines: Trace,
}

impl DeviceArgs {
    /// The selected device, and a stream on it.
    pub(super) fn open(&self) -> Result<(Device, Stream)> {
        let device = match (&self.trace, self.device.as_str()) {
            (None, name) => Device::from_name(name)?,
            (Some(path), "auto" | "emulator") => {
                OutputFiles::check(path).context("--trace")?;
                Device::emulator_with(EmulatorConfig {
                    trace: Some(self.timelines.clone()),
                    ..EmulatorConfig::default()
                })?
            }
            (Some(_), other) => {
                let message = format!("--trace needs the emulator, and --device is {other}");
                return Err(UsageError(message).into());
            }
        };
        let stream = device.stream()?;
        Ok((device, stream))
    }

    /// Writes the timelines, if they are requested.
    pub(super) fn write_trace(&self) -> Result<()> {
        let Some(path) = &self.trace else {
            return Ok(());
        };
        let text = chrome::events(&self.timelines.take()).to_string();
        let mut files = OutputFiles::default();
        files.add(path, |file| Ok(file.write_all(text.as_bytes())?))?;
        files.commit()
    }
}

/// Element types that operands can be rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Dtype {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
}

/// Calls a generic function with the element type that a [`Dtype`] names.
macro_rules! with_dtype {
    ($dtype:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $dtype {
            $crate::commands::compute::Dtype::F32 => $function::<f32>($($argument),*),
            $crate::commands::compute::Dtype::F16 => $function::<half::f16>($($argument),*),
            $crate::commands::compute::Dtype::Bf16 => $function::<half::bf16>($($argument),*),
        }
    };
}
pub(super) use with_dtype;

/// An element type to which the numbers of a file are rounded.
pub(super) trait Rounded: Element {
    /// `x` rounded to nearest; `None` if it overflows.
    fn round(x: f64) -> Option<Self>;
}

macro_rules! rounded_floats {
    ($($ty:ty),*) => {$(
        impl Rounded for $ty {
            fn round(x: f64) -> Option<Self> {
                let rounded = <$ty as Float>::from_f64(x);
                (!x.is_finite() || Float::to_f32(rounded).is_finite()).then_some(rounded)
            }
        }
    )*};
}

rounded_floats!(f32, half::f16, half::bf16);

impl Rounded for f64 {
    fn round(x: f64) -> Option<Self> {
        Some(x)
    }
}

/// The smallest magnitude that would round to the number after the largest finite one.
macro_rules! rounded_bytes {
    ($($ty:ident: $too_large:literal;)*) => {$(
        impl Rounded for $ty {
            fn round(x: f64) -> Option<Self> {
                (x.is_nan() || x.abs() < $too_large).then(|| Self::from_f64(x))
            }
        }
    )*};
}

rounded_bytes! {
    E4m3: 464.0;
    E5m2: 61440.0;
}

/// Integers: those that are too large are refused, and NaN is.
macro_rules! rounded_integers {
    ($($ty:ty),*) => {$(
        impl Rounded for $ty {
            fn round(x: f64) -> Option<Self> {
                let nearest = x.round_ties_even();
                let range = f64::from(Self::MIN)..=f64::from(Self::MAX);
                range.contains(&nearest).then_some(nearest as Self)
            }
        }
    )*};
}

rounded_integers!(i8, i32);

/// The contents of an input file.
pub(super) struct Input {
    /// `A`, as in the help text.
    pub(super) name: &'static str,
    pub(super) array: FloatArray,
}

impl Input {
    pub(super) fn read(name: &'static str, path: &Path) -> Result<Self> {
        Ok(Self::of(name, npy::read_floats(path)?))
    }

    pub(super) fn of(name: &'static str, array: FloatArray) -> Self {
        Self { name, array }
    }

    /// The same of a file that may hold i8 or i32.
    pub(super) fn read_numbers(name: &'static str, path: &Path) -> Result<Self> {
        Ok(Self {
            name,
            array: npy::read_numbers(path)?,
        })
    }

    /// Fails unless the number of dimensions is one of `ranks`; `which` says what decides that.
    pub(super) fn expect_rank(&self, ranks: &[usize], which: &str) -> Result<()> {
        let shape = self.array.values.shape();
        ensure!(
            ranks.contains(&shape.len()),
            "{} has shape {shape:?}; it has to have {} dimensions{which}",
            self.name,
            ranks
                .iter()
                .map(usize::to_string)
                .collect::<Vec<_>>()
                .join(" or ")
        );
        Ok(())
    }

    /// Copies the array to a device, with each element rounded once to `T`.
    pub(super) fn upload<T: Rounded>(&self, device: &Device) -> Result<Tensor<T>> {
        let values = &self.array.values;
        ensure!(
            values.ndim() <= MAX_RANK,
            "{} has shape {:?}; it may have at most {MAX_RANK} dimensions",
            self.name,
            values.shape()
        );
        for (index, &wide) in values.indexed_iter() {
            ensure!(
                T::round(wide).is_some(),
                "{} holds {wide:e} at {:?}, which is too large for {}",
                self.name,
                ndarray::Dimension::slice(&index),
                T::DTYPE
            );
        }
        let rounded = self.array.map(|x| T::round(x).unwrap_or_default())?;
        Ok(Tensor::from_ndarray(device, &rounded)?)
    }
}

/// Runs `compute` to completion on the device, with a spinner on stderr, and measures its time. A
/// GPU runs it once before, so that loading kernels is not measured.
pub(super) fn timed<T>(
    what: &str,
    stream: &Stream,
    compute: impl Fn() -> warpsmith::Result<T>,
) -> Result<(T, Duration)> {
    let spinner = Spinner::start(format!("{what} on {}", stream.device()));
    if !stream.device().is_emulator() {
        compute().and_then(|_| stream.synchronize())?;
    }
    let start = Instant::now();
    let result = compute()?;
    stream.synchronize()?;
    let elapsed = start.elapsed();
    drop(spinner);
    Ok((result, elapsed))
}

/// The elements as f32.
pub(super) fn download<T: Float>(tensor: &Tensor<T>) -> Result<ArrayD<f32>> {
    let exact = tensor.to_ndarray()?;
    let widened = exact.iter().map(|&x| T::to_f32(x));
    let elements = memory::collected(exact.len(), widened)?;
    Ok(ArrayD::from_shape_vec(exact.raw_dim(), elements)?)
}

/// The elements in their own type.
pub(super) fn download_exact<T: Element>(tensor: &Tensor<T>) -> Result<ArrayD<T>> {
    Ok(tensor.to_ndarray()?)
}

/// Parses a number that is not negative. `instead` says what to do for what a negative one may have
/// been meant to say; it may be empty.
pub(super) fn not_negative<T>(text: &str, instead: &str) -> Result<T, String>
where
    T: FromStr<Err: Display>,
{
    text.parse()
        .map_err(|error: T::Err| match text.strip_prefix('-') {
            Some(_) => format!("want 0 or more{instead}"),
            None => error.to_string(),
        })
}

/// Parses a factor: a finite f32.
pub(super) fn finite(text: &str) -> Result<f32, String> {
    finite_in::<f32>(text, "f32")
}

/// The same in f64.
pub(super) fn finite_f64(text: &str) -> Result<f64, String> {
    finite_in::<f64>(text, "f64")
}

fn finite_in<T>(text: &str, dtype: &str) -> Result<T, String>
where
    T: FromStr<Err: Display> + Into<f64> + Display + Copy,
{
    match text.parse::<T>() {
        Ok(value) if value.into().is_finite() => Ok(value),
        Ok(value) => Err(format!("it is {value} in {dtype}, want a finite number")),
        Err(error) => Err(error.to_string()),
    }
}

/// The summary of a computation, which is printed at the end.
pub(super) struct Report<'a> {
    pub(super) operation: String,
    pub(super) dtype: &'a str,
    pub(super) device: &'a Device,
    /// Names and shapes, inputs first.
    pub(super) shapes: Vec<(&'static str, Vec<usize>)>,
    pub(super) elapsed: Duration,
    pub(super) files: Vec<PathBuf>,
}

impl Report<'_> {
    /// Prints a sentence, or a line of JSON.
    pub(super) fn print(&self, options: &DeviceArgs, output: &mut Output) -> Result<()> {
        options.write_trace()?;
        let files: Vec<String> = self
            .files
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        if options.json {
            let shapes: serde_json::Map<String, Value> = self
                .shapes
                .iter()
                .map(|(name, shape)| ((*name).into(), json!(shape)))
                .collect();
            let line = json!({
                "operation": self.operation,
                "device": self.device.to_string(),
                "dtype": self.dtype,
                "shapes": shapes,
                "time_ms": milliseconds(self.elapsed),
                "files": files,
            });
            writeln!(output, "{line}")?;
            return Ok(());
        }
        let shapes: Vec<String> = self
            .shapes
            .iter()
            .map(|(name, shape)| format!("{name} {shape:?}"))
            .collect();
        writeln!(
            output,
            "{} in {} on {}: {}, {:.3} ms; wrote {}",
            self.operation,
            self.dtype,
            self.device,
            shapes.join(", "),
            milliseconds(self.elapsed),
            files.join(" and ")
        )?;
        Ok(())
    }
}

pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Adds a file with `array` to those to be written.
pub(super) fn add_npy<T: Written>(
    files: &mut OutputFiles,
    path: &Path,
    array: &ArrayViewD<'_, T>,
) -> Result<()> {
    files.add(path, |writer| npy::write(writer, array))
}

/// Fails before any work if an output cannot be written, or two outputs are the same file.
pub(super) fn check_outputs(paths: &[&Path]) -> Result<()> {
    let mut places = Vec::new();
    for path in paths {
        OutputFiles::check(path)?;
        let place = OutputFiles::place(path)?;
        if places.contains(&place) {
            let message = format!("two outputs would go to {}", path.display());
            return Err(UsageError(message).into());
        }
        places.push(place);
    }
    Ok(())
}

/// The printed name of the dtype.
pub(super) fn dtype_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "f32",
        Dtype::F16 => "f16",
        Dtype::Bf16 => "bf16",
    }
}
