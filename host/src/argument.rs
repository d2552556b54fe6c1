//! What an argument of a launch is, and which Rust types of a parameter it suits.

use crate::buffer::{DeviceBuffer, DevicePtr};
use crate::element::Element;
use crate::error::Result;
use crate::float8::{E4m3, E5m2};
use crate::launch::KernelArg;
use crate::storage::Storage;
use crate::stream::Stream;
use crate::tensor::{Erased, Layout, Tensor};
use crate::vectors::{VECTOR_BYTES, in_vectors, vector};
use abi::DType;
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
    /// The address of elements.
    Memory(Elements<'a>),
    /// The null pointer.
    Null,
    /// A struct with this [`LAYOUT`](abi::KernelParam::LAYOUT).
    Struct(u64),
    /// Anything else. Its size alone is checked.
    Other,
}

/// The elements at an address: their type, and their place if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements<'a> {
    ty: &'a str,
    place: Place<'a>,
    /// The memory that they are in, if their place is known.
    storage: Option<&'a Storage>,
}

/// Where the elements behind an address are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place<'a> {
    /// The argument does not say it, or other arguments do.
    Unknown,
    /// So many, one after the other.
    Line(usize),
    View(&'a Layout),
}

/// The words of the parameter behind a pointer of a safe kernel: a length, or the extents and
/// strides of `Shape2` or `Shape3`.
pub(crate) type Shape = [i64; 6];

/// Whether a parameter of this name is the length or the shape of the one before it.
pub(crate) fn is_shape(name: &str) -> bool {
    name.ends_with(".len") || name.ends_with(".shape")
}

impl<'a> Elements<'a> {
    /// Elements of the type with this name, at an address of which no more is known.
    pub(crate) fn at_address(ty: &'a str) -> Self {
        Self {
            ty,
            place: Place::Unknown,
            storage: None,
        }
    }

    /// The memory that they are in, if their place is known.
    pub(crate) fn storage(&self) -> Option<&'a Storage> {
        self.storage
    }

    /// Whether the two may share memory; `false` is certain.
    pub(crate) fn overlaps(&self, other: &Self) -> Result<bool> {
        let (own, others) = (self.layout()?, other.layout()?);
        Ok(match (self.erased(&own), other.erased(&others)) {
            (Some(own), Some(other)) => own.overlaps(&other),
            _ => true,
        })
    }

    fn layout(&self) -> Result<Layout> {
        match self.place {
            Place::View(layout) => Ok(*layout),
            Place::Line(len) => Layout::contiguous(&[len]),
            Place::Unknown => Layout::contiguous(&[]),
        }
    }

    fn erased<'b>(&'b self, layout: &'b Layout) -> Option<Erased<'b>> {
        let (storage, dtype) = (self.storage?, DType::from_name(self.ty)?);
        Some(Erased::new(storage, layout, storage.address(), dtype))
    }

    /// Holds the address against vectors of so many elements. An error says at which address they
    /// are.
    fn is_aligned(&self, lanes: usize) -> Result<(), String> {
        let (Some(storage), Some(dtype)) = (self.storage, DType::from_name(self.ty)) else {
            return Ok(());
        };
        let element = dtype.size_bytes() as u64;
        let first = match self.place {
            Place::View(layout) => layout.offset as u64 * element,
            _ => 0,
        };
        let (address, bytes) = (storage.address() + first, lanes as u64 * element);
        let bytes = 1 << bytes.trailing_zeros().min(VECTOR_BYTES.ilog2());
        match address.is_multiple_of(bytes) {
            true => Ok(()),
            false => Err(format!(
                "{self} at address {address:#x}: it takes multiples of {bytes}"
            )),
        }
    }

    /// What a launch passes behind the address for a safe kernel's parameter: the length, or for
    /// more than one dimension the extents, then the strides. All are in vectors of so many elements.
    /// An error says what the elements are instead.
    fn shape(&self, is_output: bool, dimensions: usize, lanes: usize) -> Result<Shape, String> {
        let want = format!(
            "it takes {} dimensions",
            ["no", "one", "two", "three"][dimensions]
        );
        let in_line = [match &self.place {
            Place::Unknown => 0,
            Place::Line(len) => *len,
            Place::View(layout) => layout.len(),
        }];
        let (extents, strides): (&[usize], &[i64]) = match (&self.place, dimensions) {
            (Place::Unknown, _) => {
                return Err("an address alone: it takes a tensor or a buffer".into());
            }
            (Place::Line(_), 1) => (&in_line[..], &[][..]),
            (Place::Line(len), _) => return Err(format!("{len} elements without rows: {want}")),
            (Place::View(layout), 1) if layout.is_contiguous() => (&in_line[..], &[][..]),
            (Place::View(_), 1) => return Err(format!("{self}: it takes contiguous elements")),
            (Place::View(layout), _) if is_output && !layout.is_injective() => {
                let strides = &*layout.strides;
                return Err(format!(
                    "a tensor with strides {strides:?}, in which indices share elements"
                ));
            }
            (Place::View(layout), _) if layout.shape.len() != dimensions => {
                let shape = &*layout.shape;
                return Err(format!("a tensor of shape {shape:?}: {want}"));
            }
            (Place::View(layout), _) => (&*layout.shape, &*layout.strides),
        };
        let mut words = Shape::default();
        let (of_extents, of_strides) = words.split_at_mut(extents.len());
        for (word, &extent) in of_extents.iter_mut().zip(extents) {
            *word = i64::try_from(extent).map_err(|_| format!("{extent} elements"))?;
        }
        of_strides[..strides.len()].copy_from_slice(strides);
        if lanes != 1 {
            in_vectors(of_extents, &mut of_strides[..strides.len()], lanes)?;
        }
        Ok(words)
    }
}

impl<'a, T: Element> From<&'a DeviceBuffer<T>> for Elements<'a> {
    fn from(buffer: &'a DeviceBuffer<T>) -> Self {
        Self {
            ty: T::DTYPE.name(),
            place: Place::Line(buffer.len()),
            storage: Some(buffer.storage()),
        }
    }
}

impl<'a, T: Element> From<&'a Tensor<T>> for Elements<'a> {
    fn from(tensor: &'a Tensor<T>) -> Self {
        Self {
            ty: T::DTYPE.name(),
            place: Place::View(tensor.layout()),
            storage: Some(tensor.storage()),
        }
    }
}

impl ArgumentType<'_> {
    /// Whether a parameter of this Rust type takes it. A type that is not a number or a pointer to
    /// numbers takes everything, because only its size is known.
    pub(crate) fn suits(&self, parameter: &str) -> bool {
        let pointee = pointee(parameter);
        let is_known = is_number(pointee.unwrap_or(parameter));
        match (*self, pointee) {
            (Self::Other, _) => true,
            (Self::Struct(_), Some(_)) => false,
            (Self::Struct(_), None) => !is_known,
            (Self::Number(_), Some(_)) => false,
            (Self::Number(number), None) => !is_known || is_same(parameter, number),
            (Self::Memory(elements), Some(of)) => {
                let is_strided =
                    matches!(elements.place, Place::View(layout) if !layout.is_contiguous());
                !is_strided && (!is_known || is_same(of, elements.ty))
            }
            (Self::Null, Some(_)) => true,
            (Self::Memory(_) | Self::Null, None) => !is_known,
        }
    }

    /// What a launch passes behind the address, where the parameter behind a pointer of type `ty` is
    /// the length or shape of its elements, of type `next`. An error says what this is instead.
    pub(crate) fn shape(&self, ty: &str, next: &str) -> Result<Shape, String> {
        let Self::Memory(elements) = self else {
            return Err(format!("{self}: it takes a tensor or a buffer"));
        };
        let (of, lanes) = vector(pointee(ty).unwrap_or_default());
        if !is_same(of, elements.ty) {
            return Err(format!("memory of {}", elements.ty));
        }
        elements.is_aligned(lanes)?;
        let dimensions = match last(next) {
            "Shape3" => 3,
            "Shape2" => 2,
            _ => 1,
        };
        elements.shape(ty.starts_with("*mut "), dimensions, lanes)
    }
}

impl fmt::Display for ArgumentType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "a number of type {number}"),
            Self::Memory(elements) => {
                elements.fmt(f)?;
                match elements.place {
                    Place::View(layout) if !layout.is_contiguous() => {
                        f.write_str(" (`Strided(&view)` passes it to a kernel that takes strides)")
                    }
                    _ => Ok(()),
                }
            }
            Self::Null => f.write_str("the null pointer"),
            Self::Struct(_) => f.write_str("a struct with other fields"),
            Self::Other => f.write_str("a value"),
        }
    }
}

impl fmt::Display for Elements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ty, place, .. } = self;
        match place {
            Place::View(layout) if !layout.is_contiguous() => write!(
                f,
                "a view of {ty} that is not contiguous, with shape {:?} and strides {:?}",
                &*layout.shape, &*layout.strides
            ),
            _ => write!(f, "memory of {ty}"),
        }
    }
}

/// The type that a pointer or reference points to.
pub(crate) fn pointee(ty: &str) -> Option<&str> {
    let prefixes = ["*const ", "*mut ", "&mut ", "&"];
    prefixes.iter().find_map(|prefix| ty.strip_prefix(prefix))
}

/// The last name of a path: `bf16` of `half::bf16`.
pub(crate) fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// The name of the number that an atomic is memory of.
pub(crate) fn number_of_atomic(ty: &str) -> Option<&'static str> {
    match last(ty) {
        "AtomicU32" => Some("u32"),
        "AtomicI32" => Some("i32"),
        "AtomicU64" => Some("u64"),
        "AtomicI64" => Some("i64"),
        "AtomicF32" => Some("f32"),
        "AtomicF64" => Some("f64"),
        "AtomicF16" => Some("f16"),
        "AtomicBf16" => Some("bf16"),
        _ => None,
    }
}

/// The name of a number's type, or of the number in an atomic.
fn number_in(ty: &str) -> &str {
    number_of_atomic(ty).unwrap_or(last(ty))
}

fn is_number(ty: &str) -> bool {
    const OTHERS: [&str; 4] = ["usize", "isize", "bool", "char"];
    let name = number_in(ty);
    OTHERS.contains(&name) || DType::from_name(name).is_some()
}

/// Whether a parameter or element of Rust type `want` takes a `got`. Addresses have 64 bits on both
/// sides. Kernels may handle small floats as their bits.
fn is_same(want: &str, got: &str) -> bool {
    let (want, got) = (number_in(want), last(got));
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
        ArgumentType::Memory(Elements::at_address(T::DTYPE.name()))
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
        impl<T: Element, const N: usize> ConstPointer<[T; N]> for &$owner<T> {}
        impl<T: Element, const N: usize> ConstPointer<[T; N]> for &mut $owner<T> {}
        impl<T: Element, const N: usize> MutPointer<[T; N]> for &mut $owner<T> {}
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
    use super::ArgumentType::{self, Memory, Null, Number, Other};
    use super::{Elements, Place, Shape};
    use crate::tensor::Layout;

    fn of(ty: &str) -> ArgumentType<'_> {
        Memory(Elements::at_address(ty))
    }

    fn layout(shape: &[usize], strides: &[i64]) -> Layout {
        Layout::new(shape, strides, 0, 64).expect("inside of 64 elements")
    }

    #[test]
    fn pointers_take_elements_of_their_type_alone() {
        let turned = layout(&[2, 3], &[1, 2]);
        let view = Memory(Elements {
            place: Place::View(&turned),
            ..Elements::at_address("f32")
        });
        for pointer in [
            "*mut f32",
            "*const f32",
            "&f32",
            "*mut core::primitive::f32",
        ] {
            assert!(of("f32").suits(pointer) && Null.suits(pointer), "{pointer}");
            for other in [of("bf16"), of("u32"), Number("u64"), view] {
                assert!(!other.suits(pointer), "{other:?} for {pointer}");
            }
        }
        assert!(of("bf16").suits("*const u16") && of("e4m3").suits("*const u8"));
        assert!(of("u64").suits("*mut usize") && !of("i64").suits("*mut usize"));
        assert!(of("bf16").suits("*const half::bf16") && !of("f16").suits("*const bf16"));
    }

    #[test]
    fn numbers_take_numbers_of_their_type_alone() {
        assert!(Number("usize").suits("usize") && Number("u64").suits("usize"));
        for other in [Number("f64"), Number("i64"), of("f32"), Null] {
            assert!(!other.suits("usize"), "{other:?}");
        }
        assert!(!Number("u32").suits("f32") && !Number("u32").suits("i32"));
    }

    #[test]
    fn types_that_the_host_does_not_know_take_what_has_their_size() {
        assert!(Number("u64").suits("Length") && of("f32").suits("Address"));
        assert!(of("f32").suits("*const[f32;4]") && Other.suits("usize"));
        assert!(!Number("u64").suits("*const Wide"));
    }

    #[test]
    fn shapes_are_those_that_the_parameter_takes() {
        let (input, output) = ("*const f32", "*mut half::bf16");
        let shape = |ty: &'static str, place, parameter, next| -> Result<Shape, String> {
            let elements = Elements {
                place,
                ..Elements::at_address(ty)
            };
            Memory(elements).shape(parameter, next)
        };
        let line = Place::Line(6);
        let rows = layout(&[2, 3], &[3, 1]);
        let turned = layout(&[3, 2], &[1, 3]);
        let spread = layout(&[2, 3], &[0, 1]);
        let cube = layout(&[2, 2, 2], &[8, 2, 1]);
        let view = |layout| Place::View(layout);
        let words: [(_, _, _, _, &[i64]); 6] = [
            ("f32", line, input, "usize", &[6]),
            ("f32", view(&rows), input, "usize", &[6]),
            ("bf16", view(&rows), output, "Shape2", &[2, 3, 3, 1]),
            ("f32", view(&turned), input, "Shape2", &[3, 2, 1, 3]),
            ("f32", view(&spread), input, "Shape2", &[2, 3, 0, 1]),
            ("f32", view(&cube), input, "Shape3", &[2, 2, 2, 8, 2, 1]),
        ];
        for (ty, place, parameter, next, want) in words {
            let got = shape(ty, place, parameter, next).expect("it fits");
            assert_eq!(got[..want.len()], *want);
            assert!(got[want.len()..].iter().all(|&word| word == 0));
        }
        for (ty, place, parameter, next, want) in [
            ("bf16", line, input, "usize", "memory of bf16"),
            ("f32", line, input, "Shape2", "two dimensions"),
            (
                "f32",
                Place::Unknown,
                input,
                "usize",
                "a tensor or a buffer",
            ),
            ("f32", view(&turned), input, "usize", "contiguous"),
            ("bf16", view(&spread), output, "Shape2", "share elements"),
            ("f32", view(&cube), input, "usize", "contiguous"),
            ("f32", view(&cube), input, "Shape2", "two dimensions"),
            ("f32", view(&rows), input, "Shape3", "three dimensions"),
        ] {
            let refused = shape(ty, place, parameter, next).expect_err("must be refused");
            assert!(refused.contains(want), "{refused}, want {want}");
        }
        assert!(Null.shape(input, "usize").is_err());
        let vectors = shape("f32", Place::Line(8), "*const [f32;4]", "usize");
        assert_eq!(vectors.expect("two vectors")[0], 2);
        assert!(shape("bf16", Place::Line(8), "*const [f32;4]", "usize").is_err());
    }
}
