//! Atomic floats: the smaller and the larger by compare-and-swap, and the types.

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use half::{bf16, f16};

use super::{Order, Scope};
#[cfg(target_arch = "nvptx64")]
use super::{atom_add, atom_cas};
use crate::convert;

/// Numbers as which halves are compared and added.
trait Wide: Copy + PartialOrd {
    /// Whether the minimum of both is `self`. A number is before NaN, and -0 is before 0.
    fn is_min(self, other: Self) -> bool;
    /// Whether the maximum of both is `self`.
    fn is_max(self, other: Self) -> bool;
}

macro_rules! wide {
    ($($ty:ty),*) => {$(
        impl Wide for $ty {
            #[inline(always)]
            fn is_min(self, other: Self) -> bool {
                self < other || other.is_nan() || (self == other && self.is_sign_negative())
            }

            #[inline(always)]
            fn is_max(self, other: Self) -> bool {
                self > other || other.is_nan() || (self == other && other.is_sign_negative())
            }
        }
    )*};
}

wide! { f32, f64 }

macro_rules! float {
    ($name:ident($ty:ident as $word:ident, $atomic:ident), $doc:literal, $add_doc:literal;
     $wide:expr; $add:expr; $fetch_add:expr) => {
        float! { @ $ty $word $atomic $wide; min is_min "atomic::atom_min" }
        float! { @ $ty $word $atomic $wide; max is_max "atomic::atom_max" }

        #[doc = $doc]
        ///
        /// Its operations have the names, orders and results of the types of `core::sync::atomic`, at device
        /// scope. A safe kernel takes a slice of it (`&[AtomicF32]`), for which a launch passes memory of
        /// the float.
        #[repr(transparent)]
        #[derive(Debug, Default)]
        pub struct $name($atomic);

        impl $name {
            /// An atomic with this value.
            #[inline(always)]
            pub const fn new(value: $ty) -> Self {
                Self($atomic::new(value.to_bits()))
            }

            /// Loads the value.
            ///
            /// # Panics
            /// Where `order` is `Release` or `AcqRel`.
            #[inline(always)]
            pub fn load(&self, order: Ordering) -> $ty {
                $ty::from_bits(self.0.load(order))
            }

            /// Stores a value.
            ///
            /// # Panics
            /// Where `order` is `Acquire` or `AcqRel`.
            #[inline(always)]
            pub fn store(&self, value: $ty, order: Ordering) {
                self.0.store(value.to_bits(), order);
            }

            /// Stores a value, and returns the one before.
            #[inline(always)]
            pub fn swap(&self, value: $ty, order: Ordering) -> $ty {
                $ty::from_bits($word::swap(&self.0, value.to_bits(), order))
            }

            /// Stores `new` where the bits of the value are those of `current`. Returns the value
            /// before: as `Ok` where it stored.
            ///
            /// # Errors
            /// The value before, where it has other bits.
            ///
            /// # Panics
            /// Where `failure` is `Release` or `AcqRel`.
            #[inline(always)]
            pub fn compare_exchange(
                &self,
                current: $ty,
                new: $ty,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$ty, $ty> {
                let exchanged =
                    $word::exchange(&self.0, current.to_bits(), new.to_bits(), success, failure);
                exchanged.map($ty::from_bits).map_err($ty::from_bits)
            }

            #[doc = $add_doc]
            /// The sum of many additions depends on their order in the last bits.
            #[inline(always)]
            pub fn fetch_add(&self, value: $ty, order: Ordering) -> $ty {
                let fetch_add: fn(&Self, $ty, Ordering) -> Option<$ty> = $fetch_add;
                match fetch_add(self, value, order) {
                    Some(before) => before,
                    None => self.update(order, |now| ($add)(now, value)),
                }
            }

            /// Keeps the smaller, and returns the value before. A number is kept before NaN, and -0
            /// before 0, so the result does not depend on the order of many.
            #[inline(always)]
            pub fn fetch_min(&self, value: $ty, order: Ordering) -> $ty {
                self.update(order, |now| match $wide(now).is_min($wide(value)) {
                    true => now,
                    false => value,
                })
            }

            /// Keeps the larger, and returns the value before. A number is kept before NaN, and 0
            /// before -0, so the result does not depend on the order of many.
            #[inline(always)]
            pub fn fetch_max(&self, value: $ty, order: Ordering) -> $ty {
                self.update(order, |now| match $wide(now).is_max($wide(value)) {
                    true => now,
                    false => value,
                })
            }

            /// Replaces the value by a function of it, and returns the one before.
            #[inline(always)]
            fn update(&self, order: Ordering, new: impl Fn($ty) -> $ty) -> $ty {
                let mut now = self.0.load(Ordering::Relaxed);
                loop {
                    let new = new($ty::from_bits(now)).to_bits();
                    match $word::exchange(&self.0, now, new, order, Ordering::Relaxed) {
                        Ok(before) => return $ty::from_bits(before),
                        Err(other) => now = other,
                    }
                }
            }
        }
    };
    (@ $ty:ident $word:ident $atomic:ident $wide:expr; $operation:ident $is:ident $what:literal) => {
        impl super::$operation::Operand for $ty {
            #[inline(always)]
            unsafe fn apply(ptr: *mut Self, value: Self, order: Order, scope: Scope) -> Self {
                on_device!($what, (ptr, value, order, scope), {
                    let word = ptr.cast::<$word>();
                    // SAFETY: the caller's pointer is valid for atomic accesses.
                    let mut now = unsafe { $atomic::from_ptr(word) }.load(Ordering::Relaxed);
                    loop {
                        let new = match $wide(Self::from_bits(now)).$is($wide(value)) {
                            true => now,
                            false => value.to_bits(),
                        };
                        // SAFETY: as above.
                        let before = unsafe { atom_cas(word, now, new, order, scope) };
                        if before == now {
                            return Self::from_bits(before);
                        }
                        now = before;
                    }
                })
            }
        }
    };
}

/// The bits of a float, in an atomic.
trait Word: Copy {
    type Atomic;

    /// `swap` of such an atomic.
    fn swap(atomic: &Self::Atomic, value: Self, order: Ordering) -> Self;

    /// `compare_exchange` of such an atomic.
    fn exchange(
        atomic: &Self::Atomic,
        current: Self,
        new: Self,
        success: Ordering,
        failure: Ordering,
    ) -> Result<Self, Self>;
}

macro_rules! words {
    ($($word:ty as $atomic:ty),*) => {$(
        impl Word for $word {
            type Atomic = $atomic;

            #[inline(always)]
            fn swap(atomic: &$atomic, value: Self, order: Ordering) -> Self {
                atomic.swap(value, order)
            }

            #[inline(always)]
            fn exchange(
                atomic: &$atomic,
                current: Self,
                new: Self,
                success: Ordering,
                failure: Ordering,
            ) -> Result<Self, Self> {
                atomic.compare_exchange(current, new, success, failure)
            }
        }
    )*};
}

words! { u32 as AtomicU32, u64 as AtomicU64 }
#[cfg(not(target_arch = "nvptx64"))]
words! { u16 as AtomicU16 }

// LLVM would exchange the word of 32 bits around it.
#[cfg(target_arch = "nvptx64")]
impl Word for u16 {
    type Atomic = AtomicU16;

    #[inline(always)]
    fn swap(atomic: &AtomicU16, value: Self, order: Ordering) -> Self {
        let mut now = atomic.load(Ordering::Relaxed);
        loop {
            match Self::exchange(atomic, now, value, order, Ordering::Relaxed) {
                Ok(before) => return before,
                Err(other) => now = other,
            }
        }
    }

    #[inline(always)]
    fn exchange(
        atomic: &AtomicU16,
        current: Self,
        new: Self,
        success: Ordering,
        failure: Ordering,
    ) -> Result<Self, Self> {
        let order = match (success, failure) {
            (Ordering::SeqCst, _) | (_, Ordering::SeqCst) => {
                core::sync::atomic::fence(Ordering::SeqCst);
                Order::AcqRel
            }
            (Ordering::Relaxed, Ordering::Relaxed) => Order::Relaxed,
            (Ordering::Acquire | Ordering::Relaxed, _) => Order::Acquire,
            (Ordering::Release, Ordering::Relaxed) => Order::Release,
            _ => Order::AcqRel,
        };
        // SAFETY: the memory of an atomic.
        let before = unsafe { atom_cas(atomic.as_ptr(), current, new, order, Scope::Gpu) };
        match before == current {
            true => Ok(before),
            false => Err(before),
        }
    }
}

/// `atom.add`, where the order is one of its own.
#[inline(always)]
fn add_at_once<T: super::add::Operand>(ptr: *mut T, value: T, order: Ordering) -> Option<T> {
    #[cfg(target_arch = "nvptx64")]
    {
        let order = match order {
            Ordering::Relaxed => Order::Relaxed,
            Ordering::Acquire => Order::Acquire,
            Ordering::Release => Order::Release,
            Ordering::AcqRel => Order::AcqRel,
            _ => return None,
        };
        // SAFETY: the memory of an atomic.
        Some(unsafe { atom_add(ptr, value, order, Scope::Gpu) })
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = (ptr, value, order);
        None
    }
}

#[inline(always)]
fn wide_f16(x: f16) -> f32 {
    convert::f16_to_f32(x.to_bits())
}

#[inline(always)]
fn wide_bf16(x: bf16) -> f32 {
    convert::bf16_to_f32(x.to_bits())
}

float! {
    AtomicF32(f32 as u32, AtomicU32), "An `f32` that all threads may access.",
    "`atom.add.f32`: adds, and returns the value before.";
    core::convert::identity::<f32>; |a: f32, b: f32| a + b;
    |this, value, order| add_at_once(this.0.as_ptr().cast::<f32>(), value, order)
}

float! {
    AtomicF64(f64 as u64, AtomicU64), "An `f64` that all threads may access.",
    "`atom.add.f64`: adds, and returns the value before.";
    core::convert::identity::<f64>; |a: f64, b: f64| a + b;
    |this, value, order| add_at_once(this.0.as_ptr().cast::<f64>(), value, order)
}

float! {
    AtomicF16(f16 as u16, AtomicU16), "An `f16` that all threads may access.",
    "`atom.add.noftz.f16`: adds, and returns the value before.";
    wide_f16; |a, b| f16::from_bits(convert::f32_to_f16(wide_f16(a) + wide_f16(b)));
    |this, value, order| add_at_once(this.0.as_ptr().cast::<f16>(), value, order)
}

float! {
    AtomicBf16(bf16 as u16, AtomicU16), "A `bf16` that all threads may access.",
    "Adds by compare-and-swap, and returns the value before. From sm_90 on, \
     [`atom_add`](super::atom_add) is one instruction.";
    wide_bf16; |a, b| bf16::from_bits(convert::f32_to_bf16(wide_bf16(a) + wide_bf16(b)));
    |_, _, _| None
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

    use super::*;

    #[test]
    fn extrema_do_not_depend_on_the_order() {
        let values = [0.0, -0.0, f32::NAN, 1.5, -2.0];
        for first in values {
            let (low, high) = (AtomicF32::new(first), AtomicF32::new(first));
            for value in values {
                low.fetch_min(value, Relaxed);
                high.fetch_max(value, SeqCst);
            }
            assert_eq!((low.load(Acquire), high.load(Relaxed)), (-2.0, 1.5));
        }
        for [first, second] in [[0.0, -0.0], [-0.0, 0.0]] {
            let (low, high) = (AtomicF64::new(first), AtomicF64::new(first));
            low.fetch_min(second, Relaxed);
            high.fetch_max(second, Relaxed);
            assert!(low.load(Relaxed).is_sign_negative() && high.load(Relaxed).is_sign_positive());
        }
    }

    #[test]
    fn halves_are_added_and_compared_as_numbers() {
        let x = AtomicF16::new(f16::from_f32(1.5));
        assert_eq!(x.fetch_add(f16::from_f32(-4.0), Relaxed).to_f32(), 1.5);
        assert_eq!(x.fetch_max(f16::from_f32(-3.0), Relaxed).to_f32(), -2.5);
        assert_eq!(x.swap(f16::from_f32(8.0), Relaxed).to_f32(), -2.5);
        let x = AtomicBf16::new(bf16::from_f32(-1.0));
        x.fetch_min(bf16::from_f32(-1.0078125), Relaxed);
        x.fetch_add(bf16::from_f32(1.0), Relaxed);
        assert_eq!(x.load(Relaxed).to_f32(), -0.0078125);
    }

    #[test]
    fn an_exchange_compares_bits() {
        let x = AtomicF32::new(f32::NAN);
        assert_eq!(
            x.compare_exchange(f32::NAN, 1.0, Relaxed, Relaxed)
                .map(f32::to_bits),
            Ok(f32::NAN.to_bits())
        );
        assert_eq!(x.compare_exchange(2.0, 3.0, Relaxed, Relaxed), Err(1.0));
    }
}
