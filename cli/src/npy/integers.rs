//! Integer arrays: kept as bytes, or widened to i64.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use ndarray::ArrayD;
use warpsmith::DType;

use super::header::{self, ByteOrder};
use super::source::Source;
use crate::memory;

/// The array that follows a header, if its elements are integers that i64 represents.
pub(super) fn widened(source: &mut Source<impl Read>, header: &str) -> Result<Option<ArrayD<i64>>> {
    const DTYPES: [DType; 7] = [
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
    ];
    let entries = header::Entries::parse(header)?;
    let known = |dtype: &DType| order(entries.descr, *dtype).is_some();
    let Some(dtype) = DTYPES.into_iter().find(known) else {
        return Ok(None);
    };
    let bytes = data(source, &entries, dtype)?;
    let is_signed = dtype.name().starts_with('i');
    let elements = bytes.chunks_exact(dtype.size_bytes()).map(|element| {
        let is_negative = is_signed && element.last().is_some_and(|high| high & 0x80 != 0);
        let mut wide = [if is_negative { 0xff } else { 0 }; 8];
        wide[..element.len()].copy_from_slice(element);
        i64::from_le_bytes(wide)
    });
    let elements = memory::collected(bytes.len() / dtype.size_bytes(), elements)?;
    Ok(Some(ArrayD::from_shape_vec(entries.shape, elements)?))
}

/// Reads the array in `path` as little-endian bytes in C order. It must have this dtype and shape.
pub(crate) fn read_integers(path: &Path, dtype: DType, shape: &[usize]) -> Result<Vec<u8>> {
    let describe = || format!("cannot read {}", path.display());
    let mut source = Source::open(path).with_context(describe)?;
    parse(&mut source, dtype, shape).with_context(describe)
}

fn parse(source: &mut Source<impl Read>, dtype: DType, shape: &[usize]) -> Result<Vec<u8>> {
    let text = header::text(source)?;
    let entries = header::Entries::parse(&text)?;
    ensure!(
        entries.shape == shape,
        "it has shape {:?}, and `shape` says {shape:?}",
        entries.shape
    );
    data(source, &entries, dtype)
}

/// The byte order of elements that are of this dtype.
fn order(described: &str, dtype: DType) -> Option<ByteOrder> {
    match (described.as_bytes().first(), descr(dtype)) {
        (Some(b'<' | b'|' | b'='), want) if described[1..] == want => Some(ByteOrder::Little),
        (Some(b'>'), want) if described[1..] == want => Some(ByteOrder::Big),
        _ => None,
    }
}

/// The elements that follow a header, as little-endian bytes in C order.
fn data(
    source: &mut Source<impl Read>,
    entries: &header::Entries<'_>,
    dtype: DType,
) -> Result<Vec<u8>> {
    let (size, shape) = (dtype.size_bytes(), &entries.shape[..]);
    let Some(order) = order(entries.descr, dtype) else {
        bail!(
            "elements are of type '{}'; want '<{}' for dtype {dtype}; convert with numpy's astype",
            entries.descr,
            descr(dtype)
        )
    };
    let want = shape
        .iter()
        .try_fold(size, |bytes, &extent| bytes.checked_mul(extent));
    let what = format!("shape {shape:?} of {dtype}");
    let want = source.expect(&what, want)?;
    let mut data = memory::reserved(want)?;
    source.data(&what, want, |chunk| data.extend(chunk))?;
    if order == ByteOrder::Big {
        data.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    match entries.is_fortran {
        true => c_order(&data, size, shape),
        false => Ok(data),
    }
}

/// NumPy's name of the type, without the byte order.
fn descr(dtype: DType) -> String {
    let kind = if dtype.name().starts_with('u') {
        'u'
    } else {
        'i'
    };
    format!("{kind}{}", dtype.size_bytes())
}

/// Reorders elements of `size` bytes from Fortran order to C order.
fn c_order(data: &[u8], size: usize, shape: &[usize]) -> Result<Vec<u8>> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = size;
    for &extent in shape {
        strides.push(stride);
        stride *= extent;
    }
    let mut index = vec![0; shape.len()];
    let mut out = memory::reserved(data.len())?;
    while out.len() < data.len() {
        let at: usize = index
            .iter()
            .zip(&strides)
            .map(|(i, stride)| i * stride)
            .sum();
        out.extend(&data[at..at + size]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npy::tests::file;

    fn parse(bytes: &[u8], dtype: DType, shape: &[usize]) -> Result<Vec<u8>> {
        super::parse(&mut Source::of(bytes), dtype, shape)
    }

    #[test]
    fn fortran_order_and_big_endian_are_read_as_meant() {
        let data: Vec<u8> = [1_u16, 2, 3, 4, 5, 6]
            .iter()
            .flat_map(|x| x.to_be_bytes())
            .collect();
        let read = parse(&file(">u2", "True", "(2, 3)", &data), DType::U16, &[2, 3]).unwrap();
        let want: Vec<u8> = [1_u16, 3, 5, 2, 4, 6]
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        assert_eq!(read, want);
    }

    #[test]
    fn integers_are_widened_with_their_sign() {
        let of = |descr, data: &[u8]| {
            let file = file(descr, "False", "(2,)", data);
            let mut source = Source::of(&file[..]);
            let text = header::text(&mut source).unwrap();
            widened(&mut source, &text).unwrap()
        };
        let want = |values: [i64; 2]| Some(ndarray::arr1(&values).into_dyn());
        assert_eq!(of("|i1", &[0xff, 1]), want([-1, 1]));
        assert_eq!(of("|u1", &[0xff, 1]), want([255, 1]));
        assert_eq!(of(">i2", &[0x80, 0, 0, 7]), want([-32_768, 7]));
        assert_eq!(of("<u4", &[0xff; 8]), want([u32::MAX.into(); 2]));
        assert_eq!(of("<i8", &[0xff; 16]), want([-1, -1]));
        assert_eq!(of("<f4", &[0; 8]), None);
        assert_eq!(of("<u8", &[0; 16]), None);
    }

    #[test]
    fn a_wrong_type_shape_or_length_is_refused() {
        let bytes = file("<i4", "False", "(2,)", &[0; 8]);
        assert!(parse(&bytes, DType::I32, &[2]).is_ok());
        for (dtype, shape, want) in [
            (DType::U32, [2], "'<i4'"),
            (DType::I64, [2], "'<i4'"),
            (DType::I32, [3], "shape [2]"),
        ] {
            let error = parse(&bytes, dtype, &shape).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
        let short = file("|u1", "False", "(3,)", &[0; 2]);
        let error = parse(&short, DType::U8, &[3]).unwrap_err().to_string();
        assert!(
            error.contains("needs 3 bytes of data, the file has 2"),
            "{error}"
        );
    }
}
