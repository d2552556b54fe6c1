//! Static statistics of a module's kernels: counted in the text, nothing is executed.

mod report;

use std::collections::{BTreeMap, BTreeSet};

use crate::ast::{
    Function, FunctionKind, Linkage, Module, RegisterNames, ScalarType, Space, Variable,
};

pub use report::{KernelReport, ModuleReport, ParamReport};

/// Most static shared memory that a kernel may have, in bytes: ptxas and drivers refuse more.
pub const MOST_STATIC_SHARED_BYTES: u64 = 48 << 10;

/// Special registers with the halves of the address of a cooperative launch's workspace.
const GRID_WORKSPACE: [&str; 2] = ["%envreg1", "%envreg2"];

/// Counts what each kernel of the module contains.
pub fn explain(module: &Module) -> ModuleReport {
    let kernels = module
        .functions
        .iter()
        .filter(|function| function.kind == FunctionKind::Entry && function.body.is_some())
        .map(|function| kernel(module, function))
        .collect();
    ModuleReport {
        version: module.version,
        targets: module.targets.clone(),
        address_size: module.address_size,
        kernels,
    }
}

fn kernel(module: &Module, function: &Function) -> KernelReport {
    let reached = reachable(module, function);
    let names: BTreeSet<&str> = reached
        .iter()
        .flat_map(|f| f.instructions())
        .flat_map(|i| i.names())
        .collect();
    let shared: Vec<&Variable> = module
        .variables
        .iter()
        .filter(|variable| names.contains(variable.name.as_str()))
        .chain(reached.iter().flat_map(|f| f.local_variables()))
        .filter(|variable| variable.space == Space::Shared)
        .collect();
    let is_dynamic = |v: &Variable| v.linkage == Linkage::Extern || v.bytes().is_none();
    let mut mix = BTreeMap::new();
    let mut instructions = 0;
    for instruction in function.instructions() {
        *mix.entry(instruction.class()).or_insert(0) += 1;
        instructions += 1;
    }
    let directives = &function.directives;
    KernelReport {
        name: function.name.clone(),
        line: function.line,
        params: function.params.iter().map(param).collect(),
        max_threads: directives.maxntid,
        required_threads: directives.reqntid,
        min_blocks: directives.minnctapersm,
        max_registers: directives.maxnreg,
        cluster: directives.reqnctapercluster,
        cooperative: GRID_WORKSPACE.iter().any(|half| names.contains(half)),
        registers: registers(function),
        static_shared_bytes: packed_bytes(shared.iter().copied().filter(|v| !is_dynamic(v))),
        uses_dynamic_shared: shared.iter().any(|v| is_dynamic(v)),
        local_bytes: packed_bytes(
            function
                .local_variables()
                .filter(|v| v.space == Space::Local),
        ),
        calls: reached[1..].iter().map(|f| f.name.clone()).collect(),
        sync: function.sync_counts(),
        instructions,
        mix,
    }
}

/// The function itself first, then all functions that it mentions, directly or through others.
fn reachable<'m>(module: &'m Module, function: &'m Function) -> Vec<&'m Function> {
    let by_name: BTreeMap<&str, &Function> = module
        .functions
        .iter()
        .filter(|f| f.kind == FunctionKind::Func)
        .map(|f| (f.name.as_str(), f))
        .collect();
    let mut seen = BTreeSet::from([function.name.as_str()]);
    let mut reached = vec![function];
    let mut next = 0;
    while next < reached.len() {
        let current = reached[next];
        next += 1;
        for name in current.instructions().flat_map(|i| i.names()) {
            if let Some(callee) = by_name.get(name).filter(|_| seen.insert(name)) {
                reached.push(callee);
            }
        }
    }
    reached
}

fn param(variable: &Variable) -> ParamReport {
    ParamReport {
        name: variable.name.clone(),
        ty: variable.ty.word().to_owned(),
        bytes: variable.bytes(),
        align: variable.alignment(),
    }
}

fn registers(function: &Function) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for registers in function.registers() {
        let lanes = u64::from(registers.vector.unwrap_or(1));
        let declared: u64 = registers.names.iter().map(declared).sum();
        let ty: ScalarType = registers.ty;
        *counts.entry(ty.word().to_owned()).or_insert(0) += lanes * declared;
    }
    counts
}

/// Number of registers that one declarator declares. LLVM and nvcc write `%r<n>` for registers 1 to
/// n-1, so this is one more than the code can use.
fn declared(names: &RegisterNames) -> u64 {
    match names {
        RegisterNames::One(_) => 1,
        RegisterNames::Range { count, .. } => u64::from(*count),
    }
}

/// Size in bytes of the variables laid out one after another, each aligned.
fn packed_bytes<'v>(variables: impl Iterator<Item = &'v Variable>) -> u64 {
    variables.fold(0_u64, |end, variable| {
        let align = u64::from(variable.alignment()).max(1);
        end.div_ceil(align)
            .saturating_mul(align)
            .saturating_add(variable.bytes().unwrap_or(0))
    })
}
