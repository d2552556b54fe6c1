//! The contents of a buffer before the launch.
//!
//! The bytes depend only on fill, seed, dtype and shape. ChaCha8 is seeded with `seed`, and has one
//! stream for each chunk of 65,536 elements. [`super::small_float`] rounds each value to the dtype.
//! Normal values use rand_distr's ziggurat. So the bytes are the same for every device and every
//! number of host threads.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use rayon::prelude::*;
use warpsmith::DType;

use super::description::Buffer;
use super::{array, small_float};
use crate::memory;
use crate::progress::Bar;

/// Elements per chunk.
const CHUNK: usize = 1 << 16;

/// Source of the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// Mean 0, standard deviation 1; floats only.
    Normal,
    /// Floats: [0, 1) before rounding. Integers: every value of the type, equally likely.
    Uniform,
    Zeros,
    /// 0, 1, 2, ..; rounded for floats, wrapping for integers.
    Iota,
    /// Every byte 0xFF: NaN for every float type, -1 or the largest for integers.
    Poison,
    /// Nothing: the emulator reports a kernel that reads what it has not written.
    Unwritten,
    /// A .npy file.
    File(PathBuf),
}

impl Fill {
    pub(super) fn parse(text: &str, folder: &Path) -> Result<Self> {
        Ok(match text {
            "normal" => Fill::Normal,
            "uniform" => Fill::Uniform,
            "zeros" => Fill::Zeros,
            "iota" => Fill::Iota,
            "poison" => Fill::Poison,
            "unwritten" => Fill::Unwritten,
            _ => {
                ensure!(
                    text.ends_with(".npy"),
                    "fill: `{text}` is not one of normal, uniform, zeros, iota, poison, unwritten, \
                     or the path of a .npy file"
                );
                Fill::File(folder.join(text))
            }
        })
    }

    /// Whether the bytes depend on a seed.
    pub(super) fn is_random(&self) -> bool {
        matches!(self, Fill::Normal | Fill::Uniform)
    }

    pub(super) fn check_dtype(&self, dtype: DType) -> Result<()> {
        ensure!(
            *self != Fill::Normal || is_float(dtype),
            "fill: `normal` is for floats, and dtype is {dtype}; use uniform, zeros, iota or poison"
        );
        Ok(())
    }
}

fn is_float(dtype: DType) -> bool {
    use DType as D;
    matches!(
        dtype,
        D::F64 | D::F32 | D::F16 | D::Bf16 | D::E4m3 | D::E5m2
    )
}

/// The bytes of every buffer, elements in C order. A buffer without a seed of its own gets `seed`
/// plus its position.
pub(super) fn all(buffers: &[Buffer], seed: u64) -> Result<Vec<Vec<u8>>> {
    let chunks = |buffer: &Buffer| buffer.bytes.div_ceil(chunk_bytes(buffer.dtype)) as u64;
    let bar = Bar::start("filling".into(), buffers.iter().map(chunks).sum());
    let filled = buffers.iter().enumerate().map(|(position, buffer)| {
        let own = seed.wrapping_add(position as u64);
        bytes(buffer, buffer.seed.unwrap_or(own), &bar)
            .with_context(|| format!("buffer `{}`", buffer.name))
    });
    filled.collect()
}

fn chunk_bytes(dtype: DType) -> usize {
    CHUNK * dtype.size_bytes()
}

fn bytes(buffer: &Buffer, seed: u64, bar: &Bar) -> Result<Vec<u8>> {
    if let Fill::File(path) = &buffer.fill {
        return array::read(path, buffer.dtype, &buffer.shape);
    }
    let mut bytes = memory::reserved(buffer.bytes)?;
    bytes.resize(buffer.bytes, 0);
    let chunks = bytes.par_chunks_mut(chunk_bytes(buffer.dtype));
    chunks.enumerate().for_each(|(number, chunk)| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(number as u64);
        fill_chunk(buffer, number * CHUNK, &mut random, chunk);
        bar.step();
    });
    Ok(bytes)
}

/// Fills a chunk of zeros, whose first element is that of index `first`.
fn fill_chunk(buffer: &Buffer, first: usize, random: &mut ChaCha8Rng, chunk: &mut [u8]) {
    let dtype = buffer.dtype;
    let size = dtype.size_bytes();
    let elements = chunk.len() / size;
    let mut floats = |mut next: Box<dyn FnMut(usize) -> f64 + '_>| {
        let mut made = Vec::with_capacity(chunk.len());
        for index in 0..elements {
            small_float::append(dtype, next(index), &mut made);
        }
        chunk.copy_from_slice(&made);
    };
    match &buffer.fill {
        // A file is read as a whole, not in chunks.
        Fill::Zeros | Fill::Unwritten | Fill::File(_) => {}
        Fill::Poison => chunk.fill(0xff),
        Fill::Normal => floats(Box::new(|_| random.sample(StandardNormal))),
        Fill::Uniform if is_float(dtype) => floats(Box::new(|_| random.random())),
        Fill::Uniform => random.fill_bytes(chunk),
        Fill::Iota if is_float(dtype) => floats(Box::new(|index| (first + index) as f64)),
        Fill::Iota => {
            for (index, element) in chunk.chunks_exact_mut(size).enumerate() {
                element.copy_from_slice(&((first + index) as u64).to_le_bytes()[..size]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(dtype: DType, elements: usize, fill: Fill) -> Buffer {
        Buffer {
            name: "x".into(),
            dtype,
            shape: vec![elements],
            bytes: elements * dtype.size_bytes(),
            fill,
            seed: None,
            save: None,
            variable: None,
        }
    }

    fn made(buffer: &Buffer, seed: u64) -> Result<Vec<u8>> {
        bytes(buffer, seed, &Bar::start("filling".into(), 1))
    }

    #[test]
    fn chunks_differ_and_threads_change_nothing() {
        let x = buffer(DType::U32, 3 * CHUNK + 7, Fill::Uniform);
        let pool = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.expect("threads")
                .install(|| made(&x, 1).expect("no file"))
        };
        let one = pool(1);
        assert_eq!(one, pool(5));
        let chunk = 4 * CHUNK;
        assert_ne!(one[..chunk], one[chunk..2 * chunk]);
        let counted = made(&buffer(DType::I32, CHUNK + 2, Fill::Iota), 0).expect("no file");
        assert_eq!(counted[4 * CHUNK..], [0, 0, 1, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn every_fill_makes_every_dtype_in_full() {
        for dtype in DType::ALL {
            for fill in [Fill::Uniform, Fill::Zeros, Fill::Iota, Fill::Poison] {
                let made = made(&buffer(dtype, 37, fill), 1).expect("no file");
                assert_eq!(made.len(), 37 * dtype.size_bytes(), "{dtype}");
            }
            assert_eq!(Fill::Normal.check_dtype(dtype).is_ok(), is_float(dtype));
        }
    }

    #[test]
    fn the_seed_decides_the_bytes() {
        let x = buffer(DType::F32, 64, Fill::Normal);
        assert_eq!(made(&x, 5).unwrap(), made(&x, 5).unwrap());
        assert_ne!(made(&x, 5).unwrap(), made(&x, 6).unwrap());
    }

    #[test]
    fn the_bytes_of_a_seed_stay_what_they_are() {
        let first = |dtype, fill| made(&buffer(dtype, 2, fill), 42).expect("no file");
        let normal = first(DType::F64, Fill::Normal);
        let uniform = first(DType::F64, Fill::Uniform);
        let value = |bytes: &[u8]| f64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
        assert_eq!(
            (value(&normal), value(&uniform)),
            (PINNED_NORMAL, PINNED_UNIFORM)
        );
    }

    const PINNED_NORMAL: f64 = 0.477_981_238_351_021_74;
    const PINNED_UNIFORM: f64 = 0.681_896_192_306_671_4;

    #[test]
    fn normal_values_have_mean_0_and_deviation_1() {
        let made = made(&buffer(DType::F64, 20_000, Fill::Normal), 3).expect("no file");
        let values: Vec<f64> = made
            .chunks_exact(8)
            .map(|chunk| f64::from_le_bytes(chunk.try_into().expect("8 bytes")))
            .collect();
        let mean = values.iter().sum::<f64>() / 20_000.0;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
        // Five standard errors of either.
        assert!(mean.abs() < 5.0 / 20_000_f64.sqrt(), "{mean}");
        assert!(
            (variance - 1.0).abs() < 5.0 * (2.0 / 20_000_f64).sqrt(),
            "{variance}"
        );
    }

    #[test]
    fn poison_is_nan_in_every_float() {
        for dtype in [DType::F16, DType::Bf16, DType::E4m3, DType::E5m2] {
            let made = made(&buffer(dtype, 1, Fill::Poison), 0).expect("no file");
            let values = small_float::widen(dtype, &made).expect("memory");
            let values = values.expect("a small float");
            assert!(values[0].is_nan(), "{dtype}");
        }
        assert!(f32::from_le_bytes([0xff; 4]).is_nan() && f64::from_le_bytes([0xff; 8]).is_nan());
    }
}
