//! Biases, masks, ALiBi and functions of scores.

use ndarray::ArrayD;
use proptest::prelude::*;
use serde::Deserialize;
use warpsmith::reference::attention as reference;
use warpsmith::{BinaryOp, BlockMask, DType, Device, ScoreFunction, UnaryOp};
use warpsmith_tests::Checked;
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation;
use warpsmith_tests::property::{Effort, holds};
use warpsmith_tests::values::Values;

use super::blocks::Blocks;
use super::case::{self, Case};
use super::check::check;

/// What is done to the scores of a case.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scores {
    #[serde(default)]
    pub(crate) bias: Option<Bias>,
    #[serde(default)]
    pub(crate) mask: Option<Mask>,
    /// Whether there are slopes for each batch.
    #[serde(default)]
    pub(crate) alibi: Option<bool>,
    #[serde(default)]
    pub(crate) function: Option<Function>,
    #[serde(default)]
    pub(crate) blocks: Option<Blocks>,
    /// The probability of dropping.
    #[serde(default)]
    pub(crate) dropout: Option<f32>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bias {
    #[serde(deserialize_with = "operation::dtype")]
    pub(crate) dtype: DType,
    /// Which of its dimensions are broadcast.
    #[serde(default)]
    pub(crate) broadcast: [bool; 4],
    #[serde(default)]
    pub(crate) view: View,
    /// Whether a part of it is -inf.
    #[serde(default)]
    pub(crate) hides: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mask {
    #[serde(default)]
    pub(crate) broadcast: [bool; 4],
    #[serde(default)]
    pub(crate) view: View,
}

/// Functions that are made of the library's.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Function {
    /// `3 tanh(x / 3)`.
    Tanh,
    /// `sigmoid(x) - 0.5`.
    Sigmoid,
}

impl Scores {
    /// Whether anything is done.
    pub(crate) fn any(&self) -> bool {
        *self != Self::default()
    }
}

impl Function {
    fn of_the_library(self) -> ScoreFunction {
        let new = ScoreFunction::new();
        match self {
            Self::Tanh => new
                .scalar(BinaryOp::Div, 3.0)
                .unary(UnaryOp::Tanh)
                .scalar(BinaryOp::Mul, 3.0),
            Self::Sigmoid => new.unary(UnaryOp::Sigmoid).scalar(BinaryOp::Sub, 0.5),
        }
    }

    fn of_the_reference(self) -> reference::ScoreFunction {
        match self {
            Self::Tanh => reference::ScoreFunction {
                value: |x, _| 3.0 * (x / 3.0).tanh(),
                slope: |x, _| 1.0 - (x / 3.0).tanh().powi(2),
                most: [1.0, 0.5],
                roundoffs: [8.0, 32.0],
            },
            Self::Sigmoid => reference::ScoreFunction {
                value: |x, _| 1.0 / (1.0 + (-x).exp()) - 0.5,
                slope: |x, _| {
                    let y = 1.0 / (1.0 + (-x).exp());
                    y * (1.0 - y)
                },
                most: [0.25 + 1e-6, 0.1],
                roundoffs: [64.0, 32.0],
            },
        }
    }
}

/// A bias on the device.
enum BiasInput {
    F32(Operand<f32>),
    F16(Operand<half::f16>),
    Bf16(Operand<half::bf16>),
}

macro_rules! each {
    ($bias:expr, $operand:ident => $then:expr) => {
        match $bias {
            BiasInput::F32($operand) => $then,
            BiasInput::F16($operand) => $then,
            BiasInput::Bf16($operand) => $then,
        }
    };
}

/// The operands on the device.
pub(crate) struct ScoreInputs {
    bias: Option<BiasInput>,
    mask: Option<Operand<u8>>,
    alibi: Option<Operand<f32>>,
    function: Option<(Function, ScoreFunction)>,
    blocks: Option<(BlockMask, ArrayD<bool>)>,
    dropout: Option<reference::Dropout>,
}

fn broadcast(shape: [usize; 4], which: [bool; 4]) -> Vec<usize> {
    let extents = shape.into_iter().zip(which);
    extents
        .map(|(extent, one)| if one { 1 } else { extent })
        .collect()
}

fn bias<T: TestElement>(
    bias: &Bias,
    shape: &[usize],
    seed: u64,
    device: &Device,
) -> Result<Operand<T>, String> {
    let mut drawn = Values::Uniform.draw(shape, seed);
    drawn.mapv_inplace(|x| T::nearest(x).wide());
    if bias.hides {
        let hidden = Values::Uniform.draw(shape, seed + 1);
        drawn.zip_mut_with(&hidden, |x, &hidden| {
            if hidden > 0.5 {
                *x = f64::NEG_INFINITY;
            }
        });
    }
    Operand::lay_out(device, drawn, bias.view)
}

impl ScoreInputs {
    pub(crate) fn draw(case: &Case, device: &Device) -> Result<Self, String> {
        let shape = case.shape_of_scores();
        let seed = case.seed + 100;
        let Scores {
            bias: of_bias,
            mask,
            alibi,
            function,
            blocks,
            dropout,
        } = &case.scores;
        let blocks = blocks.as_ref().map(|of| of.draw(shape, seed + 4, device));
        let of_bias = of_bias.as_ref().map(|of| {
            let shape = broadcast(shape, of.broadcast);
            Ok::<_, String>(match of.dtype {
                DType::F32 => BiasInput::F32(bias(of, &shape, seed, device)?),
                DType::F16 => BiasInput::F16(bias(of, &shape, seed, device)?),
                _ => BiasInput::Bf16(bias(of, &shape, seed, device)?),
            })
        });
        let mask = mask.as_ref().map(|of| {
            let mut shown = Values::Uniform.draw(&broadcast(shape, of.broadcast), seed + 2);
            // A few rows see nothing at all.
            shown.mapv_inplace(|x| {
                if x > 0.3 {
                    0.0
                } else {
                    1.0 + (9.0 * x.abs()).floor()
                }
            });
            Operand::<u8>::lay_out(device, shown, of.view)
        });
        let alibi = alibi.map(|of_batch| {
            let shape = if of_batch { &shape[..2] } else { &shape[1..2] };
            let mut slopes = Values::Uniform.draw(shape, seed + 3);
            slopes.mapv_inplace(|x| f64::from((x.abs() / 8.0) as f32));
            Operand::<f32>::lay_out(device, slopes, View::Sliced)
        });
        Ok(Self {
            bias: of_bias.transpose()?,
            mask: mask.transpose()?,
            alibi: alibi.transpose()?,
            function: function.map(|function| (function, function.of_the_library())),
            blocks: blocks.transpose()?,
            dropout: dropout.map(|p| reference::Dropout {
                p,
                seed: seed << 32 | 77,
                offset: 3,
            }),
        })
    }

    pub(crate) fn options(&self) -> reference::ScoreOptions {
        reference::ScoreOptions {
            function: self.function.as_ref().map(|(of, _)| of.of_the_reference()),
            bias: self
                .bias
                .as_ref()
                .map(|bias| each!(bias, of => of.values.clone())),
            alibi: self.alibi.as_ref().map(|of| of.values.clone()),
            mask: self.shown(),
            dropout: self.dropout,
        }
    }

    /// The pairs that all masks show.
    fn shown(&self) -> Option<ArrayD<bool>> {
        let mask = self.mask.as_ref().map(|of| of.values.mapv(|x| x != 0.0));
        let blocks = self.blocks.as_ref().map(|(_, shown)| shown.clone());
        match (mask, blocks) {
            (Some(mask), Some(blocks)) => {
                let shape: Vec<usize> = (mask.shape().iter().zip(blocks.shape()))
                    .map(|(&x, &y)| if x == 1 { y } else { x })
                    .collect();
                let [mask, blocks] = [mask, blocks]
                    .map(|x| x.broadcast(&shape[..]).expect("they broadcast").to_owned());
                Some(&mask & &blocks)
            }
            (mask, blocks) => mask.or(blocks),
        }
    }

    pub(crate) fn blocks(&self) -> Option<&BlockMask> {
        self.blocks.as_ref().map(|(mask, _)| mask)
    }

    pub(crate) fn expect_unchanged(&self) -> Checked {
        if let Some(bias) = &self.bias {
            each!(bias, of => of.expect_unchanged())?;
        }
        if let Some(mask) = &self.mask {
            mask.expect_unchanged()?;
        }
        self.alibi
            .as_ref()
            .map_or(Ok(()), Operand::expect_unchanged)
    }

    pub(crate) fn bias(&self) -> Option<warpsmith::AttentionBias<'_>> {
        let bias = self.bias.as_ref()?;
        Some(each!(bias, of => (&of.tensor).into()))
    }

    pub(crate) fn bias_shape(&self) -> Option<Vec<usize>> {
        let bias = self.bias.as_ref()?;
        Some(each!(bias, of => of.tensor.shape().to_vec()))
    }

    pub(crate) fn mask(&self) -> Option<&warpsmith::Tensor<u8>> {
        self.mask.as_ref().map(|of| &of.tensor)
    }

    pub(crate) fn alibi(&self) -> Option<&warpsmith::Tensor<f32>> {
        self.alibi.as_ref().map(|of| &of.tensor)
    }

    pub(crate) fn dropout(&self) -> Option<reference::Dropout> {
        self.dropout
    }

    pub(crate) fn function(&self) -> Option<&ScoreFunction> {
        self.function.as_ref().map(|(_, function)| function)
    }
}

/// An attention or its gradients with these inputs.
macro_rules! with_scores {
    ($operation:expr, $scores:expr) => {{
        let scores: &crate::attention::scores::ScoreInputs = &$scores;
        let mut operation = $operation;
        if let Some(bias) = scores.bias() {
            operation = operation.bias(bias);
        }
        if let Some(mask) = scores.mask() {
            operation = operation.mask(mask);
        }
        if let Some(slopes) = scores.alibi() {
            operation = operation.alibi(slopes);
        }
        if let Some(blocks) = scores.blocks() {
            operation = operation.block_mask(blocks);
        }
        if let Some(dropout) = scores.dropout() {
            operation = operation.dropout(dropout.p, dropout.seed, dropout.offset);
        }
        match scores.function() {
            Some(function) => operation.score(function),
            None => operation,
        }
    }};
}
pub(crate) use with_scores;

/// All combinations.
pub(crate) fn any() -> impl Strategy<Value = Scores> {
    let broadcast = || prop::array::uniform4(prop::bool::weighted(0.4));
    let dtype = prop::sample::select(vec![DType::F32, DType::F16, DType::Bf16]);
    let bias = (dtype, broadcast(), View::writable(), any_bool()).prop_map(
        |(dtype, broadcast, view, hides)| Bias {
            dtype,
            broadcast,
            view,
            hides,
        },
    );
    let mask =
        (broadcast(), View::writable()).prop_map(|(broadcast, view)| Mask { broadcast, view });
    let function = prop::sample::select(vec![Function::Tanh, Function::Sigmoid]);
    (
        prop::option::weighted(0.6, bias),
        prop::option::weighted(0.4, mask),
        prop::option::weighted(0.3, any_bool()),
        prop::option::weighted(0.3, function),
    )
        .prop_map(|(bias, mask, alibi, function)| Scores {
            bias,
            mask,
            alibi,
            function,
            blocks: None,
            dropout: None,
        })
}

/// Dropout, with any of the others.
pub(crate) fn dropped(scores: Scores) -> impl Strategy<Value = Scores> {
    let p = prop::sample::select(vec![0.0_f32, 0.1, 0.5, 0.875, 0.97]);
    p.prop_map(move |p| Scores {
        dropout: Some(p),
        ..scores.clone()
    })
}

fn any_bool() -> impl Strategy<Value = bool> {
    proptest::bool::ANY
}

#[test]
fn attention_matches_its_reference_for_biases_masks_and_functions() {
    holds(
        Effort {
            cases: [40, 400],
            largest: [80, 400],
        },
        case::scored,
        check,
    );
}

#[test]
fn attention_matches_its_reference_for_biases_masks_and_functions_of_paged_keys() {
    holds(
        Effort {
            cases: [12, 100],
            largest: [80, 400],
        },
        case::scored_and_paged,
        check,
    );
}
