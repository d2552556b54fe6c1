//! Tables of cases in `tests/cases/*.toml`, each named after the reason why it exists.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use warpsmith::Device;
use warpsmith::testing::devices;

use crate::Checked;

#[derive(Deserialize)]
struct Table<C> {
    case: Vec<Named<C>>,
}

#[derive(Deserialize)]
struct Named<C> {
    /// Why the case exists.
    name: String,
    /// Whether it is too large for the emulator.
    #[serde(default)]
    gpu_only: bool,
    #[serde(flatten)]
    case: C,
}

/// Runs every case of a table on every device.
///
/// # Panics
/// If cases fail, with all of them and the reasons; also if the table cannot be read.
pub fn run<C: DeserializeOwned>(table: &str, check: impl Fn(&C, &Device) -> Checked) {
    let table: Table<C> = toml::from_str(table).unwrap_or_else(|error| panic!("{error}"));
    let mut failures = Vec::new();
    for device in devices() {
        for Named {
            name,
            gpu_only,
            case,
        } in &table.case
        {
            if *gpu_only && device.is_emulator() {
                continue;
            }
            if let Err(reason) = check(case, &device) {
                failures.push(format!("{name} on {device}: {reason}"));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} cases fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
