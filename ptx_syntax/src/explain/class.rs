//! Classes of instructions.

use std::fmt;

use serde::Serialize;

use crate::ast::Instruction;

/// The kind of work that an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Class {
    /// mma, wmma, wgmma, tcgen05.
    Tensor,
    /// Fused multiply-add of floats.
    Fma,
    /// Other float arithmetic with IEEE-defined results.
    Float,
    /// rcp, sqrt, div, ex2, lg2, sin, cos, tanh of floats.
    Special,
    /// Integer arithmetic, shifts and logic.
    Integer,
    /// setp, set, selp, slct, testp.
    Compare,
    /// cvt and cvta.
    Convert,
    /// mov, prmt and other copies between registers.
    Move,
    /// Loads and stores of global memory.
    Global,
    /// Loads and stores of shared memory, ldmatrix and stmatrix.
    Shared,
    /// Loads and stores of thread-local memory.
    Local,
    /// Loads of constants and parameters, and accesses to the parameters of calls.
    Constant,
    /// Loads and stores through generic addresses.
    Generic,
    /// atom, red.
    Atomic,
    /// cp.async, bulk and tensor copies.
    AsyncCopy,
    /// Barriers, mbarriers and fences.
    Barrier,
    /// shfl, vote, match, redux, elect, activemask.
    Warp,
    /// Branches, calls, exits.
    Control,
    /// Anything else.
    Other,
}

impl Class {
    /// The class of an instruction, by its mnemonic.
    pub fn of(instruction: &Instruction) -> Self {
        match instruction.opcode.as_str() {
            "mma" | "wmma" | "wgmma" | "tcgen05" => Class::Tensor,
            "ld" | "st" | "ldu" | "prefetch" | "tex" | "tld4" | "suld" | "sust" | "multimem" => {
                memory(instruction)
            }
            "ldmatrix" | "stmatrix" | "movmatrix" => Class::Shared,
            "atom" | "red" | "sured" => Class::Atomic,
            "cp" | "tensormap" => Class::AsyncCopy,
            "bar" | "barrier" | "mbarrier" | "fence" | "membar" | "griddepcontrol" => {
                Class::Barrier
            }
            "shfl" | "vote" | "match" | "redux" | "elect" | "activemask" => Class::Warp,
            "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt" | "nanosleep" => {
                Class::Control
            }
            "setp" | "set" | "selp" | "slct" | "testp" => Class::Compare,
            "cvt" | "cvta" | "isspacep" | "mapa" | "getctarank" => Class::Convert,
            "mov" | "prmt" | "szext" => Class::Move,
            "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" => Class::Special,
            opcode => arithmetic(opcode, instruction),
        }
    }
}

fn memory(instruction: &Instruction) -> Class {
    let space = |name: &str| {
        instruction
            .modifiers
            .iter()
            .any(|word| word.split("::").next() == Some(name))
    };
    match instruction.opcode.as_str() {
        "tex" | "tld4" | "suld" | "sust" | "ldu" | "multimem" => Class::Global,
        _ if space("global") => Class::Global,
        _ if space("shared") => Class::Shared,
        _ if space("local") => Class::Local,
        _ if space("param") || space("const") => Class::Constant,
        _ => Class::Generic,
    }
}

fn arithmetic(opcode: &str, instruction: &Instruction) -> Class {
    let is_float = instruction
        .modifiers
        .iter()
        .any(|word| matches!(word.trim_end_matches("x2"), "f16" | "bf16" | "f32" | "f64"));
    match opcode {
        "fma" | "mad" if is_float => Class::Fma,
        "div" if is_float => Class::Special,
        "add" | "sub" | "mul" | "min" | "max" | "abs" | "neg" | "copysign" if is_float => {
            Class::Float
        }
        "add" | "sub" | "mul" | "mad" | "mul24" | "mad24" | "div" | "rem" | "abs" | "neg"
        | "min" | "max" | "sad" | "popc" | "clz" | "bfind" | "fns" | "brev" | "bfe" | "bfi"
        | "bmsk" | "dp4a" | "dp2a" | "addc" | "subc" | "madc" | "and" | "or" | "xor" | "not"
        | "cnot" | "lop3" | "shf" | "shl" | "shr" => Class::Integer,
        _ => Class::Other,
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Class::Tensor => "tensor",
            Class::Fma => "fma",
            Class::Float => "float",
            Class::Special => "special",
            Class::Integer => "integer",
            Class::Compare => "compare",
            Class::Convert => "convert",
            Class::Move => "move",
            Class::Global => "global",
            Class::Shared => "shared",
            Class::Local => "local",
            Class::Constant => "constant",
            Class::Generic => "generic",
            Class::Atomic => "atomic",
            Class::AsyncCopy => "async-copy",
            Class::Barrier => "barrier",
            Class::Warp => "warp",
            Class::Control => "control",
            Class::Other => "other",
        })
    }
}
