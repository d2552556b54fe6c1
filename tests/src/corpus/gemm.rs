//! Matrix products: every kernel that a plan offers.

use half::{bf16, f16};
use warpsmith::{
    Activation, E4m3, E5m2, Gemm, GemmInput, GemmOutput, GroupedGemm, Precision, Result, Tensor,
};

use super::{Case, Inputs, Seen, read};
use crate::element::TestElement;

/// m, n, k: for tiles of all sizes, for few rows of a long k, and for rows that begin anywhere.
const EXTENTS: [[usize; 3]; 8] = [
    [136, 136, 72],
    [72, 136, 128],
    [8, 256, 512],
    [40, 264, 256],
    [24, 136, 256],
    [8, 136, 261],
    [24, 136, 133],
    [40, 136, 131],
];
const LAYOUTS: &[&str] = &["nn", "nt", "tn", "tt"];

/// How the result is made of the sums.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Epilogue {
    Plain,
    /// Factors, C, a bias, an activation.
    Fused,
}

pub(super) fn add(cases: &mut Vec<Case>) {
    let hopper = (9, 0);
    products::<f32, f32, f32>(cases, hopper, LAYOUTS);
    products::<f16, f16, f16>(cases, hopper, LAYOUTS);
    products::<f16, f16, f32>(cases, hopper, LAYOUTS);
    products::<bf16, bf16, bf16>(cases, hopper, LAYOUTS);
    products::<bf16, bf16, f32>(cases, hopper, LAYOUTS);
    products::<f16, f16, f16>(cases, (7, 5), LAYOUTS);
    for arch in [(7, 5), (8, 0), hopper] {
        products::<f64, f64, f64>(cases, arch, &["nt"]);
        cases.push(Case::new("i8 by i8", arch, integer));
    }
    for arch in [(8, 9), hopper] {
        products::<E4m3, E4m3, bf16>(cases, arch, &["nt"]);
        products::<E4m3, E4m3, f32>(cases, arch, &["nt"]);
        products::<E4m3, E5m2, bf16>(cases, arch, &["nt"]);
        products::<E4m3, E5m2, f32>(cases, arch, &["nt"]);
        products::<E5m2, E4m3, bf16>(cases, arch, &["nt"]);
        products::<E5m2, E4m3, f32>(cases, arch, &["nt"]);
        products::<E5m2, E5m2, bf16>(cases, arch, &["nt"]);
    }
    cases.push(Case::new("grouped product of f32", hopper, grouped::<f32>));
    cases.push(Case::new("grouped product of f16", hopper, grouped::<f16>));
    cases.push(Case::new(
        "grouped product of bf16",
        hopper,
        grouped::<bf16>,
    ));
}

fn products<A, B, Out>(cases: &mut Vec<Case>, arch: (u32, u32), layouts: &'static [&'static str])
where
    A: GemmInput<B> + TestElement,
    B: TestElement,
    Out: GemmOutput + TestElement,
    Out::Factor: TestElement,
{
    for &layout in layouts {
        for epilogue in [Epilogue::Plain, Epilogue::Fused] {
            let (a, b, out) = (A::DTYPE, B::DTYPE, Out::DTYPE);
            let name = format!("{a} by {b} to {out}, {layout}, {epilogue:?}");
            let run = move |inputs: &mut Inputs| product::<A, B, Out>(layout, epilogue, inputs);
            cases.push(Case::new(name, arch, run));
        }
    }
}

fn product<A, B, Out>(layout: &str, epilogue: Epilogue, inputs: &mut Inputs) -> Result<()>
where
    A: GemmInput<B> + TestElement,
    B: TestElement,
    Out: GemmOutput + TestElement,
    Out::Factor: TestElement,
{
    let mut seen = Seen::default();
    for [m, n, k] in EXTENTS {
        let a = match layout.starts_with('n') {
            true => inputs.tensor::<A>(&[m, k])?,
            false => inputs.tensor::<A>(&[k, m])?.t(),
        };
        let b = match layout.ends_with('n') {
            true => inputs.tensor::<B>(&[k, n])?,
            false => inputs.tensor::<B>(&[n, k])?.t(),
        };
        let c = inputs.tensor::<Out>(&[m, n])?;
        let bias = inputs.tensor::<Out>(&[n])?;
        let half = Out::Factor::nearest(0.5);
        for is_fast in [false, true] {
            let product = Gemm::new(&a, &b).output::<Out>().fast_accumulation(is_fast);
            let product = match is_fast {
                true => product.precision(Precision::Tf32),
                false => product,
            };
            let product = match epilogue {
                Epilogue::Plain => product,
                Epilogue::Fused => {
                    let product = product.alpha(half).beta(half, &c).column_bias(&bias);
                    product.activation(Activation::Relu)
                }
            };
            let plan = product.plan(&inputs.stream)?;
            let names = plan.candidates().iter().map(|candidate| &*candidate.name);
            for name in seen.new_of(names) {
                read(&product.with_kernel(name).run(&inputs.stream)?)?;
            }
        }
    }
    Ok(())
}

fn integer(inputs: &mut Inputs) -> Result<()> {
    let mut seen = Seen::default();
    for [m, n, k] in EXTENTS {
        let (a, b) = (
            inputs.tensor::<i8>(&[m, k])?,
            inputs.tensor::<i8>(&[n, k])?.t(),
        );
        let scales = inputs.tensor::<f32>(&[n])?;
        let sums = Gemm::new(&a, &b);
        let plan = sums.plan(&inputs.stream)?;
        for name in seen.new_of(plan.candidates().iter().map(|other| &*other.name)) {
            read(&sums.with_kernel(name).run(&inputs.stream)?)?;
        }
        read(&sums.split_k(2).run(&inputs.stream)?)?;
        let operands = (&a, &b, &scales);
        scaled::<f16>(operands, &mut seen, inputs)?;
        scaled::<bf16>(operands, &mut seen, inputs)?;
        scaled::<f32>(operands, &mut seen, inputs)?;
    }
    Ok(())
}

/// The product of i8 with a scale for each column.
fn scaled<Out>(
    (a, b, scales): (&Tensor<i8>, &Tensor<i8>, &Tensor<f32>),
    seen: &mut Seen,
    inputs: &Inputs,
) -> Result<()>
where
    Out: GemmOutput<Factor = f32> + TestElement,
{
    let product = Gemm::new(a, b).output::<Out>().column_scales(scales);
    let plan = product.plan(&inputs.stream)?;
    for name in seen.new_of(plan.candidates().iter().map(|other| &*other.name)) {
        read(&product.with_kernel(name).run(&inputs.stream)?)?;
    }
    Ok(())
}

fn grouped<T>(inputs: &mut Inputs) -> Result<()>
where
    T: warpsmith::Float + TestElement,
{
    let [m, n, k, groups] = [150, 136, 72, 4];
    let a = inputs.tensor::<T>(&[m, k])?;
    let ends = inputs.of(&[groups], &[40_i32, 40, 90, 150])?;
    let by_rows = inputs.tensor::<T>(&[groups, k, n])?;
    let by_columns = inputs.tensor::<T>(&[groups, n, k])?.permute(&[0, 2, 1])?;
    for b in [by_rows, by_columns] {
        read(&GroupedGemm::new(&a, &b, &ends).run(&inputs.stream)?)?;
    }
    Ok(())
}
