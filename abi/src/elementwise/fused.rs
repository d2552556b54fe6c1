//! Skeletons of elementwise operations: kernels whose functions the host composes.
//!
//! A skeleton moves chunks of neighbouring elements between memory and registers, and knows no
//! dtype. Its holes:
//!
//! | hole | what the host puts there |
//! |---|---|
//! | `bytes0` .. `bytes4` | bytes of a chunk of the output and of each input |
//! | `size0` .. `size4` | bytes of an element of each |
//! | `elements` | elements of a chunk |
//! | `load1` .. `load4`, `store` | the access to a chunk; of an input that repeats one element, to that |
//! | `take1` .. `take4`, `put` | the access to one element |
//! | `chunk` | four words of the output from four words of each input |
//! | `element` | two words of the output from two words of each input |
//!
//! Skeletons with stores also write tensors in the places of inputs. Their `chunk` and `element` have
//! words of the output, then of each input, and their `store1` .. `store4` and `put1` .. `put4` are
//! the accesses.

use super::{MAX_STEPS, WalkParams};
use crate::entry::{Parts, entries};
use crate::kernel_param;

/// Most bytes of a chunk: one access for each tensor.
pub const CHUNK_BYTES: u32 = 16;

kernel_param! {
    /// A launch over contiguous tensors.
    #[derive(Debug, PartialEq)]
    pub struct DenseParams {
        /// Number of whole chunks.
        pub chunks: u32,
        /// Number of elements behind them.
        pub rest: u32,
        /// Chunks from a block's first to the first of those that it prefetches into L2, for a block that
        /// begins later; 0 if blocks prefetch nothing.
        pub ahead: u32,
        /// 0.
        pub padding: u32,
        /// Scalars of the chain's steps, in the low bits, as wide as the arithmetic.
        pub scalars: [u64; MAX_STEPS],
    }
}

kernel_param! {
    /// A launch over tensors of any strides.
    #[derive(Debug, PartialEq)]
    pub struct StridedParams {
        /// The tensors: the output, then the inputs.
        pub walk: WalkParams,
        /// Number of whole chunks.
        pub chunks: u32,
        /// Number of elements behind them, if there is one dimension.
        pub rest: u32,
        /// See [`DenseParams::scalars`].
        pub scalars: [u64; MAX_STEPS],
    }
}

/// One skeleton; displays as its entry name: `fused_dense_2x1`, `fused_strided_2x2` for two inputs and two
/// chunks a thread, or `fused_dense_stores_4x1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FusedEntry {
    name: &'static str,
    /// Whether all tensors are contiguous.
    pub dense: bool,
    /// Whether it has stores to the inputs' tensors.
    pub stores: bool,
    /// Number of inputs: 1 to 4.
    pub inputs: u32,
    /// Chunks of a thread. All are loaded before the first is computed.
    pub chunks: u32,
}

impl FusedEntry {
    /// The entry of a name `fused_<dense or strided>[_stores]_<inputs>x<chunks>`. Contiguous tensors
    /// with short chunks use the strided ones too.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("fused");
        let dense = parts.take("dense");
        if !dense {
            parts.expect("strided");
        }
        let stores = parts.take("stores");
        let [inputs, chunks] = parts.numbers("");
        parts.end();
        Self {
            name,
            dense,
            stores,
            inputs,
            chunks,
        }
    }

    /// The skeleton without stores for so many inputs and chunks a thread, if there is one.
    pub fn of(dense: bool, inputs: u32, chunks: u32) -> Option<Self> {
        let want = (dense, false, inputs, chunks);
        Self::find(|entry| (entry.dense, entry.stores, entry.inputs, entry.chunks) == want)
    }

    /// The skeleton with stores.
    pub fn with_stores(dense: bool) -> Option<Self> {
        Self::find(|entry| entry.stores && entry.dense == dense)
    }
}

entries! { $ FusedEntry((Option<DenseParams>, Option<StridedParams>)) {
    /// Contiguous tensors: inputs, chunks of a thread, and whether there are stores.
    fused_dense {
        fused_dense_1x1(1, 1, false);
        fused_dense_1x2(1, 2, false);
        fused_dense_2x1(2, 1, false);
        fused_dense_2x2(2, 2, false);
        fused_dense_3x1(3, 1, false);
        fused_dense_3x2(3, 2, false);
        fused_dense_4x1(4, 1, false);
        fused_dense_4x2(4, 2, false);
        fused_dense_stores_4x1(4, 1, true);
    }
    /// Tensors of any strides.
    fused_strided {
        fused_strided_1x4(1, 4, false);
        fused_strided_1x1(1, 1, false);
        fused_strided_2x2(2, 2, false);
        fused_strided_2x1(2, 1, false);
        fused_strided_3x2(3, 2, false);
        fused_strided_3x1(3, 1, false);
        fused_strided_4x2(4, 2, false);
        fused_strided_4x1(4, 1, false);
        fused_strided_stores_4x1(4, 1, true);
    }
} }
