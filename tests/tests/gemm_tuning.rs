//! `autotune`: what it measures, chooses and keeps. Runs this program again, because a process
//! cannot safely change its own environment.

use std::path::Path;
use std::process::Command;

use half::bf16;
use warpsmith::testing::devices;
use warpsmith::{
    Activation, CrossEntropy, Device, Gemm, GemmInput, Plan, PlanSource, Result, RmsNorm,
    RmsNormGrad, Softmax, SoftmaxGrad, Sort, Tensor, TopK, Tuning,
};

const FOLDER: &str = "WARPSMITH_TUNING_DIR";
/// Set in the process that looks for the results of the first one.
const SECOND: &str = "WARPSMITH_TEST_SECOND_PROCESS";

/// Runs itself in a temporary folder: once to measure, and once more to find the result.
#[test]
fn winners_are_used_and_found_again_by_other_processes() {
    if std::env::var_os(FOLDER).is_some() {
        return; // this is one of the processes that are started below
    }
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), false);
    let files = std::fs::read_dir(folder.path())
        .expect("a folder")
        .flatten();
    let names: Vec<_> = files.map(|file| file.file_name()).collect();
    assert!(
        names
            .iter()
            .any(|name| name.to_string_lossy().ends_with(".json")),
        "{names:?}"
    );
    run(folder.path(), true);
}

fn run(folder: &Path, is_second: bool) {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args([
        "--exact",
        "gemm_tuning::in_a_process_of_its_own",
        "--nocapture",
    ]);
    command.env(FOLDER, folder);
    if is_second {
        command.env(SECOND, "1");
    }
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "second: {is_second}: {said}");
    assert!(said.contains("1 passed"), "no test has that name: {said}");
}

#[test]
fn in_a_process_of_its_own() {
    if std::env::var_os(FOLDER).is_none() {
        return; // started by the test above
    }
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let values: Vec<f32> = (0..96 * 96).map(|i| (i % 17) as f32 - 8.0).collect();
        let a = Tensor::from_slice(&device, &[96, 96], &values).expect("memory");
        let gemm = Gemm::new(&a, &a).activation(Activation::Relu);
        let source = || gemm.plan(&stream).expect("a plan").source();
        if std::env::var_os(SECOND).is_some() {
            assert_eq!(source(), Some(PlanSource::Tuned));
            continue;
        }
        assert_eq!(source(), Some(PlanSource::Model));
        let before = gemm
            .run(&stream)
            .expect("a product")
            .to_vec()
            .expect("values");
        let tuning = gemm.autotune(&stream).expect("a tuning");
        let chosen = tuning.chosen().expect("there is something to compute");
        assert!(
            tuning.measured().iter().all(|measured| measured.agrees),
            "{tuning}"
        );
        assert!(tuning.measured().len() >= 2, "{tuning}");
        let fastest = tuning.measured().iter().map(|measured| measured.time).min();
        assert_eq!(Some(chosen.time), fastest);
        let plan = gemm.plan(&stream).expect("a plan");
        assert_eq!(plan.chosen(), Some(&chosen.candidate));
        assert_eq!(plan.source(), Some(PlanSource::Tuned));
        let after = gemm
            .run(&stream)
            .expect("a product")
            .to_vec()
            .expect("values");
        assert_eq!(before, after, "integers are exact by every kernel");
        tuned_by_columns(&device, &a);
        let fractions = (1..=96 * 96).map(|i| 1.0 / f64::from(i));
        tuned_to_the_bit(&device, fractions.collect());
        tuned_to_the_bit(&device, (0..96 * 96).map(|i| (i * 7) as i8).collect());
        operations_on_rows(&device);
        let nothing = Tensor::<f32>::zeros(&stream, &[0, 96]).expect("memory");
        let tuning = Gemm::new(&nothing, &a).autotune(&stream).expect("a tuning");
        assert!(tuning.chosen().is_none());
    }
}

/// A D of another layout has a choice of its own, and is not written while it is tuned.
fn tuned_by_columns(device: &Device, a: &Tensor<f32>) {
    let stream = device.stream().expect("a stream");
    let whole = Tensor::full(&stream, &[96, 100], -1.0_f32).expect("memory");
    let d = whole.slice(1, 2..98).expect("a view").t();
    let gemm = Gemm::new(a, a);
    let source = || gemm.plan_into(&d, &stream).expect("a plan").source();
    assert_eq!(source(), Some(PlanSource::Model));
    let tuning = gemm.autotune_into(&d, &stream).expect("a tuning");
    let all_agree = tuning.measured().iter().all(|measured| measured.agrees);
    assert!(all_agree && !tuning.measured().is_empty(), "{tuning}");
    assert_eq!(source(), Some(PlanSource::Tuned));
    let by_rows = gemm.plan(&stream).expect("a plan").source();
    assert_eq!(by_rows, Some(PlanSource::Model));
    let left = whole.to_vec().expect("values");
    assert!(left.iter().all(|&x| x == -1.0), "d was written");
}

/// All candidates of a plan are measured, and the fastest one is the choice from then on.
fn operations_on_rows(device: &Device) {
    let stream = device.stream().expect("a stream");
    let check = |plan: &dyn Fn() -> Result<Plan>, tuning: Result<Tuning>| {
        let tuning = tuning.expect("a tuning");
        assert!(tuning.measured().iter().all(|each| each.agrees), "{tuning}");
        let plan = plan().expect("a plan");
        assert_eq!(plan.candidates().len(), tuning.measured().len(), "{plan}");
        let kept = tuning.chosen().map(|chosen| &chosen.candidate);
        assert_eq!(
            (plan.chosen(), plan.source()),
            (kept, Some(PlanSource::Tuned))
        );
    };
    let numbers = |shape: &[usize]| {
        let values: Vec<bf16> = (0..shape.iter().product())
            .map(|i: usize| bf16::from_f32((i * 7 % 13) as f32 / 8.0 - 0.75))
            .collect();
        Tensor::from_slice(device, shape, &values).expect("memory")
    };
    let x = numbers(&[1, 20_000]);
    let topk = TopK::new(&x, 5);
    check(&|| topk.plan(&stream), topk.autotune(&stream));
    let short = numbers(&[3, 700]);
    let sort = Sort::new(&short).indices();
    check(&|| sort.plan(&stream), sort.autotune(&stream));
    let (x, dy, weight) = (numbers(&[3, 512]), numbers(&[3, 512]), numbers(&[512]));
    let softmax = Softmax::new(&x);
    check(&|| softmax.plan(&stream), softmax.autotune(&stream));
    let y = softmax.run(&stream).expect("a softmax");
    let grad = SoftmaxGrad::new(&y, &dy);
    check(&|| grad.plan(&stream), grad.autotune(&stream));
    let targets = Tensor::from_slice(device, &[3], &[5_i64, -100, 511]).expect("memory");
    let loss = CrossEntropy::new(&x, &targets).gradient();
    check(&|| loss.plan(&stream), loss.autotune(&stream));
    let norm = RmsNorm::new(&x).weight(&weight).residual(&dy).stats();
    check(&|| norm.plan(&stream), norm.autotune(&stream));
    let rstd = norm.run(&stream).expect("a norm").rstd.expect("factors");
    let grad = RmsNormGrad::new(&x, &rstd, &dy).weight(&weight);
    check(&|| grad.plan(&stream), grad.autotune(&stream));
}

/// Kernels for f64 and i8 have the same bits, so all agree, whatever their number.
fn tuned_to_the_bit<T: GemmInput>(device: &Device, values: Vec<T>) {
    let stream = device.stream().expect("a stream");
    let a = Tensor::from_slice(device, &[96, 96], &values).expect("memory");
    let tuning = Gemm::new(&a, &a).autotune(&stream).expect("a tuning");
    let all_agree = tuning.measured().iter().all(|measured| measured.agrees);
    assert!(all_agree && !tuning.measured().is_empty(), "{tuning}");
}
