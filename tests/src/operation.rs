//! What every operation is compared with: its reference, exact results on small integers, and a
//! second run.

use ndarray::ArrayD;
use serde::{Deserialize, Deserializer};
use warpsmith::reference::Expected;
use warpsmith::reference::precision::round_to;
use warpsmith::{ArgumentError, DType, Device, Error, Plan};

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
fn kernel_of(
    plan: warpsmith::Result<Plan>,
    number: Option<usize>,
) -> warpsmith::Result<Option<String>> {
    let (plan, Some(number)) = (plan?, number) else {
        return Ok(None);
    };
    let names = plan.candidates().iter().map(|each| each.name.clone());
    Ok(names.cycle().nth(number))
}

/// Runs an operation by the candidate with this number of its plan, if there is a number. Where the
/// outputs do not lie as the plan expects, it is the candidate with this number of those that suit.
///
/// # Errors
/// Those of the plan and of the operation.
pub fn by_candidate<R>(
    plan: warpsmith::Result<Plan>,
    number: Option<usize>,
    run: impl Fn(Option<&str>) -> warpsmith::Result<R>,
) -> warpsmith::Result<R> {
    let name = kernel_of(plan, number)?;
    let ran = run(name.as_deref());
    let refused = ran.as_ref().map_err(Error::root);
    match (refused, number) {
        (Err(Error::Argument(ArgumentError::Unsupported { supported, .. })), Some(number)) => {
            let names: Vec<&str> = supported.split(", ").collect();
            run(Some(names[number % names.len()]))
        }
        _ => ran,
    }
}

/// Runs an operation into poisoned outputs, as often as may give other bits, and compares these;
/// returns the result.
///
/// # Errors
/// The operation's error, an element that was not written, a guard that was overwritten, or
/// different bits in another run.
pub fn run_repeatedly<T: TestElement>(
    output: impl Fn() -> Result<Output<T>, String>,
    run: impl Fn(&Output<T>) -> warpsmith::Result<()>,
) -> Result<ArrayD<T>, String> {
    let once = || {
        let output = output()?;
        run(&output).map_err(say)?;
        Ok::<_, String>((output.read()?, output.tensor.device().clone()))
    };
    let (result, device) = once()?;
    for _ in 1..repeats(&device) {
        same_bits(&result, &once()?.0).map_err(|error| format!("not deterministic: {error}"))?;
    }
    Ok(result)
}

/// How many runs of an operation may give different bits. On an emulator with one seed, events have
/// the same order every time; on a GPU they may not. What one run leaves in workspaces, the next case
/// of a property finds.
pub fn repeats(device: &Device) -> usize {
    match device.is_emulator() {
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
