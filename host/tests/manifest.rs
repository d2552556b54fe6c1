//! Modules that are loaded with their manifest, on every device that there is
//! (`WARPSMITH_TEST_DEVICE` chooses).

use crate::launch::AxpyParams;
use ptx_syntax::manifest::{
    FORMAT, KernelEntry, Manifest, ModuleEntry, ParamEntry, Toolchain, hash,
};
use warpsmith::half::bf16;
use warpsmith::testing::devices;
use warpsmith::{
    Device, DeviceBuffer, Error, KernelArg, KernelError, LaunchConfig, Strided, Tensor,
};

const BASIC: &str = include_str!("kernels/basic.ptx");
const KERNEL: &str = "reverse_in_shared";
/// What its entry states.
const BYTES: u32 = 512;

/// A manifest of [`BASIC`], in which only [`KERNEL`] states its dynamic shared memory.
fn manifest(device: &Device) -> Manifest {
    let module = device.load_ptx(BASIC).expect("the test's PTX loads");
    let kernel = |name: &str| {
        let kernel = module.kernel(name).expect("it is there");
        let declared = declared(name).iter().zip(kernel.params());
        let params = declared.map(|(declared, param)| {
            let (name, ty) = declared.split_once(": ").expect("a name and a type");
            ParamEntry {
                name: name.to_owned(),
                ty: ty.to_owned(),
                size: param.size_bytes,
                align: param.align_bytes,
                ..ParamEntry::default()
            }
        });
        KernelEntry {
            name: name.to_owned(),
            params: params.collect(),
            dynamic_shared_bytes: (name == KERNEL).then_some(BYTES),
            ..KernelEntry::default()
        }
    };
    Manifest {
        format: FORMAT,
        krate: "basic".to_owned(),
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

/// The parameters of a kernel of [`BASIC`], as its Rust source would declare them.
fn declared(kernel: &str) -> &'static [&'static str] {
    match kernel {
        "axpy" => &["x: *const f32", "y: *mut f32", "params: AxpyParams"],
        "count_slowly" => &["out: *mut u32", "rounds: u32"],
        KERNEL => &["out: *mut u32", "bytes: u32"],
        "add_scalars" => &[
            "out: *mut f64",
            "a: u8",
            "b: u16",
            "c: u32",
            "d: usize",
            "e: f32",
            "f: f64",
        ],
        _ => &[],
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
fn arguments_of_another_type_than_the_kernel_declares_are_refused() {
    for device in devices() {
        let manifest = text(&manifest(&device));
        let module = device.load_built(BASIC, &manifest).expect("loads");
        let stream = device.stream().expect("a stream");
        let floats = |shape: &[usize]| Tensor::<f32>::zeros(&stream, shape).expect("allocates");
        let x = floats(&[2, 2]);
        let turned = x.t();
        let halves = Tensor::<bf16>::zeros(&stream, &[2, 2]).expect("allocates");
        let numbers = DeviceBuffer::<f64>::zeros(&stream, 1).expect("allocates");
        let wide = DeviceBuffer::<i32>::zeros(&stream, 4).expect("allocates");
        let params = 0_u64;
        let refused = |kernel: &str, args: &[&dyn KernelArg]| {
            let kernel = module.kernel(kernel).expect("it is there");
            // SAFETY: it is not launched.
            let refused = unsafe { kernel.launch(&stream, LaunchConfig::linear(1, 4), args) };
            refused.expect_err("of another type").to_string()
        };
        let begin = "kernel `axpy`: the parameter ";
        assert_eq!(
            refused("axpy", &[&&x, &&halves, &params]),
            format!("{begin}`y: *mut f32` does not take memory of bf16")
        );
        assert_eq!(
            refused("axpy", &[&Some(&wide), &&x, &params]),
            format!("{begin}`x: *const f32` does not take memory of i32")
        );
        assert_eq!(
            refused("axpy", &[&x.device_ptr(), &halves.device_ptr(), &params]),
            format!("{begin}`y: *mut f32` does not take memory of half::bfloat::bf16")
        );
        assert_eq!(
            refused("axpy", &[&&x, &4_usize, &params]),
            format!("{begin}`y: *mut f32` does not take a number of type usize")
        );
        assert_eq!(
            refused("axpy", &[&&turned, &&x, &params]),
            format!(
                "{begin}`x: *const f32` does not take a view of f32 that is not contiguous, with \
                 shape [2, 2] and strides [1, 2] (`Strided(&view)` passes it to a kernel that takes \
                 strides)"
            )
        );
        let begin = "kernel `add_scalars`: the parameter ";
        let mut args: [&dyn KernelArg; 7] =
            [&&numbers, &1_u8, &2_u16, &3_u32, &4.0_f64, &5_f32, &6_f64];
        assert_eq!(
            refused("add_scalars", &args),
            format!("{begin}`d: usize` does not take a number of type f64")
        );
        let address = &numbers;
        args[4] = &address;
        assert_eq!(
            refused("add_scalars", &args),
            format!("{begin}`d: usize` does not take memory of f64")
        );
    }
}

#[test]
fn a_view_is_passed_to_a_kernel_that_takes_strides() {
    for device in devices() {
        let manifest = text(&manifest(&device));
        let module = device.load_built(BASIC, &manifest).expect("loads");
        let axpy = module.kernel("axpy").expect("it is there");
        let stream = device.stream().expect("a stream");
        let x = Tensor::from_slice(&device, &[2, 2], &[1_f32, 2.0, 3.0, 4.0]).expect("uploads");
        let turned = x.t();
        let y = Tensor::<f32>::zeros(&stream, &[4]).expect("allocates");
        let params = AxpyParams { n: 4, a: 2.0 };
        let args = (Strided(&turned), &y, params);
        // SAFETY: x and y have 4 elements, and 4 threads.
        unsafe { axpy.launch(&stream, LaunchConfig::linear(1, 4), args) }.expect("launches");
        assert_eq!(y.to_vec().expect("reads"), [2.0, 4.0, 6.0, 8.0]);
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
