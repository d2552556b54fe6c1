//! Asynchronous copies, clusters and tensor cores, used through `cuda_std` by the kernels of
//! `device_std/`. Operands are integers, so the answers are exact.

use half::bf16;
use warpsmith::testing::devices;
use warpsmith::{
    Device, DeviceBuffer, Element, Kernel, KernelArgs, LaunchConfig, TensorMapDesc,
    TensorMapSwizzle, TensorMapType,
};

const AMPERE: &str = include_str!("../device_std/ptx/sm_80/ampere.ptx");
const HOPPER: &str = include_str!("../device_std/ptx/sm_90a/hopper.ptx");

const ROLES: &str = include_str!("../device_std/ptx/sm_90a/roles.ptx");

/// Devices that can run code for sm_90a.
fn hoppers() -> impl Iterator<Item = Device> {
    let devices = devices().into_iter();
    devices.filter(|device| device.is_emulator() || device.arch() == (9, 0))
}

fn kernel(device: &Device, text: &str, name: &str) -> Kernel {
    device
        .load_ptx(text)
        .and_then(|module| module.kernel(name))
        .unwrap_or_else(|error| panic!("{name} on {}: {error}", device.name()))
}

fn launch(kernel: &Kernel, config: LaunchConfig, arguments: impl KernelArgs) {
    let stream = kernel.device().stream().expect("there is a stream");
    // SAFETY: each test passes what the kernel's documentation requires.
    unsafe { kernel.launch(&stream, config, arguments) }.expect("it starts");
    stream.synchronize().expect("it runs");
}

fn buffer<T: Element>(device: &Device, values: &[T]) -> DeviceBuffer<T> {
    DeviceBuffer::from_slice(device, values).expect("the device has memory")
}

fn values<T: Element>(buffer: &DeviceBuffer<T>) -> Vec<T> {
    buffer.to_vec().expect("the buffer can be read")
}

/// Small integers that differ from place to place.
fn matrix(size: usize, seed: usize) -> Vec<i32> {
    let cells = 0..size * size;
    cells
        .map(|i| ((i * 7 + i / size * 13 + seed) % 17) as i32 - 8)
        .collect()
}

fn bf16s(matrix: &[i32]) -> Vec<bf16> {
    matrix.iter().map(|x| bf16::from_f32(*x as f32)).collect()
}

/// `a @ b^T`, or `a @ b` if B is stored k by n.
fn product(size: usize, a: &[i32], b: &[i32], b_is_k_by_n: bool) -> Vec<f32> {
    let b_at = |k: usize, n: usize| {
        if b_is_k_by_n {
            b[k * size + n]
        } else {
            b[n * size + k]
        }
    };
    let cell = |at: usize| {
        let (m, n) = (at / size, at % size);
        let sum: i32 = (0..size).map(|k| a[m * size + k] * b_at(k, n)).sum();
        sum as f32
    };
    (0..size * size).map(cell).collect()
}

#[test]
fn a_warp_copies_loads_and_multiplies() {
    let (a, b) = (matrix(16, 1), matrix(16, 5));
    for device in devices() {
        let (a_device, b_device) = (buffer(&device, &bf16s(&a)), buffer(&device, &bf16s(&b)));
        let mut d = buffer(&device, &[f32::NAN; 256]);
        let kernel = kernel(&device, AMPERE, "warp_product");
        launch(
            &kernel,
            LaunchConfig::linear(1, 32),
            (&a_device, &b_device, &mut d),
        );
        assert_eq!(
            values(&d),
            product(16, &a, &b, false),
            "on {}",
            device.name()
        );
    }
}

#[test]
fn bulk_copies_go_through_shared_memory() {
    let x: Vec<f32> = (0..128).map(|i| i as f32).collect();
    let want: Vec<f32> = x.iter().map(|x| 2.0 * x).collect();
    for device in hoppers() {
        let x = buffer(&device, &x);
        let mut y = buffer(&device, &[f32::NAN; 128]);
        let kernel = kernel(&device, HOPPER, "bulk_double");
        launch(&kernel, LaunchConfig::linear(1, 128), (&x, &mut y));
        assert_eq!(values(&y), want, "on {}", device.name());
    }
}

#[test]
fn a_warpgroup_multiplies_swizzled_tiles() {
    let (a, b) = (matrix(64, 3), matrix(64, 11));
    let desc = TensorMapDesc::new(TensorMapType::Bf16, &[64, 64], &[128], &[64, 64])
        .swizzle(TensorMapSwizzle::B128);
    for device in hoppers() {
        let (a_device, b_device) = (buffer(&device, &bf16s(&a)), buffer(&device, &bf16s(&b)));
        let map = |tensor: &DeviceBuffer<bf16>| {
            let map = desc.encode(tensor).expect("the map is by the rules");
            buffer(&device, map.bytes().as_slice())
        };
        let (map_a, map_b) = (map(&a_device), map(&b_device));
        for (name, b_is_k_by_n) in [("tile_product_nt", false), ("tile_product_nn", true)] {
            let mut d = buffer(&device, &[f32::NAN; 64 * 64]);
            let kernel = kernel(&device, HOPPER, name);
            let config = LaunchConfig::linear(1, 128).shared_bytes(2 * 8192 + 1024);
            launch(&kernel, config, (&map_a, &map_b, &mut d));
            let want = product(64, &a, &b, b_is_k_by_n);
            assert_eq!(values(&d), want, "{name} on {}", device.name());
        }
    }
}

#[test]
fn blocks_of_a_cluster_write_to_each_other() {
    for device in hoppers() {
        let mut out = buffer(&device, &[0_u32; 16]);
        let kernel = kernel(&device, HOPPER, "cluster_answers");
        launch(&kernel, LaunchConfig::linear(4, 32), (&mut out,));
        let want = [
            [101, 1, 2, 0],
            [100, 0, 2, 0],
            [101, 1, 2, 1],
            [100, 0, 2, 1],
        ];
        assert_eq!(values(&out), want.as_flattened(), "on {}", device.name());
    }
}

#[test]
fn a_producer_loads_for_a_consumer_that_stores_and_adds() {
    let (a, b) = (matrix(64, 2), matrix(64, 9));
    let desc = TensorMapDesc::new(TensorMapType::Bf16, &[64, 64], &[128], &[64, 64])
        .swizzle(TensorMapSwizzle::B128);
    let want = product(64, &a, &b, false);
    let want: Vec<f32> = want
        .into_iter()
        .map(|x| 2.0 * bf16::from_f32(x).to_f32())
        .collect();
    for device in hoppers() {
        let tensors = [bf16s(&a), bf16s(&b), vec![bf16::NAN; 64 * 64]];
        let tensors = tensors.map(|tensor| buffer(&device, &tensor));
        let maps = tensors.each_ref().map(|tensor| {
            let map = desc.encode(tensor).expect("the map is by the rules");
            buffer(&device, map.bytes().as_slice())
        });
        let kernel = kernel(&device, ROLES, "producer_and_consumer");
        let config = LaunchConfig::linear(1, 256).shared_bytes(3 * 8192 + 1024);
        launch(&kernel, config, (&maps[0], &maps[1], &maps[2]));
        let got: Vec<f32> = values(&tensors[2]).into_iter().map(bf16::to_f32).collect();
        assert_eq!(got, want, "on {}", device.name());
    }
}

#[test]
fn blocks_of_a_cluster_load_for_each_other() {
    let x: Vec<f32> = (0..128).map(|i| i as f32).collect();
    for device in hoppers() {
        let x_device = buffer(&device, &x);
        let mut out = buffer(&device, &[f32::NAN; 256]);
        let kernel = kernel(&device, ROLES, "multicast_halves");
        launch(&kernel, LaunchConfig::linear(2, 128), (&x_device, &mut out));
        assert_eq!(values(&out), [&x[..], &x].concat(), "on {}", device.name());
    }
}
