//! The elements that an argument is the address of, and the shape of them that a safe kernel takes.

use crate::buffer::DeviceBuffer;
use crate::element::Element;
use crate::tensor::Tensor;
use abi::DType;

/// The elements that a [`KernelArg`](crate::KernelArg) is the address of.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    dtype: DType,
    layout: Layout<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Layout<'a> {
    /// So many, one after the other.
    Line(usize),
    /// Shape, strides, and whether different indices are different elements.
    Strided(&'a [usize], &'a [i64], bool),
}

/// The words of the parameter behind a pointer: a length, or the extents and strides of `Shape2`.
pub(crate) type Shape = [i64; 4];

impl<T: Element> From<&DeviceBuffer<T>> for Elements<'_> {
    fn from(buffer: &DeviceBuffer<T>) -> Self {
        Self {
            dtype: T::DTYPE,
            layout: Layout::Line(buffer.len()),
        }
    }
}

impl<'a, T: Element> From<&'a Tensor<T>> for Elements<'a> {
    fn from(tensor: &'a Tensor<T>) -> Self {
        let (shape, strides) = (tensor.shape(), tensor.strides());
        let layout = match (shape, tensor.is_contiguous()) {
            ([_, _], _) | (_, false) => Layout::Strided(shape, strides, tensor.is_injective()),
            _ => Layout::Line(tensor.len()),
        };
        Self {
            dtype: T::DTYPE,
            layout,
        }
    }
}

/// Whether a parameter of this name is the length or the shape of the one before it.
pub(crate) fn is_shape(name: &str) -> bool {
    name.ends_with(".len") || name.ends_with(".shape")
}

/// What a pointer of a safe kernel takes, as the manifest says: its type, and the name of the
/// parameter behind it.
pub(crate) fn shape(elements: Option<Elements<'_>>, ty: &str, next: &str) -> Result<Shape, String> {
    let elements = elements.ok_or("a value: it takes a tensor or a buffer")?;
    let pointee = ty.rsplit([' ', ':']).next().unwrap_or(ty);
    let is_output = ty.starts_with("*mut ");
    let name = elements.dtype.name();
    if pointee != name {
        return Err(format!("memory of {name}"));
    }
    let length = |len: usize| i64::try_from(len).map_err(|_| format!("{len} elements"));
    match (elements.layout, next.ends_with(".shape")) {
        (Layout::Line(len), false) => Ok([length(len)?, 0, 0, 0]),
        (Layout::Strided(shape @ [rows, columns], [down, right], injective), is_two) => {
            let is_line = *right == 1 && (*rows < 2 || *down == length(*columns)?);
            match is_two {
                true if is_output && !injective => Err(format!(
                    "a tensor with strides {:?}, in which indices share elements",
                    [down, right]
                )),
                true => Ok([length(*rows)?, length(*columns)?, *down, *right]),
                false if is_line => Ok([length(rows * columns)?, 0, 0, 0]),
                false => Err(format!(
                    "a tensor of shape {shape:?} with strides {:?}: it takes contiguous elements",
                    [down, right]
                )),
            }
        }
        (Layout::Line(len), true) => Err(format!(
            "{len} elements without rows: it takes a tensor of two dimensions"
        )),
        (Layout::Strided(shape, strides, _), is_two) => Err(format!(
            "a tensor of shape {shape:?} with strides {strides:?}: it takes {}",
            match is_two {
                true => "two dimensions",
                false => "contiguous elements",
            }
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(dtype: DType, layout: Layout<'_>, ty: &str, next: &str) -> Result<Shape, String> {
        shape(Some(Elements { dtype, layout }), ty, next)
    }

    #[test]
    fn shapes_are_those_that_the_parameter_takes() {
        let (input, output) = ("*const f32", "*mut half::bf16");
        let line = Layout::Line(6);
        assert_eq!(of(DType::F32, line, input, "x.len"), Ok([6, 0, 0, 0]));
        let rows = Layout::Strided(&[2, 3], &[3, 1], true);
        assert_eq!(of(DType::F32, rows, input, "x.len"), Ok([6, 0, 0, 0]));
        assert_eq!(of(DType::Bf16, rows, output, "y.shape"), Ok([2, 3, 3, 1]));
        let turned = Layout::Strided(&[3, 2], &[1, 3], true);
        assert_eq!(of(DType::F32, turned, input, "x.shape"), Ok([3, 2, 1, 3]));
        let spread = Layout::Strided(&[2, 3], &[0, 1], false);
        assert_eq!(of(DType::F32, spread, input, "x.shape"), Ok([2, 3, 0, 1]));
        let cube = Layout::Strided(&[2, 2, 2], &[8, 2, 1], true);
        for (dtype, layout, ty, next, want) in [
            (DType::Bf16, line, input, "x.len", "memory of bf16"),
            (DType::F32, line, input, "x.shape", "two dimensions"),
            (DType::F32, turned, input, "x.len", "contiguous"),
            (DType::Bf16, spread, output, "y.shape", "share elements"),
            (DType::F32, cube, input, "x.len", "contiguous"),
            (DType::F32, cube, input, "x.shape", "two dimensions"),
        ] {
            let refused = of(dtype, layout, ty, next).expect_err("must be refused");
            assert!(refused.contains(want), "{refused}, want {want}");
        }
        assert!(shape(None, input, "x.len").is_err());
    }
}
