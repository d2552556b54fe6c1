//! Loads of 16 bytes of elements, and their conversion to numbers.

use cuda_std::convert::{self, Halves};
use cuda_std::{mem, thread};
use half::{bf16, f16};

/// 16 bytes as they are in memory.
pub(crate) type Raw = [u32; 4];

/// An element type of which `V` are loaded at once.
pub(crate) trait Load<const V: usize>: Copy {
    /// The number type of the arithmetic.
    type Number: Copy;

    /// Bytes of an element; `code` tells the dtype of [`Wide`] ones.
    #[inline(always)]
    fn bytes(_code: u64) -> i64 {
        size_of::<Self>() as i64
    }

    /// Loads `V` neighbours.
    ///
    /// # Safety
    /// They are readable at `at`, aligned to their size.
    #[inline(always)]
    unsafe fn vector(at: *const u8, _code: u64) -> Raw {
        // SAFETY: passed on to the caller.
        unsafe { mem::ld_global_nc_v4_u32(at.cast()) }
    }

    /// Loads `V` elements `step` bytes apart; those from `valid` on repeat the last valid one.
    ///
    /// # Safety
    /// The valid ones are readable.
    unsafe fn gather(at: *const u8, step: i64, valid: u32, code: u64) -> Raw;

    /// Loads one element.
    ///
    /// # Safety
    /// It is readable.
    unsafe fn one(at: *const u8, code: u64) -> Self::Number;

    /// Element `v` of a vector, as a number.
    fn number(raw: Raw, v: usize) -> Self::Number;
}

/// Loads vectors `step` bytes apart. All loads are issued before the first vector is used.
///
/// # Safety
/// They are readable, and aligned.
#[inline(always)]
pub(super) unsafe fn together<T: Load<V>, const V: usize, const U: usize>(
    at: *const u8,
    step: i64,
    code: u64,
) -> [Raw; U] {
    let mut at = at;
    let mut x = [[0; 4]; U];
    for x in &mut x {
        // SAFETY: passed on to the caller.
        *x = unsafe { T::vector(at, code) };
        at = at.wrapping_offset(step as isize);
    }
    x
}

/// The same for vectors that nobody else reads soon, while nothing is written: they bypass L1.
/// While results are written, that is a loss and no gain (docs/decisions/0051).
///
/// # Safety
/// They are readable, and aligned.
#[inline(always)]
pub(super) unsafe fn together_once<const U: usize>(at: *const u8, step: i64) -> [Raw; U] {
    let mut at = at;
    let mut x = [[0; 4]; U];
    for x in &mut x {
        // SAFETY: passed on to the caller.
        *x = unsafe { mem::ld_global_nc_no_allocate_v4_u32(at.cast()) };
        at = at.wrapping_offset(step as isize);
    }
    x
}

/// Loads a thread's first vectors of a row, every `threads`th of `vectors`; zeros where there are no
/// more. There is no branch, so what comes next need not wait for them.
///
/// # Safety
/// The row's vectors are readable, and aligned.
#[inline(always)]
pub(super) unsafe fn ahead<const N: usize>(row: *const u8, vectors: u32, threads: u32) -> [Raw; N] {
    let thread = thread::thread_idx_x();
    let mut x = [[0; 4]; N];
    for (u, x) in x.iter_mut().enumerate() {
        let number = thread + u as u32 * threads;
        let at = row.wrapping_add(number as usize * 16).cast();
        // SAFETY: a vector of the row, where there is one.
        *x = unsafe { mem::ld_global_nc_v4_u32_or(at, number < vectors, 0) };
    }
    x
}

/// The address of lane `v`, or of the last valid lane.
#[inline(always)]
fn lane(at: *const u8, step: i64, valid: u32, v: u32) -> *const u8 {
    let v = if v < valid { v } else { valid - 1 };
    at.wrapping_offset((i64::from(v) * step) as isize)
}

macro_rules! words_32 {
    ($($ty:ty => $number:ty, |$word:ident| $widen:expr;)*) => {$(
        impl Load<4> for $ty {
            type Number = $number;

            #[inline(always)]
            unsafe fn gather(at: *const u8, step: i64, valid: u32, _: u64) -> Raw {
                // SAFETY: passed on to the caller.
                [0, 1, 2, 3].map(|v| unsafe { lane(at, step, valid, v).cast::<u32>().read() })
            }
            #[inline(always)]
            unsafe fn one(at: *const u8, _: u64) -> $number {
                // SAFETY: passed on to the caller.
                let $word = unsafe { at.cast::<u32>().read() };
                $widen
            }
            #[inline(always)]
            fn number(raw: Raw, v: usize) -> $number {
                let $word = raw[v];
                $widen
            }
        }
    )*};
}

words_32! {
    f32 => f32, |word| f32::from_bits(word);
    i32 => i64, |word| i64::from(word as i32);
    u32 => u32, |word| word;
}

/// bf16 in kernels that f16 does not have: LLVM sees what the conversion is.
#[derive(Clone, Copy)]
#[expect(dead_code, reason = "it says the size of an element")]
pub(crate) struct Alone(u16);

macro_rules! words_16 {
    ($($ty:ty => $number:ty, |$word:ident| $widened:expr;)*) => {$(
        impl Load<8> for $ty {
            type Number = $number;

            #[inline(always)]
            unsafe fn gather(at: *const u8, step: i64, valid: u32, _: u64) -> Raw {
                [0, 2, 4, 6].map(|v| {
                    // SAFETY: passed on to the caller.
                    let low = unsafe { lane(at, step, valid, v).cast::<u16>().read() };
                    // SAFETY: as above.
                    let high = unsafe { lane(at, step, valid, v + 1).cast::<u16>().read() };
                    u32::from(low) | u32::from(high) << 16
                })
            }
            #[inline(always)]
            unsafe fn one(at: *const u8, _: u64) -> $number {
                // SAFETY: passed on to the caller.
                let $word = u32::from(unsafe { at.cast::<u16>().read() });
                $widened[0]
            }
            #[inline(always)]
            fn number(raw: Raw, v: usize) -> $number {
                let $word = raw[v / 2];
                $widened[v % 2]
            }
        }
    )*};
}

words_16! {
    f16 => f32, |word| [f16::low_to_f32(word), f16::high_to_f32(word)];
    bf16 => f32, |word| [bf16::low_to_f32(word), bf16::high_to_f32(word)];
    Alone => f32, |word| [word << 16, word & 0xffff_0000].map(f32::from_bits);
    u16 => u32, |word| [word & 0xffff, word >> 16];
}

impl Load<16> for u8 {
    type Number = u32;

    #[inline(always)]
    unsafe fn gather(at: *const u8, step: i64, valid: u32, _: u64) -> Raw {
        [0, 4, 8, 12].map(|first| {
            let bytes = [0, 1, 2, 3].map(|v| {
                // SAFETY: passed on to the caller.
                unsafe { lane(at, step, valid, first + v).read() }
            });
            u32::from_le_bytes(bytes)
        })
    }
    #[inline(always)]
    unsafe fn one(at: *const u8, _: u64) -> u32 {
        // SAFETY: passed on to the caller.
        u32::from(unsafe { at.read() })
    }
    #[inline(always)]
    fn number(raw: Raw, v: usize) -> u32 {
        raw[v / 4] >> (8 * (v % 4)) & 0xff
    }
}

/// Two words as 64 bits.
#[inline(always)]
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// 64-bit values as words.
#[inline(always)]
fn words([a, b]: [u64; 2]) -> Raw {
    [a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32]
}

macro_rules! words_64 {
    ($($ty:ty => $number:ty, |$bits:ident| $widen:expr;)*) => {$(
        impl Load<2> for $ty {
            type Number = $number;

            #[inline(always)]
            unsafe fn gather(at: *const u8, step: i64, valid: u32, _: u64) -> Raw {
                // SAFETY: passed on to the caller.
                words([0, 1].map(|v| unsafe { lane(at, step, valid, v).cast::<u64>().read() }))
            }
            #[inline(always)]
            unsafe fn one(at: *const u8, _: u64) -> $number {
                // SAFETY: passed on to the caller.
                let $bits = unsafe { at.cast::<u64>().read() };
                $widen
            }
            #[inline(always)]
            fn number(raw: Raw, v: usize) -> $number {
                let $bits = pair(raw[2 * v], raw[2 * v + 1]);
                $widen
            }
        }
    )*};
}

words_64! {
    f64 => f64, |bits| f64::from_bits(bits);
    i64 => i64, |bits| bits as i64;
    u64 => u64, |bits| bits;
}

/// An element of any dtype ([`abi::reduce::wide_code`]) as f64.
#[derive(Clone, Copy)]
pub(crate) struct Wide;

impl Load<2> for Wide {
    type Number = f64;

    #[inline(always)]
    fn bytes(code: u64) -> i64 {
        match code {
            1 | 2 => 2,
            4 | 5 => 8,
            _ => 4,
        }
    }
    #[inline(always)]
    unsafe fn vector(at: *const u8, code: u64) -> Raw {
        // SAFETY: passed on to the caller.
        unsafe { Self::gather(at, Self::bytes(code), 2, code) }
    }
    #[inline(always)]
    unsafe fn gather(at: *const u8, step: i64, valid: u32, code: u64) -> Raw {
        let mut bits = [0; 2];
        let mut v = 0;
        while v < 2 {
            // SAFETY: passed on to the caller.
            let x = unsafe { Self::one(lane(at, step, valid, v), code) };
            bits = [bits[1], x.to_bits()];
            v += 1;
        }
        words(bits)
    }
    #[inline(always)]
    unsafe fn one(at: *const u8, code: u64) -> f64 {
        // SAFETY: passed on to the caller, whose `code` is the element's.
        unsafe {
            match code {
                1 => f64::from(convert::f16_to_f32(at.cast::<u16>().read())),
                2 => f64::from(convert::bf16_to_f32(at.cast::<u16>().read())),
                3 => f64::from(at.cast::<i32>().read()),
                4 => at.cast::<i64>().read() as f64,
                5 => at.cast::<f64>().read(),
                _ => f64::from(at.cast::<f32>().read()),
            }
        }
    }
    #[inline(always)]
    fn number(raw: Raw, v: usize) -> f64 {
        f64::from_bits(pair(raw[2 * v], raw[2 * v + 1]))
    }
}
