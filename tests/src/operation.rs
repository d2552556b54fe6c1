//! What every operation is compared with: its reference, exact results on small integers, and a
//! second run.

use ndarray::ArrayD;
use serde::{Deserialize, Deserializer};
use warpsmith::reference::Expected;
use warpsmith::reference::precision::round_to;
use warpsmith::{DType, Plan, Stream};

use crate::element::TestElement;
use crate::output::{Output, same_bits, wide};
use crate::{Checked, say};

/// Reads a dtype by its name, as tables of cases spell it.
///
/// # Errors
/// If there is no dtype of that name.
pub fn dtype<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DType, D::Error> {
    let name = String::deserialize(deserializer)?;
    let unknown = || serde::de::Error::custom(format!("no dtype is called `{name}`"));
    DType::from_name(&name).ok_or_else(unknown)
}

/// The name of the candidate with this number, counted round; none without a number, or if there is
/// nothing to compute.
///
/// # Errors
/// Those of the plan.
pub fn kernel_of(
    plan: warpsmith::Result<Plan>,
    number: Option<usize>,
) -> warpsmith::Result<Option<String>> {
    let (plan, Some(number)) = (plan?, number) else {
        return Ok(None);
    };
    let names = plan.candidates().iter().map(|each| each.name.clone());
    Ok(names.cycle().nth(number))
}

/// Runs an operation twice into poisoned outputs and compares the bits; returns the result.
///
/// # Errors
/// The operation's error, an element that was not written, a guard that was overwritten, or
/// different bits in the second run.
pub fn run_twice<T: TestElement>(
    output: impl Fn() -> Result<Output<T>, String>,
    run: impl Fn(&Output<T>) -> warpsmith::Result<()>,
) -> Result<ArrayD<T>, String> {
    let mut results = Vec::new();
    for _ in 0..2 {
        let output = output()?;
        run(&output).map_err(say)?;
        results.push(output.read()?);
    }
    same_bits(&results[0], &results[1]).map_err(|error| format!("not deterministic: {error}"))?;
    Ok(results.remove(0))
}

/// How often a kernel is to run into given tensors, before it runs into new ones. An emulator with one
/// seed gives the same order of events again; a GPU may not.
pub fn repeats(stream: &Stream) -> usize {
    match stream.device().is_emulator() {
        true => 1,
        false => 2,
    }
}

/// Compares a result with its reference; every element must have an error bound.
///
/// # Errors
/// The worst element.
pub fn agrees<T: TestElement>(got: &ArrayD<T>, want: &Expected) -> Checked {
    let agreement = want.compare(&wide(got).view()).map_err(say)?;
    match agreement.unbounded {
        0 => Ok(()),
        count => Err(format!(
            "{count} elements have no bound: the case proves nothing"
        )),
    }
}

/// Compares a result with exact values, rounded once to its type.
///
/// # Errors
/// The worst element.
pub fn agrees_exactly<T: TestElement>(got: &ArrayD<T>, values: &ArrayD<f64>) -> Checked {
    let rounded = values.mapv(|x| round_to(T::DTYPE, x));
    agrees(got, &Expected::exact(rounded, T::DTYPE))
}
