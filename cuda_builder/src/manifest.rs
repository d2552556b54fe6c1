//! Makes `manifest.json` from the metadata and the PTX.

use std::collections::BTreeMap;

use ptx_syntax::ast::Module;
use ptx_syntax::contract::{Grid, Requirement};
use ptx_syntax::explain::{KernelReport, explain};
use ptx_syntax::manifest::{FragmentEntry, KernelEntry, ModuleEntry, ParamEntry, hash};

use crate::arch::Arch;
use crate::ir::families::Family;
use crate::ir::kernels::Kernel;

/// The manifest's entry for one PTX file. `registers` has the register count of each kernel, if
/// these are to be recorded.
pub(crate) fn module_entry(
    (arch, family): (Arch, &Family),
    text: &str,
    module: &Module,
    registers: &BTreeMap<String, u32>,
) -> ModuleEntry {
    let reports = explain(module).kernels;
    let mut entries: Vec<KernelEntry> = reports
        .iter()
        .map(|report| {
            let kernel = family
                .kernels
                .iter()
                .find(|kernel| kernel.name == report.name);
            kernel_entry(report, kernel, registers.get(&report.name).copied())
        })
        .collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    ModuleEntry {
        path: format!("{arch}/{}.ptx", family.name),
        arch: arch.name().to_owned(),
        hash: hash(text),
        kernels: entries,
        fragments: family
            .fragments
            .iter()
            .map(|fragment| FragmentEntry {
                name: fragment.name.clone(),
                params: fragment.params.iter().map(|p| p.ty.clone()).collect(),
                result: fragment.result.clone(),
            })
            .collect(),
    }
}

fn kernel_entry(
    report: &KernelReport,
    kernel: Option<&Kernel>,
    registers: Option<u32>,
) -> KernelEntry {
    let narrow = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    let params = report.params.iter().enumerate().map(|(index, param)| {
        let source = kernel.and_then(|kernel| kernel.params.get(index));
        ParamEntry {
            name: source.map_or_else(|| param.name.clone(), |source| source.name.clone()),
            ty: source.map_or_else(|| param.ty.clone(), |source| source.ty.clone()),
            size: narrow(param.bytes.unwrap_or(0)),
            align: param.align,
            layout: source.and_then(|source| source.layout),
        }
    });
    KernelEntry {
        name: report.name.clone(),
        text_of: None,
        params: params.collect(),
        max_threads: kernel.and_then(|kernel| kernel.max_threads),
        min_blocks: kernel.and_then(|kernel| kernel.min_blocks),
        cluster: kernel.and_then(|kernel| kernel.cluster),
        static_shared_bytes: narrow(report.static_shared_bytes),
        dynamic_shared_bytes: kernel.and_then(|kernel| kernel.dynamic_shared_bytes),
        registers,
        safe: kernel.is_some_and(|kernel| kernel.safe),
        requires: kernel.map_or_else(Vec::new, requirements),
        grid: kernel.and_then(|kernel| kernel.grid.as_ref()).map(grid),
    }
}

fn requirements(kernel: &Kernel) -> Vec<Requirement> {
    let requirements = kernel.requires.iter();
    let requirements = requirements.map(|Requirement { text, code }| Requirement {
        text: text.clone(),
        code: unpadded(code),
    });
    requirements.collect()
}

fn grid(grid: &Grid) -> Grid {
    Grid {
        block: grid.block,
        blocks: grid.blocks.each_ref().map(|code| unpadded(code)),
    }
}

/// The formula without the spaces before numbers that constant evaluation has written.
fn unpadded(code: &str) -> String {
    code.split_whitespace().collect::<Vec<_>>().join(" ")
}
