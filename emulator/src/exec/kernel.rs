//! Lane kernels: one lane-wise PTX operation over the 32 lanes of a warp.
//!
//! A kernel is chosen when an instruction is lowered. [`lanes!`] compiles each kernel twice,
//! without target features and for AVX2 with FMA, and picks what the machine supports; the results
//! are the same.

use super::registers::{Constants, Lane, Registers, Slot};
use super::row::{LANES, Row, mask_of};
use crate::program::Width;
use crate::semantics::FloatMode;
use crate::semantics::compare::Compare;
use crate::semantics::fp32::MinMaxMode;

/// Operands and modes of a lane-wise instruction. Operands that an operation does not use are slot
/// 0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Args {
    /// Destination.
    pub(crate) d: Slot,
    /// Second destination: the other predicate of `setp`, a carry or shuffle predicate.
    pub(crate) e: Slot,
    /// Sources.
    pub(crate) a: Slot,
    pub(crate) b: Slot,
    pub(crate) c: Slot,
    pub(crate) f: Slot,
    pub(crate) widths: Widths,
    /// Rounding, `.ftz` and `.sat`.
    pub(crate) float: FloatMode,
    /// Modes of `min` and `max`.
    pub(crate) minmax: MinMaxMode,
    /// Comparison of `setp` and `set`.
    pub(crate) compare: Compare,
    /// Table of `lop3`, and other small numbers of single operations.
    pub(crate) imm: u32,
}

/// The widths of the first destination and of the sources that there are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Widths {
    pub(crate) d: Option<Width>,
    pub(crate) sources: [Option<Width>; 4],
}

/// The function that runs an operation for the lanes of a mask.
pub(crate) type LaneFn = unsafe fn(&mut Registers, &Constants, &Args, u32);

/// A lane-wise operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel(LaneFn);

impl Kernel {
    /// # Safety
    /// The machine must have the target features that `run` was compiled for.
    pub(crate) unsafe fn new(run: LaneFn) -> Self {
        Self(run)
    }

    /// Runs the operation for the lanes of `mask`.
    #[inline(always)]
    pub(crate) fn run(self, regs: &mut Registers, constants: &Constants, x: &Args, mask: u32) {
        // SAFETY: `new` was promised that the machine has the features.
        unsafe { (self.0)(regs, constants, x, mask) }
    }
}

/// Whether the machine has the features that the fast versions are compiled for.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn fast() -> bool {
    static FAST: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *FAST.get_or_init(|| {
        std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("fma")
            && std::arch::is_x86_feature_detected!("bmi1")
            && std::arch::is_x86_feature_detected!("bmi2")
            && std::arch::is_x86_feature_detected!("lzcnt")
            && std::arch::is_x86_feature_detected!("popcnt")
    })
}

/// Calls a closure, compiled for AVX2 and FMA if the machine has them.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn vectorized<R>(f: impl FnOnce() -> R) -> R {
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
    fn call<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
    if fast() {
        // SAFETY: the machine has the features.
        unsafe { call(f) }
    } else {
        f()
    }
}

/// Calls a closure.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn vectorized<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// Makes a [`Kernel`] of `|registers, constants, args, mask| body`, in both versions.
macro_rules! kernel {
    (|$r:ident, $k:ident, $x:ident, $m:ident| $body:expr) => {{
        use $crate::exec::kernel::{Args, Kernel};
        use $crate::exec::registers::{Constants, Registers};
        #[inline(always)]
        fn plain($r: &mut Registers, $k: &Constants, $x: &Args, $m: u32) {
            $body
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
        fn fast($r: &mut Registers, $k: &Constants, $x: &Args, $m: u32) {
            plain($r, $k, $x, $m)
        }
        #[cfg(target_arch = "x86_64")]
        let picked: $crate::exec::kernel::LaneFn = if $crate::exec::kernel::fast() {
            fast
        } else {
            plain
        };
        #[cfg(not(target_arch = "x86_64"))]
        let picked: $crate::exec::kernel::LaneFn = plain;
        // SAFETY: `fast` is picked only where the machine has its features; `plain` needs none.
        unsafe { Kernel::new(picked) }
    }};
}

/// Makes a [`Kernel`] from a function of one to four typed sources: `lanes!(|x, a: f32, b: f32| ->
/// f32 { .. })`, where `x` is the [`Args`].
macro_rules! lanes {
    (|$x:ident, $a:ident: $ta:ty| -> $r:ty $body:block) => {
        $crate::exec::kernel::kernel!(|regs, constants, args, mask| {
            $crate::exec::kernel::map1(
                regs,
                constants,
                args,
                mask,
                #[inline(always)]
                |$x: &Args, $a: $ta| -> $r {
                    let _ = $x;
                    $body
                },
            )
        })
    };
    (|$x:ident, $a:ident: $ta:ty, $b:ident: $tb:ty| -> $r:ty $body:block) => {
        $crate::exec::kernel::kernel!(|regs, constants, args, mask| {
            $crate::exec::kernel::map2(
                regs,
                constants,
                args,
                mask,
                #[inline(always)]
                |$x: &Args, $a: $ta, $b: $tb| -> $r {
                    let _ = $x;
                    $body
                },
            )
        })
    };
    (|$x:ident, $a:ident: $ta:ty, $b:ident: $tb:ty, $c:ident: $tc:ty| -> $r:ty $body:block) => {
        $crate::exec::kernel::kernel!(|regs, constants, args, mask| {
            $crate::exec::kernel::map3(
                regs,
                constants,
                args,
                mask,
                #[inline(always)]
                |$x: &Args, $a: $ta, $b: $tb, $c: $tc| -> $r {
                    let _ = $x;
                    $body
                },
            )
        })
    };
    (|$x:ident, $a:ident: $ta:ty, $b:ident: $tb:ty, $c:ident: $tc:ty, $f:ident: $tf:ty|
        -> $r:ty $body:block) => {
        $crate::exec::kernel::kernel!(|regs, constants, args, mask| {
            $crate::exec::kernel::map4(
                regs,
                constants,
                args,
                mask,
                #[inline(always)]
                |$x: &Args, $a: $ta, $b: $tb, $c: $tc, $f: $tf| -> $r {
                    let _ = $x;
                    $body
                },
            )
        })
    };
}

pub(crate) use {kernel, lanes};

/// A Rust type that is held in a register.
pub(crate) trait Value: Copy {
    /// The register's width.
    type Bits: Lane;
    fn from_bits(bits: Self::Bits) -> Self;
    fn to_bits(self) -> Self::Bits;
}

macro_rules! value {
    ($($t:ty: $bits:ty, |$b:ident| $from:expr, |$v:ident| $to:expr;)*) => {$(
        impl Value for $t {
            type Bits = $bits;
            #[inline(always)]
            fn from_bits($b: $bits) -> Self { $from }
            #[inline(always)]
            fn to_bits(self) -> $bits { let $v = self; $to }
        }
    )*};
}

value! {
    u8: u16, |b| b as u8, |v| u16::from(v);
    i8: u16, |b| b as i8, |v| v as u16;
    u16: u16, |b| b, |v| v;
    i16: u16, |b| b as i16, |v| v as u16;
    u32: u32, |b| b, |v| v;
    i32: u32, |b| b as i32, |v| v as u32;
    u64: u64, |b| b, |v| v;
    i64: u64, |b| b as i64, |v| v as u64;
    f32: u32, |b| f32::from_bits(b), |v| v.to_bits();
    f64: u64, |b| f64::from_bits(b), |v| v.to_bits();
}

#[inline(always)]
pub(crate) fn map1<A: Value, R: Value>(
    regs: &mut Registers,
    constants: &Constants,
    x: &Args,
    mask: u32,
    f: impl Fn(&Args, A) -> R,
) {
    let a = *regs.row::<A::Bits>(constants, x.a);
    let mut out = Row::<R::Bits>::default();
    for i in 0..LANES {
        out.0[i] = f(x, A::from_bits(a.0[i])).to_bits();
    }
    regs.put(x.d, &out, mask);
}

#[inline(always)]
pub(crate) fn map2<A: Value, B: Value, R: Value>(
    regs: &mut Registers,
    constants: &Constants,
    x: &Args,
    mask: u32,
    f: impl Fn(&Args, A, B) -> R,
) {
    let a = *regs.row::<A::Bits>(constants, x.a);
    let b = *regs.row::<B::Bits>(constants, x.b);
    let mut out = Row::<R::Bits>::default();
    for i in 0..LANES {
        out.0[i] = f(x, A::from_bits(a.0[i]), B::from_bits(b.0[i])).to_bits();
    }
    regs.put(x.d, &out, mask);
}

#[inline(always)]
pub(crate) fn map3<A: Value, B: Value, C: Value, R: Value>(
    regs: &mut Registers,
    constants: &Constants,
    x: &Args,
    mask: u32,
    f: impl Fn(&Args, A, B, C) -> R,
) {
    let a = *regs.row::<A::Bits>(constants, x.a);
    let b = *regs.row::<B::Bits>(constants, x.b);
    let c = *regs.row::<C::Bits>(constants, x.c);
    let mut out = Row::<R::Bits>::default();
    for i in 0..LANES {
        let (a, b) = (A::from_bits(a.0[i]), B::from_bits(b.0[i]));
        out.0[i] = f(x, a, b, C::from_bits(c.0[i])).to_bits();
    }
    regs.put(x.d, &out, mask);
}

#[inline(always)]
pub(crate) fn map4<A: Value, B: Value, C: Value, D: Value, R: Value>(
    regs: &mut Registers,
    constants: &Constants,
    x: &Args,
    mask: u32,
    f: impl Fn(&Args, A, B, C, D) -> R,
) {
    let a = *regs.row::<A::Bits>(constants, x.a);
    let b = *regs.row::<B::Bits>(constants, x.b);
    let c = *regs.row::<C::Bits>(constants, x.c);
    let d = *regs.row::<D::Bits>(constants, x.f);
    let mut out = Row::<R::Bits>::default();
    for i in 0..LANES {
        let (a, b) = (A::from_bits(a.0[i]), B::from_bits(b.0[i]));
        let (c, d) = (C::from_bits(c.0[i]), D::from_bits(d.0[i]));
        out.0[i] = f(x, a, b, c, d).to_bits();
    }
    regs.put(x.d, &out, mask);
}

/// The lanes in which `f` holds for two sources.
#[inline(always)]
pub(crate) fn test2<A: Value, B: Value>(
    regs: &Registers,
    constants: &Constants,
    x: &Args,
    f: impl Fn(&Args, A, B) -> bool,
) -> u32 {
    let a = *regs.row::<A::Bits>(constants, x.a);
    let b = *regs.row::<B::Bits>(constants, x.b);
    mask_of(
        #[inline(always)]
        |i| f(x, A::from_bits(a.0[i]), B::from_bits(b.0[i])),
    )
}

/// For the lanes of `mask`, computes results and carries from three sources, and writes them.
#[inline(always)]
pub(crate) fn carry3<T: Value>(
    regs: &mut Registers,
    constants: &Constants,
    x: &Args,
    mask: u32,
    f: impl Fn(T, T, T, bool) -> (T, bool),
) {
    let a = *regs.row::<T::Bits>(constants, x.a);
    let b = *regs.row::<T::Bits>(constants, x.b);
    let c = *regs.row::<T::Bits>(constants, x.c);
    let carry_in = regs.pred(constants, x.f);
    let mut out = Row::<T::Bits>::default();
    let mut carry_out = 0;
    for i in 0..LANES {
        let (a, b) = (T::from_bits(a.0[i]), T::from_bits(b.0[i]));
        let (value, carry) = f(a, b, T::from_bits(c.0[i]), carry_in >> i & 1 != 0);
        out.0[i] = value.to_bits();
        carry_out |= u32::from(carry) << i;
    }
    regs.put(x.d, &out, mask);
    regs.set_pred(x.e, carry_out, mask);
}
