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

use super::{MAX_STEPS, WalkParams};
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

/// One skeleton; displays as its entry name: `dense_2x1`, or `strided_2x2` for two inputs and two
/// chunks a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FusedEntry {
    /// Whether all tensors are contiguous.
    pub dense: bool,
    /// Number of inputs: 1 to 4.
    pub inputs: u32,
    /// Chunks of a thread. All are loaded before the first is computed.
    pub chunks: u32,
}

impl FusedEntry {
    /// Chunks a thread that keep the memory busy if chunks are short, for a number of inputs. With
    /// chunks of [`CHUNK_BYTES`], two are enough, by as many threads as an SM holds; one is enough
    /// if the function is short, or if the output is wider than the inputs, which are what threads
    /// wait for.
    pub const fn most_chunks(inputs: u32) -> u32 {
        if inputs == 1 { 4 } else { 2 }
    }

    /// All skeletons. Contiguous tensors with short chunks use the strided ones, too.
    pub fn all() -> impl Iterator<Item = Self> {
        (1..=4).flat_map(|inputs| {
            let entry = move |(dense, chunks)| Self {
                dense,
                inputs,
                chunks,
            };
            let most = Self::most_chunks(inputs);
            [(true, 1), (true, 2), (false, 1), (false, most)]
                .into_iter()
                .map(entry)
        })
    }
}

impl core::fmt::Display for FusedEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let layout = if self.dense { "dense" } else { "strided" };
        write!(f, "{layout}_{}x{}", self.inputs, self.chunks)
    }
}
