//! What works, and what is said, in a build that leaves out built-in kernels. A program of its own:
//! `.ci/run` builds it without any of them, and `cargo test` with all.

use warpsmith::{Device, Error, KernelError, LaunchConfig, Result, Tensor, Unary, UnaryOp};

#[test]
fn a_kernel_that_is_left_out_is_named_with_its_features() {
    let device = Device::emulator().expect("the emulator");
    let stream = device.stream().expect("a stream");
    let x = Tensor::from_slice(&device, &[3], &[1.0_f32, 2.0, 3.0]).expect("fits");
    check(
        Unary::new(UnaryOp::Neg, &x).run(&stream),
        &[("elementwise", cfg!(feature = "elementwise"))],
    );
    check(
        device.builtin_kernel("norm_bf16_cluster"),
        &[
            ("norm", cfg!(feature = "norm")),
            ("sm_90", cfg!(feature = "sm_90")),
        ],
    );
}

/// The result is an error exactly where one of the features is off, and names those that are.
fn check<T>(result: Result<T>, features: &[(&str, bool)]) {
    let off = features.iter().filter(|(_, is_on)| !is_on);
    let off: Vec<&str> = off.map(|(name, _)| *name).collect();
    let Err(error) = result else {
        assert!(off.is_empty(), "it runs without {off:?}");
        return;
    };
    let Error::Kernel(KernelError::LeftOut { features, .. }) = error.root() else {
        panic!("another error: {error}");
    };
    assert_eq!(**features, *off);
    assert!(error.to_string().ends_with(&off.join(", ")), "{error}");
}

#[test]
fn kernels_of_the_user_need_no_feature() {
    let device = Device::emulator().expect("the emulator");
    let stream = device.stream().expect("a stream");
    let module = device.load_ptx(include_str!("kernels/basic.ptx"));
    let kernel = module.expect("loads").kernel("axpy").expect("is there");
    let x = Tensor::from_slice(&device, &[3], &[1.0_f32, 2.0, 3.0]).expect("fits");
    let y = Tensor::from_slice(&device, &[3], &[0.5_f32; 3]).expect("fits");
    let params = 3_u64 | u64::from(2.0_f32.to_bits()) << 32; // { n, a }
    let args = (&x, &y, params);
    // SAFETY: 3 elements each.
    unsafe { kernel.launch(&stream, LaunchConfig::linear(1, 32), args) }.expect("launches");
    assert_eq!(y.to_vec().expect("reads"), [2.5, 4.5, 6.5]);
}
