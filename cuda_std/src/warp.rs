//! What the 32 lanes of a warp do together.
//!
//! Every function here is for the lanes that `mask` names (bit = lane); all of them must execute
//! it, converged, with the same mask, or the launch hangs or is undefined: hence `unsafe`. None
//! orders memory but [`bar_warp_sync`]. They rely on cuda_builder to keep them convergent.

/// All lanes.
pub const FULL_MASK: u32 = u32::MAX;

/// A value that moves between lanes as 32-bit words.
pub trait Words: Copy {
    /// The value with each of its words put through `f`, in order.
    fn map_words(self, f: impl FnMut(u32) -> u32) -> Self;
}

macro_rules! words {
    ($($ty:ty),*: $bits:ty) => {$(
        impl Words for $ty {
            #[inline(always)]
            fn map_words(self, mut f: impl FnMut(u32) -> u32) -> Self {
                let bits = <$bits>::from_ne_bytes(self.to_ne_bytes());
                #[allow(clippy::cast_lossless)]
                let (low, high) = (bits as u32, (bits as u64 >> 32) as u32);
                let low = f(low) as $bits;
                let bits = if size_of::<Self>() == 8 {
                    ((f(high) as u64) << 32) as $bits | low
                } else {
                    low
                };
                Self::from_ne_bytes(bits.to_ne_bytes())
            }
        }
    )*};
}

words!(u32, i32, f32: u32);
words!(u64, i64, f64: u64);

macro_rules! shuffles {
    ($($name:ident = $mode:literal, $clamp:literal, $b:ident, $doc:literal;)*) => {$(
        #[doc = concat!("`shfl.sync.", $mode, ".b32`, once a word: ", $doc)]
        ///
        /// *Scope*: warp, converged. *Since*: PTX 6.0, sm_30.
        ///
        /// # Safety
        /// All lanes of `mask` execute it together; the lane read is one of them.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name<T: Words>(mask: u32, value: T, $b: u32) -> T {
            on_device!("warp::shfl", (mask, value, $b), {
                value.map_words(|word| {
                    let other: u32;
                    // SAFETY: the caller's lanes are converged.
                    unsafe {
                        core::arch::asm!(
                            concat!("shfl.sync.", $mode, ".b32 {}, {}, {}, ", $clamp, ", {};"),
                            out(reg32) other, in(reg32) word, in(reg32) $b, in(reg32) mask,
                            options(nostack));
                    }
                    other
                })
            })
        }
    )*};
}

shuffles! {
    shfl_idx = "idx", "31", lane, "the value of `lane`.";
    shfl_up = "up", "0", delta, "that of the lane `delta` below; the own where there is none.";
    shfl_down = "down", "31", delta, "that of the lane `delta` above; the own where there is none.";
    shfl_bfly = "bfly", "31", lane_xor, "that of the lane with the index xor `lane_xor`.";
}

/// `value`, the same in all lanes, in a form in which ptxas sees that it is: what is computed of it
/// takes uniform registers, which descriptors of wgmma have to be in, and branches on it part no
/// warp. One `shfl.sync.idx`.
///
/// *Scope*: warp, converged. *Since*: PTX 6.0, sm_30.
///
/// # Safety
/// All lanes execute it together, with the same value.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn uniform(value: u32) -> u32 {
    // SAFETY: passed on to the caller.
    unsafe { shfl_idx(FULL_MASK, value, 0) }
}

macro_rules! votes {
    ($($name:ident = $mode:literal, $doc:literal;)*) => {$(
        #[doc = concat!("`vote.sync.", $mode, ".pred`: ", $doc)]
        ///
        /// *Scope*: warp, converged. *Since*: PTX 6.0, sm_30.
        ///
        /// # Safety
        /// All lanes of `mask` execute it together.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name(mask: u32, predicate: bool) -> bool {
            on_device!("warp::vote", (mask, predicate), {
                let result: u32;
                // SAFETY: the caller's lanes are converged.
                unsafe {
                    core::arch::asm!(
                        "{{", ".reg .pred p;", "setp.ne.u32 p, {}, 0;",
                        concat!("vote.sync.", $mode, ".pred p, p, {};"),
                        "selp.u32 {}, 1, 0, p;", "}}",
                        in(reg32) u32::from(predicate), in(reg32) mask, out(reg32) result,
                        options(nostack));
                }
                result != 0
            })
        }
    )*};
}

votes! {
    vote_all = "all", "true where all lanes' predicates are.";
    vote_any = "any", "true where some lane's predicate is.";
    vote_uni = "uni", "true where all lanes' predicates are equal.";
}

/// `vote.sync.ballot.b32`: the lanes whose predicate is true.
///
/// *Scope*: warp, converged. *Since*: PTX 6.0, sm_30.
///
/// # Safety
/// All lanes of `mask` execute it together.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn vote_ballot(mask: u32, predicate: bool) -> u32 {
    on_device!("warp::vote_ballot", (mask, predicate), {
        let lanes: u32;
        // SAFETY: the caller's lanes are converged.
        unsafe {
            core::arch::asm!(
                "{{", ".reg .pred p;", "setp.ne.u32 p, {}, 0;", "vote.sync.ballot.b32 {}, p, {};",
                "}}", in(reg32) u32::from(predicate), out(reg32) lanes, in(reg32) mask,
                options(nostack));
        }
        lanes
    })
}

/// `match.any.sync.b32`: the lanes that hold the same `value`.
///
/// *Scope*: warp, converged. *Since*: PTX 6.0, sm_70.
///
/// # Safety
/// All lanes of `mask` execute it together.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn match_any(mask: u32, value: u32) -> u32 {
    on_device!("warp::match_any", (mask, value), {
        let lanes: u32;
        // SAFETY: the caller's lanes are converged.
        unsafe {
            core::arch::asm!("match.any.sync.b32 {}, {}, {};", out(reg32) lanes,
                in(reg32) value, in(reg32) mask, options(nostack));
        }
        lanes
    })
}

/// `match.all.sync.b32`: `mask` where all its lanes hold the same `value`, else 0.
///
/// *Scope*: warp, converged. *Since*: PTX 6.0, sm_70.
///
/// # Safety
/// All lanes of `mask` execute it together.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn match_all(mask: u32, value: u32) -> u32 {
    on_device!("warp::match_all", (mask, value), {
        let lanes: u32;
        // SAFETY: the caller's lanes are converged.
        unsafe {
            core::arch::asm!("match.all.sync.b32 {}, {}, {};", out(reg32) lanes,
                in(reg32) value, in(reg32) mask, options(nostack));
        }
        lanes
    })
}

/// `activemask.b32`: the lanes that execute this instruction together, which the program does not
/// determine; no substitute for a mask that it knows.
///
/// *Scope*: warp. *Since*: PTX 6.2, sm_30.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn activemask() -> u32 {
    on_device!("warp::activemask", (), {
        let lanes: u32;
        // SAFETY: reads which lanes are here.
        unsafe {
            core::arch::asm!("activemask.b32 {};", out(reg32) lanes, options(nostack));
        }
        lanes
    })
}

/// `bar.warp.sync`: waits for the lanes of `mask` and orders their memory accesses before it
/// against those after it.
///
/// *Scope*: warp. *Since*: PTX 6.0, sm_30.
///
/// # Safety
/// All lanes of `mask` reach it with the same mask.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn bar_warp_sync(mask: u32) {
    on_device!("warp::bar_warp_sync", (mask), {
        // SAFETY: the caller's lanes all arrive.
        unsafe { core::arch::asm!("bar.warp.sync {};", in(reg32) mask, options(nostack)) }
    })
}

macro_rules! redux {
    ($($name:ident: $ty:ty = $op:literal, $doc:literal;)*) => {$(
        #[doc = concat!("`redux.sync.", $op, "`: ", $doc)]
        ///
        /// *Scope*: warp, converged. *Since*: PTX 7.0, sm_80.
        ///
        /// # Safety
        /// All lanes of `mask` execute it together.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name(mask: u32, value: $ty) -> $ty {
            on_device!("warp::redux", (mask, value), {
                let result: $ty;
                // SAFETY: the caller's lanes are converged.
                unsafe {
                    core::arch::asm!(concat!("redux.sync.", $op, " {}, {}, {};"),
                        out(reg32) result, in(reg32) value, in(reg32) mask, options(nostack));
                }
                result
            })
        }
    )*};
}

redux! {
    redux_add_u32: u32 = "add.u32", "the sum, wrapping.";
    redux_add_i32: i32 = "add.s32", "the sum, wrapping.";
    redux_min_u32: u32 = "min.u32", "the smallest.";
    redux_min_i32: i32 = "min.s32", "the smallest.";
    redux_max_u32: u32 = "max.u32", "the largest.";
    redux_max_i32: i32 = "max.s32", "the largest.";
    redux_and: u32 = "and.b32", "bitwise and.";
    redux_or: u32 = "or.b32", "bitwise or.";
    redux_xor: u32 = "xor.b32", "bitwise exclusive or.";
}

/// `op` over the values of all 32 lanes, the result in every lane: a butterfly of 5 steps in fixed
/// order. `op` is commutative; it need not be associative for the result to be the same each time.
///
/// # Safety
/// All 32 lanes execute it together.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn reduce<T: Words>(value: T, op: impl Fn(T, T) -> T) -> T {
    let mut value = value;
    let mut lane_xor = 16;
    while lane_xor > 0 {
        // SAFETY: passed on to the caller.
        value = op(value, unsafe { shfl_bfly(FULL_MASK, value, lane_xor) });
        lane_xor /= 2;
    }
    value
}

macro_rules! reductions {
    ($($name:ident = $op:expr, $doc:literal;)*) => {$(
        #[doc = $doc]
        /// In every lane, in the order of [`reduce`].
        ///
        /// # Safety
        /// All 32 lanes execute it together.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name(value: f32) -> f32 {
            // SAFETY: passed on to the caller.
            unsafe { reduce(value, $op) }
        }
    )*};
}

reductions! {
    reduce_sum = |a, b| a + b, "The sum of all lanes' values.";
    reduce_max = crate::math::max_nan, "The largest of all lanes' values, NaN if one is.";
    reduce_min = crate::math::min_nan, "The smallest of all lanes' values, NaN if one is.";
}
