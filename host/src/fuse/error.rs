//! Errors of composing a kernel.

/// Why a kernel could not be composed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FuseError {
    /// The PTX has no function with this name.
    #[error("the PTX has no fragment `{name}`; it has {known}")]
    UnknownFragment {
        /// The requested name.
        name: Box<str>,
        /// Names of the functions that it has.
        known: Box<str>,
    },
    /// The PTX has no kernel with this name.
    #[error("the PTX has no kernel `{name}`")]
    UnknownSkeleton {
        /// The requested name.
        name: Box<str>,
    },
    /// A function is not a valid fragment: its signature differs, or it calls functions or uses
    /// local memory. cuda_builder refuses such a function too.
    #[error("`{name}` is not a fragment: {reason}")]
    NotAFragment {
        /// The function.
        name: Box<str>,
        /// Which rule it breaks.
        reason: Box<str>,
    },
    /// A fragment was applied to a wrong number of arguments.
    #[error("fragment `{fragment}` takes {want} arguments, got {got}")]
    ArgumentCount {
        /// The fragment.
        fragment: Box<str>,
        /// Number of arguments given.
        got: usize,
        /// Number of its parameters.
        want: usize,
    },
    /// A fragment was applied to a value of the wrong type.
    #[error("argument {index}, counted from 0, of fragment `{fragment}` is {want}, got {got}")]
    ArgumentType {
        /// The fragment.
        fragment: Box<str>,
        /// Index of the argument, from 0.
        index: usize,
        /// Type of the value.
        got: super::Scalar,
        /// Type of the parameter.
        want: super::Scalar,
    },
    /// A value belongs to another body.
    #[error("value {index} is not of this body, which has {len}")]
    UnknownValue {
        /// Index of the value.
        index: usize,
        /// Number of values of this body.
        len: usize,
    },
    /// A hole was not filled.
    #[error("hole `{hole}` of kernel `{kernel}` is not filled")]
    Unfilled {
        /// The hole.
        hole: Box<str>,
        /// The kernel.
        kernel: Box<str>,
    },
    /// A filling does not fit its hole.
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
