//! Where a row is between its one read and its one write: the parts that softmax, norms and
//! cross-entropy are made of. The host chooses which of these holds a row.
//!
//! | file | holds a row |
//! |---|---|
//! | `held` | in registers |
//! | `slices` | in shared memory of a block, or of a cluster's blocks |
//! | `ring` | the same, in persistent blocks that load the next rows meanwhile |
//! | `short` | the same, where a warp has a row or several |
//! | `loose` | in shared memory or nowhere, element by element |
//!
//! `ends` divides rows that begin anywhere. `group` and `words` are the reductions over a row's
//! threads, `moments` and `packed` the arithmetic, `pace` is how persistent blocks keep pace with
//! each other.

pub(crate) mod anywhere;
pub(crate) mod ends;
pub(crate) mod group;
pub(crate) mod held;
pub(crate) mod loose;
pub(crate) mod moments;
pub(crate) mod pace;
pub(crate) mod packed;
pub(crate) mod policy;
pub(crate) mod ring;
pub(crate) mod short;
pub(crate) mod slices;
pub(crate) mod words;

/// How the entry `$name` of `abi::rows` holds rows in registers.
macro_rules! holding {
    ($name:ident) => {
        const { abi::rows::RowEntry::read(stringify!($name)).holding() }
    };
}
pub(crate) use holding;

/// Blocks of the entry `$name` of `abi::rows` that run on an SM, with rows in slices.
macro_rules! slice_blocks {
    ($name:ident) => {
        const { abi::rows::RowEntry::read(stringify!($name)).slice_blocks() }
    };
}
pub(crate) use slice_blocks;

/// Whether the entry `$name` of `abi::rows` takes rows that begin anywhere.
macro_rules! takes_any {
    ($name:ident) => {
        const {
            abi::rows::RowEntry::read(stringify!($name))
                .variant
                .takes_any()
        }
    };
}
pub(crate) use takes_any;

/// Elements of a vector.
pub(crate) const fn lanes<T>() -> usize {
    abi::rows::VECTOR_BYTES as usize / size_of::<T>()
}
