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

#[test]
fn all_files_load() {
    use warpsmith_emulator::{Emulator, EmulatorConfig};
    let emulator = Emulator::new(EmulatorConfig::default());
    for file in harness::files() {
        let text = std::fs::read_to_string(&file).expect("the file can be read");
        let module = emulator.load(&text);
        let module = module.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(!module.kernels().is_empty(), "{}", file.display());
    }
}
