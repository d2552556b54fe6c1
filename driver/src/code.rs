//! Result codes with their names and texts.

use std::ffi::CStr;

/// A result of the driver API, `CUresult`, or of the runtime API, `cudaError_t`: what both have has
/// the same number in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Code(u32);

impl Code {
    /// A code of the runtime API that the driver API lacks.
    pub(crate) const fn of_runtime(value: u32) -> Self {
        Self(value)
    }

    /// The code as an answer.
    pub(crate) fn answer(self) -> Answer {
        match self {
            Self::SUCCESS => Ok(()),
            code => Err(code),
        }
    }
}

/// What a function answers; the error is what it returns.
pub(crate) type Answer<T = ()> = Result<T, Code>;

macro_rules! codes {
    ($($name:ident = $value:literal, $text:literal, $runtime:literal;)*) => {
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

            /// The name of a code in the runtime API.
            pub(crate) fn runtime_name(value: u32) -> Option<&'static CStr> {
                let name = match value {
                    $($value => concat!($runtime, "\0"),)*
                    _ => return None,
                };
                CStr::from_bytes_until_nul(name.as_bytes()).ok()
            }
        }
    };
}

codes! {
    SUCCESS = 0, "no error", "cudaSuccess";
    INVALID_VALUE = 1, "invalid argument", "cudaErrorInvalidValue";
    OUT_OF_MEMORY = 2, "out of memory", "cudaErrorMemoryAllocation";
    NOT_INITIALIZED = 3, "initialization error", "cudaErrorInitializationError";
    DEINITIALIZED = 4, "driver shutting down", "cudaErrorCudartUnloading";
    STUB_LIBRARY = 34, "CUDA driver is a stub library", "cudaErrorStubLibrary";
    NO_DEVICE = 100, "no CUDA-capable device is detected", "cudaErrorNoDevice";
    INVALID_DEVICE = 101, "invalid device ordinal", "cudaErrorInvalidDevice";
    INVALID_IMAGE = 200, "device kernel image is invalid", "cudaErrorInvalidKernelImage";
    INVALID_CONTEXT = 201, "invalid device context", "cudaErrorDeviceUninitialized";
    NO_BINARY_FOR_GPU = 209, "no kernel image is available for execution on the device", "cudaErrorNoKernelImageForDevice";
    UNSUPPORTED_LIMIT = 215, "limit is not supported on this architecture", "cudaErrorUnsupportedLimit";
    PEER_ACCESS_UNSUPPORTED = 217, "peer access is not supported between these two devices", "cudaErrorPeerAccessUnsupported";
    INVALID_PTX = 218, "a PTX JIT compilation failed", "cudaErrorInvalidPtx";
    UNSUPPORTED_PTX_VERSION = 222, "the provided PTX was compiled with an unsupported toolchain", "cudaErrorUnsupportedPtxVersion";
    INVALID_SOURCE = 300, "device kernel image is invalid", "cudaErrorInvalidSource";
    FILE_NOT_FOUND = 301, "file not found", "cudaErrorFileNotFound";
    OPERATING_SYSTEM = 304, "OS call failed or operation not supported on this OS", "cudaErrorOperatingSystem";
    INVALID_HANDLE = 400, "invalid resource handle", "cudaErrorInvalidResourceHandle";
    ILLEGAL_STATE = 401, "the operation cannot be performed in the present state", "cudaErrorIllegalState";
    NOT_FOUND = 500, "named symbol not found", "cudaErrorSymbolNotFound";
    NOT_READY = 600, "device not ready", "cudaErrorNotReady";
    ILLEGAL_ADDRESS = 700, "an illegal memory access was encountered", "cudaErrorIllegalAddress";
    LAUNCH_OUT_OF_RESOURCES = 701, "too many resources requested for launch", "cudaErrorLaunchOutOfResources";
    LAUNCH_TIMEOUT = 702, "the launch timed out and was terminated", "cudaErrorLaunchTimeout";
    PEER_ACCESS_NOT_ENABLED = 705, "peer access has not been enabled", "cudaErrorPeerAccessNotEnabled";
    PRIMARY_CONTEXT_ACTIVE = 708, "the primary context is active", "cudaErrorSetOnActiveProcess";
    CONTEXT_IS_DESTROYED = 709, "context is destroyed", "cudaErrorContextIsDestroyed";
    ASSERT = 710, "device-side assert triggered", "cudaErrorAssert";
    HOST_MEMORY_ALREADY_REGISTERED = 712,
        "part or all of the requested memory range is already mapped", "cudaErrorHostMemoryAlreadyRegistered";
    HOST_MEMORY_NOT_REGISTERED = 713, "pointer does not correspond to a registered memory region", "cudaErrorHostMemoryNotRegistered";
    HARDWARE_STACK_ERROR = 714, "hardware stack error", "cudaErrorHardwareStackError";
    ILLEGAL_INSTRUCTION = 715, "an illegal instruction was encountered", "cudaErrorIllegalInstruction";
    MISALIGNED_ADDRESS = 716, "misaligned address", "cudaErrorMisalignedAddress";
    INVALID_ADDRESS_SPACE = 717, "operation not supported on global/shared address space", "cudaErrorInvalidAddressSpace";
    INVALID_PC = 718, "invalid program counter", "cudaErrorInvalidPc";
    LAUNCH_FAILED = 719, "unspecified launch failure", "cudaErrorLaunchFailure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, "too many blocks in cooperative launch", "cudaErrorCooperativeLaunchTooLarge";
    NOT_PERMITTED = 800, "operation not permitted", "cudaErrorNotPermitted";
    NOT_SUPPORTED = 801, "operation not supported", "cudaErrorNotSupported";
    STREAM_CAPTURE_UNSUPPORTED = 900, "operation not permitted when stream is capturing", "cudaErrorStreamCaptureUnsupported";
    STREAM_CAPTURE_INVALIDATED = 901,
        "operation failed due to a previous error during capture",
        "cudaErrorStreamCaptureInvalidated";
    STREAM_CAPTURE_MERGE = 902, "operation would result in a merge of separate capture sequences",
        "cudaErrorStreamCaptureMerge";
    STREAM_CAPTURE_UNMATCHED = 903, "capture was not ended in the same stream as it began",
        "cudaErrorStreamCaptureUnmatched";
    STREAM_CAPTURE_UNJOINED = 904, "capturing stream has unjoined work",
        "cudaErrorStreamCaptureUnjoined";
    STREAM_CAPTURE_ISOLATION = 905, "dependency created on uncaptured work in another stream",
        "cudaErrorStreamCaptureIsolation";
    STREAM_CAPTURE_IMPLICIT = 906,
        "operation would make the legacy stream depend on a capturing blocking stream",
        "cudaErrorStreamCaptureImplicit";
    CAPTURED_EVENT = 907,
        "operation not permitted on an event last recorded in a capturing stream",
        "cudaErrorCapturedEvent";
    STREAM_CAPTURE_WRONG_THREAD = 908,
        "attempt to terminate a thread-local capture sequence from another thread",
        "cudaErrorStreamCaptureWrongThread";
    GRAPH_EXEC_UPDATE_FAILURE = 910, "the graph update was not performed",
        "cudaErrorGraphExecUpdateFailure";
    INVALID_CLUSTER_SIZE = 912, "the cluster size is invalid", "cudaErrorInvalidClusterSize";
    UNKNOWN = 999, "unknown error", "cudaErrorUnknown";
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
