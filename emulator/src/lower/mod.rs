//! Lowering: turns the syntax tree of a module into a [`Program`] per kernel, once, when the kernel
//! is first needed.
//!
//! Registers become slots, labels become positions, symbols become addresses, and each mnemonic
//! becomes an operation whose types are decided. Unsupported parts are refused with their name and
//! line.

mod approx;
mod atomic;
mod call;
mod cluster;
mod compare;
mod control;
mod convert;
mod copy;
mod desugar;
mod dispatch;
mod float;
mod half;
mod image;
mod integer;
mod lanewise;
mod layout;
mod logic;
mod mbarrier;
mod memory;
mod mods;
mod operands;
mod pool;
mod recipe;
mod remote;
mod scope;
mod special;
mod tensor;
mod video;
mod warp;
mod watch;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use ptx_syntax::ast::{Function, FunctionKind, Module, Statement, Variable};
use ptx_syntax::isa::Class;
use ptx_syntax::unwritten::Doubtful;

use crate::check::MOST_INSTRUCTIONS;
use crate::error::LoadError;
use crate::exec::registers::{Extent, Slot};
use crate::limits;
use crate::memory::local::LOCAL_LIMIT;
use crate::memory::shared::SHARED_BASE;
use crate::profile::Kind;
use crate::program::{
    Bounds, Doubt, FunctionInfo, Guard, Inst, Op, Program, Reg, Scope, Special, Strength, Width,
};
use layout::Frame;
pub use layout::ParamLayout;
pub(crate) use layout::{bodies, param_layout};
use pool::Pool;
use scope::{Scopes, Symbol};

/// Lowers a kernel, given by its number in the module, with all that it may call. `globals` maps
/// module-scope variables in global and constant memory to their addresses, and functions to their
/// handles; `bodies` are those of the module.
pub(crate) fn lower_kernel(
    module: &Module,
    globals: &HashMap<String, u64>,
    bodies: &HashMap<String, usize>,
    kernel: usize,
) -> Result<Program, LoadError> {
    let numbers = layout::reached(module, bodies, kernel);
    let mut handles = vec![None; module.functions.len()];
    for (i, number) in numbers.iter().enumerate() {
        handles[*number] = Some(i as u32);
    }
    let plain = numbers
        .iter()
        .map(|&number| desugar::desugar(&module.functions[number]))
        .collect::<Result<Vec<_>, _>>()?;
    let reached: Vec<&Function> = plain.iter().map(AsRef::as_ref).collect();
    let shared = layout::shared_layout(module, &reached)?;
    let mut build = Build {
        module,
        globals,
        shared: shared.addresses,
        shared_from: SHARED_BASE,
        bodies,
        handles,
        pool: Pool::default(),
        code: Vec::new(),
        touched: Vec::new(),
        kinds: Vec::new(),
        ordered: false,
    };
    let mut functions = Vec::new();
    for function in &reached {
        functions.push(FunctionLowering::run(&mut build, function)?);
    }
    build.touched.resize(build.code.len(), Box::default());
    for (info, function) in functions.iter().zip(&reached) {
        tracing::trace!(name = info.name, line = function.line, "lowered");
    }
    if let Some(inst) = build.code.get(MOST_INSTRUCTIONS) {
        let message = format!("a kernel of more than {MOST_INSTRUCTIONS} instructions");
        return Err(LoadError::Invalid {
            message,
            line: inst.line,
        });
    }
    let reads_workspace = |inst: &Inst| match inst.op {
        Op::Special { source, .. } => matches!(source, Special::GridWorkspace { .. }),
        _ => false,
    };
    let heap = |inst: &Inst| matches!(inst.op, Op::Heap(_));
    let heap = build.code.iter().any(heap);
    Ok(Program {
        heap,
        grid_workspace: build.code.iter().any(reads_workspace),
        code: build.code,
        kinds: build.kinds,
        constants: build.pool.constants,
        touched: build.touched,
        functions,
        handles: build.handles,
        shared_bytes: shared.bytes,
        shared_from: build.shared_from,
        bounds: bounds(&module.functions[kernel]),
        ordered: build.ordered || heap,
    })
}

/// The bounds that a kernel's directives put on its launches.
fn bounds(kernel: &Function) -> Bounds {
    let directives = &kernel.directives;
    let threads = directives.reqntid.or(directives.maxntid);
    Bounds {
        threads: threads.map(|extents| extents.into_iter().fold(1, u32::saturating_mul)),
        blocks: directives.minnctapersm.unwrap_or(1),
        max_registers: limits::max_registers(kernel),
        explicit_cluster: directives.reqnctapercluster.is_some() || directives.explicitcluster,
    }
}

/// What it gives to lower an instruction: its operations have been appended, or it is refused.
type Lowered = Result<(), LoadError>;

/// State that is shared by the functions of one program while it is built.
struct Build<'a> {
    module: &'a Module,
    globals: &'a HashMap<String, u64>,
    shared: HashMap<String, u64>,
    /// See [`Program::shared_from`].
    shared_from: u64,
    /// Numbers in the module of all functions that have a body.
    bodies: &'a HashMap<String, usize>,
    /// See [`Program::handles`].
    handles: Vec<Option<u32>>,
    pool: Pool,
    code: Vec<Inst>,
    /// The registers that each operation names.
    touched: Vec<Box<[Reg]>>,
    kinds: Vec<Kind>,
    ordered: bool,
}

/// Lowering of one function.
struct FunctionLowering<'a, 'b> {
    build: &'b mut Build<'a>,
    function: &'a Function,
    scopes: Scopes,
    registers: Extent,
    frame: Frame,
    /// Position of each label, once it has been reached.
    labels: Vec<Option<u32>>,
    /// The carry flag.
    carry: Slot,
    /// Return parameters that are registers, with their places in the frame.
    returned: Vec<(Reg, u64)>,
    /// Line of the instruction being lowered.
    line: u32,
    /// Its guard.
    guard: Option<Guard>,
    /// The registers that it names.
    named: std::cell::RefCell<Vec<Reg>>,
    /// Its registers that may be read before they are written.
    doubtful: Doubtful<'a>,
    /// For each of them, the predicate of the lanes in which it is unwritten.
    unwritten: Vec<Slot>,
    /// For each element that the instruction stores, the same if it may be unwritten; empty if none
    /// may.
    stored: Box<[Option<(Slot, Doubt)>]>,
    /// Number of instructions so far.
    instructions: u32,
}

impl<'a, 'b> FunctionLowering<'a, 'b> {
    fn run(build: &'b mut Build<'a>, function: &'a Function) -> Result<FunctionInfo, LoadError> {
        let entry = build.code.len() as u32;
        let mut this = Self {
            build,
            function,
            scopes: Scopes::default(),
            registers: Extent::default(),
            frame: Frame::default(),
            labels: Vec::new(),
            carry: Slot::register(0),
            returned: Vec::new(),
            line: function.line,
            guard: None,
            named: Default::default(),
            doubtful: Doubtful::of(function),
            unwritten: Vec::new(),
            stored: Box::default(),
            instructions: 0,
        };
        this.carry = this.fresh(Width::Pred).slot;
        let (params, results) = this.declare_signature()?;
        this.begin_watch();
        this.statements(function.body.as_deref().unwrap_or_default())?;
        this.guard = None;
        this.leave();
        let end = Kind::plain(Class::Control);
        this.build.kinds.resize(this.build.code.len(), end);
        this.patch(entry as usize)?;
        this.check_frame()?;
        Ok(FunctionInfo {
            name: function.name.clone(),
            entry,
            registers: this.registers,
            frame_bytes: this.frame.bytes(),
            params,
            results,
        })
    }

    /// Checks that a thread's local memory has room for the frame.
    fn check_frame(&self) -> Lowered {
        let bytes = self.frame.bytes();
        if bytes <= LOCAL_LIMIT {
            return Ok(());
        }
        let message = format!(
            "`{}` needs {bytes} bytes of local memory, want {LOCAL_LIMIT} or less",
            self.function.name
        );
        let line = self.function.line;
        Err(LoadError::Invalid { message, line })
    }

    fn is_kernel(&self) -> bool {
        self.function.kind == FunctionKind::Entry
    }

    /// Parameters of a kernel are in parameter space, those of a function in its frame.
    #[allow(clippy::type_complexity)] // two lists of (offset, size)
    fn declare_signature(&mut self) -> Result<(Vec<(u64, u64)>, Vec<(u64, u64)>), LoadError> {
        self.scopes.open();
        if self.is_kernel() {
            for (param, layout) in self.function.params.iter().zip(param_layout(self.function)) {
                self.line = param.line;
                self.declare(&param.name, Symbol::KernelParam(layout.offset))?;
            }
            return Ok((Vec::new(), Vec::new()));
        }
        let (mut given, mut returned) = (Vec::new(), Vec::new());
        let params = self.frame_variables(&self.function.params, &mut given)?;
        let results = self.frame_variables(&self.function.returns, &mut returned)?;
        for (reg, offset) in given {
            self.load_frame(reg, offset);
        }
        self.returned = returned;
        Ok((params, results))
    }

    /// Places parameters in the frame; those that are registers are also added to `registers`.
    fn frame_variables(
        &mut self,
        variables: &[Variable],
        registers: &mut Vec<(Reg, u64)>,
    ) -> Result<Vec<(u64, u64)>, LoadError> {
        variables
            .iter()
            .map(|variable| {
                let bytes = self.sized(variable)?;
                let offset = self.frame.place(bytes, u64::from(variable.alignment()));
                let symbol = if variable.space == ptx_syntax::ast::Space::Reg {
                    let reg = self.register_parameter(variable)?;
                    registers.push((reg, offset));
                    Symbol::Register(reg)
                } else {
                    Symbol::Frame(offset, bytes)
                };
                self.line = variable.line;
                self.declare(&variable.name, symbol)?;
                Ok((offset, bytes))
            })
            .collect()
    }

    fn sized(&self, variable: &Variable) -> Result<u64, LoadError> {
        let bytes = variable.bytes().filter(|bytes| *bytes <= LOCAL_LIMIT);
        bytes.ok_or_else(|| LoadError::Invalid {
            message: format!(
                "`{}` must have a size, of at most {LOCAL_LIMIT} bytes",
                variable.name
            ),
            line: variable.line,
        })
    }

    fn statements(&mut self, statements: &'a [Statement]) -> Lowered {
        self.scopes.open();
        self.declare_labels(statements)?;
        for statement in statements {
            match statement {
                Statement::Label { name, .. } => self.place_label(name),
                Statement::Instruction(inst) => self.instruction(inst)?,
                Statement::Registers(registers) => self.declare_registers(registers)?,
                Statement::Variable(variable) => self.declare_variable(variable)?,
                Statement::Block(inner) => self.statements(inner)?,
                Statement::BranchTargets { .. }
                | Statement::CallTargets { .. }
                | Statement::CallPrototype { .. }
                | Statement::Loc { .. }
                | Statement::Pragma(_) => {}
            }
        }
        self.scopes.close();
        Ok(())
    }

    /// Adds a name to the innermost block.
    fn declare(&mut self, name: &str, symbol: Symbol) -> Lowered {
        match self.scopes.declare(name, symbol) {
            true => Ok(()),
            false => Err(self.invalid(format!("`{name}` is declared twice in one block"))),
        }
    }

    fn declare_labels(&mut self, statements: &'a [Statement]) -> Lowered {
        for statement in statements {
            let (name, line, symbol) = match statement {
                Statement::Label { name, line } => {
                    self.labels.push(None);
                    (name, line, Symbol::Label(self.labels.len() as u32 - 1))
                }
                Statement::CallTargets { name, line, .. }
                | Statement::CallPrototype { name, line, .. } => (name, line, Symbol::Prototype),
                _ => continue,
            };
            self.line = *line;
            self.declare(name, symbol)?;
        }
        for statement in statements {
            if let Statement::BranchTargets {
                name,
                targets,
                line,
            } = statement
            {
                self.line = *line;
                let labels = targets.iter().map(|target| self.label(target));
                let labels = labels.collect::<Result<_, _>>()?;
                self.declare(name, Symbol::BranchTargets(labels))?;
            }
        }
        Ok(())
    }

    fn place_label(&mut self, name: &str) {
        if let Some(Symbol::Label(label)) = self.scopes.get(name) {
            self.labels[*label as usize] = Some(self.build.code.len() as u32);
        }
    }

    fn declare_variable(&mut self, variable: &Variable) -> Lowered {
        use ptx_syntax::ast::Space;
        self.line = variable.line;
        let symbol = match variable.space {
            Space::Local | Space::Param => {
                let bytes = self.sized(variable)?;
                let offset = self.frame.place(bytes, u64::from(variable.alignment()));
                Symbol::Frame(offset, bytes)
            }
            Space::Shared => match self.build.shared.get(&variable.name) {
                Some(address) => Symbol::Shared(*address),
                None => return Err(self.undeclared(&variable.name)),
            },
            Space::Global | Space::Const | Space::Reg => {
                return Err(self.unsupported(&format!("variable `{}` here", variable.name)));
            }
        };
        self.declare(&variable.name, symbol)
    }

    /// Appends an operation with the current guard and line.
    fn emit(&mut self, op: Op) {
        self.emit_with(self.guard, op);
    }

    /// Appends an operation that ignores the guard: it prepares the next operation.
    fn emit_unguarded(&mut self, op: Op) {
        self.emit_with(None, op);
    }

    fn emit_with(&mut self, guard: Option<Guard>, op: Op) {
        self.build.code.push(Inst {
            op,
            guard,
            line: self.line,
            weight: 1,
            strength: Strength::default(),
            scope: Scope::default(),
            computes: false,
        });
    }

    /// A new scratch register.
    fn fresh(&mut self, width: Width) -> Reg {
        let counter = match width {
            Width::Pred => &mut self.registers.pred,
            Width::B16 => &mut self.registers.b16,
            Width::B32 => &mut self.registers.b32,
            Width::B64 => &mut self.registers.b64,
        };
        let slot = Slot::register(*counter);
        *counter += 1;
        Reg { slot, width }
    }

    /// Replaces label numbers by positions in the code.
    fn patch(&mut self, from: usize) -> Lowered {
        let labels = &self.labels;
        let position = |label: u32, line| {
            labels[label as usize].ok_or_else(|| LoadError::Invalid {
                message: "branch to a label that is not placed".to_owned(),
                line,
            })
        };
        let mut tables: HashMap<*const u32, Arc<[u32]>> = HashMap::new();
        for inst in &mut self.build.code[from..] {
            match &mut inst.op {
                Op::Branch { target } => *target = position(*target, inst.line)?,
                Op::BranchIndexed { targets, .. } => {
                    let labels = targets.iter().map(|label| position(*label, inst.line));
                    let placed = match tables.entry(targets.as_ptr()) {
                        Entry::Occupied(found) => found.into_mut(),
                        Entry::Vacant(new) => new.insert(labels.collect::<Result<_, _>>()?),
                    };
                    *targets = placed.clone();
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn unsupported(&self, what: &str) -> LoadError {
        LoadError::Unsupported {
            what: what.to_owned(),
            line: self.line,
        }
    }

    fn invalid(&self, message: impl Into<String>) -> LoadError {
        LoadError::Invalid {
            message: message.into(),
            line: self.line,
        }
    }

    fn undeclared(&self, name: &str) -> LoadError {
        LoadError::Undeclared {
            name: name.to_owned(),
            line: self.line,
        }
    }
}
