//! What the fuzz targets do with a text: it may be refused, but nothing may panic, hang or take
//! memory without bound. A plain test runs the same functions (`emulator/tests/fuzzed`).

use ptx_syntax::ast::Module;
use warpsmith_emulator::{Emulator, EmulatorConfig, LaunchConfig, LoadError, Output};

/// Parser, printer, lint and explanation.
pub fn parse(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let module = match ptx_syntax::parse(&text) {
        Ok(module) => module,
        Err(error) => {
            let lines = text.split('\n').count() as u32;
            assert!((1..=lines).contains(&error.line), "line of {error}");
            assert!(error.column >= 1, "column of {error}");
            return;
        }
    };
    let printed = module.to_string();
    let again = ptx_syntax::parse(&printed)
        .unwrap_or_else(|error| panic!("what is printed does not parse: {error}\n{printed}"));
    assert_eq!(without_lines(&module), without_lines(&again), "{printed}");
    for finding in ptx_syntax::lint::lint(&module) {
        assert!(!finding.to_string().is_empty());
    }
    assert!(!format!("{:?}", ptx_syntax::explain::explain(&module)).is_empty());
}

fn without_lines(module: &Module) -> Module {
    let mut module = module.clone();
    module.clear_lines();
    module
}

/// An emulator that a hostile text cannot make slow or large.
fn emulator() -> Emulator {
    Emulator::new(EmulatorConfig {
        threads: Some(1),
        memory_bytes: 64 << 20,
        instruction_budget: Some(20_000),
        output: Output::to(std::io::sink()),
        ..EmulatorConfig::default()
    })
}

/// The loader.
pub fn load(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match emulator().load(&text) {
        Err(error) => check_error(&text, &error),
        Ok(module) => {
            for kernel in module.kernels() {
                if let Err(error) = module.check(kernel) {
                    assert!(!error.to_string().is_empty());
                }
            }
        }
    }
}

fn check_error(text: &str, error: &LoadError) {
    let message = error.to_string();
    assert!(!message.is_empty());
    if let LoadError::Syntax(error) = error {
        let lines = text.split('\n').count() as u32;
        assert!((1..=lines).contains(&error.line), "line of {error}");
    }
}

/// Loader and a tiny launch of the first kernels: two blocks of 40 threads, a page of memory for
/// each pointer.
pub fn launch(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let emulator = emulator();
    let Ok(module) = emulator.load(&text) else {
        return;
    };
    let Ok(page) = emulator.alloc(4096) else {
        return;
    };
    if emulator.fill(page, 1, 2048).is_err() {
        return;
    }
    for kernel in module.kernels().into_iter().take(3) {
        let params: Vec<Vec<u8>> = module
            .params(kernel)
            .unwrap_or_default()
            .iter()
            .map(|param| argument(param.bytes, page))
            .collect();
        let params: Vec<&[u8]> = params.iter().map(Vec::as_slice).collect();
        let shape = LaunchConfig {
            grid: [2, 1, 1],
            block: [40, 1, 1],
            shared_bytes: 256,
            cluster: None,
        };
        if let Err(error) = emulator.launch(&module, kernel, &shape, &params) {
            assert!(!error.to_string().is_empty());
        }
    }
}

/// A pointer to the page where there is room for one, else a small number.
fn argument(bytes: u64, page: u64) -> Vec<u8> {
    let bytes = bytes.min(4096) as usize;
    let mut argument = if bytes == 8 { page } else { 3 }.to_le_bytes().to_vec();
    argument.resize(bytes, 0);
    argument
}
