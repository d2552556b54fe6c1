//! Modules and launches, on every device that there is (`WARPSMITH_TEST_DEVICE` chooses).

use warpsmith::testing::devices;
use warpsmith::{
    ArgumentError, Device, DeviceBuffer, DevicePtr, Error, KernelArg, KernelError, LaunchConfig,
    Module,
};

const BASIC: &str = include_str!("kernels/basic.ptx");

warpsmith::kernel_param! {
    /// Parameters of `axpy`.
    pub(crate) struct AxpyParams {
        pub(crate) n: u32,
        pub(crate) a: f32,
    }
}

fn basic(device: &Device) -> Module {
    device.load_ptx(BASIC).expect("the test's PTX loads")
}

#[test]
fn a_launch_passes_buffers_structs_and_every_scalar() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let module = basic(&device);
        let n = 1000_u32;
        let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let x = DeviceBuffer::from_slice(&device, &x).expect("allocates");
        let mut y = DeviceBuffer::zeros(&stream, n as usize).expect("allocates");
        y.fill(0.5, &stream).expect("fills");
        let axpy = module.kernel("axpy").expect("the kernel is there");
        let config = LaunchConfig::for_elements(n.into(), 128);
        assert_eq!(config.grid, [8, 1, 1]);
        // SAFETY: x and y have n elements.
        unsafe { axpy.launch(&stream, config, (&x, &mut y, AxpyParams { n, a: 2.0 })) }
            .expect("launches");
        let want: Vec<f32> = (0..n).map(|i| 2.0 * i as f32 + 0.5).collect();
        assert_eq!(y.to_vec().expect("reads"), want);

        let mut sum = DeviceBuffer::<f64>::zeros(&stream, 1).expect("allocates");
        let add = module.kernel("add_scalars").expect("the kernel is there");
        let one = LaunchConfig::linear(1, 1);
        let args = (
            &mut sum,
            200_u8,
            60_000_u16,
            4_000_000_000_u32,
            1_u64 << 40,
            0.5_f32,
            0.25,
        );
        // SAFETY: the kernel writes one f64.
        unsafe { add.launch(&stream, one, args) }.expect("launches");
        let want = 200.0 + 60_000.0 + 4e9 + (1_u64 << 40) as f64 + 0.5 + 0.25;
        assert_eq!(sum.to_vec().expect("reads"), [want]);

        let args = (&mut sum, true, 2_u16, 'A', 0_u64, 0.5_f32, 0.25);
        // SAFETY: the kernel writes one f64; to it, a bool is 0 or 1 and a char its number.
        unsafe { add.launch(&stream, one, args) }.expect("launches");
        assert_eq!(sum.to_vec().expect("reads"), [1.0 + 2.0 + 65.0 + 0.75]);

        // The same with arguments that are known at run time only.
        let pointer = sum.device_ptr();
        let args: [&dyn KernelArg; 7] =
            [&pointer, &1_u8, &2_u16, &3_u32, &4_u64, &5.0_f32, &6.0_f64];
        // SAFETY: as above; `sum` outlives the launch.
        unsafe { add.launch(&stream, one, &args[..]) }.expect("launches");
        assert_eq!(sum.to_vec().expect("reads"), [21.0]);
    }
}

#[test]
fn arguments_that_are_not_the_kernels_are_refused_and_nothing_runs() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let module = basic(&device);
        let axpy = module.kernel("axpy").expect("the kernel is there");
        assert_eq!(axpy.params().len(), 3);
        assert_eq!(axpy.params()[2].size_bytes, 8);
        let mut y = DeviceBuffer::<f32>::zeros(&stream, 4).expect("allocates");
        let params = AxpyParams { n: 4, a: 1.0 };
        let one = LaunchConfig::linear(1, 4);
        let null = DevicePtr::<f32>::NULL;

        // SAFETY: each is refused before anything runs, which is what this test shows.
        unsafe {
            let too_few = axpy.launch(&stream, one, (&mut y, params));
            assert!(matches!(
                too_few,
                Err(Error::Kernel(KernelError::ArgumentCount {
                    got: 2,
                    want: 3,
                    ..
                }))
            ));
            let too_many = axpy.launch(&stream, one, (&mut y, null, params, 1_u32));
            assert!(matches!(
                too_many,
                Err(Error::Kernel(KernelError::ArgumentCount {
                    got: 4,
                    want: 3,
                    ..
                }))
            ));
            let wrong_size = axpy.launch(&stream, one, (null, &mut y, 1_u32));
            assert!(matches!(
                wrong_size,
                Err(Error::Kernel(KernelError::ArgumentSize {
                    index: 2,
                    got_bytes: 4,
                    want_bytes: 8,
                    ..
                }))
            ));
            let swapped = axpy.launch(&stream, one, (1_u32, &mut y, params));
            assert!(matches!(
                swapped,
                Err(Error::Kernel(KernelError::ArgumentSize { index: 0, .. }))
            ));
        }
        assert_eq!(y.to_vec().expect("reads"), [0.0; 4]);
    }
}

#[test]
fn extents_that_no_launch_or_no_device_has_are_refused_and_nothing_runs() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let axpy = basic(&device).kernel("axpy").expect("the kernel is there");
        let y = DeviceBuffer::<f32>::zeros(&stream, 4).expect("allocates");
        let good = (
            DevicePtr::<f32>::NULL,
            y.device_ptr(),
            AxpyParams { n: 0, a: 0.0 },
        );
        let one = LaunchConfig::linear(1, 4);
        // SAFETY: each is refused before anything runs, which is what this test shows.
        unsafe {
            let no_grid = LaunchConfig {
                grid: [1, 0, 1],
                ..one
            };
            let refused = axpy.launch(&stream, no_grid, good);
            assert!(matches!(
                refused,
                Err(Error::Kernel(KernelError::EmptyLaunch { what: "grid", .. }))
            ));
            let no_block = LaunchConfig {
                block: [0, 1, 1],
                ..one
            };
            let refused = axpy.launch(&stream, no_block, good);
            assert!(matches!(
                refused,
                Err(Error::Kernel(KernelError::EmptyLaunch {
                    what: "block",
                    ..
                }))
            ));
            for config in [
                LaunchConfig {
                    block: [1025, 1, 1],
                    ..one
                },
                LaunchConfig {
                    block: [32, 33, 1],
                    ..one
                },
                LaunchConfig {
                    block: [1, 1, 65],
                    ..one
                },
                LaunchConfig {
                    grid: [1, 65_536, 1],
                    ..one
                },
                LaunchConfig {
                    grid: [u32::MAX, 1, 1],
                    ..one
                },
                one.shared_bytes(device.info().max_shared_bytes_per_block + 1),
            ] {
                let refused = axpy.launch(&stream, config, good);
                assert!(
                    matches!(refused, Err(Error::Kernel(KernelError::LaunchLimit { .. }))),
                    "{config:?}"
                );
            }
        }
        assert_eq!(y.to_vec().expect("reads"), [0.0; 4]);
    }
}

#[test]
fn the_threads_that_a_kernel_says_are_its_limit() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let module = basic(&device);
        // SAFETY: the kernels have no arguments, and touch no memory.
        unsafe {
            let bounded = module
                .kernel("at_most_64_threads")
                .expect("the kernel is there");
            bounded
                .launch(&stream, LaunchConfig::linear(1, 64), ())
                .expect("fits");
            let refused = bounded.launch(&stream, LaunchConfig::linear(1, 65), ());
            assert!(matches!(
                refused,
                Err(Error::Kernel(KernelError::LaunchLimit {
                    got: 65,
                    limit: 64,
                    ..
                }))
            ));

            let exact = module
                .kernel("exactly_32_by_2_threads")
                .expect("the kernel is there");
            let fits = LaunchConfig {
                block: [32, 2, 1],
                ..LaunchConfig::linear(1, 1)
            };
            exact.launch(&stream, fits, ()).expect("fits");
            let refused = exact.launch(&stream, LaunchConfig::linear(1, 64), ());
            assert!(matches!(
                refused,
                Err(Error::Argument(ArgumentError::Value { what: "block", .. }))
            ));
        }
    }
}

#[test]
fn dynamic_shared_memory_is_there_up_to_the_devices_limit() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let module = basic(&device);
        let look_up = || module.kernel("reverse_in_shared").expect("it is there");
        let (kernel, again) = (look_up(), look_up());
        let limit = kernel.max_dynamic_shared_bytes();
        // A driver may keep a kilobyte of each block for itself.
        let most = device.info().max_shared_bytes_per_block;
        assert!(
            limit <= most && limit + 1024 >= most,
            "{limit} of {most} bytes"
        );
        // What one asked for, the other does not take away.
        for (kernel, bytes) in [
            (&kernel, 256),
            (&kernel, 48 << 10),
            (&kernel, limit),
            (&again, limit - 4096),
            (&kernel, limit),
        ] {
            let mut out = DeviceBuffer::<u32>::zeros(&stream, 64).expect("allocates");
            let config = LaunchConfig::linear(1, 64).shared_bytes(bytes);
            // SAFETY: 64 threads write 64 elements; they use the last 256 bytes of `bytes`.
            unsafe { kernel.launch(&stream, config, (&mut out, bytes)) }.expect("launches");
            let want: Vec<u32> = (0..64).rev().collect();
            assert_eq!(out.to_vec().expect("reads"), want, "{bytes} bytes");
        }
    }
}

#[test]
fn modules_that_do_not_load_say_why() {
    for device in devices() {
        let broken = BASIC.replace("bar.sync 0;", "bar.sync ;;}");
        let error = device.load_ptx(&broken).expect_err("it does not parse");
        assert!(
            matches!(
                error,
                Error::Kernel(KernelError::PtxSyntax { line: 2.., .. })
            ),
            "{error}"
        );

        // Grammar is kept, but there is no such instruction. The emulator refuses only its kernel.
        let unknown = BASIC.replace("fma.rn.f32", "fmaaa.rn.f32");
        let loaded = device.load_ptx(&unknown);
        let kernel = loaded.and_then(|module| module.kernel("axpy"));
        let error = kernel.expect_err("no device takes it");
        assert!(error.to_string().contains("fmaaa"), "{error}");

        let error = basic(&device)
            .kernel("nothing")
            .expect_err("there is no such kernel");
        assert!(matches!(error, Error::Kernel(KernelError::Unknown { .. })));
        assert!(error.to_string().contains("axpy, count_slowly"), "{error}");
        let error = device
            .builtin_kernel("nothing")
            .expect_err("there is no such kernel");
        assert!(
            matches!(
                error,
                Error::Kernel(KernelError::Missing { .. })
                    | Error::Kernel(KernelError::Manifest { .. })
            ),
            "{error}"
        );
    }
}

#[test]
fn a_kernel_with_more_parameters_than_a_launch_takes_is_refused() {
    for device in devices() {
        let params: Vec<String> = (0..65).map(|i| format!(".param .u32 p{i}")).collect();
        let params = params.join(", ");
        let ptx = format!(
            ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry wide({params}) {{ ret; }}"
        );
        let error = device
            .load_ptx(&ptx)
            .expect("loads")
            .kernel("wide")
            .expect_err("65 is more");
        assert!(
            matches!(error, Error::Argument(ArgumentError::Unsupported { .. })),
            "{error}"
        );
    }
}
