//! Runs one case on one device: every candidate of its plan against the reference.

use ndarray::{Array1, Array2, Array3, ArrayD, Axis, Ix2, Ix3};
use warpsmith::reference::attention::{
    AttentionGradExpected, AttentionGradInputs, AttentionGradOptions, AttentionOptions, gradients,
    packed,
};
use warpsmith::reference::{Expected, Model};
use warpsmith::{AttentionGrad, AttentionGrads, DType, Device, Float, Layout, Stream};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{agrees, repeats};
use warpsmith_tests::output::{Output, same_bits};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

use crate::attention::case::Case;
use crate::attention::check::{CaseLengths, arrange, with_options};

/// Runs the case with every kernel that supports it.
pub(crate) fn check(case: &Case, device: &Device) -> Checked {
    match case.dtype {
        DType::F32 => typed::<f32>(case, device),
        DType::F16 => typed::<half::f16>(case, device),
        DType::Bf16 => typed::<half::bf16>(case, device),
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
        let (o, lse) = forward::<T>(case, [&q, &k, &v])?;
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
            lengths: CaseLengths::new(case, device)?,
        })
    }

    fn describe<'a>(&'a self, case: &Case) -> AttentionGrad<'a, T> {
        let [q, k, v, o, d_o] =
            [&self.q, &self.k, &self.v, &self.o, &self.d_o].map(|drawn| &drawn.1.tensor);
        let grad = AttentionGrad::new(q, k, v, o, &self.lse.1.tensor, d_o);
        let sink = self.sink.as_ref().map(|sink| &sink.tensor);
        with_options!(grad, case, sink, self.lengths.get())
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
        })
    }

    fn expect_unchanged(&self) -> Checked {
        for (_, operand) in [&self.q, &self.k, &self.v, &self.o, &self.d_o] {
            operand.expect_unchanged()?;
        }
        if let Some(sink) = &self.sink {
            sink.expect_unchanged()?;
        }
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
) -> Result<(Array3<f64>, Array2<f64>), String> {
    let options = AttentionOptions {
        mask: case.mask(),
        softmax_scale: case.scale,
        softcap: case.softcap,
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

/// Whether a position belongs to a sequence.
fn belongs(case: &Case, position: usize, is_query: bool) -> bool {
    let sequences = case.sequences();
    let mut ranges = sequences.iter().map(|s| if is_query { &s.q } else { &s.k });
    ranges.any(|range| range.contains(&position))
}

/// Sets what belongs to no sequence to NaN.
fn clear(case: &Case, x: &mut ArrayD<f64>, is_query: bool, axis: usize) {
    for (position, mut part) in x.axis_iter_mut(Axis(axis)).enumerate() {
        if !belongs(case, position, is_query) {
            part.fill(f64::NAN);
        }
    }
}

fn typed<T: Float + TestElement>(case: &Case, device: &Device) -> Checked {
    let inputs = Inputs::<T>::draw(case, device)?;
    let stream = device.stream().map_err(say)?;
    let plain = inputs.describe(case);
    let outputs = outputs::<T>(case, &inputs, device)?;
    let [dq, dk, dv] = &outputs;
    let plan = plain.plan_into(&into([dq, dk, dv], None), &stream);
    let plan = plan.map_err(say)?;
    let names = plan.candidates().iter().map(|way| Some(way.name.clone()));
    for name in names.chain([None]) {
        let grad = match &name {
            Some(name) => plain.clone().with_kernel(name),
            None => plain.clone(),
        };
        judge(case, &inputs, &grad, &stream, device).map_err(|error| {
            let name = name.as_deref().unwrap_or("by the plan");
            format!("{name}: {error}")
        })?;
    }
    inputs.expect_unchanged()
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
    d_sink: Option<&Output<f32>>,
) -> AttentionGrads<T> {
    AttentionGrads {
        dq: dq.tensor.clone(),
        dk: dk.tensor.clone(),
        dv: dv.tensor.clone(),
        d_sink: d_sink.map(|d_sink| d_sink.tensor.clone()),
    }
}

/// Runs into given tensors, as often as may give other bits, and once into new ones, and compares
/// everything with the reference.
fn judge<T: Float + TestElement>(
    case: &Case,
    inputs: &Inputs<T>,
    grad: &AttentionGrad<'_, T>,
    stream: &Stream,
    device: &Device,
) -> Checked {
    let want = inputs.expected(case, grad, stream)?;
    let want_sink = want.d_sink;
    let want = [&want.dq, &want.dk, &want.dv];
    let (mut runs, mut sinks) = (Vec::new(), Vec::new());
    for _ in 0..repeats(stream) {
        let outputs = outputs::<T>(case, inputs, device)?;
        let [dq, dk, dv] = &outputs;
        let d_sink = want_sink
            .is_some()
            .then(|| Output::<f32>::new(device, &[case.heads_q()], View::Sliced));
        let d_sink = d_sink.transpose()?;
        let tensors = into([dq, dk, dv], d_sink.as_ref());
        grad.run_into(&tensors, stream).map_err(say)?;
        if let Some(d_sink) = d_sink {
            sinks.push(d_sink.read()?);
        }
        let mut results = Vec::new();
        for (output, is_query) in outputs.iter().zip([true, false, false]) {
            let is_written =
                |index: &[usize]| belongs(case, position(case, index, is_query), is_query);
            results.push(output.read_written(is_written, T::nearest(0.0))?);
        }
        runs.push(results);
    }
    let new = grad.run(stream).map_err(say)?;
    for (idx, name) in ["dq", "dk", "dv"].into_iter().enumerate() {
        let got = &runs[0][idx];
        for again in &runs[1..] {
            same_bits(got, &again[idx])
                .map_err(|error| format!("{name} is not deterministic: {error}"))?;
        }
        agrees(got, want[idx]).map_err(|error| format!("{name}: {error}"))?;
        // In a new tensor, which another kernel may have written, rows of no sequence are 0.
        let new = [&new.dq, &new.dk, &new.dv][idx].to_ndarray().map_err(say)?;
        agrees(&new, want[idx]).map_err(|error| format!("{name}, new: {error}"))?;
    }
    match (&want_sink, &new.d_sink) {
        (None, None) => Ok(()),
        (Some(want), Some(new)) => {
            sinks.push(new.to_ndarray().map_err(say)?);
            for again in &sinks[1..] {
                same_bits(&sinks[0], again)
                    .map_err(|error| format!("d_sink is not deterministic: {error}"))?;
            }
            agrees(&sinks[0], want).map_err(|error| format!("d_sink: {error}"))
        }
        (want, _) => Err(format!("a sink: {}, and other gradients", want.is_some())),
    }
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
