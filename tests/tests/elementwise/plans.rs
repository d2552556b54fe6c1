//! Plans of operations with one kernel: they name the skeleton that is launched, or the caller's own.

use half::bf16;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::testing::Recording;
use warpsmith::{
    Binary, BinaryOp, Chain, GradOp, Gradient, Map, Plan, PlanSource, Result, Select, Stream,
    Tensor, Unary, UnaryOp,
};

use super::maps::PTX;

/// Holds a plan to what is launched next.
fn is_launched<T>(
    recording: &Recording,
    plan: Result<Plan>,
    run: impl FnOnce(&Stream) -> Result<T>,
) -> String {
    let stream = recording.device().default_stream();
    let plan = plan.expect("a plan");
    let chosen = plan.chosen().expect("something to compute").clone();
    assert_eq!(plan.candidates(), std::slice::from_ref(&chosen));
    assert_eq!(plan.source(), Some(PlanSource::Model));
    run(&stream).expect("a result");
    let capture = recording.capture().expect("a capture");
    let launch = capture.launches().last().expect("a launch");
    assert_eq!(
        (&launch.entry, launch.config.grid),
        (&chosen.entry, chosen.grid),
        "{plan}"
    );
    chosen.entry
}

#[test]
fn the_skeleton_of_the_plan_is_the_one_that_is_launched() {
    let recording = Recording::emulator(EmulatorConfig::default(), |_| ()).expect("an emulator");
    let (device, stream) = (recording.device(), recording.device().default_stream());
    let ones = |shape: &[usize]| Tensor::full(&stream, shape, 1.0_f32).expect("a tensor");
    let (x, column, odd) = (ones(&[40, 64]), ones(&[40, 1]), ones(&[41, 65]));
    let odd = odd
        .slice(0, 1..)
        .and_then(|odd| odd.slice(1, 1..))
        .expect("a view");

    let unary = Unary::new(UnaryOp::Exp, &x);
    let name = is_launched(&recording, unary.plan(&stream), |stream| unary.run(stream));
    assert_eq!(name, "fused_dense_1x1");
    let narrow = Unary::new(UnaryOp::Exp, &odd).output::<bf16>();
    let name = is_launched(&recording, narrow.plan(&stream), |stream| {
        narrow.run(stream)
    });
    assert_eq!(name, "fused_strided_1x1");
    let binary = Binary::new(BinaryOp::Add, &x, &column);
    let name = is_launched(&recording, binary.plan(&stream), |stream| {
        binary.run(stream)
    });
    assert_eq!(name, "fused_strided_2x1");
    let select = Select::new(&x, &x, &odd);
    let name = is_launched(&recording, select.plan(&stream), |stream| {
        select.run(stream)
    });
    assert_eq!(name, "fused_strided_2x1");
    let gradient = Gradient::new(GradOp::Silu, &x, &x);
    is_launched(&recording, gradient.plan(&stream), |stream| {
        gradient.run(stream)
    });
    let chain = Chain::new(&x).with(BinaryOp::Mul, &odd).unary(UnaryOp::Abs);
    is_launched(&recording, chain.plan(&stream), |stream| chain.run(stream));

    let kernel = device
        .load_ptx(PTX)
        .and_then(|module| module.kernel("swish_gate"));
    let (kernel, x) = (
        kernel.expect("a kernel"),
        x.cast::<bf16>(&stream).expect("bf16"),
    );
    let map = Map::new(&kernel)
        .input(&x)
        .input(&x)
        .input(&x)
        .output::<bf16>();
    // SAFETY: the kernel maps three inputs of bf16 to one output of bf16.
    let run = |stream: &Stream| unsafe { map.run(stream) };
    assert_eq!(
        is_launched(&recording, map.plan(&stream), run),
        "swish_gate"
    );
}

#[test]
fn nothing_to_compute_has_an_empty_plan() {
    let recording = Recording::emulator(EmulatorConfig::default(), |_| ()).expect("an emulator");
    let stream = recording.device().default_stream();
    let x = Tensor::<f32>::zeros(&stream, &[0, 7]).expect("a tensor");
    let plan = Chain::new(&x)
        .unary(UnaryOp::Exp)
        .plan(&stream)
        .expect("a plan");
    assert_eq!((plan.chosen(), plan.candidates().len()), (None, 0));
    let five = Chain::new(&x)
        .output::<i64>()
        .plan(&stream)
        .expect_err("another arithmetic");
    assert!(five.to_string().starts_with("chain: "), "{five}");
}
