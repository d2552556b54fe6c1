//! Warp-level operations: shuffles, votes, matches and reductions across the 32 lanes.
//!
//! Functions that take a `mask` (bit i is lane i) are for the lanes in it. All of these lanes must
//! execute the function, converged, with the same mask; otherwise the launch hangs or its behaviour
//! is undefined, which is why the functions are `unsafe`. Only [`bar_warp_sync`] orders memory
//! accesses; it also lets diverged lanes meet. They rely on cuda_builder to keep them convergent.

/// The mask of all 32 lanes.
pub const FULL_MASK: u32 = u32::MAX;

/// A value that is exchanged between lanes as 32-bit words.
pub trait Words: Copy {
    /// Applies `f` to each 32-bit word of the value, the low word first.
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

macro_rules! small_words {
    ($($ty:ty, $value:ident => $bits:expr, $word:ident => $back:expr;)*) => {$(
        impl Words for $ty {
            #[inline(always)]
            fn map_words(self, mut f: impl FnMut(u32) -> u32) -> Self {
                let $value = self;
                let $word = f(u32::from($bits));
                $back
            }
        }
    )*};
}

small_words! {
    u8, value => value, word => word as Self;
    i8, value => value.cast_unsigned(), word => word as Self;
    u16, value => value, word => word as Self;
    i16, value => value.cast_unsigned(), word => word as Self;
    bool, value => value, word => word != 0;
    half::f16, value => value.to_bits(), word => Self::from_bits(word as u16);
    half::bf16, value => value.to_bits(), word => Self::from_bits(word as u16);
}

impl Words for u128 {
    #[inline(always)]
    fn map_words(self, mut f: impl FnMut(u32) -> u32) -> Self {
        let low = (self as u64).map_words(&mut f);
        let high = ((self >> 64) as u64).map_words(&mut f);
        Self::from(high) << 64 | Self::from(low)
    }
}

impl<T: Words, const N: usize> Words for [T; N] {
    #[inline(always)]
    fn map_words(self, mut f: impl FnMut(u32) -> u32) -> Self {
        self.map(|element| element.map_words(&mut f))
    }
}

macro_rules! shuffles {
    ($($name:ident, $within:ident = $mode:literal, $clamp:literal, $b:ident, $doc:literal;)*) => {$(
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
            // SAFETY: passed on to the caller.
            unsafe { $within::<32, T>(mask, value, $b) }
        }

        #[doc = concat!("As [`", stringify!($name), "`], in each segment of `LANES` lanes by itself.")]
        /// `LANES` is 1, 2, 4, 8, 16 or 32.
        ///
        /// *Scope*: warp, converged. *Since*: PTX 6.0, sm_30.
        ///
        /// # Safety
        /// All lanes of `mask` execute it together; the lane read is one of them.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $within<const LANES: u32, T: Words>(mask: u32, value: T, $b: u32) -> T {
            const {
                assert!(LANES.is_power_of_two() && LANES <= 32, "a segment has 1 to 32 lanes, a power of two");
            }
            on_device!("warp::shfl", (mask, value, $b), {
                value.map_words(|word| {
                    let other: u32;
                    // SAFETY: the caller's lanes are converged.
                    unsafe {
                        core::arch::asm!(
                            concat!("shfl.sync.", $mode, ".b32 {}, {}, {}, {}, {};"),
                            out(reg32) other, in(reg32) word, in(reg32) $b,
                            const (((32 - LANES) << 8) | $clamp), in(reg32) mask,
                            options(nostack));
                    }
                    other
                })
            })
        }
    )*};
}

shuffles! {
    shfl_idx, shfl_idx_within = "idx", 31, lane, "the value of `lane`.";
    shfl_up, shfl_up_within = "up", 0, delta,
        "that of the lane `delta` below; the own where there is none.";
    shfl_down, shfl_down_within = "down", 31, delta,
        "that of the lane `delta` above; the own where there is none.";
    shfl_bfly, shfl_bfly_within = "bfly", 31, lane_xor,
        "that of the lane with the index xor `lane_xor`.";
}

/// Returns `value`, which is the same in all lanes, in a form in which ptxas recognises that it is
/// warp-uniform. One `shfl.sync.idx`.
///
/// What is computed from it can live in uniform registers, where wgmma descriptors have to be, and
/// a branch on it does not diverge.
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

/// `vote.sync.ballot.b32`: the mask of the lanes whose predicate is true.
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

/// `match.any.sync.b32`, once a word: the mask of the lanes that hold the same `value` as this one.
/// Floats are compared as bits.
///
/// *Scope*: warp, converged. *Since*: PTX 6.0, sm_70.
///
/// # Safety
/// All lanes of `mask` execute it together.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn match_any<T: Words>(mask: u32, value: T) -> u32 {
    on_device!("warp::match_any", (mask, value), {
        let mut all = mask;
        value.map_words(|word| {
            let lanes: u32;
            // SAFETY: the caller's lanes are converged.
            unsafe {
                core::arch::asm!("match.any.sync.b32 {}, {}, {};", out(reg32) lanes,
                    in(reg32) word, in(reg32) mask, options(nostack));
            }
            all &= lanes;
            word
        });
        all
    })
}

/// `match.all.sync.b32`, once a word: `mask` if all its lanes hold the same `value`, else 0.
/// Floats are compared as bits.
///
/// *Scope*: warp, converged. *Since*: PTX 6.0, sm_70.
///
/// # Safety
/// All lanes of `mask` execute it together.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn match_all<T: Words>(mask: u32, value: T) -> u32 {
    on_device!("warp::match_all", (mask, value), {
        let mut all = mask;
        value.map_words(|word| {
            let lanes: u32;
            // SAFETY: the caller's lanes are converged.
            unsafe {
                core::arch::asm!("match.all.sync.b32 {}, {}, {};", out(reg32) lanes,
                    in(reg32) word, in(reg32) mask, options(nostack));
            }
            all &= lanes;
            word
        });
        all
    })
}

/// `activemask.b32`: the mask of the lanes that happen to execute this instruction together. The
/// program does not determine which these are. So it does not replace a mask that the program has.
///
/// *Scope*: warp. *Since*: PTX 6.2, sm_30.
///
/// # Panics
/// On the host.
#[inline(always)]
pub fn activemask() -> u32 {
    on_device!("warp::activemask", (), {
        let lanes: u32;
        // SAFETY: reads which lanes are active.
        unsafe {
            core::arch::asm!("activemask.b32 {};", out(reg32) lanes, options(nostack));
        }
        lanes
    })
}

/// `bar.warp.sync`: waits for all lanes of `mask` (CUDA's `__syncwarp()`).
///
/// *Scope*: warp; diverged lanes may arrive one by one. *Ordering*: the memory accesses of these
/// lanes before it are ordered before those after it. *Since*: PTX 6.0, sm_30.
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

/// Reduces the values of all 32 lanes by `op` and returns the result in every lane: a butterfly of
/// 5 shuffles in a fixed order. `op` must be commutative. It need not be associative: the order is
/// fixed, so the result is the same each time.
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
