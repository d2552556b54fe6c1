//! Reductions and scans.

use half::{bf16, f16};
use warpsmith::{Reduce, ReduceOp, Reducible, Result, Scan, ScanOp};

use super::{Case, Inputs, is_integer, read};
use crate::element::TestElement;

/// Outer, reduced and inner extents: any, short rows, small rows, long rows, long enough for a
/// cluster, and columns.
const SHAPES: [[usize; 3]; 9] = [
    [5, 33, 7],
    [3, 250, 1],
    [1100, 48, 1],
    [30, 512, 1],
    [7, 4096, 1],
    [2, 300, 320],
    [1, 9000, 1],
    [1, 40_000, 1],
    [1, 90, 264],
];

pub(super) fn add(cases: &mut Vec<Case>) {
    // Older devices differ in long rows and columns of bf16, and in scans.
    for (arch, shapes) in [((7, 5), &SHAPES[6..]), ((9, 0), &SHAPES[..])] {
        of::<f32>(cases, arch, shapes);
        of::<f16>(cases, arch, shapes);
        of::<bf16>(cases, arch, shapes);
        of::<f64>(cases, arch, shapes);
        of::<i32>(cases, arch, shapes);
        of::<i64>(cases, arch, shapes);
        cases.push(Case::new("counts of u8", arch, counts));
    }
}

fn of<T: Reducible<Value: TestElement> + TestElement>(
    cases: &mut Vec<Case>,
    arch: (u32, u32),
    shapes: &[[usize; 3]],
) {
    let dtype = T::DTYPE;
    for &shape in shapes {
        let name = format!("reductions of {dtype}, {shape:?}");
        let run = move |inputs: &mut Inputs| reductions::<T>(shape, inputs);
        cases.push(Case::new(name, arch, run));
    }
    cases.push(Case::new(format!("scans of {dtype}"), arch, scans::<T>));
}

fn reductions<T: Reducible<Value: TestElement> + TestElement>(
    shape: [usize; 3],
    inputs: &mut Inputs,
) -> Result<()> {
    let x = inputs.tensor::<T>(&shape)?;
    for op in ReduceOp::ALL {
        let reduction = Reduce::new(op, &x).axis(1);
        if op.is_index() {
            read(&reduction.output::<i64>().run(&inputs.stream)?)?;
            continue;
        }
        if !is_integer(T::DTYPE) || op.is_of_integers() {
            read(&reduction.run(&inputs.stream)?)?;
        }
        if !op.is_of_integers() || op == ReduceOp::Sum {
            read(&reduction.output::<f64>().run(&inputs.stream)?)?;
        }
    }
    Ok(())
}

fn counts(inputs: &mut Inputs) -> Result<()> {
    for shape in SHAPES {
        let x = inputs.tensor::<u8>(&shape)?;
        for op in [ReduceOp::Any, ReduceOp::All, ReduceOp::CountNonzero] {
            read(
                &Reduce::new(op, &x)
                    .axis(1)
                    .output::<i64>()
                    .run(&inputs.stream)?,
            )?;
        }
    }
    Ok(())
}

fn scans<T: Reducible + TestElement>(inputs: &mut Inputs) -> Result<()> {
    for [rows, n] in [[20, 100], [3, 5000], [1, 100_000]] {
        let x = inputs.tensor::<T>(&[rows, n])?;
        for op in ScanOp::ALL.into_iter().filter(|op| op.takes(T::DTYPE)) {
            let scan = Scan::new(op, &x);
            read(&scan.run(&inputs.stream)?)?;
            read(&scan.exclusive().run(&inputs.stream)?)?;
        }
        let least = Scan::new(ScanOp::Min, &x).indices().run(&inputs.stream)?;
        read(&least.indices)?;
    }
    Ok(())
}
