//! Row operations: softmax, norms, cross-entropy and their gradients. They are bound by memory.

use half::bf16;
use serde_json::json;
use warpsmith::{
    CrossEntropy, LayerNorm, LayerNormGrad, LossAndGradient, NormGradients, Normalized, Reduction,
    RmsNorm, RmsNormGrad, Softmax, SoftmaxGrad, Stream, Tensor,
};

use super::{Case, Operation, OperationOptions, Prepared, Set, Work};
use crate::error::Result;
use crate::inputs::{normal_copies, unwritten_copies};
use crate::results::Unit;

/// Softmax, norms, cross-entropy and gradients of rows.
pub static ROWS: Operation = Operation {
    name: "rows",
    sets: &[
        Set::new("softmax", "bf16, 512 MiB in rows of 256 to 262144").reaching(Some(1.05), None),
        Set::new("norm", "layer norm and RMS norm, likewise").reaching(Some(1.05), None),
        Set::new(
            "residual",
            "norms of the sum with a residual, which is kept, rows of 1024 to 16384",
        )
        .reaching(Some(1.05), None),
        Set::new(
            "lengths",
            "softmax, its gradient and norms of 320 to 20480, none of them powers of two",
        )
        .reaching(Some(1.0), None),
        Set::new(
            "odd",
            "softmax, its gradient, norms and cross-entropy of lengths that are no whole vectors",
        )
        .reaching(Some(1.0), None),
        Set::new(
            "random",
            "all of them, with random lengths of 64 to 200,000",
        )
        .reaching(Some(1.0), None),
        Set::new("grad", "gradients of softmax, layer norm and RMS norm")
            .reaching(Some(1.05), None),
        Set::new(
            "cross_entropy",
            "with its gradient, vocabularies of 32k to 256k",
        )
        .reaching(Some(1.05), None),
        Set::new(
            "medium",
            "all of them in tensors of 128 MiB, where a launch counts for 5 %",
        )
        .reaching(Some(1.05), None),
        Set::new("small", "what fits into L2: the time of a call"),
        Set::new("small_graphs", "the same, replayed as CUDA graphs")
            .reaching(Some(1.0 / 1.1), None)
            .in_graphs(),
        Set::new("tiny", "for the emulator"),
    ],
    unit: Unit::Bytes,
    cases,
};

/// Elements of the large cases: 512 MiB per tensor of 16-bit elements. At a quarter of that, a copy
/// itself reaches only 0.935 of the copy bandwidth.
const LARGE: usize = 1 << 28;
/// Elements of the medium cases: still larger than any L2.
const MEDIUM: usize = 1 << 26;

/// Row lengths.
const LENGTHS: [usize; 11] = [
    256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144,
];

/// Row lengths that are not powers of two: widths of models.
const OTHER_LENGTHS: [usize; 13] = [
    320, 640, 768, 1280, 1536, 2560, 3072, 3584, 5120, 6144, 7168, 12_288, 20_480,
];

/// Row lengths that are not whole vectors of 16 bytes.
const ODD_LENGTHS: [usize; 11] = [
    333, 767, 1001, 2047, 4099, 8191, 12_289, 16_411, 32_771, 50_257, 100_003,
];

/// Row lengths of norms with a residual.
const RESIDUAL_LENGTHS: [usize; 8] = [1024, 2048, 2560, 4096, 5120, 8192, 12_288, 16_384];

/// Vocabulary sizes.
const VOCABULARIES: [usize; 4] = [32_000, 32_768, 128_256, 256_000];

/// Vocabulary sizes that are not whole vectors; the first is that of GPT-2.
const ODD_VOCABULARIES: [usize; 3] = [50_257, 32_001, 151_937];

/// Half an ulp of bf16 near 1, plus the error of approximations and of a different order of
/// summation.
const DIFFERENCE: f64 = 1e-2;

/// The operations.
#[derive(Clone, Copy, Debug)]
enum Op {
    Softmax,
    LayerNorm,
    RmsNorm,
    LayerNormResidual,
    RmsNormResidual,
    SoftmaxGrad,
    LayerNormGrad,
    RmsNormGrad,
    CrossEntropy,
}

impl Op {
    const ALL: [Self; 9] = [
        Self::Softmax,
        Self::LayerNorm,
        Self::RmsNorm,
        Self::LayerNormResidual,
        Self::RmsNormResidual,
        Self::SoftmaxGrad,
        Self::LayerNormGrad,
        Self::RmsNormGrad,
        Self::CrossEntropy,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Softmax => "softmax",
            Self::LayerNorm => "layer_norm",
            Self::RmsNorm => "rms_norm",
            Self::LayerNormResidual => "layer_norm_residual",
            Self::RmsNormResidual => "rms_norm_residual",
            Self::SoftmaxGrad => "softmax_grad",
            Self::LayerNormGrad => "layer_norm_grad",
            Self::RmsNormGrad => "rms_norm_grad",
            Self::CrossEntropy => "cross_entropy",
        }
    }

    /// The number of tensors of full rows that are read or written.
    const fn tensors(self) -> usize {
        match self {
            Self::Softmax | Self::LayerNorm | Self::RmsNorm | Self::CrossEntropy => 2,
            Self::SoftmaxGrad | Self::LayerNormGrad | Self::RmsNormGrad => 3,
            Self::LayerNormResidual | Self::RmsNormResidual => 4,
        }
    }
}

fn cases(set: &Set, options: &OperationOptions) -> Vec<Case> {
    let lengths = |op| match (op, set.name) {
        (Op::CrossEntropy, "odd") => &ODD_VOCABULARIES[..],
        (Op::CrossEntropy, _) => &VOCABULARIES,
        (Op::LayerNormResidual | Op::RmsNormResidual, _) => &RESIDUAL_LENGTHS,
        (_, "lengths") => &OTHER_LENGTHS,
        (_, "odd") => &ODD_LENGTHS,
        _ => &LENGTHS,
    };
    let sized = |elements: usize, ops: &[Op]| {
        let of_op = |&op: &Op| {
            let lengths = lengths(op).iter();
            lengths.map(move |&n| case(op, [elements / n, n]))
        };
        ops.iter().flat_map(of_op).collect()
    };
    match set.name {
        "norm" => sized(LARGE, &[Op::LayerNorm, Op::RmsNorm]),
        "grad" => sized(
            LARGE,
            &[Op::SoftmaxGrad, Op::LayerNormGrad, Op::RmsNormGrad],
        ),
        "residual" => sized(LARGE, &[Op::LayerNormResidual, Op::RmsNormResidual]),
        "lengths" => sized(
            LARGE,
            &[Op::Softmax, Op::LayerNorm, Op::RmsNorm, Op::SoftmaxGrad],
        ),
        "odd" => sized(
            LARGE,
            &[
                Op::Softmax,
                Op::LayerNorm,
                Op::RmsNorm,
                Op::SoftmaxGrad,
                Op::CrossEntropy,
            ],
        ),
        "random" => options.random(|extents| {
            let (op, n) = (extents.one_of(&Op::ALL), extents.extent(64.0, 2e5, 1));
            case(op, [LARGE / n, n])
        }),
        "cross_entropy" => sized(LARGE, &[Op::CrossEntropy]),
        "medium" => sized(MEDIUM, &Op::ALL),
        "small" | "small_graphs" => [[1, 512], [8, 512], [64, 1024], [256, 2048]]
            .into_iter()
            .flat_map(|shape| [case(Op::Softmax, shape), case(Op::LayerNorm, shape)])
            .collect(),
        "tiny" => Op::ALL.map(|op| case(op, [4, 96])).into(),
        _ => sized(LARGE, &[Op::Softmax]),
    }
}

fn case(op: Op, shape: [usize; 2]) -> Case {
    let [rows, columns] = shape;
    let prepare = move |stream: &Stream, copies| -> Result<Prepared> {
        match op {
            Op::Softmax => softmax(stream, shape, copies),
            Op::LayerNorm | Op::RmsNorm => norm(op, stream, shape, copies),
            Op::LayerNormResidual | Op::RmsNormResidual => residual(op, stream, shape, copies),
            Op::SoftmaxGrad => softmax_grad(stream, shape, copies),
            Op::LayerNormGrad | Op::RmsNormGrad => norm_grad(op, stream, shape, copies),
            Op::CrossEntropy => cross_entropy(stream, shape, copies),
        }
    };
    Case {
        name: format!("rows/bf16/{}/{rows}x{columns}", op.name()),
        work: Work {
            bytes: (2 * op.tensors() * rows * columns) as f64,
            exponentials: match op {
                Op::Softmax | Op::CrossEntropy => (rows * columns) as f64,
                _ => 0.0,
            },
            ..Work::default()
        },
        description: json!({ "op": op.name() }),
        difference_allowed: DIFFERENCE,
        prepare: Box::new(prepare),
    }
}

fn softmax(stream: &Stream, shape: [usize; 2], copies: usize) -> Result<Prepared> {
    let x = normal_copies::<bf16>(stream, &shape, 1, copies)?;
    let y = unwritten_copies::<bf16>(stream, &shape, copies)?;
    let mut prepared = Prepared::new();
    prepared.operand("x", &x);
    prepared.answer("y", &y[0], stream)?;
    let stream = stream.clone();
    prepared.ours(None, move |copy| {
        Ok(Softmax::new(&x[copy]).run_into(&y[copy], &stream)?)
    });
    Ok(prepared)
}

fn norm(op: Op, stream: &Stream, shape: [usize; 2], copies: usize) -> Result<Prepared> {
    let x = normal_copies::<bf16>(stream, &shape, 1, copies)?;
    let y = unwritten_copies::<bf16>(stream, &shape, copies)?;
    let weight = normal_copies::<bf16>(stream, &shape[1..], 2, 1)?;
    let bias = normal_copies::<bf16>(stream, &shape[1..], 3, 1)?;
    let mut prepared = Prepared::new();
    prepared.operand("x", &x);
    prepared.operand("weight", &weight);
    prepared.operand("bias", &bias);
    prepared.answer("y", &y[0], stream)?;
    let stream = stream.clone();
    prepared.ours(None, move |copy| {
        let (x, y) = (&x[copy], &y[copy]);
        match op {
            Op::RmsNorm => RmsNorm::new(x).weight(&weight[0]).run_into(y, &stream)?,
            _ => LayerNorm::new(x)
                .weight(&weight[0])
                .bias(&bias[0])
                .run_into(y, &stream)?,
        }
        Ok(())
    });
    Ok(prepared)
}

fn residual(op: Op, stream: &Stream, shape: [usize; 2], copies: usize) -> Result<Prepared> {
    let x = normal_copies::<bf16>(stream, &shape, 1, copies)?;
    let residual = normal_copies::<bf16>(stream, &shape, 4, copies)?;
    let y = unwritten_copies::<bf16>(stream, &shape, copies)?;
    let sum = unwritten_copies::<bf16>(stream, &shape, copies)?;
    let weight = normal_copies::<bf16>(stream, &shape[1..], 2, 1)?;
    let bias = normal_copies::<bf16>(stream, &shape[1..], 3, 1)?;
    let mut prepared = Prepared::new();
    prepared.operand("x", &x);
    prepared.operand("residual", &residual);
    prepared.operand("weight", &weight);
    prepared.operand("bias", &bias);
    prepared.answer("y", &y[0], stream)?;
    prepared.answer("sum", &sum[0], stream)?;
    let stream = stream.clone();
    prepared.ours(None, move |copy| {
        let out = Normalized {
            y: y[copy].clone(),
            sum: Some(sum[copy].clone()),
            mean: None,
            rstd: None,
        };
        let (x, residual) = (&x[copy], &residual[copy]);
        match op {
            Op::RmsNormResidual => RmsNorm::new(x)
                .weight(&weight[0])
                .residual(residual)
                .stats()
                .run_into(&out, &stream)?,
            _ => LayerNorm::new(x)
                .weight(&weight[0])
                .bias(&bias[0])
                .residual(residual)
                .stats()
                .run_into(&out, &stream)?,
        }
        Ok(())
    });
    Ok(prepared)
}

fn softmax_grad(stream: &Stream, shape: [usize; 2], copies: usize) -> Result<Prepared> {
    let x = normal_copies::<bf16>(stream, &shape, 1, copies)?;
    let dy = normal_copies::<bf16>(stream, &shape, 2, copies)?;
    let dx = unwritten_copies::<bf16>(stream, &shape, copies)?;
    for x in &x {
        Softmax::new(x).run_into(x, stream)?;
    }
    let mut prepared = Prepared::new();
    prepared.operand("y", &x);
    prepared.operand("dy", &dy);
    prepared.answer("dx", &dx[0], stream)?;
    let stream = stream.clone();
    prepared.ours(None, move |copy| {
        Ok(SoftmaxGrad::new(&x[copy], &dy[copy]).run_into(&dx[copy], &stream)?)
    });
    Ok(prepared)
}

fn norm_grad(op: Op, stream: &Stream, shape: [usize; 2], copies: usize) -> Result<Prepared> {
    let x = normal_copies::<bf16>(stream, &shape, 1, copies)?;
    let dy = normal_copies::<bf16>(stream, &shape, 2, copies)?;
    let dx = unwritten_copies::<bf16>(stream, &shape, copies)?;
    let weight = normal_copies::<bf16>(stream, &shape[1..], 3, 1)?;
    let is_rms = matches!(op, Op::RmsNormGrad);
    let mean = Tensor::<f32>::empty(stream, &shape[..1])?;
    let rstd = Tensor::<f32>::empty(stream, &shape[..1])?;
    let kept = Normalized {
        y: dx[0].clone(),
        sum: None,
        mean: (!is_rms).then(|| mean.clone()),
        rstd: Some(rstd.clone()),
    };
    // All copies hold the same rows.
    if is_rms {
        RmsNorm::new(&x[0]).stats().run_into(&kept, stream)?;
    } else {
        LayerNorm::new(&x[0]).stats().run_into(&kept, stream)?;
    }
    let dweight = Tensor::<f32>::empty(stream, &shape[1..])?;
    let dbias = Tensor::<f32>::empty(stream, &shape[1..])?;
    let mut prepared = Prepared::new();
    prepared.operand("x", &x);
    prepared.operand("dy", &dy);
    prepared.operand("weight", &weight);
    if !is_rms {
        prepared.operand("mean", std::slice::from_ref(&mean));
    }
    prepared.operand("rstd", std::slice::from_ref(&rstd));
    prepared.answer("dx", &dx[0], stream)?;
    let stream = stream.clone();
    prepared.ours(None, move |copy| {
        let out = NormGradients {
            dx: dx[copy].clone(),
            dweight: Some(dweight.clone()),
            dbias: (!is_rms).then(|| dbias.clone()),
        };
        let (x, dy, weight) = (&x[copy], &dy[copy], &weight[0]);
        if is_rms {
            let gradient = RmsNormGrad::new(x, &rstd, dy).weight(weight);
            return Ok(gradient.run_into(&out, &stream)?);
        }
        let gradient = LayerNormGrad::new(x, &mean, &rstd, dy).weight(weight);
        Ok(gradient.run_into(&out, &stream)?)
    });
    Ok(prepared)
}

fn cross_entropy(stream: &Stream, shape: [usize; 2], copies: usize) -> Result<Prepared> {
    let [rows, classes] = shape;
    let x = normal_copies::<bf16>(stream, &shape, 1, copies)?;
    let dx = unwritten_copies::<bf16>(stream, &shape, copies)?;
    let targets: Vec<i64> = (0..rows).map(|row| (row * 7919 % classes) as i64).collect();
    let targets = Tensor::from_slice(stream.device(), &[rows], &targets)?;
    let loss = Tensor::<f32>::empty(stream, &[rows])?;
    let mut prepared = Prepared::new();
    prepared.operand("x", &x);
    prepared.operand("targets", std::slice::from_ref(&targets));
    prepared.answer("loss", &loss, stream)?;
    prepared.answer("dx", &dx[0], stream)?;
    let stream = stream.clone();
    prepared.ours(None, move |copy| {
        let of = CrossEntropy::new(&x[copy], &targets).reduction(Reduction::None);
        let out = LossAndGradient {
            loss: loss.clone(),
            dlogits: dx[copy].clone(),
        };
        Ok(of.gradient().run_into(&out, &stream)?)
    });
    Ok(prepared)
}
