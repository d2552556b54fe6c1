//! Holes: places of a kernel that a host fills when it knows what stands there.

/// A place of a kernel for which the host composes instructions at run time (`warpsmith::fuse`):
/// of which function, which constant, which access, the compiler knows nothing.
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
/// Outputs are declared variables, inputs are variables; all are `u32` or another type of 32 bits, but
/// for the address that an access begins with. Five forms:
///
/// | | the host fills it with | unfilled |
/// |---|---|---|
/// | `hole!("name", [y, ..] <- [x, ..])` | fragments ([`crate::fragment`]), or a constant where there are no inputs | outputs are 0 |
/// | `hole!(load "name", [y, ..] <- address)` | one load from global memory, as wide as it says | outputs are 0 |
/// | `hole!(store "name", address <- [x, ..])` | one store | nothing |
/// | `hole!(through "name", [y, ..] <- [x, ..])` | fragments, of which the `y`, variables with a value, are the first inputs and the outputs | the `y` stay as they are |
/// | `hole!(put "name", [y, ..] <- [x, ..])` | the same, and stores of results | likewise |
///
/// The kernel is whole without what fills the last two: unfilled, their inputs cost nothing.
///
/// A name is of letters, digits and `_`; another one, which could be text of more lines, does not
/// compile:
/// ```compile_fail
/// let y: u32;
/// cuda_std::hole!("value\n trap; //", [y] <- []);
/// let _ = y;
/// ```
///
/// In PTX a hole is a line that ends in `// hole name outputs <- inputs`: the kernel assembles as it
/// is, and the line is what the host replaces.
///
/// # Panics
/// On the host, where there is nothing to fill it.
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
    (through $name:literal, [$($out:ident),+] <- [$($in:ident),*]) => {{
        const _: () = $crate::hole::check($name);
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: writes its outputs, and what fills it is a function of its inputs.
        unsafe {
            ::core::arch::asm!(
                concat!("// hole ", $name, $(" {", stringify!($out), "}",)+ " <-"
                    $(, " {", stringify!($out), "}")+ $(, " {", stringify!($in), "}")*),
                $($out = inout(reg32) $out,)+ $($in = in(reg32) $in,)*
                options(pure, nomem, nostack),
            );
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            $(let _ = $in;)*
            $crate::hole::unfilled($name);
            $($out = ::core::convert::identity($out);)+
        }
    }};
    (put $name:literal, [$($out:ident),+] <- [$($in:ident),*]) => {{
        const _: () = $crate::hole::check($name);
        #[cfg(target_arch = "nvptx64")]
        ::core::arch::asm!(
            concat!("// hole ", $name, $(" {", stringify!($out), "}",)+ " <-"
                $(, " {", stringify!($out), "}")+ $(, " {", stringify!($in), "}")*),
            $($out = inout(reg32) $out,)+ $($in = in(reg32) $in,)* options(nomem, nostack),
        );
        #[cfg(not(target_arch = "nvptx64"))]
        {
            $(let _ = $in;)*
            let _ = $crate::hole::no_access($name);
            $($out = ::core::convert::identity($out);)+
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

/// Holds the name of a hole against the rule.
///
/// # Panics
/// In constant evaluation: where it is none.
#[doc(hidden)]
pub const fn check(name: &str) {
    let name = name.as_bytes();
    let mut at = 0;
    while at < name.len() {
        let is_fine = name[at].is_ascii_alphanumeric() || name[at] == b'_';
        assert!(is_fine, "a hole's name is of letters, digits and `_`");
        at += 1;
    }
}

/// What a hole is on the host.
#[doc(hidden)]
#[cfg(not(target_arch = "nvptx64"))]
pub fn unfilled(name: &str) -> u32 {
    panic!("the hole `{name}` is filled on a device or the emulator only")
}

/// As [`unfilled`], of an access.
///
/// # Safety
/// None needed: there is no access. On a device there is.
#[doc(hidden)]
#[cfg(not(target_arch = "nvptx64"))]
pub unsafe fn no_access(name: &str) -> u32 {
    unfilled(name)
}

/// What registers hold.
#[doc(hidden)]
pub trait Scalar: Copy {
    /// `self`, of which the compiler knows nothing more than that.
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

/// For `#[fragment]` alone: a parameter that is read whole.
#[doc(hidden)]
#[inline(always)]
pub fn whole<T: Scalar>(value: T) -> T {
    value.whole()
}
