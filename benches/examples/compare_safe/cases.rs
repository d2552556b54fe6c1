//! The cases: sizes, operands and the launches of the safe kernels.

use std::ops::Range;

use serde_json::json;
use warpsmith::{Element, LaunchConfig, Stream, Tensor};
use warpsmith_benches::error::Result;
use warpsmith_benches::inputs::{Sample, normal_copies, unwritten_copies};
use warpsmith_benches::operations::{Case, Operation, OperationOptions, Prepared, Set, Work};
use warpsmith_benches::results::Unit;
use warpsmith_examples::kernels;

/// The six kernels.
pub(crate) static SAFE: Operation = Operation {
    name: "safe",
    sets: &[
        Set::new("large", "operands of 64 Mi elements or so").reaching(Some(0.98), None),
        Set::new("medium", "operands of 4 Mi elements or so").reaching(Some(0.98), None),
        Set::new("tiny", "for the emulator"),
    ],
    unit: Unit::Bytes,
    cases,
};

/// How large the operands of a set are.
struct Extents {
    len: usize,
    rows: usize,
    columns: usize,
    counters: usize,
    /// Blocks of kernels that loop over what there is.
    blocks: u32,
}

fn cases(set: &Set, _: &OperationOptions) -> Vec<Case> {
    let extents = match set.name {
        "tiny" => Extents {
            len: 1000,
            rows: 40,
            columns: 70,
            counters: 20,
            blocks: 3,
        },
        "medium" => Extents {
            len: 1 << 22,
            rows: 2048,
            columns: 2048,
            counters: 1024,
            blocks: 1056,
        },
        _ => Extents {
            len: 1 << 26,
            rows: 8192,
            columns: 8192,
            counters: 1024,
            blocks: 1056,
        },
    };
    vec![
        vector_add(&extents),
        stencil(&extents),
        transpose(&extents),
        softmax(&extents),
        histogram(&extents),
        segmented_sum(&extents),
    ]
}

/// A launch and what a twin has to know of it.
fn case(
    name: String,
    words: usize,
    config: LaunchConfig,
    prepare: impl Fn(&Stream, usize) -> Result<Prepared> + 'static,
) -> Case {
    Case {
        name,
        work: Work {
            bytes: 4.0 * words as f64,
            ..Work::default()
        },
        description: json!({ "grid": config.grid, "block": config.block }),
        // Both add in the same order.
        difference_allowed: 0.0,
        prepare: Box::new(prepare),
    }
}

fn vector_add(extents: &Extents) -> Case {
    let len = extents.len;
    let config = LaunchConfig::for_elements(len as u64, 256);
    case(
        format!("safe/f32/vector_add/n{len}"),
        3 * len,
        config,
        move |stream, copies| {
            let mut prepared = Prepared::new();
            let a = inputs::<f32>(&mut prepared, "a", stream, &[len], copies)?;
            let b = inputs::<f32>(&mut prepared, "b", stream, &[len], copies)?;
            let mut c = outputs(&mut prepared, "c", stream, &[len], copies)?;
            let (stream, kernels) = (stream.clone(), kernels::load(stream.device())?);
            prepared.ours(None, move |copy| {
                let c = &mut c[copy];
                Ok(kernels.safe_vector_add(&stream, config, &a[copy], &b[copy], c)?)
            });
            Ok(prepared)
        },
    )
}

fn stencil(extents: &Extents) -> Case {
    let len = extents.len;
    let config = LaunchConfig::for_elements(len as u64, 256);
    case(
        format!("safe/f32/stencil/n{len}"),
        2 * len,
        config,
        move |stream, copies| {
            let mut prepared = Prepared::new();
            let x = inputs::<f32>(&mut prepared, "x", stream, &[len], copies)?;
            let mut y = outputs(&mut prepared, "y", stream, &[len], copies)?;
            let (stream, kernels) = (stream.clone(), kernels::load(stream.device())?);
            prepared.ours(None, move |copy| {
                Ok(kernels.safe_stencil(&stream, config, &x[copy], &mut y[copy])?)
            });
            Ok(prepared)
        },
    )
}

fn transpose(extents: &Extents) -> Case {
    let (rows, columns) = (extents.rows, extents.columns);
    let config = LaunchConfig {
        grid: [rows.div_ceil(32) as u32, columns.div_ceil(32) as u32, 1],
        block: [32, 8, 1],
        ..LaunchConfig::linear(1, 1)
    };
    case(
        format!("safe/f32/transpose/{rows}x{columns}"),
        2 * rows * columns,
        config,
        move |stream, copies| {
            let mut prepared = Prepared::new();
            let x = inputs::<f32>(&mut prepared, "x", stream, &[rows, columns], copies)?;
            let mut y = outputs(&mut prepared, "y", stream, &[columns, rows], copies)?;
            let (stream, kernels) = (stream.clone(), kernels::load(stream.device())?);
            prepared.ours(None, move |copy| {
                Ok(kernels.safe_transpose(&stream, config, &x[copy], &mut y[copy])?)
            });
            Ok(prepared)
        },
    )
}

fn softmax(extents: &Extents) -> Case {
    let (rows, columns) = (extents.rows, extents.columns);
    let config = LaunchConfig::linear(rows as u32, 128);
    case(
        format!("safe/f32/softmax/{rows}x{columns}"),
        2 * rows * columns,
        config,
        move |stream, copies| {
            let mut prepared = Prepared::new();
            let x = inputs::<f32>(&mut prepared, "x", stream, &[rows, columns], copies)?;
            let mut y = outputs(&mut prepared, "y", stream, &[rows, columns], copies)?;
            let (stream, kernels) = (stream.clone(), kernels::load(stream.device())?);
            prepared.ours(None, move |copy| {
                Ok(kernels.safe_softmax(&stream, config, &x[copy], &mut y[copy])?)
            });
            Ok(prepared)
        },
    )
}

fn histogram(extents: &Extents) -> Case {
    let (len, counters) = (extents.len, extents.counters);
    let config = LaunchConfig::linear(extents.blocks, 256);
    case(
        format!("safe/u32/histogram{counters}/n{len}"),
        len + counters,
        config,
        move |stream, copies| {
            let values: Vec<u32> = numbers(0..counters as u32, len);
            let mut prepared = Prepared::new();
            let values = copied(&mut prepared, "values", stream, &values, copies)?;
            let counts = (0..copies).map(|_| Ok(Tensor::<u32>::zeros(stream, &[counters])?));
            let counts = counts.collect::<Result<Vec<_>>>()?;
            prepared.operand("copies of counts", &counts);
            prepared.exact_answer("counts", &counts[0], stream, 0)?;
            let (stream, kernels) = (stream.clone(), kernels::load(stream.device())?);
            prepared.ours(None, move |copy| {
                Ok(kernels.safe_histogram(&stream, config, &values[copy], &counts[copy])?)
            });
            Ok(prepared)
        },
    )
}

fn segmented_sum(extents: &Extents) -> Case {
    let (len, segments) = (extents.len, extents.rows);
    let config = LaunchConfig::linear(segments as u32, 128);
    case(
        format!("safe/f32/segmented_sum/s{segments}_n{len}"),
        len + 2 * segments,
        config,
        move |stream, copies| {
            let mut starts = numbers(0..len as u32 + 1, segments + 1);
            (starts[0], starts[segments]) = (0, len as u32);
            starts.sort_unstable();
            let mut prepared = Prepared::new();
            let x = inputs::<f32>(&mut prepared, "x", stream, &[len], copies)?;
            let starts = copied(&mut prepared, "starts", stream, &starts, copies)?;
            let mut sums = outputs(&mut prepared, "sums", stream, &[segments], copies)?;
            let (stream, kernels) = (stream.clone(), kernels::load(stream.device())?);
            prepared.ours(None, move |copy| {
                let sums = &mut sums[copy];
                let (x, starts) = (&x[copy], &starts[copy]);
                Ok(kernels.safe_segmented_sum(&stream, config, x, starts, sums)?)
            });
            Ok(prepared)
        },
    )
}

/// Inputs with normally distributed numbers.
fn inputs<T: Sample>(
    prepared: &mut Prepared,
    name: &str,
    stream: &Stream,
    shape: &[usize],
    copies: usize,
) -> Result<Vec<Tensor<T>>> {
    let tensors = normal_copies::<T>(stream, shape, 1, copies)?;
    prepared.operand(name, &tensors);
    Ok(tensors)
}

/// Inputs with these values.
fn copied<T: Element>(
    prepared: &mut Prepared,
    name: &str,
    stream: &Stream,
    values: &[T],
    copies: usize,
) -> Result<Vec<Tensor<T>>> {
    let copy = |_| Tensor::from_slice(stream.device(), &[values.len()], values);
    let tensors = (0..copies)
        .map(copy)
        .collect::<warpsmith::Result<Vec<_>>>()?;
    prepared.operand(name, &tensors);
    Ok(tensors)
}

/// Outputs, the twin's too, and the result that is compared.
fn outputs(
    prepared: &mut Prepared,
    name: &str,
    stream: &Stream,
    shape: &[usize],
    copies: usize,
) -> Result<Vec<Tensor<f32>>> {
    let tensors = unwritten_copies::<f32>(stream, shape, copies)?;
    prepared.operand(&format!("copies of {name}"), &tensors);
    prepared.answer(name, &tensors[0], stream)?;
    Ok(tensors)
}

/// `len` numbers of the range, the same every run.
fn numbers(range: Range<u32>, len: usize) -> Vec<u32> {
    let mut state = 1_u64;
    let number = |_| {
        // Knuth's linear congruential generator, of which the high half is used.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let fraction = state >> 32;
        range.start + ((fraction * u64::from(range.end - range.start)) >> 32) as u32
    };
    (0..len).map(number).collect()
}
