//! What every operation is held against: its reference, exact results on small integers, and
//! itself run again.

use ndarray::ArrayD;
use serde::{Deserialize, Deserializer};
use warpsmith::DType;
use warpsmith::reference::Expected;
use warpsmith::reference::precision::round_to;

use crate::element::TestElement;
use crate::output::{Output, same_bits, wide};
use crate::{Checked, say};

/// A dtype by its name, as case tables have it.
///
/// # Errors
/// Where there is none of that name.
pub fn dtype<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DType, D::Error> {
    let name = String::deserialize(deserializer)?;
    let unknown = || serde::de::Error::custom(format!("no dtype is called `{name}`"));
    DType::from_name(&name).ok_or_else(unknown)
}

/// Runs an operation twice into poisoned outputs: what it wrote, after both had the same bits.
///
/// # Errors
/// Why it failed: an error, an element not written, guards overwritten, other bits the second time.
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

/// Holds a result against its reference; nothing may be without a bound.
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

/// Holds a result against values that no rounding but the last touches.
///
/// # Errors
/// The worst element.
pub fn agrees_exactly<T: TestElement>(got: &ArrayD<T>, values: &ArrayD<f64>) -> Checked {
    let rounded = values.mapv(|x| round_to(T::DTYPE, x));
    agrees(got, &Expected::exact(rounded, T::DTYPE))
}
