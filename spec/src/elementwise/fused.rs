//! Kernels whose functions the host composes: the skeletons of elementwise operations.
//!
//! A skeleton moves chunks of neighbours between memory and registers and knows no dtype. Its holes:
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

/// Most bytes of a chunk: one access a tensor.
pub const CHUNK_BYTES: u32 = 16;

/// A launch over tensors whose elements lie one after the other.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DenseParams {
    /// Whole chunks.
    pub chunks: u32,
    /// Elements behind them.
    pub rest: u32,
    /// Numbers of the steps, as wide as the arithmetic: in the low bits.
    pub scalars: [u64; MAX_STEPS],
}

/// A launch over tensors of any strides.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StridedParams {
    /// The tensors: the output, then the inputs.
    pub walk: WalkParams,
    /// Whole chunks.
    pub chunks: u32,
    /// Elements behind them, where there is one dimension.
    pub rest: u32,
    /// As [`DenseParams::scalars`].
    pub scalars: [u64; MAX_STEPS],
}

/// Names a skeleton: `dense_2x1` or `strided_2x2`, of two inputs, one or two chunks a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FusedEntry {
    /// Elements of all tensors lie one after the other.
    pub dense: bool,
    /// Inputs: 1 to 4.
    pub inputs: u32,
    /// Chunks of a thread, all loaded before the first is computed.
    pub chunks: u32,
}

impl FusedEntry {
    /// Chunks of a thread that keep the memory busy where chunks are short, with so many inputs. Of
    /// [`CHUNK_BYTES`] two are enough, by as many threads as a multiprocessor holds; one where the
    /// function is short, or the output is wider than the inputs, which are what is waited for.
    pub const fn most_chunks(inputs: u32) -> u32 {
        if inputs == 1 { 4 } else { 2 }
    }

    /// All skeletons: what lies without gaps in short chunks is strided, too.
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
