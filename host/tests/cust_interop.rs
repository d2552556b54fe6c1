//! Launches and operations on cust's streams and device pointers. Needs a GPU to do more than
//! link, and the feature `cust`; see `host/scripts/cuda-stub.sh` for a machine without a driver.

use cust::memory::CopyDestination;
use warpsmith::testing::devices;
use warpsmith::{DeviceBuffer, DevicePtr, LaunchConfig, Stream, Tensor};

const BASIC: &str = include_str!("kernels/basic.ptx");

#[test]
fn our_kernels_run_on_custs_streams_and_memory() {
    let Some(device) = devices().into_iter().find(|device| !device.is_emulator()) else {
        eprintln!("no GPU: cust's side cannot run");
        return;
    };
    let _context = cust::quick_init().expect("cust finds the same driver");
    let theirs = cust::stream::Stream::new(cust::stream::StreamFlags::NON_BLOCKING, None)
        .expect("cust makes a stream");
    let x: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let x = cust::memory::DeviceBuffer::from_slice(&x).expect("cust allocates");
    let y = cust::memory::DeviceBuffer::from_slice(&[0.5_f32; 1000]).expect("cust allocates");

    // SAFETY: `theirs` is a stream of the primary context and outlives `ours`.
    let ours = unsafe { Stream::from_cust(&device, &theirs) };
    let kernel = device
        .load_ptx(BASIC)
        .expect("loads")
        .kernel("axpy")
        .expect("it is there");
    let x_ptr = DevicePtr::from(x.as_device_ptr());
    let y_ptr = DevicePtr::from(y.as_device_ptr());
    let params = 1000_u64 | u64::from(2.0_f32.to_bits()) << 32; // { n, a }
    // SAFETY: 1000 elements each, alive until the synchronize below.
    unsafe { kernel.launch(&ours, LaunchConfig::linear(8, 128), (x_ptr, y_ptr, params)) }
        .expect("launches");
    theirs.synchronize().expect("no fault");
    let mut result = vec![0.0_f32; 1000];
    y.copy_to(&mut result[..]).expect("cust copies");
    assert!(
        result
            .iter()
            .enumerate()
            .all(|(i, &value)| value == 2.0 * i as f32 + 0.5)
    );

    // The other way round: cust's memory as our tensor.
    // SAFETY: `y` outlives the tensor, and cust's stream is idle.
    let buffer = unsafe { DeviceBuffer::from_cust(&device, &y) };
    let tensor = Tensor::from_buffer(buffer, &[10, 100]).expect("1000 elements");
    assert_eq!(tensor.to_vec().expect("reads"), result);
    tensor.fill(3.0, &ours).expect("fills");
    drop(tensor);
    theirs.synchronize().expect("no fault");
    y.copy_to(&mut result[..]).expect("cust copies");
    assert!(result.iter().all(|&value| value == 3.0));
}
