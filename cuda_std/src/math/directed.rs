//! Operations of which the rounding is directed: towards zero (`rz`), down (`rm`) or up (`rp`).
//! Everything else in this library rounds to the nearest.

macro_rules! with_operations {
    ($use:ident $($arguments:tt)*) => {
        $use! {
            $($arguments)*:
            add_rz(other) = "add.rz", " {}, {}, {};", "`self + other`, rounded towards zero.";
            add_rm(other) = "add.rm", " {}, {}, {};", "`self + other`, rounded down.";
            add_rp(other) = "add.rp", " {}, {}, {};", "`self + other`, rounded up.";
            sub_rz(other) = "sub.rz", " {}, {}, {};", "`self - other`, rounded towards zero.";
            sub_rm(other) = "sub.rm", " {}, {}, {};", "`self - other`, rounded down.";
            sub_rp(other) = "sub.rp", " {}, {}, {};", "`self - other`, rounded up.";
            mul_rz(other) = "mul.rz", " {}, {}, {};", "`self * other`, rounded towards zero.";
            mul_rm(other) = "mul.rm", " {}, {}, {};", "`self * other`, rounded down.";
            mul_rp(other) = "mul.rp", " {}, {}, {};", "`self * other`, rounded up.";
            div_rz(other) = "div.rz", " {}, {}, {};", "`self / other`, rounded towards zero.";
            div_rm(other) = "div.rm", " {}, {}, {};", "`self / other`, rounded down.";
            div_rp(other) = "div.rp", " {}, {}, {};", "`self / other`, rounded up.";
            fma_rz(by, add) = "fma.rz", " {}, {}, {}, {};", "`self * by + add`, rounded towards zero.";
            fma_rm(by, add) = "fma.rm", " {}, {}, {}, {};", "`self * by + add`, rounded down.";
            fma_rp(by, add) = "fma.rp", " {}, {}, {}, {};", "`self * by + add`, rounded up.";
            sqrt_rz() = "sqrt.rz", " {}, {};", "The square root, rounded towards zero.";
            sqrt_rm() = "sqrt.rm", " {}, {};", "The square root, rounded down.";
            sqrt_rp() = "sqrt.rp", " {}, {};", "The square root, rounded up.";
            rcp_rz() = "rcp.rz", " {}, {};", "`1 / self`, rounded towards zero.";
            rcp_rm() = "rcp.rm", " {}, {};", "`1 / self`, rounded down.";
            rcp_rp() = "rcp.rp", " {}, {};", "`1 / self`, rounded up.";
        }
    };
}

macro_rules! declare {
    (: $($name:ident($($other:ident),*) = $op:literal, $slots:literal, $doc:literal;)*) => {
        /// Operations of f32 and f64 with a directed rounding. Subnormals are not flushed.
        ///
        /// *Scope*: thread. *Since*: PTX 2.0, sm_20.
        ///
        /// # Panics
        /// On the host, each of them.
        pub trait Directed: Copy {
            $(
                #[doc = $doc]
                #[must_use]
                fn $name(self, $($other: Self),*) -> Self;
            )*
        }
    };
}

macro_rules! implement {
    ($ty:ty, $reg:ident, $suffix:literal:
        $($name:ident($($other:ident),*) = $op:literal, $slots:literal, $doc:literal;)*
    ) => {
        impl Directed for $ty {
            $(
                #[inline(always)]
                fn $name(self, $($other: Self),*) -> Self {
                    on_device!("math::directed", (self $(, $other)*), {
                        let result: Self;
                        // SAFETY: a function of its operands.
                        unsafe {
                            core::arch::asm!(concat!($op, $suffix, $slots), out($reg) result,
                                in($reg) self $(, in($reg) $other)*,
                                options(pure, nomem, nostack));
                        }
                        result
                    })
                }
            )*
        }
    };
}

with_operations!(declare);
with_operations!(implement f32, reg32, ".f32");
with_operations!(implement f64, reg64, ".f64");
