//! Integer arrays, kept as bytes.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use warpsmith::DType;

use super::header::{self, ByteOrder};

/// Reads the array in `path` as little-endian bytes in C order. It must have this dtype and shape.
pub(crate) fn read_integers(path: &Path, dtype: DType, shape: &[usize]) -> Result<Vec<u8>> {
    let describe = || format!("cannot read {}", path.display());
    let bytes = super::read(path).with_context(describe)?;
    parse(&bytes, dtype, shape).with_context(describe)
}

fn parse(bytes: &[u8], dtype: DType, shape: &[usize]) -> Result<Vec<u8>> {
    let (text, data) = header::sections(bytes)?;
    let entries = header::Entries::parse(text)?;
    let size = dtype.size_bytes();
    ensure!(
        entries.shape == shape,
        "it has shape {:?}, and `shape` says {shape:?}",
        entries.shape
    );
    let order = match (entries.descr.as_bytes().first(), descr(dtype)) {
        (Some(b'<' | b'|' | b'='), want) if entries.descr[1..] == want => ByteOrder::Little,
        (Some(b'>'), want) if entries.descr[1..] == want => ByteOrder::Big,
        (_, want) => bail!(
            "elements are of type '{}'; want '<{want}' for dtype {dtype}; convert with numpy's \
             astype",
            entries.descr
        ),
    };
    let want = shape
        .iter()
        .try_fold(size, |bytes, &extent| bytes.checked_mul(extent));
    ensure!(
        want == Some(data.len()),
        "shape {shape:?} of {dtype} needs {} bytes of data, the file has {}",
        want.map_or("too many".into(), |want| want.to_string()),
        data.len()
    );
    let mut elements: Vec<&[u8]> = data.chunks_exact(size).collect();
    if entries.is_fortran {
        elements = c_order(&elements, shape);
    }
    let mut out = Vec::with_capacity(data.len());
    for element in elements {
        match order {
            ByteOrder::Little => out.extend(element),
            ByteOrder::Big => out.extend(element.iter().rev()),
        }
    }
    Ok(out)
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

/// Reorders elements from Fortran order to C order.
fn c_order<'a>(elements: &[&'a [u8]], shape: &[usize]) -> Vec<&'a [u8]> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = 1;
    for &extent in shape {
        strides.push(stride);
        stride *= extent;
    }
    let mut index = vec![0; shape.len()];
    let mut out = Vec::with_capacity(elements.len());
    for _ in 0..elements.len() {
        let at: usize = index
            .iter()
            .zip(&strides)
            .map(|(i, stride)| i * stride)
            .sum();
        out.push(elements[at]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npy::tests::file;

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
