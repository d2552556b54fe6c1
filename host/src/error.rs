//! The error type of this crate.

mod kinds;

#[cfg(feature = "emulator")]
pub use kinds::EmulatorError;
pub use kinds::{ArgumentError, DeviceError, KernelError, ShapeError};

/// What went wrong, with the value that was found and the values that are allowed.
///
/// The variants are grouped by who has to act. These are the caller (shapes, arguments), the
/// machine (no driver, out of memory, a failing driver call), and this build or the author of a
/// kernel (kernels, the emulator's reports). [`Error::Bug`] is for the authors of this crate.
/// Operations check their arguments before they launch anything.
#[derive(thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// Operands do not fit: their shapes, axes, strides, or the memory that they share.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// An option has a value that is not valid, or not supported.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// A device is missing, is another one than the call's, or failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A kernel cannot be found, loaded or launched.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// What the emulator reports.
    #[cfg(feature = "emulator")]
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// An error of an operation, with its name; [`root`](Error::root) is the error itself.
    #[error("{operation}: {error}")]
    In {
        /// The operation.
        operation: &'static str,
        /// Its error.
        error: Box<Error>,
    },
    /// An inconsistency inside of this library. Please report it.
    #[error("bug in warpsmith: {0}")]
    Bug(&'static str),
}

impl Error {
    /// The error without the name of the operation.
    pub fn root(&self) -> &Self {
        match self {
            Self::In { error, .. } => error.root(),
            error => error,
        }
    }

    /// Whether it is an [`ArgumentError::Unsupported`]: no kernel does what was asked.
    pub fn is_unsupported(&self) -> bool {
        matches!(
            self.root(),
            Self::Argument(ArgumentError::Unsupported { .. })
        )
    }

    /// A [`ShapeError::Mismatch`].
    pub(crate) fn shape(
        operand: &'static str,
        got: impl Into<Box<[usize]>>,
        want: impl Into<Box<str>>,
    ) -> Self {
        let (got, want) = (got.into(), want.into());
        ShapeError::Mismatch { operand, got, want }.into()
    }

    /// A [`ShapeError::Strides`].
    pub(crate) fn strides(
        operand: &'static str,
        got: impl Into<Box<[i64]>>,
        want: impl Into<Box<str>>,
    ) -> Self {
        let (got, want) = (got.into(), want.into());
        ShapeError::Strides { operand, got, want }.into()
    }

    /// A [`ShapeError::Length`].
    pub(crate) fn length(what: &'static str, got: usize, want: usize) -> Self {
        ShapeError::Length { what, got, want }.into()
    }

    /// A [`ShapeError::OutOfBounds`].
    pub(crate) fn out_of_bounds(what: &'static str, got: u64, limit: u64) -> Self {
        ShapeError::OutOfBounds { what, got, limit }.into()
    }

    /// A [`ShapeError::Overlap`].
    pub(crate) fn overlap(output: &'static str, other: &'static str) -> Self {
        ShapeError::Overlap { output, other }.into()
    }

    /// An [`ArgumentError::Value`].
    pub(crate) fn value(
        what: &'static str,
        got: impl Into<Box<str>>,
        want: impl Into<Box<str>>,
    ) -> Self {
        let (got, want) = (got.into(), want.into());
        ArgumentError::Value { what, got, want }.into()
    }

    /// An [`ArgumentError::Unsupported`].
    pub(crate) fn unsupported(what: impl Into<Box<str>>, supported: impl Into<Box<str>>) -> Self {
        let (what, supported) = (what.into(), supported.into());
        ArgumentError::Unsupported { what, supported }.into()
    }
}

/// Runs an operation, whose errors then begin with its name.
pub(crate) fn named<T>(operation: &'static str, run: impl FnOnce() -> Result<T>) -> Result<T> {
    run().map_err(|error| Error::In {
        operation,
        error: Box::new(error),
    })
}

/// [`std::result::Result`] with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<crate::fuse::FuseError> for Error {
    fn from(error: crate::fuse::FuseError) -> Self {
        Self::Kernel(KernelError::Fuse(Box::new(error)))
    }
}

/// Errors whose `Debug` is their text.
macro_rules! debug_as_text {
    ($($error:ident)*) => {$(
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{self}")
            }
        }
    )*};
}

debug_as_text! { Error ShapeError ArgumentError DeviceError KernelError }
#[cfg(feature = "emulator")]
debug_as_text! { EmulatorError }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_stays_small_enough_to_return_by_value() {
        assert!(size_of::<Error>() <= 64, "{} bytes", size_of::<Error>());
    }

    #[test]
    fn debug_is_what_a_person_reads() {
        let error = Error::Device(DeviceError::NoDevice {
            ordinal: 3,
            count: 1,
        });
        assert_eq!(format!("{error:?}"), error.to_string());
    }

    #[test]
    fn an_operation_names_itself_first() {
        let axis = || ShapeError::Axis { axis: 2, rank: 1 };
        let refused = named("softmax", || Err::<(), _>(axis().into()));
        let error = refused.expect_err("no axis");
        assert_eq!(error.to_string(), "softmax: axis is 2, want -1 to 0");
        assert!(matches!(error.root(), Error::Shape(shape) if *shape == axis()));
    }

    #[test]
    fn error_can_cross_threads() {
        fn check<T: Send + Sync + 'static>() {}
        check::<Error>();
    }
}
