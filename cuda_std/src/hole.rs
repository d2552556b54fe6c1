//! Holes: places in a kernel's PTX that the host fills with instructions at run time.

/// A place in a kernel for which the host chooses the instructions at run time (`warpsmith::fuse`):
/// a function, a constant, a load or a store that the compiler does not know.
///
/// ```
/// # use cuda_std::{hole, kernel, thread};
/// /// y = f(x), f as the host says.
/// #[kernel]
/// pub unsafe fn map(x: *const u32, y: *mut u32) {
///     let at = thread::thread_idx_x() as usize;
///     let word = unsafe { x.add(at).read() };
///     let result: u32;
///     hole!("value", [result] <- [word]);
///     unsafe { y.add(at).write(result) }
/// }
/// ```
///
/// Outputs are variables that are declared but not yet initialised, inputs are variables. All are
/// `u32`, except the address of an access, which is 64 bits wide. There are three forms:
///
/// | form | the host fills it with | if it is not filled |
/// |---|---|---|
/// | `hole!("name", [y, ..] <- [x, ..])` | fragments ([`crate::fragment`]), or a constant where there are no inputs | outputs are 0 |
/// | `hole!(load "name", [y, ..] <- address)` | one load from global memory, as wide as it says | outputs are 0 |
/// | `hole!(store "name", address <- [x, ..])` | one store | nothing |
///
/// In PTX, a hole is a line that ends in the comment `// hole name outputs <- inputs`. The kernel
/// assembles as it is; the host replaces that line.
///
/// # Panics
/// On the host, where nothing fills it.
#[macro_export]
macro_rules! hole {
    ($name:literal, [$($out:ident),+] <- [$($in:ident),*]) => {{
        const _: () = $crate::hole::check($name);
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: writes its outputs, and what fills it is a function of its inputs.
        unsafe {
            ::core::arch::asm!(
                concat!($("mov.b32 {", stringify!($out), "}, 0; ",)+ "// hole ", $name,
                    $(" {", stringify!($out), "}",)+ " <-" $(, " {", stringify!($in), "}")*),
                $($out = out(reg32) $out,)+ $($in = in(reg32) $in,)*
                options(pure, nomem, nostack),
            );
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            $($out = $crate::hole::unfilled($name);)+
            $(let _ = $in;)*
        }
    }};
    (load $name:literal, [$($out:ident),+] <- $address:ident) => {{
        #[cfg(target_arch = "nvptx64")]
        ::core::arch::asm!(
            concat!($("mov.b32 {", stringify!($out), "}, 0; ",)+ "// hole ", $name,
                $(" {", stringify!($out), "}",)+ " <- {", stringify!($address), "}"),
            $($out = out(reg32) $out,)+ $address = in(reg64) $address,
            options(readonly, nostack),
        );
        #[cfg(not(target_arch = "nvptx64"))]
        {
            $($out = $crate::hole::no_access($name);)+
            let _ = $address;
        }
    }};
    (store $name:literal, $address:ident <- [$($in:ident),+]) => {{
        #[cfg(target_arch = "nvptx64")]
        ::core::arch::asm!(
            concat!("// hole ", $name, " <- {", stringify!($address), "}",
                $(" {", stringify!($in), "}",)+),
            $address = in(reg64) $address, $($in = in(reg32) $in,)+
            options(nostack),
        );
        #[cfg(not(target_arch = "nvptx64"))]
        {
            $(let _ = $in;)+
            let _ = ($address, $crate::hole::no_access($name));
        }
    }};
}

/// The panic that stands for a hole on the host.
#[doc(hidden)]
#[cfg(not(target_arch = "nvptx64"))]
pub fn unfilled(name: &str) -> u32 {
    panic!("the hole `{name}` is filled on a device or the emulator only")
}

/// As [`unfilled`], for a load or a store.
///
/// # Safety
/// It has no requirement: it accesses nothing. It is `unsafe` because the device's version accesses
/// memory.
#[doc(hidden)]
#[cfg(not(target_arch = "nvptx64"))]
pub unsafe fn no_access(name: &str) -> u32 {
    unfilled(name)
}

/// A scalar that fits in one register.
#[doc(hidden)]
pub trait Scalar: Copy {
    /// Returns `self` as one opaque register, so that the compiler cannot split it into parts.
    fn whole(self) -> Self;
}

macro_rules! scalars {
    ($($ty:ty: $class:ident;)*) => {$(
        impl Scalar for $ty {
            #[inline(always)]
            fn whole(self) -> Self {
                #[cfg(target_arch = "nvptx64")]
                {
                    let mut value = self;
                    // SAFETY: no instruction.
                    unsafe {
                        core::arch::asm!("// {0} is whole", inout($class) value,
                            options(pure, nomem, nostack));
                    }
                    value
                }
                #[cfg(not(target_arch = "nvptx64"))]
                self
            }
        }
    )*};
}

scalars! { f32: reg32; i32: reg32; u32: reg32; f64: reg64; i64: reg64; u64: reg64; }

/// Used by `#[fragment]` only: makes the compiler read a parameter as a whole register.
#[doc(hidden)]
#[inline(always)]
pub fn whole<T: Scalar>(value: T) -> T {
    value.whole()
}
