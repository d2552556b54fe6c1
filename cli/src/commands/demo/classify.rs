//! The computation: normalisation of the images, attention, and the same with GEMM and softmax.

use anyhow::{Result, ensure};
use ndarray::{Array2, Array4, ArrayD};
use warpsmith::reference::{self, Expected, attention::AttentionOptions, gemm::GemmOptions};
use warpsmith::{
    Attention, Binary, BinaryOp, DType, Gemm, Reduce, ReduceOp, Softmax, Stream, Tensor, Unary,
    UnaryOp,
};

use super::digits::{CLASSES, Digits, PIXELS};
use super::table::Row;
use crate::commands::compute::{download_exact, timed};

/// Scale of the scores: a key whose cosine is 0.02 lower has 1 / e of the weight.
const SOFTMAX_SCALE: f32 = 50.0;

/// The results.
pub(super) struct Answers {
    /// The class of each query.
    pub(super) by_attention: Vec<usize>,
    /// Largest difference between the outputs of the two computations.
    pub(super) difference: f64,
    pub(super) rows: Vec<Row>,
}

/// Operands on the device.
struct Problem {
    /// `[queries, 64]`, rows of length 1.
    q: Tensor<f32>,
    /// `[keys, 64]`, rows of length 1.
    k: Tensor<f32>,
    /// `[keys, 10]`, one-hot.
    v: Tensor<f32>,
}

/// Classifies all images from `keys` on by those before.
pub(super) fn classify(digits: &Digits, keys: usize, stream: &Stream) -> Result<Answers> {
    let mut rows = Vec::new();
    let images = unit_rows(digits, stream, &mut rows)?;
    let mut v = Array2::zeros((keys, CLASSES));
    for (key, &label) in digits.labels[..keys].iter().enumerate() {
        v[[key, label]] = 1.0;
    }
    let problem = Problem {
        q: images.slice(0, keys..)?,
        k: images.slice(0, ..keys)?,
        v: Tensor::from_ndarray(stream.device(), &v)?,
    };
    let attended = problem.by_attention(stream, &mut rows)?;
    let multiplied = problem.by_gemm(stream, &mut rows)?;
    let by_attention = classes(&attended, stream)?;
    let by_gemm = classes(&multiplied, stream)?;
    ensure!(
        by_attention == by_gemm,
        "attention and GEMM, softmax, GEMM give different answers, which they must not"
    );
    let (attended, multiplied) = (download_exact(&attended)?, download_exact(&multiplied)?);
    let differences = attended
        .iter()
        .zip(&multiplied)
        .map(|(x, y)| f64::from((x - y).abs()));
    Ok(Answers {
        by_attention,
        difference: differences.fold(0.0, f64::max),
        rows,
    })
}

/// The images scaled to length 1, with four operations: squares, sums, square roots, quotients.
fn unit_rows(digits: &Digits, stream: &Stream, rows: &mut Vec<Row>) -> Result<Tensor<f32>> {
    let x = Tensor::from_ndarray(stream.device(), &digits.images)?;
    let squares = Unary::new(UnaryOp::Square, &x).run(stream)?;
    let reduce = Reduce::new(ReduceOp::Sum, &squares).axis(1).keep_dims();
    let (sums, elapsed) = timed("row sums", stream, || reduce.run(stream))?;
    let squares_read = wide(&squares)?;
    let want = reference::reduce::reduce(
        ReduceOp::Sum,
        &squares_read.view(),
        Some(&[1]),
        &reference::reduce::Options::default(),
        &reduce.model()?,
    )?;
    if let reference::reduce::Reduced::Values(want) = want {
        let got = download_exact(&sums.reshape(&[digits.labels.len()])?)?;
        rows.push(Row::judge(
            "row sums",
            format!("{:?}", x.shape()),
            elapsed,
            &got,
            &want,
        )?);
    }
    let lengths = Unary::new(UnaryOp::Sqrt, &sums).run(stream)?;
    let divide = Binary::new(BinaryOp::Div, &x, &lengths);
    let (unit, elapsed) = timed("division", stream, || divide.run(stream))?;
    let ulps = f64::from(BinaryOp::Div.ulps());
    let want = reference::elementwise::binary(
        &wide(&x)?.view(),
        &wide(&lengths)?.view(),
        DType::F32,
        ulps,
        |x, y| x / y,
    )?;
    let got = download_exact(&unit)?;
    rows.push(Row::judge(
        "division",
        format!("{:?}", x.shape()),
        elapsed,
        &got,
        &want,
    )?);
    Ok(unit)
}

impl Problem {
    /// With one kernel, attention.
    fn by_attention(&self, stream: &Stream, rows: &mut Vec<Row>) -> Result<Tensor<f32>> {
        let heads = |x: &Tensor<f32>| -> warpsmith::Result<Tensor<f32>> {
            x.reshape(&[1, x.shape()[0], 1, x.shape()[1]])
        };
        let (q, k, v) = (heads(&self.q)?, heads(&self.k)?, heads(&self.v)?);
        let attention = Attention::new(&q, &k, &v).softmax_scale(SOFTMAX_SCALE);
        let (o, elapsed) = timed("attention", stream, || attention.run(stream))?;
        let options = AttentionOptions {
            softmax_scale: Some(SOFTMAX_SCALE),
            ..AttentionOptions::new(DType::F32, attention.model(stream)?)
        };
        let (wide_q, wide_k, wide_v) = (wide4(&q)?, wide4(&k)?, wide4(&v)?);
        let want = reference::attention::attention(
            &wide_q.view(),
            &wide_k.view(),
            &wide_v.view(),
            &options,
        )?;
        let shape = format!("q {:?}, k {:?}", q.shape(), k.shape());
        rows.push(Row::judge(
            "attention",
            shape,
            elapsed,
            &download_exact(&o)?,
            &want.o,
        )?);
        Ok(o.reshape(&[self.q.shape()[0], CLASSES])?)
    }

    /// With three kernels: scores, probabilities, outputs.
    fn by_gemm(&self, stream: &Stream, rows: &mut Vec<Row>) -> Result<Tensor<f32>> {
        let k_transposed = self.k.t();
        let first = Gemm::new(&self.q, &k_transposed).alpha(SOFTMAX_SCALE);
        let (scores, elapsed) = timed("scores", stream, || first.run(stream))?;
        let want = product(&self.q, &k_transposed, SOFTMAX_SCALE)?;
        let shape = format!("{:?} @ {:?}", self.q.shape(), k_transposed.shape());
        rows.push(Row::judge(
            "gemm",
            shape,
            elapsed,
            &download_exact(&scores)?,
            &want,
        )?);

        let softmax = Softmax::new(&scores);
        let (probs, elapsed) = timed("softmax", stream, || softmax.run(stream))?;
        let model = softmax.model()?;
        let want = reference::softmax::softmax(&wide(&scores)?.view(), 1, DType::F32, &model)?;
        let shape = format!("{:?}", scores.shape());
        rows.push(Row::judge(
            "softmax",
            shape,
            elapsed,
            &download_exact(&probs)?,
            &want,
        )?);

        let second = Gemm::new(&probs, &self.v);
        let (o, elapsed) = timed("outputs", stream, || second.run(stream))?;
        let want = product(&probs, &self.v, 1.0)?;
        let shape = format!("{:?} @ {:?}", probs.shape(), self.v.shape());
        rows.push(Row::judge(
            "gemm",
            shape,
            elapsed,
            &download_exact(&o)?,
            &want,
        )?);
        Ok(o)
    }
}

fn product(a: &Tensor<f32>, b: &Tensor<f32>, alpha: f32) -> Result<Expected> {
    let options = GemmOptions {
        alpha,
        ..GemmOptions::default()
    };
    Ok(reference::gemm::gemm(
        &wide(a)?.view(),
        &wide(b)?.view(),
        None,
        &options,
    )?)
}

/// The class with the highest output, for every query.
fn classes(outputs: &Tensor<f32>, stream: &Stream) -> Result<Vec<usize>> {
    let (classes, _) = timed("argmax", stream, || {
        Reduce::new(ReduceOp::Argmax, outputs)
            .axis(1)
            .output::<i64>()
            .run(stream)
    })?;
    Ok(download_exact(&classes)?
        .iter()
        .map(|&class| class as usize)
        .collect())
}

/// A tensor's elements, for a reference.
fn wide(tensor: &Tensor<f32>) -> Result<ArrayD<f64>> {
    Ok(download_exact(tensor)?.mapv(f64::from))
}

fn wide4(tensor: &Tensor<f32>) -> Result<Array4<f64>> {
    Ok(wide(tensor)?.into_dimensionality()?)
}

const _: () = assert!(PIXELS <= 64, "head_dim of the kernel's smallest version");
