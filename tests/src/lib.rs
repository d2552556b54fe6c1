//! What the tests of several crates share: operands with any values and strides, poisoned outputs
//! with guards, and properties and tables of cases that run on every device there is.

pub mod cases;
pub mod corpus;
pub mod differential;
pub mod element;
pub mod operand;
pub mod operation;
pub mod output;
pub mod property;
pub mod replay;
pub mod rows;
pub mod values;

use std::path::Path;

use warpsmith::emulator::EmulatorConfig;
use warpsmith::testing::Recording;
use warpsmith::{Device, Stream};

/// Result of a check: why it failed, in words.
pub type Checked = Result<(), String>;

/// An error as text.
pub fn say(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Text of the file at `path` in `ptx/`, read when the test runs: an edit of a kernel rebuilds no
/// test.
///
/// # Panics
/// If it cannot be read.
pub fn built_ptx(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../ptx")
        .join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The kinds of errors by the names of their groups in [`warpsmith::Error`], for macros.
pub mod kinds {
    pub use warpsmith::{
        ArgumentError as Argument, DeviceError as Device, KernelError as Kernel,
        ShapeError as Shape,
    };
}

/// Fails unless a result is an error of this kind, whose text says all of the words:
/// `refused!(result => Shape::Mismatch, "`x`", "[3]")`.
#[macro_export]
macro_rules! refused {
    ($result:expr => $group:ident::$kind:ident $(, $word:expr)* $(,)?) => {{
        use warpsmith::Error::$group as Group;
        let Err(error) = $result else {
            panic!("it was accepted");
        };
        let is_kind = matches!(error.root(), Group($crate::kinds::$group::$kind { .. }));
        let text = error.to_string();
        assert!(is_kind, "{text}, which is not {}", stringify!($kind));
        $(assert!(text.contains($word), "`{text}` does not say `{}`", $word);)*
    }};
}

/// Runs a test on every device that tests are to run on, with a stream of it.
///
/// # Panics
/// If a stream cannot be made.
pub fn on_every_device(test: impl Fn(&Device, &Stream)) {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        test(&device, &stream);
    }
}

/// An emulator with a profile: it counts bytes, instructions, bank conflicts and so on.
///
/// # Panics
/// If the emulator cannot be created.
pub fn profiled() -> Device {
    let config = EmulatorConfig {
        profile: true,
        ..EmulatorConfig::default()
    };
    Device::emulator_with(config).expect("an emulator")
}

/// An emulator that presents itself as a device of this architecture, with so many SMs, and records:
/// plans choose the kernels and grids of such a device.
///
/// # Panics
/// If the emulator cannot be created.
pub fn recording(arch: (u32, u32), multiprocessors: u32, config: EmulatorConfig) -> Recording {
    let recording = Recording::emulator(config, |info| {
        info.arch = arch;
        info.multiprocessors = multiprocessors;
    });
    recording.expect("an emulator")
}

/// The device of such a [`recording`].
///
/// # Panics
/// As [`recording`].
pub fn emulator(arch: (u32, u32), multiprocessors: u32, config: EmulatorConfig) -> Device {
    recording(arch, multiprocessors, config).device().clone()
}

/// Compiles and runs the examples of a page. `cargo xtask prose` finds pages that are not here.
macro_rules! examples {
    ($($name:ident: $path:literal)*) => {
        $(
            #[doc = include_str!(concat!("../../", $path))]
            #[cfg(doctest)]
            pub struct $name;
        )*
    };
}

examples! {
    Readme: "README.md"
    TestingWithoutAGpu: "docs/testing-without-a-gpu.md"
    WritingAKernel: "docs/writing-a-kernel.md"
}
