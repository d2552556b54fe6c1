//! Types that host and device pass to each other by value.

/// A type that is passed to a kernel by value, as its bytes. Declare structs of this kind with
/// [`kernel_param!`](crate::kernel_param).
///
/// # Safety
/// The type has a defined layout (`#[repr(C)]` for a struct) and no padding, so that every byte is
/// initialised.
#[allow(unsafe_code)]
pub unsafe trait KernelParam: Copy {}

/// The bytes of `param`, as a launch passes them.
#[allow(unsafe_code)]
pub const fn bytes_of<P: KernelParam>(param: &P) -> &[u8] {
    // SAFETY: as many bytes as the type has, all initialised, as `KernelParam` promises.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(param).cast(), size_of::<P>()) }
}

/// Declares a struct that is passed to a kernel by value: `#[repr(C)]`, [`Copy`] and a
/// [`KernelParam`]. Every field must be a [`KernelParam`] too. Padding is a compile error: order
/// the fields by decreasing size, and add an explicit field where padding would be at the end.
///
/// ```
/// abi::kernel_param! {
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
/// abi::kernel_param! {
///     struct Padded {
///         rows: u32,
///         row_stride: i64, // four bytes of padding before it
///     }
/// }
/// ```
///
/// Nor may an attribute take a field away, whose place padding would take:
/// ```compile_fail
/// abi::kernel_param! {
///     struct Padded {
///         rows: u32,
///         #[cfg(any())]
///         columns: u32,
///         row_stride: i64,
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
            // The fields counted are all that there are: attributes may have changed them.
            let _ = |all: $name| {
                let $name { $($field: _),* } = all;
            };
        };

        // SAFETY: `#[repr(C)]`, and the assertion above shows that there is no padding: the fields,
        // which have none themselves, add up to the whole.
        #[allow(unsafe_code)]
        unsafe impl $crate::KernelParam for $name {}
    };
}

macro_rules! kernel_params {
    ($($ty:ty),* $(,)?) => {$(
        // SAFETY: a number, a truth value or a character: the same on the device, no padding.
        #[allow(unsafe_code)]
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
    half::bf16,
    bool,
    char
);

// SAFETY: elements without padding, one after the other.
#[allow(unsafe_code)]
unsafe impl<T: KernelParam, const N: usize> KernelParam for [T; N] {}

// SAFETY: a device address of 64 bits on both sides. It means nothing to the host.
#[allow(unsafe_code)]
unsafe impl<T> KernelParam for *const T {}

// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl<T> KernelParam for *mut T {}
