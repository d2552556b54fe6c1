//! A kernel that faults: an error that names it, and no other answer after that. One test in this
//! file, because a fault ends a GPU's context for the whole process.

use warpsmith::testing::devices;
use warpsmith::{DeviceBuffer, DeviceError, Error, LaunchConfig};

const FAULT: &str = include_str!("kernels/fault.ptx");

#[test]
fn a_fault_of_a_kernel_is_an_error() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let buffer = DeviceBuffer::<u32>::from_slice(&device, &[1, 2]).expect("allocates");
        let kernel = device
            .load_ptx(FAULT)
            .expect("loads")
            .kernel("writes_nowhere");
        let kernel = kernel.expect("the kernel is there");
        // SAFETY: the fault is the point; nothing else runs in this process.
        let launched = unsafe { kernel.launch(&stream, LaunchConfig::linear(1, 1), ()) };
        if device.is_emulator() {
            let report = launched
                .expect_err("the emulator reports at once")
                .to_string();
            assert!(report.contains("writes_nowhere"), "{report}");
            assert!(report.contains("0x10"), "{report}");
            // The emulator's memory is as it was.
            assert_eq!(buffer.to_vec().expect("reads"), [1, 2]);
            continue;
        }
        launched.expect("the launch itself is fine");
        let error = stream.synchronize().expect_err("the fault shows here");
        assert!(
            matches!(error, Error::Device(DeviceError::Driver { .. })),
            "{error}"
        );
        assert!(error.to_string().contains("CUDA_ERROR_"), "{error}");
        let error = buffer.to_vec().expect_err("the context is gone");
        assert!(
            matches!(error, Error::Device(DeviceError::Driver { .. })),
            "{error}"
        );
    }
}
