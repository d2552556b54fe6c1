//! The fused epilogue: exact as long as integers stay integers.

use warpsmith::testing::devices;
use warpsmith::{Activation, Device, Float, Gemm, GemmInput, GemmOutput, Precision, Tensor};
use warpsmith_tests::element::TestElement;

use super::product::{Gaps, LAYOUTS, NT, Placed, Product, integers, with_all_dtypes};
use super::{generations, has_own_kernels};

/// All kernels of tensor cores.
const FAMILIES: &[&str] = &["gemm_mma", "gemm_decode", "gemm_sm90"];

/// All parts of the epilogue at once: scales are powers of 2, everything else integers.
fn everything<A, B, Out>(product: &Product, along_rows: bool, device: &Device) -> Vec<String>
where
    A: GemmInput<B> + TestElement,
    B: TestElement,
    Out: Float + GemmOutput<Factor = f32> + TestElement + PartialEq,
{
    if !has_own_kernels(device, A::DTYPE) {
        return Vec::new();
    }
    let &Product { batch, m, n, .. } = product;
    let stream = device.stream().expect("a stream");
    let operands = product.operands();
    let (a, b) = product.place::<A, B>(&stream, &operands);
    let (c, residual) = (integers(7, batch * m * n), integers(8, m * n));
    let c_placed = Placed::<Out>::of(&stream, [batch, m, n], false, product.d, &c);
    let shared = Gaps {
        broadcast: true,
        ..Gaps::new(1, 2)
    };
    let residual_placed = Placed::<Out>::of(&stream, [batch, m, n], false, shared, &residual);
    let bias = integers(9, if along_rows { m } else { n });
    let typed: Vec<Out> = bias.iter().map(|&x| Out::nearest(x)).collect();
    let bias_tensor = Tensor::from_slice(device, &[bias.len()], &typed).expect("memory");
    let powers = |len: usize| -> Vec<f32> { (0..len).map(|i| [0.5, 1.0, 2.0][i % 3]).collect() };
    let upload =
        |values: &[f32]| Tensor::from_slice(device, &[values.len()], values).expect("memory");
    let (rows, columns) = (powers(m), powers(n));
    let (row_scales, column_scales, beta) = (upload(&rows), upload(&columns), upload(&[-3.0]));
    let gemm = Gemm::new(&a.view, &b.view)
        .output::<Out>()
        .precision(Precision::Tf32)
        .fast_accumulation(true)
        .alpha(2.0)
        .beta_from(&beta, &c_placed.view)
        .row_scales(&row_scales)
        .column_scales(&column_scales)
        .activation(Activation::Relu)
        .residual(&residual_placed.view);
    let gemm = match along_rows {
        true => gemm.row_bias(&bias_tensor),
        false => gemm.column_bias(&bias_tensor),
    };
    let exact = product.exact(&operands);
    product.by_each(&gemm, FAMILIES, &stream, |at| {
        let ([_, row, column], at) = (at, product.index(at));
        let scales = f64::from(rows[row] * columns[column]);
        let x = 2.0 * scales * exact[at] - 3.0 * c[at];
        let x = x + bias[if along_rows { row } else { column }];
        x.max(0.0) + residual[row * n + column]
    })
}

#[test]
fn scales_c_bias_activation_and_residual_come_in_their_order() {
    for device in generations() {
        for trans in LAYOUTS {
            for along_rows in [false, true] {
                let product = Product {
                    batch: 2,
                    d: Gaps::new(3, 5),
                    ..Product::new(131, 141, 20, trans)
                };
                with_all_dtypes!(everything(&product, along_rows, &device));
            }
        }
    }
}

#[test]
fn with_few_rows_they_come_after_all_of_k() {
    for device in devices() {
        for trans in [[false, false], NT] {
            for along_rows in [false, true] {
                for m in [6, 30, 50, 100] {
                    let product = Product::new(m, 71, 96, trans).aligned();
                    with_all_dtypes!(everything(&product, along_rows, &device));
                }
            }
        }
    }
}

/// k is 0, so C is all that is left; or beta is 0, and C was never written.
fn without_product<A, B, Out>(product: &Product, beta: f32, device: &Device) -> Vec<String>
where
    A: GemmInput<B> + TestElement,
    B: TestElement,
    Out: Float + GemmOutput<Factor = f32> + TestElement + PartialEq,
{
    if !has_own_kernels(device, A::DTYPE) {
        return Vec::new();
    }
    let shape = [1, product.m, product.n];
    let stream = device.stream().expect("a stream");
    let operands = product.operands();
    let (a, b) = product.place::<A, B>(&stream, &operands);
    let c = match beta {
        0.0 => vec![0.0; product.m * product.n],
        _ => integers(5, product.m * product.n),
    };
    let placed = match beta {
        0.0 => Placed::<Out>::empty(&stream, shape, false, Gaps::default()),
        _ => Placed::<Out>::of(&stream, shape, false, Gaps::default(), &c),
    };
    let gemm = Gemm::new(&a.view, &b.view)
        .output::<Out>()
        .precision(Precision::Tf32)
        .fast_accumulation(true)
        .beta(beta, &placed.view);
    let exact = product.exact(&operands);
    product.by_each(&gemm, FAMILIES, &stream, |at| {
        let at = product.index(at);
        exact[at] + f64::from(beta) * c[at]
    })
}

#[test]
fn without_k_there_is_c_alone_and_without_beta_it_is_not_read() {
    for device in generations() {
        for (m, n, k, beta) in [
            (70, 90, 0, 2.0),
            (70, 90, 0, 0.0),
            (70, 90, 64, 0.0),
            (6, 72, 64, 0.0),
        ] {
            for trans in LAYOUTS {
                let product = Product::new(m, n, k, trans).aligned();
                with_all_dtypes!(without_product(&product, beta, &device));
            }
        }
    }
}

/// An activation in f64.
fn activated(activation: Activation, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match activation {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        // The tanh formula is within 1e-3 of the one with erf.
        Activation::Gelu | Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            x / 2.0 * (1.0 + inner.tanh())
        }
        Activation::Silu => x * sigmoid(x),
        Activation::Sigmoid => sigmoid(x),
        Activation::Tanh => x.tanh(),
    }
}

/// Runs a product with an activation by every kernel; the result is within `tolerance`.
fn activation<A, B, Out>(product: &Product, activation: Activation, device: &Device) -> Vec<String>
where
    A: GemmInput<B> + TestElement,
    B: TestElement,
    Out: Float + GemmOutput<Factor = f32> + TestElement,
{
    if !has_own_kernels(device, A::DTYPE) {
        return Vec::new();
    }
    // Half a unit in the last place, and the difference of the formulas.
    let tolerance = 0.5_f64.powi(if Out::DTYPE == warpsmith::DType::Bf16 {
        8
    } else {
        11
    }) + 1e-3;
    let stream = device.stream().expect("a stream");
    let operands = product.operands();
    let (a, b) = product.place::<A, B>(&stream, &operands);
    let exact = product.exact(&operands);
    let gemm = Gemm::new(&a.view, &b.view)
        .output::<Out>()
        .precision(Precision::Tf32)
        .fast_accumulation(true)
        .alpha(0.125)
        .activation(activation);
    let plan = gemm.plan(&stream).expect("a plan");
    let candidates = plan.candidates().iter();
    let names = candidates.map(|way| way.name.clone());
    let names: Vec<_> = names
        .filter(|name| !name.starts_with("gemm_simt"))
        .collect();
    for name in &names {
        let got = gemm.with_kernel(name).run(&stream).expect("a product");
        for (got, exact) in got.to_vec().expect("it can be read").iter().zip(&exact) {
            let want = activated(activation, 0.125 * exact);
            let error = (got.wide() - want).abs();
            assert!(
                error <= tolerance * (1.0 + want.abs()),
                "{name}, {activation}: {got:?}, want {want}"
            );
        }
    }
    names
}

#[test]
fn every_activation_is_there() {
    for device in generations() {
        for of in Activation::ALL {
            for (m, n, k) in [(65, 72, 16), (6, 72, 16)] {
                let product = Product::new(m, n, k, NT).aligned();
                with_all_dtypes!(activation(&product, of, &device));
            }
        }
    }
}
