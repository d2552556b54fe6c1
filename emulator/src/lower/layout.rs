//! Addresses of variables: kernel parameters, stack frames, static shared memory.

use std::collections::{HashMap, HashSet};

use ptx_syntax::ast::{Constant, Function, Initializer, Module, Space, Variable};
use ptx_syntax::explain::MOST_STATIC_SHARED_BYTES;
use ptx_syntax::isa::Effect;

use crate::error::LoadError;
use crate::memory::shared::SHARED_BASE;

/// Layout of a kernel parameter, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamLayout {
    /// Offset in parameter space.
    pub offset: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Alignment in bytes.
    pub align: u64,
}

/// More bytes of parameters than any kernel has; keeps the sums in range.
const PARAM_LIMIT: u64 = 1 << 32;

/// Layouts of a kernel's parameters, in order.
pub(crate) fn param_layout(kernel: &Function) -> Vec<ParamLayout> {
    let mut end = 0u64;
    kernel
        .params
        .iter()
        .map(|param| {
            let (bytes, align) = (
                param.bytes().unwrap_or(0),
                u64::from(param.alignment()).max(1),
            );
            let offset = end.next_multiple_of(align);
            end = offset.saturating_add(bytes).min(PARAM_LIMIT);
            ParamLayout {
                offset,
                bytes,
                align,
            }
        })
        .collect()
}

/// The frame of a function while it is laid out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frame {
    end: u64,
}

impl Frame {
    /// Alignment of frames in bytes.
    const ALIGN: u64 = 16;

    /// Places a variable. No two variables share a word.
    pub(super) fn place(&mut self, bytes: u64, align: u64) -> u64 {
        let offset = self.end.next_multiple_of(align.max(4));
        self.end = offset + bytes;
        offset
    }

    pub(super) fn bytes(self) -> u64 {
        self.end.next_multiple_of(Self::ALIGN)
    }
}

/// Functions that have a body, by name and alias, with their numbers in the module.
pub(crate) fn bodies(module: &Module) -> HashMap<String, usize> {
    let mut bodies: HashMap<String, usize> = module
        .functions
        .iter()
        .enumerate()
        .filter(|(_, function)| function.body.is_some())
        .map(|(i, function)| (function.name.clone(), i))
        .collect();
    for alias in &module.aliases {
        if let Some(target) = bodies.get(&alias.target).copied() {
            bodies.entry(alias.name.clone()).or_insert(target);
        }
    }
    bodies
}

/// The kernel and every function with a body that it may reach, as numbers in the module. It
/// reaches them by calls, by taking an address, and, if there are indirect calls, by addresses in
/// variables.
pub(super) fn reached(
    module: &Module,
    bodies: &HashMap<String, usize>,
    kernel: usize,
) -> Vec<usize> {
    let mut reached = vec![kernel];
    let mut known = vec![false; module.functions.len()];
    known[kernel] = true;
    let mut tables = Some(addresses_in_variables(module));
    let mut next = 0;
    while let Some(function) = reached.get(next).map(|&i| &module.functions[i]) {
        next += 1;
        let mut names: Vec<&str> = Vec::new();
        for inst in function.instructions() {
            names.extend(inst.names());
            let calls = inst.facts().effect == Effect::Calls;
            if calls && !inst.names().iter().any(|n| bodies.contains_key(*n)) {
                names.extend(tables.take().unwrap_or_default());
            }
        }
        for callee in names.into_iter().filter_map(|name| bodies.get(name)) {
            if !std::mem::replace(&mut known[*callee], true) {
                reached.push(*callee);
            }
        }
    }
    reached
}

/// Symbols whose addresses are in the initial values of variables.
fn addresses_in_variables(module: &Module) -> Vec<&str> {
    let mut names = Vec::new();
    let mut open: Vec<&Initializer> = module
        .variables
        .iter()
        .filter_map(|v| v.init.as_ref())
        .collect();
    while let Some(init) = open.pop() {
        match init {
            Initializer::List(items) => open.extend(items),
            Initializer::Value(Constant::Symbol { name, .. }) => names.push(name.as_str()),
            Initializer::Value(_) => {}
        }
    }
    names
}

/// A size beyond every limit; larger shared variables are counted with it.
const SHARED_SIZES: u64 = 1 << 32;

/// Layout of a program's static shared memory.
pub(super) struct SharedLayout {
    pub(super) addresses: HashMap<String, u64>,
    pub(super) bytes: u64,
}

/// Places the shared variables that the functions use. All dynamic ones begin at the end of the
/// static ones.
pub(super) fn shared_layout(
    module: &Module,
    functions: &[&Function],
) -> Result<SharedLayout, LoadError> {
    let mut used: Vec<&Variable> = Vec::new();
    let names: HashSet<&str> = functions
        .iter()
        .flat_map(|f| f.instructions())
        .flat_map(|inst| inst.names())
        .collect();
    let of_module = module
        .variables
        .iter()
        .filter(|v| names.contains(v.name.as_str()));
    let of_functions = functions.iter().flat_map(|f| f.local_variables());
    used.extend(
        of_module
            .chain(of_functions)
            .filter(|v| v.space == Space::Shared),
    );
    let mut addresses = HashMap::new();
    let mut end = SHARED_BASE;
    for variable in used.iter().filter(|v| !is_dynamic(v)) {
        let bytes = variable.bytes().unwrap_or(0).min(SHARED_SIZES);
        let address = end.next_multiple_of(u64::from(variable.alignment()).max(1));
        end = address + bytes;
        if addresses.insert(variable.name.clone(), address).is_some() {
            return Err(LoadError::Unsupported {
                what: format!("two shared variables named `{}`", variable.name),
                line: variable.line,
            });
        }
    }
    let bytes = end - SHARED_BASE;
    if bytes > MOST_STATIC_SHARED_BYTES {
        let line = functions[0].line;
        return Err(LoadError::StaticShared { bytes, line });
    }
    let dynamic: Vec<_> = used.iter().filter(|v| is_dynamic(v)).collect();
    let align = dynamic
        .iter()
        .map(|v| u64::from(v.alignment()))
        .max()
        .unwrap_or(1)
        .max(1);
    if !dynamic.is_empty() {
        end = end.next_multiple_of(align);
    }
    addresses.extend(dynamic.iter().map(|variable| (variable.name.clone(), end)));
    Ok(SharedLayout {
        addresses,
        bytes: end - SHARED_BASE,
    })
}

/// Whether a variable is `.extern .shared name[]`, whose size the launch gives.
fn is_dynamic(variable: &Variable) -> bool {
    variable.bytes().is_none()
        || (variable.linkage == ptx_syntax::ast::Linkage::Extern && variable.bytes() == Some(0))
}
