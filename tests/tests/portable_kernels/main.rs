//! The entries of elementwise, launched as `spec` says, against plain f64 loops: strides, alignments
//! and lengths that callers of the library reach only by accident.

mod elementwise;

use half::{bf16, f16};
use warpsmith::{Device, DeviceBuffer, Element, Kernel, KernelArgs, LaunchConfig, Module};

/// A tensor element of these kernels.
trait Value: Element + std::fmt::Debug {
    /// Distance from 1 to the next value.
    const EPSILON: f64;
    fn new(x: f64) -> Self;
    fn get(self) -> f64;
}

macro_rules! elements {
    ($($ty:ty, $bits:literal, |$x:ident| $new:expr;)*) => {$(
        impl Value for $ty {
            const EPSILON: f64 = 1.0 / (1_u64 << $bits) as f64;
            fn new($x: f64) -> Self {
                $new
            }
            fn get(self) -> f64 {
                f64::from(self)
            }
        }
    )*};
}

elements! {
    f32, 23, |x| x as f32;
    f16, 10, |x| f16::from_f32(x as f32);
    bf16, 7, |x| bf16::from_f32(x as f32);
}

fn module(device: &Device, ptx: &str) -> Module {
    device
        .load_ptx(ptx)
        .unwrap_or_else(|error| panic!("on {}: {error}", device.name()))
}

fn launch(kernel: &Kernel, blocks: u32, threads: u32, arguments: impl KernelArgs) {
    let stream = kernel.device().stream().expect("a stream");
    // SAFETY: each test gives what the entry's parameters say.
    unsafe { kernel.launch(&stream, LaunchConfig::linear(blocks, threads), arguments) }
        .and_then(|()| stream.synchronize())
        .unwrap_or_else(|error| panic!("{}: {error:?}", kernel.name()));
}

fn upload<T: Element>(device: &Device, values: &[T]) -> DeviceBuffer<T> {
    DeviceBuffer::from_slice(device, values).expect("the device has memory")
}

/// A number in [-2, 2) of an index, the same each time.
fn noise(i: usize) -> f64 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f64 / f64::from(1 << 22) - 2.0
}
