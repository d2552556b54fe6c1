//! The syntax tree of a PTX module: what the text says, with nothing resolved.
//!
//! Names keep their sigils (`%r1`, `$L__BB0_2`). Registers are ordinary names, which a consumer has
//! to look up in the declarations of the enclosing function. Lines count from 1.
//!
//! Source: PTX ISA 9.0, chapters 4 (syntax), 5 (state spaces, types, variables), 11 (directives).

/// A whole module: one `.ptx` file.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// `.version major.minor`.
    pub version: (u32, u32),
    /// `.target` list; the first is the architecture (`sm_90a`).
    pub targets: Vec<String>,
    /// Line of the first `.target`.
    pub target_line: u32,
    /// `.address_size`, 64 unless the text says 32.
    pub address_size: u32,
    /// `.file` directives: index and path; a `.loc` refers to the index.
    pub files: Vec<(u32, String)>,
    /// Module-scope `.pragma` strings, unquoted.
    pub pragmas: Vec<String>,
    /// Module-scope variables, in order.
    pub variables: Vec<Variable>,
    /// Entries, functions and prototypes, in order.
    pub functions: Vec<Function>,
    /// `.alias` directives, in order.
    pub aliases: Vec<Alias>,
}

/// `.alias name, target;`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The new name; the module also declares it as a prototype.
    pub name: String,
    /// The function it stands for.
    pub target: String,
    /// Line.
    pub line: u32,
}

/// `.entry` (a kernel) or `.func` (a device function).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionKind {
    /// Launchable from the host.
    Entry,
    /// Callable from device code.
    Func,
}

/// Linkage directive before a variable or a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// No directive: local to the module.
    #[default]
    Internal,
    /// `.visible`
    Visible,
    /// `.extern`
    Extern,
    /// `.weak`
    Weak,
    /// `.common`
    Common,
}

/// A kernel or a device function; a prototype if `body` is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Name as written.
    pub name: String,
    /// Entry or function.
    pub kind: FunctionKind,
    /// Linkage directive.
    pub linkage: Linkage,
    /// Return parameters of a `.func`, in order.
    pub returns: Vec<Variable>,
    /// Parameters, in order.
    pub params: Vec<Variable>,
    /// `.attribute(..)` items with their dot (`.unified(1, 2)`).
    pub attributes: Vec<String>,
    /// Performance directives between the signature and the body.
    pub directives: Directives,
    /// Statements; `None` for a prototype.
    pub body: Option<Vec<Statement>>,
    /// Line of the name.
    pub line: u32,
}

/// Directives of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// `.maxntid x, y, z`; missing extents are 1.
    pub maxntid: Option<[u32; 3]>,
    /// `.reqntid x, y, z`
    pub reqntid: Option<[u32; 3]>,
    /// `.minnctapersm n`
    pub minnctapersm: Option<u32>,
    /// `.maxnctapersm n`
    pub maxnctapersm: Option<u32>,
    /// `.maxnreg n`
    pub maxnreg: Option<u32>,
    /// `.local_maxnreg n`
    pub local_maxnreg: Option<u32>,
    /// `.reqnctapercluster x, y, z`
    pub reqnctapercluster: Option<[u32; 3]>,
    /// `.maxclusterrank n`
    pub maxclusterrank: Option<u32>,
    /// `.explicitcluster`
    pub explicitcluster: bool,
    /// `.blocksareclusters`
    pub blocksareclusters: bool,
    /// `.noreturn`
    pub noreturn: bool,
    /// `.abi_preserve n`
    pub abi_preserve: Option<u32>,
    /// `.abi_preserve_control n`
    pub abi_preserve_control: Option<u32>,
    /// `.pragma` strings, unquoted.
    pub pragmas: Vec<String>,
}

/// State space of a variable or an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// `.reg`
    Reg,
    /// `.const`
    Const,
    /// `.global`
    Global,
    /// `.local`
    Local,
    /// `.param`
    Param,
    /// `.shared`
    Shared,
}

pub use crate::scalar::ScalarType;

/// A declared variable outside register space, or a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// State space.
    pub space: Space,
    /// Linkage directive.
    pub linkage: Linkage,
    /// `.align n` in bytes, if written.
    pub align: Option<u32>,
    /// `.attribute(..)` items with their dot (`.managed`).
    pub attributes: Vec<String>,
    /// `.ptr` attribute of a kernel parameter.
    pub pointer: Option<PointerAttribute>,
    /// Element type.
    pub ty: ScalarType,
    /// Number of elements of a vector: `.v2`, `.v4`.
    pub vector: Option<u8>,
    /// Name as written.
    pub name: String,
    /// Array extents, outermost first: empty for a scalar, `None` for `[]` (size given elsewhere).
    pub dims: Vec<Option<u64>>,
    /// Initial value.
    pub init: Option<Initializer>,
    /// Line of the name.
    pub line: u32,
}

/// `.ptr .space .align n` of a kernel parameter: what its pointer points at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PointerAttribute {
    /// State space pointed into; `None` means generic.
    pub space: Option<Space>,
    /// Alignment in bytes of what it points at.
    pub align: Option<u32>,
}

/// Initial value of a module-scope variable.
#[derive(Clone, Debug, PartialEq)]
pub enum Initializer {
    /// One value.
    Value(Constant),
    /// `{ .., .. }`, possibly nested.
    List(Vec<Initializer>),
}

/// A constant in an initializer.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// An integer with its sign.
    Integer(i128),
    /// `0f` and eight hexadecimal digits: the bits of an f32.
    F32(u32),
    /// `0d` and sixteen hexadecimal digits or a decimal float: the bits of an f64.
    F64(u64),
    /// Address of a symbol: `sym+offset` or `generic(sym)+offset`. `mask` is the byte mask of forms
    /// such as `0xFF(sym)`.
    Symbol {
        /// The symbol's name.
        name: String,
        /// Byte offset added.
        offset: i64,
        /// Written as `generic(..)`.
        generic: bool,
        /// Byte mask, if written.
        mask: Option<u64>,
    },
}

/// One statement of a body.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `name:`
    Label {
        /// Name without the colon.
        name: String,
        /// Line.
        line: u32,
    },
    /// An instruction.
    Instruction(Instruction),
    /// `.reg .type names;`
    Registers(Registers),
    /// A `.shared`, `.local` or `.param` variable declared in a body.
    Variable(Variable),
    /// `{ .. }`: names declared inside are local to it.
    Block(Vec<Statement>),
    /// `label: .branchtargets a, b;`
    BranchTargets {
        /// Label.
        name: String,
        /// Targets in order.
        targets: Vec<String>,
        /// Line.
        line: u32,
    },
    /// `label: .calltargets f, g;`
    CallTargets {
        /// Label.
        name: String,
        /// Functions.
        targets: Vec<String>,
        /// Line.
        line: u32,
    },
    /// `label: .callprototype (ret) _ (params);`
    CallPrototype {
        /// Label.
        name: String,
        /// Return parameters.
        returns: Vec<Variable>,
        /// Parameters.
        params: Vec<Variable>,
        /// Directives after the parameters (`.noreturn`, `.abi_preserve`).
        directives: Directives,
        /// Line.
        line: u32,
    },
    /// `.loc file line column`; applies to the statements that follow.
    Loc {
        /// Index into [`Module::files`].
        file: u32,
        /// Source line.
        line: u32,
        /// Source column.
        column: u32,
        /// File, line and column of the call in whose place this was inlined: a `.loc` before it.
        /// Printed text has none: it stands behind the name of a function, which is in a debug
        /// section, and those are skipped.
        inlined_at: Option<[u32; 3]>,
    },
    /// `.pragma "..";`
    Pragma(String),
}

/// `.reg .b32 %r<5>;` or `.reg .pred p, q;`
#[derive(Clone, Debug, PartialEq)]
pub struct Registers {
    /// Type.
    pub ty: ScalarType,
    /// `.v2`/`.v4`.
    pub vector: Option<u8>,
    /// The declared names.
    pub names: Vec<RegisterNames>,
    /// Line.
    pub line: u32,
}

/// One declarator of a `.reg`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterNames {
    /// A single name.
    One(String),
    /// `prefix<count>`: the names `prefix0` to `prefix{count-1}`.
    Range {
        /// The part before `<`.
        prefix: String,
        /// Number of names.
        count: u32,
    },
}

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// `@p` or `@!p`.
    pub guard: Option<Guard>,
    /// The first word of the mnemonic: `ld` of `ld.global.v4.f32`.
    pub opcode: String,
    /// The other words in order, without dots: `["global", "v4", "f32"]`. `::` stays inside a word
    /// (`shared::cta`).
    pub modifiers: Vec<String>,
    /// Operands in order.
    pub operands: Vec<Operand>,
    /// It loads or prefetches data that its kernel reads once: [`READS_ONCE`] stands behind it.
    pub reads_once: bool,
    /// Line in the PTX text.
    pub line: u32,
}

/// The comment that marks an instruction with [`Instruction::reads_once`]. It stands behind the
/// instruction and ends the line. PTX has no word for this, and LLVM keeps comments of `asm!`.
pub const READS_ONCE: &str = "// once";

/// Guard predicate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Predicate register.
    pub register: String,
    /// `@!p`
    pub negated: bool,
}

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A register, special register (`%tid.x` includes the suffix), label, function or variable.
    Name(String),
    /// Integer literal (decimal, hex, octal or binary; a `U` suffix is dropped).
    Integer(i128),
    /// `0f` and eight hexadecimal digits
    F32(u32),
    /// `0d` and sixteen hexadecimal digits, or a decimal float.
    F64(u64),
    /// `[base+offset]`, `[base]`, `[imm]`; for tensor copies also `[map, {c0, c1}]`, whose items
    /// after the comma are in `extra`.
    Address {
        /// What precedes the offset.
        base: AddressBase,
        /// Byte offset.
        offset: i64,
        /// Items after a comma inside the brackets.
        extra: Vec<Operand>,
    },
    /// `{a, b}`
    Vector(Vec<Operand>),
    /// `d|p`
    Pair(Box<Operand>, Box<Operand>),
    /// `!p`
    Not(Box<Operand>),
    /// `-x` before a name.
    Negated(Box<Operand>),
    /// A symbol with an offset, `sym+4`. (A component such as `%v.x` is a `Name`.)
    SymbolOffset {
        /// The symbol.
        name: String,
        /// Byte offset.
        offset: i64,
    },
    /// An element of an array variable: `array[3]`, `array[%r1]`, `array[%r1+3]`. The index counts
    /// elements, not bytes.
    Element {
        /// The variable.
        array: String,
        /// Index register.
        register: Option<String>,
        /// Constant part of the index.
        offset: i64,
    },
    /// `_`
    Sink,
    /// `(a, b)` in a call.
    List(Vec<Operand>),
}

/// Base of an address operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressBase {
    /// Register or variable name.
    Name(String),
    /// An absolute address.
    Absolute(u64),
}
