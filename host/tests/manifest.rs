//! Modules that are loaded with their manifest, on every device that there is
//! (`WARPSMITH_TEST_DEVICE` chooses).

use ptx_syntax::manifest::{
    FORMAT, KernelEntry, Manifest, ModuleEntry, ParamEntry, Toolchain, hash,
};
use warpsmith::testing::devices;
use warpsmith::{Device, DeviceBuffer, Error, KernelError, LaunchConfig};

const BASIC: &str = include_str!("kernels/basic.ptx");
const KERNEL: &str = "reverse_in_shared";
/// What its entry states.
const BYTES: u32 = 512;

/// A manifest of [`BASIC`], in which only [`KERNEL`] states its dynamic shared memory.
fn manifest(device: &Device) -> Manifest {
    let module = device.load_ptx(BASIC).expect("the test's PTX loads");
    let kernel = |name: &str| {
        let kernel = module.kernel(name).expect("it is there");
        let params = kernel.params().iter().map(|param| ParamEntry {
            name: "x".to_owned(),
            ty: "u32".to_owned(),
            size: param.size_bytes,
            align: param.align_bytes,
        });
        KernelEntry {
            name: name.to_owned(),
            params: params.collect(),
            max_threads: None,
            min_blocks: None,
            cluster: None,
            static_shared_bytes: 0,
            dynamic_shared_bytes: (name == KERNEL).then_some(BYTES),
            registers: None,
        }
    };
    Manifest {
        format: FORMAT,
        toolchain: Toolchain {
            rustc: "1".to_owned(),
            llvm: "2".to_owned(),
            cuda_builder: "3".to_owned(),
        },
        modules: vec![ModuleEntry {
            path: "sm_75/basic.ptx".to_owned(),
            arch: "sm_75".to_owned(),
            hash: hash(BASIC),
            kernels: module.kernel_names().map(kernel).collect(),
            fragments: Vec::new(),
        }],
    }
}

fn text(manifest: &Manifest) -> String {
    serde_json::to_string(manifest).expect("it can be written")
}

#[test]
fn a_launch_with_less_dynamic_shared_memory_than_the_kernel_states_is_refused() {
    for device in devices() {
        let manifest = text(&manifest(&device));
        let module = device.load_built(BASIC, &manifest).expect("loads");
        let kernel = module.kernel(KERNEL).expect("it is there");
        assert_eq!(kernel.least_dynamic_shared_bytes(), BYTES);
        let stream = device.stream().expect("a stream");
        let mut out = DeviceBuffer::<u32>::zeros(&stream, 64).expect("allocates");
        for (bytes, is_enough) in [(0, false), (BYTES - 1, false), (BYTES, true), (1024, true)] {
            let config = LaunchConfig::linear(1, 64).shared_bytes(bytes);
            // SAFETY: 64 threads write 64 elements; they use the last 256 bytes of `bytes`.
            let launched = unsafe { kernel.launch(&stream, config, (&mut out, bytes)) };
            if is_enough {
                launched.expect("launches");
                continue;
            }
            let error = launched.expect_err("too little");
            let Error::Kernel(KernelError::TooLittleSharedMemory {
                got_bytes,
                want_bytes,
                ..
            }) = error
            else {
                panic!("{error:?}");
            };
            assert_eq!((got_bytes, want_bytes), (bytes, BYTES));
            assert_eq!(
                error.to_string(),
                format!(
                    "kernel `{KERNEL}`: {bytes} bytes of dynamic shared memory, and it needs {BYTES}"
                )
            );
        }
        // Without a manifest, nobody knows.
        let module = device.load_ptx(BASIC).expect("loads");
        let kernel = module.kernel(KERNEL).expect("it is there");
        assert_eq!(kernel.least_dynamic_shared_bytes(), 0);
    }
}

#[test]
fn embedded_kernels_are_held_to_what_they_state() {
    const NAME: &str = "gemm_sm90_bf16_nt_128x128_s6_pp_plain";
    let emulator = Device::emulator().expect("a device");
    let hopper = devices()
        .into_iter()
        .filter(|device| device.arch() == (9, 0));
    for device in hopper.chain([emulator]) {
        let kernel = device.builtin_kernel(NAME).expect("it is embedded");
        let want = kernel.least_dynamic_shared_bytes();
        assert!(want > 100 << 10, "{want}");
        let stream = device.stream().expect("a stream");
        let config = LaunchConfig::linear(1, 384).shared_bytes(want - 1);
        // SAFETY: it is not launched.
        let refused = unsafe { kernel.launch(&stream, config, ()) };
        assert!(
            matches!(refused, Err(Error::Kernel(KernelError::TooLittleSharedMemory { want_bytes, .. })) if want_bytes == want),
            "{refused:?}"
        );
    }
}

#[test]
fn a_manifest_of_something_else_is_refused() {
    for device in devices() {
        let good = manifest(&device);
        let mut other_text = good.clone();
        other_text.modules[0].hash = hash("another text");
        let mut no_kernel = good.clone();
        no_kernel.modules[0].kernels.pop();
        let mut another_parameter = good.clone();
        another_parameter.modules[0].kernels[0].params[0].size += 1;
        let mut another_format = good.clone();
        another_format.format += 1;
        let wrong = [other_text, no_kernel, another_parameter, another_format];
        let texts = wrong.iter().map(text).chain(["{}".to_owned()]);
        for text in texts {
            let refused = device.load_built(BASIC, &text);
            assert!(
                matches!(refused, Err(Error::Kernel(KernelError::Manifest { .. }))),
                "{refused:?} of {text}"
            );
        }
    }
}
