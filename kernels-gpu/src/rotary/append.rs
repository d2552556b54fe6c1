//! Appends keys and values to a paged cache, with keys turned: see `abi::kv_append`.
//!
//! **Roles**: a thread has a slot of a token's head: a pair of the key, or an element that is copied.
//! Neighbouring threads have neighbouring slots, so reads and writes are of whole lines where heads
//! lie without gaps.
//!
//! **Numerics**: those of the rotary embedding, bit for bit. Copied elements keep their bits. Elements of
//! pools in e4m3 are divided by the factor in f32, and rounded once.

use abi::kv_append::{KvAppendParams, KvAppendScales, THREADS};
use cuda_std::convert::f32_to_e4m3_satfinite;
use cuda_std::element::Element;
use cuda_std::{kernel, thread};
use half::{bf16, f16};

use super::coord::turned;

/// The arrays of a launch.
struct Arrays<'a> {
    k: *const u8,
    v: *const u8,
    cos: *const u8,
    sin: *const u8,
    positions: *const i32,
    rows: *const i32,
    pool_k: *mut u8,
    pool_v: *mut u8,
    params: &'a KvAppendParams,
}

/// What the elements of a pool are, and how those of type `T` become them.
trait Pool<T: Element> {
    type Element: Copy;

    /// The element for one that is copied, whose head has this factor.
    ///
    /// # Safety
    /// There is an element.
    unsafe fn copied(from: *const T, scale: f32) -> Self::Element;

    /// Stores the element of a number.
    ///
    /// # Safety
    /// There is a place.
    unsafe fn store(to: *mut Self::Element, x: f32, scale: f32);
}

/// They are the same.
struct Same;

impl<T: Element> Pool<T> for Same {
    type Element = T;

    #[inline(always)]
    unsafe fn copied(from: *const T, _: f32) -> T {
        // SAFETY: passed on to the caller.
        unsafe { from.read() }
    }

    #[inline(always)]
    unsafe fn store(to: *mut T, x: f32, _: f32) {
        // SAFETY: passed on to the caller.
        unsafe { T::store(to, x) }
    }
}

/// They are e4m3.
struct Narrow;

impl<T: Element> Pool<T> for Narrow {
    type Element = u8;

    #[inline(always)]
    unsafe fn copied(from: *const T, scale: f32) -> u8 {
        // SAFETY: passed on to the caller.
        f32_to_e4m3_satfinite(unsafe { T::load(from) } / scale)
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, x: f32, scale: f32) {
        // SAFETY: passed on to the caller.
        unsafe { to.write(f32_to_e4m3_satfinite(x / scale)) }
    }
}

/// `scales` has the factors of keys and of values, or null.
///
/// # Safety
/// The arrays are those of the launch.
#[inline(always)]
unsafe fn append<T: Element, C: Element, P: Pool<T>>(
    arrays: &Arrays<'_>,
    scales: [(*const f32, u32); 2],
) {
    let params = arrays.params;
    let index = thread::block_idx_x() * THREADS + thread::thread_idx_x();
    let (rest, slot) = params.slots.div_rem(index);
    let (token, head) = params.heads.div_rem(rest);
    if token >= params.tokens {
        return;
    }
    // SAFETY: the token's elements.
    let (row, position) = unsafe {
        (
            arrays.rows.wrapping_add(token as usize).read(),
            arrays.positions.wrapping_add(token as usize).read(),
        )
    };
    // A negative one is larger than any number of rows.
    if i64::from(row) as u64 >= params.pool_rows {
        return;
    }
    let of_key = params.head_dim - params.half;
    let of_pool = i64::from(row) * i64::from(params.heads.divisor) + i64::from(head);
    let at = |strides: &[i64; 3], element: u32| {
        let [of_token, of_head, of_element] = *strides;
        i64::from(token) * of_token + i64::from(head) * of_head + i64::from(element) * of_element
    };
    let from_k = |element: u32| {
        let offset = at(&params.k_strides, element);
        arrays.k.cast::<T>().wrapping_offset(offset as isize)
    };
    let to_k = |element: u32| {
        let offset = of_pool * i64::from(params.head_dim) + i64::from(element);
        arrays
            .pool_k
            .cast::<P::Element>()
            .wrapping_offset(offset as isize)
    };
    let [of_k, of_v] = scales;
    let (scales, stride) = if slot >= of_key { of_v } else { of_k };
    let scale = match scales.is_null() {
        true => 1.0,
        // SAFETY: the caller's promise: the head's.
        false => unsafe { scales.wrapping_add((head * stride) as usize).read() },
    };
    if slot >= of_key {
        let (element, head_dim_v) = (slot - of_key, params.slots.divisor - of_key);
        let offset = at(&params.v_strides, element);
        let from = arrays.v.cast::<T>().wrapping_offset(offset as isize);
        let offset = of_pool * i64::from(head_dim_v) + i64::from(element);
        let to = arrays
            .pool_v
            .cast::<P::Element>()
            .wrapping_offset(offset as isize);
        // SAFETY: an element of the value, and its place, which this thread alone has.
        unsafe { to.write(P::copied(from, scale)) };
        return;
    }
    let half = params.half;
    if slot >= half {
        let element = slot + half;
        // SAFETY: an element of the key behind the pairs, and its place, which this thread alone has.
        unsafe { to_k(element).write(P::copied(from_k(element), scale)) };
        return;
    }
    let [first, second] = match params.is_interleaved != 0 {
        true => [2 * slot, 2 * slot + 1],
        false => [slot, slot + half],
    };
    let (mut cos, mut sin) = (f32::NAN, f32::NAN);
    if (i64::from(position) as u64) < params.table_rows {
        let of = |start: *const u8, [of_row, of_column]: [i64; 2]| {
            let offset = i64::from(position) * of_row + i64::from(slot) * of_column;
            start.cast::<C>().wrapping_offset(offset as isize)
        };
        // SAFETY: there is such a row, of `half` columns.
        unsafe {
            cos = C::load(of(arrays.cos, params.cos_strides));
            sin = C::load(of(arrays.sin, params.sin_strides));
        }
    }
    // SAFETY: elements of the key, and their places, which this thread alone has.
    unsafe {
        let (a, b) = (T::load(from_k(first)), T::load(from_k(second)));
        let (a, b) = turned(a, b, cos, sin);
        P::store(to_k(first), a, scale);
        P::store(to_k(second), b, scale);
    }
}

macro_rules! kernel {
    ($name:ident, $ty:ty, $table:ty, $pool:ty $(, $scales:ident)?) => {
        #[doc = concat!("Appends keys and values of ", stringify!($ty), " by tables of ", stringify!($table), ".")]
        ///
        /// # Safety
        /// Launched as `abi::kv_append` says, with arrays of these extents and strides.
        #[kernel(max_threads = THREADS)]
        pub unsafe fn $name(
            k: *const u8,
            v: *const u8,
            cos: *const u8,
            sin: *const u8,
            positions: *const i32,
            rows: *const i32,
            pool_k: *mut u8,
            pool_v: *mut u8,
            params: KvAppendParams,
            $($scales: KvAppendScales,)?
        ) {
            let arrays = Arrays {
                k,
                v,
                cos,
                sin,
                positions,
                rows,
                pool_k,
                pool_v,
                params: &params,
            };
            let scales = scales!($($scales)?);
            // SAFETY: the launch's promise.
            unsafe { append::<$ty, $table, $pool>(&arrays, scales) }
        }
    };
}

/// The factors of keys and of values, with their strides.
macro_rules! scales {
    () => {
        [(core::ptr::null(), 0); 2]
    };
    ($scales:ident) => {
        [
            ($scales.k, $scales.strides[0]),
            ($scales.v, $scales.strides[1]),
        ]
    };
}

macro_rules! same {
    ($($name:ident($ty:ty, $table:ty);)*) => {$(
        kernel!($name, $ty, $table, Same);
    )*};
}

macro_rules! narrow {
    ($($name:ident($ty:ty, $table:ty);)*) => {$(
        kernel!($name, $ty, $table, Narrow, scales);
    )*};
}

abi::kv_append!(same);
abi::kv_append_e4m3!(narrow);
