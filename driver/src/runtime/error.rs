//! Codes of the runtime API, and the last error of each thread.

use std::cell::Cell;
use std::ffi::{CStr, c_char};

use crate::code::Code;

/// Codes that the driver API lacks: number, name, text.
const OF_RUNTIME: [(u32, &CStr, &CStr); 7] = [
    (
        9,
        c"cudaErrorInvalidConfiguration",
        c"invalid configuration argument",
    ),
    (12, c"cudaErrorInvalidPitchValue", c"invalid pitch argument"),
    (13, c"cudaErrorInvalidSymbol", c"invalid device symbol"),
    (
        17,
        c"cudaErrorInvalidDevicePointer",
        c"invalid device pointer",
    ),
    (
        21,
        c"cudaErrorInvalidMemcpyDirection",
        c"invalid copy direction for memcpy",
    ),
    (
        52,
        c"cudaErrorMissingConfiguration",
        c"__global__ function call is not configured",
    ),
    (
        98,
        c"cudaErrorInvalidDeviceFunction",
        c"invalid device function",
    ),
];

pub(super) const INVALID_CONFIGURATION: Code = Code::of_runtime(9);
pub(super) const INVALID_PITCH: Code = Code::of_runtime(12);
pub(super) const INVALID_SYMBOL: Code = Code::of_runtime(13);
pub(super) const INVALID_DIRECTION: Code = Code::of_runtime(21);
pub(super) const MISSING_CONFIGURATION: Code = Code::of_runtime(52);
pub(super) const INVALID_FUNCTION: Code = Code::of_runtime(98);

thread_local! {
    static LAST: Cell<Code> = const { Cell::new(Code::SUCCESS) };
}

/// Keeps an error of the calling thread until it is asked for.
pub(super) fn keep(code: Code) {
    if !matches!(code, Code::SUCCESS | Code::NOT_READY) {
        LAST.set(code);
    }
}

fn of_runtime(code: u32) -> Option<(&'static CStr, &'static CStr)> {
    let found = OF_RUNTIME.iter().find(|(number, ..)| *number == code);
    found.map(|(_, name, text)| (*name, *text))
}

/// Exports a function that cannot fail, and so returns something else than an answer.
macro_rules! plain {
    ($(fn $symbol:ident($($argument:ident: $type:ty)?) -> $result:ty $body:block)*) => {
        $(
            // SAFETY: the name is the API's, and no other item of the crate has it.
            #[unsafe(no_mangle)]
            extern "C" fn $symbol($($argument: $type)?) -> $result $body
        )*
    };
}

plain! {
    fn cudaGetLastError() -> Code {
        LAST.replace(Code::SUCCESS)
    }

    fn cudaPeekAtLastError() -> Code {
        LAST.get()
    }

    fn cudaGetErrorName(code: u32) -> *const c_char {
        let known = Code::runtime_name(code).or(of_runtime(code).map(|(name, _)| name));
        known.unwrap_or(c"unrecognized error code").as_ptr()
    }

    fn cudaGetErrorString(code: u32) -> *const c_char {
        let known = Code::described(code).or(of_runtime(code));
        known.map_or(c"unrecognized error code", |(_, text)| text).as_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pointer: *const c_char) -> &'static CStr {
        // SAFETY: names and texts are static.
        unsafe { CStr::from_ptr(pointer) }
    }

    #[test]
    fn errors_have_the_names_of_the_runtime() {
        assert_eq!(text(cudaGetErrorName(0)), c"cudaSuccess");
        assert_eq!(text(cudaGetErrorName(719)), c"cudaErrorLaunchFailure");
        assert_eq!(text(cudaGetErrorString(719)), c"unspecified launch failure");
        assert_eq!(
            text(cudaGetErrorName(98)),
            c"cudaErrorInvalidDeviceFunction"
        );
        assert_eq!(text(cudaGetErrorString(12_345)), c"unrecognized error code");
    }

    #[test]
    fn the_last_error_stays_until_it_is_asked_for() {
        keep(INVALID_SYMBOL);
        keep(Code::SUCCESS);
        assert_eq!(cudaPeekAtLastError(), INVALID_SYMBOL);
        assert_eq!(cudaGetLastError(), INVALID_SYMBOL);
        assert_eq!(cudaGetLastError(), Code::SUCCESS);
    }
}
