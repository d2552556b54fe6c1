//! Rounding, bytes, atomics of small floats, the clock.

use cuda_std::atomic::{self, Order, Scope};
use cuda_std::bits::prmt;
use cuda_std::math::directed::Directed;
use cuda_std::{grid, kernel, thread};

macro_rules! every_rounding {
    ($name:ident, $ty:ty: $($one:ident)*; $($two:ident)*; $($three:ident)*) => {
        /// # Safety
        /// Not for running.
        #[kernel]
        pub unsafe fn $name(a: $ty, b: $ty, c: $ty, out: *mut u32) {
            // SAFETY: not for running.
            unsafe {
                let out = out.cast::<$ty>();
                $(out.write_volatile(a.$one());)*
                $(out.write_volatile(a.$two(b));)*
                $(out.write_volatile(a.$three(b, c));)*
            }
        }
    };
    ($name:ident, $ty:ty) => {
        every_rounding! {
            $name, $ty: sqrt_rz sqrt_rm sqrt_rp rcp_rz rcp_rm rcp_rp;
            add_rz add_rm add_rp sub_rz sub_rm sub_rp mul_rz mul_rm mul_rp div_rz div_rm div_rp;
            fma_rz fma_rm fma_rp
        }
    };
}

every_rounding!(every_rounding_of_f32, f32);
every_rounding!(every_rounding_of_f64, f64);

/// # Safety
/// Not for running.
#[kernel]
pub unsafe fn every_number_instruction(low: u32, high: u32, selector: u32, out: *mut u32) {
    // SAFETY: not for running.
    unsafe {
        out.write_volatile(prmt(low, high, selector));
        super::keep(out, thread::clock64());
        super::keep(out, thread::dynamic_smem_size());
        super::keep(out, thread::total_smem_size());
        thread::pmevent::<3>();
        thread::brkpt();
        let value = half::f16::from_bits(low as u16);
        let at = out.cast::<half::f16>();
        super::keep(out, atomic::atom_add(at, value, Order::Relaxed, Scope::Gpu));
        let (old, new) = (low as u16, high as u16);
        let word = out.cast::<u16>();
        super::keep(
            out,
            atomic::atom_cas(word, old, new, Order::AcqRel, Scope::Cta),
        );
    }
}

/// # Safety
/// Not for running.
#[kernel]
pub unsafe fn grid_barrier() {
    grid::sync();
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a")]
pub unsafe fn atomic_add_of_bf16(bits: u32, out: *mut u32) {
    let value = half::bf16::from_bits(bits as u16);
    // SAFETY: not for running.
    unsafe {
        let at = out.cast::<half::bf16>();
        super::keep(out, atomic::atom_add(at, value, Order::Relaxed, Scope::Gpu));
    }
}
