//! Element types of D: how a thread's results are rounded, and how a warp writes them to a box.
//!
//! Results go group by group: the warp's 16 rows of a few neighbouring columns, of which each thread
//! has a fragment.

use cuda_std::convert::{f32x2_to_bf16x2_cvt, f32x2_to_f16x2_cvt};
use cuda_std::element::Element;
use cuda_std::epilogue::{Epilogue, Place};
use cuda_std::ldmatrix::stmatrix_x4;
use cuda_std::mem::st_shared_v2_f32;
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::wgmma::Registers;
use half::{bf16, f16};
use spec::swizzle::Swizzle;
use spec::tensor_core::ldmatrix::tile_16x16;

/// A thread's results of a group, in the order of `wgmma`'s accumulators
/// (`spec::tensor_core::fragment::wgmma_acc`): half as many as the group has columns.
pub trait Fragment: Registers + AsRef<[f32]> + AsMut<[f32]> {
    /// Columns of the group.
    const COLUMNS: u32;

    /// As [`Epilogue::apply_pairs`].
    fn apply(
        epilogue: &impl Epilogue,
        place: impl Fn(usize) -> Place,
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
                place: impl Fn(usize) -> Place,
                x: impl FnOnce() -> Self,
            ) -> Self {
                epilogue.apply_pairs::<$results, { $results / 2 }>(place, x)
            }
        }
    };
}

fragment!(8);

/// An element type of D.
pub trait StoreElement: Element {
    /// A thread's results of a group.
    type Fragment: Fragment;
    /// The same, rounded.
    type Rounded: Copy + Default + Registers;

    /// Columns of a group. They are few because the epilogue's addresses take registers.
    const GROUP: u32 = <Self::Fragment as Fragment>::COLUMNS;

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
    type Fragment = [f32; 8];
    type Rounded = [f32; 8];

    #[inline(always)]
    fn round(x: &Self::Fragment) -> Self::Rounded {
        *x
    }

    #[inline(always)]
    unsafe fn write(to: SharedAddr, swizzle: Swizzle, column_bytes: u32, x: Self::Rounded) {
        let lane = thread::thread_idx_x() % 32;
        let mut at = 0;
        while at < x.len() as u32 {
            let row = lane / 4 + at / 2 % 2 * 8;
            let column_bytes = column_bytes + at / 4 * 32 + lane % 4 * 8;
            let offset = swizzle.offset_bytes(row, column_bytes);
            let pair = [x[at as usize], x[at as usize + 1]];
            // SAFETY: inside the box.
            unsafe { st_shared_v2_f32(to.add_bytes(offset), pair) };
            at += 2;
        }
    }

    #[inline(always)]
    unsafe fn store_cvt(to: *mut Self, x: f32) {
        // SAFETY: passed on to the caller.
        unsafe { to.write(x) }
    }
}
