//! Warp-level matrix multiply-accumulate on tensor cores (`mma.sync`): `acc += a * b`.
//!
//! Functions are named by what follows `mma.sync.aligned.`: the shape, then the types of D, A, B
//! and C; A is row-major and B column-major (`.row.col`). Fragments are registers: f32, f64 and s32
//! an element each, tf32 an f32 whose low 13 bits do not count, two f16 or bf16, four 8-bit values.
//! [`fragment`](abi::tensor_core::fragment) (in `cuda_std::abi`) says which element is where.

/// `products! { NAME(ACC, A, B) = SHAPE, TYPES, SINCE; .. }` defines one function per instruction.
/// Each operand is one of the register lists below: type and count.
macro_rules! products {
    ($($name:ident($acc:tt, $a:tt, $b:tt) = $shape:literal, $types:literal, $since:literal;)*) => {$(
        products!(@acc $acc @a $a @b $b $name, $shape, $types, $since);
    )*};
    // The accumulator is the first of the asm's operands: {0}, {1}, ..
    (@acc f32x4 $($rest:tt)*) => { products!(@to [f32, reg32, 4, 0 1 2 3, "{0}, {1}, {2}, {3}"] $($rest)*); };
    (@acc s32x4 $($rest:tt)*) => { products!(@to [i32, reg32, 4, 0 1 2 3, "{0}, {1}, {2}, {3}"] $($rest)*); };
    (@acc s32x2 $($rest:tt)*) => { products!(@to [i32, reg32, 2, 0 1, "{0}, {1}"] $($rest)*); };
    (@acc f16x2 $($rest:tt)*) => { products!(@to [u32, reg32, 2, 0 1, "{0}, {1}"] $($rest)*); };
    (@acc f64x2 $($rest:tt)*) => { products!(@to [f64, reg64, 2, 0 1, "{0}, {1}"] $($rest)*); };
    (@acc f64x4 $($rest:tt)*) => { products!(@to [f64, reg64, 4, 0 1 2 3, "{0}, {1}, {2}, {3}"] $($rest)*); };
    (@to $acc:tt @a b32x1 $($rest:tt)*) => { products!(@and $acc [u32, reg32, 1, 0 a0, "{a0}"] $($rest)*); };
    (@to $acc:tt @a b32x2 $($rest:tt)*) => { products!(@and $acc [u32, reg32, 2, 0 a0 1 a1, "{a0}, {a1}"] $($rest)*); };
    (@to $acc:tt @a b32x4 $($rest:tt)*) => {
        products!(@and $acc [u32, reg32, 4, 0 a0 1 a1 2 a2 3 a3, "{a0}, {a1}, {a2}, {a3}"] $($rest)*);
    };
    (@to $acc:tt @a f64x1 $($rest:tt)*) => { products!(@and $acc [f64, reg64, 1, 0 a0, "{a0}"] $($rest)*); };
    (@to $acc:tt @a f64x2 $($rest:tt)*) => { products!(@and $acc [f64, reg64, 2, 0 a0 1 a1, "{a0}, {a1}"] $($rest)*); };
    (@to $acc:tt @a f64x4 $($rest:tt)*) => {
        products!(@and $acc [f64, reg64, 4, 0 a0 1 a1 2 a2 3 a3, "{a0}, {a1}, {a2}, {a3}"] $($rest)*);
    };
    (@to $acc:tt @a f64x8 $($rest:tt)*) => {
        products!(@and $acc [f64, reg64, 8, 0 a0 1 a1 2 a2 3 a3 4 a4 5 a5 6 a6 7 a7,
            "{a0}, {a1}, {a2}, {a3}, {a4}, {a5}, {a6}, {a7}"] $($rest)*);
    };
    (@and $acc:tt $a:tt @b b32x1 $($rest:tt)*) => { products!(@is $acc $a [u32, reg32, 1, 0 b0, "{b0}"] $($rest)*); };
    (@and $acc:tt $a:tt @b b32x2 $($rest:tt)*) => { products!(@is $acc $a [u32, reg32, 2, 0 b0 1 b1, "{b0}, {b1}"] $($rest)*); };
    (@and $acc:tt $a:tt @b f64x1 $($rest:tt)*) => { products!(@is $acc $a [f64, reg64, 1, 0 b0, "{b0}"] $($rest)*); };
    (@and $acc:tt $a:tt @b f64x2 $($rest:tt)*) => { products!(@is $acc $a [f64, reg64, 2, 0 b0 1 b1, "{b0}, {b1}"] $($rest)*); };
    (@and $acc:tt $a:tt @b f64x4 $($rest:tt)*) => {
        products!(@is $acc $a [f64, reg64, 4, 0 b0 1 b1 2 b2 3 b3, "{b0}, {b1}, {b2}, {b3}"] $($rest)*);
    };
    (@is [$d:ty, $d_reg:ident, $d_len:literal, $($di:literal)*, $d_list:literal]
        [$a:ty, $a_reg:ident, $a_len:literal, $($ai:literal $an:ident)*, $a_list:literal]
        [$b:ty, $b_reg:ident, $b_len:literal, $($bi:literal $bn:ident)*, $b_list:literal]
        $name:ident, $shape:literal, $types:literal, $since:literal) => {
        #[doc = concat!("`mma.sync.aligned.", $shape, ".row.col.", $types, "`: `acc += a * b`.")]
        ///
        /// *Scope*: warp, converged; it relies on cuda_builder to keep it convergent.
        #[doc = concat!("*Since*: ", $since, ".")]
        ///
        /// # Safety
        /// All lanes execute it.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name(acc: &mut [$d; $d_len], a: [$a; $a_len], b: [$b; $b_len]) {
            on_device!("mma", (acc, a, b), {
                // SAFETY: the caller's lanes are converged.
                unsafe {
                    core::arch::asm!(
                        concat!("mma.sync.aligned.", $shape, ".row.col.", $types, " {{", $d_list,
                            "}}, {{", $a_list, "}}, {{", $b_list, "}}, {{", $d_list, "}};"),
                        $(inout($d_reg) acc[$di],)* $($an = in($a_reg) a[$ai],)*
                        $($bn = in($b_reg) b[$bi],)* options(nostack));
                }
            })
        }
    };
}

products! {
    mma_m16n8k8_f32_f16_f16_f32(f32x4, b32x2, b32x1)
        = "m16n8k8", "f32.f16.f16.f32", "PTX 6.5, sm_75";
    mma_m16n8k8_f16_f16_f16_f16(f16x2, b32x2, b32x1)
        = "m16n8k8", "f16.f16.f16.f16", "PTX 6.5, sm_75";
    mma_m8n8k16_s32_s8_s8_s32(s32x2, b32x1, b32x1) = "m8n8k16", "s32.s8.s8.s32", "PTX 6.5, sm_75";
    mma_m8n8k16_s32_s8_u8_s32(s32x2, b32x1, b32x1) = "m8n8k16", "s32.s8.u8.s32", "PTX 6.5, sm_75";
    mma_m8n8k16_s32_u8_s8_s32(s32x2, b32x1, b32x1) = "m8n8k16", "s32.u8.s8.s32", "PTX 6.5, sm_75";
    mma_m8n8k16_s32_u8_u8_s32(s32x2, b32x1, b32x1) = "m8n8k16", "s32.u8.u8.s32", "PTX 6.5, sm_75";
    mma_m16n8k16_f32_f16_f16_f32(f32x4, b32x4, b32x2)
        = "m16n8k16", "f32.f16.f16.f32", "PTX 7.0, sm_80";
    mma_m16n8k16_f16_f16_f16_f16(f16x2, b32x4, b32x2)
        = "m16n8k16", "f16.f16.f16.f16", "PTX 7.0, sm_80";
    mma_m16n8k8_f32_bf16_bf16_f32(f32x4, b32x2, b32x1)
        = "m16n8k8", "f32.bf16.bf16.f32", "PTX 7.0, sm_80";
    mma_m16n8k16_f32_bf16_bf16_f32(f32x4, b32x4, b32x2)
        = "m16n8k16", "f32.bf16.bf16.f32", "PTX 7.0, sm_80";
    mma_m16n8k4_f32_tf32_tf32_f32(f32x4, b32x2, b32x1)
        = "m16n8k4", "f32.tf32.tf32.f32", "PTX 7.0, sm_80";
    mma_m16n8k8_f32_tf32_tf32_f32(f32x4, b32x4, b32x2)
        = "m16n8k8", "f32.tf32.tf32.f32", "PTX 7.0, sm_80";
    mma_m16n8k16_s32_s8_s8_s32(s32x4, b32x2, b32x1) = "m16n8k16", "s32.s8.s8.s32", "PTX 7.0, sm_80";
    mma_m16n8k16_s32_s8_u8_s32(s32x4, b32x2, b32x1) = "m16n8k16", "s32.s8.u8.s32", "PTX 7.0, sm_80";
    mma_m16n8k16_s32_u8_s8_s32(s32x4, b32x2, b32x1) = "m16n8k16", "s32.u8.s8.s32", "PTX 7.0, sm_80";
    mma_m16n8k16_s32_u8_u8_s32(s32x4, b32x2, b32x1) = "m16n8k16", "s32.u8.u8.s32", "PTX 7.0, sm_80";
    mma_m16n8k32_s32_s8_s8_s32(s32x4, b32x4, b32x2) = "m16n8k32", "s32.s8.s8.s32", "PTX 7.0, sm_80";
    mma_m16n8k32_s32_s8_u8_s32(s32x4, b32x4, b32x2) = "m16n8k32", "s32.s8.u8.s32", "PTX 7.0, sm_80";
    mma_m16n8k32_s32_u8_s8_s32(s32x4, b32x4, b32x2) = "m16n8k32", "s32.u8.s8.s32", "PTX 7.0, sm_80";
    mma_m16n8k32_s32_u8_u8_s32(s32x4, b32x4, b32x2) = "m16n8k32", "s32.u8.u8.s32", "PTX 7.0, sm_80";
    mma_m8n8k4_f64_f64_f64_f64(f64x2, f64x1, f64x1) = "m8n8k4", "f64.f64.f64.f64", "PTX 7.0, sm_80";
    mma_m16n8k32_f32_e4m3_e4m3_f32(f32x4, b32x4, b32x2)
        = "m16n8k32", "f32.e4m3.e4m3.f32", "PTX 8.4, sm_89";
    mma_m16n8k32_f32_e4m3_e5m2_f32(f32x4, b32x4, b32x2)
        = "m16n8k32", "f32.e4m3.e5m2.f32", "PTX 8.4, sm_89";
    mma_m16n8k32_f32_e5m2_e4m3_f32(f32x4, b32x4, b32x2)
        = "m16n8k32", "f32.e5m2.e4m3.f32", "PTX 8.4, sm_89";
    mma_m16n8k32_f32_e5m2_e5m2_f32(f32x4, b32x4, b32x2)
        = "m16n8k32", "f32.e5m2.e5m2.f32", "PTX 8.4, sm_89";
    mma_m16n8k4_f64_f64_f64_f64(f64x4, f64x2, f64x1)
        = "m16n8k4", "f64.f64.f64.f64", "PTX 7.8, sm_90";
    mma_m16n8k8_f64_f64_f64_f64(f64x4, f64x4, f64x2)
        = "m16n8k8", "f64.f64.f64.f64", "PTX 7.8, sm_90";
    mma_m16n8k16_f64_f64_f64_f64(f64x4, f64x8, f64x4)
        = "m16n8k16", "f64.f64.f64.f64", "PTX 7.8, sm_90";
}
