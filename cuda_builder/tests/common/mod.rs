//! The fixture crate, and the toolchain that compiles it.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cuda_builder::toolchain::DeviceToolchain;
use cuda_builder::{BuildReport, CudaBuilder};

/// The toolchain, or `None` after saying why the test is skipped.
pub(crate) fn toolchain(test: &str) -> Option<DeviceToolchain> {
    match DeviceToolchain::discover() {
        Ok(toolchain) => Some(toolchain),
        Err(error) => {
            let required = env::var_os("WARPSMITH_REQUIRE_DEVICE_TOOLCHAIN").is_some();
            assert!(!required, "{error}");
            // Not through `eprintln!`, which the test harness keeps to itself.
            let line = "skipped: no device toolchain; `warpsmith doctor` says what is missing";
            writeln!(std::io::stderr(), "\n{test}: {line}").ok();
            None
        }
    }
}

/// Folder of the fixture crate.
pub(crate) fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kernels")
}

/// All builds of the fixture share `core`, which takes longest.
pub(crate) fn builder(toolchain: &DeviceToolchain) -> CudaBuilder {
    CudaBuilder::new(fixture())
        .toolchain(toolchain.clone())
        .target_dir(Path::new(env!("CARGO_TARGET_TMPDIR")).join("fixtures"))
}

/// What the fixture is built to without options. It is built once, for all tests that read it.
pub(crate) fn built(toolchain: &DeviceToolchain) -> &'static BuildReport {
    static BUILT: OnceLock<BuildReport> = OnceLock::new();
    BUILT.get_or_init(|| builder(toolchain).build().expect("the fixture builds"))
}
