//! Buffers from and to .npy files.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use half::{bf16, f16};
use ndarray::{ArrayViewD, IxDyn};
use warpsmith::DType;

use super::small_float;
use crate::memory;
use crate::npy::{self, Written};
use crate::output::OutputFiles;

/// The elements of the file as bytes of `dtype`, in C order.
///
/// Floats of any width become floats of `dtype`, rounded to nearest even, and an error if that is
/// an infinity; integers must be of `dtype` already.
pub(super) fn read(path: &Path, dtype: DType, shape: &[usize]) -> Result<Vec<u8>> {
    let describe = || format!("fill: {}", path.display());
    let is_float = small_float::append(dtype, 0.0, &mut Vec::new());
    if !is_float {
        return npy::read_integers(path, dtype, shape).with_context(describe);
    }
    let array = npy::read_floats(path).with_context(describe)?;
    ensure!(
        array.values.shape() == shape,
        "fill: {} has shape {:?}, and `shape` says {shape:?}",
        path.display(),
        array.values.shape()
    );
    let mut bytes = memory::reserved(array.values.len() * dtype.size_bytes())?;
    for value in &array.values {
        ensure!(
            !value.is_finite() || is_finite_as(dtype, *value),
            "fill: {} has {value:e}, which is too large for {dtype}",
            path.display()
        );
        small_float::append(dtype, *value, &mut bytes);
    }
    Ok(bytes)
}

/// Whether a finite number stays finite in a float of this type; those of 8 bits saturate.
fn is_finite_as(dtype: DType, value: f64) -> bool {
    match dtype {
        DType::F32 => (value as f32).is_finite(),
        DType::F16 => f16::from_f64(value).is_finite(),
        DType::Bf16 => bf16::from_f64(value).is_finite(),
        _ => true,
    }
}

/// Adds the buffer to the files to write; floats of 16 bits and fewer become f32.
pub(super) fn save(
    files: &mut OutputFiles,
    path: &Path,
    dtype: DType,
    shape: &[usize],
    bytes: &[u8],
) -> Result<()> {
    match dtype {
        DType::F64 => write(files, path, shape, &split(bytes, f64::from_le_bytes)?),
        DType::F32 => write(files, path, shape, &split(bytes, f32::from_le_bytes)?),
        DType::I8 => write(files, path, shape, &split(bytes, i8::from_le_bytes)?),
        DType::I16 => write(files, path, shape, &split(bytes, i16::from_le_bytes)?),
        DType::I32 => write(files, path, shape, &split(bytes, i32::from_le_bytes)?),
        DType::I64 => write(files, path, shape, &split(bytes, i64::from_le_bytes)?),
        DType::U8 => write(files, path, shape, bytes),
        DType::U16 => write(files, path, shape, &split(bytes, u16::from_le_bytes)?),
        DType::U32 => write(files, path, shape, &split(bytes, u32::from_le_bytes)?),
        DType::U64 => write(files, path, shape, &split(bytes, u64::from_le_bytes)?),
        DType::F16 | DType::Bf16 | DType::E4m3 | DType::E5m2 => {
            let values =
                small_float::widen(dtype, bytes)?.context("a float of 16 bits or fewer")?;
            write(files, path, shape, &values)
        }
    }
}

fn write<T: Written>(
    files: &mut OutputFiles,
    path: &Path,
    shape: &[usize],
    values: &[T],
) -> Result<()> {
    let view = ArrayViewD::from_shape(IxDyn(shape), values)?;
    files.add(path, |file| npy::write(file, &view))
}

/// Splits `bytes` into elements of size `N`.
fn split<const N: usize, T>(bytes: &[u8], decode: impl Fn([u8; N]) -> T) -> Result<Vec<T>> {
    let (elements, _) = bytes.as_chunks::<N>();
    memory::collected(
        elements.len(),
        elements.iter().map(|element| decode(*element)),
    )
}
