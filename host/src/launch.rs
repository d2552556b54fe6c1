//! Launch configurations, and kernel arguments that can be checked against a kernel's parameters.

use crate::argument::{ArgumentType, Elements};
use crate::buffer::{DeviceBuffer, DevicePtr};
use crate::element::Element;
use crate::error::Result;
use crate::stream::Stream;
use crate::tensor::Tensor;
use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use std::ffi::c_void;

/// Configuration of a launch: grid, block, dynamic shared memory and cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchConfig {
    /// Blocks of the grid in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Blocks of a thread block cluster in x, y, z, which must divide the grid. `None` means the
    /// cluster that the kernel requires (`.reqnctapercluster`), or none where it requires none.
    pub cluster: Option<[u32; 3]>,
}

impl LaunchConfig {
    /// `blocks` blocks of `threads` threads, both in x, without dynamic shared memory.
    pub const fn linear(blocks: u32, threads: u32) -> Self {
        Self {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            shared_bytes: 0,
            cluster: None,
        }
    }

    /// Enough blocks of `threads` threads in x to give each of `elements` elements a thread. At
    /// least one block, and at most 2^31 - 1, the largest grid extent in x.
    pub const fn for_elements(elements: u64, threads: u32) -> Self {
        let threads = if threads == 0 { 1 } else { threads };
        let blocks = elements.div_ceil(threads as u64);
        let blocks = if blocks == 0 { 1 } else { blocks };
        let blocks = if blocks > i32::MAX as u64 {
            i32::MAX as u32
        } else {
            blocks as u32
        };
        Self::linear(blocks, threads)
    }

    /// This configuration with `bytes` bytes of dynamic shared memory per block.
    pub const fn shared_bytes(mut self, bytes: u32) -> Self {
        self.shared_bytes = bytes;
        self
    }

    /// This configuration with clusters of these extents in x, y, z, in blocks.
    pub const fn cluster(mut self, blocks: [u32; 3]) -> Self {
        self.cluster = Some(blocks);
        self
    }
}

/// A type that is passed to a kernel by value, as its bytes. Declare structs of this kind with
/// [`kernel_param!`](crate::kernel_param).
///
/// # Safety
/// As for [`abi::KernelParam`]: a defined layout without padding, so that every byte is initialised.
pub unsafe trait KernelParam: Copy {
    /// What it is.
    fn argument_type(&self) -> ArgumentType<'_> {
        ArgumentType::Other
    }
}

/// Declares a struct that is passed to a kernel by value: `#[repr(C)]`, [`Copy`] and a
/// [`KernelParam`]. Padding is a compile error: order the fields by decreasing size, and add an
/// explicit field where padding would be at the end.
///
/// ```
/// warpsmith::kernel_param! {
///     /// Parameters of a kernel that scales rows.
///     #[derive(Debug)]
///     pub struct ScaleParams {
///         pub row_stride: i64,
///         pub rows: u32,
///         pub scale: f32,
///     }
/// }
/// let params = ScaleParams { row_stride: 64, rows: 8, scale: 0.5 };
/// # let _ = params;
/// ```
#[macro_export]
macro_rules! kernel_param {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident { $($fields:tt)* }) => {
        $crate::__abi::kernel_param! {
            $(#[$attribute])*
            $visibility struct $name { $($fields)* }
        }

        // SAFETY: the macro of `abi` has shown that there is no padding.
        unsafe impl $crate::KernelParam for $name {
            fn argument_type(&self) -> $crate::ArgumentType<'_> {
                $crate::ArgumentType::Struct(<Self as $crate::__abi::KernelParam>::LAYOUT)
            }
        }
    };
}

macro_rules! numbers {
    ($($ty:ident)*) => {$(
        // SAFETY: a number, a truth value or a character, without padding.
        unsafe impl KernelParam for $ty {
            fn argument_type(&self) -> ArgumentType<'_> {
                ArgumentType::Number(stringify!($ty))
            }
        }
    )*};
}

numbers! {
    u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64 f16 bf16 bool char
}

// SAFETY: elements without padding, one after the other.
unsafe impl<T: KernelParam, const N: usize> KernelParam for [T; N] {}

// SAFETY: a transparent 64-bit address, like a pointer on the device.
unsafe impl<T> KernelParam for DevicePtr<T> {
    fn argument_type(&self) -> ArgumentType<'_> {
        ArgumentType::Memory(Elements::at_address(std::any::type_name::<T>()))
    }
}

/// One argument of a launch. It is a [`KernelParam`], passed by value, or a reference to a buffer
/// or tensor, passed as the device address of its element 0. `None` of type
/// `Option<&DeviceBuffer<T>>` or `Option<&Tensor<T>>` is a null pointer.
///
/// # Safety
/// [`KernelArg::bytes`] returns a pointer to [`KernelArg::size_bytes`] initialised bytes that stay
/// valid as long as `self` is borrowed. [`KernelArg::argument_type`] says what they are, and
/// [`KernelArg::use_on`] registers the memory that they point to.
pub unsafe trait KernelArg {
    /// Size of the argument, which must equal that of the kernel's parameter.
    fn size_bytes(&self) -> usize;
    /// Pointer to the argument's bytes.
    fn bytes(&self) -> *const c_void;
    /// What it is, which must suit the Rust type of the kernel's parameter where that is known.
    fn argument_type(&self) -> ArgumentType<'_> {
        ArgumentType::Other
    }
    /// Called before the launch: registers the use of the argument's memory on the stream, so that
    /// it is not freed before the launch is done.
    ///
    /// # Errors
    /// [`DeviceError::Mismatch`](crate::DeviceError::Mismatch).
    fn use_on(&self, stream: &Stream) -> Result<()> {
        let _ = stream;
        Ok(())
    }
}

// SAFETY: the value's own bytes, all initialised by `KernelParam`.
unsafe impl<T: KernelParam> KernelArg for T {
    fn size_bytes(&self) -> usize {
        size_of::<T>()
    }

    fn bytes(&self) -> *const c_void {
        std::ptr::from_ref(self).cast()
    }

    fn argument_type(&self) -> ArgumentType<'_> {
        KernelParam::argument_type(self)
    }
}

/// A parameter struct that is declared by [`abi::kernel_param!`], in a crate that host and kernels
/// share.
#[derive(Clone, Copy, Debug)]
pub struct ByValue<'a> {
    bytes: &'a [u8],
    layout: Option<u64>,
}

impl<'a> ByValue<'a> {
    /// The argument with the bytes of `params`.
    pub const fn of<P: abi::KernelParam>(params: &'a P) -> Self {
        Self {
            bytes: abi::bytes_of(params),
            layout: Some(P::LAYOUT),
        }
    }

    /// As [`of`](Self::of). A struct with another layout than the kernel's parameter does not compile:
    ///
    /// ```compile_fail,E0080
    /// warpsmith::kernel_param! {
    ///     struct Params { rows: u32 }
    /// }
    /// let _ = warpsmith::ByValue::with_layout::<0, _>(&Params { rows: 1 });
    /// ```
    #[doc(hidden)]
    pub const fn with_layout<const LAYOUT: u64, P: abi::KernelParam>(params: &'a P) -> Self {
        const {
            assert!(
                P::LAYOUT == LAYOUT,
                "this struct has other fields than the parameter of the kernel"
            );
        }
        Self::of(params)
    }

    /// The argument with these bytes, of whatever they are.
    pub(crate) const fn of_bytes(bytes: &'a [u8]) -> Self {
        let layout = None;
        Self { bytes, layout }
    }
}

// SAFETY: bytes that the argument borrows.
unsafe impl KernelArg for ByValue<'_> {
    fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn bytes(&self) -> *const c_void {
        self.bytes.as_ptr().cast()
    }

    fn argument_type(&self) -> ArgumentType<'_> {
        self.layout
            .map_or(ArgumentType::Other, ArgumentType::Struct)
    }
}

static NULL: u64 = 0;

macro_rules! memory_args {
    ($($owner:ident),*) => {$(
        // SAFETY: the address is a field of the owner, which the argument borrows.
        unsafe impl<T: Element> KernelArg for &$owner<T> {
            fn size_bytes(&self) -> usize {
                size_of::<u64>()
            }

            fn bytes(&self) -> *const c_void {
                std::ptr::from_ref(self.address_ref()).cast()
            }

            fn argument_type(&self) -> ArgumentType<'_> {
                ArgumentType::Memory(Elements::from(&**self))
            }

            fn use_on(&self, stream: &Stream) -> Result<()> {
                self.storage().use_on("argument", stream)
            }
        }

        // SAFETY: as above.
        unsafe impl<T: Element> KernelArg for &mut $owner<T> {
            fn size_bytes(&self) -> usize {
                size_of::<u64>()
            }

            fn bytes(&self) -> *const c_void {
                std::ptr::from_ref(self.address_ref()).cast()
            }

            fn argument_type(&self) -> ArgumentType<'_> {
                ArgumentType::Memory(Elements::from(&**self))
            }

            fn use_on(&self, stream: &Stream) -> Result<()> {
                self.storage().use_on("argument", stream)
            }
        }

        // SAFETY: as above, or a static.
        unsafe impl<T: Element> KernelArg for Option<&$owner<T>> {
            fn size_bytes(&self) -> usize {
                size_of::<u64>()
            }

            fn bytes(&self) -> *const c_void {
                std::ptr::from_ref(self.map_or(&NULL, $owner::address_ref)).cast()
            }

            fn argument_type(&self) -> ArgumentType<'_> {
                self.map_or(ArgumentType::Null, |memory| ArgumentType::Memory(memory.into()))
            }

            fn use_on(&self, stream: &Stream) -> Result<()> {
                self.map_or(Ok(()), |memory| memory.storage().use_on("argument", stream))
            }
        }
    )*};
}

memory_args!(DeviceBuffer, Tensor);

/// Most parameters of a kernel that can be launched.
pub(crate) const MAX_ARGUMENTS: usize = 64;

/// All arguments of a launch, in order: a tuple of up to 12 [`KernelArg`]s, or a slice of
/// `&dyn KernelArg` where their number is known only at run time.
pub trait KernelArgs {
    /// Number of arguments.
    fn count(&self) -> usize;
    /// Hands each to `visit`, in order. A launch keeps their [`bytes`](KernelArg::bytes) beyond the
    /// call of `visit`, so they live as long as `self` is borrowed:
    ///
    /// ```compile_fail
    /// use warpsmith::{KernelArg, KernelArgs, Result};
    /// struct Length(usize);
    /// impl KernelArgs for Length {
    ///     fn count(&self) -> usize {
    ///         1
    ///     }
    ///     fn visit<'a>(
    ///         &'a self,
    ///         visit: &mut dyn FnMut(&'a dyn KernelArg) -> Result<()>,
    ///     ) -> Result<()> {
    ///         let length = self.0 as u32;
    ///         visit(&length) // gone before the launch
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// The first that `visit` returns.
    fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a dyn KernelArg) -> Result<()>) -> Result<()>;
}

impl KernelArgs for [&dyn KernelArg] {
    fn count(&self) -> usize {
        self.len()
    }

    fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a dyn KernelArg) -> Result<()>) -> Result<()> {
        self.iter().try_for_each(|&argument| visit(argument))
    }
}

impl<A: KernelArgs + ?Sized> KernelArgs for &A {
    fn count(&self) -> usize {
        (**self).count()
    }

    fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a dyn KernelArg) -> Result<()>) -> Result<()> {
        (**self).visit(visit)
    }
}

/// The arguments of both, in order.
pub(crate) struct Then<A, B>(pub(crate) A, pub(crate) B);

impl<A: KernelArgs, B: KernelArgs> KernelArgs for Then<A, B> {
    fn count(&self) -> usize {
        self.0.count() + self.1.count()
    }

    fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a dyn KernelArg) -> Result<()>) -> Result<()> {
        self.0.visit(visit)?;
        self.1.visit(visit)
    }
}

macro_rules! tuples {
    ($($($name:ident)*;)*) => {$(
        #[allow(non_snake_case)] // the type parameters' names serve as the variables'
        impl<$($name: KernelArg),*> KernelArgs for ($($name,)*) {
            fn count(&self) -> usize {
                const { [$(stringify!($name)),*].len() }
            }

            fn visit<'a>(
                &'a self,
                visit: &mut dyn FnMut(&'a dyn KernelArg) -> Result<()>,
            ) -> Result<()> {
                let ($($name,)*) = self;
                $(visit($name)?;)*
                Ok(())
            }
        }
    )*};
}

tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
    A B C D E F G H I;
    A B C D E F G H I J;
    A B C D E F G H I J K;
    A B C D E F G H I J K L;
}

impl KernelArgs for () {
    fn count(&self) -> usize {
        0
    }

    fn visit<'a>(&'a self, _visit: &mut dyn FnMut(&'a dyn KernelArg) -> Result<()>) -> Result<()> {
        Ok(())
    }
}
