//! Linking: several modules become one.
//!
//! A name without a linkage directive belongs to its module, and gets a new name if another module
//! has it too. Every other name is one thing in all modules: its definition, or the strongest of
//! several (`.visible` before `.common` before `.weak`). Declarations of what is defined nowhere
//! stay, once: the machine may have it, as it has `vprintf`.
//!
//! Source: PTX ISA 9.0, 11.6 (linking directives).

use std::collections::{HashMap, HashSet};

use crate::ast::{
    AddressBase, Constant, Function, FunctionKind, Initializer, Linkage, Module, Operand,
    RegisterNames, Statement, Variable,
};
use crate::target::{Target, UnknownTarget};

/// Why modules cannot be linked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// There is nothing to link.
    #[error("no module is given: linking needs one or more")]
    Nothing,
    /// Two modules define a name.
    #[error("`{name}` is defined in module {first} and in module {second}: one may define it")]
    DefinedTwice {
        /// The name.
        name: String,
        /// Number of the first module, from 1.
        first: usize,
        /// Number of the second.
        second: usize,
    },
    /// Modules have different `.address_size`.
    #[error("module {module} has `.address_size {got}`, and the first has {want}")]
    AddressSize {
        /// Number of the module, from 1.
        module: usize,
        /// Its size.
        got: u32,
        /// That of the first.
        want: u32,
    },
    /// A module's `.target` is none.
    #[error(transparent)]
    Target(#[from] UnknownTarget),
}

/// How strong a symbol is against others of its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Declared,
    Weak,
    Common,
    Defined,
}

/// Links modules, in their order. Lines are those of the modules, so they are of no use in the
/// result: print it and parse it again to have lines.
///
/// # Errors
/// A [`LinkError`] if a name has two definitions, or if modules do not fit to each other.
pub fn link(mut modules: Vec<Module>) -> Result<Module, LinkError> {
    part_internal_names(&mut modules);
    let kept = strongest(&modules)?;
    let mut modules = modules.into_iter().enumerate();
    let Some((_, mut linked)) = modules.next() else {
        return Err(LinkError::Nothing);
    };
    keep(&mut linked, 0, &kept);
    let mut target = linked.target()?;
    for (number, mut module) in modules {
        if module.address_size != linked.address_size {
            return Err(LinkError::AddressSize {
                module: number + 1,
                got: module.address_size,
                want: linked.address_size,
            });
        }
        let newest = newer(target, module.target()?);
        if newest != target {
            target = newest;
            linked.targets = std::mem::take(&mut module.targets);
        }
        keep(&mut module, number, &kept);
        append(&mut linked, module);
    }
    // Variables come first in the text, then functions in their order.
    linked.clear_lines();
    Ok(linked)
}

fn newer(one: Option<Target>, other: Option<Target>) -> Option<Target> {
    one.max(other)
}

/// Appends what is left of a module.
fn append(linked: &mut Module, mut module: Module) {
    let last = linked.files.iter().map(|(index, _)| index + 1).max();
    let offset = last.unwrap_or(0);
    for function in &mut module.functions {
        if let Some(body) = &mut function.body {
            renumber_files(body, offset);
        }
    }
    let files = module.files.into_iter();
    linked
        .files
        .extend(files.map(|(index, path)| (index.saturating_add(offset), path)));
    linked.version = linked.version.max(module.version);
    linked.pragmas.append(&mut module.pragmas);
    linked.variables.append(&mut module.variables);
    linked.functions.append(&mut module.functions);
    linked.aliases.append(&mut module.aliases);
}

fn renumber_files(body: &mut [Statement], offset: u32) {
    for statement in body {
        match statement {
            Statement::Loc {
                file, inlined_at, ..
            } => {
                *file = file.saturating_add(offset);
                if let Some([file, ..]) = inlined_at {
                    *file = file.saturating_add(offset);
                }
            }
            Statement::Block(inner) => renumber_files(inner, offset),
            _ => {}
        }
    }
}

fn strength(linkage: Linkage, is_defined: bool) -> Strength {
    match linkage {
        _ if !is_defined => Strength::Declared,
        Linkage::Extern => Strength::Declared,
        Linkage::Weak => Strength::Weak,
        Linkage::Common => Strength::Common,
        Linkage::Internal | Linkage::Visible => Strength::Defined,
    }
}

impl Variable {
    fn strength(&self) -> Strength {
        strength(self.linkage, true)
    }
}

impl Function {
    fn strength(&self) -> Strength {
        strength(self.linkage, self.body.is_some())
    }
}

/// The module that each name is taken from, with the strength that the name has there.
type Kept = HashMap<String, (usize, Strength)>;

fn strongest(modules: &[Module]) -> Result<Kept, LinkError> {
    let mut kept = Kept::new();
    for (number, module) in modules.iter().enumerate() {
        let variables = module.variables.iter().map(|v| (&v.name, v.strength()));
        let functions = module.functions.iter().map(|f| (&f.name, f.strength()));
        for (name, strength) in variables.chain(functions) {
            let Some(other) = kept.get_mut(name) else {
                kept.insert(name.clone(), (number, strength));
                continue;
            };
            let both = other.1 == Strength::Defined && strength == Strength::Defined;
            if both && other.0 != number {
                return Err(LinkError::DefinedTwice {
                    name: name.clone(),
                    first: other.0 + 1,
                    second: number + 1,
                });
            }
            if strength > other.1 {
                *other = (number, strength);
            }
        }
    }
    Ok(kept)
}

/// Takes away what another module has in a stronger form. What a module declares and then defines
/// stays both.
fn keep(module: &mut Module, number: usize, kept: &Kept) {
    let is_here = |name: &String| kept.get(name).is_none_or(|(owner, _)| *owner == number);
    module.variables.retain(|variable| is_here(&variable.name));
    module.functions.retain(|function| is_here(&function.name));
}

/// Names that belong to a module: functions and variables without a linkage directive. Kernels are
/// known by their name to the host.
fn internal_names(module: &Module) -> HashSet<String> {
    let variables = module.variables.iter();
    let variables = variables.filter(|v| v.linkage == Linkage::Internal);
    let functions = module.functions.iter();
    let functions =
        functions.filter(|f| f.linkage == Linkage::Internal && f.kind == FunctionKind::Func);
    variables
        .map(|variable| variable.name.clone())
        .chain(functions.map(|function| function.name.clone()))
        .collect()
}

/// Gives names that belong to a module another name, if another module has them too.
fn part_internal_names(modules: &mut [Module]) {
    let mut count: HashMap<String, usize> = HashMap::new();
    for module in &*modules {
        let names = module.variables.iter().map(|variable| &variable.name);
        let names: HashSet<&String> = names
            .chain(module.functions.iter().map(|function| &function.name))
            .collect();
        for name in names {
            *count.entry(name.clone()).or_default() += 1;
        }
    }
    for (number, module) in modules.iter_mut().enumerate() {
        let mut names: HashMap<String, String> = HashMap::new();
        for name in internal_names(module) {
            if count.get(&name).is_some_and(|count| *count > 1) {
                let mut new = format!("{name}__module_{}", number + 1);
                while count.contains_key(&new) {
                    new.push('_');
                }
                names.insert(name, new);
            }
        }
        if !names.is_empty() {
            Renaming(&names).module(module);
        }
    }
}

/// New names of symbols, by their old ones.
struct Renaming<'a>(&'a HashMap<String, String>);

impl Renaming<'_> {
    fn module(&self, module: &mut Module) {
        for variable in &mut module.variables {
            self.name(&mut variable.name);
            if let Some(init) = &mut variable.init {
                self.initializer(init);
            }
        }
        for alias in &mut module.aliases {
            self.name(&mut alias.name);
            self.name(&mut alias.target);
        }
        for function in &mut module.functions {
            let declared = declared(function);
            self.name(&mut function.name);
            let names = self.0.iter();
            let seen: HashMap<_, _> = names
                .filter(|(name, _)| !declared.contains(*name))
                .map(|(name, new)| (name.clone(), new.clone()))
                .collect();
            if let Some(body) = &mut function.body {
                Renaming(&seen).statements(body);
            }
        }
    }

    fn name(&self, name: &mut String) {
        if let Some(new) = self.0.get(name) {
            name.clone_from(new);
        }
    }

    fn initializer(&self, init: &mut Initializer) {
        match init {
            Initializer::Value(Constant::Symbol { name, .. }) => self.name(name),
            Initializer::Value(_) => {}
            Initializer::List(items) => items.iter_mut().for_each(|item| self.initializer(item)),
        }
    }

    fn statements(&self, body: &mut [Statement]) {
        for statement in body {
            match statement {
                Statement::Instruction(instruction) => {
                    let operands = instruction.operands.iter_mut();
                    operands.for_each(|operand| self.operand(operand));
                }
                Statement::Block(inner) => self.statements(inner),
                Statement::CallTargets { targets, .. } => {
                    targets.iter_mut().for_each(|target| self.name(target));
                }
                _ => {}
            }
        }
    }

    fn operand(&self, operand: &mut Operand) {
        match operand {
            Operand::Name(name) | Operand::SymbolOffset { name, .. } => self.name(name),
            Operand::Address { base, extra, .. } => {
                if let AddressBase::Name(name) = base {
                    self.name(name);
                }
                extra.iter_mut().for_each(|item| self.operand(item));
            }
            Operand::Vector(items) | Operand::List(items) => {
                items.iter_mut().for_each(|item| self.operand(item));
            }
            Operand::Pair(one, other) => {
                self.operand(one);
                self.operand(other);
            }
            Operand::Not(inner) | Operand::Negated(inner) => self.operand(inner),
            Operand::Element { array, .. } => self.name(array),
            Operand::Integer(_) | Operand::F32(_) | Operand::F64(_) | Operand::Sink => {}
        }
    }
}

/// Names that a function declares itself: they hide those of the module.
fn declared(function: &Function) -> HashSet<String> {
    let parameters = function.params.iter().chain(&function.returns);
    let mut names: HashSet<String> = parameters.map(|variable| variable.name.clone()).collect();
    for statement in function.statements() {
        match statement {
            Statement::Label { name, .. } => {
                names.insert(name.clone());
            }
            Statement::Variable(variable) => {
                names.insert(variable.name.clone());
            }
            Statement::Registers(registers) => {
                names.extend(
                    registers
                        .names
                        .iter()
                        .filter_map(|declared| match declared {
                            RegisterNames::One(name) => Some(name.clone()),
                            RegisterNames::Range { .. } => None,
                        }),
                );
            }
            _ => {}
        }
    }
    names
}
