//! Running an [`Attention`]: validation, views, plan and launch.

use super::call::{Call, CallLengths, Memory};
use super::desc::{AttentionDesc, LengthsDesc, OperandDesc};
use super::extents::{Extents, Inputs};
use super::factors::Factors;
use super::lengths::Lengths;
use super::operands::{last_dimension_is_dense, memory, operand};
use super::pages::PagesDesc;
use super::score::ScoreCall;
use super::{Attention, AttentionLse, AttentionOutput, Layout};
use crate::error::named;
use crate::ops::check;
use crate::ops::copy::strided_copy;
use crate::ops::plan::{self, Choice as _, Desc as _, Plan, Tuning};
use crate::reference::attention::AttentionModel;
use crate::{Element, Error, Float, Result, Stream, Tensor};
use abi::attention::UNLIMITED;
use abi::attention::sm80::LEAST_SCALE;
use abi::attention::{BshStrides, MOST_SPLITS};

impl<T: Float, Out: Float, Kv: Element> Attention<'_, T, Out, Kv> {
    /// Enqueues the attention and returns `o`, a new tensor.
    ///
    /// # Errors
    /// See [`Attention`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<Out>> {
        named(AttentionDesc::OPERATION, || {
            let (extents, factors) = self.validate(stream)?;
            let o = self.new_o(&extents, stream)?;
            self.launch(&extents, &factors, &o, None, stream)?;
            Ok(o)
        })
    }

    /// Enqueues the attention into `o`. Rows that belong to no sequence are not written.
    ///
    /// # Errors
    /// See [`Attention`].
    pub fn run_into(&self, o: &Tensor<Out>, stream: &Stream) -> Result<()> {
        named(AttentionDesc::OPERATION, || {
            let (extents, factors) = self.validate_into(o, None, stream)?;
            self.launch(&extents, &factors, o, None, stream)
        })
    }

    /// The kernel that [`run`](Self::run) would launch, and the other candidates.
    ///
    /// # Errors
    /// See [`Attention`].
    pub fn plan(&self, stream: &Stream) -> Result<Plan> {
        named(AttentionDesc::OPERATION, || {
            self.planned(stream, |desc| match desc {
                Some(desc) => Plan::of(desc, self.options.kernel, stream),
                None => Ok(Plan::empty()),
            })
        })
    }

    /// The kernel that [`run_into`](Self::run_into) would launch, and the other candidates.
    ///
    /// # Errors
    /// See [`Attention`].
    pub fn plan_into(&self, o: &Tensor<Out>, stream: &Stream) -> Result<Plan> {
        named(AttentionDesc::OPERATION, || {
            let (extents, factors) = self.validate_into(o, None, stream)?;
            if extents.is_empty() {
                return Ok(Plan::empty());
            }
            let is_packed = extents.total_q.is_some();
            let of_o = operand(&self.in_order(o, is_packed)?, is_packed);
            let (inputs, seen) = self.seen(&extents)?;
            let desc = self.describe(&seen, &factors, &inputs, (of_o, false))?;
            Plan::of(&desc, self.options.kernel, stream)
        })
    }

    /// Measures the candidates with these operands. The fastest one becomes the choice for every
    /// attention with the same extents, layouts and options on this kind of device, as
    /// [`Gemm::autotune`](crate::Gemm::autotune) does.
    ///
    /// # Errors
    /// See [`Attention`]; also the first candidate's error or fault, if all fail.
    pub fn autotune(&self, stream: &Stream) -> Result<Tuning> {
        named(AttentionDesc::OPERATION, || {
            let (extents, factors) = self.validate(stream)?;
            let o = self.new_o(&extents, stream)?;
            if extents.is_empty() || o.is_empty() {
                return Ok(Tuning::empty());
            }
            let call = self.call(&extents, &factors, &o, None, stream)?;
            let of_keys = (self.k.len() + self.v.len()) * size_of::<Kv>();
            let bytes = (self.q.len() * size_of::<T>() + of_keys) as u64;
            let calls = plan::rotation(call.clone(), bytes, stream, || {
                let copy = Self {
                    q: plan::copied(&self.q, stream)?,
                    k: plan::copied(&self.k, stream)?,
                    v: plan::copied(&self.v, stream)?,
                    ..self.clone()
                };
                copy.call(&extents, &factors, &plan::like(&o, stream)?, None, stream)
            })?;
            let blank = Out::from_f64(f64::NAN);
            plan::tune(
                &call.desc,
                stream,
                &calls,
                |candidate| plan::answer(&o, blank, stream, || candidate.launch(&call)),
                |want, got| {
                    let [want, got] =
                        [want, got].map(|all: &Vec<Out>| all.iter().map(|x| x.widened()));
                    plan::agree_within(want, got, LARGEST_DIFFERENCE)
                },
            )
        })
    }

    /// The error model of the kernel that [`run`](Self::run) launches, for the
    /// bound of [`reference::attention`](crate::reference::attention).
    ///
    /// # Errors
    /// See [`Attention`].
    pub fn model(&self, stream: &Stream) -> Result<AttentionModel> {
        named(AttentionDesc::OPERATION, || {
            self.planned(stream, |desc| match desc {
                Some(desc) => Ok(plan::choose(desc, self.options.kernel, stream)?
                    .0
                    .model(desc)),
                None => Ok(crate::ops::model::attention(0, 1).into()),
            })
        })
    }

    /// Calls `then` with the description of [`run`](Self::run), or `None` if
    /// there are no queries.
    fn planned<R>(
        &self,
        stream: &Stream,
        then: impl FnOnce(Option<&AttentionDesc>) -> Result<R>,
    ) -> Result<R> {
        let (extents, factors) = self.validate(stream)?;
        if extents.is_empty() {
            return then(None);
        }
        let o = self.new_operand(&extents)?;
        let (inputs, seen) = self.seen(&extents)?;
        then(Some(&self.describe(
            &seen,
            &factors,
            &inputs,
            (o, false),
        )?))
    }

    /// How a new o lies.
    fn new_operand(&self, extents: &Extents) -> Result<OperandDesc> {
        check::addressable(&extents.shape_o(self.options.layout))?; // so no product below overflows
        let positions = extents.total_q.unwrap_or(extents.seqlen_q) as i64;
        let (heads, head_dim_v) = (extents.heads_q as i64, extents.head_dim_v as i64);
        let (seq, head) = match self.options.layout {
            Layout::Bshd => (heads * head_dim_v, head_dim_v),
            Layout::Bhsd => (head_dim_v, positions * head_dim_v),
        };
        let batch = match extents.total_q {
            Some(_) => 0,
            None => positions * heads * head_dim_v,
        };
        Ok(OperandDesc {
            strides: BshStrides { batch, seq, head },
            align_bytes: OperandDesc::MOST_ALIGN_BYTES,
        })
    }

    fn new_o(&self, extents: &Extents, stream: &Stream) -> Result<Tensor<Out>> {
        let shape = extents.shape_o(self.options.layout);
        match extents.all_written {
            true => Tensor::empty(stream, &shape),
            false => Tensor::zeros(stream, &shape),
        }
    }

    pub(in crate::ops) fn validate(&self, stream: &Stream) -> Result<(Extents, Factors)> {
        check::device("q", &self.q, stream)?;
        check::device("k", &self.k, stream)?;
        check::device("v", &self.v, stream)?;
        let extents = self.extents(stream)?;
        self.check_scales(&extents, stream)?;
        for (what, extent) in [("batch", extents.batch), ("heads_q", extents.heads_q)] {
            check::extent(what, extent)?;
        }
        if let Some(sink) = self.options.sink {
            check::device("sink", sink, stream)?;
            if *sink.shape() != [extents.heads_q] {
                return Err(check::shape_mismatch(
                    "sink",
                    sink,
                    format!("[{}]", extents.heads_q),
                ));
            }
        }
        self.options.scores.check(&extents, stream)?;
        if let Some(splits) = self.options.key_splits
            && !(1..=MOST_SPLITS).contains(&splits)
        {
            return Err(Error::value(
                "key_splits",
                splits.to_string(),
                format!("1 to {MOST_SPLITS}"),
            ));
        }
        let factors = self.factors(&extents)?;
        Ok((extents, factors))
    }

    fn validate_into(
        &self,
        o: &Tensor<Out>,
        lse: Option<&Tensor<f32>>,
        stream: &Stream,
    ) -> Result<(Extents, Factors)> {
        let (extents, factors) = self.validate(stream)?;
        check::output("o", o, &extents.shape_o(self.options.layout), stream)?;
        self.check_overlap("o", o)?;
        if let Some(lse) = lse {
            check::output("lse", lse, &extents.shape_lse(), stream)?;
            if !lse.is_contiguous() {
                return Err(Error::strides(
                    "lse",
                    lse.strides(),
                    "those of a contiguous tensor",
                ));
            }
            check::no_overlap("lse", lse, "o", o)?;
            self.check_overlap("lse", lse)?;
        }
        Ok((extents, factors))
    }

    /// Checks that an output overlaps no input.
    pub(in crate::ops) fn check_overlap<E: Element>(
        &self,
        output: &'static str,
        written: &Tensor<E>,
    ) -> Result<()> {
        check::no_overlap(output, written, "q", &self.q)?;
        check::no_overlap(output, written, "k", &self.k)?;
        check::no_overlap(output, written, "v", &self.v)?;
        for (operand, input) in [
            ("sink", self.options.sink),
            ("k_scale", self.options.k_scale),
            ("v_scale", self.options.v_scale),
        ] {
            if let Some(input) = input {
                check::no_overlap(output, written, operand, input)?;
            }
        }
        self.options.scores.check_overlap(output, written)?;
        for (operand, lengths) in [
            ("cu_seqlens_q", self.options.cu_seqlens_q),
            ("cu_seqlens_k", self.options.cu_seqlens_k),
            ("seqused_q", self.options.seqused_q),
            ("seqused_k", self.options.seqused_k),
            ("leftpad_k", self.options.leftpad_k),
            ("pages", self.options.pages.map(Lengths::Device)),
        ] {
            if let Some(Lengths::Device(lengths)) = lengths {
                lengths.check_apart(operand, output, written)?;
            }
        }
        Ok(())
    }

    pub(in crate::ops) fn inputs_in_order(&self) -> Result<Inputs<T, Kv>> {
        let keys_are_packed = self.options.cu_seqlens_k.is_some();
        let q = self.in_order(&self.q, self.options.cu_seqlens_q.is_some())?;
        let k = self.in_order(&self.k, keys_are_packed)?;
        Ok((q, [k, self.in_order(&self.v, keys_are_packed)?]))
    }

    pub(in crate::ops) fn describe(
        &self,
        extents: &Extents,
        factors: &Factors,
        (q, [k, v]): &Inputs<T, Kv>,
        (o, lse): (OperandDesc, bool),
    ) -> Result<AttentionDesc> {
        let packed = (extents.total_q.is_some(), extents.total_k.is_some());
        let (window_left, window_right) = self.window_of_mask();
        let has_softcap = self.options.softcap.is_some();
        let of_scores = (has_softcap, factors.softmax_scale, self.pairs_keys());
        let score = (self.options.scores).describe(extents, of_scores)?;
        let is_scored = score.is_some_and(|score| score.changes);
        Ok(AttentionDesc {
            dtype: T::DTYPE,
            kv_dtype: Kv::DTYPE,
            o_dtype: Out::DTYPE,
            batch: check::extent("batch", extents.batch)?,
            seqlen_q: check::extent("seqlen_q", extents.seqlen_q)?,
            seqlen_k: check::extent("seqlen_k", extents.seqlen_k)?,
            total_q: check::extent("total_q", extents.total_q.unwrap_or(0))?,
            total_k: check::extent("total_k", extents.total_k.unwrap_or(0))?,
            heads_q: check::extent("heads_q", extents.heads_q)?,
            heads_kv: check::extent("heads_kv", extents.heads_kv)?,
            head_dim: check::extent("head_dim", extents.head_dim)?,
            head_dim_v: check::extent("head_dim_v", extents.head_dim_v)?,
            q: operand(q, packed.0),
            k: operand(k, packed.1),
            v: operand(v, packed.1),
            o,
            window_left,
            window_right,
            top_left: self.options.top_left,
            positive_scale: factors.softmax_scale_log2 >= LEAST_SCALE,
            softcap: has_softcap && !is_scored,
            score,
            sink: self.options.sink.is_some(),
            lengths: LengthsDesc {
                cu_seqlens_q: packed.0,
                cu_seqlens_k: packed.1,
                seqused_q: self.options.seqused_q.is_some(),
                seqused_k: self.options.seqused_k.is_some(),
                leftpad_k: self.options.leftpad_k.is_some(),
            },
            pages: match (self.options.pages, extents.pages) {
                (Some(table), Some(pages)) => Some(PagesDesc::new(table, pages)?),
                _ => None,
            },
            lse,
            packs_heads: self.options.packs_heads,
            key_splits: self.options.key_splits,
            batch_invariant: self.options.batch_invariant,
        })
    }

    fn launch(
        &self,
        extents: &Extents,
        factors: &Factors,
        o: &Tensor<Out>,
        lse: Option<&Tensor<f32>>,
        stream: &Stream,
    ) -> Result<()> {
        if extents.is_empty() || (o.is_empty() && lse.is_none()) {
            return Ok(());
        }
        let is_packed = extents.total_q.is_some();
        let of_o = operand(&self.in_order(o, is_packed)?, is_packed);
        let (inputs, seen) = self.seen(extents)?;
        let desc = self.describe(&seen, factors, &inputs, (of_o, lse.is_some()))?;
        // Choose before anything is copied, so that errors come first.
        let (candidate, _) = plan::choose(&desc, self.options.kernel, stream)?;
        if !last_dimension_is_dense(o) {
            let dense = Tensor::empty(stream, o.shape())?;
            if !extents.all_written {
                strided_copy(o, &dense, stream)?;
            }
            self.launch(extents, factors, &dense, lse, stream)?;
            return strided_copy(&dense, o, stream);
        }
        candidate.launch(&self.call(extents, factors, o, lse, stream)?)
    }

    /// The call with an o whose last dimension has no gaps. Inputs that cannot be read in place are
    /// copied, on `stream`.
    fn call<'s>(
        &self,
        extents: &Extents,
        factors: &Factors,
        o: &Tensor<Out>,
        lse: Option<&Tensor<f32>>,
        stream: &'s Stream,
    ) -> Result<Call<'s>> {
        let is_packed = extents.total_q.is_some();
        let o = self.in_order(o, is_packed)?;
        let (inputs, seen) = self.seen(extents)?;
        let of_o = (operand(&o, is_packed), lse.is_some());
        let (q, [k, v]) = &inputs;
        Ok(Call {
            stream,
            desc: self.describe(&seen, factors, &inputs, of_o)?,
            q: memory(q, stream)?,
            k: memory(k, stream)?,
            v: memory(v, stream)?,
            o: Memory::of(&o),
            lse: lse.map(Memory::of),
            sink: match self.options.sink {
                Some(sink) => Some(Memory::of(&sink.contiguous(stream)?)),
                None => None,
            },
            lengths: self.call_lengths(stream)?,
            pages: self.pages_memory(stream)?,
            scales: self.call_scales(&seen, stream)?,
            score: self.score_call(extents, factors)?,
            softmax_scale_log2: factors.softmax_scale_log2,
            softcap_scale: factors.softcap_scale,
        })
    }

    /// What kernels get of the options that concern scores.
    pub(in crate::ops) fn score_call(
        &self,
        extents: &Extents,
        factors: &Factors,
    ) -> Result<Option<ScoreCall>> {
        let (options, softcap) = (&self.options.scores, self.options.softcap);
        options.call(extents, factors.softmax_scale, softcap, self.pairs_keys())
    }

    /// Whether the two keys of which kernels change scores together are an even one and the next.
    /// Blocks count from the first key that is seen, which may be odd with a window.
    fn pairs_keys(&self) -> bool {
        self.options.top_left || self.window_of_mask().0 == UNLIMITED
    }

    pub(in crate::ops) fn call_lengths(&self, stream: &Stream) -> Result<CallLengths> {
        let memory = |lengths: Option<Lengths<'_>>| match lengths {
            Some(lengths) => lengths.memory(stream).map(Some),
            None => Ok(None),
        };
        Ok(CallLengths {
            cu_seqlens_q: memory(self.options.cu_seqlens_q)?,
            cu_seqlens_k: memory(self.options.cu_seqlens_k)?,
            seqused_q: memory(self.options.seqused_q)?,
            seqused_k: memory(self.options.seqused_k)?,
            leftpad_k: memory(self.options.leftpad_k)?,
        })
    }
}

impl<T: Float, Out: Float, Kv: Element> AttentionLse<'_, T, Out, Kv> {
    /// Enqueues the attention and returns its results, new tensors.
    ///
    /// # Errors
    /// See [`Attention`].
    pub fn run(&self, stream: &Stream) -> Result<AttentionOutput<Out>> {
        named(AttentionDesc::OPERATION, || {
            let attention = &self.0;
            let (extents, factors) = attention.validate(stream)?;
            let o = attention.new_o(&extents, stream)?;
            let shape_lse = extents.shape_lse();
            let lse = match extents.all_written {
                true => Tensor::empty(stream, &shape_lse)?,
                false => Tensor::full(stream, &shape_lse, f32::NEG_INFINITY)?,
            };
            attention.launch(&extents, &factors, &o, Some(&lse), stream)?;
            Ok(AttentionOutput { o, lse })
        })
    }

    /// Enqueues the attention into `o` and `lse`. Rows that belong to no sequence are not written.
    ///
    /// # Errors
    /// See [`Attention`].
    pub fn run_into(&self, o: &Tensor<Out>, lse: &Tensor<f32>, stream: &Stream) -> Result<()> {
        named(AttentionDesc::OPERATION, || {
            let (extents, factors) = self.0.validate_into(o, Some(lse), stream)?;
            self.0.launch(&extents, &factors, o, Some(lse), stream)
        })
    }
}

/// Most by which `o` of two kernels may differ, relative to the largest one.
const LARGEST_DIFFERENCE: f64 = 1.0 / 64.0;
