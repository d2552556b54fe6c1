//! Tables of entries: each kernel of the library stands in one line, which is its name.
//!
//! A name says all about an entry: `gemm_sm90_bf16_nt_128x256_s4_plain`. Each family has one table
//! of names, made by `entries!`, and one constant function that reads a name. A line of the table
//! gives
//! - the value in `ALL`, from which the host chooses;
//! - the parameter blocks that a launch passes ([`Entry`]);
//! - the kernel function, since the kernels crate passes the names to a macro of its own;
//! - the name by which the host loads the kernel.
//!
//! An entry value is made by reading a name of the table, and in no other way. So the host cannot
//! choose a tile for which there is no kernel.

use crate::param::bytes_of;
use crate::{DType, KernelParam};

/// An entry of a table. Its type states which parameter blocks a launch passes, so a launch with the
/// blocks of another family does not compile:
///
/// ```compile_fail
/// use abi::entry::Entry;
/// use abi::rows::RowParams;
/// use abi::scan::ScanEntry;
/// fn launch<E: Entry>(_: E, _: &E::Params) {}
/// fn run(entry: ScanEntry, params: &RowParams) {
///     launch(entry, params); // a scan takes `ScanParams`
/// }
/// ```
pub trait Entry: Copy {
    /// The parameter blocks, in the order of the kernel's parameters. They come after all pointers
    /// and tensor maps.
    type Params: Blocks;

    /// The name by which the kernel is loaded.
    fn name(&self) -> &'static str;
}

/// The parameter blocks of a launch: one, or a tuple of them. `None` is a block that some entries of
/// the table take, and the launched one does not.
pub trait Blocks {
    /// Passes the bytes of each block to `visit`, in order.
    fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8]));
}

impl<P: KernelParam> Blocks for P {
    fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8])) {
        visit(bytes_of(self));
    }
}

impl<P: KernelParam> Blocks for Option<P> {
    fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8])) {
        if let Some(block) = self {
            visit(bytes_of(block));
        }
    }
}

macro_rules! tuples {
    ($($($block:ident)*;)*) => {$(
        impl<$($block: Blocks),*> Blocks for ($($block,)*) {
            fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8])) {
                #[allow(non_snake_case)] // the type parameters' names serve as the variables'
                let ($($block,)*) = self;
                $($block.visit(visit);)*
            }
        }
    )*};
}

tuples! {
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
}

/// Most blocks of a launch.
pub const MAX_BLOCKS: usize = 6;

/// Makes the table of a family's entries.
///
/// ```text
/// entries! { $ ScanEntry(ScanParams) {
///     /// Kernels for every GPU.
///     scan_portable { scan_f32(f32); scan_f64(f64); }
///     scan_sm80 { scan_sm80_bf16(bf16); }
/// } }
/// ```
/// `ScanEntry` has the function `const fn read(name: &'static str) -> Self`, and gets the constant
/// `ALL`. It becomes an [`Entry`] whose launches pass `ScanParams`. Each list becomes an exported
/// macro: `abi::scan_portable!(kernels)` calls `kernels! { scan_f32(f32); scan_f64(f64); }` in the
/// crate of the kernels. The tokens after a name are for that macro alone: a type that a signature
/// spells out, or a function.
///
/// The `$` at the front is passed on, because a macro cannot write one into a macro that it makes.
macro_rules! entries {
    ($d:tt $entry:ident($params:ty) { $(
        $(#[$doc:meta])*
        $list:ident { $($name:ident $(($($of_kernel:tt)*))?;)* }
    )* }) => {
        impl $entry {
            /// Every entry, in the order of the table.
            pub const ALL: &[Self] = &[$($(Self::read(stringify!($name)),)*)*];

            /// The table.
            pub(crate) const TABLE: $crate::entry::Table = $crate::entry::Table {
                entry: stringify!($entry),
                module: module_path!(),
                lists: &[$(stringify!($list)),*],
                names: &[$($(stringify!($name),)*)*],
                params: stringify!($params),
            };

            /// The first entry for which `is` holds.
            pub fn find(is: impl Fn(&Self) -> bool) -> Option<Self> {
                Self::ALL.iter().find(|&entry| is(entry)).copied()
            }

            /// The name by which the kernel is loaded.
            pub const fn name(&self) -> &'static str {
                self.name
            }
        }

        impl $crate::entry::Entry for $entry {
            type Params = $params;

            fn name(&self) -> &'static str {
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

/// A table of entries, as data.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// The Rust name of the type of entries, or of the constant that is the only entry.
    pub entry: &'static str,
    /// The Rust path of the module of the table.
    pub module: &'static str,
    /// The names of the lists: those of their macros.
    pub lists: &'static [&'static str],
    /// The names of all entries.
    pub names: &'static [&'static str],
    /// [`Entry::Params`], as the table states it.
    pub params: &'static str,
}

impl Table {
    /// The Rust names of the parameter blocks, in order, and whether all entries take them.
    pub fn blocks(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let blocks = self.params.trim_matches(['(', ')']).split(',');
        blocks
            .map(str::trim)
            .map(|block| match block.strip_prefix("Option<") {
                Some(block) => (block.trim_end_matches('>'), false),
                None => (block, true),
            })
    }
}

/// The tables of all kernels.
pub fn tables() -> impl Iterator<Item = &'static Table> {
    use crate::attention::{self, decode, sm75, sm80, sm90};
    use crate::attention_grad;
    use crate::elementwise::{CopyEntry, FusedEntry, TransposeEntry};
    use crate::gather::TakeEntry;
    use crate::gemm;
    const TABLES: &[Table] = &[
        attention::SimtEntry::TABLE,
        sm75::Sm75Entry::TABLE,
        sm80::Sm80Entry::TABLE,
        sm90::FwdEntry::TABLE,
        decode::DecodeEntry::TABLE,
        attention_grad::SimtGradEntry::TABLE,
        attention_grad::sm80::Sm80GradEntry::TABLE,
        attention_grad::sm90::Sm90GradEntry::TABLE,
        gemm::SimtEntry::TABLE,
        gemm::MmaEntry::TABLE,
        gemm::sm90::Sm90Entry::TABLE,
        gemm::decode::DecodeEntry::TABLE,
        gemm::decode::sm90::Sm90DecodeEntry::TABLE,
        gemm::DoubleEntry::TABLE,
        gemm::FinishEntry::TABLE,
        gemm::ragged::RaggedEntry::TABLE,
        crate::rows::RowEntry::TABLE,
        crate::sort::SortEntry::TABLE,
        crate::topk::TopKEntry::TABLE,
        crate::reduce::ReduceEntry::TABLE,
        crate::scan::ScanEntry::TABLE,
        FusedEntry::TABLE,
        CopyEntry::TABLE,
        TransposeEntry::TABLE,
        TakeEntry::TABLE,
        crate::scatter::ScatterEntry::TABLE,
        crate::scatter::ScatterFewEntry::TABLE,
        crate::scatter_add::ScatterAddEntry::TABLE,
        crate::rotary::RotaryEntry::TABLE,
        crate::kv_append::KvAppendEntry::TABLE,
    ];
    TABLES.iter().chain(crate::single::TABLES)
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
