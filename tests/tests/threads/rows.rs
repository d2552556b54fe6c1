//! Operations on rows, reductions and scans, those in several launches or by several blocks too.

use super::calls::{Bits, Calls, bits};
use half::bf16;
use warpsmith::{
    Argsort, CrossEntropy, Float, LayerNorm, LayerNormGrad, LogSoftmax, LogSoftmaxGrad,
    NormGradients, Reduce, ReduceOp, Reducible, Reduction, Result, RmsNorm, RmsNormGrad, Scan,
    ScanOp, Softmax, SoftmaxGrad, Sort, TopK,
};
use warpsmith_tests::element::TestElement;

pub(crate) fn add(calls: &mut Calls) {
    // Rows of registers, of a warp, of a block, and of several blocks.
    for shape in [[60, 256], [3, 33], [4, 3000]] {
        softmax::<f32>(calls, shape);
        softmax::<bf16>(calls, shape);
        norms::<f32>(calls, shape);
        norms::<bf16>(calls, shape);
        cross_entropy::<bf16>(calls, shape);
    }
    cross_entropy::<f32>(calls, [17_000, 2]); // so many rows that totals have parts
    for shape in [[1, 60_000], [2, 20_000], [20, 300]] {
        top_k(calls, shape);
    }
    sort::<f32>(calls, [2, 5000]); // two tiles
    sort::<i64>(calls, [20, 300]);
    for shape in [[1, 40_000], [2, 20_000], [10_000, 2], [30, 40]] {
        reduce(calls, shape);
    }
    scan::<f32>(calls, [1, 20_000]);
    scan::<i64>(calls, [2, 5_000]);
    scan::<bf16>(calls, [50, 30]);
}

fn softmax<T: TestElement + Float>(calls: &mut Calls, shape: [usize; 2]) {
    let of = format!("{} {shape:?}", T::DTYPE);
    let (x, dy) = (calls.numbers::<T>(&shape), calls.numbers::<T>(&shape));
    calls.add(format!("softmax and its gradient, {of}"), move |stream| {
        let y = Softmax::new(&x).run(stream)?;
        let log_y = LogSoftmax::new(&x).run(stream)?;
        let dx = SoftmaxGrad::new(&y, &dy).run(stream)?;
        let dx_of_log = LogSoftmaxGrad::new(&log_y, &dy).run(stream)?;
        Ok([bits(&y)?, bits(&log_y)?, bits(&dx)?, bits(&dx_of_log)?].concat())
    });
}

fn gradients<T: TestElement + Float>(grads: &NormGradients<T>) -> Result<Bits> {
    let mut all = bits(&grads.dx)?;
    for sums in [&grads.dweight, &grads.dbias].into_iter().flatten() {
        all.extend(bits(sums)?);
    }
    Ok(all)
}

fn norms<T: TestElement + Float>(calls: &mut Calls, shape: [usize; 2]) {
    let of = format!("{} {shape:?}", T::DTYPE);
    let (x, dy) = (calls.numbers::<T>(&shape), calls.numbers::<T>(&shape));
    let (weight, rows) = (calls.numbers::<T>(&shape[1..]), &shape[..1]);
    let (mean, rstd) = (calls.numbers::<f32>(rows), calls.numbers::<f32>(rows));
    let forward = (x.clone(), weight.clone());
    calls.add(format!("norms, {of}"), move |stream| {
        let (x, weight) = &forward;
        let rms = RmsNorm::new(x).weight(weight).run(stream)?;
        let layer = LayerNorm::new(x).weight(weight).bias(weight).residual(x);
        let layer = layer.stats().run(stream)?;
        Ok([bits(&rms)?, bits(&layer.y)?].concat())
    });
    calls.add(format!("gradients of norms, {of}"), move |stream| {
        let rms = RmsNormGrad::new(&x, &rstd, &dy)
            .weight(&weight)
            .run(stream)?;
        let layer = LayerNormGrad::new(&x, &mean, &rstd, &dy)
            .weight(&weight)
            .bias_gradient();
        let layer = layer.run(stream)?;
        Ok([gradients(&rms)?, gradients(&layer)?].concat())
    });
}

fn cross_entropy<T: TestElement + Float>(calls: &mut Calls, shape: [usize; 2]) {
    let logits = calls.numbers::<T>(&shape);
    let targets = calls.below::<i64>(shape[1] as u32, &shape[..1]);
    let weights = calls.numbers::<f32>(&shape[1..]);
    for reduction in [Reduction::Mean, Reduction::Sum, Reduction::None] {
        let name = format!("CrossEntropy, {} {shape:?} {reduction:?}", T::DTYPE);
        let (logits, targets, weights) = (logits.clone(), targets.clone(), weights.clone());
        calls.add(name, move |stream| {
            let call = CrossEntropy::new(&logits, &targets).reduction(reduction);
            let out = call.class_weights(&weights).gradient().run(stream)?;
            Ok([bits(&out.loss)?, bits(&out.dlogits)?].concat())
        });
    }
}

fn top_k(calls: &mut Calls, shape: [usize; 2]) {
    for k in [4, 30] {
        let x = calls.numbers::<f32>(&shape);
        calls.add(format!("TopK of {shape:?}, {k}"), move |stream| {
            let most = TopK::new(&x, k).run(stream)?;
            let least = TopK::new(&x, k).smallest().run(stream)?;
            Ok([
                bits(&most.values)?,
                bits(&most.indices)?,
                bits(&least.values)?,
            ]
            .concat())
        });
    }
}

fn sort<T: TestElement>(calls: &mut Calls, shape: [usize; 2]) {
    let x = calls.numbers::<T>(&shape);
    calls.add(format!("Sort of {} {shape:?}", T::DTYPE), move |stream| {
        let out = Sort::new(&x).indices().run(stream)?;
        let order = Argsort::new(&x).axis(0).descending().run(stream)?;
        Ok([bits(&out.values)?, bits(&out.indices)?, bits(&order)?].concat())
    });
}

fn reduce(calls: &mut Calls, shape: [usize; 2]) {
    let x = calls.numbers::<f32>(&shape);
    for op in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Std] {
        let x = x.clone();
        calls.add(format!("Reduce of {shape:?}: {op:?}"), move |stream| {
            let by_axis = |axis| Reduce::new(op, &x).axis(axis).run(stream);
            let all = Reduce::new(op, &x).run(stream)?;
            Ok([bits(&by_axis(0)?)?, bits(&by_axis(1)?)?, bits(&all)?].concat())
        });
    }
    let narrow = calls.numbers::<i8>(&shape);
    calls.add(format!("Reduce of {shape:?}: others"), move |stream| {
        let spread = Reduce::new(ReduceOp::Variance, &x).mean().run(stream)?;
        let dot = Reduce::dot(&x, &x).run(stream)?;
        let sum = Reduce::new(ReduceOp::Sum, &x).output::<f64>().run(stream)?;
        let last = Reduce::new(ReduceOp::Argmax, &x)
            .output::<i64>()
            .run(stream)?;
        let count = Reduce::new(ReduceOp::CountNonzero, &narrow)
            .output::<i64>()
            .run(stream)?;
        let floats = [
            bits(&spread.value)?,
            bits(&spread.mean)?,
            bits(&dot)?,
            bits(&sum)?,
        ];
        Ok([floats.concat(), bits(&last)?, bits(&count)?].concat())
    });
}

fn scan<T: TestElement + Reducible>(calls: &mut Calls, shape: [usize; 2]) {
    let x = calls.numbers::<T>(&shape);
    for op in [ScanOp::Sum, ScanOp::Max] {
        let x = x.clone();
        calls.add(
            format!("Scan of {} {shape:?}: {op:?}", T::DTYPE),
            move |stream| {
                let y = Scan::new(op, &x).run(stream)?;
                let of_columns = Scan::new(op, &x).axis(0).exclusive().run(stream)?;
                Ok([bits(&y)?, bits(&of_columns)?].concat())
            },
        );
    }
}
