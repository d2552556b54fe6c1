//! Integer arrays, kept as bytes.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use warpsmith::DType;

use super::header::{self, ByteOrder};
use super::source::Source;
use crate::memory;

/// Reads the array in `path` as little-endian bytes in C order. It must have this dtype and shape.
pub(crate) fn read_integers(path: &Path, dtype: DType, shape: &[usize]) -> Result<Vec<u8>> {
    let describe = || format!("cannot read {}", path.display());
    let mut source = Source::open(path).with_context(describe)?;
    parse(&mut source, dtype, shape).with_context(describe)
}

fn parse(source: &mut Source<impl Read>, dtype: DType, shape: &[usize]) -> Result<Vec<u8>> {
    let text = header::text(source)?;
    let entries = header::Entries::parse(&text)?;
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
