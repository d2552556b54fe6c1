//! Runs ptxas to check that the PTX assembles and that no registers are spilled.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::error::{Error, Step};
use crate::lint::Refusal;
use crate::process;
use crate::toolchain::Ptxas;

/// What ptxas reports on a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of stack frame in local memory, per thread.
    pub stack_bytes: u32,
    /// Bytes of spill stores: registers written to local memory.
    pub spill_store_bytes: u32,
    /// Bytes of spill loads.
    pub spill_load_bytes: u32,
}

/// What ptxas reports on a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assembled {
    /// By kernel.
    pub kernels: BTreeMap<String, Usage>,
    /// Warnings.
    pub warnings: Vec<String>,
}

impl Assembled {
    /// Refusals of register spills and of C75xx warnings (wgmma serialised, setmaxnreg ignored). A
    /// kernel for which `may_spill` is true may spill.
    pub(crate) fn refusals(&self, may_spill: impl Fn(&str) -> bool) -> Vec<Refusal> {
        let spills = self
            .kernels
            .iter()
            .filter(|(_, usage)| usage.spill_store_bytes + usage.spill_load_bytes > 0)
            .filter(|(kernel, _)| !may_spill(kernel))
            .map(|(kernel, usage)| Refusal::Spills {
                kernel: kernel.clone(),
                store_bytes: usage.spill_store_bytes,
                load_bytes: usage.spill_load_bytes,
            });
        let warnings = self
            .warnings
            .iter()
            .filter(|text| text.contains("C75"))
            .map(|text| Refusal::PtxasWarning { text: text.clone() });
        spills.chain(warnings).collect()
    }
}

/// Assembles the PTX file at `ptx` for `arch` (such as `sm_90a`) and discards the machine code.
///
/// # Errors
/// [`Error::Tool`] with what ptxas says.
pub fn assemble(ptxas: &Ptxas, ptx: &Path, arch: &str) -> Result<Assembled, Error> {
    let io = |source| Error::Io {
        step: Step::Assemble,
        path: ptx.to_owned(),
        source,
    };
    let folder = tempfile::tempdir().map_err(io)?;
    assemble_to(ptxas, ptx, arch, &folder.path().join("out.cubin"))
}

/// Assembles the PTX file at `ptx` for `arch`, and writes the machine code to `cubin`.
///
/// # Errors
/// [`Error::Tool`] with what ptxas says.
pub fn assemble_to(
    ptxas: &Ptxas,
    ptx: &Path,
    arch: &str,
    cubin: &Path,
) -> Result<Assembled, Error> {
    let mut command = Command::new(&ptxas.path);
    command.arg("-v").arg(format!("-arch={arch}")).arg(ptx);
    command.arg("-o").arg(cubin);
    let output = process::run(Step::Assemble, ptx, &mut command)?;
    let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
    said += &String::from_utf8_lossy(&output.stdout);
    Ok(parse(&said))
}

/// Assembles PTX text.
pub(crate) fn assemble_text(
    ptxas: &Ptxas,
    name: &str,
    text: &str,
    arch: &str,
    work: &Path,
) -> Result<Assembled, Error> {
    let path = work.join(format!("{name}.ptx"));
    fs::write(&path, text).map_err(|source| Error::Io {
        step: Step::Assemble,
        path: path.clone(),
        source,
    })?;
    assemble(ptxas, &path, arch)
}

/// Parses the output of `ptxas -v`.
fn parse(said: &str) -> Assembled {
    let mut assembled = Assembled::default();
    let mut current = String::new();
    for line in said.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            current = rest.split('\'').next().unwrap_or_default().to_owned();
            assembled.kernels.entry(current.clone()).or_default();
        } else if let Some((_, rest)) = line.split_once("Function properties for ") {
            current = rest.trim().to_owned();
        } else if line.contains("warning") {
            assembled.warnings.push(line.to_owned());
        } else if let Some(usage) = assembled.kernels.get_mut(&current) {
            let set = |field: &mut u32, unit| number_before(line, unit).map(|n| *field = n);
            set(&mut usage.stack_bytes, " bytes stack frame");
            set(&mut usage.spill_store_bytes, " bytes spill stores");
            set(&mut usage.spill_load_bytes, " bytes spill loads");
            set(&mut usage.registers, " registers");
        }
    }
    assembled
}

/// `56` of `.. Used 56 registers, ..`.
fn number_before(line: &str, unit: &str) -> Option<u32> {
    let (before, _) = line.split_once(unit)?;
    let digits = before.bytes().rev().take_while(u8::is_ascii_digit).count();
    before[before.len() - digits..].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_75'
ptxas info    : Function properties for k
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 56 registers, used 1 barriers, 1024 bytes smem, 388 bytes cmem[0]
ptxas warning : (C7508) Potential Performance Loss: 'setmaxnreg' ignored
";

    #[test]
    fn the_report_is_read() {
        let assembled = parse(SAID);
        let usage = Usage {
            registers: 56,
            stack_bytes: 8,
            spill_store_bytes: 4,
            spill_load_bytes: 12,
        };
        assert_eq!(assembled.kernels.get("k"), Some(&usage));
        let refusals = assembled.refusals(|_| false);
        assert_eq!(refusals.len(), 2);
        assert!(
            refusals[0]
                .to_string()
                .contains("4 bytes stored, 12 loaded")
        );
        assert_eq!(assembled.refusals(|_| true).len(), 1);
    }
}
