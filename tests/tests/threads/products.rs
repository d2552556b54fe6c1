//! Products of matrices: by a kernel of each kind that is offered.

use super::calls::{Calls, bits, kinds};
use half::{bf16, f16};
use warpsmith::{Activation, E4m3, Float, Gemm, GemmInput, GroupedGemm, Precision};
use warpsmith_tests::element::TestElement;

pub(crate) fn add(calls: &mut Calls) {
    product::<f32>(calls, [24, 40, 80], "");
    product::<f64>(calls, [24, 40, 80], "");
    product::<bf16>(calls, [24, 40, 80], "");
    product::<i8>(calls, [24, 40, 80], "");
    product::<E4m3>(calls, [24, 40, 80], "");
    product::<f16>(calls, [4, 64, 256], "decode");
    product::<bf16>(calls, [24, 40, 1024], "+streamk");
    with_epilogue(calls);
    in_parts(calls);
    grouped(calls);
}

/// By the kernels whose names contain `part`.
fn product<T>(calls: &mut Calls, [m, n, k]: [usize; 3], part: &str)
where
    T: TestElement + GemmInput<Output: TestElement>,
{
    let (a, b) = (calls.numbers::<T>(&[m, k]), calls.numbers::<T>(&[k, n]));
    let plan = Gemm::new(&a, &b).plan(&calls.stream).expect("a plan");
    let names = plan.candidates().iter().map(|each| each.name.clone());
    let names = kinds(names.filter(|name| name.contains(part)));
    assert!(!names.is_empty(), "no kernel is called {part}");
    for name in names {
        let (a, b) = (a.clone(), b.clone());
        calls.add(format!("Gemm of {m}, {n}, {k} by {name}"), move |stream| {
            bits(&Gemm::new(&a, &b).with_kernel(&name).run(stream)?)
        });
    }
}

fn with_epilogue(calls: &mut Calls) {
    let (a, b) = (
        calls.numbers::<bf16>(&[30, 64]),
        calls.numbers::<bf16>(&[64, 50]),
    );
    let (c, bias) = (
        calls.numbers::<bf16>(&[30, 50]),
        calls.numbers::<bf16>(&[50]),
    );
    calls.add("Gemm with an epilogue", move |stream| {
        let product = Gemm::new(&a, &b)
            .alpha(0.5)
            .beta(2.0, &c)
            .column_bias(&bias);
        bits(
            &product
                .activation(Activation::Gelu)
                .residual(&c)
                .run(stream)?,
        )
    });
}

fn in_parts(calls: &mut Calls) {
    let (a, b) = (
        calls.numbers::<f32>(&[33, 200]),
        calls.numbers::<f32>(&[200, 35]),
    );
    for precision in [Precision::Full, Precision::Tf32] {
        let (a, b) = (a.clone(), b.clone());
        calls.add(
            format!("Gemm in three parts, {precision:?}"),
            move |stream| {
                bits(
                    &Gemm::new(&a, &b)
                        .precision(precision)
                        .split_k(3)
                        .run(stream)?,
                )
            },
        );
    }
}

fn grouped(calls: &mut Calls) {
    fn of<T: TestElement + Float>(calls: &mut Calls, k: usize) {
        let (a, b) = (
            calls.numbers::<T>(&[70, k]),
            calls.numbers::<T>(&[3, k, 24]),
        );
        let ends = calls.below::<i32>(70, &[3]);
        calls.add(format!("GroupedGemm of {}", T::DTYPE), move |stream| {
            bits(&GroupedGemm::new(&a, &b, &ends).run(stream)?)
        });
    }
    of::<f32>(calls, 33);
    of::<bf16>(calls, 40);
    of::<f16>(calls, 35); // copied to rows that tensor maps describe
}
