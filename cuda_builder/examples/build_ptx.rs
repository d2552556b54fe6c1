//! Builds a crate of kernels: `build_ptx CRATE OUT [ARCH..]`, for example
//! `cargo run -p warpsmith-cuda-builder --example build_ptx -- kernels-gpu ptx`.

use std::env;
use std::process::ExitCode;

use cuda_builder::{Arch, CudaBuilder};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let [krate, out, archs @ ..] = arguments else {
        return Err("usage: build_ptx CRATE OUT [ARCH..]".into());
    };
    let mut builder = CudaBuilder::new(krate).copy_to(out);
    if !archs.is_empty() {
        let archs: Result<Vec<Arch>, _> = archs.iter().map(|arch| arch.parse()).collect();
        builder = builder.archs(archs?);
    }
    let report = builder.build()?;
    for module in &report.modules {
        println!("{}", module.entry.path);
        for kernel in &module.entry.kernels {
            let usage = module
                .assembled
                .as_ref()
                .and_then(|said| said.kernels.get(&kernel.name));
            let registers = usage.map_or("?".to_owned(), |usage| usage.registers.to_string());
            println!(
                "  {}: {} parameters, {registers} registers, {} bytes of shared memory",
                kernel.name,
                kernel.params.len(),
                kernel.static_shared_bytes
            );
        }
    }
    Ok(())
}
