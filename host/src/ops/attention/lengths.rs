//! Lengths of sequences, in host or device memory.

use super::call::Memory;
use crate::ops::indices::Indices;
use crate::{Error, Result, Stream, Tensor};

/// Lengths or positions of sequences, for [`Attention`](crate::Attention). Slices, arrays, vectors
/// and tensors of i32 convert to it, and tensors of i64.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Lengths<'a> {
    /// On the host: checked, and copied to the device at each launch.
    Host(&'a [i32]),
    /// On the device, `[n]`: read when the kernel runs, and not checked.
    Device(Indices<'a>),
}

impl<'a> From<&'a [i32]> for Lengths<'a> {
    fn from(lengths: &'a [i32]) -> Self {
        Self::Host(lengths)
    }
}

impl<'a, const N: usize> From<&'a [i32; N]> for Lengths<'a> {
    fn from(lengths: &'a [i32; N]) -> Self {
        Self::Host(lengths)
    }
}

impl<'a> From<&'a Vec<i32>> for Lengths<'a> {
    fn from(lengths: &'a Vec<i32>) -> Self {
        Self::Host(lengths)
    }
}

impl<'a> From<&'a Tensor<i32>> for Lengths<'a> {
    fn from(lengths: &'a Tensor<i32>) -> Self {
        Self::Device(lengths.into())
    }
}

impl<'a> From<&'a Tensor<i64>> for Lengths<'a> {
    fn from(lengths: &'a Tensor<i64>) -> Self {
        Self::Device(lengths.into())
    }
}

impl<'a> Lengths<'a> {
    /// Number of lengths. Checks that those in device memory are a vector on the stream's device.
    pub(super) fn count(self, what: &'static str, stream: &Stream) -> Result<usize> {
        match self {
            Self::Host(lengths) => Ok(lengths.len()),
            Self::Device(lengths) => {
                lengths.check_device(what, stream)?;
                match *lengths.shape() {
                    [count] => Ok(count),
                    _ => Err(Error::shape(what, lengths.shape(), "[n]")),
                }
            }
        }
    }

    /// Their values, if they are on the host.
    pub(super) fn host(self) -> Option<&'a [i32]> {
        match self {
            Self::Host(lengths) => Some(lengths),
            Self::Device(_) => None,
        }
    }

    /// Device memory from which the kernel reads them.
    pub(super) fn memory(self, stream: &Stream) -> Result<Memory> {
        match self {
            Self::Host(lengths) => {
                let copy = Tensor::from_slice(stream.device(), &[lengths.len()], lengths)?;
                Ok(Memory::of(&copy))
            }
            Self::Device(lengths) => {
                let dense = lengths.to_i32(stream)?.contiguous(stream)?;
                Ok(Memory::of(&dense))
            }
        }
    }
}

/// Checks `cu_seqlens` on the host: they must ascend, and not exceed `total`. Returns the length of
/// the longest sequence.
pub(super) fn check_packed(what: &'static str, bounds: &[i32], total: usize) -> Result<usize> {
    let invalid = |idx: usize, want: String| {
        Error::value(what, format!("{} at index {idx}", bounds[idx]), want)
    };
    let mut longest = 0;
    for (idx, &bound) in bounds.iter().enumerate() {
        let least = if idx == 0 { 0 } else { bounds[idx - 1] };
        if bound < least {
            let want = format!("at least {least}: bounds ascend from 0 on");
            return Err(invalid(idx, want));
        }
        if bound as usize > total {
            let want = format!("at most {total}, the positions of the tensor");
            return Err(invalid(idx, want));
        }
        if idx > 0 {
            longest = longest.max((bound - least) as usize);
        }
    }
    Ok(longest)
}

/// Checks lengths on the host: each must be in the `range` of its sequence.
pub(super) fn check_each(
    what: &'static str,
    lengths: &[i32],
    range: impl Fn(usize) -> (i32, usize),
) -> Result<()> {
    for (idx, &length) in lengths.iter().enumerate() {
        let (least, most) = range(idx);
        if length < least || length as usize > most {
            return Err(Error::value(
                what,
                format!("{length} at index {idx}"),
                format!("{least} to {most}, the positions of sequence {idx}"),
            ));
        }
    }
    Ok(())
}
