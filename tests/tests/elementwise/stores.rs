//! Chains that write several tensors: one step of AdamW in one launch.

use half::bf16;
use proptest::prelude::*;
use warpsmith::BinaryOp::{Add, Div, Mul, Sub};
use warpsmith::{Chain, ChainElement, Device, Error, ShapeError, Stream, Tensor, UnaryOp};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::output::{Output, same_bits};
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

const RATE: f32 = 0.01;
const DECAY: f32 = 0.1;
const BETAS: [f32; 2] = [0.9, 0.99];
const EPSILON: f32 = 1e-8;

/// The shape, the layouts of weights, gradients and moments, and a seed.
type Case = (Vec<usize>, [View; 4], u32);

/// A step of AdamW (<https://arxiv.org/abs/1711.05101>) without bias correction: weights and moments
/// are replaced.
fn step<W: ChainElement, G: ChainElement>(
    weights: &Tensor<W>,
    gradients: &Tensor<G>,
    [m, v]: [&Tensor<f32>; 2],
    stream: &Stream,
) -> warpsmith::Result<()> {
    Chain::new(m)
        .with_first(Sub, gradients)
        .scalar(Mul, 1.0 - BETAS[0])
        .with(Add, m)
        .store(m)
        .keep(0)
        .load(gradients)
        .unary(UnaryOp::Square)
        .with(Sub, v)
        .scalar(Mul, 1.0 - BETAS[1])
        .with(Add, v)
        .store(v)
        .unary(UnaryOp::Sqrt)
        .scalar(Add, EPSILON)
        .kept_first(Div, 0)
        .keep(0)
        .load(weights)
        .scalar(Mul, DECAY)
        .kept(Add, 0)
        .scalar(Mul, -RATE)
        .with(Add, weights)
        .output::<W>()
        .run_into(weights, stream)
}

/// The same in f32 on the host: each operation is rounded once, as the kernel's are.
fn step_on_the_host(w: f32, g: f32, [m, v]: [f32; 2]) -> (f32, [f32; 2]) {
    let m = (g - m) * (1.0 - BETAS[0]) + m;
    let v = (g * g - v) * (1.0 - BETAS[1]) + v;
    let change = m / (v.sqrt() + EPSILON);
    ((w * DECAY + change) * -RATE + w, [m, v])
}

fn check<W, G>((shape, views, seed): &Case, device: &Device) -> Checked
where
    W: ChainElement + TestElement,
    G: ChainElement + TestElement,
{
    let stream = device.stream().map_err(say)?;
    let g = Operand::<G>::draw(device, shape, Values::Uniform, views[1], u64::from(*seed))?;
    let value = |salt: u64| Values::Uniform.draw(shape, u64::from(*seed) + salt);
    let w = value(1).mapv(W::nearest);
    let m = value(2).mapv(|x| x as f32);
    let v = value(3).mapv(|x| (x * x) as f32);
    let weights = Output::with(device, &w, views[0])?;
    let moments = [
        Output::with(device, &m, views[2])?,
        Output::with(device, &v, views[3])?,
    ];
    step(
        &weights.tensor,
        &g.tensor,
        [&moments[0].tensor, &moments[1].tensor],
        &stream,
    )
    .map_err(say)?;
    let mut want = (w, m, v);
    ndarray::Zip::from(&mut want.0)
        .and(&mut want.1)
        .and(&mut want.2)
        .and(&g.values)
        .for_each(|w, m, v, &g| {
            let (weight, moments) = step_on_the_host(w.wide() as f32, g as f32, [*m, *v]);
            *w = W::nearest(weight.into());
            [*m, *v] = moments;
        });
    g.expect_unchanged()?;
    same_bits(&weights.read()?, &want.0)?;
    same_bits(&moments[0].read()?, &want.1)?;
    same_bits(&moments[1].read()?, &want.2)
}

#[test]
fn a_step_of_adamw_is_one_launch_with_the_bits_of_its_operations() {
    let case = |largest: usize| {
        let shape = prop_oneof![
            extent(largest * 30).prop_map(|n| vec![n]),
            (extent(largest), extent(40)).prop_map(|(a, b)| vec![a, b]),
        ];
        let view = || prop_oneof![2 => Just(View::Contiguous), 1 => View::writable()];
        (shape, [view(), view(), view(), view()], any::<u32>())
    };
    let effort = Effort {
        cases: [20, 200],
        largest: [60, 20_000],
    };
    holds(effort, case, |case, device| {
        check::<f32, f32>(case, device)?;
        check::<bf16, f32>(case, device)?;
        check::<bf16, bf16>(case, device)
    });
}

#[test]
fn tensors_that_cannot_be_written_are_refused() {
    let device = Device::emulator().expect("an emulator");
    let stream = device.stream().expect("a stream");
    let tensor = |shape: &[usize]| Tensor::<f32>::zeros(&stream, shape).expect("a tensor");
    let (x, row, other) = (tensor(&[4, 6]), tensor(&[6]), tensor(&[4, 6]));
    let error = Chain::new(&x).store(&row).run(&stream);
    assert_eq!(
        error.expect_err("a row").to_string(),
        "chain: shape of `stored tensor` is [6], want [4, 6]"
    );
    let overlap = |done: warpsmith::Result<()>| {
        let error = done.expect_err("overlaps");
        let is_overlap = matches!(error.root(), Error::Shape(ShapeError::Overlap { .. }));
        assert!(is_overlap, "{error}");
    };
    let result = tensor(&[4, 6]);
    let into = |chain: Chain<'_, f32>, y| chain.run_into(y, &stream);
    overlap(into(Chain::new(&x).store(&other).store(&other), &result));
    overlap(into(Chain::new(&x).store(&other), &other));
    let late = x.slice_step(0, .., -1).expect("a view");
    overlap(into(Chain::new(&x).store(&late), &result));
    let repeated = row.broadcast_to(&[4, 6]).expect("a view");
    let error = Chain::new(&x)
        .store(&repeated)
        .run(&stream)
        .expect_err("rows are one");
    assert!(
        matches!(error.root(), Error::Shape(ShapeError::Strides { .. })),
        "{error}"
    );
    Chain::new(&x)
        .store(&x)
        .scalar(Add, 1.0)
        .run(&stream)
        .expect("its own input");
}
