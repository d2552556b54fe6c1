//! Atomic operations on global and shared memory.
//!
//! `atom` functions take generic addresses, so the same function serves both state spaces. `ld` and
//! `st` are for global memory. Functions with `shared` in their names are for shared memory alone,
//! where a generic address would cost more. Each `atom` function takes the memory [`Order`] and the
//! [`Scope`] of threads for which it is atomic; if they are constants, they cost nothing. The
//! result of floating-point additions depends on their order in the last bits, so kernels that
//! promise the same bits every run do not use them.
//!
//! The types of `core::sync::atomic` work on the device, too, with all their orders, at device scope
//! ([`Scope::Gpu`]). This module has what they lack: the other scopes, and the types of floats
//! ([`AtomicF32`], [`AtomicF64`], [`AtomicF16`], [`AtomicBf16`]).
//!
//! | function | types |
//! |---|---|
//! | [`atom_add`] | u32, i32, u64, i64, f32, f64, f16, from sm_90 bf16 (integers wrap) |
//! | [`atom_min`], [`atom_max`] | u32, i32, u64, i64; f32, f64, f16, bf16 by compare-and-swap |
//! | [`atom_and`], [`atom_or`], [`atom_xor`] | u32, i32, u64, i64 |
//! | [`atom_exch`] | u32, i32, u64, i64, f32, f64 |
//! | [`atom_cas`] | u16, u32, i32, u64, i64, f32, f64 (compared as bits) |
//! | [`atom_shared_add_u32`], [`red_shared_add_u32`] | u32: counts in shared memory |
//! | [`ld_acquire_gpu`], [`st_release_gpu`] | u32: flags between blocks |
//! | [`ld_relaxed_gpu_u64`], [`st_relaxed_gpu_u64`] | u64: a flag and 32 bits of data in one word |

mod floats;

pub use floats::{AtomicBf16, AtomicF16, AtomicF32, AtomicF64};

/// The memory order of an atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Orders no other accesses.
    Relaxed,
    /// The thread's later accesses stay after it.
    Acquire,
    /// The thread's earlier accesses stay before it.
    Release,
    /// Both acquire and release.
    AcqRel,
}

/// The set of threads for which an operation is atomic and ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The threads of the block.
    Cta,
    /// All threads of the device.
    Gpu,
    /// All threads of the system: host and all devices.
    Sys,
}

/// The `atom` instruction for each order and scope.
#[cfg(target_arch = "nvptx64")]
macro_rules! atom {
    ($order:expr, $scope:expr, $op:literal, $operands:literal, $($asm:tt)*) => {
        match ($order, $scope) {
            (Order::Relaxed, Scope::Cta) => atom!(@ "relaxed.cta", $op, $operands, $($asm)*),
            (Order::Relaxed, Scope::Gpu) => atom!(@ "relaxed.gpu", $op, $operands, $($asm)*),
            (Order::Relaxed, Scope::Sys) => atom!(@ "relaxed.sys", $op, $operands, $($asm)*),
            (Order::Acquire, Scope::Cta) => atom!(@ "acquire.cta", $op, $operands, $($asm)*),
            (Order::Acquire, Scope::Gpu) => atom!(@ "acquire.gpu", $op, $operands, $($asm)*),
            (Order::Acquire, Scope::Sys) => atom!(@ "acquire.sys", $op, $operands, $($asm)*),
            (Order::Release, Scope::Cta) => atom!(@ "release.cta", $op, $operands, $($asm)*),
            (Order::Release, Scope::Gpu) => atom!(@ "release.gpu", $op, $operands, $($asm)*),
            (Order::Release, Scope::Sys) => atom!(@ "release.sys", $op, $operands, $($asm)*),
            (Order::AcqRel, Scope::Cta) => atom!(@ "acq_rel.cta", $op, $operands, $($asm)*),
            (Order::AcqRel, Scope::Gpu) => atom!(@ "acq_rel.gpu", $op, $operands, $($asm)*),
            (Order::AcqRel, Scope::Sys) => atom!(@ "acq_rel.sys", $op, $operands, $($asm)*),
        }
    };
    (@ $how:literal, $op:literal, $operands:literal, $($asm:tt)*) => {
        core::arch::asm!(concat!("atom.", $how, ".", $op, $operands), $($asm)*, options(nostack))
    };
}

macro_rules! operations {
    ($($name:ident, $private:ident, $what:literal, $doc:literal: [
        $($ty:ty = $reg:ident, $op:literal;)*
    ])*) => {$(
        mod $private {
            /// Types of the operation.
            pub trait Operand: Copy {
                /// The operation.
                ///
                /// # Safety
                /// As for the function that calls it.
                unsafe fn apply(
                    ptr: *mut Self,
                    value: Self,
                    order: super::Order,
                    scope: super::Scope,
                ) -> Self;
            }
            $(
                impl Operand for $ty {
                    #[inline(always)]
                    unsafe fn apply(
                        ptr: *mut Self,
                        value: Self,
                        order: super::Order,
                        scope: super::Scope,
                    ) -> Self {
                        on_device!($what, (ptr, value, order, scope), {
                            use super::{Order, Scope};
                            let before: Self;
                            // SAFETY: the caller's pointer is valid for an atomic access.
                            unsafe {
                                atom!(order, scope, $op, " {}, [{}], {};", out($reg) before,
                                    in(reg64) ptr, in($reg) value)
                            }
                            before
                        })
                    }
                }
            )*
        }

        #[doc = $doc]
        /// Returns the value before.
        ///
        /// *Scope*: thread. *Since*: PTX 6.0, sm_70.
        ///
        /// # Safety
        /// `ptr` is aligned, in global or shared memory, and accessed only atomically meanwhile.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name<T: $private::Operand>(
            ptr: *mut T,
            value: T,
            order: Order,
            scope: Scope,
        ) -> T {
            // SAFETY: passed on to the caller.
            unsafe { T::apply(ptr, value, order, scope) }
        }
    )*};
}

operations! {
    atom_add, add, "atomic::atom_add", "`atom.add`: adds `value`.": [
        u32 = reg32, "add.u32"; i32 = reg32, "add.s32"; u64 = reg64, "add.u64";
        i64 = reg64, "add.u64"; f32 = reg32, "add.f32"; f64 = reg64, "add.f64";
    ]
    atom_min, min, "atomic::atom_min", "`atom.min`: keeps the smaller. Of floats by compare-and-swap: a number before NaN, -0 before 0.": [
        u32 = reg32, "min.u32"; i32 = reg32, "min.s32"; u64 = reg64, "min.u64";
        i64 = reg64, "min.s64";
    ]
    atom_max, max, "atomic::atom_max", "`atom.max`: keeps the larger. Of floats by compare-and-swap: a number before NaN, 0 before -0.": [
        u32 = reg32, "max.u32"; i32 = reg32, "max.s32"; u64 = reg64, "max.u64";
        i64 = reg64, "max.s64";
    ]
    atom_and, and, "atomic::atom_and", "`atom.and`: bitwise and.": [
        u32 = reg32, "and.b32"; i32 = reg32, "and.b32"; u64 = reg64, "and.b64";
        i64 = reg64, "and.b64";
    ]
    atom_or, or, "atomic::atom_or", "`atom.or`: bitwise or.": [
        u32 = reg32, "or.b32"; i32 = reg32, "or.b32"; u64 = reg64, "or.b64";
        i64 = reg64, "or.b64";
    ]
    atom_xor, xor, "atomic::atom_xor", "`atom.xor`: bitwise exclusive or.": [
        u32 = reg32, "xor.b32"; i32 = reg32, "xor.b32"; u64 = reg64, "xor.b64";
        i64 = reg64, "xor.b64";
    ]
    atom_exch, exch, "atomic::atom_exch", "`atom.exch`: writes `value`.": [
        u32 = reg32, "exch.b32"; i32 = reg32, "exch.b32"; u64 = reg64, "exch.b64";
        i64 = reg64, "exch.b64"; f32 = reg32, "exch.b32"; f64 = reg64, "exch.b64";
    ]
}

macro_rules! add_small_floats {
    ($($ty:ty = $op:literal;)*) => {$(
        impl add::Operand for $ty {
            #[inline(always)]
            unsafe fn apply(ptr: *mut Self, value: Self, order: Order, scope: Scope) -> Self {
                on_device!("atomic::atom_add", (ptr, value, order, scope), {
                    let before: u16;
                    // SAFETY: the caller's pointer is valid for an atomic access.
                    unsafe {
                        atom!(order, scope, $op, " {}, [{}], {};", out(reg16) before,
                            in(reg64) ptr, in(reg16) value.to_bits())
                    }
                    Self::from_bits(before)
                })
            }
        }
    )*};
}

add_small_floats! {
    half::f16 = "add.noftz.f16";
    half::bf16 = "add.noftz.bf16";
}

mod cas {
    /// Types of the operation.
    pub trait Operand: Copy {
        /// The operation.
        ///
        /// # Safety
        /// As for [`super::atom_cas`].
        unsafe fn apply(
            ptr: *mut Self,
            compare: Self,
            value: Self,
            order: super::Order,
            scope: super::Scope,
        ) -> Self;
    }

    macro_rules! operands {
        ($($ty:ty = $reg:ident, $op:literal;)*) => {$(
            impl Operand for $ty {
                #[inline(always)]
                unsafe fn apply(
                    ptr: *mut Self,
                    compare: Self,
                    value: Self,
                    order: super::Order,
                    scope: super::Scope,
                ) -> Self {
                    on_device!("atomic::atom_cas", (ptr, compare, value, order, scope), {
                        use super::{Order, Scope};
                        let before: Self;
                        // SAFETY: the caller's pointer is valid for an atomic access.
                        unsafe {
                            atom!(order, scope, $op, " {}, [{}], {}, {};", out($reg) before,
                                in(reg64) ptr, in($reg) compare, in($reg) value)
                        }
                        before
                    })
                }
            }
        )*};
    }

    operands! {
        u16 = reg16, "cas.b16";
        u32 = reg32, "cas.b32";
        i32 = reg32, "cas.b32";
        f32 = reg32, "cas.b32";
        u64 = reg64, "cas.b64";
        i64 = reg64, "cas.b64";
        f64 = reg64, "cas.b64";
    }
}

/// `atom.cas`: compare and swap. Writes `value` if the bits at `ptr` equal those of `compare`.
/// Returns the old value.
///
/// *Scope*: thread. *Since*: PTX 6.0, sm_70; of 16 bits PTX 6.3.
///
/// # Safety
/// `ptr` is aligned, in global or shared memory, and accessed only atomically meanwhile.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn atom_cas<T: cas::Operand>(
    ptr: *mut T,
    compare: T,
    value: T,
    order: Order,
    scope: Scope,
) -> T {
    // SAFETY: passed on to the caller.
    unsafe { T::apply(ptr, compare, value, order, scope) }
}

/// `ld.acquire.gpu.global.u32`: a load with acquire order at device scope.
///
/// *Scope*: thread. *Ordering*: if it reads a value that [`st_release_gpu`] wrote, this thread's
/// later accesses see what the writing thread did before that store. *Since*: PTX 6.0, sm_70.
///
/// # Safety
/// `ptr` is aligned, in global memory, and written only atomically or by [`st_release_gpu`]
/// meanwhile.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn ld_acquire_gpu(ptr: *const u32) -> u32 {
    on_device!("atomic::ld_acquire_gpu", (ptr), {
        let value: u32;
        // SAFETY: the caller's pointer is readable.
        unsafe {
            core::arch::asm!("ld.acquire.gpu.global.u32 {}, [{}];", out(reg32) value,
                in(reg64) ptr, options(nostack));
        }
        value
    })
}

/// `ld.relaxed.gpu.global.u32`: a load that sees what other blocks write meanwhile.
///
/// *Scope*: thread. *Ordering*: none; it says nothing about other memory. *Since*: PTX 6.0, sm_70.
///
/// # Safety
/// `ptr` is aligned, in global memory, and written only atomically meanwhile.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn ld_relaxed_gpu(ptr: *const u32) -> u32 {
    on_device!("atomic::ld_relaxed_gpu", (ptr), {
        let value: u32;
        // SAFETY: the caller's pointer is readable.
        unsafe {
            core::arch::asm!("ld.relaxed.gpu.global.u32 {}, [{}];", out(reg32) value,
                in(reg64) ptr, options(nostack));
        }
        value
    })
}

/// `st.release.gpu.global.u32`: a store with release order at device scope.
///
/// *Scope*: thread. *Ordering*: a thread that reads this value by [`ld_acquire_gpu`] sees what this
/// thread did before the store, and what other threads did before a barrier that this thread has
/// passed. *Since*: PTX 6.0, sm_70.
///
/// # Safety
/// `ptr` is aligned, in global memory, and accessed only by such instructions meanwhile.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn st_release_gpu(ptr: *mut u32, value: u32) {
    on_device!("atomic::st_release_gpu", (ptr, value), {
        // SAFETY: the caller's pointer is writable.
        unsafe {
            core::arch::asm!("st.release.gpu.global.u32 [{}], {};", in(reg64) ptr,
                in(reg32) value, options(nostack));
        }
    })
}

/// `ld.relaxed.gpu.global.u64`: loads a word that other blocks write by [`st_relaxed_gpu_u64`]. The
/// value is never torn: all 64 bits come from the same store.
///
/// *Scope*: thread. *Ordering*: none; it says nothing about other memory. *Since*: PTX 6.0, sm_70.
///
/// # Safety
/// `ptr` is aligned, in global memory, and written only by such instructions meanwhile.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn ld_relaxed_gpu_u64(ptr: *const u64) -> u64 {
    on_device!("atomic::ld_relaxed_gpu_u64", (ptr), {
        let value: u64;
        // SAFETY: the caller's pointer is readable.
        unsafe {
            core::arch::asm!("ld.relaxed.gpu.global.u64 {}, [{}];", out(reg64) value,
                in(reg64) ptr, options(nostack));
        }
        value
    })
}

/// `st.relaxed.gpu.global.u64`: stores a word as a whole, for other blocks to read by
/// [`ld_relaxed_gpu_u64`].
///
/// *Scope*: thread. *Ordering*: none. *Since*: PTX 6.0, sm_70.
///
/// # Safety
/// `ptr` is aligned, in global memory, and accessed only by such instructions meanwhile.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn st_relaxed_gpu_u64(ptr: *mut u64, value: u64) {
    on_device!("atomic::st_relaxed_gpu_u64", (ptr, value), {
        // SAFETY: the caller's pointer is writable.
        unsafe {
            core::arch::asm!("st.relaxed.gpu.global.u64 [{}], {};", in(reg64) ptr,
                in(reg64) value, options(nostack));
        }
    })
}

/// `atom.relaxed.cta.shared.add.u32`: adds `value`, wrapping. Returns the value before.
///
/// *Scope*: thread. *Ordering*: none. *Since*: PTX 6.0, sm_70.
///
/// # Safety
/// `address` is a multiple of 4, and accessed only atomically meanwhile.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn atom_shared_add_u32(address: crate::shared::SharedAddr, value: u32) -> u32 {
    on_device!("atomic::atom_shared_add_u32", (address, value), {
        let before: u32;
        // SAFETY: the caller's address.
        unsafe {
            core::arch::asm!("atom.relaxed.cta.shared.add.u32 {}, [{}], {};", out(reg32) before,
                in(reg32) address.bits(), in(reg32) value, options(nostack));
        }
        before
    })
}

/// `red.relaxed.cta.shared.add.u32`: adds `value`, wrapping, and returns nothing: lanes that add to one
/// place need not wait for each other.
///
/// *Scope*: thread. *Ordering*: none. *Since*: PTX 6.0, sm_70.
///
/// # Safety
/// `address` is a multiple of 4, and accessed only atomically meanwhile.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn red_shared_add_u32(address: crate::shared::SharedAddr, value: u32) {
    on_device!("atomic::red_shared_add_u32", (address, value), {
        // SAFETY: the caller's address.
        unsafe {
            core::arch::asm!("red.relaxed.cta.shared.add.u32 [{}], {};",
                in(reg32) address.bits(), in(reg32) value, options(nostack));
        }
    })
}
