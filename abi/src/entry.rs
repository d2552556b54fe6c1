//! Tables of entries: each kernel of the library stands in one line, which is its name.
//!
//! A name says all about an entry: `gemm_sm90_bf16_nt_128x256_s4_plain`. Each family has one table
//! of names, made by `entries!`, and one constant function that reads a name. A line of the table
//! gives
//! - the value in `ALL`, from which the host chooses;
//! - the kernel function, since the kernels crate passes the names to a macro of its own;
//! - the name by which the host loads the kernel.
//!
//! An entry value is made by reading a name of the table, and in no other way. So the host cannot
//! choose a tile for which there is no kernel.

use crate::DType;

/// Makes the table of a family's entries.
///
/// ```text
/// entries! { $ ScanEntry {
///     /// Kernels for every GPU.
///     scan_portable { scan_f32(f32); scan_f64(f64); }
///     scan_sm80 { scan_sm80_bf16(bf16); }
/// } }
/// ```
/// `ScanEntry` has the function `const fn read(name: &'static str) -> Self`, and gets the constant
/// `ALL`. Each list becomes an exported macro: `abi::scan_portable!(kernels)` calls
/// `kernels! { scan_f32(f32); scan_f64(f64); }` in the crate of the kernels. The tokens after a name
/// are for that macro alone: a type that a signature spells out, or a function.
///
/// The `$` at the front is passed on, because a macro cannot write one into a macro that it makes.
macro_rules! entries {
    ($d:tt $entry:ident { $(
        $(#[$doc:meta])*
        $list:ident { $($name:ident $(($($of_kernel:tt)*))?;)* }
    )* }) => {
        impl $entry {
            /// Every entry, in the order of the table.
            pub const ALL: &[Self] = &[$($(Self::read(stringify!($name)),)*)*];

            /// The names of all entries, in the same order.
            pub const NAMES: &[&str] = &[$($(stringify!($name),)*)*];

            /// The first entry for which `is` holds.
            pub fn find(is: impl Fn(&Self) -> bool) -> Option<Self> {
                Self::ALL.iter().find(|&entry| is(entry)).copied()
            }

            /// The name by which the kernel is loaded.
            pub const fn name(&self) -> &'static str {
                self.name
            }
        }

        impl core::fmt::Display for $entry {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.name)
            }
        }

        $(
            $(#[$doc])*
            #[doc(hidden)]
            #[macro_export]
            macro_rules! $list {
                ($d kernels:ident) => {
                    $d kernels! { $($name $(($($of_kernel)*))?;)* }
                };
            }
        )*
    };
}
pub(crate) use entries;

/// The names of all kernels: those of every family's table.
pub fn all_names() -> impl Iterator<Item = &'static str> {
    use crate::attention::{self, decode, sm75, sm80, sm90};
    use crate::attention_grad;
    use crate::elementwise::{CopyEntry, FusedEntry, TransposeEntry};
    use crate::gather::TakeEntry;
    use crate::gemm;
    let tables = [
        crate::SingleEntry::NAMES,
        attention::SimtEntry::NAMES,
        attention_grad::SimtGradEntry::NAMES,
        attention_grad::sm80::Sm80GradEntry::NAMES,
        attention_grad::sm90::Sm90GradEntry::NAMES,
        decode::DecodeEntry::NAMES,
        sm75::Sm75Entry::NAMES,
        sm80::Sm80Entry::NAMES,
        sm90::FwdEntry::NAMES,
        CopyEntry::NAMES,
        FusedEntry::NAMES,
        TransposeEntry::NAMES,
        TakeEntry::NAMES,
        gemm::DoubleEntry::NAMES,
        gemm::FinishEntry::NAMES,
        gemm::MmaEntry::NAMES,
        gemm::SimtEntry::NAMES,
        gemm::decode::DecodeEntry::NAMES,
        gemm::decode::sm90::Sm90DecodeEntry::NAMES,
        gemm::ragged::RaggedEntry::NAMES,
        gemm::sm90::Sm90Entry::NAMES,
        crate::reduce::ReduceEntry::NAMES,
        crate::rotary::RotaryEntry::NAMES,
        crate::rows::RowEntry::NAMES,
        crate::scan::ScanEntry::NAMES,
        crate::scatter::ScatterEntry::NAMES,
        crate::scatter_add::ScatterAddEntry::NAMES,
        crate::topk::TopKEntry::NAMES,
    ];
    tables.into_iter().flatten().copied()
}

/// What is left of a name, read part by part from the left. Parts end at `_`.
pub(crate) struct Parts {
    bytes: &'static [u8],
    at: usize,
}

impl Parts {
    pub(crate) const fn of(name: &'static str) -> Self {
        Self {
            bytes: name.as_bytes(),
            at: 0,
        }
    }

    /// Reads `part` if it comes next, whole; says whether it did.
    pub(crate) const fn take(&mut self, part: &str) -> bool {
        let part = part.as_bytes();
        let end = self.at + part.len();
        let is_whole = end == self.bytes.len() || end < self.bytes.len() && self.bytes[end] == b'_';
        if !is_whole {
            return false;
        }
        let mut i = 0;
        while i < part.len() {
            if self.bytes[self.at + i] != part[i] {
                return false;
            }
            i += 1;
        }
        self.at = if end == self.bytes.len() {
            end
        } else {
            end + 1
        };
        true
    }

    /// Reads `part`, which must come next.
    pub(crate) const fn expect(&mut self, part: &str) {
        assert!(self.take(part), "an entry's name lacks a part");
    }

    /// Reads a dtype, if one comes next.
    pub(crate) const fn dtype(&mut self) -> Option<DType> {
        let mut i = 0;
        while i < DType::ALL.len() {
            if self.take(DType::ALL[i].name()) {
                return Some(DType::ALL[i]);
            }
            i += 1;
        }
        None
    }

    /// Reads a dtype, which must come next.
    pub(crate) const fn expect_dtype(&mut self) -> DType {
        match self.dtype() {
            Some(dtype) => dtype,
            None => panic!("an entry's name lacks a dtype"),
        }
    }

    /// Reads a number that follows `prefix`: the 4 of `s4`. None may be missing.
    pub(crate) const fn number(&mut self, prefix: &str) -> u32 {
        let numbers: [u32; 1] = self.numbers(prefix);
        numbers[0]
    }

    /// Reads numbers with an `x` between them, after `prefix`: those of `128x256`.
    pub(crate) const fn numbers<const N: usize>(&mut self, prefix: &str) -> [u32; N] {
        let prefix = prefix.as_bytes();
        let mut i = 0;
        while i < prefix.len() {
            assert!(
                self.at < self.bytes.len() && self.bytes[self.at] == prefix[i],
                "an entry's name lacks a number"
            );
            self.at += 1;
            i += 1;
        }
        let mut numbers = [0; N];
        let mut i = 0;
        while i < N {
            let begin = self.at;
            while self.at < self.bytes.len() && self.bytes[self.at].is_ascii_digit() {
                numbers[i] = 10 * numbers[i] + (self.bytes[self.at] - b'0') as u32;
                self.at += 1;
            }
            assert!(self.at > begin, "an entry's name lacks a number");
            i += 1;
            let separator = if i < N { b'x' } else { b'_' };
            if self.at < self.bytes.len() {
                assert!(self.bytes[self.at] == separator, "a number is not whole");
                self.at += 1;
            }
        }
        numbers
    }

    /// Holds that all of the name has been read.
    pub(crate) const fn end(&self) {
        assert!(
            self.at == self.bytes.len(),
            "an entry's name has a part too many"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_part_by_part() {
        let mut parts = Parts::of("gemm_sm90_bf16_128x256_s4_plain_fused");
        parts.expect("gemm_sm90");
        assert!(!parts.take("bf"), "half of a part");
        assert_eq!(parts.dtype(), Some(DType::Bf16));
        assert_eq!(parts.dtype(), None);
        assert_eq!(parts.numbers(""), [128, 256]);
        assert_eq!(parts.number("s"), 4);
        assert!(parts.take("plain_fused"));
        parts.end();
    }

    #[test]
    #[should_panic(expected = "a part too many")]
    fn a_name_is_read_to_its_end() {
        Parts::of("scan_f32").end();
    }
}
