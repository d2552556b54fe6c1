//! Runs one case on one device: every candidate kernel of its plan against the reference.

use ndarray::{Array3, ArrayD, Axis, Ix3};
use warpsmith::reference::Expected;
use warpsmith::reference::attention::{AttentionExpected, AttentionOptions, packed};
use warpsmith::{Attention, DType, Device, Element, Float, Layout, Lengths, Plan, Stream, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{agrees, repeats};
use warpsmith_tests::output::{Output, same_bits};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

use super::case::Case;
use super::pool::{Paged, has_the_bits_of_dense_keys};
use super::scores::{ScoreInputs, with_scores};

/// Runs the case with every kernel that supports it.
pub(crate) fn check(case: &Case, device: &Device) -> Checked {
    macro_rules! by_output {
        ($t:ty) => {
            match case.out.unwrap_or(case.dtype) {
                DType::F32 => typed::<$t, f32>(case, device),
                DType::F16 => typed::<$t, half::f16>(case, device),
                DType::Bf16 => typed::<$t, half::bf16>(case, device),
                other => Err(format!("no attention is written in {other}")),
            }
        };
    }
    match case.dtype {
        DType::F32 => by_output!(f32),
        DType::F16 => by_output!(half::f16),
        DType::Bf16 => by_output!(half::bf16),
        other => Err(format!("there is no attention of {other}")),
    }
}

/// All inputs of a case. Positions of no sequence hold NaN.
pub(crate) struct Inputs<T: TestElement> {
    /// Values as `[total, heads, head_dim]`, and the operand on the device.
    q: (ArrayD<f64>, Operand<T>),
    k: (ArrayD<f64>, Operand<T>),
    v: (ArrayD<f64>, Operand<T>),
    sink: Operand<f32>,
    scores: ScoreInputs,
    lengths: CaseLengths,
    pages: Option<Paged>,
}

/// Lengths on the host, and on the device if the case has them there: cu_seqlens of q and k, used
/// queries and keys, left padding.
pub(crate) struct CaseLengths {
    host: [Option<Vec<i32>>; 5],
    device: [Option<Tensor<i32>>; 5],
}

impl CaseLengths {
    pub(crate) fn new(case: &Case, device: &Device) -> Result<Self, String> {
        let sums = |lengths: &Option<Vec<usize>>| {
            let lengths = lengths.as_ref()?;
            let sum = |idx: usize| lengths[..idx].iter().sum::<usize>() as i32;
            Some((0..=lengths.len()).map(sum).collect::<Vec<_>>())
        };
        let given = |lengths: &Option<Vec<usize>>| {
            let lengths = lengths.as_ref()?;
            Some(lengths.iter().map(|&x| x as i32).collect::<Vec<_>>())
        };
        let host = [
            sums(&case.packed_q),
            sums(&case.packed_k),
            given(&case.used_q),
            given(&case.used_k),
            given(&case.leftpad_k),
        ];
        let mut on_device = [const { None }; 5];
        if case.on_device {
            for (slot, lengths) in on_device.iter_mut().zip(&host) {
                if let Some(lengths) = lengths {
                    let tensor = Tensor::from_slice(device, &[lengths.len()], lengths);
                    *slot = Some(tensor.map_err(say)?);
                }
            }
        }
        Ok(Self {
            host,
            device: on_device,
        })
    }

    pub(crate) fn get(&self) -> [Option<Lengths<'_>>; 5] {
        [0, 1, 2, 3, 4].map(|idx| match (&self.device[idx], &self.host[idx]) {
            (Some(tensor), _) => Some(tensor.into()),
            (None, host) => host.as_ref().map(Lengths::from),
        })
    }
}

impl<T: Float + TestElement> Inputs<T> {
    pub(crate) fn draw(case: &Case, device: &Device) -> Result<Self, String> {
        let (heads_q, heads_kv) = (case.heads_q(), case.heads_kv);
        let pages = Paged::draw(case, device)?;
        let operand = |idx: usize, heads: usize, head_dim: usize| {
            let is_query = idx == 0;
            let (total, is_packed) = match is_query {
                true => (case.total_q(), case.packed_q.is_some()),
                false => (case.total_k(), case.packed_k.is_some()),
            };
            let values = if idx == 2 { case.values_v } else { case.values };
            if let Some(paged) = pages.as_ref().filter(|_| !is_query) {
                return paged.operand::<T>(case, (idx, values), head_dim, device);
            }
            let seed = case.seed + idx as u64;
            let mut drawn = values.draw(&[total, heads, head_dim], seed);
            drawn.mapv_inplace(|x| T::nearest(x).wide());
            if case.view(idx) == View::Repeated && total > 0 {
                // All sequences of the batch are copies of the first.
                let seqlen = total / case.batch();
                for position in seqlen..total {
                    let first = drawn.index_axis(Axis(0), position % seqlen).to_owned();
                    drawn.index_axis_mut(Axis(0), position).assign(&first);
                }
            }
            let rows = drawn.axis_iter_mut(Axis(0));
            for (mut row, belongs) in rows.zip(case.belonging(is_query)) {
                if !belongs {
                    row.fill(f64::NAN);
                }
            }
            let batch = if is_packed { None } else { Some(case.batch()) };
            let laid_out = arrange(drawn.clone(), batch, case.bhsd)?;
            let operand = Operand::lay_out(device, laid_out, case.view(idx))?;
            Ok::<_, String>((drawn, operand))
        };
        Ok(Self {
            q: operand(0, heads_q, case.head_dim)?,
            k: operand(1, heads_kv, case.head_dim)?,
            v: operand(2, heads_kv, case.head_dim_v)?,
            sink: Operand::draw(
                device,
                &[heads_q],
                Values::Uniform,
                View::Sliced,
                case.seed + 9,
            )?,
            scores: ScoreInputs::draw(case, device)?,
            lengths: CaseLengths::new(case, device)?,
            pages,
        })
    }

    /// The same inputs with keys and values that are not paged, if they are.
    pub(crate) fn without_pages(
        &self,
        case: &Case,
        device: &Device,
    ) -> Result<Option<Self>, String> {
        if self.pages.is_none() {
            return Ok(None);
        }
        let dense = |(drawn, _): &(ArrayD<f64>, Operand<T>)| {
            let laid_out = arrange(drawn.clone(), Some(case.batch()), case.bhsd)?;
            let operand = Operand::lay_out(device, laid_out, View::Contiguous)?;
            Ok::<_, String>((drawn.clone(), operand))
        };
        let others = Case {
            page_size: None,
            views: [0, 1, 2, 3].map(|idx| case.view(idx)), // as the pages have them: q is the same
            ..case.clone()
        };
        Ok(Some(Self {
            k: dense(&self.k)?,
            v: dense(&self.v)?,
            ..Self::draw(&others, device)?
        }))
    }

    /// q, k and v as `[total, heads, head_dim]`.
    pub(crate) fn by_position(&self) -> Result<[Array3<f64>; 3], String> {
        let three = |x: &ArrayD<f64>| x.clone().into_dimensionality::<Ix3>().map_err(say);
        Ok([three(&self.q.0)?, three(&self.k.0)?, three(&self.v.0)?])
    }

    fn expect_unchanged(&self) -> Checked {
        self.q.1.expect_unchanged()?;
        self.k.1.expect_unchanged()?;
        self.v.1.expect_unchanged()?;
        self.scores.expect_unchanged()?;
        self.sink.expect_unchanged()
    }
}

/// Rearranges `[total, heads, x]` into the operation's layout: with a batch dimension, or heads
/// first.
pub(crate) fn arrange(
    x: ArrayD<f64>,
    batch: Option<usize>,
    bhsd: bool,
) -> Result<ArrayD<f64>, String> {
    let (total, rest) = (x.shape()[0], x.shape()[1..].to_vec());
    let positions = match batch {
        Some(batch) => vec![batch, total.checked_div(batch).unwrap_or(0)],
        None => vec![total],
    };
    let shape: Vec<usize> = positions.iter().copied().chain(rest).collect();
    let x = x.as_standard_layout().into_owned();
    let mut x = x.into_shape_with_order(shape).map_err(say)?;
    if bhsd {
        let heads = positions.len();
        x.swap_axes(heads - 1, heads);
    }
    Ok(x.as_standard_layout().into_owned())
}

/// An attention or its gradients, with the options of a case, a sink and five arrays of lengths.
macro_rules! with_options {
    ($operation:expr, $case:expr, $sink:expr, $lengths:expr) => {{
        let case: &Case = $case;
        let mut operation = $operation.window(case.left, case.right);
        if case.bhsd {
            operation = operation.layout(Layout::Bhsd);
        }
        operation = match (case.causal, case.top_left) {
            (true, true) => operation.causal_top_left(),
            (true, false) => operation.causal(),
            (false, true) => operation.align_top_left(),
            (false, false) => operation,
        };
        if let Some(scale) = case.scale {
            operation = operation.softmax_scale(scale);
        }
        if let Some(softcap) = case.softcap {
            operation = operation.softcap(softcap);
        }
        if let Some(sink) = $sink {
            operation = operation.sink(sink);
        }
        let [cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, leftpad_k] = $lengths;
        if let Some(lengths) = cu_seqlens_q {
            operation = operation.cu_seqlens_q(lengths);
        }
        if let Some(lengths) = cu_seqlens_k {
            operation = operation.cu_seqlens_k(lengths);
        }
        if let Some(lengths) = seqused_q {
            operation = operation.seqused_q(lengths);
        }
        if let Some(lengths) = seqused_k {
            operation = operation.seqused_k(lengths);
        }
        match leftpad_k {
            Some(lengths) => operation.leftpad_k(lengths),
            None => operation,
        }
    }};
}
pub(crate) use with_options;

pub(crate) fn describe<'a, T: Float + TestElement, Out: Float>(
    case: &Case,
    inputs: &'a Inputs<T>,
) -> Attention<'a, T, Out> {
    let (q, k, v) = (&inputs.q.1.tensor, &inputs.k.1.tensor, &inputs.v.1.tensor);
    let attention = Attention::new(q, k, v).output::<Out>();
    let sink = case.sink.then_some(&inputs.sink.tensor);
    let attention = with_options!(attention, case, sink, inputs.lengths.get());
    let attention = with_scores!(attention, inputs.scores);
    match &inputs.pages {
        Some(pages) => attention.pages(&pages.tensor),
        None => attention,
    }
}

/// The options for the reference.
pub(crate) fn options<T: Float + TestElement, Out: Float>(
    case: &Case,
    inputs: &Inputs<T>,
    attention: &Attention<'_, T, Out>,
    stream: &Stream,
) -> Result<AttentionOptions, String> {
    let sink = || inputs.sink.values.iter().copied().collect();
    Ok(AttentionOptions {
        mask: case.mask(),
        softmax_scale: case.scale,
        softcap: case.softcap,
        scores: inputs.scores.options(),
        sink: case.sink.then(sink),
        ..AttentionOptions::new(Out::DTYPE, attention.model(stream).map_err(say)?)
    })
}

/// The expected outputs of `attention`, arranged as its outputs are.
fn expected<T: Float + TestElement, Out: Float>(
    case: &Case,
    inputs: &Inputs<T>,
    attention: &Attention<'_, T, Out>,
    stream: &Stream,
) -> Result<AttentionExpected, String> {
    let options = options(case, inputs, attention, stream)?;
    let [q, k, v] = inputs.by_position()?;
    let want = packed(&q.view(), &k.view(), &v.view(), &case.sequences(), &options);
    let want = want.map_err(say)?;
    let batch = case.packed_q.is_none().then(|| case.batch());
    let arranged = |x: Expected, bhsd: bool| {
        Ok::<_, String>(Expected {
            values: arrange(x.values, batch, bhsd)?,
            bounds: arrange(x.bounds, batch, bhsd)?,
            dtype: x.dtype,
        })
    };
    // lse is [heads, total]: treated like o with one element per row, heads first.
    let by_rows = |x: ArrayD<f64>| x.reversed_axes().insert_axis(Axis(2));
    let lse = Expected {
        values: by_rows(want.lse.values),
        bounds: by_rows(want.lse.bounds),
        dtype: want.lse.dtype,
    };
    let standard = |x: ArrayD<f64>| x.as_standard_layout().into_owned();
    let lse = arranged(
        Expected {
            values: standard(lse.values),
            bounds: standard(lse.bounds),
            dtype: lse.dtype,
        },
        true,
    )?;
    let last = lse.values.ndim() - 1;
    Ok(AttentionExpected {
        o: arranged(want.o, case.bhsd)?,
        lse: Expected {
            values: lse.values.index_axis_move(Axis(last), 0),
            bounds: lse.bounds.index_axis_move(Axis(last), 0),
            dtype: lse.dtype,
        },
    })
}

fn typed<T: Float + TestElement, Out: Float + TestElement>(
    case: &Case,
    device: &Device,
) -> Checked {
    let inputs = Inputs::<T>::draw(case, device)?;
    let stream = device.stream().map_err(say)?;
    let plain = describe::<T, Out>(case, &inputs);
    let want = expected(case, &inputs, &plain, &stream)?;
    let outputs = || {
        let o = Output::<Out>::new(device, want.o.values.shape(), case.views[3])?;
        let lse = Output::<f32>::new(device, want.lse.values.shape(), View::Contiguous)?;
        Ok::<_, String>((o, lse))
    };
    let (o, _) = outputs()?;
    // The plan's choice, and every kernel, with its own packing and splits and with those of the
    // case.
    let mut ways = vec![(None, None)];
    for splits in [None].into_iter().chain(case.splits.map(Some)) {
        let attention = match splits {
            Some(splits) => plain.clone().key_splits(splits),
            None => plain.clone(),
        };
        let plan = match attention.plan_into(&o.tensor, &stream) {
            // Not every attention supports split keys.
            Err(error) if splits.is_some() && error.is_unsupported() => continue,
            plan => plan.map_err(say)?,
        };
        let names = plan.candidates().iter().map(|way| way.name.clone());
        ways.extend(names.map(|name| (Some(name), splits)));
    }
    // Tensor cores multiply masked values by 0, and f16 rounds small probabilities to 0: NaN or
    // infinity then still gives NaN.
    let can_be_zero = case.is_masked() || case.dtype == DType::F16;
    let is_strict = case.values_v == Values::Special && can_be_zero;
    for (name, splits) in &ways {
        let is_portable = name.as_ref().is_some_and(|name| name.contains("simt"));
        if is_strict && !is_portable {
            continue;
        }
        let mut attention = plain.clone();
        if let Some(name) = name {
            attention = attention.with_kernel(name);
        }
        if let Some(splits) = *splits {
            attention = attention.key_splits(splits);
        }
        let is_named = name.is_some();
        let judged = judge(case, (&inputs, is_named), &attention, &outputs, &stream);
        let judged = judged.and_then(|()| match name {
            Some(name) => {
                has_the_bits_of_dense_keys::<T, Out>(case, &inputs, (name, *splits), &stream)
            }
            None => Ok(()),
        });
        judged.map_err(|error| {
            let name = name.as_deref().unwrap_or("by the plan");
            format!("{name}, parts of keys: {splits:?}: {error}")
        })?;
    }
    inputs.expect_unchanged()
}

/// Runs with lse, as often as may give other bits, and once without into a new tensor, and compares
/// everything with the reference. Where no kernel is named, the second run is of another kernel or
/// left out: the named ones are run so.
fn judge<T: Float + TestElement, Out: Float + TestElement>(
    case: &Case,
    (inputs, is_named): (&Inputs<T>, bool),
    attention: &Attention<'_, T, Out>,
    outputs: &impl Fn() -> Result<(Output<Out>, Output<f32>), String>,
    stream: &Stream,
) -> Checked {
    let want = expected(case, inputs, attention, stream)?;
    let belonging = case.belonging(true);
    let read = |o: &Output<Out>| {
        let is_written = |index: &[usize]| {
            belonging[match (case.packed_q.is_some(), case.bhsd) {
                (true, false) => index[0],
                (true, true) => index[1],
                (false, bhsd) => index[0] * case.seqlen_q + index[1 + usize::from(bhsd)],
            }]
        };
        o.read_written(is_written, Out::nearest(0.0))
    };
    let read_lse = |lse: &Output<f32>| {
        let is_written = |index: &[usize]| {
            belonging[match case.packed_q.is_some() {
                true => index[1],
                false => index[0] * case.seqlen_q + index[2],
            }]
        };
        lse.read_written(is_written, f32::NEG_INFINITY)
    };
    let mut results = Vec::new();
    for _ in 0..repeats(stream.device()) {
        let (o, lse) = outputs()?;
        let with_lse = attention.clone().lse();
        with_lse
            .run_into(&o.tensor, &lse.tensor, stream)
            .map_err(say)?;
        results.push((read(&o)?, read_lse(&lse)?));
    }
    let (o, lse) = &results[0];
    for (again, lse_again) in &results[1..] {
        same_bits(o, again).map_err(|error| format!("not deterministic: {error}"))?;
        same_bits(lse, lse_again).map_err(|error| format!("lse is not deterministic: {error}"))?;
    }
    agrees(o, &want.o).map_err(|error| format!("o: {error}"))?;
    agrees(lse, &want.lse).map_err(|error| format!("lse: {error}"))?;
    let chosen = |plan: warpsmith::Result<Plan>| {
        let plan = plan.map_err(say)?;
        Ok::<_, String>(plan.chosen().map(|candidate| candidate.name.clone()))
    };
    let (into, _) = outputs()?;
    let of_into = attention.plan_into(&into.tensor, stream);
    // A new tensor may be aligned well enough for a faster kernel.
    let is_same = chosen(of_into)? == chosen(attention.plan(stream))?;
    if is_same && !is_named {
        return Ok(());
    }
    // In a new tensor, rows of no sequence are 0.
    let new = attention.run(stream).map_err(say)?;
    let new = new.to_ndarray().map_err(say)?;
    let judged = match is_same {
        true => same_bits(o, &new),
        false => agrees(&new, &want.o),
    };
    judged.map_err(|error| format!("in a new tensor: {error}"))
}

/// A tensor of ones.
pub(crate) fn ones<T: Element + From<u8>>(stream: &Stream, shape: &[usize]) -> Tensor<T> {
    Tensor::full(stream, shape, T::from(1)).expect("a tensor")
}
