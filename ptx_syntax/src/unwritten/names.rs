//! The registers and labels of the nested blocks of a function.

use std::collections::HashMap;

use super::effect::Register;
use crate::ast::{Function, RegisterNames, Registers, Space, Statement, Variable};

/// Number of a label in its function.
pub(super) type Label = u32;

/// The names that one block declares.
#[derive(Default)]
struct Scope<'a> {
    labels: HashMap<&'a str, Label>,
    /// Numbers of the `.branchtargets`.
    tables: HashMap<&'a str, usize>,
    /// Declared names, and names of ranges that have been used.
    registers: HashMap<&'a str, Register>,
    /// Prefix and number of names.
    ranges: Vec<(&'a str, u32)>,
}

/// The open blocks, innermost last, and all registers so far.
#[derive(Default)]
pub(super) struct Names<'a> {
    open: Vec<Scope<'a>>,
    labels: Label,
    /// The labels of each `.branchtargets`.
    pub(super) tables: Vec<Vec<Label>>,
    /// The name of each register.
    pub(super) registers: Vec<&'a str>,
}

impl<'a> Names<'a> {
    /// Opens the outermost block. Returns the parameters that are registers: they are written.
    pub(super) fn enter(&mut self, function: &'a Function) -> Vec<Register> {
        self.open.push(Scope::default());
        let mut declare = |variables: &'a [Variable]| -> Vec<Register> {
            let own = variables.iter().filter(|v| v.space == Space::Reg);
            own.map(|variable| self.declare(&variable.name)).collect()
        };
        declare(&function.returns);
        declare(&function.params)
    }

    /// Opens a block. Labels may be used before they are placed.
    pub(super) fn open(&mut self, statements: &'a [Statement]) {
        let mut scope = Scope::default();
        let mut tables = Vec::new();
        for statement in statements {
            match statement {
                Statement::Label { name, .. } => {
                    scope.labels.insert(name, self.labels);
                    self.labels += 1;
                }
                Statement::BranchTargets { name, targets, .. } => {
                    scope.tables.insert(name, self.tables.len() + tables.len());
                    tables.push(targets);
                }
                _ => {}
            }
        }
        self.open.push(scope);
        for targets in tables {
            let labels = targets.iter().filter_map(|target| self.label(target));
            self.tables.push(labels.collect());
        }
    }

    pub(super) fn close(&mut self) {
        self.open.pop();
    }

    /// Registers of vector types are left out: their components have names of their own.
    pub(super) fn registers(&mut self, registers: &'a Registers) {
        if registers.vector.is_some() {
            return;
        }
        for names in &registers.names {
            match names {
                RegisterNames::One(name) => {
                    self.declare(name);
                }
                RegisterNames::Range { prefix, count } => {
                    if let Some(scope) = self.open.last_mut() {
                        scope.ranges.push((prefix, *count));
                    }
                }
            }
        }
    }

    fn declare(&mut self, name: &'a str) -> Register {
        let register = self.registers.len() as Register;
        self.registers.push(name);
        if let Some(scope) = self.open.last_mut() {
            scope.registers.insert(name, register);
        }
        register
    }

    /// The register of that name; `None` if it is something else.
    pub(super) fn register(&mut self, name: &'a str) -> Option<Register> {
        for scope in self.open.iter_mut().rev() {
            if let Some(register) = scope.registers.get(name) {
                return Some(*register);
            }
            if scope.ranges.iter().any(|range| is_of(name, *range)) {
                let register = self.registers.len() as Register;
                self.registers.push(name);
                scope.registers.insert(name, register);
                return Some(register);
            }
        }
        None
    }

    /// The label of that name.
    pub(super) fn label(&self, name: &str) -> Option<Label> {
        let mut scopes = self.open.iter().rev();
        scopes.find_map(|scope| scope.labels.get(name).copied())
    }

    /// The number of the `.branchtargets` of that name.
    pub(super) fn table(&self, name: &str) -> Option<usize> {
        let mut scopes = self.open.iter().rev();
        scopes.find_map(|scope| scope.tables.get(name).copied())
    }

    /// Number of labels so far.
    pub(super) fn label_count(&self) -> usize {
        self.labels as usize
    }
}

/// Whether `name` is one of the names `prefix0` to `prefix{count-1}`.
fn is_of(name: &str, (prefix, count): (&str, u32)) -> bool {
    let Some(digits) = name.strip_prefix(prefix) else {
        return false;
    };
    let is_number = digits == "0" || !digits.starts_with(['0', '+']);
    is_number && digits.parse().is_ok_and(|number: u32| number < count)
}
