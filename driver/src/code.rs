//! Result codes with their names and texts.

use std::ffi::CStr;

/// A result of the driver API: `CUresult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Code(u32);

/// What a function answers; the error is what it returns.
pub(crate) type Answer<T = ()> = Result<T, Code>;

macro_rules! codes {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl Code {
            $(#[allow(dead_code, reason = "the table is that of the API")]
            pub(crate) const $name: Self = Self($value);)*

            /// The name and the text of a code; `None` if the API has no such code.
            pub(crate) fn described(value: u32) -> Option<(&'static CStr, &'static CStr)> {
                let (name, text) = match value {
                    $($value => (concat!("CUDA_ERROR_", stringify!($name), "\0"),
                        concat!($text, "\0")),)*
                    _ => return None,
                };
                let name = if value == 0 { "CUDA_SUCCESS\0" } else { name };
                let c = |text: &'static str| CStr::from_bytes_until_nul(text.as_bytes()).ok();
                Some((c(name)?, c(text)?))
            }
        }
    };
}

codes! {
    SUCCESS = 0, "no error";
    INVALID_VALUE = 1, "invalid argument";
    OUT_OF_MEMORY = 2, "out of memory";
    NOT_INITIALIZED = 3, "initialization error";
    DEINITIALIZED = 4, "driver shutting down";
    STUB_LIBRARY = 34, "CUDA driver is a stub library";
    NO_DEVICE = 100, "no CUDA-capable device is detected";
    INVALID_DEVICE = 101, "invalid device ordinal";
    INVALID_IMAGE = 200, "device kernel image is invalid";
    INVALID_CONTEXT = 201, "invalid device context";
    NO_BINARY_FOR_GPU = 209, "no kernel image is available for execution on the device";
    UNSUPPORTED_LIMIT = 215, "limit is not supported on this architecture";
    PEER_ACCESS_UNSUPPORTED = 217, "peer access is not supported between these two devices";
    INVALID_PTX = 218, "a PTX JIT compilation failed";
    UNSUPPORTED_PTX_VERSION = 222, "the provided PTX was compiled with an unsupported toolchain";
    INVALID_SOURCE = 300, "device kernel image is invalid";
    FILE_NOT_FOUND = 301, "file not found";
    OPERATING_SYSTEM = 304, "OS call failed or operation not supported on this OS";
    INVALID_HANDLE = 400, "invalid resource handle";
    ILLEGAL_STATE = 401, "the operation cannot be performed in the present state";
    NOT_FOUND = 500, "named symbol not found";
    NOT_READY = 600, "device not ready";
    ILLEGAL_ADDRESS = 700, "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, "too many resources requested for launch";
    LAUNCH_TIMEOUT = 702, "the launch timed out and was terminated";
    PEER_ACCESS_NOT_ENABLED = 705, "peer access has not been enabled";
    PRIMARY_CONTEXT_ACTIVE = 708, "the primary context is active";
    CONTEXT_IS_DESTROYED = 709, "context is destroyed";
    ASSERT = 710, "device-side assert triggered";
    HOST_MEMORY_ALREADY_REGISTERED = 712,
        "part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED = 713, "pointer does not correspond to a registered memory region";
    HARDWARE_STACK_ERROR = 714, "hardware stack error";
    ILLEGAL_INSTRUCTION = 715, "an illegal instruction was encountered";
    MISALIGNED_ADDRESS = 716, "misaligned address";
    INVALID_ADDRESS_SPACE = 717, "operation not supported on global/shared address space";
    INVALID_PC = 718, "invalid program counter";
    LAUNCH_FAILED = 719, "unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, "too many blocks in cooperative launch";
    NOT_PERMITTED = 800, "operation not permitted";
    NOT_SUPPORTED = 801, "operation not supported";
    STREAM_CAPTURE_UNSUPPORTED = 900, "operation not permitted when stream is capturing";
    INVALID_CLUSTER_SIZE = 912, "the cluster size is invalid";
    UNKNOWN = 999, "unknown error";
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn codes_have_their_names() {
        let described = |code: Code| Code::described(code.0).expect("it is in the table");
        assert_eq!(described(Code::SUCCESS), (c"CUDA_SUCCESS", c"no error"));
        assert_eq!(
            described(Code::ASSERT),
            (c"CUDA_ERROR_ASSERT", c"device-side assert triggered")
        );
        assert_eq!(Code::described(1_000_000), None);
    }
}
