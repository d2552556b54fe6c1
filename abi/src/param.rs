//! Types that host and device pass to each other by value.

/// A type that is passed to a kernel by value, as its bytes. Declare structs of this kind with
/// [`kernel_param!`](crate::kernel_param).
///
/// # Safety
/// The type has a defined layout (`#[repr(C)]` for a struct) and no padding, so that every byte is
/// initialised.
#[allow(unsafe_code)]
pub unsafe trait KernelParam: Copy {
    /// A number that two types share only if they have the same fields: names, types and order. Host
    /// and device compare it where they do not share the type itself.
    const LAYOUT: u64;
}

/// The layout (FNV-1a) of a type or a field of this name, behind `layout`: for a struct, those of the
/// fields before it.
#[doc(hidden)]
pub const fn layout(layout: u64, name: &str) -> u64 {
    let (name, mut hash, mut at) = (name.as_bytes(), layout, 0);
    while at < name.len() {
        hash = (hash ^ name[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    hash
}

/// `layout`, and then one of another type.
#[doc(hidden)]
pub const fn layout_then(layout: u64, next: u64) -> u64 {
    let (mut hash, mut shift) = (layout, 0);
    while shift < u64::BITS {
        hash = (hash ^ ((next >> shift) & 0xff)).wrapping_mul(0x0000_0100_0000_01b3);
        shift += 8;
    }
    hash
}

/// The layout before the first field.
#[doc(hidden)]
pub const LAYOUT: u64 = 0xcbf2_9ce4_8422_2325;

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
        unsafe impl $crate::KernelParam for $name {
            const LAYOUT: u64 = {
                let all = $crate::param::layout($crate::param::LAYOUT, "struct");
                $(let all = $crate::param::layout_then(
                    $crate::param::layout(all, stringify!($field)),
                    <$ty as $crate::KernelParam>::LAYOUT,
                );)*
                all
            };
        }
    };
}

macro_rules! kernel_params {
    ($($ty:ty),* $(,)?) => {$(
        // SAFETY: a number, a truth value or a character: the same on the device, no padding.
        #[allow(unsafe_code)]
        unsafe impl KernelParam for $ty {
            const LAYOUT: u64 = layout(LAYOUT, stringify!($ty));
        }
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
unsafe impl<T: KernelParam, const N: usize> KernelParam for [T; N] {
    const LAYOUT: u64 = layout_then(layout_then(layout(LAYOUT, "[]"), T::LAYOUT), N as u64);
}

// SAFETY: a device address of 64 bits on both sides. It means nothing to the host.
#[allow(unsafe_code)]
unsafe impl<T> KernelParam for *const T {
    const LAYOUT: u64 = layout(LAYOUT, "*const");
}

// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl<T> KernelParam for *mut T {
    const LAYOUT: u64 = layout(LAYOUT, "*mut");
}

#[cfg(test)]
mod tests {
    use super::KernelParam;

    mod one {
        crate::kernel_param! {
            pub(super) struct Params { pub(super) n: u32, pub(super) scale: f32 }
        }
    }
    crate::kernel_param! {
        struct SameFields { n: u32, scale: f32 }
    }
    crate::kernel_param! {
        struct OtherName { m: u32, scale: f32 }
    }
    crate::kernel_param! {
        struct OtherType { n: i32, scale: f32 }
    }
    crate::kernel_param! {
        struct OtherOrder { scale: f32, n: u32 }
    }
    crate::kernel_param! {
        struct Nested { inner: SameFields, more: [f32; 2] }
    }

    #[test]
    fn layouts_are_equal_where_the_fields_are() {
        let layout = one::Params::LAYOUT;
        assert_eq!(layout, SameFields::LAYOUT);
        let others = [
            OtherName::LAYOUT,
            OtherType::LAYOUT,
            OtherOrder::LAYOUT,
            Nested::LAYOUT,
        ];
        assert!(others.iter().all(|other| *other != layout));
        assert_ne!(<[f32; 2]>::LAYOUT, <[f32; 3]>::LAYOUT);
    }
}
