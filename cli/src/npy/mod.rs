//! Arrays in NumPy's `.npy` format.
//!
//! Reads 16-bit, 32-bit and 64-bit floats, and integers, in either byte order, in C or Fortran
//! order, of format versions 1 to 3. Writes 32-bit and 64-bit floats, and integers, little-endian,
//! in C order, as version 1.

mod header;
mod integers;

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use half::f16;
use ndarray::{ArrayD, ArrayViewD, IxDyn, ShapeBuilder};

use header::{ByteOrder, Header};
pub(crate) use integers::read_integers;

/// A float array of a file, in f64, which represents all values of the narrower types exactly.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FloatArray {
    /// Its elements, with the strides of the file's order.
    pub(crate) values: ArrayD<f64>,
    /// The element type in the file.
    pub(crate) dtype: FloatType,
}

/// Element types that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatType {
    F16,
    F32,
    F64,
}

impl FloatType {
    fn size_bytes(self) -> usize {
        match self {
            Self::F16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    fn decode(self, bytes: &[u8], order: ByteOrder) -> Vec<f64> {
        fn each<const N: usize>(
            bytes: &[u8],
            order: ByteOrder,
            decode: impl Fn([u8; N]) -> f64,
        ) -> Vec<f64> {
            let elements = bytes.chunks_exact(N).map(|chunk| {
                let mut element = [0; N];
                element.copy_from_slice(chunk);
                if order == ByteOrder::Big {
                    element.reverse();
                }
                decode(element)
            });
            elements.collect()
        }
        match self {
            Self::F16 => each(bytes, order, |b| f16::from_le_bytes(b).to_f64()),
            Self::F32 => each(bytes, order, |b| f64::from(f32::from_le_bytes(b))),
            Self::F64 => each(bytes, order, f64::from_le_bytes),
        }
    }
}

/// Reads the float array in `path`.
pub(crate) fn read_floats(path: &Path) -> Result<FloatArray> {
    let describe = || format!("cannot read {}", path.display());
    let bytes = read(path).with_context(describe)?;
    parse_floats(&bytes).with_context(describe)
}

/// The bytes of a .npy file. Of any other file, only the beginning is read.
fn read(path: &Path) -> Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    Read::by_ref(&mut file)
        .take(header::MAGIC.len() as u64)
        .read_to_end(&mut bytes)?;
    ensure!(bytes == header::MAGIC, "not a .npy file");
    let length = file.metadata()?.len();
    bytes.try_reserve(usize::try_from(length)?)?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn parse_floats(bytes: &[u8]) -> Result<FloatArray> {
    let (header, data) = Header::split(bytes)?;
    let elements = header.elements()?;
    let want = elements.checked_mul(header.dtype.size_bytes());
    match want {
        Some(want) if want == data.len() => {}
        _ => bail!(
            "shape {:?} of f{} needs {} bytes of data, the file has {}",
            header.shape,
            8 * header.dtype.size_bytes(),
            want.map_or("too many".into(), |want| want.to_string()),
            data.len()
        ),
    }
    let values = header.dtype.decode(data, header.order);
    let shape = IxDyn(&header.shape).set_f(header.is_fortran);
    let values = ArrayD::from_shape_vec(shape, values)?;
    Ok(FloatArray {
        values,
        dtype: header.dtype,
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
