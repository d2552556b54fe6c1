//! What an argument of a launch is, and which Rust types of a parameter it suits.

use crate::buffer::{DeviceBuffer, DevicePtr};
use crate::element::Element;
use crate::error::Result;
use crate::float8::{E4m3, E5m2};
use crate::launch::KernelArg;
use crate::stream::Stream;
use crate::tensor::Tensor;
use half::{bf16, f16};
use std::ffi::c_void;
use std::fmt;

/// What a [`KernelArg`] is. A launch holds it against the Rust type of its parameter, where the
/// module was loaded with its manifest ([`Device::load_built`](crate::Device::load_built)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgumentType<'a> {
    /// A number, with the name of its Rust type (`usize`).
    Number(&'a str),
    /// The address of contiguous elements, with the name of their type (`f32`).
    Memory(&'a str),
    /// The address of element 0 of a view that is not contiguous.
    View {
        /// Name of the elements' type.
        element: &'a str,
        /// Its shape.
        shape: &'a [usize],
        /// Its strides in elements.
        strides: &'a [i64],
    },
    /// The null pointer.
    Null,
    /// Anything else. Its size alone is checked.
    Other,
}

impl<'a> ArgumentType<'a> {
    /// That of a tensor, whose strides the kernel does not see.
    pub(crate) fn of_tensor<T: Element>(tensor: &'a Tensor<T>) -> Self {
        let element = T::DTYPE.name();
        if tensor.is_contiguous() {
            return Self::Memory(element);
        }
        Self::View {
            element,
            shape: tensor.shape(),
            strides: tensor.strides(),
        }
    }

    /// Whether a parameter of this Rust type takes it. A type that is no number, and no pointer to
    /// numbers, takes everything: its size is all that is known.
    pub(crate) fn suits(&self, parameter: &str) -> bool {
        let pointee = pointee(parameter);
        let is_known = is_number(pointee.unwrap_or(parameter));
        match (*self, pointee) {
            (Self::Other, _) => true,
            (Self::Number(_), Some(_)) => false,
            (Self::Number(number), None) => !is_known || is_same(parameter, number),
            (Self::Memory(element), Some(of)) => !is_known || is_same(of, element),
            (Self::View { .. }, Some(_)) => false,
            (Self::Null, Some(_)) => true,
            (Self::Memory(_) | Self::View { .. } | Self::Null, None) => !is_known,
        }
    }
}

impl fmt::Display for ArgumentType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "a number of type {number}"),
            Self::Memory(element) => write!(f, "memory of {element}"),
            Self::View {
                element,
                shape,
                strides,
            } => write!(
                f,
                "a view of {element} that is not contiguous, with shape {shape:?} and strides \
                 {strides:?} (`Strided(&view)` passes it to a kernel that takes strides)"
            ),
            Self::Null => f.write_str("the null pointer"),
            Self::Other => f.write_str("a value"),
        }
    }
}

/// The type that a pointer or reference points to.
fn pointee(ty: &str) -> Option<&str> {
    let prefixes = ["*const ", "*mut ", "&mut ", "&"];
    prefixes.iter().find_map(|prefix| ty.strip_prefix(prefix))
}

/// The last name of a path: `bf16` of `half::bf16`.
fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

fn is_number(ty: &str) -> bool {
    const OTHERS: [&str; 4] = ["usize", "isize", "bool", "char"];
    let name = last(ty);
    OTHERS.contains(&name) || abi::DType::from_name(name).is_some()
}

/// Whether a parameter or element of Rust type `want` takes a `got`. Addresses have 64 bits on both
/// sides. Kernels may handle small floats as their bits.
fn is_same(want: &str, got: &str) -> bool {
    let (want, got) = (last(want), last(got));
    want == got
        || matches!(
            (want, got),
            ("usize", "u64")
                | ("u64", "usize")
                | ("isize", "i64")
                | ("i64", "isize")
                | ("u16", "f16" | "bf16")
                | ("u8", "e4m3" | "e5m2" | "E4m3" | "E5m2")
        )
}

/// The address of element 0 of a tensor that need not be contiguous, for a kernel that takes the
/// strides as further parameters.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a, T: Element>(pub &'a Tensor<T>);

// SAFETY: those of the reference.
unsafe impl<T: Element> KernelArg for Strided<'_, T> {
    fn size_bytes(&self) -> usize {
        KernelArg::size_bytes(&self.0)
    }

    fn bytes(&self) -> *const c_void {
        KernelArg::bytes(&self.0)
    }

    fn argument_type(&self) -> ArgumentType<'_> {
        ArgumentType::Memory(T::DTYPE.name())
    }

    fn use_on(&self, stream: &Stream) -> Result<()> {
        KernelArg::use_on(&self.0, stream)
    }
}

/// An argument for a parameter `*const T` or `&T`.
#[diagnostic::on_unimplemented(
    message = "the kernel reads memory of `{T}`, which `{Self}` is not",
    note = "pass a `&Tensor<{T}>`, a `&DeviceBuffer<{T}>`, a `Strided<{T}>` or a `DevicePtr<{T}>`"
)]
pub trait ConstPointer<T>: KernelArg {}

/// An argument for a parameter `*mut T`.
#[diagnostic::on_unimplemented(
    message = "the kernel writes memory of `{T}`, which `{Self}` is not",
    note = "pass a `&mut Tensor<{T}>`, a `&mut DeviceBuffer<{T}>` or a `DevicePtr<{T}>`"
)]
pub trait MutPointer<T>: KernelArg {}

macro_rules! pointers {
    ($($owner:ident),*) => {$(
        impl<T: Element> ConstPointer<T> for &$owner<T> {}
        impl<T: Element> ConstPointer<T> for &mut $owner<T> {}
        impl<T: Element> ConstPointer<T> for Option<&$owner<T>> {}
        impl<T: Element> MutPointer<T> for &mut $owner<T> {}
        pointers! { of bits: $owner u16 f16, $owner u16 bf16, $owner u8 E4m3, $owner u8 E5m2 }
    )*};
    // Small floats, for kernels that handle their bits.
    (of bits: $($owner:ident $bits:ident $float:ident),*) => {$(
        impl ConstPointer<$bits> for &$owner<$float> {}
        impl MutPointer<$bits> for &mut $owner<$float> {}
    )*};
}

pointers!(DeviceBuffer, Tensor);

impl<T: Element> ConstPointer<T> for Strided<'_, T> {}
impl<T> ConstPointer<T> for DevicePtr<T> {}
impl<T> MutPointer<T> for DevicePtr<T> {}

#[cfg(test)]
mod tests {
    use super::ArgumentType::{Memory, Null, Number, Other, View};

    #[test]
    fn pointers_take_elements_of_their_type_alone() {
        let view = View {
            element: "f32",
            shape: &[2, 3],
            strides: &[1, 2],
        };
        for pointer in [
            "*mut f32",
            "*const f32",
            "&f32",
            "*mut core::primitive::f32",
        ] {
            assert!(
                Memory("f32").suits(pointer) && Null.suits(pointer),
                "{pointer}"
            );
            for other in [Memory("bf16"), Memory("u32"), Number("u64"), view] {
                assert!(!other.suits(pointer), "{other:?} for {pointer}");
            }
        }
        assert!(Memory("bf16").suits("*const u16") && Memory("e4m3").suits("*const u8"));
        assert!(Memory("u64").suits("*mut usize") && !Memory("i64").suits("*mut usize"));
        assert!(Memory("bf16").suits("*const half::bf16") && !Memory("f16").suits("*const bf16"));
    }

    #[test]
    fn numbers_take_numbers_of_their_type_alone() {
        assert!(Number("usize").suits("usize") && Number("u64").suits("usize"));
        for other in [Number("f64"), Number("i64"), Memory("f32"), Null] {
            assert!(!other.suits("usize"), "{other:?}");
        }
        assert!(!Number("u32").suits("f32") && !Number("u32").suits("i32"));
    }

    #[test]
    fn types_that_the_host_does_not_know_take_what_has_their_size() {
        assert!(Number("u64").suits("Length") && Memory("f32").suits("Address"));
        assert!(Memory("f32").suits("*const[f32;4]") && Other.suits("usize"));
        assert!(!Number("u64").suits("*const Wide"));
    }
}
