//! Launches: their shape, and arguments that are held against the kernel's parameters.

use crate::buffer::{DeviceBuffer, DevicePtr};
use crate::element::Element;
use crate::error::Result;
use crate::stream::Stream;
use crate::tensor::Tensor;
use std::ffi::c_void;

/// Shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// Blocks of a cluster in x, y, z, which divide the grid; `None` means what the kernel demands
    /// (`.reqnctapercluster`), or no clusters.
    pub cluster: Option<[u32; 3]>,
}

impl LaunchConfig {
    /// Blocks and threads in x, and no dynamic shared memory.
    pub const fn linear(blocks: u32, threads: u32) -> Self {
        Self {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            shared_bytes: 0,
            cluster: None,
        }
    }

    /// As many blocks of `threads` threads in x as it takes for one thread an element; at least
    /// one block, and not more than a grid can have.
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

    /// The same with that much dynamic shared memory.
    pub const fn shared_bytes(mut self, bytes: u32) -> Self {
        self.shared_bytes = bytes;
        self
    }

    /// The same in clusters of so many blocks in x, y, z.
    pub const fn cluster(mut self, blocks: [u32; 3]) -> Self {
        self.cluster = Some(blocks);
        self
    }
}

/// A value that a kernel takes by value, as its bytes. [`kernel_param!`](crate::kernel_param)
/// declares structs that are.
///
/// # Safety
/// The type has a layout that does not depend on the compiler (`#[repr(C)]` for a struct), and no
/// padding: every byte is initialised.
pub unsafe trait KernelParam: Copy {}

/// Declares a struct that kernels take by value: `#[repr(C)]`, [`Copy`], and a [`KernelParam`].
/// Fields are [`KernelParam`]s themselves. Padding between or after them is a compile error: order
/// fields by falling size, and fill up with a field of zeros.
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
///
/// ```compile_fail
/// warpsmith::kernel_param! {
///     struct Padded {
///         rows: u32,
///         row_stride: i64, // four bytes of padding before it
///     }
/// }
/// ```
#[macro_export]
macro_rules! kernel_param {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$field_attribute:meta])* $field_visibility:vis $field:ident: $ty:ty),* $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        $visibility struct $name {
            $($(#[$field_attribute])* $field_visibility $field: $ty,)*
        }

        const _: () = {
            const fn is_param<T: $crate::KernelParam>() -> usize {
                ::core::mem::size_of::<T>()
            }
            assert!(
                ::core::mem::size_of::<$name>() == 0 $(+ is_param::<$ty>())*,
                "the parameter struct has padding"
            );
        };

        // SAFETY: `#[repr(C)]`, and the assertion above shows that there is no padding: the fields,
        // which have none themselves, add up to the whole.
        unsafe impl $crate::KernelParam for $name {}
    };
}

macro_rules! kernel_params {
    ($($ty:ty),* $(,)?) => {$(
        // SAFETY: a number: the same on the device, no padding.
        unsafe impl KernelParam for $ty {}
    )*};
}

kernel_params!(
    u8,
    u16,
    u32,
    u64,
    usize,
    i8,
    i16,
    i32,
    i64,
    isize,
    f32,
    f64,
    half::f16,
    half::bf16
);

// SAFETY: elements without padding, one after the other.
unsafe impl<T: KernelParam, const N: usize> KernelParam for [T; N] {}

/// Fields add up to the whole: there is no padding.
macro_rules! spec_params {
    ($($ty:ty { $($field:ty),* $(,)? })*) => {$(
        const _: () = assert!(
            size_of::<$ty>() == 0 $(+ size_of::<$field>())*,
            "a parameter struct has padding, or a field that is not listed"
        );
        // SAFETY: `#[repr(C)]` in spec, which the kernels use too; no padding by the assertion.
        unsafe impl KernelParam for $ty {}
    )*};
}

spec_params! {
    spec::gemm::GemmParams { [u32; 4], [i64; 8], [f32; 2] }
    spec::gemm::EpilogueParams { [i64; 5], [u32; 4] }
    spec::gemm::sm90::Sm90Launch { [u32; 3] }
    spec::gemm::decode::sm90::DecodeLaunch { [u32; 2] }
    spec::attention::FlashFwdParams { [[i64; 3]; 4], [u32; 9], [i32; 2], u32, [f32; 2], [u32; 2] }
    spec::attention::FlashFwdLengths { [u64; 5] }
    spec::attention::sm90::FwdLaunch { u64, [u32; 2] }
    spec::attention::FwdPacking { [u32; 4], [u64; 2] }
    spec::attention::merge::MergeParams { [u32; 6] }
    spec::reduce::ReduceView { [u64; 8] }
    spec::reduce::ReduceParams { spec::reduce::ReduceView, [u64; 2], [u32; 8], f64, [u64; 3] }
    spec::rows::RowParams { [u64; 2], [i64; 5], i64, [f32; 2], [u32; 4] }
    spec::scan::ScanParams { [u64; 8], [u32; 4] }
    spec::elementwise::Division { [u32; 3] }
    spec::elementwise::WalkParams { [u32; 4], [spec::elementwise::Division; 8], [[i64; 8]; 5] }
    spec::elementwise::DenseParams { [u32; 2], [u64; 32] }
    spec::elementwise::StridedParams { spec::elementwise::WalkParams, [u32; 2], [u64; 32] }
    spec::elementwise::TransposeParams { [u32; 4], [i64; 2], [spec::elementwise::Division; 8], [i64; 12] }
}

// SAFETY: an address, 8 bytes, as on the device.
unsafe impl<T> KernelParam for DevicePtr<T> {}

/// One argument of a launch: a [`KernelParam`], or a buffer or tensor, which is passed as the
/// address of its first element. `None` of a buffer or tensor is a null pointer.
///
/// # Safety
/// [`KernelArg::bytes`] gives a pointer to [`KernelArg::size_bytes`] initialised bytes that live
/// as long as `self` is borrowed.
pub unsafe trait KernelArg {
    /// Size of the parameter it fills.
    fn size_bytes(&self) -> usize;
    /// Its bytes.
    fn bytes(&self) -> *const c_void;
    /// Called before the launch: announces memory to the stream.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch).
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
/// references to them where the number is known at run time only.
pub trait KernelArgs {
    /// How many.
    fn count(&self) -> usize;
    /// Hands each to `visit`, in order.
    ///
    /// # Errors
    /// The first that `visit` returns.
    fn visit(&self, visit: &mut dyn FnMut(&dyn KernelArg) -> Result<()>) -> Result<()>;
}

impl KernelArgs for [&dyn KernelArg] {
    fn count(&self) -> usize {
        self.len()
    }

    fn visit(&self, visit: &mut dyn FnMut(&dyn KernelArg) -> Result<()>) -> Result<()> {
        self.iter().try_for_each(|&argument| visit(argument))
    }
}

impl<A: KernelArgs + ?Sized> KernelArgs for &A {
    fn count(&self) -> usize {
        (**self).count()
    }

    fn visit(&self, visit: &mut dyn FnMut(&dyn KernelArg) -> Result<()>) -> Result<()> {
        (**self).visit(visit)
    }
}

macro_rules! tuples {
    ($($($name:ident)*;)*) => {$(
        #[allow(non_snake_case)] // the type parameters' names serve as the variables'
        impl<$($name: KernelArg),*> KernelArgs for ($($name,)*) {
            fn count(&self) -> usize {
                const { [$(stringify!($name)),*].len() }
            }

            fn visit(
                &self,
                visit: &mut dyn FnMut(&dyn KernelArg) -> Result<()>,
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

    fn visit(&self, _visit: &mut dyn FnMut(&dyn KernelArg) -> Result<()>) -> Result<()> {
        Ok(())
    }
}
