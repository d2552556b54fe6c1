//! The order in which a launch visits the elements of its tensors.

use super::MAX_RANK;
use crate::division::Division;
use crate::entry::{Parts, entries};
use crate::kernel_param;

kernel_param! {
    /// Extents and strides of a launch with up to five tensors: the output first, then the inputs.
    /// Dimensions are ordered innermost first; unused ones have extent 1 and strides 0.
    #[derive(Debug, PartialEq)]
    pub struct WalkParams {
        /// Number of elements of the output.
        pub len: u32,
        /// Number of dimensions in use.
        pub rank: u32,
        /// Neighbours along the innermost dimension that one access may move: 1, or 2 to 16. More
        /// than 1 divide that dimension; if it is the only one, the remainder is moved one by one.
        pub chunk: u32,
        /// Bit t: tensor t has the same element throughout a chunk (an innermost stride of 0). If
        /// `chunk` is not 1, the other tensors have an innermost stride of 1 and aligned chunks.
        pub splat: u32,
        /// Extents.
        pub extents: [Division; MAX_RANK],
        /// Element strides of the output, then of the inputs.
        pub strides: [[i64; MAX_RANK]; 5],
    }
}

/// One kernel; displays as its entry name: `copy_b32`, for elements of 1, 2, 4, 8 or 16 bytes of
/// any dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CopyEntry {
    name: &'static str,
    /// Bytes of an element.
    pub size_bytes: usize,
}

impl CopyEntry {
    /// The entry of a name `copy_b<bits>`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("copy");
        let size_bytes = parts.number("b") as usize / 8;
        parts.end();
        Self { name, size_bytes }
    }

    /// The entry for elements of this size, if there is one.
    pub fn of(size_bytes: usize) -> Option<Self> {
        Self::find(|entry| entry.size_bytes == size_bytes)
    }

    /// Elements a thread, all loaded before the first is stored. Of 16 bytes, one is enough.
    pub const fn per_thread(self) -> u32 {
        if self.size_bytes == 16 { 1 } else { 8 }
    }
}

entries! { $ CopyEntry(WalkParams) {
    /// A type of the element's size.
    copy_elements {
        copy_b8(u8);
        copy_b16(u16);
        copy_b32(u32);
        copy_b64(u64);
        copy_b128(Wide);
    }
} }
