//! Fills the holes of a kernel with what a call does to scores.

use super::blocks::{BLOCK_SLOTS, line_of};
use super::desc::{KEY, ScoreDesc};
use super::dropout::{DROPOUT_SLOTS, is_of_dropout};
use super::function::{MOST_VALUES, ScoreFunction, Step};
use super::places::At;
use crate::fuse::{
    Body, Filling, Fragment, Scalar, Skeleton, Value, builtin_fragment, builtin_skeleton,
};
use crate::launch::KernelArgs;
use crate::load::{EntryKernel, KernelKey, LoadVariant, kernel};
use crate::ops::attention::block_mask::BlockMask;
use crate::ops::gemm::Memory;
use crate::{DType, Error, LaunchConfig, Result, Stream};
use abi::entry::Entry;
use std::collections::HashMap;

/// Words of 64 bits behind a kernel's parameters, and which is which.
pub(super) const SLOTS: usize = VALUES + MOST_VALUES + BLOCK_SLOTS + DROPOUT_SLOTS;
/// What dropout reads.
pub(super) const DROPOUT: usize = SLOTS - DROPOUT_SLOTS;
/// The factor of `q @ k^T`.
pub(super) const SCALE: usize = 0;
/// The soft cap.
pub(super) const SOFTCAP: usize = 1;
/// Its reciprocal.
pub(super) const INVERSE_CAP: usize = 2;
/// Address, then bytes from batch to batch, head to head, query to query and key to key.
pub(super) const BIAS: usize = 3;
/// The same of the mask.
pub(super) const MASK: usize = BIAS + PLACES;
/// The same of the gradient of the bias.
pub(super) const D_BIAS: usize = MASK + PLACES;
/// The same of ALiBi's slopes, without queries and keys.
pub(super) const ALIBI: usize = D_BIAS + PLACES;
/// The functions' values.
pub(super) const VALUES: usize = ALIBI + 3;
/// Words of an address and its strides.
const PLACES: usize = 5;

/// What a call does to scores.
#[derive(Clone)]
pub(in crate::ops) struct ScoreCall {
    pub(in crate::ops) desc: ScoreDesc,
    pub(super) function: Option<ScoreFunction>,
    pub(super) mask: Option<ScoreFunction>,
    pub(super) blocks: Option<BlockMask>,
    /// What the composed kernel takes behind its other parameters.
    pub(super) slots: [u64; SLOTS],
    /// What these slots refer to.
    pub(in crate::ops) memory: Vec<Memory>,
}

impl ScoreCall {
    /// Whether memory is read at a score's place.
    pub(super) fn reads_places(&self) -> bool {
        let functions = self.function.iter().chain(&self.mask);
        let mut values = functions.flat_map(ScoreFunction::values);
        let desc = &self.desc;
        desc.bias.is_some()
            || desc.mask.is_some()
            || desc.blocks.is_some()
            || values.any(|value| value.scalar() == Scalar::U64)
    }

    /// The kernel of `entry` whose holes are filled.
    fn kernel<E: Entry>(&self, stream: &Stream, entry: &E) -> Result<EntryKernel<E>> {
        let name = entry.name();
        if name.len() > 8 * NAME {
            return Err(Error::Bug("an entry's name is longer than its key"));
        }
        let mut key = [0; NAME + KEY];
        for (word, bytes) in key.iter_mut().zip(name.as_bytes().chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(padded);
        }
        key[NAME..].copy_from_slice(&self.desc.key());
        let key = KernelKey {
            entry: &key[..],
            variant: LoadVariant::Plain,
        };
        let device = stream.device();
        let composed = device.composed(&key, || self.text(name, device.arch()))?;
        Ok(EntryKernel::of(composed))
    }

    /// The text of the kernel for devices of `arch`.
    fn text(&self, name: &str, arch: (u32, u32)) -> Result<String> {
        let mut skeleton: Skeleton = builtin_skeleton(name, arch)?;
        let param = skeleton.add_param((8 * SLOTS) as u32);
        let mut fragments = HashMap::new();
        let flag = |is_set: bool| Some(Filling::Constant(is_set.into()));
        skeleton.compose(|hole| {
            let writer = Writer {
                of: self,
                param,
                body: Body::default(),
                arch,
                is_portable: name.contains("_simt"),
                fragments: &mut fragments,
            };
            let body = match hole {
                "is_scored" => return Ok(flag(self.desc.changes || self.desc.dropout)),
                "is_sparse" => return Ok(flag(self.desc.blocks.is_some())),
                "is_changed" => writer.flag_of_changed()?,
                "shown" => writer.shown()?,
                "is_dropped" => return Ok(flag(self.desc.dropout)),
                _ if is_of_dropout(hole) => {
                    if !self.desc.dropout {
                        return Ok(Some(Filling::Nothing));
                    }
                    writer.dropout(hole)?
                }
                _ if line_of(hole).is_some() => {
                    let line = line_of(hole).filter(|_| self.desc.blocks.is_some());
                    let Some(line) = line else {
                        return Ok(Some(Filling::Nothing));
                    };
                    writer.line(line)?
                }
                _ if !self.desc.changes && !self.desc.hides() => {
                    return Ok(Some(Filling::Nothing));
                }
                "score_of_keys" => writer.scores((2, true), false)?,
                "slope" => writer.scores((1, true), true)?,
                "slope_of_keys" => writer.scores((2, true), true)?,
                "slope_of_queries" => writer.scores((2, false), true)?,
                _ if !self.desc.changes => return Ok(Some(Filling::Nothing)),
                "gradient" => writer.gradients(1, Stored::IfWanted)?,
                "gradient_of_keys" => writer.gradients(2, Stored::Keys)?,
                "gradient_of_queries" => writer.gradients(2, Stored::No)?,
                "weight" => writer.weights()?,
                "product" => writer.products()?,
                _ => return Ok(None),
            };
            Ok(Some(Filling::Body(body)))
        })
    }
}

/// Words of an entry's name.
const NAME: usize = 8;

/// Enqueues `entry`, its holes filled if there is a `score`.
///
/// # Safety
/// As [`EntryKernel::launch`].
pub(in crate::ops) unsafe fn scored<E: Entry>(
    score: Option<&ScoreCall>,
    (entry, stream): (E, &Stream),
    config: LaunchConfig,
    memory: impl KernelArgs,
    params: &E::Params,
) -> Result<()> {
    let Some(score) = score else {
        // SAFETY: guaranteed by the caller.
        return unsafe { kernel(stream, entry)?.launch(stream, config, memory, params) };
    };
    let more = score.slots.map(u64::to_le_bytes);
    let kernel = score.kernel(stream, &entry)?;
    // SAFETY: guaranteed by the caller; the slots describe the call's memory.
    unsafe { kernel.launch_with(stream, config, memory, params, more.as_flattened()) }
}

/// Which gradients are stored.
#[derive(Clone, Copy)]
enum Stored {
    /// None.
    No,
    /// Those of neighbouring keys.
    Keys,
    /// One, if the hole's last input is not 0.
    IfWanted,
}

/// A body under construction.
pub(super) struct Writer<'w> {
    pub(super) of: &'w ScoreCall,
    /// Index of the parameter that has the slots.
    pub(super) param: usize,
    pub(super) body: Body,
    pub(super) arch: (u32, u32),
    /// Whether the kernel has no approximate instructions.
    is_portable: bool,
    /// Those that are used, each looked up once.
    fragments: &'w mut HashMap<&'static str, Fragment>,
}

impl Writer<'_> {
    pub(super) fn apply(&mut self, name: &'static str, arguments: &[Value]) -> Result<Value> {
        let fragment = match self.fragments.get(name) {
            Some(fragment) => fragment.clone(),
            None => {
                let fragment = builtin_fragment(name, self.arch)?;
                self.fragments.insert(name, fragment.clone());
                fragment
            }
        };
        Ok(self.body.apply(&fragment, arguments)?)
    }

    pub(super) fn slot(&mut self, slot: usize, scalar: Scalar) -> Value {
        self.body.param(self.param, 8 * slot as u32, scalar)
    }

    /// The body of a hole of scores, of neighbouring keys or queries, and of their slopes if it
    /// `has_slopes`. The kernel has hidden some of these before.
    fn scores(mut self, (count, are_keys): (usize, bool), has_slopes: bool) -> Result<Body> {
        let scores: Vec<Value> = (0..count).map(|idx| self.body.input_f32(idx)).collect();
        let first = if has_slopes { 2 * count } else { count };
        let places = self.places(first, (count, are_keys))?;
        let biases = self.biases(&places, are_keys)?;
        for (idx, (score, at)) in scores.into_iter().zip(&places).enumerate() {
            let bias = biases.get(idx).copied();
            let (mut changed, slope) = self.change(score, at, bias, has_slopes)?;
            if has_slopes {
                changed = self.apply("score_keep_hidden", &[score, changed])?;
                let slope = self.or_one(slope);
                self.body.output(count + idx, slope)?;
            }
            self.body.output(idx, changed)?;
        }
        Ok(self.body)
    }

    /// The body of a hole of `count` gradients with respect to new scores, which become those with
    /// respect to old ones.
    fn gradients(mut self, count: usize, stored: Stored) -> Result<Body> {
        let inputs: Vec<Value> = (0..3 * count).map(|idx| self.body.input_f32(idx)).collect();
        let places = match (stored, self.of.desc.d_bias) {
            (Stored::No, _) | (_, false) => Vec::new(),
            _ => self.places(3 * count, (count, true))?,
        };
        let wanted = match stored {
            Stored::IfWanted => Some(self.body.input(3 * count + 6)),
            _ => None,
        };
        let is_affine = self.of.desc.is_affine();
        for idx in 0..count {
            let (p, slope) = (inputs[count + idx], inputs[2 * count + idx]);
            let gradient = self.apply("score_unless_zero", &[inputs[idx], p])?;
            if let Some(at) = places.get(idx) {
                self.store(gradient, at, wanted)?;
            }
            let mut of_old = gradient;
            if !is_affine {
                let product = self.apply("f32_mul", &[gradient, slope])?;
                of_old = self.apply("score_unless_zero", &[product, p])?;
            }
            self.body.output(idx, of_old)?;
        }
        Ok(self.body)
    }

    /// The body of a hole of two probabilities, which are multiplied by their slopes.
    fn weights(mut self) -> Result<Body> {
        if self.of.desc.is_affine() {
            return Ok(self.body);
        }
        for idx in 0..2 {
            let (p, slope) = (self.body.input_f32(idx), self.body.input_f32(2 + idx));
            let product = self.apply("f32_mul", &[p, slope])?;
            let product = self.apply("score_unless_zero", &[product, p])?;
            self.body.output(idx, product)?;
        }
        Ok(self.body)
    }

    /// The body of a hole of two gradients of neighbouring queries, which are stored.
    fn products(mut self) -> Result<Body> {
        if !self.of.desc.d_bias {
            return Ok(self.body);
        }
        let gradients = [0, 1].map(|idx| self.body.input_f32(idx));
        let places = self.places(2, (2, false))?;
        for (gradient, at) in gradients.into_iter().zip(&places) {
            self.store(gradient, at, None)?;
        }
        Ok(self.body)
    }

    /// Stores a gradient of the bias, if its place is there and it is `wanted`.
    fn store(&mut self, gradient: Value, at: &At, wanted: Option<Value>) -> Result<()> {
        let [query, key] = at.given;
        let arguments = [query, at.seqlen_q, key, at.seqlen_k];
        let mut condition = self.apply("score_is_there", &arguments)?;
        if let Some(wanted) = wanted {
            condition = self.apply("score_and", &[condition, wanted])?;
        }
        let place = self.place(D_BIAS, at, 4, false)?;
        self.body.store(place, gradient, condition);
        Ok(())
    }

    /// A slope, of which `None` is 1.
    pub(super) fn or_one(&mut self, slope: Option<Value>) -> Value {
        let one = u64::from(1_f32.to_bits());
        slope.unwrap_or_else(|| self.body.constant(one, Scalar::F32))
    }

    /// A slope times another.
    pub(super) fn times(&mut self, slope: Option<Value>, other: Value) -> Result<Option<Value>> {
        Ok(Some(match slope {
            Some(slope) => self.apply("f32_mul", &[slope, other])?,
            None => other,
        }))
    }

    /// The bias of each place, if there is any. `are_keys`: they are an even key and the next.
    fn biases(&mut self, places: &[At], are_keys: bool) -> Result<Vec<Value>> {
        let Some(bias) = self.of.desc.bias else {
            return Ok(Vec::new());
        };
        let names = match bias.dtype {
            DType::F16 => ["f32_of_f16_0", "f32_of_f16_1"],
            DType::Bf16 => ["f32_of_bf16_0", "f32_of_bf16_1"],
            _ => ["f32_of_f32_0"; 2],
        };
        if let ([first, _], true, true) = (places, are_keys, bias.paired) {
            // Beyond the sequence there may be no word, but where its last key is, there is one.
            let even = At {
                key: self.apply("score_even", &[first.key])?,
                ..*first
            };
            let address = self.place(BIAS, &even, 2, true)?;
            let word = self.body.load(address, 4);
            return names.iter().map(|name| self.apply(name, &[word])).collect();
        }
        let mut biases = Vec::new();
        for at in places {
            let word = self.load((BIAS, bias.dtype, bias.dense), at)?;
            biases.push(self.apply(names[0], &[word])?);
        }
        Ok(biases)
    }

    /// The new score, and its derivative with respect to the scaled one if it is `differentiated`.
    fn change(
        &mut self,
        product: Value,
        at: &At,
        bias: Option<Value>,
        differentiated: bool,
    ) -> Result<(Value, Option<Value>)> {
        let mut slope = None;
        let desc = self.of.desc;
        if !desc.changes {
            let score = match self.shown_by_blocks(at, VALUES)? {
                // Kernels that differentiate need a finite number.
                Some(shown) if differentiated => self.apply("blocks_hide", &[product, shown])?,
                Some(shown) => self.apply("score_mask", &[product, shown])?,
                None => product,
            };
            return Ok((score, None));
        }
        let scale = self.slot(SCALE, Scalar::F32);
        let mut score = self.apply("f32_mul", &[product, scale])?;
        if desc.softcap {
            let cap = self.slot(SOFTCAP, Scalar::F32);
            if self.is_portable {
                if differentiated {
                    slope = Some(self.apply("score_softcap_slope", &[score, cap])?);
                }
                score = self.apply("score_softcap", &[score, cap])?;
            } else {
                let inverse = self.slot(INVERSE_CAP, Scalar::F32);
                if differentiated {
                    slope = Some(self.apply("score_softcap_approx_slope", &[score, inverse])?);
                }
                score = self.apply("score_softcap_approx", &[score, cap, inverse])?;
            }
        }
        let mut value = VALUES;
        if let Some(function) = &self.of.function {
            for step in &function.steps {
                if differentiated {
                    slope = self.derivative(step, (score, slope), at, value)?;
                }
                score = self.step(step, score, at, &mut value)?;
            }
        }
        if let Some(bias) = bias {
            score = self.apply("f32_add", &[score, bias])?;
        }
        if let Some([own, key]) = at.alibi {
            let place = self.row(ALIBI, at, false)?;
            let word = self.body.load(place, 4);
            let slope = self.apply("f32_of_f32_0", &[word])?;
            let names = ["score_alibi", "score_alibi_near"];
            let name = names[usize::from(desc.is_near)];
            score = self.apply(name, &[score, slope, own, key])?;
        }
        if let Some(mask) = desc.mask {
            let shown = self.load((MASK, mask.dtype, mask.dense), at)?;
            score = self.apply("score_mask", &[score, shown])?;
        }
        if let Some(Step::Apply {
            fragment, values, ..
        }) = self.of.mask.as_ref().and_then(|mask| mask.steps.first())
        {
            let mut arguments = vec![at.batch, at.head, at.query, at.key];
            for given in values {
                arguments.push(self.slot(value, given.scalar()));
                value += 1;
            }
            let shown = self.body.apply(fragment, &arguments)?;
            score = self.apply("score_mask", &[score, shown])?;
        }
        if let Some(shown) = self.shown_by_blocks(at, value)? {
            score = self.apply("score_mask", &[score, shown])?;
        }
        Ok((score, slope))
    }

    /// The address that the batch, the head and the query (if it `has_queries`) have in the tensor
    /// whose place is in these slots.
    fn row(&mut self, slots: usize, at: &At, has_queries: bool) -> Result<Value> {
        let base = self.slot(slots, Scalar::U64);
        let of_batch = self.slot(slots + 1, Scalar::I64);
        let of_head = self.slot(slots + 2, Scalar::I64);
        let of_query = match has_queries {
            true => self.slot(slots + 3, Scalar::I64),
            false => self.body.constant(0, Scalar::I64),
        };
        let arguments = [
            base, at.batch, of_batch, at.head, of_head, at.query, of_query,
        ];
        self.apply("score_row", &arguments)
    }

    /// The address of the place in a tensor of elements of `bytes`.
    fn place(&mut self, slots: usize, at: &At, bytes: u32, dense: bool) -> Result<Value> {
        let row = self.row(slots, at, true)?;
        let of_key = match dense {
            true => self.body.constant(u64::from(bytes), Scalar::I64),
            false => self.slot(slots + 4, Scalar::I64),
        };
        self.apply("score_column", &[row, at.key, of_key])
    }

    /// The element of the place in a tensor.
    fn load(&mut self, (slots, dtype, dense): (usize, DType, bool), at: &At) -> Result<Value> {
        let bytes = dtype.size_bytes() as u32;
        let address = self.place(slots, at, bytes, dense)?;
        Ok(self.body.load(address, bytes))
    }
}
