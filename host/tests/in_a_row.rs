//! Launches in a row, each of which reads the results of the one before it, with nothing between
//! them. On compute capability 9.0 and later, a launch begins before the one before it has ended.

use std::fmt::Debug;
use warpsmith::testing::devices;
use warpsmith::{
    ArgumentError, Binary, BinaryOp, Device, DeviceBuffer, Error, KernelError, LaunchConfig, Tensor,
};

/// `to[i] = from[n - 1 - i] + 1`; WAIT stands for the wait.
const NEXT: &str = ".version 8.0
.target sm_90
.address_size 64
.visible .entry next(.param .u64 from, .param .u64 to, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .u64 %rd<5>;
    .reg .u32 %r<7>;
    ld.param.u64 %rd1, [from];
    ld.param.u64 %rd2, [to];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r2, %r2, 256, %r3;
    WAIT
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 ret;
    not.b32 %r4, %r2;
    add.u32 %r4, %r4, %r1;
    mad.wide.u32 %rd3, %r4, 4, %rd1;
    mad.wide.u32 %rd4, %r2, 4, %rd2;
    ld.global.u32 %r5, [%rd3];
    add.u32 %r6, %r5, 1;
    st.global.u32 [%rd4], %r6;
    ret;
}
";

/// Elements and launches; on a GPU, more blocks than run at the same time.
fn effort(device: &Device) -> (usize, u32) {
    match device.is_emulator() {
        true => (1_000, 20),
        false => (1 << 23, 500),
    }
}

/// Devices on which a kernel can begin early.
fn capable() -> impl Iterator<Item = Device> {
    devices()
        .into_iter()
        .filter(|device| device.arch() >= (9, 0))
}

fn assert_all<T: Copy + Debug + PartialEq>(got: &[T], want: T, device: &Device) {
    let wrong = got.iter().position(|&x| x != want);
    let example = wrong.map(|at| (at, got[at]));
    assert_eq!(example, None, "want {want:?} everywhere on {device}");
}

#[test]
fn each_launch_of_an_operation_sees_what_the_one_before_it_wrote() {
    for device in devices() {
        let (elements, launches) = effort(&device);
        let stream = device.stream().expect("a stream");
        let mut here = Tensor::<f32>::zeros(&stream, &[elements]).expect("memory");
        let mut there = Tensor::<f32>::zeros(&stream, &[elements]).expect("memory");
        let one = Tensor::<f32>::full(&stream, &[1], 1.0).expect("memory");
        for _ in 0..launches {
            // The first block reads what the last one wrote.
            let reversed = here.slice_step(0, .., -1).expect("a view");
            Binary::new(BinaryOp::Add, &reversed, &one)
                .run_into(&there, &stream)
                .expect("runs");
            std::mem::swap(&mut here, &mut there);
        }
        assert_all(&here.to_vec().expect("a copy"), launches as f32, &device);
    }
}

#[test]
fn each_launch_of_ones_own_early_kernel_sees_what_the_one_before_it_wrote() {
    for device in capable() {
        let (elements, launches) = effort(&device);
        let module = device.load_ptx(&NEXT.replace("WAIT", "griddepcontrol.wait;"));
        // SAFETY: it waits before it touches global memory.
        let kernel = unsafe { module.expect("loads").early_kernel("next") }.expect("waits");
        let stream = device.stream().expect("a stream");
        let mut here = DeviceBuffer::<u32>::zeros(&stream, elements).expect("memory");
        let mut there = DeviceBuffer::<u32>::zeros(&stream, elements).expect("memory");
        let config = LaunchConfig::for_elements(elements as u64, 256);
        for _ in 0..launches {
            // SAFETY: both have as many elements.
            let launched =
                unsafe { kernel.launch(&stream, config, (&here, &mut there, elements as u32)) };
            launched.expect("launches");
            std::mem::swap(&mut here, &mut there);
        }
        assert_all(&here.to_vec().expect("a copy"), launches, &device);
    }
}

#[test]
fn a_kernel_that_does_not_wait_cannot_begin_early() {
    for device in capable() {
        let module = device.load_ptx(&NEXT.replace("WAIT", "")).expect("loads");
        // SAFETY: it is refused.
        let refused = unsafe { module.early_kernel("next") };
        assert!(matches!(
            refused,
            Err(Error::Argument(ArgumentError::Unsupported { .. }))
        ));
        // SAFETY: likewise.
        let unknown = unsafe { module.early_kernel("last") };
        assert!(matches!(
            unknown,
            Err(Error::Kernel(KernelError::Unknown { .. }))
        ));
    }
}
