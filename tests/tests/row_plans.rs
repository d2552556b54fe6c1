//! Plans of operations on rows: that they name the kernel that runs, that a requested kernel is that
//! one, and what they refuse.

use half::bf16;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::testing::{Launch, Recording, devices};
use warpsmith::{
    Argsort, ArgumentError, CrossEntropy, Error, LayerNorm, LayerNormGrad, LogSoftmax,
    LogSoftmaxGrad, Plan, PlanSource, Result, RmsNorm, RmsNormGrad, Softmax, SoftmaxGrad, Sort,
    Stream, Tensor, TopK,
};

/// An operation, by its name in errors, with the kernel of this name or its own choice.
struct Operation<'a> {
    name: &'static str,
    plan: &'a dyn Fn(Option<&str>) -> Result<Plan>,
    run: &'a dyn Fn(Option<&str>) -> Result<()>,
}

/// Calls `test` with every operation over `rows` rows of `n` elements of bf16.
fn with_operations(stream: &Stream, [rows, n]: [usize; 2], test: impl Fn(&Operation<'_>)) {
    let ones = |shape: &[usize]| Tensor::full(stream, shape, bf16::ONE).expect("memory");
    let (x, dy, weight) = (ones(&[rows, n]), ones(&[rows, n]), ones(&[n]));
    let kept = Tensor::full(stream, &[rows], 0.5_f32).expect("memory");
    let targets = Tensor::<i64>::zeros(stream, &[rows]).expect("memory");
    macro_rules! call {
        ($name:literal, $operation:expr) => {
            let operation = $operation;
            test(&Operation {
                name: $name,
                plan: &|kernel| match kernel {
                    Some(name) => Clone::clone(&operation).with_kernel(name).plan(stream),
                    None => operation.plan(stream),
                },
                run: &|kernel| match kernel {
                    Some(name) => Clone::clone(&operation)
                        .with_kernel(name)
                        .run(stream)
                        .map(drop),
                    None => operation.run(stream).map(drop),
                },
            });
        };
    }
    call!("softmax", Softmax::new(&x));
    call!("log_softmax", LogSoftmax::new(&x));
    call!("softmax_grad", SoftmaxGrad::new(&x, &dy));
    call!("log_softmax_grad", LogSoftmaxGrad::new(&x, &dy));
    call!("cross_entropy", CrossEntropy::new(&x, &targets));
    let layer_norm = LayerNorm::new(&x).weight(&weight).bias(&weight);
    call!("layer_norm", layer_norm);
    call!("rms_norm", RmsNorm::new(&x).residual(&dy));
    let gradient = LayerNormGrad::new(&x, &kept, &kept, &dy).weight(&weight);
    call!("layer_norm_grad", gradient);
    call!("rms_norm_grad", RmsNormGrad::new(&x, &kept, &dy));
    call!("sort", Sort::new(&x));
    call!("argsort", Argsort::new(&x).descending());
    call!("topk", TopK::new(&x, n.min(2)));
}

/// What `run` launches.
fn launched(recording: &Recording, run: impl FnOnce() -> Result<()>) -> Vec<Launch> {
    let launches = || {
        let capture = recording.capture().expect("a capture");
        capture.launches().cloned().collect::<Vec<_>>()
    };
    let before = launches().len();
    run().expect("a launch");
    launches().split_off(before)
}

/// Shapes for which most kinds of kernels are candidates, and one whose rows are not aligned.
const SHAPES: [[usize; 2]; 3] = [[3, 512], [2, 4096], [2, 1001]];

#[test]
fn the_kernel_that_a_plan_names_is_launched() {
    for arch in [(9, 0), (8, 0)] {
        for shape in SHAPES {
            let recording = Recording::emulator(EmulatorConfig::default(), |info| info.arch = arch);
            let recording = recording.expect("an emulator");
            let stream = recording.device().stream().expect("a stream");
            with_operations(&stream, shape, |operation| {
                let plan = (operation.plan)(None).expect("a plan");
                let chosen = plan.chosen().expect("there are rows");
                assert_eq!(plan.source(), Some(PlanSource::Model));
                assert!(
                    plan.candidates().len() >= 2 || operation.name == "topk",
                    "{plan}"
                );
                let entries: Vec<&str> =
                    plan.candidates().iter().map(|each| &*each.entry).collect();
                let ways = plan.candidates().iter().map(Some).chain([None]);
                for way in ways {
                    let kernel = way.map(|candidate| &*candidate.name);
                    let launches = launched(&recording, || (operation.run)(kernel));
                    let is_candidate = |launch: &&Launch| entries.contains(&&*launch.entry);
                    let main: Vec<&Launch> = launches.iter().filter(is_candidate).collect();
                    // A sort by passes launches its kernel for each byte.
                    let is_once = main.len() == 1 || operation.name.ends_with("sort");
                    assert!(is_once, "{plan}: {} launches", main.len());
                    let main = main.first().expect("a launch");
                    let want = way.unwrap_or(chosen);
                    assert_eq!(main.entry, want.entry, "{plan}");
                    assert_eq!(main.config.grid, want.grid, "{want}");
                    assert_eq!(main.config.shared_bytes, want.shared_bytes, "{want}");
                }
            });
        }
    }
}

#[test]
fn a_candidate_is_forced_by_its_own_name_and_an_unknown_one_is_refused() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        for shape in SHAPES {
            with_operations(&stream, shape, |operation| {
                let plan = (operation.plan)(None).expect("a plan");
                let mut names: Vec<_> = plan.candidates().iter().map(|each| &each.name).collect();
                for candidate in plan.candidates() {
                    let forced = (operation.plan)(Some(&candidate.name)).expect("a plan");
                    assert_eq!(forced.chosen(), Some(candidate));
                    assert_eq!(forced.source(), Some(PlanSource::Forced));
                }
                for refused in [
                    (operation.plan)(Some("wrong")).map(drop),
                    (operation.run)(Some("wrong")),
                ] {
                    let error = refused.expect_err("there is no such kernel");
                    let is_kind = matches!(
                        error.root(),
                        Error::Argument(ArgumentError::Unsupported { .. })
                    );
                    let text = error.to_string();
                    assert!(is_kind && text.contains("kernel `wrong`"), "{text}");
                    assert!(text.starts_with(&format!("{}: ", operation.name)), "{text}");
                    assert!(names.iter().all(|name| text.contains(&**name)), "{text}");
                }
                names.sort();
                names.dedup();
                assert_eq!(names.len(), plan.candidates().len(), "{plan}");
            });
        }
    }
}

#[test]
fn every_way_to_hold_rows_is_a_candidate_where_it_fits() {
    for device in devices()
        .into_iter()
        .filter(|device| device.arch() == (9, 0))
    {
        let stream = device.stream().expect("a stream");
        with_operations(&stream, [3, 512], |operation| {
            let plan = (operation.plan)(None).expect("a plan");
            let names: Vec<&str> = plan.candidates().iter().map(|each| &*each.name).collect();
            let want: &[&str] = match operation.name {
                "softmax" => &[
                    "softmax_bf16_registers",
                    "softmax_bf16_cluster",
                    "softmax_bf16_streaming",
                    "softmax_bf16_registers_more",
                    "softmax_bf16_streaming+passes",
                ],
                "layer_norm" => &[
                    "norm_bf16_registers_weights",
                    "norm_bf16_registers",
                    "norm_bf16_cluster_pairs",
                    "norm_bf16_smem_ring_wide",
                    "norm_bf16_smem_ring",
                    "norm_bf16_cluster",
                    "norm_bf16_streaming",
                    "norm_bf16_registers_more",
                    "norm_bf16_streaming+passes",
                ],
                "layer_norm_grad" => &[
                    "norm_grad_bf16_smem_ring_short",
                    "norm_grad_bf16_smem_ring",
                    "norm_grad_bf16_streaming",
                    "norm_grad_bf16_streaming+passes",
                ],
                "sort" => &["sort_u16", "sort_u16_pass"],
                "topk" => &["topk_bf16_short", "topk_bf16"],
                _ => return,
            };
            assert_eq!(names, want);
        });
    }
}

#[test]
fn nothing_to_compute_has_an_empty_plan() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        for shape in [[0, 8], [3, 0]] {
            with_operations(&stream, shape, |operation| {
                // Without classes, every target is invalid, and that is a result.
                let has_rows = operation.name == "cross_entropy" && shape[0] > 0;
                let plan = (operation.plan)(None).expect("a plan");
                assert_eq!(plan.chosen().is_some(), has_rows, "{}", operation.name);
            });
        }
    }
}
