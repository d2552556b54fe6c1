//! Elementwise operations, which are bound by memory.

use std::any::type_name;

use half::{bf16, f16};
use serde_json::json;
use warpsmith::{
    Binary, BinaryOp, CastElement, Chain, ChainElement, E4m3, Float, Stream, Tensor, Unary, UnaryOp,
};

use super::{Case, Operation, OperationOptions, Prepare, Prepared, Set, Work};
use crate::error::Result;
use crate::inputs::{Sample, normal_copies, unwritten_copies};
use crate::results::Unit;

/// Sums and functions of elements, casts, chains of functions, transpositions.
pub static ELEMENTWISE: Operation = Operation {
    name: "elementwise",
    sets: &[
        Set::new(
            "functions",
            "functions of one and two elements, 2^27 elements",
        ),
        Set::new("casts", "between dtypes, 2^27 elements"),
        Set::new("chains", "eight functions, 2^27 elements"),
        Set::new("permutations", "transposed matrices, exchanged dimensions"),
        Set::new(
            "random",
            "permutations of 2 or 3 dimensions of random extents, 64 to 512 MiB",
        ),
        Set::new("small", "1 kB to 1 MB"),
        Set::new("small_graphs", "the same, replayed as CUDA graphs")
            .reaching(Some(1.0 / 1.1), None)
            .in_graphs(),
        Set::new("tiny", "for the emulator"),
    ],
    unit: Unit::Bytes,
    cases,
};

fn cases(set: &Set, options: &OperationOptions) -> Vec<Case> {
    const LEN: usize = 1 << 27;
    match set.name {
        "casts" => vec![
            cast::<f32, bf16>(LEN),
            cast::<bf16, f32>(LEN),
            cast::<f32, f16>(LEN),
            cast::<bf16, E4m3>(LEN),
            cast::<E4m3, bf16>(LEN),
        ],
        "chains" => vec![chain::<f32>(LEN), chain::<bf16>(LEN), chain::<f16>(LEN)],
        "permutations" => vec![
            permutation::<f32>(&[16384, 16384], &[1, 0]),
            permutation::<bf16>(&[16384, 16384], &[1, 0]),
            permutation::<f32>(&[10000, 10008], &[1, 0]),
            permutation::<bf16>(&[64, 2048, 2048], &[0, 2, 1]),
            permutation::<bf16>(&[32, 4096, 16, 128], &[0, 2, 1, 3]),
            permutation::<f32>(&[512, 256, 512], &[2, 1, 0]),
        ],
        "random" => options.random(|extents| {
            let len = extents.extent((1 << 25) as f64, (1 << 27) as f64, 1);
            let a = extents.extent(16.0, 1024.0, 1);
            let orders: [&[isize]; 5] = [&[1, 0], &[0, 2, 1], &[1, 0, 2], &[2, 1, 0], &[2, 0, 1]];
            let axes = extents.one_of(&orders);
            let b = extents.extent(16.0, (len / a / 16).max(17) as f64, 1);
            let shape = [a, b, (len / a / b).max(1)];
            let shape = match axes.len() {
                2 => &[a * 16, (len / a / 16).max(1)],
                _ => &shape[..],
            };
            match extents.one_of(&[2, 4]) {
                2 => permutation::<bf16>(shape, axes),
                _ => permutation::<f32>(shape, axes),
            }
        }),
        "small" | "small_graphs" => [256, 4096, 65536, 262_144]
            .into_iter()
            .flat_map(|len| [unary::<f32>(UnaryOp::Relu, len), add::<f32>(len)])
            .collect(),
        "tiny" => vec![
            add::<f32>(1 << 12),
            unary::<f32>(UnaryOp::Exp, 1 << 12),
            cast::<f32, bf16>(1 << 12),
            chain::<f32>(1 << 12),
            permutation::<f32>(&[64, 96], &[1, 0]),
        ],
        _ => {
            let mut cases = vec![add::<f32>(LEN), add::<bf16>(LEN)];
            for op in [
                UnaryOp::Relu,
                UnaryOp::Exp,
                UnaryOp::Silu,
                UnaryOp::Sigmoid,
                UnaryOp::Tanh,
                UnaryOp::Gelu,
            ] {
                cases.extend([unary::<f32>(op, LEN), unary::<bf16>(op, LEN)]);
            }
            cases
        }
    }
}

/// One rounding of the result, plus the error of approximations of exp and tanh.
fn difference_allowed<T: Sample>() -> f64 {
    match size_of::<T>() {
        4 => 1e-6,
        _ if type_name::<T>() == type_name::<f16>() => 2.0_f64.powi(-10),
        _ => 2.0_f64.powi(-7),
    }
}

fn add<T: Float + Sample>(len: usize) -> Case {
    let prepare = move |stream: &Stream, copies| -> Result<Prepared> {
        let a = normal_copies::<T>(stream, &[len], 1, copies)?;
        let b = normal_copies::<T>(stream, &[len], 2, copies)?;
        let y = unwritten_copies::<T>(stream, &[len], copies)?;
        let mut prepared = Prepared::new();
        prepared.operand("a", &a);
        prepared.operand("b", &b);
        prepared.answer("y", &y[0], stream)?;
        let stream = stream.clone();
        prepared.ours(None, move |copy| {
            Ok(Binary::new(BinaryOp::Add, &a[copy], &b[copy]).run_into(&y[copy], &stream)?)
        });
        Ok(prepared)
    };
    Case {
        name: format!("elementwise/{}/add/n{len}", T::DTYPE),
        work: Work {
            bytes: (3 * len * size_of::<T>()) as f64,
            ..Work::default()
        },
        description: json!({ "op": "add" }),
        difference_allowed: difference_allowed::<T>(),
        prepare: Box::new(prepare),
    }
}

fn unary<T: Float + Sample>(op: UnaryOp, len: usize) -> Case {
    Case {
        name: format!("elementwise/{}/{}/n{len}", T::DTYPE, op.name()),
        work: Work {
            bytes: (2 * len * size_of::<T>()) as f64,
            exponentials: len as f64,
            ..Work::default()
        },
        description: json!({ "op": op.name() }),
        difference_allowed: difference_allowed::<T>(),
        prepare: one_to_one::<T, T>(len, move |x, y, stream| {
            Unary::new(op, x).run_into(y, stream)
        }),
    }
}

/// Prepares an operation that computes `len` elements from `len` elements.
fn one_to_one<T: Sample, U: Sample>(
    len: usize,
    run: impl Fn(&Tensor<T>, &Tensor<U>, &Stream) -> warpsmith::Result<()> + Copy + 'static,
) -> Prepare {
    Box::new(move |stream, copies| {
        let x = normal_copies::<T>(stream, &[len], 1, copies)?;
        let y = unwritten_copies::<U>(stream, &[len], copies)?;
        let mut prepared = Prepared::new();
        prepared.operand("x", &x);
        prepared.answer("y", &y[0], stream)?;
        let stream = stream.clone();
        prepared.ours(None, move |copy| Ok(run(&x[copy], &y[copy], &stream)?));
        Ok(prepared)
    })
}

/// What a cast is off by: nothing, but a peer may saturate where ours does, or not.
fn cast<T: CastElement + ChainElement + Sample, U: ChainElement + Sample>(len: usize) -> Case {
    Case {
        name: format!("elementwise/{}_{}/cast/n{len}", T::DTYPE, U::DTYPE),
        work: Work {
            bytes: (len * (size_of::<T>() + size_of::<U>())) as f64,
            ..Work::default()
        },
        description: json!({ "op": "cast", "to": U::DTYPE.name() }),
        difference_allowed: 0.0,
        prepare: one_to_one::<T, U>(len, |x, y, stream| {
            Chain::new(x).output().run_into(y, stream)
        }),
    }
}

/// min(max(√(silu(0.7 x + 0.1)² + 1), 0.2), 3).
fn chain<T: Float + Sample>(len: usize) -> Case {
    let run = |x: &Tensor<T>, y: &Tensor<T>, stream: &Stream| {
        let chain = Chain::new(x)
            .scalar(BinaryOp::Mul, 0.7)
            .scalar(BinaryOp::Add, 0.1)
            .unary(UnaryOp::Silu)
            .unary(UnaryOp::Square)
            .scalar(BinaryOp::Add, 1.0)
            .unary(UnaryOp::Sqrt)
            .clamp(0.2, 3.0);
        chain.run_into(y, stream)
    };
    Case {
        name: format!("elementwise/{}/chain8/n{len}", T::DTYPE),
        work: Work {
            bytes: (2 * len * size_of::<T>()) as f64,
            ..Work::default()
        },
        description: json!({ "op": "chain8" }),
        // Peers that round to 16 bits between the functions have an error of a few such roundings.
        difference_allowed: 8.0 * difference_allowed::<T>(),
        prepare: one_to_one(len, run),
    }
}

/// The numbers as a part of a case's name.
fn words<N: ToString>(numbers: &[N]) -> String {
    let words: Vec<String> = numbers.iter().map(N::to_string).collect();
    words.join("x")
}

fn permutation<T: Sample>(shape: &[usize], axes: &'static [isize]) -> Case {
    let len: usize = shape.iter().product();
    let name = format!(
        "elementwise/{}/permute_{}/{}",
        T::DTYPE,
        words(axes),
        words(shape)
    );
    let shape = shape.to_vec();
    let prepare = move |stream: &Stream, copies| -> Result<Prepared> {
        let x = normal_copies::<T>(stream, &shape, 1, copies)?;
        let to: Vec<usize> = axes.iter().map(|&axis| shape[axis as usize]).collect();
        let y = unwritten_copies::<T>(stream, &to, copies)?;
        let mut prepared = Prepared::new();
        prepared.operand("x", &x);
        prepared.answer("y", &y[0], stream)?;
        let stream = stream.clone();
        prepared.ours(None, move |copy| {
            Ok(y[copy].assign(&x[copy].permute(axes)?, &stream)?)
        });
        Ok(prepared)
    };
    Case {
        name,
        work: Work {
            bytes: (2 * len * size_of::<T>()) as f64,
            ..Work::default()
        },
        description: json!({ "op": "permute", "axes": axes }),
        difference_allowed: 0.0,
        prepare: Box::new(prepare),
    }
}
