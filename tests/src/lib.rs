//! What the tests across crates share: operands of any values and strides, poisoned outputs with
//! guards, properties and tables of cases that run on every device there is.

pub mod cases;
pub mod differential;
pub mod element;
pub mod operand;
pub mod operation;
pub mod output;
pub mod property;
pub mod rows;
pub mod values;

use warpsmith::Device;
use warpsmith::emulator::EmulatorConfig;

/// What a check returns: why it failed, in words.
pub type Checked = Result<(), String>;

/// An error in words.
pub fn say(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// An emulator that counts: bytes, instructions, bank conflicts.
///
/// # Panics
/// Where it cannot be made.
pub fn profiled() -> Device {
    let config = EmulatorConfig {
        profile: true,
        ..EmulatorConfig::default()
    };
    Device::emulator_with(config).expect("an emulator")
}

/// The README's examples compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// The example of the book's chapter on testing without a GPU compiles.
#[cfg(doctest)]
#[doc = include_str!("../../docs/testing-without-a-gpu.md")]
pub struct TestingWithoutAGpu;
