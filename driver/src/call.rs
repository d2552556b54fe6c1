//! How a function of the API is stated: once, by [`entries`].

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::code::{Answer, Code};
use crate::report;

/// A function as `cuGetProcAddress` finds it.
pub(crate) struct Entry {
    /// The exported symbol, such as `cuMemAlloc_v2`.
    pub(crate) symbol: &'static str,
    /// The name that programs ask for, such as `cuMemAlloc`.
    pub(crate) name: &'static str,
    /// The CUDA version that introduced this form, as 1000 * major + 10 * minor.
    pub(crate) since: u32,
    /// Where the code is.
    pub(crate) address: *const (),
}

impl Entry {
    /// Whether stream 0 means the calling thread's own default stream here.
    pub(crate) fn is_per_thread(&self) -> bool {
        self.symbol.ends_with("_ptsz") || self.symbol.ends_with("_ptds")
    }
}

/// Runs the body of a function. A panic ends here: it must not unwind into C.
pub(crate) fn run(symbol: &'static str, body: impl FnOnce() -> Answer) -> Code {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Code::SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => {
            report::note(format_args!(
                "{symbol} panicked: this is a bug of the driver"
            ));
            Code::UNKNOWN
        }
    }
}

/// States functions of the API, as `fn symbol | alias: "name" @ version (arguments) { body }`. Each
/// gives an exported function for the symbol and for each alias, and an [`Entry`] for each in the
/// file's `ENTRIES`. The body answers with [`Answer`].
macro_rules! entries {
    ($(
        fn $symbol:ident $(| $alias:ident)* : $name:literal @ $since:literal $arguments:tt
        $body:block
    )*) => {
        $(
            $crate::call::exported!($crate::call::run; $symbol $arguments $body);
            $($crate::call::forwarded!($alias to $symbol $arguments);)*
        )*

        /// The functions of this file.
        pub(crate) const ENTRIES: &[$crate::call::Entry] = &[$(
            $crate::call::entry!($symbol, $name, $since),
            $($crate::call::entry!($alias, $name, $since),)*
        )*];
    };
}

/// An entry of the table.
macro_rules! entry {
    ($symbol:ident, $name:literal, $since:literal) => {
        $crate::call::Entry {
            symbol: stringify!($symbol),
            name: $name,
            since: $since,
            address: $symbol as *const (),
        }
    };
}

/// An exported function, whose body is run by `$run`.
macro_rules! exported {
    ($run:path; $symbol:ident ($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        // SAFETY: the name is the API's, and no other item of the crate has it.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $symbol($($argument: $type),*) -> $crate::code::Code {
            $run(stringify!($symbol), move || $body)
        }
    };
}

/// An exported function that calls another.
macro_rules! forwarded {
    ($alias:ident to $symbol:ident ($($argument:ident: $type:ty),* $(,)?)) => {
        // SAFETY: the name is the API's, and no other item of the crate has it.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $alias($($argument: $type),*) -> $crate::code::Code {
            // SAFETY: both have the same contract with their caller.
            unsafe { $symbol($($argument),*) }
        }
    };
}

/// Exports functions that do nothing. `cuGetProcAddress` does not find them: a program then knows
/// that they are missing.
macro_rules! missing {
    ($($symbol:ident)*) => {
        $(
            // SAFETY: the name is the API's, and no other item of the crate has it. Callers pass
            // arguments in C's convention, where the caller removes them, so none are declared.
            #[unsafe(no_mangle)]
            extern "C" fn $symbol() -> $crate::code::Code {
                $crate::report::unsupported(stringify!($symbol));
                $crate::code::Code::NOT_SUPPORTED
            }
        )*
    };
}

pub(crate) use {entries, entry, exported, forwarded, missing};
