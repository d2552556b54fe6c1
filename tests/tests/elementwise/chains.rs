//! Chains give the same bits as their steps one by one, in f32.

use half::{bf16, f16};
use ndarray::{ArrayD, Dimension};
use proptest::prelude::*;
use warpsmith::fuse::{Fragment, Scalar};
use warpsmith::reference::elementwise::erfc;
use warpsmith::{
    Arithmetic, Binary, BinaryOp, CastElement, Chain, ChainElement, Countable, Device, E4m3, E5m2,
    GradOp, Gradient, Reduce, ReduceOp, Select, Stream, Tensor, Unary, UnaryOp,
};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::output::{Output, same_bits};
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

/// A step of a chain; tensors are given by number.
#[derive(Clone, Copy, Debug)]
enum Link {
    Unary(UnaryOp),
    Scalar(BinaryOp, f32, bool),
    With(BinaryOp, usize, bool),
    Gradient(GradOp, usize),
    Select(usize, usize),
    Keep(u8),
    Kept(BinaryOp, u8, bool),
}

#[derive(Clone, Debug)]
struct Program {
    shape: Vec<usize>,
    /// Which extents of tensors 1, 2 and 3 are 1.
    broadcast: [u8; 3],
    views: [View; 5],
    links: Vec<Link>,
    values: Values,
    seed: u64,
}

fn link() -> impl Strategy<Value = Link> {
    let unary = UnaryOp::all_in(Arithmetic::F32).filter(|op| !op.takes_scalar());
    let unary = prop::sample::select(unary.collect::<Vec<_>>());
    let binary = || prop::sample::select(BinaryOp::all_in(Arithmetic::F32).collect::<Vec<_>>());
    let scalar = prop::sample::select(vec![0.0_f32, -1.5, 3.0, 0.25]);
    prop_oneof![
        3 => unary.prop_map(Link::Unary),
        2 => (binary(), scalar, any::<bool>()).prop_map(|(op, x, first)| Link::Scalar(op, x, first)),
        3 => (binary(), 0..4_usize, any::<bool>()).prop_map(|(op, t, first)| Link::With(op, t, first)),
        1 => (prop::sample::select(GradOp::ALL.to_vec()), 0..4_usize)
            .prop_map(|(op, t)| Link::Gradient(op, t)),
        1 => (0..4_usize, 0..4_usize).prop_map(|(c, t)| Link::Select(c, t)),
        1 => (0..4_u8).prop_map(Link::Keep),
        1 => (binary(), 0..4_u8, any::<bool>()).prop_map(|(op, n, first)| Link::Kept(op, n, first)),
    ]
}

fn program(largest: usize) -> impl Strategy<Value = Program> {
    let shape = prop_oneof![
        extent(largest * 30).prop_map(|n| vec![n]),
        (extent(largest), extent(40)).prop_map(|(a, b)| vec![a, b]),
        (extent(7), extent(9), extent(20)).prop_map(|(a, b, c)| vec![a, b, c]),
    ];
    let view = || prop_oneof![2 => Just(View::Contiguous), 1 => View::any()];
    let views = [
        view().boxed(),
        view().boxed(),
        view().boxed(),
        view().boxed(),
        View::writable().boxed(),
    ];
    (
        shape,
        any::<[u8; 3]>(),
        views,
        prop::collection::vec(link(), 0..=10),
        Values::any(),
        any::<u32>(),
    )
        .prop_map(|(shape, broadcast, views, links, values, seed)| Program {
            shape,
            broadcast,
            views,
            links: valid(links),
            values,
            seed: seed.into(),
        })
}

/// Drops the steps that use values that were not kept.
fn valid(links: Vec<Link>) -> Vec<Link> {
    let mut kept = [false; 4];
    let mut all = Vec::new();
    for link in links {
        match link {
            Link::Keep(n) => kept[usize::from(n)] = true,
            Link::Kept(_, n, _) if !kept[usize::from(n)] => continue,
            _ => {}
        }
        all.push(link);
    }
    all
}

type Operands<A, B> = (Operand<A>, [Operand<B>; 3]);

fn operands<A: TestElement, B: TestElement>(
    program: &Program,
    device: &Device,
) -> Result<Operands<A, B>, String> {
    let draw = |t: usize| {
        let bits = program.broadcast[t];
        let extents = program.shape.iter().enumerate();
        let shape: Vec<usize> = extents
            // A quarter of the extents become 1.
            .map(|(axis, &extent)| {
                if (bits >> (2 * axis)) & 3 == 0 {
                    1
                } else {
                    extent
                }
            })
            .collect();
        let seed = program.seed + 1 + t as u64;
        Operand::<B>::draw(device, &shape, program.values, program.views[1 + t], seed)
    };
    let x = Operand::<A>::draw(
        device,
        &program.shape,
        program.values,
        program.views[0],
        program.seed,
    )?;
    Ok((x, [draw(0)?, draw(1)?, draw(2)?]))
}

/// The chain in a single launch.
fn fused<'a, A: ChainElement, B: ChainElement>(
    links: &[Link],
    x: &'a Tensor<A>,
    others: [&'a Tensor<B>; 3],
) -> Chain<'a, A> {
    let mut chain = Chain::new(x);
    for &link in links {
        chain = match link {
            Link::Unary(op) => chain.unary(op),
            Link::Scalar(op, scalar, false) => chain.scalar(op, scalar),
            Link::Scalar(op, scalar, true) => chain.scalar_first(op, scalar),
            Link::With(op, 0, false) => chain.with(op, x),
            Link::With(op, 0, true) => chain.with_first(op, x),
            Link::With(op, t, false) => chain.with(op, others[t - 1]),
            Link::With(op, t, true) => chain.with_first(op, others[t - 1]),
            Link::Gradient(op, 0) => chain.gradient(op, x),
            Link::Gradient(op, t) => chain.gradient(op, others[t - 1]),
            Link::Select(0, 0) => chain.select(x, x),
            Link::Select(0, t) => chain.select(x, others[t - 1]),
            Link::Select(c, 0) => chain.select(others[c - 1], x),
            Link::Select(c, t) => chain.select(others[c - 1], others[t - 1]),
            Link::Keep(n) => chain.keep(n),
            Link::Kept(op, n, false) => chain.kept(op, n),
            Link::Kept(op, n, true) => chain.kept_first(op, n),
        };
    }
    chain
}

/// The short form of a function, if it has one.
fn narrow(op: UnaryOp) -> Option<Fragment> {
    op.narrow_ulps()?;
    let text = warpsmith_tests::built_ptx("sm_75/fragments.ptx");
    let name = format!("f32_{}_narrow", op.name());
    // SAFETY: cuda_builder made the text.
    let fragment = unsafe { Fragment::from_ptx(&text, &name, &[Scalar::F32], Scalar::F32) };
    Some(fragment.expect("functions with a bound for short forms have one"))
}

/// The same with one launch per step, on f32 tensors. Functions are in their short forms if the
/// chain uses those.
fn one_by_one(
    links: &[Link],
    is_narrow: bool,
    tensors: &[Tensor<f32>; 4],
    shape: &[usize],
    stream: &Stream,
) -> warpsmith::Result<Tensor<f32>> {
    let scalar = |x: f32| Tensor::full(stream, &[1], x);
    let binary = |op, value: &Tensor<f32>, other: &Tensor<f32>, is_first| {
        let (a, b) = if is_first {
            (other, value)
        } else {
            (value, other)
        };
        Binary::new(op, a, b).run(stream)
    };
    let mut value = tensors[0].contiguous(stream)?;
    let mut kept: [Option<Tensor<f32>>; 4] = Default::default();
    for &link in links {
        value = match link {
            Link::Unary(op) => match narrow(op).filter(|_| is_narrow) {
                Some(short) => Chain::new(&value).apply(&short).run(stream)?,
                None => Unary::new(op, &value).run(stream)?,
            },
            Link::Scalar(op, x, is_first) => binary(op, &value, &scalar(x)?, is_first)?,
            Link::With(op, t, is_first) => binary(op, &value, &tensors[t], is_first)?,
            Link::Gradient(op, t) => Gradient::new(op, &value, &tensors[t]).run(stream)?,
            Link::Select(c, t) => Select::new(&tensors[c], &value, &tensors[t]).run(stream)?,
            Link::Keep(n) => {
                kept[usize::from(n)] = Some(value.clone());
                value
            }
            Link::Kept(op, n, is_first) => match &kept[usize::from(n)] {
                Some(kept) => binary(op, &value, kept, is_first)?,
                None => value,
            },
        };
    }
    assert_eq!(value.shape(), shape);
    Ok(value)
}

fn check<A, B, U>(program: &Program, device: &Device) -> Checked
where
    A: ChainElement + CastElement + TestElement,
    B: ChainElement + CastElement + TestElement,
    U: ChainElement + CastElement + TestElement + std::fmt::Debug,
{
    let (x, others) = operands::<A, B>(program, device)?;
    let stream = device.stream().map_err(say)?;
    let others = [&others[0].tensor, &others[1].tensor, &others[2].tensor];
    let y = Output::<U>::new(device, &program.shape, program.views[4])?;
    fused(&program.links, &x.tensor, others)
        .output()
        .run_into(&y.tensor, &stream)
        .map_err(say)?;
    let [a, b, c] = others.map(|other| other.cast::<f32>(&stream));
    let tensors = [
        x.tensor.cast::<f32>(&stream).map_err(say)?,
        a.map_err(say)?,
        b.map_err(say)?,
        c.map_err(say)?,
    ];
    let is_narrow = Arithmetic::F32.is_narrow(U::DTYPE);
    let want = one_by_one(&program.links, is_narrow, &tensors, &program.shape, &stream);
    let want = want.map_err(say)?;
    let want = want.cast::<U>(&stream).map_err(say)?;
    // All NaNs count as equal: which NaN a step produces is up to the compiler.
    let number = |array: ArrayD<U>| {
        array.mapv(|x| {
            if x.wide().is_nan() {
                U::nearest(0.0)
            } else {
                x
            }
        })
    };
    let (want, got) = (want.to_ndarray().map_err(say)?, y.read()?);
    for ((index, want), got) in want.indexed_iter().zip(&got) {
        if want.wide().is_nan() != got.wide().is_nan() {
            return Err(format!(
                "element {:?} is {got:?}, want {want:?}",
                index.slice()
            ));
        }
    }
    same_bits(&number(want), &number(got))
}

#[test]
fn a_chain_gives_the_bits_of_its_steps_one_by_one() {
    let effort = Effort {
        cases: [200, 1000],
        largest: [60, 20_000],
    };
    let kinds = |n| (program(n), 0..8_usize);
    holds(effort, kinds, |(program, kind), device| match kind {
        0 => check::<f32, f32, f32>(program, device),
        1 => check::<bf16, bf16, bf16>(program, device),
        2 => check::<f16, f32, f16>(program, device),
        3 => check::<f32, bf16, E4m3>(program, device),
        4 => check::<E4m3, i8, bf16>(program, device),
        5 => check::<u8, E5m2, f32>(program, device),
        6 => check::<i8, E4m3, f16>(program, device),
        _ => check::<bf16, f16, f32>(program, device),
    });
}

#[test]
fn a_chain_of_eight_functions_is_near_its_definition() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let n = 5000;
        let x: Vec<f32> = (0..n).map(|i| (i as f32 - 2500.0) * 0.003).collect();
        let x_tensor = Tensor::from_slice(&device, &[n], &x).expect("a tensor");
        let y = Chain::new(&x_tensor)
            .scalar(BinaryOp::Mul, 0.7)
            .scalar(BinaryOp::Add, 0.1)
            .unary(UnaryOp::Silu)
            .unary(UnaryOp::Square)
            .scalar(BinaryOp::Add, 1.0)
            .unary(UnaryOp::Log)
            .unary(UnaryOp::Tanh)
            .clamp(0.125, 0.75)
            .output::<f32>()
            .run(&stream)
            .and_then(|y| y.to_vec())
            .expect("a chain");
        for (x, y) in x.into_iter().zip(y) {
            let v = f64::from(x) * f64::from(0.7_f32) + f64::from(0.1_f32);
            let silu = v / (1.0 + (-v).exp());
            let want = (silu * silu).ln_1p().tanh().clamp(0.125, 0.75);
            // Each of eight roundings, amplified by derivatives of at most 4 in all.
            let error = (f64::from(y) - want).abs();
            assert!(
                error <= 8.0 * 4.0 * 6e-8,
                "{x} is {y}, want {want}, on {device}"
            );
        }
    }
}

#[test]
fn chains_of_short_floats_are_near_their_definition() {
    fn check<T: ChainElement + TestElement>(device: &Device, unit_roundoff: f64) {
        let stream = device.stream().expect("a stream");
        let n = 5000_usize;
        let x: Vec<T> = (0..5000)
            .map(|i| T::nearest((f64::from(i) - 2500.0) * 0.004))
            .collect();
        let x_tensor = Tensor::from_slice(device, &[n], &x).expect("a tensor");
        let y = Chain::new(&x_tensor)
            .unary(UnaryOp::Gelu)
            .unary(UnaryOp::Exp)
            .unary(UnaryOp::Sqrt)
            .unary(UnaryOp::Tanh)
            .unary(UnaryOp::Silu)
            .unary(UnaryOp::Sigmoid)
            .output::<T>()
            .run(&stream)
            .and_then(|y| y.to_vec())
            .expect("a chain");
        for (x, y) in x.into_iter().zip(y) {
            let x = x.wide();
            let gelu = 0.5 * x * erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
            let root = gelu.exp().sqrt().tanh();
            let silu = root / (1.0 + (-root).exp());
            let want = 1.0 / (1.0 + (-silu).exp());
            // One rounding, and a hundredth of it for everything before: nothing else is rounded.
            let error = (y.wide() - want).abs();
            let most = want * unit_roundoff * 1.01;
            let y = y.wide();
            assert!(error <= most, "{x} is {y}, want {want}, on {device}");
        }
    }
    for device in warpsmith::testing::devices() {
        check::<bf16>(&device, 2_f64.powi(-8));
        check::<f16>(&device, 2_f64.powi(-11));
    }
}

#[test]
fn an_input_may_be_the_output() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let values: Vec<f32> = (0..3001).map(|i| i as f32 * 0.5 - 700.0).collect();
        let x = Tensor::from_slice(&device, &[3001], &values).expect("a tensor");
        let reversed = x.slice_step(0, .., -1).expect("a view");
        for tensor in [&x, &reversed] {
            Chain::new(tensor)
                .with(BinaryOp::Add, tensor)
                .scalar(BinaryOp::Max, -1.0)
                .run_into(tensor, &stream)
                .expect("a chain");
        }
        let want: Vec<f32> = values.iter().map(|x| 2.0 * (2.0 * x).max(-1.0)).collect();
        let want: Vec<f32> = want.into_iter().map(|x| x.max(-1.0)).collect();
        assert_eq!(x.to_vec().expect("values"), want, "on {device}");
    }
}

#[test]
fn comparisons_are_bytes_and_conditions() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let a = Tensor::from_slice(&device, &[5], &[1.0_f32, 2.0, f32::NAN, -0.0, 5.0]).expect("a");
        let b = Tensor::from_slice(&device, &[5], &[2.0_f32, 2.0, 1.0, 0.0, 4.0]).expect("b");
        let is = |op| {
            Binary::new(op, &a, &b)
                .output::<u8>()
                .run(&stream)
                .and_then(|y| y.to_vec())
        };
        assert_eq!(is(BinaryOp::Lt).expect("lt"), [1, 0, 0, 0, 0]);
        assert_eq!(is(BinaryOp::Ge).expect("ge"), [0, 1, 0, 1, 1]);
        assert_eq!(is(BinaryOp::Ne).expect("ne"), [1, 0, 1, 0, 1]);
        let less = Binary::new(BinaryOp::Le, &a, &b)
            .output::<u8>()
            .run(&stream)
            .expect("le");
        let least = Select::new(&less, &a, &b)
            .run(&stream)
            .and_then(|y| y.to_vec());
        assert_eq!(least.expect("select"), [1.0, 2.0, 1.0, -0.0, 4.0]);
        let finite = Unary::new(UnaryOp::IsNan, &a)
            .output::<u8>()
            .run(&stream)
            .and_then(|y| y.to_vec());
        assert_eq!(finite.expect("is_nan"), [0, 0, 1, 0, 0]);
    }
}

#[test]
fn a_selection_may_be_written_over_any_of_its_inputs() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let tensor = |values: &[f32; 4]| Tensor::from_slice(&device, &[4], values);
        for place in 0..3 {
            let inputs = [[0.0, 1.0, f32::NAN, -0.0], [1.0, 2.0, 3.0, 4.0], [5.0; 4]];
            let [condition, a, b] = inputs.map(|values| tensor(&values).expect("a tensor"));
            let y = [&condition, &a, &b][place];
            let select = Select::new(&condition, &a, &b);
            let run = select.run_into(y, &stream);
            let got = run.and_then(|()| y.to_vec()).expect("select");
            assert_eq!(got, [5.0, 2.0, 3.0, 5.0], "over input {place}");
        }
    }
}

/// As in NumPy: every function that takes a truth value agrees on that of a NaN.
#[test]
fn a_nan_is_true_wherever_a_condition_is_asked_for() {
    fn check<T: ChainElement + Countable + TestElement>(device: &Device) {
        let stream = device.stream().expect("a stream");
        let tensor = |values: &[f64]| {
            let values: Vec<T> = values.iter().map(|&x| T::nearest(x)).collect();
            Tensor::from_slice(device, &[values.len()], &values).expect("a tensor")
        };
        let condition = tensor(&[f64::NAN, -f64::NAN, 0.0, -0.0, 2.0, f64::INFINITY]);
        let (one, zero) = (tensor(&[1.0]), tensor(&[0.0]));
        let wide = |y: warpsmith::Result<Tensor<T>>| -> Vec<f64> {
            let y = y.and_then(|y| y.to_vec()).expect("a function");
            y.into_iter().map(TestElement::wide).collect()
        };
        let want = [1.0, 1.0, 0.0, 0.0, 1.0, 1.0];
        assert_eq!(
            wide(Select::new(&condition, &one, &zero).run(&stream)),
            want
        );
        let chain = Chain::new(&one).select(&condition, &zero);
        assert_eq!(wide(chain.output::<T>().run(&stream)), want);
        for (op, with) in [
            (BinaryOp::And, &one),
            (BinaryOp::Or, &zero),
            (BinaryOp::Xor, &zero),
        ] {
            let y = Binary::new(op, &condition, with).run(&stream);
            assert_eq!(wide(y), want, "{op:?}");
        }
        let not = wide(Unary::new(UnaryOp::Not, &condition).run(&stream));
        assert_eq!(not, want.map(|x| 1.0 - x));
        let any = Reduce::new(ReduceOp::CountNonzero, &condition)
            .output::<i64>()
            .run(&stream);
        assert_eq!(any.and_then(|y| y.item()).expect("a count"), 4);
    }
    for device in warpsmith::testing::devices() {
        check::<f32>(&device);
        check::<f16>(&device);
        check::<bf16>(&device);
        check::<f64>(&device);
    }
}
