//! What keeps a kernel from being composed.

/// Why a kernel cannot be composed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FuseError {
    /// The text has no function of that name.
    #[error("the PTX has no fragment `{name}`; it has {known}")]
    UnknownFragment {
        /// Name asked for.
        name: Box<str>,
        /// Those that there are.
        known: Box<str>,
    },
    /// The text has no kernel of that name.
    #[error("the PTX has no kernel `{name}`")]
    UnknownSkeleton {
        /// Name asked for.
        name: Box<str>,
    },
    /// A function that is no fragment: cuda_builder refuses it too.
    #[error("`{name}` is no fragment: {reason}")]
    NotAFragment {
        /// The function.
        name: Box<str>,
        /// What makes it none.
        reason: Box<str>,
    },
    /// A fragment was given another number of arguments than it takes.
    #[error("fragment `{fragment}` takes {want} arguments, got {got}")]
    ArgumentCount {
        /// The fragment.
        fragment: Box<str>,
        /// How many it was given.
        got: usize,
        /// How many it takes.
        want: usize,
    },
    /// A fragment was given a value of another type than it takes.
    #[error("argument {index} of fragment `{fragment}` is {want}, got {got}")]
    ArgumentType {
        /// The fragment.
        fragment: Box<str>,
        /// Which argument, from 0.
        index: usize,
        /// Type of the value.
        got: super::Scalar,
        /// Type of the parameter.
        want: super::Scalar,
    },
    /// A value of another body.
    #[error("value {index} is not of this body, which has {len}")]
    UnknownValue {
        /// The value's number.
        index: usize,
        /// Values of the body.
        len: usize,
    },
    /// A hole that nobody fills.
    #[error("hole `{hole}` of kernel `{kernel}` is not filled")]
    Unfilled {
        /// The hole.
        hole: Box<str>,
        /// The kernel.
        kernel: Box<str>,
    },
    /// A filling that does not fit its hole.
    #[error("hole `{hole}` of kernel `{kernel}` does not take this: {reason}")]
    Misfit {
        /// The hole.
        hole: Box<str>,
        /// The kernel.
        kernel: Box<str>,
        /// What does not fit.
        reason: Box<str>,
    },
}
