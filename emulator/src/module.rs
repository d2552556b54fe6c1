//! Loaded modules.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use ptx_syntax::ast::Linkage::{Common, Extern};
use ptx_syntax::ast::{Constant, Function, FunctionKind, Initializer, Space, Variable};
use ptx_syntax::origins::Origins;

use crate::emulator::COMPUTE_CAPABILITY;
use crate::error::{LaunchError, LoadError, MemoryError};
use crate::limits;
use crate::lower::{self, ParamLayout};
use crate::memory::global::GlobalMemory;
use crate::program::{FUNCTION_HANDLES, Program};

/// A module that an [`Emulator`](crate::Emulator) has loaded; clones share it.
#[derive(Clone, Debug)]
pub struct Module(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kernels: Vec<Kernel>,
    source: Source,
    ast: ptx_syntax::ast::Module,
    /// Addresses of module-scope variables, and handles of functions.
    addresses: HashMap<String, u64>,
    /// Numbers of the functions that have a body, by name and alias.
    bodies: HashMap<String, usize>,
    /// Module-scope variables by name: address and size in bytes.
    variables: HashMap<String, (u64, u64)>,
    memory: Arc<GlobalMemory>,
}

/// A kernel of a module.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) params: Vec<ParamLayout>,
    pub(crate) maxntid: Option<[u32; 3]>,
    pub(crate) reqntid: Option<[u32; 3]>,
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) maxnreg: Option<u32>,
    /// Its number among the functions of the module.
    number: usize,
    /// The kernel as the executor runs it, or why it cannot; made when it is first needed.
    program: OnceLock<Result<Arc<Program>, LoadError>>,
}

/// The module's text, as reports quote it.
#[derive(Debug)]
pub(crate) struct Source {
    text: Box<str>,
    /// Where each line begins; looked for when the first report quotes one.
    starts: OnceLock<Vec<usize>>,
    origins: Origins,
}

impl Source {
    /// A line of the text, from 1.
    pub(crate) fn line(&self, line: u32) -> String {
        let starts = self.starts.get_or_init(|| {
            let ends = self.text.match_indices('\n');
            std::iter::once(0)
                .chain(ends.map(|(at, _)| at + 1))
                .collect()
        });
        let index = (line as usize).checked_sub(1);
        let start = index.and_then(|index| starts.get(index));
        let from = start.and_then(|start| self.text.get(*start..));
        let line = from.and_then(|from| from.lines().next());
        line.unwrap_or_default().trim().to_owned()
    }

    /// The source files and lines that a PTX line comes from: the kernel's first, then those of
    /// what was inlined there.
    pub(crate) fn origin(&self, line: u32) -> &[(String, u32)] {
        self.origins.at(line)
    }
}

impl Module {
    /// Names of the kernels, in the order of the text.
    pub fn kernels(&self) -> Vec<&str> {
        self.0
            .kernels
            .iter()
            .map(|kernel| kernel.name.as_str())
            .collect()
    }

    /// Sizes and alignments of a kernel's parameters, in order; `None` if there is no such kernel.
    pub fn params(&self, kernel: &str) -> Option<&[ParamLayout]> {
        self.kernel(kernel).map(|kernel| kernel.params.as_slice())
    }

    /// Address and size in bytes of a module-scope variable in global or constant memory; `None` if
    /// there is no such variable.
    pub fn variable(&self, name: &str) -> Option<(u64, u64)> {
        self.0.variables.get(name).copied()
    }

    /// Bytes of the module's variables in constant memory.
    pub fn const_bytes(&self) -> u64 {
        let variables = self.0.ast.variables.iter();
        let constant = variables.filter(|variable| variable.space == Space::Const);
        let sizes = constant.filter_map(|variable| self.variable(&variable.name));
        sizes.map(|(_, bytes)| bytes).sum()
    }

    /// The names of the managed variables, whose memory is the host's too.
    pub fn managed(&self) -> Vec<&str> {
        let variables = self.0.ast.variables.iter();
        let managed = variables.filter(|variable| is_managed(variable));
        managed.map(|variable| variable.name.as_str()).collect()
    }

    /// Static shared memory of a kernel in bytes; `None` if there is no such kernel, or if it cannot
    /// run.
    pub fn shared_bytes(&self, kernel: &str) -> Option<u64> {
        let program = self.0.program(self.kernel(kernel)?);
        program.ok().map(|program| program.shared_bytes)
    }

    /// Checks that a kernel can run, which its first launch does too.
    ///
    /// # Errors
    /// [`LaunchError::UnknownKernel`], or [`LaunchError::Unusable`] with what is wrong or
    /// unsupported in the kernel, or in a function that it may call.
    pub fn check(&self, kernel: &str) -> Result<(), LaunchError> {
        let found = self.kernel(kernel).ok_or_else(|| self.unknown(kernel))?;
        self.program(found).map(drop)
    }

    /// A kernel as the executor runs it.
    pub(crate) fn program(&self, kernel: &Kernel) -> Result<Arc<Program>, LaunchError> {
        self.0
            .program(kernel)
            .map_err(|source| LaunchError::Unusable {
                kernel: kernel.name.clone(),
                source: Box::new(source),
            })
    }

    /// The error of a name that no kernel has.
    pub(crate) fn unknown(&self, kernel: &str) -> LaunchError {
        LaunchError::UnknownKernel {
            name: kernel.to_owned(),
            available: self.kernels().into_iter().map(str::to_owned).collect(),
        }
    }

    pub(crate) fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.0.kernels.iter().find(|kernel| kernel.name == name)
    }

    pub(crate) fn source(&self) -> &Source {
        &self.0.source
    }

    pub(crate) fn belongs_to(&self, memory: &Arc<GlobalMemory>) -> bool {
        Arc::ptr_eq(&self.0.memory, memory)
    }

    /// Parses the text and places its variables. Kernels are lowered when they are first needed, but
    /// one that can run must be there: a module in which none can is refused with the first error.
    pub(crate) fn load(
        memory: &Arc<GlobalMemory>,
        text: &str,
        managed: Option<PlaceManaged<'_>>,
    ) -> Result<Self, LoadError> {
        let ast = ptx_syntax::parse(text)?;
        if ast.address_size != 64 {
            let what = format!(".address_size {}", ast.address_size);
            return Err(LoadError::Unsupported { what, line: 1 });
        }
        check_target(&ast)?;
        check_names(&ast)?;
        limits::check(&ast)?;
        let bodies = lower::bodies(&ast);
        let mut inner = Inner {
            kernels: kernels(&ast),
            source: Source {
                text: text.into(),
                starts: OnceLock::new(),
                origins: Origins::of(&ast),
            },
            addresses: HashMap::new(),
            bodies,
            variables: HashMap::new(),
            memory: memory.clone(),
            ast,
        };
        // From here on, dropping `inner` frees the variables that it has placed.
        inner.place_variables(managed)?;
        inner.find_usable()?;
        Ok(Self(Arc::new(inner)))
    }
}

/// Gives memory of the host for a managed variable of so many bytes: its address, aligned to 256
/// bytes at least. `None` if there is none.
pub(crate) type PlaceManaged<'a> = &'a mut dyn FnMut(u64) -> Option<u64>;

/// Whether the host can use a variable at its address, `.attribute(.managed)`.
fn is_managed(variable: &Variable) -> bool {
    variable
        .attributes
        .iter()
        .any(|attribute| attribute == ".managed")
}

/// The kernels of a module, not lowered yet.
fn kernels(ast: &ptx_syntax::ast::Module) -> Vec<Kernel> {
    let functions = ast.functions.iter().enumerate();
    let entries = functions
        .filter(|(_, function)| function.kind == FunctionKind::Entry && function.body.is_some());
    let kernel = |(number, kernel): (usize, &Function)| Kernel {
        name: kernel.name.clone(),
        params: lower::param_layout(kernel),
        maxntid: kernel.directives.maxntid,
        reqntid: kernel.directives.reqntid,
        cluster: kernel.directives.reqnctapercluster,
        maxnreg: limits::max_registers(kernel),
        number,
        program: OnceLock::new(),
    };
    entries.map(kernel).collect()
}

impl Inner {
    /// A kernel as the executor runs it.
    fn program(&self, kernel: &Kernel) -> Result<Arc<Program>, LoadError> {
        let lower = || {
            let number = kernel.number;
            lower::lower_kernel(&self.ast, &self.addresses, &self.bodies, number).map(Arc::new)
        };
        kernel.program.get_or_init(lower).clone()
    }

    /// Checks that a kernel can run, if there is any.
    fn find_usable(&self) -> Result<(), LoadError> {
        let mut first = Ok(());
        for kernel in &self.kernels {
            match self.program(kernel) {
                Ok(_) => return Ok(()),
                Err(error) => first = first.and(Err(error)),
            }
        }
        first
    }

    /// Places the variables in global and constant memory, and writes their initial values.
    fn place_variables(&mut self, mut managed: Option<PlaceManaged<'_>>) -> Result<(), LoadError> {
        let variables = std::mem::take(&mut self.ast.variables);
        let in_memory =
            |variable: &&Variable| matches!(variable.space, Space::Global | Space::Const);
        for variable in variables.iter().filter(in_memory) {
            let managed = managed.as_mut().filter(|_| is_managed(variable));
            self.place(variable, managed)?;
        }
        let addresses = self.variables.iter();
        self.addresses = addresses
            .map(|(name, (at, _))| (name.clone(), *at))
            .collect();
        for (name, number) in &self.bodies {
            let handle = FUNCTION_HANDLES + *number as u64;
            self.addresses.insert(name.clone(), handle);
        }
        for variable in variables.iter().filter(in_memory) {
            self.initialize(variable)?;
        }
        self.ast.variables = variables;
        Ok(())
    }

    fn place(
        &mut self,
        variable: &Variable,
        managed: Option<&mut PlaceManaged<'_>>,
    ) -> Result<(), LoadError> {
        let Some(bytes) = variable.bytes().or_else(|| open_size(variable)) else {
            let what = format!("external variable `{}`", variable.name);
            return Err(LoadError::Unsupported {
                what,
                line: variable.line,
            });
        };
        let (align, read_only) = (variable.alignment(), variable.space == Space::Const);
        let placed = match managed {
            Some(place) => place(bytes)
                .ok_or(MemoryError::HostMemory { requested: bytes })
                .and_then(|address| self.memory.alloc_at(address, bytes).map(|()| address)),
            None => self.memory.alloc_variable(bytes, align.into(), read_only),
        };
        let address = placed.map_err(|source| LoadError::Variable {
            name: variable.name.clone(),
            line: variable.line,
            source,
        })?;
        self.variables
            .insert(variable.name.clone(), (address, bytes));
        Ok(())
    }

    /// Writes a variable's initial value; bytes without one are zero.
    fn initialize(&self, variable: &Variable) -> Result<(), LoadError> {
        let Some(&(address, bytes)) = self.variables.get(&variable.name) else {
            return Ok(());
        };
        let mut image = Vec::new();
        if let Some(init) = &variable.init {
            flatten(init, variable, &self.addresses, &mut image)?;
        }
        if image.len() as u64 > bytes {
            return Err(LoadError::Invalid {
                message: format!("the value of `{}` is longer than it", variable.name),
                line: variable.line,
            });
        }
        self.memory
            .write(address, &image)
            .map_err(|source| LoadError::Variable {
                name: variable.name.clone(),
                line: variable.line,
                source,
            })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for (address, _) in self.variables.values() {
            if let Err(error) = self.memory.free(*address) {
                tracing::debug!(%error, "a module's variable was freed already");
            }
        }
    }
}

/// Checks what a driver checks: that the device runs the module's target, and that the target has
/// every instruction. Functions that nobody calls are compiled too.
fn check_target(ast: &ptx_syntax::ast::Module) -> Result<(), LoadError> {
    let line = ast.target_line;
    let target = ast
        .target()
        .map_err(|source| LoadError::UnknownTarget { line, source })?
        .ok_or(LoadError::NoTarget { line })?;
    if !target.runs_on(COMPUTE_CAPABILITY) {
        let on = COMPUTE_CAPABILITY;
        return Err(LoadError::OtherTarget { target, line, on });
    }
    for instruction in ast.functions.iter().flat_map(Function::instructions) {
        target.check(instruction)?;
    }
    Ok(())
}

/// Checks that the module defines every name once: else a launch would run one of two kernels.
fn check_names(ast: &ptx_syntax::ast::Module) -> Result<(), LoadError> {
    let is_defined = |variable: &&Variable| !matches!(variable.linkage, Extern | Common);
    let variables = ast.variables.iter().filter(is_defined);
    let functions = ast.functions.iter().filter(|f| f.body.is_some());
    let all = variables.map(|variable| (&variable.name, variable.line));
    let all = all.chain(functions.map(|function| (&function.name, function.line)));
    let mut lines = HashMap::new();
    for (name, line) in all {
        if let Some(other) = lines.insert(name, line) {
            let (first, line) = (line.min(other), line.max(other));
            let message = format!("`{name}` is defined already, on line {first}");
            return Err(LoadError::Invalid { message, line });
        }
    }
    Ok(())
}

/// Size of an array declared without one, `name[] = {..}`: that of its initial value.
fn open_size(variable: &Variable) -> Option<u64> {
    match (&variable.init, variable.dims.as_slice()) {
        (Some(Initializer::List(items)), [None]) => {
            Some(items.len() as u64 * u64::from(variable.ty.bytes()))
        }
        _ => None,
    }
}

/// Appends the bytes of a value.
fn flatten(
    init: &Initializer,
    variable: &Variable,
    addresses: &HashMap<String, u64>,
    out: &mut Vec<u8>,
) -> Result<(), LoadError> {
    match init {
        Initializer::List(items) => items
            .iter()
            .try_for_each(|item| flatten(item, variable, addresses, out)),
        Initializer::Value(constant) => {
            let size = variable.ty.bytes() as usize;
            let bits = match constant {
                Constant::Integer(value) => *value as u64,
                Constant::F32(bits) => u64::from(*bits),
                Constant::F64(bits) if size == 4 => {
                    u64::from((f64::from_bits(*bits) as f32).to_bits())
                }
                Constant::F64(bits) => *bits,
                Constant::Symbol {
                    name, offset, mask, ..
                } => {
                    let address = addresses.get(name).ok_or_else(|| LoadError::Undeclared {
                        name: name.clone(),
                        line: variable.line,
                    })?;
                    let address = address.wrapping_add_signed(*offset);
                    mask.map_or(address, |mask| masked(address, mask))
                }
            };
            out.extend_from_slice(&bits.to_le_bytes()[..size.min(8)]);
            Ok(())
        }
    }
}

/// The bits of `value` under `mask`, shifted down to bit 0.
fn masked(value: u64, mask: u64) -> u64 {
    if mask == 0 {
        0
    } else {
        (value & mask) >> mask.trailing_zeros()
    }
}
