//! Kernels compiled by nvrtc and Triton, unchanged, against references in f64 or integers. The
//! sources and their PTX are in `tests/corpus`; `scripts/corpus` compiles them.

mod asynchronous;
mod atomics;
mod bits;
mod calls;
mod harness;
mod hopper;
mod library;
mod math;
mod norms;
mod plain;
mod tensor;
mod triton;
mod warps;

/// Every file loads, except those with `wmma`, which is refused by name.
#[test]
fn all_files_load() {
    use warpsmith_emulator::{Emulator, EmulatorConfig, LoadError};
    let emulator = Emulator::new(EmulatorConfig::default());
    for file in harness::files() {
        let text = std::fs::read_to_string(&file).expect("the file can be read");
        match emulator.load(&text) {
            Ok(module) => assert!(!module.kernels().is_empty(), "{}", file.display()),
            Err(LoadError::Unsupported { what, .. }) if what.starts_with("wmma.") => {}
            Err(error) => panic!("{}: {error}", file.display()),
        }
    }
}
