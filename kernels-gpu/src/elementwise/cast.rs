//! Casts that need more than f32 between load and store: those with integers of 16 bits and more, or
//! f64, on either side.
//!
//! **Numerics**: to a float rounded once to nearest, ties to even; to an integer towards zero, beyond
//! its range to the range's end, NaN to 0. The value between is an f64, or an i64 and whether it is.

use cuda_std::param::ByValue;
use cuda_std::{convert, kernel, thread, walk};
use spec::DType;
use spec::elementwise::{CastParams, GROUP, THREADS, code};

/// A value of any dtype but u64.
#[derive(Clone, Copy)]
enum Value {
    Integer(i64),
    Float(f64),
}

/// x as the nearest f32 of which no more bits are lost than a narrower float loses: where x lies
/// between two f32, the one whose last bit is 1. What rounds this rounds x once.
#[inline(always)]
fn to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    let back = f64::from(nearest);
    let bits = nearest.to_bits();
    if back == x || x.is_nan() || bits & 1 == 1 {
        return nearest;
    }
    // The other neighbour of x is odd, as `nearest` is even.
    f32::from_bits(if back.abs() > x.abs() {
        bits - 1
    } else {
        bits + 1
    })
}

/// As [`to_odd`], of an integer.
#[inline(always)]
fn integer_to_odd(x: i64) -> f32 {
    let magnitude = x.unsigned_abs();
    let bits = 64 - magnitude.leading_zeros();
    if bits <= 24 {
        return x as f32;
    }
    let dropped = bits - 24;
    let kept = magnitude >> dropped;
    let is_exact = kept << dropped == magnitude;
    let odd = (kept | u64::from(!is_exact)) << dropped;
    // 24 bits: exact.
    let value = odd as f32;
    if x < 0 { -value } else { value }
}

impl Value {
    /// # Safety
    /// An element of the dtype of that number is readable.
    #[inline(always)]
    unsafe fn load(from: *const u8, dtype: u32) -> Self {
        macro_rules! integer {
            ($ty:ty) => {
                Self::Integer(i64::from(from.cast::<$ty>().read()))
            };
        }
        const U8: u32 = code::dtype(DType::U8);
        const I8: u32 = code::dtype(DType::I8);
        const U16: u32 = code::dtype(DType::U16);
        const I16: u32 = code::dtype(DType::I16);
        const U32: u32 = code::dtype(DType::U32);
        const I32: u32 = code::dtype(DType::I32);
        const I64: u32 = code::dtype(DType::I64);
        const F16: u32 = code::dtype(DType::F16);
        const BF16: u32 = code::dtype(DType::Bf16);
        const E4M3: u32 = code::dtype(DType::E4m3);
        const E5M2: u32 = code::dtype(DType::E5m2);
        const F32: u32 = code::dtype(DType::F32);
        // SAFETY: passed on to the caller.
        unsafe {
            let float = match dtype {
                U8 => return integer!(u8),
                I8 => return integer!(i8),
                U16 => return integer!(u16),
                I16 => return integer!(i16),
                U32 => return integer!(u32),
                I32 => return integer!(i32),
                I64 => return integer!(i64),
                F32 => from.cast::<f32>().read(),
                F16 => convert::f16_to_f32(from.cast::<u16>().read()),
                BF16 => convert::bf16_to_f32(from.cast::<u16>().read()),
                E4M3 => convert::e4m3_to_f32(from.read()),
                E5M2 => convert::e5m2_to_f32(from.read()),
                _ => return Self::Float(from.cast::<f64>().read()),
            };
            Self::Float(f64::from(float))
        }
    }

    /// # Safety
    /// An element of the dtype of that number is writable.
    #[inline(always)]
    unsafe fn store(self, to: *mut u8, dtype: u32) {
        macro_rules! integer {
            ($ty:ty) => {{
                let (least, most) = (i64::from(<$ty>::MIN), i64::from(<$ty>::MAX));
                let x = self.truncated();
                let x = if x < least { least } else { x };
                let x = if x > most { most } else { x };
                to.cast::<$ty>().write(x as $ty)
            }};
        }
        // SAFETY: passed on to the caller.
        unsafe {
            match dtype {
                5 => integer!(u8),
                6 => integer!(i8),
                7 => integer!(u16),
                8 => integer!(i16),
                9 => integer!(u32),
                10 => integer!(i32),
                12 => to.cast::<i64>().write(self.truncated()),
                13 => to.cast::<f64>().write(match self {
                    Self::Integer(x) => x as f64,
                    Self::Float(x) => x,
                }),
                0 => to.cast::<f32>().write(match self {
                    Self::Integer(x) => x as f32,
                    Self::Float(x) => x as f32,
                }),
                _ => {
                    let x = self.odd();
                    match dtype {
                        1 => to.cast::<u16>().write(convert::f32_to_f16(x)),
                        2 => to.cast::<u16>().write(convert::f32_to_bf16(x)),
                        3 => to.write(convert::f32_to_e4m3_satfinite(x)),
                        _ => to.write(convert::f32_to_e5m2_satfinite(x)),
                    }
                }
            }
        }
    }

    /// Towards zero, saturated to i64; NaN is 0.
    #[inline(always)]
    fn truncated(self) -> i64 {
        match self {
            Self::Integer(x) => x,
            Self::Float(x) => x as i64,
        }
    }

    /// What a narrower float is rounded from.
    #[inline(always)]
    fn odd(self) -> f32 {
        match self {
            Self::Integer(x) => integer_to_odd(x),
            Self::Float(x) => to_odd(x),
        }
    }
}

/// Bytes of an element of the dtype of that number.
#[inline(always)]
fn size_of_code(dtype: u32) -> isize {
    // The logarithm, two bits a dtype: a match would become a table in memory.
    const LOGARITHMS: u32 = 0b11_11_11_10_10_01_01_00_00_00_00_01_01_10;
    1 << ((LOGARITHMS >> (2 * dtype)) & 3)
}

/// `y = x` in another dtype.
///
/// # Safety
/// Launched as `spec::elementwise` says, with tensors of these extents, strides and dtypes.
#[kernel(max_threads = THREADS)]
pub unsafe fn cast(x: *const u8, y: *mut u8, params: ByValue<CastParams, 440>) {
    let walk = &params.walk;
    let first = thread::block_idx_x() * (THREADS * GROUP) + thread::thread_idx_x();
    for j in 0..cuda_std::hint::opaque(GROUP) {
        let index = first + j * THREADS;
        if index < walk.len {
            let from = walk::offset(walk, 1, index) * size_of_code(params.from);
            let to = walk::offset(walk, 0, index) * size_of_code(params.to);
            // SAFETY: an element of x and one of y.
            unsafe {
                let value = Value::load(x.wrapping_offset(from), params.from);
                value.store(y.wrapping_offset(to), params.to);
            }
        }
    }
}
