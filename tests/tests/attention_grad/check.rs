//! Runs one case on one device: every candidate of its plan against the reference.

use ndarray::{Array1, Array2, Array3, ArrayD, Axis, Ix2, Ix3};
use warpsmith::reference::attention::{
    AttentionGradExpected, AttentionGradInputs, AttentionGradOptions, AttentionOptions, gradients,
    packed,
};
use warpsmith::reference::{Expected, Model};
use warpsmith::{AttentionGrad, AttentionGrads, DType, Device, Float, Layout, Stream, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{agrees, repeats};
use warpsmith_tests::output::{Output, same_bits};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

use crate::attention::case::Case;
use crate::attention::check::{CaseLengths, arrange, with_options};
use crate::attention::scores::{ScoreInputs, with_scores};

/// Runs the case with every kernel that supports it, and with the one that the plan chooses.
pub(crate) fn check(case: &Case, device: &Device) -> Checked {
    by_kernels(case, device, Kernels::All).map(drop)
}

/// Runs the case with the kernel whose name begins so; returns the bits of dq, dk and dv.
pub(crate) fn check_kernel(case: &Case, device: &Device, kernel: &str) -> Result<Vec<u64>, String> {
    by_kernels(case, device, Kernels::One(kernel))
}

/// The same without a comparison with the reference.
pub(crate) fn bits_of(case: &Case, device: &Device, kernel: &str) -> Result<Vec<u64>, String> {
    by_kernels(case, device, Kernels::Unjudged(kernel))
}

/// What runs a case.
#[derive(Clone, Copy, Debug)]
enum Kernels<'a> {
    /// Every candidate, and the plan's choice.
    All,
    /// The candidate whose name begins so.
    One(&'a str),
    /// The same, whose results are compared elsewhere.
    Unjudged(&'a str),
}

fn by_kernels(case: &Case, device: &Device, kernels: Kernels<'_>) -> Result<Vec<u64>, String> {
    match case.dtype {
        DType::F32 => typed::<f32>(case, device, kernels),
        DType::F16 => typed::<half::f16>(case, device, kernels),
        DType::Bf16 => typed::<half::bf16>(case, device, kernels),
        other => Err(format!("there is no attention of {other}")),
    }
}

/// Values as `[total, heads, head_dim]`, and the operand on the device.
type Drawn<T> = (Array3<f64>, Operand<T>);

/// All inputs of a case. Positions of no sequence hold NaN.
struct Inputs<T: TestElement> {
    q: Drawn<T>,
    k: Drawn<T>,
    v: Drawn<T>,
    o: Drawn<T>,
    d_o: Drawn<T>,
    lse: (Array2<f64>, Operand<f32>),
    /// A logit a query head.
    sink: Option<Operand<f32>>,
    scores: ScoreInputs,
    lengths: CaseLengths,
}

impl<T: Float + TestElement> Inputs<T> {
    fn draw(case: &Case, device: &Device) -> Result<Self, String> {
        let lay_out = |drawn: Array3<f64>, idx: usize| {
            let is_packed = packs(case, idx == 0 || idx == 3);
            let batch = (!is_packed).then(|| case.batch());
            let laid_out = arrange(drawn.clone().into_dyn(), batch, case.bhsd)?;
            let view = case.view(idx).writable_or_contiguous();
            Ok::<_, String>((drawn, Operand::lay_out(device, laid_out, view)?))
        };
        let drawn = |idx: usize, heads: usize, extent: usize, values: Values, seed: u64| {
            let is_query = idx == 0 || idx == 3;
            let total = if is_query {
                case.total_q()
            } else {
                case.total_k()
            };
            let mut drawn = values.draw(&[total, heads, extent], case.seed + seed);
            drawn.mapv_inplace(|x| T::nearest(x).wide());
            clear(case, &mut drawn, is_query, 0);
            drawn.into_dimensionality::<Ix3>().map_err(say)
        };
        // NaN in a value that a query sees is NaN in everything: what stays out is tested elsewhere.
        let values_v = match case.values_v {
            Values::Special => Values::Uniform,
            other => other,
        };
        let (heads_q, heads_kv) = (case.heads_q(), case.heads_kv);
        let q = drawn(0, heads_q, case.head_dim, case.values, 0)?;
        let k = drawn(1, heads_kv, case.head_dim, case.values, 1)?;
        let v = drawn(2, heads_kv, case.head_dim_v, values_v, 2)?;
        let d_o = drawn(3, heads_q, case.head_dim_v, Values::Uniform, 3)?;
        let scores = ScoreInputs::draw(case, device)?;
        let (o, lse) = forward::<T>(case, [&q, &k, &v], &scores)?;
        let batch = (!packs(case, true)).then(|| case.batch());
        let by_rows = lse.t().to_owned().insert_axis(Axis(2)).into_dyn();
        let by_rows = arrange(by_rows, batch, true)?;
        let last = by_rows.ndim() - 1;
        let by_rows = by_rows.index_axis_move(Axis(last), 0);
        let view = if case.seed.is_multiple_of(2) {
            View::Contiguous
        } else {
            View::Sliced
        };
        let sink = sinks(case).map(|sink| {
            let sink = Array1::from(sink).into_dyn();
            Operand::lay_out(device, sink, view)
        });
        Ok(Self {
            q: lay_out(q, 0)?,
            k: lay_out(k, 1)?,
            v: lay_out(v, 2)?,
            o: lay_out(o, 3)?,
            d_o: lay_out(d_o, 3)?,
            lse: (lse, Operand::lay_out(device, by_rows, view)?),
            sink: sink.transpose()?,
            scores,
            lengths: CaseLengths::new(case, device)?,
        })
    }

    fn describe<'a>(&'a self, case: &Case) -> AttentionGrad<'a, T> {
        let [q, k, v, o, d_o] =
            [&self.q, &self.k, &self.v, &self.o, &self.d_o].map(|drawn| &drawn.1.tensor);
        let grad = AttentionGrad::new(q, k, v, o, &self.lse.1.tensor, d_o);
        let sink = self.sink.as_ref().map(|sink| &sink.tensor);
        let grad = with_options!(grad, case, sink, self.lengths.get());
        let grad = with_scores!(grad, self.scores);
        match case.scores.bias {
            Some(_) => grad.bias_gradient(),
            None => grad,
        }
    }

    fn expected(
        &self,
        case: &Case,
        grad: &AttentionGrad<'_, T>,
        stream: &Stream,
    ) -> Result<AttentionGradExpected, String> {
        let options = AttentionGradOptions {
            mask: case.mask(),
            softmax_scale: case.scale,
            softcap: case.softcap,
            scores: self.scores.options(),
            sink: sinks(case),
            ..AttentionGradOptions::new(T::DTYPE, grad.model(stream).map_err(say)?)
        };
        let inputs = AttentionGradInputs {
            q: self.q.0.view(),
            k: self.k.0.view(),
            v: self.v.0.view(),
            o: self.o.0.view(),
            lse: self.lse.0.view(),
            d_o: self.d_o.0.view(),
        };
        let want = gradients(&inputs, &case.sequences(), &options).map_err(say)?;
        let arranged = |x: Expected, is_query: bool| {
            let batch = (!packs(case, is_query)).then(|| case.batch());
            Ok::<_, String>(Expected {
                values: arrange(x.values, batch, case.bhsd)?,
                bounds: arrange(x.bounds, batch, case.bhsd)?,
                dtype: x.dtype,
            })
        };
        Ok(AttentionGradExpected {
            dq: arranged(want.dq, true)?,
            dk: arranged(want.dk, false)?,
            dv: arranged(want.dv, false)?,
            d_sink: want.d_sink,
            d_bias: want.d_bias,
        })
    }

    fn expect_unchanged(&self) -> Checked {
        for (_, operand) in [&self.q, &self.k, &self.v, &self.o, &self.d_o] {
            operand.expect_unchanged()?;
        }
        if let Some(sink) = &self.sink {
            sink.expect_unchanged()?;
        }
        self.scores.expect_unchanged()?;
        self.lse.1.expect_unchanged()
    }
}

/// The logits of the sinks, which f32 has exactly.
fn sinks(case: &Case) -> Option<Vec<f64>> {
    let sinks = (0..case.heads_q()).map(|head| head as f64 / 4.0 - 1.0);
    case.sink.then(|| sinks.collect())
}

/// o and lse as a forward pass rounds them; NaN where a position belongs to no sequence.
fn forward<T: TestElement>(
    case: &Case,
    [q, k, v]: [&Array3<f64>; 3],
    scores: &ScoreInputs,
) -> Result<(Array3<f64>, Array2<f64>), String> {
    let options = AttentionOptions {
        mask: case.mask(),
        softmax_scale: case.scale,
        softcap: case.softcap,
        scores: scores.options(),
        sink: sinks(case),
        ..AttentionOptions::new(DType::F64, Model::any_order(1, 0, 1.0))
    };
    let got = packed(&q.view(), &k.view(), &v.view(), &case.sequences(), &options);
    let got = got.map_err(say)?;
    let mut o = got.o.values.mapv(|x| T::nearest(x).wide());
    let mut lse = got.lse.values.mapv(|x| f64::from(x as f32));
    clear(case, &mut o, true, 0);
    clear(case, &mut lse, true, 1);
    let o = o.into_dimensionality::<Ix3>().map_err(say)?;
    Ok((o, lse.into_dimensionality::<Ix2>().map_err(say)?))
}

/// Whether the positions of queries, or of keys, are packed.
fn packs(case: &Case, is_query: bool) -> bool {
    match is_query {
        true => case.packed_q.is_some(),
        false => case.packed_k.is_some(),
    }
}

/// Sets what belongs to no sequence to NaN.
fn clear(case: &Case, x: &mut ArrayD<f64>, is_query: bool, axis: usize) {
    let parts = x.axis_iter_mut(Axis(axis));
    for (mut part, belongs) in parts.zip(case.belonging(is_query)) {
        if !belongs {
            part.fill(f64::NAN);
        }
    }
}

/// Runs the kernels; returns the bits that the last one gave.
fn typed<T: Float + TestElement>(
    case: &Case,
    device: &Device,
    kernels: Kernels<'_>,
) -> Result<Vec<u64>, String> {
    let inputs = Inputs::<T>::draw(case, device)?;
    let stream = device.stream().map_err(say)?;
    let plain = inputs.describe(case);
    let [dq, dk, dv] = outputs::<T>(case, &inputs, device)?;
    let bias = inputs.scores.bias_shape();
    let d_bias = bias.map(|shape| Output::<f32>::new(device, &shape, View::Contiguous));
    let d_bias = d_bias.transpose()?;
    let written = into([&dq, &dk, &dv], [None, d_bias.as_ref()]);
    let plan = plain.plan_into(&written, &stream);
    let plan = plan.map_err(say)?;
    let names = plan.candidates().iter().map(|way| way.name.as_str());
    let names: Vec<Option<&str>> = match kernels {
        Kernels::All => names.map(Some).chain([None]).collect(),
        Kernels::One(of) | Kernels::Unjudged(of) => names
            .filter(|name| name.starts_with(of))
            .map(Some)
            .collect(),
    };
    let mut bits = Err(format!("no candidate is one of {kernels:?}: {plan}"));
    for name in names {
        let grad = match name {
            Some(name) => plain.clone().with_kernel(name),
            None => plain.clone(),
        };
        let results = match kernels {
            Kernels::Unjudged(_) => run_into(case, &inputs, &grad, &stream).map(|(all, _)| all),
            _ => {
                let want = inputs.expected(case, &grad, &stream)?;
                // Whichever kernel wrote the memory before.
                let in_new = name.is_none() || case.has_lengths();
                judge(case, (&inputs, &want), (&grad, in_new), &stream)
            }
        };
        let results = results.map_err(|error| {
            let name = name.unwrap_or("by the plan");
            format!("{name}: {error}")
        })?;
        bits = Ok(results.iter().flatten().map(|x| x.bits()).collect());
    }
    inputs.expect_unchanged()?;
    bits
}

/// Poisoned outputs: dq lies as the case's q, dk and dv as its k and v, but for repetitions.
fn outputs<T: Float + TestElement>(
    case: &Case,
    inputs: &Inputs<T>,
    device: &Device,
) -> Result<[Output<T>; 3], String> {
    let output = |(_, operand): &Drawn<T>, view: View| {
        Output::new(
            device,
            operand.tensor.shape(),
            view.writable_or_contiguous(),
        )
    };
    Ok([
        output(&inputs.q, case.views[3])?,
        output(&inputs.k, case.views[1])?,
        output(&inputs.v, case.views[2])?,
    ])
}

/// The tensors of outputs.
fn into<T: Float + TestElement>(
    [dq, dk, dv]: [&Output<T>; 3],
    sums: [Option<&Output<f32>>; 2],
) -> AttentionGrads<T> {
    let [d_sink, d_bias] = sums.map(|sums| sums.map(|sums| sums.tensor.clone()));
    AttentionGrads {
        dq: dq.tensor.clone(),
        dk: dk.tensor.clone(),
        dv: dv.tensor.clone(),
        d_sink,
        d_bias,
    }
}

/// dq, dk and dv, and the gradients of sinks and of the bias, if there are any.
type Results<T> = ([ArrayD<T>; 3], [Option<ArrayD<f32>>; 2]);

/// The names of the last two.
const SUMS: [&str; 2] = ["d_sink", "d_bias"];

/// Runs into given tensors, as often as may give other bits, and compares everything with the
/// reference. If `in_new`, runs once into new ones too, in which rows of no sequence are 0.
fn judge<T: Float + TestElement>(
    case: &Case,
    (inputs, want): (&Inputs<T>, &AttentionGradExpected),
    (grad, in_new): (&AttentionGrad<'_, T>, bool),
    stream: &Stream,
) -> Result<[ArrayD<T>; 3], String> {
    let (results, sums) = run_into(case, inputs, grad, stream)?;
    let agree = |results: &[ArrayD<T>; 3]| {
        let wanted = [("dq", &want.dq), ("dk", &want.dk), ("dv", &want.dv)];
        let mut all = wanted.into_iter().zip(results);
        all.try_for_each(|((name, want), got)| {
            agrees(got, want).map_err(|error| format!("{name}: {error}"))
        })
    };
    agree(&results)?;
    let wanted = [&want.d_sink, &want.d_bias];
    for ((name, want), got) in SUMS.iter().zip(wanted).zip(&sums) {
        match (want, got) {
            (None, None) => {}
            (Some(want), Some(got)) => {
                agrees(got, want).map_err(|error| format!("{name}: {error}"))?;
            }
            (want, _) => {
                return Err(format!(
                    "{name} is wanted: {}, and not given",
                    want.is_some()
                ));
            }
        }
    }
    let same = |again: &[Option<ArrayD<f32>>; 2]| {
        let mut all = SUMS.iter().zip(&sums).zip(again);
        all.try_for_each(|((name, first), again)| match (first, again) {
            (Some(first), Some(again)) => same_bits(first, again)
                .map_err(|error| format!("{name} is not deterministic: {error}")),
            (None, None) => Ok(()),
            _ => Err(format!("{name} once, and then none")),
        })
    };
    for _ in 1..repeats(stream.device()) {
        let (again, sums_again) = run_into(case, inputs, grad, stream)?;
        for (first, again) in results.iter().zip(&again) {
            same_bits(first, again).map_err(|error| format!("not deterministic: {error}"))?;
        }
        same(&sums_again)?;
    }
    if in_new {
        let new = grad.run(stream).map_err(say)?;
        let [dq, dk, dv] = [&new.dq, &new.dk, &new.dv].map(|x| x.to_ndarray().map_err(say));
        agree(&[dq?, dk?, dv?]).map_err(|error| format!("in a new tensor, {error}"))?;
        let read = |x: Option<Tensor<f32>>| x.map(|x| x.to_ndarray()).transpose().map_err(say);
        same(&[read(new.d_sink)?, read(new.d_bias)?])?;
    }
    Ok(results)
}

/// Runs once into given tensors.
fn run_into<T: Float + TestElement>(
    case: &Case,
    inputs: &Inputs<T>,
    grad: &AttentionGrad<'_, T>,
    stream: &Stream,
) -> Result<Results<T>, String> {
    let [dq, dk, dv] = outputs::<T>(case, inputs, stream.device())?;
    let d_sink = || Output::<f32>::new(stream.device(), &[case.heads_q()], View::Sliced);
    let d_sink = inputs.sink.as_ref().map(|_| d_sink()).transpose()?;
    let bias = inputs.scores.bias_shape();
    let d_bias = bias.map(|shape| Output::<f32>::new(stream.device(), &shape, case.views[3]));
    let d_bias = d_bias.transpose()?;
    let tensors = into([&dq, &dk, &dv], [d_sink.as_ref(), d_bias.as_ref()]);
    grad.run_into(&tensors, stream).map_err(say)?;
    let read = |output: &Output<T>, is_query| {
        let belonging = case.belonging(is_query);
        let is_written = |index: &[usize]| belonging[position(case, index, is_query)];
        output.read_written(is_written, T::nearest(0.0))
    };
    let results = [read(&dq, true)?, read(&dk, false)?, read(&dv, false)?];
    let sum = |sum: Option<Output<f32>>| sum.map(|sum| sum.read()).transpose();
    Ok((results, [sum(d_sink)?, sum(d_bias)?]))
}

/// The position of an element of a gradient.
fn position(case: &Case, index: &[usize], is_query: bool) -> usize {
    let seqlen = if is_query {
        case.seqlen_q
    } else {
        case.seqlen_k
    };
    match (packs(case, is_query), case.bhsd) {
        (true, false) => index[0],
        (true, true) => index[1],
        (false, bhsd) => index[0] * seqlen + index[1 + usize::from(bhsd)],
    }
}
