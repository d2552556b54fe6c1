//! Products in f64.
//!
//! Entries take `a: *const f64, b: *const f64, c: *const f64, d: *mut f64, bias: *const f64,
//! residual: *const f64, row_scale: *const f64, column_scale: *const f64, alpha: *const f64, beta:
//! *const f64, params: DoubleParams, epilogue: EpilogueParams` and compute [the
//! epilogue](super::epilogue) in f64; of activations they have the identity and relu. Absent
//! arguments are null. `alpha` and `beta` override those of [`DoubleParams`] if they are not null.
//! Layouts are known at run time, so there is one entry for each [`DoubleProduct`] and tile.
//!
//! Every element has one accumulator, from +0, to which products are added by fused multiply-add
//! with k ascending; k is padded with zeros to a multiple of [`DOUBLE_K`]. Tensor cores do the same
//! with f64 (docs/numerics.md), so all entries give the same bits.

use super::{EpilogueParams, TileConfig, Transpose};
use crate::entry::{Parts, entries};
use crate::kernel_param;

/// Elements of k in a stage of shared memory.
pub const DOUBLE_K: u32 = 8;

/// Stages of the entries that copy asynchronously.
pub const DOUBLE_STAGES: u32 = 4;

/// The tile without tensor cores: 4×4 results a thread.
pub const DOUBLE_SIMT: TileConfig = TileConfig {
    tile_m: 64,
    tile_n: 64,
    tile_k: DOUBLE_K,
    threads: 256,
};

/// For large products by tensor cores: eight warps of 64×32 results.
pub const DOUBLE_LARGE: TileConfig = TileConfig {
    tile_m: 128,
    tile_n: 128,
    tile_k: DOUBLE_K,
    threads: 256,
};

/// For small ones: four warps of 32×32 results.
pub const DOUBLE_SMALL: TileConfig = TileConfig {
    tile_m: 64,
    tile_n: 64,
    tile_k: DOUBLE_K,
    threads: 128,
};

/// Padding of a line of a staged tile, in elements. Lines are then 12 elements long, or 4 more than
/// a multiple of 16. The 16 lanes whose 8-byte loads are one access read four neighbours of each of
/// four lines, from different banks.
const PAD: u32 = 4;

/// Elements from line to line of a staged tile of `tile_mn` rows or columns. Its lines lie as those
/// of the operand do: along k if `is_k_major`.
pub const fn double_pitch(tile_mn: u32, is_k_major: bool) -> u32 {
    if is_k_major {
        DOUBLE_K + PAD
    } else {
        tile_mn + PAD
    }
}

/// Elements of a staged tile of `tile_mn` rows or columns, however its lines lie.
pub const fn double_stage(tile_mn: u32) -> u32 {
    let by_k = tile_mn * double_pitch(tile_mn, true);
    let by_mn = DOUBLE_K * double_pitch(tile_mn, false);
    if by_k > by_mn { by_k } else { by_mn }
}

/// How products are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DoubleProduct {
    /// By each thread's own multiply-adds.
    Simt,
    /// By `mma.sync` of 8×8 results and 4 of k, from sm_80 on.
    Mma8,
    /// By `mma.sync` of 16×8 results and 8 of k, which Hopper has.
    Mma16,
}

/// One entry; displays as its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DoubleEntry {
    name: &'static str,
    /// How it multiplies.
    pub product: DoubleProduct,
    /// [`DOUBLE_SIMT`], or [`DOUBLE_LARGE`] or [`DOUBLE_SMALL`] of the others.
    pub tile: TileConfig,
}

impl DoubleEntry {
    /// The entry of a name `gemm_simt_f64_<m>x<n>x<k>` or `gemm_mma_f64_<m>x<n>x<k>_s<stages>[_m16]`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("gemm");
        let is_simt = parts.take("simt_f64");
        if is_simt {
            let tile = TileConfig::of_name(&mut parts, &[DOUBLE_SIMT]);
            parts.end();
            let product = DoubleProduct::Simt;
            return Self {
                name,
                product,
                tile,
            };
        }
        parts.expect("mma_f64");
        let tile = TileConfig::of_name(&mut parts, &[DOUBLE_LARGE, DOUBLE_SMALL]);
        assert!(parts.number("s") == DOUBLE_STAGES);
        let product = if parts.take("m16") {
            DoubleProduct::Mma16
        } else {
            DoubleProduct::Mma8
        };
        parts.end();
        Self {
            name,
            product,
            tile,
        }
    }

    /// Whether devices of this compute capability run it.
    pub const fn runs_on(self, arch: (u32, u32)) -> bool {
        match self.product {
            DoubleProduct::Simt => true,
            DoubleProduct::Mma8 => arch.0 >= 8,
            DoubleProduct::Mma16 => arch.0 == 9 && arch.1 == 0,
        }
    }

    /// Dynamic shared memory of a block: its stages, which the results take the place of.
    pub const fn smem_bytes(self) -> u32 {
        let TileConfig { tile_m, tile_n, .. } = self.tile;
        if matches!(self.product, DoubleProduct::Simt) {
            return 0;
        }
        let stages = DOUBLE_STAGES * (double_stage(tile_m) + double_stage(tile_n));
        let results = tile_m * tile_n;
        8 * if stages > results { stages } else { results }
    }
}

entries! { $ DoubleEntry((DoubleParams, EpilogueParams)) {
    /// By multiply-adds; this kernel's tile is its module's.
    gemm_double_simt {
        gemm_simt_f64_64x64x8;
    }
    /// By `mma.sync`: blocks of an SM, and the rows and columns of a warp's results in products of 16
    /// by 8.
    gemm_double_sm80 {
        gemm_mma_f64_128x128x8_s4(1, 4, 4);
        gemm_mma_f64_64x64x8_s4(3, 2, 4);
    }
    /// The same by Hopper's.
    gemm_double_sm90 {
        gemm_mma_f64_128x128x8_s4_m16(1, 4, 4);
        gemm_mma_f64_64x64x8_s4_m16(3, 2, 4);
    }
} }

kernel_param! {
    /// Extents, strides, layouts and scalars of one launch. Strides are in elements, as in
    /// [`GemmParams`](super::GemmParams).
    #[derive(Debug, PartialEq)]
    pub struct DoubleParams {
        /// Rows of D.
        pub m: u32,
        /// Columns of D.
        pub n: u32,
        /// Reduction length.
        pub k: u32,
        /// Number of matrices in the batch.
        pub batch: u32,
        /// Elements between rows of A as stored.
        pub lda: i64,
        /// Elements between rows of B as stored.
        pub ldb: i64,
        /// Elements between rows of C.
        pub ldc: i64,
        /// Elements between rows of D.
        pub ldd: i64,
        /// Elements between A of the batch; 0 broadcasts.
        pub batch_stride_a: i64,
        /// Elements between B of the batch; 0 broadcasts.
        pub batch_stride_b: i64,
        /// Elements between C of the batch; 0 broadcasts.
        pub batch_stride_c: i64,
        /// Elements between D of the batch.
        pub batch_stride_d: i64,
        /// Factor of `A @ B`.
        pub alpha: f64,
        /// Factor of C; at 0, C is never read.
        pub beta: f64,
        /// 1 if k is contiguous in A, else 0.
        pub a_is_k_major: u32,
        /// 1 if k is contiguous in B, else 0.
        pub b_is_k_major: u32,
    }
}

impl DoubleParams {
    /// [`a_is_k_major`](Self::a_is_k_major) and [`b_is_k_major`](Self::b_is_k_major) of operands
    /// stored so.
    pub const fn k_major(trans_a: Transpose, trans_b: Transpose) -> [u32; 2] {
        [
            matches!(trans_a, Transpose::N) as u32,
            matches!(trans_b, Transpose::T) as u32,
        ]
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_say_product_and_tile() {
        let read = |name| {
            let DoubleEntry { product, tile, .. } = DoubleEntry::read(name);
            (product, tile)
        };
        let simt = (DoubleProduct::Simt, DOUBLE_SIMT);
        assert_eq!(read("gemm_simt_f64_64x64x8"), simt);
        let large = (DoubleProduct::Mma8, DOUBLE_LARGE);
        assert_eq!(read("gemm_mma_f64_128x128x8_s4"), large);
        let hopper = (DoubleProduct::Mma16, DOUBLE_SMALL);
        assert_eq!(read("gemm_mma_f64_64x64x8_s4_m16"), hopper);
    }

    #[test]
    fn blocks_fit_into_an_a100_and_three_small_ones_together() {
        const A100_BYTES: u32 = 164 << 10;
        const RESERVED_BYTES: u32 = 1 << 10;
        for entry in DoubleEntry::ALL {
            let blocks = if entry.tile == DOUBLE_SMALL { 3 } else { 1 };
            let bytes = blocks * (entry.smem_bytes() + RESERVED_BYTES);
            assert!(bytes <= A100_BYTES, "{entry}: {bytes}");
        }
    }

    #[test]
    fn lanes_that_load_at_once_use_different_banks() {
        const BANKS: u32 = 16; // of 8 bytes
        for tile_mn in [64, 128] {
            for is_k_major in [true, false] {
                let pitch = double_pitch(tile_mn, is_k_major);
                let banks: HashSet<u32> = (0..16)
                    .map(|lane| (lane / 4 * pitch + lane % 4) % BANKS)
                    .collect();
                assert_eq!(banks.len(), 16, "{tile_mn}, {is_k_major}");
            }
        }
    }

    #[test]
    fn the_parameters_have_no_padding() {
        assert_eq!(size_of::<DoubleParams>(), 4 * 4 + 8 * 8 + 2 * 8 + 2 * 4);
    }
}
