//! Fragments: the instructions of a function, ready to be inlined in a kernel.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::FuseError;
use super::text::{Function, Pieces, names, renamed, variable_name};

/// Type of a value in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 32-bit integer, or 32 bits with packed narrower elements.
    U32,
    /// Unsigned 64-bit integer, or an address.
    U64,
}

impl Scalar {
    const ALL: [(Self, &'static str); 6] = [
        (Self::F32, "f32"),
        (Self::F64, "f64"),
        (Self::I32, "i32"),
        (Self::I64, "i64"),
        (Self::U32, "u32"),
        (Self::U64, "u64"),
    ];

    /// The type with this name in Rust, such as `f32`.
    pub fn from_name(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, own)| *own == name);
        found.map(|(scalar, _)| *scalar)
    }

    /// Whether it occupies a 64-bit register.
    pub(super) fn is_wide(self) -> bool {
        matches!(self, Self::F64 | Self::I64 | Self::U64)
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::ALL.iter().find(|(own, _)| own == self);
        f.pad(found.map_or("", |(_, name)| name))
    }
}

/// A function marked `#[cuda_std::fragment]`, extracted from PTX that cuda_builder built. A clone
/// is another handle to it.
///
/// ```
/// use warpsmith::fuse::{Fragment, Scalar};
/// # let ptx = ".version 7.8\n.target sm_75\n.address_size 64\n\
/// #     .visible .func (.param .b32 func_retval0) f32_twice(\n.param .b32 f32_twice_param_0\n)\n{\n\
/// #     .reg .b32 %r<3>;\nld.param.b32 \t%r1, [f32_twice_param_0];\nadd.rn.f32 \t%r2, %r1, %r1;\n\
/// #     st.param.b32 \t[func_retval0], %r2;\nret;\n}\n";
/// // let ptx = include_str!("../ptx/sm_75/kernels.ptx");
/// // SAFETY: cuda_builder made the text.
/// let twice = unsafe { Fragment::from_ptx(ptx, "f32_twice", &[Scalar::F32], Scalar::F32) }?;
/// assert_eq!(twice.instructions(), 1);
/// # Ok::<(), warpsmith::Error>(())
/// ```
#[derive(Clone)]
pub struct Fragment(Arc<Inner>);

struct Inner {
    /// Unique in this process.
    id: u64,
    name: Box<str>,
    params: Box<[Scalar]>,
    result: Scalar,
    version: Box<str>,
    target: Box<str>,
    lines: Box<[Line]>,
    /// Constants of the module that it reads, renamed so that those of two modules cannot clash.
    variables: Box<[Box<str>]>,
    instructions: u32,
}

/// A line of a fragment.
enum Line {
    /// A line that is copied unchanged.
    Text(Box<str>),
    /// Register = argument (`ld.param`).
    Argument { register: Box<str>, index: usize },
    /// Result = register or immediate.
    Result {
        from: Box<str>,
        /// Of a register of 64 bits.
        is_wide: bool,
    },
    /// Goes to the end.
    Return { guard: Box<str> },
}

impl Fragment {
    /// Extracts the fragment `name` from a module's text. `params` and `result` are its parameter
    /// and result types, which the manifest of the module lists.
    ///
    /// # Errors
    /// [`KernelError::Fuse`](crate::KernelError::Fuse), with the reason.
    ///
    /// # Safety
    /// The text is one that cuda_builder made. It has refused functions that do more than compute
    /// on their arguments. The text runs wherever the fragment is [applied](crate::Chain::apply),
    /// which is safe. A store in it would write to any memory.
    ///
    /// ```compile_fail,E0133
    /// use warpsmith::fuse::{Fragment, Scalar};
    /// Fragment::from_ptx("st.global.b32 [%rd1],0;", "f32_poke", &[Scalar::F32], Scalar::F32);
    /// ```
    pub unsafe fn from_ptx(
        ptx: &str,
        name: &str,
        params: &[Scalar],
        result: Scalar,
    ) -> crate::Result<Self> {
        Ok(Self::of(&Pieces::of(ptx), name, params, result)?)
    }

    pub(super) fn of(
        pieces: &Pieces<'_>,
        name: &str,
        params: &[Scalar],
        result: Scalar,
    ) -> Result<Self, FuseError> {
        let Some(function) = pieces.function(name, false) else {
            let functions = pieces.functions.iter();
            let known: Vec<&str> = functions.filter(|f| !f.is_kernel).map(|f| f.name).collect();
            return Err(FuseError::UnknownFragment {
                name: name.into(),
                known: if known.is_empty() {
                    "none".into()
                } else {
                    known.join(", ").into()
                },
            });
        };
        let parsed =
            Parsed::of(function, params, result).map_err(|reason| FuseError::NotAFragment {
                name: name.into(),
                reason: reason.into(),
            })?;
        let instructions = parsed.instructions;
        let (lines, variables) = parsed.with_variables(&pieces.variables);
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Ok(Self(Arc::new(Inner {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: name.into(),
            params: params.into(),
            result,
            version: pieces.version.into(),
            target: pieces.target.into(),
            instructions,
            lines,
            variables,
        })))
    }

    /// Name of the function.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Types of its parameters.
    pub fn params(&self) -> &[Scalar] {
        &self.0.params
    }

    /// Type of its result.
    pub fn result(&self) -> Scalar {
        self.0.result
    }

    /// Number of PTX instructions, without those that move arguments and result.
    pub fn instructions(&self) -> u32 {
        self.0.instructions
    }

    pub(super) fn version(&self) -> &str {
        &self.0.version
    }

    pub(super) fn target(&self) -> &str {
        &self.0.target
    }

    pub(super) fn variables(&self) -> &[Box<str>] {
        &self.0.variables
    }

    /// A number that is unique among the fragments of this process.
    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// Writes the scope that computes `result` from `arguments`; all are names of registers.
    pub(super) fn write(&self, out: &mut String, arguments: &[String], result: &str) {
        let width = |scalar: Scalar| if scalar.is_wide() { "b64" } else { "b32" };
        let mut returns_early = false;
        let _ = writeln!(out, "{{ // {}", self.name());
        let last = self.0.lines.len().saturating_sub(1);
        for (at, line) in self.0.lines.iter().enumerate() {
            // Writing to a string does not fail.
            let _ = match line {
                Line::Text(text) => writeln!(out, "{text}"),
                Line::Argument { register, index } => {
                    let width = width(self.0.params[*index]);
                    writeln!(out, "mov.{width}\t{register},{};", arguments[*index])
                }
                // A store of 32 bits takes the low ones of a register of 64.
                Line::Result { from, is_wide } if *is_wide && !self.0.result.is_wide() => {
                    writeln!(out, "cvt.u32.u64\t{result},{from};")
                }
                Line::Result { from, .. } => {
                    writeln!(out, "mov.{}\t{result},{from};", width(self.0.result))
                }
                Line::Return { guard } if at == last && guard.is_empty() => Ok(()),
                Line::Return { guard } => {
                    returns_early = true;
                    writeln!(out, "{guard}bra\t$end;")
                }
            };
        }
        if returns_early {
            out.push_str("$end:\n");
        }
        out.push_str("}\n");
    }
}

/// The parsed lines of a function.
struct Parsed {
    lines: Vec<Line>,
    instructions: u32,
    /// Declarators of registers of 64 bits.
    wide: Vec<String>,
}

impl Parsed {
    fn of(function: &Function<'_>, params: &[Scalar], result: Scalar) -> Result<Self, String> {
        let header = function.header.join(" ");
        let (returned, taken) = header.split_once(function.name).unwrap_or((&header, ""));
        let declared = [taken, returned].map(|part| {
            let words = part
                .split([' ', '(', ')', ','])
                .filter(|word| word.starts_with(".b"));
            words.map(|word| word == ".b64").collect::<Vec<bool>>()
        });
        let want: Vec<bool> = params.iter().map(|param| param.is_wide()).collect();
        if declared[0] != want || declared[1] != [result.is_wide()] {
            return Err(format!(
                "its text does not take {params:?} and return {result}: `{}`",
                header.trim()
            ));
        }
        let mut parsed = Self {
            lines: Vec::new(),
            instructions: 0,
            wide: Vec::new(),
        };
        for line in &function.body {
            parsed.push(line, function.name, params.len())?;
        }
        Ok(parsed)
    }

    fn push(&mut self, line: &str, function: &str, params: usize) -> Result<(), String> {
        let unexpected = || format!("`{line}` is not what a function of its arguments has");
        let read = match line.strip_prefix("ld.param.") {
            Some(load) => {
                let argument = loaded(load, function).filter(|(_, index)| *index < params);
                let (register, index) = argument.ok_or_else(unexpected)?;
                Line::Argument {
                    register: register.into(),
                    index,
                }
            }
            None if line.starts_with("st.param.") => {
                let (_, from) = line.split_once("[func_retval0],").ok_or_else(unexpected)?;
                let from = from.trim_end_matches(';').trim();
                Line::Result {
                    from: from.into(),
                    is_wide: self.wide.iter().any(|wide| declares(wide, from)),
                }
            }
            None if line == "ret;" || line.ends_with(" ret;") => Line::Return {
                guard: line.trim_end_matches("ret;").into(),
            },
            None if line.contains("call") || line.starts_with(".local") => {
                return Err(unexpected());
            }
            None => {
                if let Some(declarators) = line.strip_prefix(".reg .b64") {
                    let declarators = declarators.trim_end_matches(';').split(',');
                    self.wide
                        .extend(declarators.map(|name| name.trim().to_owned()));
                }
                let is_instruction = line.ends_with(';') && !line.starts_with('.');
                self.instructions += u32::from(is_instruction);
                Line::Text(line.into())
            }
        };
        self.lines.push(read);
        Ok(())
    }

    /// The lines and the variables that they refer to. A variable's new name contains a hash of its
    /// contents, because two modules may give different constants the same name.
    fn with_variables(mut self, variables: &[&str]) -> (Box<[Line]>, Box<[Box<str>]>) {
        let mut own: Vec<Box<str>> = Vec::new();
        for variable in variables {
            let name = variable_name(variable);
            let new = || format!("{name}_{}", ptx_syntax::manifest::hash(variable));
            let texts = self.lines.iter_mut().filter_map(|line| match line {
                Line::Text(text) if names(text, name) => Some(text),
                _ => None,
            });
            let mut is_used = false;
            for text in texts {
                *text = renamed(text, name, &new()).into();
                is_used = true;
            }
            if is_used {
                let local = renamed(variable, name, &new()).replace(".visible ", "");
                own.push(local.into());
            }
        }
        (self.lines.into(), own.into())
    }
}

/// The register and the parameter's index of `b32 %r1, [f_param_0];`, where `f` is the function.
fn loaded<'a>(load: &'a str, function: &str) -> Option<(&'a str, usize)> {
    let (_, operands) = load.split_once(char::is_whitespace)?;
    let (register, address) = operands.split_once(',')?;
    let param = address.trim().strip_prefix('[')?.strip_suffix("];")?;
    let index = param.strip_prefix(function)?.strip_prefix("_param_")?;
    Some((register.trim(), index.parse().ok()?))
}

/// Whether the declarator, `%a` or `%a<2>`, declares the register.
fn declares(declarator: &str, register: &str) -> bool {
    declarator
        .split_once('<')
        .map_or(declarator == register, |(prefix, _)| {
            let number = register.strip_prefix(prefix);
            number.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
        })
}

impl fmt::Debug for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Fragment({}{:?} -> {})",
            self.name(),
            self.params(),
            self.result()
        )
    }
}
