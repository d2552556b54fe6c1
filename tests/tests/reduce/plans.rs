//! Plans: the kernel that they name is the one that runs, and every candidate is right.

use half::bf16;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::reference::reduce::{Options, Reduced, reduce};
use warpsmith::testing::{Recording, devices};
use warpsmith::{ArgumentError, Device, Error, PlanSource, Reduce, ReduceOp, Reducible, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{agrees, agrees_exactly};
use warpsmith_tests::values::Values;

/// Shapes that are reduced over the second axis: rows for every variant, in parts too, and columns.
const SHAPES: [[usize; 3]; 6] = [
    [3, 1024, 1],
    [300, 16, 1],
    [1, 40_000, 1],
    [2, 70_000, 1],
    [2, 300, 256],
    [4, 33, 5],
];

const OPS: [ReduceOp; 5] = [
    ReduceOp::Sum,
    ReduceOp::Max,
    ReduceOp::Variance,
    ReduceOp::Logsumexp,
    ReduceOp::Argmax,
];

/// Holds every candidate to the reference. Returns the variants that there were.
fn candidates_are_right<T>(device: &Device, shape: [usize; 3], op: ReduceOp) -> Vec<String>
where
    T: Reducible<Value = f32> + TestElement,
{
    let stream = device.stream().expect("a stream");
    let x = Operand::<T>::draw(device, &shape, Values::Uniform, View::Contiguous, 5);
    let x = x.expect("an operand");
    let any = Reduce::new(op, &x.tensor).axis(1);
    let plan = match op.is_index() {
        true => any.output::<i64>().plan(&stream),
        false => any.plan(&stream),
    };
    let plan = plan.expect("a plan");
    assert_eq!(plan.source(), Some(PlanSource::Model));
    for candidate in plan.candidates() {
        let by = any.with_kernel(&candidate.name);
        let model = by.model().expect("a model");
        let want = reduce(
            op,
            &x.values.view(),
            Some(&[1]),
            &Options::default(),
            &model,
        );
        let agreement = match want.expect("a reference") {
            Reduced::Values(want) => {
                let forced = by.plan(&stream).expect("a plan");
                assert_eq!(forced.chosen(), Some(candidate));
                assert_eq!(forced.source(), Some(PlanSource::Forced));
                agrees(
                    &by.run(&stream)
                        .expect("it runs")
                        .to_ndarray()
                        .expect("values"),
                    &want,
                )
            }
            Reduced::Indices(want) => {
                let got = by.output::<i64>().run(&stream).expect("it runs");
                agrees_exactly(
                    &got.to_ndarray().expect("indices"),
                    &want.mapv(|i| i as f64),
                )
            }
        };
        agreement.unwrap_or_else(|error| panic!("{op:?} of {shape:?} by {candidate}: {error}"));
    }
    assert!(
        plan.candidates()
            .contains(plan.chosen().expect("a reduction"))
    );
    let names = plan
        .candidates()
        .iter()
        .map(|candidate| candidate.name.clone());
    names.collect()
}

#[test]
fn every_candidate_matches_the_reference() {
    for device in devices() {
        let mut names = Vec::new();
        for shape in SHAPES {
            for op in OPS {
                names.extend(candidates_are_right::<f32>(&device, shape, op));
                names.extend(candidates_are_right::<bf16>(&device, shape, op));
            }
        }
        for variant in ["f32", "bf16_short", "f32_small", "f32_long", "bf16_columns"] {
            let name = format!("reduce_value_{variant}");
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        let has = |name: &str| names.iter().any(|other| other == name);
        assert_eq!(has("reduce_value_f32_cluster"), device.arch().0 >= 9);
        assert_eq!(has("reduce_extreme_bf16_long"), device.arch().0 >= 8);
    }
}

#[test]
fn the_kernel_of_the_plan_is_the_one_that_is_launched() {
    let recording = Recording::emulator(EmulatorConfig::default(), |_| ()).expect("an emulator");
    let stream = recording.device().stream().expect("a stream");
    let mut want = Vec::new();
    for shape in SHAPES {
        let x = Tensor::full(&stream, &shape, 1.0_f32).expect("a tensor");
        let sum = Reduce::new(ReduceOp::Sum, &x).axis(1);
        let plan = sum.plan(&stream).expect("a plan");
        let chosen = plan.chosen().expect("a sum").clone();
        let ones = vec![shape[1] as f32; shape[0] * shape[2]];
        for candidate in [&chosen].into_iter().chain(plan.candidates()) {
            let sums = sum.with_kernel(&candidate.name).run(&stream).expect("sums");
            assert_eq!(sums.to_vec().expect("values"), ones, "{candidate}");
            want.push((candidate.entry.clone(), candidate.grid));
        }
        assert_eq!(
            sum.run(&stream).expect("sums").to_vec().expect("values"),
            ones
        );
        want.push((chosen.entry, chosen.grid));
    }
    let capture = recording.capture().expect("a capture");
    let launches = capture.launches();
    let got = launches.filter(|launch| launch.entry.starts_with("reduce"));
    let got: Vec<_> = got
        .map(|launch| (launch.entry.clone(), launch.config.grid))
        .collect();
    assert_eq!(got, want);
}

#[test]
fn an_unknown_kernel_is_refused_with_the_names_of_those_that_there_are() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let x = Tensor::full(&stream, &[3, 1024], 1.0_f32).expect("a tensor");
        let sum = Reduce::new(ReduceOp::Sum, &x).axis(1);
        let error = sum
            .with_kernel("reduce_wrong")
            .run(&stream)
            .expect_err("no such kernel");
        let is_kind = matches!(
            error.root(),
            Error::Argument(ArgumentError::Unsupported { .. })
        );
        assert!(is_kind, "{error}");
        let message = error.to_string();
        assert!(message.starts_with("reduce: "), "{message}");
        for name in [
            "reduce_wrong",
            "reduce_value_f32_small",
            "reduce_value_f32_long",
        ] {
            assert!(message.contains(name), "`{message}` does not say `{name}`");
        }
    }
}

#[test]
fn nothing_to_reduce_to_has_an_empty_plan() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let x = Tensor::<f32>::zeros(&stream, &[0, 5]).expect("a tensor");
        let plan = Reduce::new(ReduceOp::Sum, &x)
            .axis(1)
            .plan(&stream)
            .expect("a plan");
        assert_eq!((plan.chosen(), plan.candidates().len()), (None, 0));
    }
}

/// u8 is converted to f16, and a transposed tensor with three kept axes is copied, as they run.
#[test]
fn a_plan_is_that_of_the_elements_that_the_kernel_reads() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let mask = Tensor::full(&stream, &[4, 64], 1_u8).expect("a tensor");
        let plan = Reduce::new(ReduceOp::Argmax, &mask)
            .output::<i64>()
            .plan(&stream);
        let plan = plan.expect("a plan");
        assert_eq!(plan.chosen().expect("a reduction").entry, "reduce_arg_f16");
        let whole = Tensor::full(&stream, &[3, 4, 5, 4096], 1.0_f32).expect("a tensor");
        let x = whole
            .slice(0, ..2)
            .and_then(|x| x.slice(1, ..3))
            .and_then(|x| x.slice(2, ..4));
        let sums = Reduce::new(ReduceOp::Sum, &x.expect("a view"))
            .axis(3)
            .plan(&stream);
        let plan = sums.expect("a plan");
        let chosen = plan.chosen().expect("a reduction");
        assert_eq!(
            (&*chosen.entry, chosen.grid[0]),
            ("reduce_value_f32_small", 24)
        );
    }
}
