//! Softmax, norms, cross-entropy, sorts and top-k: rows of lengths for which the plans differ.

use half::{bf16, f16};
use warpsmith::{
    Argsort, CrossEntropy, Float, LayerNorm, LayerNormGrad, LogSoftmax, Reducible, Reduction,
    Result, RmsNorm, RmsNormGrad, Softmax, SoftmaxGrad, Sort, TopK,
};

use super::{Case, Inputs, read};
use crate::element::TestElement;

/// Rows and elements of a row. Rows of odd lengths begin anywhere.
const SHAPES: [[usize; 2]; 19] = [
    [3, 33],
    [5, 64],
    [70, 64],
    [9, 512],
    [3, 1024],
    [20, 1152],
    [3, 2048],
    [2, 2400],
    [2, 4096],
    [9, 3072],
    [2, 5025],
    [2, 8192],
    [2, 12_288],
    [3, 16_384],
    [2, 20_481],
    [2, 32_768],
    [2, 65_536],
    [1, 131_072],
    [1, 132_096],
];

pub(super) fn add(cases: &mut Vec<Case>) {
    for (arch, shapes) in [((7, 5), &SHAPES[..1]), ((9, 0), &SHAPES[..])] {
        rows_of::<f32>(cases, arch, shapes);
        rows_of::<f16>(cases, arch, shapes);
        rows_of::<bf16>(cases, arch, shapes);
        sorts_of::<i8>(cases, arch);
        sorts_of::<bf16>(cases, arch);
        sorts_of::<f32>(cases, arch);
        sorts_of::<f64>(cases, arch);
        for shape in [[3, 33], [9, 512], [2, 8192]] {
            first_of::<f64>(cases, arch, shape);
            first_of::<i32>(cases, arch, shape);
            first_of::<i64>(cases, arch, shape);
        }
    }
}

fn first_of<T: Reducible + TestElement>(
    cases: &mut Vec<Case>,
    arch: (u32, u32),
    shape: [usize; 2],
) {
    let name = format!("top-k of {}, {} x {}", T::DTYPE, shape[0], shape[1]);
    cases.push(Case::new(name, arch, move |inputs| {
        first::<T>(shape, inputs)
    }));
}

fn sorts_of<T: TestElement>(cases: &mut Vec<Case>, arch: (u32, u32)) {
    for [rows, n] in [[70, 64], [2, 4096], [2, 5025]] {
        let name = format!("sort of {}, {rows} x {n}", T::DTYPE);
        cases.push(Case::new(name, arch, move |inputs| {
            let x = inputs.tensor::<T>(&[rows, n])?;
            let out = Sort::new(&x).indices().run(&inputs.stream)?;
            read(&out.values)?;
            read(&out.indices)?;
            read(&Sort::new(&x).descending().run(&inputs.stream)?)?;
            read(&Argsort::new(&x).descending().run(&inputs.stream)?)
        }));
    }
}

fn rows_of<T: Float + TestElement>(cases: &mut Vec<Case>, arch: (u32, u32), shapes: &[[usize; 2]]) {
    let dtype = T::DTYPE;
    for &shape in shapes {
        let [rows, n] = shape;
        let mut add = |operation: &str, run: fn([usize; 2], &mut Inputs) -> Result<()>| {
            let name = format!("{operation} of {dtype}, {rows} x {n}");
            let case = Case::new(name, arch, move |inputs| run(shape, inputs));
            cases.push(match operation {
                "norms" => case,
                _ => case.approximate(),
            });
        };
        add("softmax", softmax::<T>);
        add("cross-entropy", cross_entropy::<T>);
        add("norms", norms::<T>);
        if n <= 16_384 {
            add("top-k", first::<T>);
        }
    }
}

fn softmax<T: Float + TestElement>(shape: [usize; 2], inputs: &mut Inputs) -> Result<()> {
    let (x, dy) = (inputs.tensor::<T>(&shape)?, inputs.tensor::<T>(&shape)?);
    let y = Softmax::new(&x).run(&inputs.stream)?;
    read(&y)?;
    read(&SoftmaxGrad::new(&y, &dy).run(&inputs.stream)?)?;
    read(&LogSoftmax::new(&x).run(&inputs.stream)?)
}

fn cross_entropy<T: Float + TestElement>([rows, n]: [usize; 2], inputs: &mut Inputs) -> Result<()> {
    let x = inputs.tensor::<T>(&[rows, n])?;
    let targets = inputs.indices::<i64>(rows, n)?;
    let weights = inputs.tensor::<f32>(&[n])?;
    let loss = CrossEntropy::new(&x, &targets)
        .ignore_index(-1)
        .label_smoothing(0.1);
    read(&loss.run(&inputs.stream)?)?;
    let weighted = loss.class_weights(&weights).gradient();
    let out = weighted.run(&inputs.stream)?;
    read(&out.loss)?;
    read(&out.dlogits)?;
    let each = CrossEntropy::new(&x, &targets).reduction(Reduction::None);
    read(&each.run(&inputs.stream)?)?;
    let probabilities = inputs.tensor::<T>(&[rows, n])?;
    let soft = CrossEntropy::new(&x, &probabilities).label_smoothing(0.1);
    let out = soft.gradient().run(&inputs.stream)?;
    read(&out.loss)?;
    read(&out.dlogits)
}

/// With and without a residual, a bias, and weights in f32.
fn norms<T: Float + TestElement>(shape: [usize; 2], inputs: &mut Inputs) -> Result<()> {
    let n = [shape[1]];
    let [x, residual, dy, dsum] = [(); 4].map(|()| inputs.tensor::<T>(&shape));
    let (x, residual, dy, dsum) = (x?, residual?, dy?, dsum?);
    let (weight, bias) = (inputs.tensor::<T>(&n)?, inputs.tensor::<T>(&n)?);
    let (weight_f32, bias_f32) = (inputs.tensor::<f32>(&n)?, inputs.tensor::<f32>(&n)?);
    let stream = inputs.stream.clone();
    let plain = LayerNorm::new(&x).weight(&weight);
    read(&plain.clone().run(&stream)?)?;
    let plan = plain.plan(&stream)?;
    let names = plan.candidates().iter().map(|candidate| &*candidate.name);
    // Of rows of odd lengths; no plan begins with them.
    let is_any_ring = |name: &&str| name.contains("ring") && name.ends_with("any");
    for name in names.filter(is_any_ring) {
        read(&plain.clone().with_kernel(name).run(&stream)?)?;
    }
    let kept = plain.bias(&bias).stats().run(&stream)?;
    read(&kept.y)?;
    if let (Some(mean), Some(rstd)) = (&kept.mean, &kept.rstd) {
        read(mean)?;
        read(rstd)?;
        let gradient = LayerNormGrad::new(&x, mean, rstd, &dy);
        read(&gradient.clone().run(&stream)?.dx)?;
        let weighted = gradient.clone().weight(&weight).run(&stream)?;
        read(&weighted.dx)?;
        weighted.dweight.iter().try_for_each(read)?;
        weighted.dbias.iter().try_for_each(read)?;
        let weighted = gradient
            .weight(&weight_f32)
            .sum_gradient(&dsum)
            .run(&stream)?;
        read(&weighted.dx)?;
        weighted.dweight.iter().try_for_each(read)?;
    }
    let in_f32 = LayerNorm::new(&x).weight(&weight_f32).bias(&bias_f32);
    read(&in_f32.run(&stream)?)?;
    read(&RmsNorm::new(&x).weight(&weight).run(&stream)?)?;
    let kept = RmsNorm::new(&x)
        .residual(&residual)
        .weight(&weight)
        .stats()
        .run(&stream)?;
    read(&kept.y)?;
    kept.sum.iter().try_for_each(read)?;
    if let Some(rstd) = &kept.rstd {
        let gradient = RmsNormGrad::new(&x, rstd, &dy).weight(&weight);
        let gradients = gradient.run(&stream)?;
        read(&gradients.dx)?;
        gradients.dweight.iter().try_for_each(read)?;
    }
    read(
        &RmsNorm::new(&x)
            .residual(&residual)
            .weight(&weight_f32)
            .run(&stream)?,
    )
}

fn first<T: Reducible + TestElement>(shape: [usize; 2], inputs: &mut Inputs) -> Result<()> {
    let x = inputs.tensor::<T>(&shape)?;
    for k in [1, 20, 300] {
        if k > shape[1] {
            continue;
        }
        let first = TopK::new(&x, k);
        for first in [first, first.smallest()] {
            let out = first.run(&inputs.stream)?;
            read(&out.values)?;
            read(&out.indices)?;
        }
    }
    Ok(())
}
