//! Rows in order, with the indices that elements had.
//!
//! Elements are compared by their *keys*: unsigned integers that grow with the element, or fall. A key
//! is made where it is needed ([`SortParams::is_float`]). Elements themselves are moved, so their bits
//! stay. Zeros of both signs have one key, and all NaN have the largest one. Rows are sorted by digits
//! of [`DIGIT_BITS`] bits of the key, the least significant one first. Each digit keeps the order of
//! elements that have the same.
//!
//! | kernel | rows |
//! |---|---|
//! | *block* | a block has all of a row, or several short ones, and sorts them by all digits; a row's number is the last |
//! | *count* | counts all digits of long rows |
//! | *pass* | sorts long rows by one digit; a block has a tile |
//!
//! A block of *pass* takes the next tile of the launch. It publishes how many of the tile's elements have
//! each digit. Then it looks back at what the blocks of earlier tiles have published, until one of
//! them has added up all tiles before. So one launch reads and writes each element once.
//!
//! | entry | parameters |
//! |---|---|
//! | `sort_<bits>` | `(x: *const u8, values: *mut u8, indices: *mut i64, params: SortParams)` |
//! | `sort_<bits>_count` | `(x: *const u8, counts: *mut u32, params: SortParams)` |
//! | `sort_<bits>_pass` | `(x: *const u8, values: *mut u8, indices: *mut i64, even: *mut u8, odd: *mut u8, even_origins: *mut u32, odd_origins: *mut u32, counts: *const u32, status: *mut u64, params: SortParams)` |
//!
//! `<bits>` is u8, u16, u32 or u64: elements of as many bits, of any dtype. Results that
//! are not wanted are null: `values`, `indices`. All passes of a row have the same arguments, but for
//! the digit. A row takes no pass for a digit that all of its elements share. Its first pass reads `x`,
//! and its last one writes the results. Between them, elements are in `even` and `odd` in turn, and
//! their indices in `even_origins` and `odd_origins`, rows of `n` without gaps. The latter are null if
//! indices are not wanted. `counts` has [`DIGITS`] counts for each digit of each row. `status`
//! begins with a counter of tiles for each pass, in [`TICKETS`] words. Behind them, it has [`DIGITS`]
//! words for each tile. All of this is 0 before *count* and before the first pass.

use crate::DType;
use crate::division::Division;
use crate::entry::{Parts, entries};
use crate::kernel_param;

/// Bits of a digit.
pub const DIGIT_BITS: u32 = 8;

/// Values of a digit.
pub const DIGITS: u32 = 1 << DIGIT_BITS;

/// Threads of a block.
pub const THREADS: u32 = 512;

/// The most elements of a row: positions have 31 bits.
pub const N_MAX: u64 = i32::MAX as u64;

/// Words of 64 bits before the first tile's: counters of tiles.
pub const TICKETS: usize = 8;

/// Elements of a thread of a tile.
pub const ITEMS: usize = 8;

/// Elements of a tile: the most that a block sorts by all digits.
pub const TILE: u32 = THREADS * ITEMS as u32;

/// What a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Sorts whole rows in a block.
    Block,
    /// Counts digits.
    Count,
    /// Sorts by one digit.
    Pass,
}

/// One kernel; displays as its entry name: `sort_u32`, `sort_u32_count`, `sort_u32_pass`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SortEntry {
    name: &'static str,
    /// What it does.
    pub step: Step,
    /// The unsigned integer with as many bits as an element.
    pub bits: DType,
}

impl SortEntry {
    /// The entry of a name `sort_<bits>[_count|_pass]`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("sort");
        let bits = parts.expect_dtype();
        let step = if parts.take("count") {
            Step::Count
        } else if parts.take("pass") {
            Step::Pass
        } else {
            Step::Block
        };
        parts.end();
        Self { name, step, bits }
    }

    /// The entry of this step for elements of `dtype`.
    pub fn of(step: Step, dtype: DType) -> Option<Self> {
        let bytes = dtype.size_bytes();
        Self::find(|entry| entry.step == step && entry.bits.size_bytes() == bytes)
    }
}

entries! { $ SortEntry(SortParams) {
    /// Rows of a block: the elements' bits.
    sort_block {
        sort_u8(u8);
        sort_u16(u16);
        sort_u32(u32);
        sort_u64(u64);
    }
    /// Counts.
    sort_count {
        sort_u8_count(u8);
        sort_u16_count(u16);
        sort_u32_count(u32);
        sort_u64_count(u64);
    }
    /// Passes.
    sort_pass {
        sort_u8_pass(u8);
        sort_u16_pass(u16);
        sort_u32_pass(u32);
        sort_u64_pass(u64);
    }
} }

kernel_param! {
    /// Extents and strides of one launch, and how keys are made of elements.
    #[derive(Debug, PartialEq, Eq)]
    pub struct SortParams {
        /// Number of rows.
        pub rows: u64,
        /// Elements between rows of what is read.
        pub from_stride: i64,
        /// Elements between rows of the values.
        pub to_stride: i64,
        /// Elements between rows of the i64 indices.
        pub indices_stride: i64,
        /// The bits of the largest magnitude that is not NaN.
        pub largest: u64,
        /// What is xored to an integer: its sign bit, or 0 of one without a sign.
        pub sign: u64,
        /// What is xored to a key: 0, or all bits for descending order.
        pub turn: u64,
        /// Elements of a row.
        pub n: u32,
        /// Whether elements are floats: sign and magnitude, with all NaN above `largest`.
        pub is_float: u32,
        /// Of *block*: rows of a block. Of *count*: elements of a row that a block counts.
        pub per_block: u32,
        /// Of *block*: bits of the key and of a row's number in its block, in whole digits. Of *pass*:
        /// the first bit of its digit.
        pub bits: u32,
        /// Of *block*: division by `n`. Otherwise by the blocks of a row.
        pub row: Division,
        /// Zeros.
        pub padding: u32,
    }
}

impl SortParams {
    /// Those for rows without gaps.
    pub const fn new(dtype: DType, is_descending: bool, rows: u64, n: u32) -> Self {
        let largest = largest(dtype);
        Self {
            rows,
            from_stride: n as i64,
            to_stride: n as i64,
            indices_stride: n as i64,
            largest: match largest {
                Some(largest) => largest,
                None => 0,
            },
            sign: match dtype {
                DType::I8 | DType::I16 | DType::I32 | DType::I64 => {
                    1 << (8 * dtype.size_bytes() - 1)
                }
                _ => 0,
            },
            turn: if is_descending { u64::MAX } else { 0 },
            n,
            is_float: largest.is_some() as u32,
            per_block: 0,
            bits: 0,
            row: Division::ONE,
            padding: 0,
        }
    }
}

/// The bits of a float's largest magnitude that is not NaN; `None` of integers.
pub(crate) const fn largest(dtype: DType) -> Option<u64> {
    match dtype {
        DType::F64 => Some(f64::INFINITY.to_bits()),
        DType::F32 => Some(f32::INFINITY.to_bits() as u64),
        DType::F16 => Some(0x7c00),
        DType::Bf16 => Some(0x7f80),
        DType::E4m3 => Some(0x7e),
        DType::E5m2 => Some(0x7c),
        _ => None,
    }
}

/// Bits of the keys of a dtype and of the numbers of so many rows, in whole digits.
pub const fn bits_of_block(dtype: DType, rows: u32) -> u32 {
    let of_row = u32::BITS - (rows - 1).leading_zeros();
    8 * dtype.size_bytes() as u32 + of_row.next_multiple_of(DIGIT_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_digits_for_its_rows() {
        assert_eq!(bits_of_block(DType::F32, 1), 32);
        assert_eq!(bits_of_block(DType::F32, 2), 40);
        assert_eq!(bits_of_block(DType::I8, 256), 16);
        assert_eq!(bits_of_block(DType::F64, 257), 80);
    }

    #[test]
    fn every_dtype_has_its_kernels() {
        for dtype in DType::ALL {
            for step in [Step::Block, Step::Count, Step::Pass] {
                let entry = SortEntry::of(step, dtype).expect("an entry");
                assert_eq!(entry.bits.size_bytes(), dtype.size_bytes());
            }
        }
    }
}
