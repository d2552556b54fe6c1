//! Vector memory accesses of 8 and 16 bytes, loads through the read-only cache, and an L2 prefetch.
//!
//! The first group, `ld_v*` and `st_v*`, are ordinary Rust accesses. Where LLVM can see that the
//! pointer comes from a kernel parameter or a `shared_array!`, they become `ld.global.v4`,
//! `st.shared.v4` and so on; otherwise they use generic addressing. The other functions are PTX
//! instructions for one state space. All loads and stores are weak: barriers, fences or atomics
//! order them.

/// A `T` that is aligned to 16 bytes.
#[repr(C, align(16))]
struct Align16<T>(T);

/// A `T` that is aligned to 8 bytes.
#[repr(C, align(8))]
struct Align8<T>(T);

macro_rules! vectors {
    ($($load:ident, $store:ident: [$ty:ty; $len:literal], $align:ident, $bytes:literal;)*) => {$(
        #[doc = concat!("Loads ", stringify!($len), " elements in one access of ", $bytes, " bytes.")]
        ///
        /// # Safety
        #[doc = concat!("`ptr` is aligned to ", $bytes, " bytes and so many are readable there.")]
        #[inline(always)]
        pub unsafe fn $load(ptr: *const $ty) -> [$ty; $len] {
            // SAFETY: passed on to the caller.
            unsafe { ptr.cast::<$align<[$ty; $len]>>().read().0 }
        }

        #[doc = concat!("Stores ", stringify!($len), " elements in one access of ", $bytes, " bytes.")]
        ///
        /// # Safety
        #[doc = concat!("`ptr` is aligned to ", $bytes, " bytes and so many are writable there.")]
        #[inline(always)]
        pub unsafe fn $store(ptr: *mut $ty, values: [$ty; $len]) {
            // SAFETY: passed on to the caller.
            unsafe { ptr.cast::<$align<[$ty; $len]>>().write($align(values)) }
        }
    )*};
}

vectors! {
    ld_v4_f32, st_v4_f32: [f32; 4], Align16, "16";
    ld_v4_u32, st_v4_u32: [u32; 4], Align16, "16";
    ld_v2_f32, st_v2_f32: [f32; 2], Align8, "8";
    ld_v2_u32, st_v2_u32: [u32; 2], Align8, "8";
    ld_v4_u16, st_v4_u16: [u16; 4], Align8, "8";
    ld_v8_u16, st_v8_u16: [u16; 8], Align16, "16";
    ld_v2_f64, st_v2_f64: [f64; 2], Align16, "16";
}

macro_rules! read_only {
    ($($name:ident: $ty:ty = $instruction:literal, [$($part:ident),*], $list:literal
        $(, $since:literal)?;)*) => {$(
        #[doc = concat!("`", $instruction, "`: a load through the read-only cache.")]
        ///
        /// *Scope*: thread. *Since*: PTX 3.1, sm_35.
        $(#[doc = concat!("The hint: ", $since, ".")])?
        ///
        /// # Safety
        /// `ptr` is aligned to the access and points to global memory that nobody writes while the
        /// kernel runs.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name(ptr: *const $ty) -> [$ty; [$(stringify!($part)),*].len()] {
            on_device!("mem::ld_global_nc", (ptr), {
                $(let $part: $ty;)*
                // SAFETY: the caller's memory is readable and constant, so the load has no effect.
                unsafe {
                    core::arch::asm!(concat!($instruction, " ", $list, ", [{at}];"),
                        $($part = out(reg32) $part,)* at = in(reg64) ptr,
                        options(pure, readonly, nostack));
                }
                [$($part),*]
            })
        }
    )*};
}

read_only! {
    ld_global_nc_f32: f32 = "ld.global.nc.f32", [a], "{a}";
    ld_global_nc_u32: u32 = "ld.global.nc.u32", [a], "{a}";
    ld_global_nc_v2_f32: f32 = "ld.global.nc.v2.f32", [a, b], "{{{a}, {b}}}";
    ld_global_nc_v2_u32: u32 = "ld.global.nc.v2.u32", [a, b], "{{{a}, {b}}}";
    ld_global_nc_v4_f32: f32 = "ld.global.nc.v4.f32", [a, b, c, d], "{{{a}, {b}, {c}, {d}}}";
    ld_global_nc_v4_u32: u32 = "ld.global.nc.v4.u32", [a, b, c, d], "{{{a}, {b}, {c}, {d}}}";
    ld_global_nc_no_allocate_v4_u32: u32 = "ld.global.nc.L1::no_allocate.v4.u32", [a, b, c, d],
        "{{{a}, {b}, {c}, {d}}}", "PTX 7.4, sm_70";
}

/// `prefetch.global.L2`: prefetches the cache line that contains `ptr` into L2. It does not wait
/// and returns nothing.
///
/// *Scope*: thread. *Since*: PTX 2.0, sm_20.
///
/// # Safety
/// `ptr` points to global memory.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn prefetch_global_l2(ptr: *const u8) {
    on_device!("mem::prefetch_global_l2", (ptr), {
        // SAFETY: the caller's memory, of which nothing is read.
        unsafe { core::arch::asm!("prefetch.global.L2 [{}];", in(reg64) ptr, options(nostack)) }
    })
}

/// `prefetch.global.L1`: as [`prefetch_global_l2`], into the L1 of this SM.
///
/// *Scope*: thread. *Since*: PTX 2.0, sm_20.
///
/// # Safety
/// `ptr` points to global memory.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn prefetch_global_l1(ptr: *const u8) {
    on_device!("mem::prefetch_global_l1", (ptr), {
        // SAFETY: the caller's memory, of which nothing is read.
        unsafe { core::arch::asm!("prefetch.global.L1 [{}];", in(reg64) ptr, options(nostack)) }
    })
}

/// `prefetch.global.L2`: as [`prefetch_global_l2`], for a [`ld_global_once_v4_u32`]. Where the host
/// library changes that, this is `prefetch.global.L2::evict_last`.
///
/// *Scope*: thread. *Since*: PTX 2.0, sm_20.
///
/// # Safety
/// `ptr` points to global memory.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn prefetch_global_l2_once(ptr: *const u8) {
    on_device!("mem::prefetch_global_l2_once", (ptr), {
        // SAFETY: the caller's memory, of which nothing is read.
        unsafe {
            core::arch::asm!("prefetch.global.L2 [{}]; // once", in(reg64) ptr, options(nostack));
        }
    })
}

/// `ld.global.v4.u32` of data that is read once, while other data is written: 16 bytes.
///
/// In PTX it is a load whose line ends in `// once`. For launches over tensors far larger than L2,
/// the host library loads a version of its own kernels in which L2 evicts such data last
/// (`.L2::cache_hint`, from sm_80 on). This takes less time than the usual eviction. A kernel that
/// is built for sm_80 or later alone says so itself ([`ld_global_l2_cache_hint_v4_u32_if`]).
///
/// *Scope*: thread. *Since*: PTX 2.0, sm_20.
///
/// # Safety
/// `ptr` points to global memory, is aligned to 16 bytes and so many are readable there.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn ld_global_once_v4_u32(ptr: *const u32) -> [u32; 4] {
    on_device!("mem::ld_global_once_v4_u32", (ptr), {
        let (a, b, c, d): (u32, u32, u32, u32);
        // SAFETY: the caller's memory.
        unsafe {
            core::arch::asm!("ld.global.v4.u32 {{{}, {}, {}, {}}}, [{}]; // once", out(reg32) a,
                out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) ptr,
                options(readonly, nostack));
        }
        [a, b, c, d]
    })
}

/// `st.shared.v2.f32`: stores two neighbouring elements, 8 bytes.
///
/// *Scope*: thread. *Since*: PTX 1.0, sm_10.
///
/// # Safety
/// `address` is writable and a multiple of 8.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn st_shared_v2_f32(address: crate::shared::SharedAddr, [x, y]: [f32; 2]) {
    on_device!("mem::st_shared_v2_f32", (address, x, y), {
        // SAFETY: the caller's address.
        unsafe {
            core::arch::asm!("st.shared.v2.f32 [{}], {{{}, {}}};", in(reg32) address.bits(),
                in(reg32) x, in(reg32) y, options(nostack));
        }
    })
}

/// `st.shared.v2.u32`: stores two neighbouring elements, 8 bytes.
///
/// *Scope*: thread. *Since*: PTX 1.0, sm_10.
///
/// # Safety
/// `address` is writable and a multiple of 8.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn st_shared_v2_u32(address: crate::shared::SharedAddr, [x, y]: [u32; 2]) {
    on_device!("mem::st_shared_v2_u32", (address, x, y), {
        // SAFETY: the caller's address.
        unsafe {
            core::arch::asm!("st.shared.v2.u32 [{}], {{{}, {}}};", in(reg32) address.bits(),
                in(reg32) x, in(reg32) y, options(nostack));
        }
    })
}

/// `ld.shared.v2.f32`: loads two neighbouring elements, 8 bytes.
///
/// *Scope*: thread. *Since*: PTX 1.0, sm_10.
///
/// # Safety
/// `address` is readable and a multiple of 8.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn ld_shared_v2_f32(address: crate::shared::SharedAddr) -> [f32; 2] {
    on_device!("mem::ld_shared_v2_f32", (address), {
        let (a, b): (f32, f32);
        // SAFETY: the caller's address.
        unsafe {
            core::arch::asm!("ld.shared.v2.f32 {{{}, {}}}, [{}];", out(reg32) a, out(reg32) b,
                in(reg32) address.bits(), options(nostack));
        }
        [a, b]
    })
}

/// `ld.shared.u32`: loads one word.
///
/// *Scope*: thread. *Since*: PTX 1.0, sm_10.
///
/// # Safety
/// `address` is readable and a multiple of 4.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn ld_shared_u32(address: crate::shared::SharedAddr) -> u32 {
    on_device!("mem::ld_shared_u32", (address), {
        let x: u32;
        // SAFETY: the caller's address.
        unsafe {
            core::arch::asm!("ld.shared.u32 {}, [{}];", out(reg32) x, in(reg32) address.bits(),
                options(nostack));
        }
        x
    })
}

/// `ld.shared.f64`: loads one element, 8 bytes.
///
/// *Scope*: thread. *Since*: PTX 1.4, sm_13.
///
/// # Safety
/// `address` is readable and a multiple of 8.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn ld_shared_f64(address: crate::shared::SharedAddr) -> f64 {
    on_device!("mem::ld_shared_f64", (address), {
        let x: f64;
        // SAFETY: the caller's address.
        unsafe {
            core::arch::asm!("ld.shared.f64 {}, [{}];", out(reg64) x, in(reg32) address.bits(),
                options(nostack));
        }
        x
    })
}

/// `ld.shared.v4.f32`: loads four neighbouring elements, 16 bytes.
///
/// *Scope*: thread. *Since*: PTX 1.0, sm_10.
///
/// # Safety
/// `address` is readable and a multiple of 16.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn ld_shared_v4_f32(address: crate::shared::SharedAddr) -> [f32; 4] {
    on_device!("mem::ld_shared_v4_f32", (address), {
        let (a, b, c, d): (f32, f32, f32, f32);
        // SAFETY: the caller's address.
        unsafe {
            core::arch::asm!("ld.shared.v4.f32 {{{}, {}, {}, {}}}, [{}];", out(reg32) a,
                out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) address.bits(),
                options(nostack));
        }
        [a, b, c, d]
    })
}

/// `st.shared.v4.u32`: stores four neighbouring elements, 16 bytes.
///
/// *Scope*: thread. *Since*: PTX 1.0, sm_10.
///
/// # Safety
/// `address` is writable and a multiple of 16.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn st_shared_v4_u32(address: crate::shared::SharedAddr, [a, b, c, d]: [u32; 4]) {
    on_device!("mem::st_shared_v4_u32", (address, a, b, c, d), {
        // SAFETY: the caller's address.
        unsafe {
            core::arch::asm!("st.shared.v4.u32 [{}], {{{}, {}, {}, {}}};",
                in(reg32) address.bits(), in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d,
                options(nostack));
        }
    })
}

/// `ld.shared.v4.u32`: loads four neighbouring elements, 16 bytes.
///
/// *Scope*: thread. *Since*: PTX 1.0, sm_10.
///
/// # Safety
/// `address` is readable and a multiple of 16.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn ld_shared_v4_u32(address: crate::shared::SharedAddr) -> [u32; 4] {
    on_device!("mem::ld_shared_v4_u32", (address), {
        let (a, b, c, d): (u32, u32, u32, u32);
        // SAFETY: the caller's address.
        unsafe {
            core::arch::asm!("ld.shared.v4.u32 {{{}, {}, {}, {}}}, [{}];", out(reg32) a,
                out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) address.bits(),
                options(nostack));
        }
        [a, b, c, d]
    })
}

macro_rules! predicated_loads {
    ($($name:ident($($operand:ident: $ty:ty = $reg:ident $value:expr),*) = $instruction:literal,
        $by:literal, $instead:literal, $doc:literal, $or:literal, $safety:literal,
        $since:literal;)*) => {$(
        #[doc = concat!("`@p ", $instruction, "`: 16 bytes ", $doc, ", or ", $or, " where not `is_there`; \
            no branch, so that loads which do not depend on each other are on their way together.")]
        ///
        #[doc = concat!("*Scope*: thread. *Since*: ", $since, ".")]
        ///
        /// # Safety
        #[doc = concat!("Where `is_there`, `ptr` is a multiple of 16 and readable global memory", $safety)]
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name(ptr: *const u32, is_there: bool $(, $operand: $ty)*) -> [u32; 4] {
            on_device!(concat!("mem::", stringify!($name)), (ptr, is_there $(, $operand)*), {
                let (a, b, c, d): (u32, u32, u32, u32);
                // SAFETY: the caller's address, where it is read.
                unsafe {
                    core::arch::asm!("{{", ".reg .pred p;", "setp.ne.u32 p, {is}, 0;",
                        concat!("mov.u32 {a}, ", $instead, ";"),
                        concat!("mov.u32 {b}, ", $instead, ";"),
                        concat!("mov.u32 {c}, ", $instead, ";"),
                        concat!("mov.u32 {d}, ", $instead, ";"),
                        concat!("@p ", $instruction, " {{{a}, {b}, {c}, {d}}}, [{at}]", $by, ";"), "}}",
                        a = out(reg32) a, b = out(reg32) b, c = out(reg32) c, d = out(reg32) d,
                        at = in(reg64) ptr, is = in(reg32) u32::from(is_there),
                        $($operand = in($reg) $value,)*
                        options(readonly, nostack));
                }
                [a, b, c, d]
            })
        }
    )*};
}

predicated_loads! {
    ld_global_v4_u32_if() = "ld.global.v4.u32", "", "0", "as they are now", "zeros", ".",
        "PTX 1.0, sm_10";
    ld_global_l2_cache_hint_v4_u32_if(policy: crate::tma::CachePolicy = reg64 policy.bits()) =
        "ld.global.L2::cache_hint.v4.u32", ", {policy}", "0", "as they are now, by a cache policy",
        "zeros", ".", "PTX 7.4, sm_80";
    ld_global_nc_v4_u32_or(otherwise: u32 = reg32 otherwise) = "ld.global.nc.v4.u32", "",
        "{otherwise}", "through the read-only cache", "four times `otherwise`",
        " that nobody writes while the kernel runs.", "PTX 3.1, sm_35";
    ld_global_l2_cache_hint_v4_u32_or(
        otherwise: u32 = reg32 otherwise,
        policy: crate::tma::CachePolicy = reg64 policy.bits()
    ) = "ld.global.L2::cache_hint.v4.u32", ", {policy}", "{otherwise}",
        "as they are now, by a cache policy", "four times `otherwise`", ".", "PTX 7.4, sm_80";
}

macro_rules! predicated_stores {
    ($($name:ident = $instruction:literal, $doc:literal, $since:literal;)*) => {$(
        #[doc = concat!("`@p ", $instruction, "`: 16 bytes", $doc, ", or nothing where not `is_there`; \
            no branch.")]
        ///
        #[doc = concat!("*Scope*: thread. *Since*: ", $since, ".")]
        ///
        /// # Safety
        /// Where `is_there`, `ptr` is writable global memory and a multiple of 16.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name(ptr: *mut u32, [a, b, c, d]: [u32; 4], is_there: bool) {
            on_device!(concat!("mem::", stringify!($name)), (ptr, a, b, c, d, is_there), {
                // SAFETY: the caller's address, where it is written.
                unsafe {
                    core::arch::asm!("{{", ".reg .pred p;", "setp.ne.u32 p, {is}, 0;",
                        concat!("@p ", $instruction, " [{at}], {{{a}, {b}, {c}, {d}}};"), "}}",
                        a = in(reg32) a, b = in(reg32) b, c = in(reg32) c, d = in(reg32) d,
                        at = in(reg64) ptr, is = in(reg32) u32::from(is_there), options(nostack));
                }
            })
        }
    )*};
}

predicated_stores! {
    st_global_v4_u32_if = "st.global.v4.u32", "", "PTX 1.0, sm_10";
    st_global_cs_v4_u32_if = "st.global.cs.v4.u32", " that L2 gives up first", "PTX 2.0, sm_20";
}

macro_rules! global {
    ($($load:ident = $ld:literal, $store:ident = $st:literal, [$($part:ident),*], $list:literal, $bytes:literal;)*) => {$(
        #[doc = concat!("`", $ld, "`: neighbours in one access of ", $bytes, " bytes, which stays one: the")]
        /// compiler splits or merges no `asm!`, as it does with reads.
        ///
        /// *Scope*: thread. *Since*: PTX 2.0, sm_20.
        ///
        /// # Safety
        #[doc = concat!("`ptr` points to global memory, is aligned to ", $bytes, " bytes and so many are")]
        /// readable there.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $load(ptr: *const u32) -> [u32; [$(stringify!($part)),*].len()] {
            on_device!("mem::ld_global", (ptr), {
                $(let $part: u32;)*
                // SAFETY: the caller's memory.
                unsafe {
                    core::arch::asm!(concat!($ld, " ", $list, ", [{at}];"),
                        $($part = out(reg32) $part,)* at = in(reg64) ptr,
                        options(readonly, nostack));
                }
                [$($part),*]
            })
        }

        #[doc = concat!("`", $st, "`: neighbours in one access of ", $bytes, " bytes, which stays one.")]
        ///
        /// *Scope*: thread. *Since*: PTX 2.0, sm_20.
        ///
        /// # Safety
        #[doc = concat!("`ptr` points to global memory, is aligned to ", $bytes, " bytes and so many are")]
        /// writable there.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $store(
            ptr: *mut u32,
            [$($part),*]: [u32; [$(stringify!($part)),*].len()],
        ) {
            on_device!("mem::st_global", (ptr, $($part),*), {
                // SAFETY: the caller's memory.
                unsafe {
                    core::arch::asm!(concat!($st, " [{at}], ", $list, ";"),
                        $($part = in(reg32) $part,)* at = in(reg64) ptr, options(nostack));
                }
            })
        }
    )*};
}

global! {
    ld_global_v2_u32 = "ld.global.v2.u32", st_global_v2_u32 = "st.global.v2.u32", [a, b],
        "{{{a}, {b}}}", "8";
    ld_global_v4_u32 = "ld.global.v4.u32", st_global_v4_u32 = "st.global.v4.u32", [a, b, c, d],
        "{{{a}, {b}, {c}, {d}}}", "16";
}
