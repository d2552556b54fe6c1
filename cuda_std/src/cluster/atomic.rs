//! Atomic operations on the shared memory of blocks of the cluster.
//!
//! They are relaxed, for all threads of the cluster: its barriers and mbarriers order other accesses.
//!
//! | function | types |
//! |---|---|
//! | [`atom_add`] | u32, i32, u64, i64, f32, f64 (integers wrap) |
//! | [`atom_min`], [`atom_max`] | u32, i32, u64, i64 |
//! | [`atom_and`], [`atom_or`], [`atom_xor`] | u32, i32, u64, i64 |
//! | [`atom_exch`], [`atom_cas`] | u32, i32, u64, i64, f32, f64 (compared as bits) |

use crate::shared::ClusterAddr;

macro_rules! operations {
    ($($name:ident, $private:ident, $doc:literal: [
        $($ty:ty = $reg:ident, $op:literal;)*
    ])*) => {$(
        mod $private {
            use crate::shared::ClusterAddr;

            /// Types of the operation.
            pub trait Operand: Copy {
                /// The operation.
                ///
                /// # Safety
                /// As for the function that calls it.
                unsafe fn apply(address: ClusterAddr, value: Self) -> Self;
            }
            $(
                impl Operand for $ty {
                    #[inline(always)]
                    unsafe fn apply(address: ClusterAddr, value: Self) -> Self {
                        on_device!("cluster::atomic", (address, value), {
                            let before: Self;
                            // SAFETY: the caller's address is valid for an atomic access.
                            unsafe {
                                core::arch::asm!(
                                    concat!("atom.relaxed.cluster.shared::cluster.", $op, " {}, [{}], {};"),
                                    out($reg) before, in(reg32) address.bits(), in($reg) value,
                                    options(nostack));
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
        /// *Scope*: thread. *Since*: PTX 7.8, sm_90.
        ///
        /// # Safety
        /// `address` is aligned and in a block of the cluster that has not exited. Meanwhile, it is
        /// accessed only atomically.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name<T: $private::Operand>(address: ClusterAddr, value: T) -> T {
            // SAFETY: passed on to the caller.
            unsafe { T::apply(address, value) }
        }
    )*};
}

operations! {
    atom_add, add, "Adds `value`.": [
        u32 = reg32, "add.u32"; i32 = reg32, "add.s32"; u64 = reg64, "add.u64";
        i64 = reg64, "add.u64"; f32 = reg32, "add.f32"; f64 = reg64, "add.f64";
    ]
    atom_min, min, "Keeps the smaller.": [
        u32 = reg32, "min.u32"; i32 = reg32, "min.s32"; u64 = reg64, "min.u64";
        i64 = reg64, "min.s64";
    ]
    atom_max, max, "Keeps the larger.": [
        u32 = reg32, "max.u32"; i32 = reg32, "max.s32"; u64 = reg64, "max.u64";
        i64 = reg64, "max.s64";
    ]
    atom_and, and, "Bitwise and.": [
        u32 = reg32, "and.b32"; i32 = reg32, "and.b32"; u64 = reg64, "and.b64";
        i64 = reg64, "and.b64";
    ]
    atom_or, or, "Bitwise or.": [
        u32 = reg32, "or.b32"; i32 = reg32, "or.b32"; u64 = reg64, "or.b64"; i64 = reg64, "or.b64";
    ]
    atom_xor, xor, "Bitwise exclusive or.": [
        u32 = reg32, "xor.b32"; i32 = reg32, "xor.b32"; u64 = reg64, "xor.b64";
        i64 = reg64, "xor.b64";
    ]
    atom_exch, exch, "Writes `value`.": [
        u32 = reg32, "exch.b32"; i32 = reg32, "exch.b32"; u64 = reg64, "exch.b64";
        i64 = reg64, "exch.b64"; f32 = reg32, "exch.b32"; f64 = reg64, "exch.b64";
    ]
}

mod cas {
    use crate::shared::ClusterAddr;

    /// Types of the operation.
    pub trait Operand: Copy {
        /// The operation.
        ///
        /// # Safety
        /// As for [`super::atom_cas`].
        unsafe fn apply(address: ClusterAddr, compare: Self, value: Self) -> Self;
    }

    macro_rules! operands {
        ($($ty:ty = $reg:ident, $op:literal;)*) => {$(
            impl Operand for $ty {
                #[inline(always)]
                unsafe fn apply(address: ClusterAddr, compare: Self, value: Self) -> Self {
                    on_device!("cluster::atomic", (address, compare, value), {
                        let before: Self;
                        // SAFETY: the caller's address is valid for an atomic access.
                        unsafe {
                            core::arch::asm!(
                                concat!("atom.relaxed.cluster.shared::cluster.", $op,
                                    " {}, [{}], {}, {};"),
                                out($reg) before, in(reg32) address.bits(), in($reg) compare,
                                in($reg) value, options(nostack));
                        }
                        before
                    })
                }
            }
        )*};
    }

    operands! {
        u32 = reg32, "cas.b32";
        i32 = reg32, "cas.b32";
        f32 = reg32, "cas.b32";
        u64 = reg64, "cas.b64";
        i64 = reg64, "cas.b64";
        f64 = reg64, "cas.b64";
    }
}

/// Compare and swap: writes `value` if the bits there equal those of `compare`. Returns the value
/// before.
///
/// *Scope*: thread. *Since*: PTX 7.8, sm_90.
///
/// # Safety
/// As for [`atom_exch`].
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn atom_cas<T: cas::Operand>(address: ClusterAddr, compare: T, value: T) -> T {
    // SAFETY: passed on to the caller.
    unsafe { T::apply(address, compare, value) }
}
