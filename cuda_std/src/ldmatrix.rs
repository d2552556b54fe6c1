//! Matrix fragments between shared memory and a warp's registers: `ldmatrix` and `stmatrix`.
//!
//! Lane `8 * i + r` gives the address of row `r` of matrix `i`; register `i` of a lane holds 4
//! bytes of matrix `i`: [`ldmatrix`](abi::tensor_core::ldmatrix) (in `cuda_std::abi`) knows which.

use crate::shared::SharedAddr;

macro_rules! loads {
    ($($name:ident = $shape:literal, [$($d:ident),*], $list:literal, $doc:literal;)*) => {$(
        #[doc = concat!("`ldmatrix.sync.aligned.m8n8.", $shape, ".shared.b16`: ", $doc)]
        ///
        /// *Scope*: warp, converged; it relies on cuda_builder to keep it convergent. *Since*: PTX
        /// 6.5, sm_75.
        ///
        /// # Safety
        /// All lanes execute it; the addresses that count are multiples of 16 with 16 initialised
        /// bytes.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name(row: SharedAddr) -> [u32; [$(stringify!($d)),*].len()] {
            on_device!("ldmatrix", (row), {
                $(let $d: u32;)*
                // SAFETY: the caller's lanes are converged and their rows are there.
                unsafe {
                    core::arch::asm!(
                        concat!("ldmatrix.sync.aligned.m8n8.", $shape, ".shared.b16 {{", $list,
                            "}}, [{row}];"),
                        $($d = out(reg32) $d,)* row = in(reg32) row.bits(), options(nostack));
                }
                [$($d),*]
            })
        }
    )*};
}

loads! {
    ldmatrix_x1 = "x1", [d0], "{d0}", "one matrix; lanes 0..8 give addresses.";
    ldmatrix_x2 = "x2", [d0, d1], "{d0}, {d1}", "two matrices; lanes 0..16 give addresses.";
    ldmatrix_x4 = "x4", [d0, d1, d2, d3], "{d0}, {d1}, {d2}, {d3}", "four matrices.";
    ldmatrix_x1_trans = "x1.trans", [d0], "{d0}", "one matrix of 16-bit elements, transposed.";
    ldmatrix_x2_trans = "x2.trans", [d0, d1], "{d0}, {d1}",
        "two matrices of 16-bit elements, each transposed.";
    ldmatrix_x4_trans = "x4.trans", [d0, d1, d2, d3], "{d0}, {d1}, {d2}, {d3}",
        "four matrices of 16-bit elements, each transposed.";
}

macro_rules! stores {
    ($($name:ident = $shape:literal, [$($s:ident),*], $list:literal, $doc:literal;)*) => {$(
        #[doc = concat!("`stmatrix.sync.aligned.m8n8.", $shape, ".shared.b16`: ", $doc)]
        ///
        /// *Scope*: warp, converged; it relies on cuda_builder to keep it convergent. *Proxy*:
        /// generic. *Since*: PTX 7.8, sm_90.
        ///
        /// # Safety
        /// All lanes execute it; the addresses that count are multiples of 16, with 16 bytes that
        /// nobody else uses meanwhile.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name(row: SharedAddr, [$($s),*]: [u32; [$(stringify!($s)),*].len()]) {
            on_device!("ldmatrix::stmatrix", (row, ($($s,)*)), {
                // SAFETY: the caller's lanes are converged and their rows are free.
                unsafe {
                    core::arch::asm!(
                        concat!("stmatrix.sync.aligned.m8n8.", $shape, ".shared.b16 [{row}], {{",
                            $list, "}};"),
                        $($s = in(reg32) $s,)* row = in(reg32) row.bits(), options(nostack));
                }
            })
        }
    )*};
}

stores! {
    stmatrix_x1 = "x1", [s0], "{s0}", "one matrix; lanes 0..8 give addresses.";
    stmatrix_x2 = "x2", [s0, s1], "{s0}, {s1}", "two matrices; lanes 0..16 give addresses.";
    stmatrix_x4 = "x4", [s0, s1, s2, s3], "{s0}, {s1}, {s2}, {s3}", "four matrices.";
    stmatrix_x1_trans = "x1.trans", [s0], "{s0}", "one matrix of 16-bit elements, transposed.";
    stmatrix_x2_trans = "x2.trans", [s0, s1], "{s0}, {s1}",
        "two matrices of 16-bit elements, each transposed.";
    stmatrix_x4_trans = "x4.trans", [s0, s1, s2, s3], "{s0}, {s1}, {s2}, {s3}",
        "four matrices of 16-bit elements, each transposed.";
}
