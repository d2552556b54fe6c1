//! `cargo xtask kernel`: from an edit of a kernel to tests, registers and machine code.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use cuda_builder::toolchain::Ptxas;
use cuda_builder::{BuiltModule, CudaBuilder, PtxasCheck, assemble_to};

use crate::sass::{Disassembler, Summary};

/// The modules of the workspace's tests that launch the kernels of each family, without those that
/// run long.
const TESTS: [(&str, &[&str]); 14] = [
    ("attention", &["attention"]),
    ("attention_grad", &["attention_grad"]),
    ("elementwise", &["elementwise"]),
    ("fragments", &["elementwise"]),
    ("gather", &["take", "scatter"]),
    ("gemm", &["gemm", "gemm_kernels", "grouped", "grouped_sm90"]),
    ("norm", &["norms", "norm_ring"]),
    ("reduce", &["reduce"]),
    ("rotary", &["rotary", "kv_cache"]),
    ("scan", &["scan"]),
    ("scatter_add", &["scatter_add"]),
    ("softmax", &["softmax", "cross_entropy"]),
    ("sort", &["sort"]),
    ("topk", &["topk"]),
];

/// Build a family of kernels, run its tests on the emulator, and print registers, spills, shared
/// memory and a summary of the machine code of each kernel.
///
/// The family's PTX in `ptx/` is replaced. Tests and ptxas run at the same time.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The family: a folder of kernels-gpu/src.
    #[arg(value_parser = TESTS.map(|(family, _)| family))]
    family: String,
    /// Run the tests whose names contain this instead of all tests of the family; may be repeated.
    #[arg(long = "test", value_name = "FILTER")]
    tests: Vec<String>,
    /// Print only kernels whose names contain this.
    #[arg(long, value_name = "PART", default_value = "")]
    only: String,
}

/// Whether tests pass and nothing spills.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let start = Instant::now();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let ptx = root.join("ptx");
    let report = CudaBuilder::new(root.join("kernels-gpu"))
        .family(&args.family)
        .copy_to(&ptx)
        .locked(true)
        .fold_halves(true)
        .ptxas(PtxasCheck::Never)
        .build()?;
    println!(
        "{}: built in {:.1} s",
        args.family,
        start.elapsed().as_secs_f64()
    );
    let (tests, code) = thread::scope(|scope| {
        let code = scope.spawn(|| machine_code(&report.modules, &ptx, &args.only));
        let tests = run_tests(args, &root);
        (tests, code.join())
    });
    let (text, spills) = code.map_err(|_| anyhow!("the machine code's thread panicked"))??;
    let (said, passed) = tests?;
    print!("{said}\n{text}");
    println!("{:.1} s", start.elapsed().as_secs_f64());
    Ok(passed && !spills)
}

/// Runs the tests on the emulator: what they print, and whether they pass.
fn run_tests(args: &Args, root: &Path) -> Result<(String, bool)> {
    let of_family = TESTS.iter().find(|(family, _)| *family == args.family);
    let (_, modules) = of_family.context("a family has tests")?;
    let filters = match args.tests.is_empty() {
        true => modules.iter().map(|module| format!("{module}::")).collect(),
        false => args.tests.clone(),
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "test",
            "--quiet",
            "-p",
            "warpsmith-tests",
            "--test",
            "all",
            "--",
        ])
        .args(&filters)
        .current_dir(root)
        .env("WARPSMITH_TEST_DEVICE", "emulator")
        .stderr(Stdio::inherit())
        .output()
        .context("cargo")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if said.contains("running 0 tests") {
        bail!("no test has a name with {}", filters.join(" or "));
    }
    Ok((said, output.status.success()))
}

/// A table of the kernels, and whether any of them spills.
fn machine_code(modules: &[BuiltModule], ptx: &Path, only: &str) -> Result<(String, bool)> {
    let ptxas = Ptxas::discover()?;
    let disassembler = Disassembler::discover(&ptxas.path);
    let folder = tempfile::tempdir()?;
    let mut text = String::new();
    let mut spills = false;
    for module in modules {
        let cubin: PathBuf = folder.path().join(format!("{}.cubin", module.arch));
        let file = ptx.join(&module.entry.path);
        let assembled = assemble_to(&ptxas, &file, module.arch.name(), &cubin)?;
        let code = match &disassembler {
            Ok(disassembler) => disassembler.summaries(&cubin)?,
            Err(_) => Default::default(),
        };
        for warning in &assembled.warnings {
            text += &format!("{warning}\n");
        }
        for kernel in module
            .entry
            .kernels
            .iter()
            .filter(|k| k.name.contains(only))
        {
            let text_of = kernel.text_of.as_ref().unwrap_or(&kernel.name);
            let used = assembled.kernels.get(text_of).copied();
            let used = used.unwrap_or_default();
            let spilled = used.spill_store_bytes + used.spill_load_bytes;
            spills |= spilled > 0;
            let summary = code.get(text_of).map(Summary::to_string);
            text += &format!(
                "{} {}: {} registers, {spilled} bytes of spills, {} bytes of shared memory\n",
                module.arch, kernel.name, used.registers, kernel.static_shared_bytes,
            );
            text += &summary.map_or(String::new(), |summary| format!("    {summary}\n"));
        }
    }
    if let Err(missing) = disassembler {
        text += &format!("no summary of the machine code: {missing}\n");
    }
    Ok((text, spills))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn every_family_has_tests_and_every_module_of_tests_is_there() {
        let manifest = root().join("kernels-gpu/Cargo.toml");
        let manifest = fs::read_to_string(manifest).expect("it is there");
        let (_, list) = manifest.split_once("\nfamilies = [").expect("the families");
        let (list, _) = list.split_once(']').expect("an end of the list");
        let families: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        assert_eq!(families, TESTS.map(|(family, _)| family));
        for module in TESTS.iter().flat_map(|(_, modules)| *modules) {
            let tests = root().join("tests/tests");
            let is_there =
                tests.join(module).is_dir() || tests.join(format!("{module}.rs")).is_file();
            assert!(is_there, "tests/tests has no module {module}");
        }
    }
}
