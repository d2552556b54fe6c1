//! `autotune` of reductions, scans, and operations that move rows: what it measures, chooses and
//! keeps. Runs this program again, because a process cannot safely change its own environment.

use std::process::Command;

use half::bf16;
use warpsmith::testing::devices;
use warpsmith::{
    Plan, PlanSource, Reduce, ReduceOp, Result, Rotary, Scan, ScanOp, Scatter, ScatterAdd, Tensor,
    Tuning,
};

const FOLDER: &str = "WARPSMITH_TUNING_DIR";

#[test]
fn winners_are_chosen_from_then_on() {
    if std::env::var_os(FOLDER).is_some() {
        return; // this is the process that is started below
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", "tuning::in_a_process_of_its_own", "--nocapture"]);
    let output = command
        .env(FOLDER, folder.path())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    assert!(said.contains("1 passed"), "no test has that name: {said}");
}

/// Holds the plan after a tuning to its winner, and all candidates to the first one's results.
fn check(what: &str, plan: impl Fn() -> Result<Plan>, tune: impl FnOnce() -> Result<Tuning>) {
    let before = plan().expect("a plan");
    assert_eq!(before.source(), Some(PlanSource::Model), "{what}");
    let tuning = tune().expect("a tuning");
    let all_agree = tuning.measured().iter().all(|measured| measured.agrees);
    assert!(
        all_agree && tuning.measured().len() >= 2,
        "{what}: {tuning}"
    );
    assert_eq!(
        tuning.measured().len(),
        before.candidates().len(),
        "{what}: {tuning}"
    );
    let after = plan().expect("a plan");
    assert_eq!(after.source(), Some(PlanSource::Tuned), "{what}");
    let chosen = tuning.chosen().expect("something to compute");
    assert_eq!(after.chosen(), Some(&chosen.candidate), "{what}");
}

#[test]
fn in_a_process_of_its_own() {
    if std::env::var_os(FOLDER).is_none() {
        return; // started by the test above
    }
    for device in devices().into_iter().filter(|device| device.arch().0 >= 8) {
        let stream = device.stream().expect("a stream");
        let values: Vec<f32> = (0..64 * 512).map(|i| (i * 7 % 31) as f32 - 15.0).collect();
        let x = Tensor::from_slice(&device, &[64, 512], &values).expect("a tensor");
        for op in [ReduceOp::Sum, ReduceOp::Variance] {
            let rows = x.reshape(&[8, 4096]).expect("rows");
            let reduce = Reduce::new(op, &rows).axis(1);
            check(
                "reduce",
                || reduce.plan(&stream),
                || reduce.autotune(&stream),
            );
        }
        let index = Reduce::new(ReduceOp::Argmax, &x).output::<i64>();
        check("argmax", || index.plan(&stream), || index.autotune(&stream));

        let halves = x.cast::<bf16>(&stream).expect("bf16");
        let scan = Scan::new(ScanOp::Max, &halves);
        check("scan", || scan.plan(&stream), || scan.autotune(&stream));

        let places: Vec<i32> = (0..64).map(|j| j * 5 % 40 - 1).collect();
        let indices = Tensor::from_slice(&device, &[64], &places).expect("indices");
        let y = Tensor::full(&stream, &[40, 512], 3.0_f32).expect("a tensor");
        let put = Scatter::new(&indices, &x);
        let tune = || put.autotune_into(&y, &stream);
        check("scatter", || put.plan_into(&y, &stream), tune);
        let add = ScatterAdd::new(&indices, &x);
        let tune = || add.autotune_into(&y, &stream);
        check("scatter_add", || add.plan_into(&y, &stream), tune);
        assert!(
            y.to_vec().expect("values").iter().all(|&y| y == 3.0),
            "y was written"
        );

        let heads = x.reshape(&[64, 32, 16]).expect("heads");
        let table = Tensor::full(&stream, &[64, 8], 0.5_f32).expect("a table");
        let turn = Rotary::new(&heads, &table, &table);
        check("rotary", || turn.plan(&stream), || turn.autotune(&stream));

        let nothing = Tensor::<f32>::zeros(&stream, &[0, 5]).expect("a tensor");
        let tuning = Reduce::new(ReduceOp::Sum, &nothing)
            .axis(1)
            .autotune(&stream);
        assert!(tuning.expect("a tuning").chosen().is_none());
    }
}
