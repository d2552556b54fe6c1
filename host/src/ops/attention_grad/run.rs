//! Running an [`AttentionGrad`]: validation, views, plan and launch.

use super::bias::{BiasGradient, no_bias};
use super::call::GradCall;
use super::desc::GradDesc;
use super::{AttentionGrad, AttentionGrads};
use crate::error::named;
use crate::ops::attention::call::{Call, Memory};
use crate::ops::attention::extents::Extents;
use crate::ops::attention::factors::Factors;
use crate::ops::attention::operands::{last_dimension_is_dense, memory, operand};
use crate::ops::check;
use crate::ops::copy::strided_copy;
use crate::ops::plan::{self, Choice as _, Desc as _, Plan, Tuning};
use crate::reference::attention::AttentionGradModel;
use crate::{Error, Float, Result, Stream, Tensor};

/// Most by which a gradient of two kernels may differ, relative to its largest element.
const LARGEST_DIFFERENCE: f64 = 1.0 / 32.0;

/// What validation found.
struct Valid {
    extents: Extents,
    factors: Factors,
}

impl Valid {
    /// Whether there is neither a query nor a key of any head.
    fn is_empty(&self) -> bool {
        let extents = &self.extents;
        let no_keys = [extents.batch, extents.heads_kv, extents.seqlen_k].contains(&0);
        extents.is_empty() && no_keys
    }
}

impl<T: Float> AttentionGrad<'_, T> {
    /// Enqueues all gradients and returns them in new contiguous tensors; that of the sinks if
    /// [`sink`](Self::sink) is set.
    ///
    /// # Errors
    /// See [`AttentionGrad`].
    pub fn run(&self, stream: &Stream) -> Result<AttentionGrads<T>> {
        named(GradDesc::OPERATION, || {
            let valid = self.validate(stream)?;
            let new = |of: &Tensor<T>| match self.writes_all() {
                true => Tensor::empty(stream, of.shape()),
                false => Tensor::zeros(stream, of.shape()),
            };
            let d_sink = self.forward.options.sink;
            let d_sink = d_sink.map(|sink| Tensor::empty(stream, sink.shape()));
            let grads = AttentionGrads {
                dq: new(&self.forward.q)?,
                dk: new(&self.forward.k)?,
                dv: new(&self.forward.v)?,
                d_sink: d_sink.transpose()?,
                d_bias: self.new_d_bias(stream)?,
            };
            self.launch(&valid, &grads, stream)?;
            Ok(grads)
        })
    }

    /// Enqueues the gradients into these tensors, that of the sinks only if `d_sink` is set.
    /// Positions that belong to no sequence are not written.
    ///
    /// # Errors
    /// See [`AttentionGrad`].
    pub fn run_into(&self, grads: &AttentionGrads<T>, stream: &Stream) -> Result<()> {
        named(GradDesc::OPERATION, || {
            let valid = self.validate_into(grads, stream)?;
            self.launch(&valid, grads, stream)
        })
    }

    /// The kernels that [`run`](Self::run) would launch, and the other candidates.
    ///
    /// # Errors
    /// See [`AttentionGrad`].
    pub fn plan(&self, stream: &Stream) -> Result<Plan> {
        named(GradDesc::OPERATION, || match self.described(stream)? {
            Some(desc) => Plan::of(&desc, self.kernel, stream),
            None => Ok(Plan::empty()),
        })
    }

    /// The kernels that [`run_into`](Self::run_into) would launch, and the other candidates.
    ///
    /// # Errors
    /// See [`AttentionGrad`].
    pub fn plan_into(&self, grads: &AttentionGrads<T>, stream: &Stream) -> Result<Plan> {
        named(GradDesc::OPERATION, || {
            let valid = self.validate_into(grads, stream)?;
            if valid.is_empty() {
                return Ok(Plan::empty());
            }
            let outputs = self.in_order(grads)?;
            let desc = self.describe(&valid, &outputs, grads.d_bias.is_some())?;
            Plan::of(&desc, self.kernel, stream)
        })
    }

    /// Measures the candidates with these operands. The fastest one becomes the choice for all
    /// gradients with the same extents, layouts and options on this kind of device, as
    /// [`Gemm::autotune`](crate::Gemm::autotune) does.
    ///
    /// # Errors
    /// See [`AttentionGrad`]; also the first candidate's error or fault, if all fail.
    pub fn autotune(&self, stream: &Stream) -> Result<Tuning> {
        named(GradDesc::OPERATION, || {
            let valid = self.validate(stream)?;
            if valid.is_empty() {
                return Ok(Tuning::empty());
            }
            let outputs = self.in_order(&self.new_gradients(stream)?)?;
            let desc = self.describe(&valid, &outputs, self.bias_gradient)?;
            let scores = match self.bias_gradient {
                true => Some(Tensor::empty(stream, &valid.extents.shape_of_scores())?),
                false => None,
            };
            let others = (None, scores.as_ref());
            let call = self.call(&valid, (desc, &outputs), others, stream)?;
            let tensors = [&self.forward.q, &self.forward.k, &self.forward.v, &self.d_o];
            let bytes = tensors
                .map(|x| x.len() * size_of::<T>())
                .into_iter()
                .sum::<usize>() as u64;
            let other = self.call(&valid, (desc, &outputs), others, stream)?;
            let calls = plan::rotation(other, bytes, stream, || {
                let mut copy = self.clone();
                let forward = &mut copy.forward;
                for x in [
                    &mut forward.q,
                    &mut forward.k,
                    &mut forward.v,
                    &mut copy.d_o,
                ] {
                    *x = plan::copied(x, stream)?;
                }
                copy.call(&valid, (desc, &outputs), others, stream)
            })?;
            plan::tune(
                &desc,
                stream,
                &calls,
                |candidate| {
                    for output in &outputs {
                        output.fill(T::from_f64(f64::NAN), stream)?;
                    }
                    candidate.launch(&call)?;
                    let [dq, dk, dv] = &outputs;
                    Ok([dq.to_vec()?, dk.to_vec()?, dv.to_vec()?])
                },
                |want, got| {
                    want.iter().zip(got).all(|(want, got)| {
                        let [want, got] = [want, got].map(|all| all.iter().map(|x| x.widened()));
                        plan::agree_within(want, got, LARGEST_DIFFERENCE)
                    })
                },
            )
        })
    }

    fn new_gradients(&self, stream: &Stream) -> Result<AttentionGrads<T>> {
        let new = |of: &Tensor<T>| Tensor::empty(stream, of.shape());
        Ok(AttentionGrads {
            dq: new(&self.forward.q)?,
            dk: new(&self.forward.k)?,
            dv: new(&self.forward.v)?,
            d_sink: None,
            d_bias: None,
        })
    }

    /// The tensor that [`run`](Self::run) writes the gradient of the bias to, if it does.
    fn new_d_bias(&self, stream: &Stream) -> Result<Option<Tensor<f32>>> {
        match self.forward.options.scores.bias {
            Some(bias) if self.bias_gradient => Tensor::empty(stream, bias.shape()).map(Some),
            None if self.bias_gradient => Err(no_bias()),
            _ => Ok(None),
        }
    }

    /// The error model of the kernels that [`run`](Self::run) launches, for the bound of
    /// [`reference::attention::gradients`](crate::reference::attention::gradients).
    ///
    /// # Errors
    /// See [`AttentionGrad`].
    pub fn model(&self, stream: &Stream) -> Result<AttentionGradModel> {
        named(GradDesc::OPERATION, || match self.described(stream)? {
            Some(desc) => Ok(plan::choose(&desc, self.kernel, stream)?.0.model(&desc)),
            None => Ok(super::simt::model()),
        })
    }

    /// The description of [`run`](Self::run); `None` if there is nothing to compute.
    fn described(&self, stream: &Stream) -> Result<Option<GradDesc>> {
        let valid = self.validate(stream)?;
        if valid.is_empty() {
            return Ok(None);
        }
        let outputs = self.in_order(&self.new_gradients(stream)?)?;
        self.describe(&valid, &outputs, self.bias_gradient)
            .map(Some)
    }

    fn validate(&self, stream: &Stream) -> Result<Valid> {
        if self.forward.has_pages() {
            return Err(Error::unsupported(
                "gradients of keys in pages",
                "those of keys that `Take` has gathered from their pages",
            ));
        }
        let (extents, factors) = self.forward.validate(stream)?;
        let scores = &self.forward.options.scores;
        scores.check_derivatives()?;
        if self.bias_gradient && scores.bias.is_none() {
            return Err(no_bias());
        }
        let shape_o = extents.shape_o(self.forward.options.layout);
        for (operand, input) in [("o", &self.o), ("d_o", &self.d_o)] {
            check::device(operand, input, stream)?;
            if input.shape() != shape_o {
                return Err(check::shape_mismatch(
                    operand,
                    input,
                    format!("{shape_o:?}"),
                ));
            }
        }
        check::device("lse", &self.lse, stream)?;
        let shape_lse = extents.shape_lse();
        if self.lse.shape() != shape_lse {
            let want = format!("{shape_lse:?}");
            return Err(check::shape_mismatch("lse", &self.lse, want));
        }
        Ok(Valid { extents, factors })
    }

    fn validate_into(&self, grads: &AttentionGrads<T>, stream: &Stream) -> Result<Valid> {
        let valid = self.validate(stream)?;
        let AttentionGrads {
            dq,
            dk,
            dv,
            d_sink,
            d_bias,
        } = grads;
        let outputs = [
            ("dq", dq, &self.forward.q),
            ("dk", dk, &self.forward.k),
            ("dv", dv, &self.forward.v),
        ];
        for (idx, (name, output, input)) in outputs.into_iter().enumerate() {
            check::output(name, output, input.shape(), stream)?;
            self.forward.check_overlap(name, output)?;
            check::no_overlap(name, output, "o", &self.o)?;
            check::no_overlap(name, output, "lse", &self.lse)?;
            check::no_overlap(name, output, "d_o", &self.d_o)?;
            for (other_name, other, _) in &outputs[..idx] {
                check::no_overlap(name, output, other_name, other)?;
            }
        }
        let inputs = [("o", &self.o), ("d_o", &self.d_o)];
        let others = outputs.map(|(name, output, _)| (name, output));
        if let Some(d_bias) = d_bias {
            const NAME: &str = "d_bias";
            let bias = self.forward.options.scores.bias.ok_or_else(no_bias)?;
            check::output(NAME, d_bias, bias.shape(), stream)?;
            self.forward.check_overlap(NAME, d_bias)?;
            check::no_overlap(NAME, d_bias, "lse", &self.lse)?;
            for (name, other) in inputs.into_iter().chain(others) {
                check::no_overlap(NAME, d_bias, name, other)?;
            }
        }
        let Some(d_sink) = d_sink else {
            return Ok(valid);
        };
        const NAME: &str = "d_sink";
        let Some(sink) = self.forward.options.sink else {
            return Err(Error::value(NAME, "asked for", "none: no sink is set"));
        };
        check::output(NAME, d_sink, sink.shape(), stream)?;
        self.forward.check_overlap(NAME, d_sink)?;
        check::no_overlap(NAME, d_sink, "lse", &self.lse)?;
        for (name, other) in inputs.into_iter().chain(others) {
            check::no_overlap(NAME, d_sink, name, other)?;
        }
        if let Some(d_bias) = d_bias {
            check::no_overlap(NAME, d_sink, "d_bias", d_bias)?;
        }
        Ok(valid)
    }

    /// The gradients in the order batch, position, head.
    fn in_order(&self, grads: &AttentionGrads<T>) -> Result<[Tensor<T>; 3]> {
        let (q_is_packed, k_is_packed) = self.forward.packs();
        Ok([
            self.forward.in_order(&grads.dq, q_is_packed)?,
            self.forward.in_order(&grads.dk, k_is_packed)?,
            self.forward.in_order(&grads.dv, k_is_packed)?,
        ])
    }

    fn describe(
        &self,
        valid: &Valid,
        [dq, dk, dv]: &[Tensor<T>; 3],
        d_bias: bool,
    ) -> Result<GradDesc> {
        let Valid { extents, factors } = valid;
        let (q_is_packed, k_is_packed) = self.forward.packs();
        let inputs = self.forward.inputs_in_order()?;
        let of_o = |x: &Tensor<T>| {
            let x = self.forward.in_order(x, q_is_packed)?;
            Ok::<_, Error>(operand(&x, q_is_packed))
        };
        let o = (of_o(&self.o)?, false);
        let mut forward = self.forward.describe(extents, factors, &inputs, o)?;
        if let Some(score) = &mut forward.score {
            score.d_bias = d_bias;
        }
        Ok(GradDesc {
            forward,
            d_o: of_o(&self.d_o)?,
            dq: operand(dq, q_is_packed),
            dk: operand(dk, k_is_packed),
            dv: operand(dv, k_is_packed),
        })
    }

    fn launch(&self, valid: &Valid, grads: &AttentionGrads<T>, stream: &Stream) -> Result<()> {
        let d_sink = grads.d_sink.as_ref();
        if valid.is_empty() {
            let sums = [d_sink, grads.d_bias.as_ref()];
            return sums
                .into_iter()
                .flatten()
                .try_for_each(|sums| sums.fill(0.0, stream));
        }
        let outputs = self.in_order(grads)?;
        let desc = self.describe(valid, &outputs, grads.d_bias.is_some())?;
        // Choose before anything is copied, so that errors come first.
        let (candidate, _) = plan::choose(&desc, self.kernel, stream)?;
        let [dq, dk, dv] = &outputs;
        let dense = |output| self.dense(output, stream);
        let written = [dense(dq)?, dense(dk)?, dense(dv)?];
        let d_sink = d_sink.filter(|d_sink| !d_sink.is_empty());
        let written_sink = match d_sink {
            Some(x) if !last_dimension_is_dense(x) => Some(Tensor::empty(stream, x.shape())?),
            dense => dense.cloned(),
        };
        let d_bias = match &grads.d_bias {
            Some(to) => Some(BiasGradient::new(to, &valid.extents, stream)?),
            None => None,
        };
        let others = (written_sink.as_ref(), d_bias.as_ref().map(|it| &it.scores));
        let call = self.call(valid, (desc, &written), others, stream)?;
        candidate.launch(&call)?;
        call.launch_sink()?;
        if let Some(d_bias) = d_bias {
            d_bias.finish(stream)?;
        }
        for (output, written) in outputs.iter().zip(&written) {
            if !last_dimension_is_dense(output) {
                strided_copy(written, output, stream)?;
            }
        }
        match (d_sink, &written_sink) {
            (Some(d_sink), Some(written)) if !last_dimension_is_dense(d_sink) => {
                strided_copy(written, d_sink, stream)
            }
            _ => Ok(()),
        }
    }

    /// The call that writes these gradients, whose last dimensions have no gaps.
    fn call<'s>(
        &self,
        valid: &Valid,
        (desc, [dq, dk, dv]): (GradDesc, &[Tensor<T>; 3]),
        (d_sink, d_bias): (Option<&Tensor<f32>>, Option<&Tensor<f32>>),
        stream: &'s Stream,
    ) -> Result<GradCall<'s>> {
        let (q_is_packed, _) = self.forward.packs();
        let (q, [k, v]) = self.forward.inputs_in_order()?;
        let of_o = |x: &Tensor<T>| memory(&self.forward.in_order(x, q_is_packed)?, stream);
        let lse = self.lse.contiguous(stream)?;
        let delta = Tensor::<f32>::empty(stream, lse.shape())?;
        let mut score = self.forward.score_call(&valid.extents, &valid.factors)?;
        if let (Some(score), Some(d_bias)) = (&mut score, d_bias) {
            score.write_d_bias(d_bias)?;
        }
        Ok(GradCall {
            desc,
            forward: Call {
                stream,
                desc: desc.forward,
                q: memory(&q, stream)?,
                k: memory(&k, stream)?,
                v: memory(&v, stream)?,
                scales: [None, None],
                o: of_o(&self.o)?,
                lse: None,
                sink: match (d_sink, self.forward.options.sink) {
                    (Some(_), Some(sink)) => Some(Memory::of(&sink.contiguous(stream)?)),
                    _ => None,
                },
                lengths: self.forward.call_lengths(stream)?,
                pages: None,
                score,
                softmax_scale_log2: valid.factors.softmax_scale_log2,
                softcap_scale: valid.factors.softcap_scale,
            },
            lse: Memory::of(&lse),
            d_o: of_o(&self.d_o)?,
            delta: Memory::of(&delta),
            dq: Memory::of(dq),
            dk: Memory::of(dk),
            dv: Memory::of(dv),
            d_sink: d_sink.map(Memory::of),
            softmax_scale: valid.factors.softmax_scale,
        })
    }

    /// An output itself, or, if its last dimension has gaps, a tensor to write in its place: with
    /// its contents, where some of it is not written.
    fn dense(&self, output: &Tensor<T>, stream: &Stream) -> Result<Tensor<T>> {
        if last_dimension_is_dense(output) {
            return Ok(output.clone());
        }
        let dense = Tensor::empty(stream, output.shape())?;
        if !self.writes_all() {
            strided_copy(output, &dense, stream)?;
        }
        Ok(dense)
    }

    /// Whether every position is known to belong to a sequence.
    fn writes_all(&self) -> bool {
        !self.forward.has_lengths()
    }
}
