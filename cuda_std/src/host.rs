//! The host side of device-only functions: a panic that names the function.

/// Panics with the message that `function` runs on a GPU only.
#[cfg(not(target_arch = "nvptx64"))]
#[cold]
pub(crate) fn device_only(function: &str) -> ! {
    panic!("cuda_std::{function} runs on a GPU only; launch the kernel on a device or the emulator")
}

/// The body of a device-only function: `$body` on nvptx64, a panic that names the function
/// elsewhere.
macro_rules! on_device {
    ($name:expr, ($($argument:expr),*), $body:block) => {{
        #[cfg(target_arch = "nvptx64")]
        {
            $body
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            $(let _ = $argument;)*
            $crate::host::device_only($name)
        }
    }};
}
