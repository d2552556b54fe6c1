//! Arrays in NumPy's `.npy` format.
//!
//! Reads 16-bit, 32-bit and 64-bit floats, and integers, in either byte order, in C or Fortran
//! order, of format versions 1 to 3. Writes 32-bit and 64-bit floats, and integers, little-endian,
//! in C order, as version 1.

mod header;
mod integers;
mod source;

use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result};
use half::f16;
use ndarray::{ArrayD, ArrayViewD, IxDyn, ShapeBuilder};

use crate::memory;
use header::{ByteOrder, Header};
pub(crate) use integers::read_integers;
use source::Source;

/// An array of a file, in f64, which represents all values of the narrower types exactly.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FloatArray {
    /// Its elements, with the strides of the file's order.
    pub(crate) values: ArrayD<f64>,
    /// The element type in the file.
    pub(crate) dtype: FloatType,
    /// Whether the first index varies fastest.
    is_fortran: bool,
}

impl FloatArray {
    /// The array of converted elements, in the same order in memory.
    pub(crate) fn map<T>(&self, convert: impl Fn(f64) -> T) -> Result<ArrayD<T>> {
        let in_memory = match self.is_fortran {
            true => self.values.t(),
            false => self.values.view(),
        };
        let converted = in_memory.iter().map(|&value| convert(value));
        let elements = memory::collected(self.values.len(), converted)?;
        let shape = IxDyn(self.values.shape()).set_f(self.is_fortran);
        Ok(ArrayD::from_shape_vec(shape, elements)?)
    }
}

/// Element types that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatType {
    F16,
    F32,
    F64,
    /// Where numbers are read, not floats alone.
    I8,
    /// Likewise.
    I32,
}

impl FloatType {
    fn size_bytes(self) -> usize {
        match self {
            Self::I8 => 1,
            Self::F16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 => 8,
        }
    }

    /// Appends the elements in `bytes`.
    fn decode(self, bytes: &[u8], order: ByteOrder, elements: &mut Vec<f64>) {
        fn each<const N: usize>(
            bytes: &[u8],
            order: ByteOrder,
            decode: impl Fn([u8; N]) -> f64,
        ) -> impl Iterator<Item = f64> {
            bytes.as_chunks::<N>().0.iter().map(move |&(mut element)| {
                if order == ByteOrder::Big {
                    element.reverse();
                }
                decode(element)
            })
        }
        match self {
            Self::F16 => elements.extend(each(bytes, order, |b| f16::from_le_bytes(b).to_f64())),
            Self::F32 => elements.extend(each(bytes, order, |b| f64::from(f32::from_le_bytes(b)))),
            Self::F64 => elements.extend(each(bytes, order, f64::from_le_bytes)),
            Self::I8 => elements.extend(each(bytes, order, |b| f64::from(i8::from_le_bytes(b)))),
            Self::I32 => elements.extend(each(bytes, order, |b| f64::from(i32::from_le_bytes(b)))),
        }
    }
}

/// Reads the float array in `path`.
pub(crate) fn read_floats(path: &Path) -> Result<FloatArray> {
    let describe = || format!("cannot read {}", path.display());
    let mut source = Source::open(path).with_context(describe)?;
    parse_floats(&mut source).with_context(describe)
}

/// Reads the array in `path`, of floats, i8 or i32.
pub(crate) fn read_numbers(path: &Path) -> Result<FloatArray> {
    let describe = || format!("cannot read {}", path.display());
    let mut source = Source::open(path).with_context(describe)?;
    parse(&mut source, Header::parse_numbers).with_context(describe)
}

/// An array of floats or of integers.
pub(crate) enum Numbers {
    /// Of f16, f32 or f64.
    Floats(FloatArray),
    /// Of any integers but u64.
    Integers(ArrayD<i64>),
}

/// Reads the array in `path`, of floats or of integers that i64 represents.
pub(crate) fn read_floats_or_integers(path: &Path) -> Result<Numbers> {
    let read = || -> Result<Numbers> {
        let mut source = Source::open(path)?;
        let text = header::text(&mut source)?;
        Ok(match integers::widened(&mut source, &text)? {
            Some(array) => Numbers::Integers(array),
            None => Numbers::Floats(elements(&mut source, Header::parse(&text)?)?),
        })
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

fn parse_floats(source: &mut Source<impl Read>) -> Result<FloatArray> {
    parse(source, Header::parse)
}

fn parse(
    source: &mut Source<impl Read>,
    header: impl Fn(&str) -> Result<Header>,
) -> Result<FloatArray> {
    let header = header(&header::text(source)?)?;
    elements(source, header)
}

/// The array that follows a header.
fn elements(source: &mut Source<impl Read>, header: Header) -> Result<FloatArray> {
    let elements = header.elements()?;
    let (dtype, order) = (header.dtype, header.order);
    let kind = match dtype {
        FloatType::I8 | FloatType::I32 => 'i',
        _ => 'f',
    };
    let what = format!(
        "shape {:?} of {kind}{}",
        header.shape,
        8 * dtype.size_bytes()
    );
    let bytes = source.expect(&what, elements.checked_mul(dtype.size_bytes()))?;
    let mut values = memory::reserved(elements)?;
    source.data(&what, bytes, |chunk| {
        dtype.decode(chunk, order, &mut values)
    })?;
    let shape = IxDyn(&header.shape).set_f(header.is_fortran);
    Ok(FloatArray {
        values: ArrayD::from_shape_vec(shape, values)?,
        dtype,
        is_fortran: header.is_fortran,
    })
}

/// An element type that can be written.
pub(crate) trait Written: Copy {
    /// NumPy's name of the type.
    const DESCR: &'static str;
    /// Appends the bytes of the element.
    fn encode(self, bytes: &mut Vec<u8>);
}

macro_rules! written {
    ($($ty:ty => $descr:literal),* $(,)?) => {$(
        impl Written for $ty {
            const DESCR: &'static str = $descr;
            fn encode(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }
        }
    )*};
}

written!(
    f32 => "<f4", f64 => "<f8",
    i8 => "|i1", i16 => "<i2", i32 => "<i4", i64 => "<i8",
    u8 => "|u1", u16 => "<u2", u32 => "<u4", u64 => "<u8",
);

/// Writes `array` in C order.
pub(crate) fn write<T: Written>(to: &mut impl Write, array: &ArrayViewD<'_, T>) -> Result<()> {
    const CHUNK: usize = 16 * 1024;
    to.write_all(&header::encode(T::DESCR, array.shape())?)?;
    let mut bytes = Vec::with_capacity(8 * CHUNK);
    for (count, &element) in array.iter().enumerate() {
        element.encode(&mut bytes);
        if count % CHUNK == CHUNK - 1 {
            to.write_all(&bytes)?;
            bytes.clear();
        }
    }
    to.write_all(&bytes)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use ndarray::{arr0, arr2};

    use super::*;

    fn parse_floats(bytes: &[u8]) -> Result<FloatArray> {
        super::parse_floats(&mut Source::of(bytes))
    }

    /// A file of version 1.0 with the header's fields as they would be written.
    pub(super) fn file(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let text =
            format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn reads_back_what_it_writes() {
        let array = arr2(&[[1.0_f32, -0.0], [f32::MAX, 1e-40]]).into_dyn();
        let mut bytes = Vec::new();
        write(&mut bytes, &array.view()).unwrap();
        let read = parse_floats(&bytes).unwrap();
        assert_eq!(read.values, array.mapv(f64::from));
        assert_eq!(read.dtype, FloatType::F32);
        let mut bytes = Vec::new();
        write(&mut bytes, &arr0(7_i64).into_dyn().view()).unwrap();
        let error = parse_floats(&bytes).unwrap_err().to_string();
        assert!(error.contains("'<i8'"), "{error}");
    }

    #[test]
    fn fortran_order_and_big_endian_are_read_as_meant() {
        let data: Vec<u8> = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0]
            .iter()
            .flat_map(|x| x.to_be_bytes())
            .collect();
        let read = parse_floats(&file(">f4", "True", "(2, 3)", &data)).unwrap();
        assert_eq!(
            read.values,
            arr2(&[[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]).into_dyn()
        );
    }

    #[test]
    fn half_precision_is_read_exactly() {
        let data = [f16::MAX, f16::MIN_POSITIVE_SUBNORMAL, f16::NEG_INFINITY];
        let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
        let read = parse_floats(&file("<f2", "False", "(3,)", &bytes)).unwrap();
        assert_eq!(read.values.as_slice().unwrap(), data.map(f16::to_f64));
    }

    #[test]
    fn a_wrong_length_is_refused_with_both_lengths() {
        for (shape, data) in [
            ("(2,)", [0u8; 12].as_slice()),
            ("(4,)", &[0; 12]),
            ("(0,)", &[0; 4]),
        ] {
            let error = parse_floats(&file("<f4", "False", shape, data))
                .unwrap_err()
                .to_string();
            assert!(error.contains("bytes of data"), "{error}");
        }
        let huge = "(4611686018427387904, 4611686018427387904)";
        assert!(parse_floats(&file("<f4", "False", huge, &[])).is_err());
    }
}
