//! Element types of D: how a thread's results are rounded, and how a warp writes them to a box.
//!
//! Results go group by group: the warp's 16 rows of a few neighbouring columns, of which each
//! thread has a fragment. A group is as wide as it must be for its writes to have no bank
//! conflicts.

use abi::swizzle::Swizzle;
use abi::tensor_core::ldmatrix::tile_16x16;
use cuda_std::convert::{f32x2_to_bf16x2_cvt, f32x2_to_f16x2_cvt};
use cuda_std::element::Element;
use cuda_std::epilogue::{Coord, Epilogue};
use cuda_std::ldmatrix::stmatrix_x4;
use cuda_std::mem::{ld_v4_u32, st_shared_v2_f32, st_shared_v2_u32, st_v4_u32};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::wgmma::Registers;
use half::{bf16, f16};

/// A thread's results of a group or a box, in the order of `wgmma`'s accumulators
/// (`abi::tensor_core::fragment::wgmma_acc`): half as many as that has columns.
pub trait Fragment: Registers + AsRef<[f32]> + AsMut<[f32]> {
    /// Columns of the group, or the box.
    const COLUMNS: u32;

    /// As [`Epilogue::apply_pairs`].
    fn apply(
        epilogue: &impl Epilogue,
        coord: impl Fn(usize) -> Coord,
        x: impl FnOnce() -> Self,
    ) -> Self;
}

macro_rules! fragment {
    ($results:literal) => {
        impl Fragment for [f32; $results] {
            const COLUMNS: u32 = 2 * $results;

            #[inline(always)]
            fn apply(
                epilogue: &impl Epilogue,
                coord: impl Fn(usize) -> Coord,
                x: impl FnOnce() -> Self,
            ) -> Self {
                epilogue.apply_pairs::<$results, { $results / 2 }>(coord, x)
            }
        }
    };
}

fragment!(8);
fragment!(16);
fragment!(32);

/// An element type of D.
pub trait StoreElement: Element {
    /// A thread's results of a group.
    type Fragment: Fragment;
    /// A thread's results of a box as wide as the widest swizzle.
    type OfBox: Fragment;
    /// The same, rounded.
    type Rounded: Copy + Default + Registers;

    /// Columns of a group. They are few because the epilogue's addresses take registers.
    const GROUP: u32 = <Self::Fragment as Fragment>::COLUMNS;

    /// Columns of a box of [`OfBox`](Self::OfBox).
    const BOX: u32 = <Self::OfBox as Fragment>::COLUMNS;

    /// Rounds a thread's results.
    fn round(x: &Self::Fragment) -> Self::Rounded;

    /// Writes the warp's results of a group to its box, which has this `swizzle`, beginning at byte
    /// `column_bytes` of each row.
    ///
    /// # Safety
    /// The warp calls it, converged; the box is its own, and its rows are whole groups.
    unsafe fn write(to: SharedAddr, swizzle: Swizzle, column_bytes: u32, x: Self::Rounded);

    /// As [`Element::store`], with the conversion instruction of newer GPUs.
    ///
    /// # Safety
    /// As for [`Element::store`].
    unsafe fn store_cvt(to: *mut Self, x: f32);
}

macro_rules! sixteen_bits {
    ($ty:ty, $pair:path) => {
        impl StoreElement for $ty {
            type Fragment = [f32; 8];
            type OfBox = [f32; 32];
            type Rounded = [u32; 4];

            #[inline(always)]
            fn round(x: &Self::Fragment) -> Self::Rounded {
                let x = |at: usize| $pair(x[at], x[at + 1]);
                [x(0), x(2), x(4), x(6)]
            }

            #[inline(always)]
            unsafe fn write(to: SharedAddr, swizzle: Swizzle, column_bytes: u32, x: Self::Rounded) {
                let lane = tile_16x16(thread::thread_idx_x() % 32);
                let offset = swizzle.offset_bytes(lane.row, column_bytes + 2 * lane.column);
                // SAFETY: inside the box.
                unsafe { stmatrix_x4(to.add_bytes(offset), x) };
            }

            #[inline(always)]
            unsafe fn store_cvt(to: *mut Self, x: f32) {
                // SAFETY: passed on to the caller.
                unsafe { to.cast::<u16>().write($pair(x, 0.0) as u16) }
            }
        }
    };
}

sixteen_bits!(f16, f32x2_to_f16x2_cvt);
sixteen_bits!(bf16, f32x2_to_bf16x2_cvt);

impl StoreElement for f32 {
    type Fragment = [f32; 16];
    type OfBox = [f32; 16];
    type Rounded = [f32; 16];

    #[inline(always)]
    fn round(x: &Self::Fragment) -> Self::Rounded {
        *x
    }

    #[inline(always)]
    unsafe fn write(to: SharedAddr, swizzle: Swizzle, column_bytes: u32, x: Self::Rounded) {
        // SAFETY: passed on to the caller.
        unsafe { write_words(to, swizzle, column_bytes, x, st_shared_v2_f32) }
    }

    #[inline(always)]
    unsafe fn store_cvt(to: *mut Self, x: f32) {
        // SAFETY: passed on to the caller.
        unsafe { to.write(x) }
    }
}

/// An i32 that has been carried as the f32 of the same bits, and is stored as it is. Its own type,
/// because between the registers of f32 ptxas selects as between floats, and nothing says that this
/// keeps the bits of subnormals and NaN.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Word(u32);

impl Element for Word {
    type Pair = [u32; 2];

    #[inline(always)]
    unsafe fn load(ptr: *const Self) -> f32 {
        // SAFETY: passed on to the caller.
        f32::from_bits(unsafe { ptr.read() }.0)
    }
    #[inline(always)]
    fn widen_pair(pair: [u32; 2]) -> [f32; 2] {
        pair.map(f32::from_bits)
    }
    #[inline(always)]
    unsafe fn load4(ptr: *const Self) -> [f32; 4] {
        // SAFETY: passed on to the caller.
        unsafe { ld_v4_u32(ptr.cast()) }.map(f32::from_bits)
    }
    #[inline(always)]
    unsafe fn store(ptr: *mut Self, value: f32) {
        // SAFETY: passed on to the caller.
        unsafe { ptr.write(Self(value.to_bits())) }
    }
    #[inline(always)]
    unsafe fn store4(ptr: *mut Self, values: [f32; 4]) {
        // SAFETY: passed on to the caller.
        unsafe { st_v4_u32(ptr.cast(), values.map(f32::to_bits)) }
    }
}

impl StoreElement for Word {
    type Fragment = [f32; 16];
    type OfBox = [f32; 16];
    type Rounded = [u32; 16];

    #[inline(always)]
    fn round(x: &Self::Fragment) -> Self::Rounded {
        x.map(f32::to_bits)
    }

    #[inline(always)]
    unsafe fn write(to: SharedAddr, swizzle: Swizzle, column_bytes: u32, x: Self::Rounded) {
        // SAFETY: passed on to the caller.
        unsafe { write_words(to, swizzle, column_bytes, x, st_shared_v2_u32) }
    }

    #[inline(always)]
    unsafe fn store_cvt(to: *mut Self, x: f32) {
        // SAFETY: passed on to the caller.
        unsafe { Self::store(to, x) }
    }
}

/// Writes elements of four bytes. A group is a whole row of the box, four times 8 columns. A
/// half-warp's 8-byte stores are 8 columns of 4 rows, 32 bytes each. Swizzled, the same columns of
/// rows 2 `i` and 2 `i` + 1 are in the same banks. So odd rows store the third 8 columns when even
/// rows store the first, the fourth when those store the second, and so on. Then a half-warp's
/// stores fill all banks.
///
/// # Safety
/// As for [`StoreElement::write`]; `store` writes 8 bytes.
#[inline(always)]
unsafe fn write_words<T: Copy>(
    to: SharedAddr,
    swizzle: Swizzle,
    column_bytes: u32,
    x: [T; 16],
    store: unsafe fn(SharedAddr, [T; 2]),
) {
    const HALF_ROW_BYTES: u32 = 64;
    const { assert!(<f32 as StoreElement>::GROUP * 4 == Swizzle::B128.span_bytes()) };
    let lane = thread::thread_idx_x() % 32;
    let (row, is_odd) = (lane / 4, lane / 4 % 2);
    let first = swizzle.offset_bytes(row, column_bytes + lane % 4 * 8);
    let first = to.add_bytes(first).bits() ^ (is_odd * HALF_ROW_BYTES);
    let mut at = 0;
    while at < x.len() {
        // Register indices are constants: both values are read, and one is selected.
        let pair = [at, at + 1].map(|i| if is_odd == 0 { x[i] } else { x[i ^ 8] });
        let (columns, rows) = (at as u32 / 4, at as u32 / 2 % 2);
        let address = (first ^ (columns * 32)) + rows * 8 * swizzle.span_bytes();
        // SAFETY: inside the box. It is aligned to 8 of its rows, so that these bits of an address
        // are a column's, and the swizzle is the same 8 rows below.
        unsafe { store(SharedAddr::from_bits(address), pair) };
        at += 2;
    }
}
