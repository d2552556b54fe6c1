//! What only a GPU can show: foreign streams, the pool, the cost of a launch. Without a GPU
//! these tests have nothing to run on and pass; `WARPSMITH_TEST_DEVICE=gpu` makes that an error.

use cudarc::driver::{CudaContext, DevicePtr as _, sys};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::CString;
use std::time::Instant;
use warpsmith::testing::devices;
use warpsmith::{Device, DeviceBuffer, DevicePtr, Gemm, LaunchConfig, Softmax, Stream, Tensor};

const BASIC: &str = include_str!("kernels/basic.ptx");

fn gpus() -> impl Iterator<Item = Device> {
    devices().into_iter().filter(|device| !device.is_emulator())
}

#[test]
fn work_on_a_stream_of_someone_else_is_ordered_and_its_memory_safe() {
    for device in gpus() {
        let owner = device.stream().expect("a stream");
        let module = device.load_ptx(BASIC).expect("loads");
        let kernel = module.kernel("count_slowly").expect("the kernel is there");
        for _ in 0..4 {
            // SAFETY: a live stream of the primary context, and `owner` outlives it.
            let foreign = unsafe { Stream::from_raw(&device, owner.as_raw()) };
            let mut counter = DeviceBuffer::<u32>::zeros(&foreign, 1).expect("allocates");
            // SAFETY: one u32 to count in.
            unsafe {
                kernel.launch(
                    &foreign,
                    LaunchConfig::linear(1, 1),
                    (&mut counter, 20_000_u32),
                )
            }
            .expect("launches");
            drop(foreign);
            assert_eq!(counter.to_vec().expect("reads"), [20_000]);
        }
        // The legacy default stream, as the null handle.
        // SAFETY: null names the context's default stream, which always lives.
        let legacy = unsafe { Stream::from_raw(&device, std::ptr::null_mut()) };
        let mut values = DeviceBuffer::<u32>::zeros(&legacy, 100).expect("allocates");
        values.fill(3, &legacy).expect("fills");
        legacy.synchronize().expect("no fault");
        assert_eq!(values.to_vec().expect("reads"), [3; 100]);
    }
}

/// cudarc and this library share the device's primary context.
#[test]
fn kernels_run_on_the_streams_and_the_memory_of_cudarc() {
    for device in gpus().take(1) {
        let context = CudaContext::new(0).expect("the first GPU");
        let theirs = context.new_stream().expect("a stream");
        let x: Vec<f32> = (0..1000).map(|i| i as f32).collect();
        let x = theirs.clone_htod(&x).expect("copies");
        let y = theirs.clone_htod(&[0.5_f32; 1000]).expect("copies");
        theirs.synchronize().expect("no fault");
        let (x_address, _) = x.device_ptr(&theirs);
        let (y_address, _) = y.device_ptr(&theirs);

        // SAFETY: a live stream of the primary context, and `theirs` outlives it.
        let ours = unsafe { Stream::from_raw(&device, theirs.cu_stream().cast()) };
        // SAFETY: 1000 elements that are written, alive until the end of the block.
        let y_of_ours = unsafe { DeviceBuffer::<f32>::borrowed(&device, y_address, 1000) };
        let kernel = device.load_ptx(BASIC).expect("loads").kernel("axpy");
        let params = 1000_u64 | u64::from(2.0_f32.to_bits()) << 32; // { n, a }
        let args = (DevicePtr::<f32>::from_raw(x_address), &y_of_ours, params);
        // SAFETY: 1000 elements each, alive until the synchronize below.
        unsafe {
            kernel
                .expect("there")
                .launch(&ours, LaunchConfig::linear(8, 128), args)
        }
        .expect("launches");
        let want: Vec<f32> = (0..1000).map(|i| 2.0 * i as f32 + 0.5).collect();
        assert_eq!(theirs.clone_dtoh(&y).expect("copies"), want);

        let tensor = Tensor::from_buffer(y_of_ours, &[10, 100]).expect("1000 elements");
        assert_eq!(tensor.to_vec().expect("reads"), want);
        tensor.fill(3.0, &ours).expect("fills");
        assert_eq!(theirs.clone_dtoh(&y).expect("copies"), [3.0; 1000]);
    }
}

#[test]
fn a_loop_that_allocates_and_frees_takes_no_new_memory_after_the_first_round() {
    for device in gpus() {
        let stream = device.stream().expect("a stream");
        let round = || {
            let mut a = DeviceBuffer::<f32>::uninit(&stream, 1 << 20).expect("allocates");
            let b = DeviceBuffer::<f32>::zeros(&stream, 1 << 20).expect("allocates");
            a.copy_from_buffer(&b, &stream).expect("copies");
        };
        round();
        stream.synchronize().expect("no fault");
        let before = device.memory().expect("memory").free_bytes;
        for _ in 0..1000 {
            round();
        }
        stream.synchronize().expect("no fault");
        // Other tests of this process allocate little at the same time.
        let after = device.memory().expect("memory").free_bytes;
        assert!(
            before.saturating_sub(after) < 256 << 20,
            "{before} free, then {after}"
        );
    }
}

/// Counts the allocations of the calling thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all work is the system allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Best time of one of 200 launches, over 20 rounds.
fn best_ns(stream: &Stream, mut launch: impl FnMut()) -> u128 {
    let mut best = u128::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        for _ in 0..200 {
            launch();
        }
        best = best.min(start.elapsed().as_nanos() / 200);
        stream.synchronize().expect("no fault");
    }
    best
}

#[test]
fn a_launch_costs_little_more_than_the_drivers_and_allocates_nothing() {
    for device in gpus() {
        let stream = device.stream().expect("a stream");
        let module = device.load_ptx(BASIC).expect("loads");
        let kernel = module.kernel("axpy").expect("the kernel is there");
        let x = DeviceBuffer::<f32>::zeros(&stream, 32).expect("allocates");
        let mut y = DeviceBuffer::<f32>::zeros(&stream, 32).expect("allocates");
        let config = LaunchConfig::linear(1, 32);
        let mut launch = || {
            // SAFETY: both have 32 elements; params are { n, a } as their bits.
            unsafe { kernel.launch(&stream, config, (&x, &mut y, 32_u64)) }.expect("launches");
        };
        launch();
        let before = ALLOCATIONS.get();
        launch();
        assert_eq!(ALLOCATIONS.get(), before, "a launch allocated on the host");
        let ours = best_ns(&stream, launch);

        // The same launch by the driver itself.
        let function = raw_axpy();
        let (x, y, params) = (x.device_ptr().as_raw(), y.device_ptr().as_raw(), 32_u64);
        let mut args = [&x, &y, &params].map(|arg| std::ptr::from_ref(arg).cast_mut().cast());
        let bare = best_ns(&stream, || {
            // SAFETY: as above; the arguments live until the call returns.
            let code = unsafe {
                let (args, none) = (args.as_mut_ptr(), std::ptr::null_mut());
                let stream = stream.as_raw().cast();
                sys::cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, args, none)
            };
            assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
        });
        println!("host time of a launch: {ours} ns, of the driver's own call: {bare} ns");
        assert!(
            ours < bare + 5_000,
            "{ours} ns, the driver's own call takes {bare} ns"
        );
    }
}

/// `axpy` loaded past our library, in the context that it made current.
fn raw_axpy() -> sys::CUfunction {
    let text = CString::new(BASIC).expect("no zero bytes");
    let (mut module, mut function) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: text and name end with a zero, the places are valid; the module is never unloaded.
    let codes = unsafe {
        [
            sys::cuModuleLoadData(&raw mut module, text.as_ptr().cast()),
            sys::cuModuleGetFunction(&raw mut function, module, c"axpy".as_ptr()),
        ]
    };
    assert_eq!(codes, [sys::CUresult::CUDA_SUCCESS; 2]);
    function
}

#[test]
fn an_operation_allocates_no_device_memory_after_the_first() {
    for device in gpus() {
        let stream = device.stream().expect("a stream");
        let a = Tensor::<f32>::full(&stream, &[256, 256], 0.5).expect("allocates");
        let first = Instant::now();
        let d = Gemm::new(&a, &a).run(&stream).expect("runs");
        stream.synchronize().expect("no fault");
        println!(
            "first product, with the driver's compile: {:?}",
            first.elapsed()
        );
        assert_eq!(d.to_vec().expect("reads"), vec![64.0; 256 * 256]);
        let before = device.memory().expect("memory").free_bytes;
        for _ in 0..100 {
            let d = Gemm::new(&a, &a).run(&stream).expect("runs");
            let p = Softmax::new(&d).run(&stream).expect("runs");
            assert_eq!(p.shape(), [256, 256]);
        }
        stream.synchronize().expect("no fault");
        let after = device.memory().expect("memory").free_bytes;
        assert!(
            before.saturating_sub(after) < 256 << 20,
            "{before} free, then {after}"
        );
    }
}
