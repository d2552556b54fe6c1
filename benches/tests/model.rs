//! The error of GEMM's cost model on the measurements of an H200 that are committed.

use std::path::Path;

use warpsmith::fitting::{MachineModel, h200};
use warpsmith_benches::fit::{Sample, fit, fitted, samples};
use warpsmith_benches::record;

fn measured() -> Vec<Sample> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/h200/gemm.csv");
    samples(&record::read(&path).expect("the committed results"))
}

#[test]
fn the_model_estimates_what_was_measured() {
    let samples = measured();
    let found = fit(&samples, &h200(), &MachineModel::H200);
    assert!(found.ratios.len() >= 150, "{}", found.ratios.len());
    assert!(found.error < 0.2, "{}", found.error);
}

#[test]
fn a_constant_that_is_wrong_is_found() {
    let samples = measured();
    let squares = samples.into_iter().filter(|sample| {
        sample.problem.m == sample.problem.n && sample.kernel.starts_with("gemm_sm90_bf16")
    });
    let squares: Vec<Sample> = squares.collect();
    let mut model = MachineModel::H200;
    model.gemm.sm90.flops *= 0.8;
    model.gemm.sm90.columns_256_flops *= 0.8;
    let before = fit(&squares, &h200(), &model).error;
    let after = fit(&squares, &h200(), &fitted(&squares, &h200(), &model)).error;
    assert!(after < 0.5 * before, "{before} and {after}");
}
