//! Matrix products of warps, and how their operands are loaded.

use cuda_std::shared::SharedAddr;
use cuda_std::{kernel, ldmatrix, mma};

/// One product after the other, accumulators of `$acc` and factors of `$x` in each register.
macro_rules! products {
    ($acc:ident, $x:ident, $out:ident: $($name:ident $d:literal $a:literal $b:literal;)*) => {$(
        let mut acc = [$acc; $d];
        mma::$name(&mut acc, [$x; $a], [$x; $b]);
        super::keep($out, acc);
    )*};
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_75")]
pub unsafe fn every_turing_product(x: u32, f: f32, i: i32, out: *mut f64) {
    // SAFETY: not for running.
    unsafe {
        products! { f, x, out:
            mma_m16n8k8_f32_f16_f16_f32 4 2 1;
        }
        products! { i, x, out:
            mma_m8n8k16_s32_s8_s8_s32 2 1 1;
            mma_m8n8k16_s32_s8_u8_s32 2 1 1;
            mma_m8n8k16_s32_u8_s8_s32 2 1 1;
            mma_m8n8k16_s32_u8_u8_s32 2 1 1;
        }
        products! { x, x, out:
            mma_m16n8k8_f16_f16_f16_f16 2 2 1;
        }
    }
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_80")]
pub unsafe fn every_ampere_product(x: u32, f: f32, i: i32, d: f64, out: *mut f64) {
    // SAFETY: not for running.
    unsafe {
        products! { f, x, out:
            mma_m16n8k16_f32_f16_f16_f32 4 4 2;
            mma_m16n8k8_f32_bf16_bf16_f32 4 2 1;
            mma_m16n8k16_f32_bf16_bf16_f32 4 4 2;
            mma_m16n8k4_f32_tf32_tf32_f32 4 2 1;
            mma_m16n8k8_f32_tf32_tf32_f32 4 4 2;
        }
        products! { i, x, out:
            mma_m16n8k16_s32_s8_s8_s32 4 2 1;
            mma_m16n8k16_s32_s8_u8_s32 4 2 1;
            mma_m16n8k16_s32_u8_s8_s32 4 2 1;
            mma_m16n8k16_s32_u8_u8_s32 4 2 1;
            mma_m16n8k32_s32_s8_s8_s32 4 4 2;
            mma_m16n8k32_s32_s8_u8_s32 4 4 2;
            mma_m16n8k32_s32_u8_s8_s32 4 4 2;
            mma_m16n8k32_s32_u8_u8_s32 4 4 2;
        }
        products! { x, x, out:
            mma_m16n8k16_f16_f16_f16_f16 2 4 2;
        }
        products! { d, d, out:
            mma_m8n8k4_f64_f64_f64_f64 2 1 1;
        }
    }
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_89")]
pub unsafe fn every_ada_product(x: u32, f: f32, out: *mut f64) {
    // SAFETY: not for running.
    unsafe {
        products! { f, x, out:
            mma_m16n8k32_f32_e4m3_e4m3_f32 4 4 2;
            mma_m16n8k32_f32_e4m3_e5m2_f32 4 4 2;
            mma_m16n8k32_f32_e5m2_e4m3_f32 4 4 2;
            mma_m16n8k32_f32_e5m2_e5m2_f32 4 4 2;
        }
    }
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a")]
pub unsafe fn every_hopper_product(d: f64, out: *mut f64) {
    // SAFETY: not for running.
    unsafe {
        products! { d, d, out:
            mma_m16n8k4_f64_f64_f64_f64 4 2 1;
            mma_m16n8k8_f64_f64_f64_f64 4 4 2;
            mma_m16n8k16_f64_f64_f64_f64 4 8 4;
        }
    }
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_75")]
pub unsafe fn every_ldmatrix(address: u32, out: *mut u32) {
    let row = SharedAddr::from_bits(address);
    // SAFETY: not for running.
    unsafe {
        super::keep(out, ldmatrix::ldmatrix_x1(row));
        super::keep(out, ldmatrix::ldmatrix_x2(row));
        super::keep(out, ldmatrix::ldmatrix_x4(row));
        super::keep(out, ldmatrix::ldmatrix_x1_trans(row));
        super::keep(out, ldmatrix::ldmatrix_x2_trans(row));
        super::keep(out, ldmatrix::ldmatrix_x4_trans(row));
    }
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a")]
pub unsafe fn every_stmatrix(address: u32, x: u32) {
    let row = SharedAddr::from_bits(address);
    // SAFETY: not for running.
    unsafe {
        ldmatrix::stmatrix_x1(row, [x]);
        ldmatrix::stmatrix_x2(row, [x; 2]);
        ldmatrix::stmatrix_x4(row, [x; 4]);
        ldmatrix::stmatrix_x1_trans(row, [x]);
        ldmatrix::stmatrix_x2_trans(row, [x; 2]);
        ldmatrix::stmatrix_x4_trans(row, [x; 4]);
    }
}
