//! Appends keys and values to a paged cache, with keys turned: see `abi::kv_append`.
//!
//! **Roles**: a thread has a slot of a token's head: a pair of the key, or an element that is copied.
//! Neighbouring threads have neighbouring slots, so reads and writes are of whole lines where heads
//! lie without gaps.
//!
//! **Numerics**: those of the rotary embedding, bit for bit. Copied elements keep their bits.

use abi::kv_append::{KvAppendParams, THREADS};
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

/// # Safety
/// The arrays are those of the launch.
#[inline(always)]
unsafe fn append<T: Element, C: Element>(arrays: &Arrays<'_>) {
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
        arrays.pool_k.cast::<T>().wrapping_offset(offset as isize)
    };
    if slot >= of_key {
        let (element, head_dim_v) = (slot - of_key, params.slots.divisor - of_key);
        let offset = at(&params.v_strides, element);
        let from = arrays.v.cast::<T>().wrapping_offset(offset as isize);
        let offset = of_pool * i64::from(head_dim_v) + i64::from(element);
        let to = arrays.pool_v.cast::<T>().wrapping_offset(offset as isize);
        // SAFETY: an element of the value, and its place, which this thread alone has.
        unsafe { to.write(from.read()) };
        return;
    }
    let half = params.half;
    if slot >= half {
        let element = slot + half;
        // SAFETY: an element of the key behind the pairs, and its place, which this thread alone has.
        unsafe { to_k(element).write(from_k(element).read()) };
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
        T::store(to_k(first), a);
        T::store(to_k(second), b);
    }
}

macro_rules! kernels {
    ($($name:ident($ty:ty, $table:ty);)*) => {$(
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
            // SAFETY: the launch's promise.
            unsafe { append::<$ty, $table>(&arrays) }
        }
    )*};
}

abi::kv_append!(kernels);
