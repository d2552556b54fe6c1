//! The table: each opcode with its facts, and the facts of forms with other modifiers that differ.
//!
//! The facts are: the class; what happens to the operands; the effect; whether it may stand before
//! `griddepcontrol.wait`; and the first architecture and PTX version that have it. Without the last,
//! every module has it that ptxas 13.0 assembles: for sm_75 or newer, of PTX 6.3 or newer.
//!
//! Source: PTX ISA 9.0, chapter 9.7. The architectures and versions were tried with ptxas 13.0.

use super::Class::*;
use super::Effect::*;
use super::Operands::*;
use super::Sort::{self, Memory, Of};
use super::Wait::*;
use super::{Facts, Since, facts, opcodes};
use crate::target::Target;

/// Float additions and products, which are integer arithmetic on other types.
const SUM: Sort = float(Float, 1, Integer);
/// Float instructions that compute nothing that would be counted.
const SIGN: Sort = float(Float, 0, Integer);

opcodes! {
    // Arithmetic.
    Abs "abs", Neg "neg": (SIGN, Computed, Nothing, Yes)
    Add "add", Max "max", Min "min", Mul "mul", Sub "sub": (SUM, Computed, Nothing, Yes)
    Addc "addc", Dp2a "dp2a", Dp4a "dp4a", Mad24 "mad24", Madc "madc", Mul24 "mul24", Rem "rem",
    Sad "sad", Subc "subc": (Of(Integer), Computed, Nothing, Yes)
    Bmsk "bmsk": (Of(Integer), Computed, Nothing, Yes, ptx(7, 6))
    Copysign "copysign": (float(Float, 0, Other), Computed, Nothing, Yes)
    Cos "cos", Ex2 "ex2", Lg2 "lg2", Rcp "rcp", Rsqrt "rsqrt", Sin "sin", Sqrt "sqrt":
        (Of(Special), Computed, Nothing, Yes)
    Div "div": (float(Special, 0, Integer), Computed, Nothing, Yes)
    Fma "fma": (float(Fma, 2, Other), Computed, Nothing, Yes)
    Mad "mad": (float(Fma, 2, Integer), Computed, Nothing, Yes)
    Tanh "tanh": (Of(Special), Computed, Nothing, Yes, ptx(7, 0))

    // Comparisons and choices.
    Selp "selp": (Of(Compare), Selected, Nothing, Yes)
    Set "set", Setp "setp", Slct "slct", Testp "testp": (Of(Compare), Computed, Nothing, Yes)

    // Logic, shifts, bit fields.
    And "and", Bfi "bfi", Lop3 "lop3", Not "not", Or "or", Shf "shf", Xor "xor":
        (Of(Integer), Merged, Nothing, Yes)
    Bfe "bfe", Bfind "bfind", Brev "brev", Clz "clz", Cnot "cnot", Fns "fns", Popc "popc",
    Shl "shl", Shr "shr": (Of(Integer), Computed, Nothing, Yes)
    Prmt "prmt": (Of(Move), Merged, Nothing, Yes)
    Szext "szext": (Of(Move), Computed, Nothing, Yes, ptx(7, 6))

    // Video instructions.
    Vabsdiff "vabsdiff", Vabsdiff2 "vabsdiff2", Vabsdiff4 "vabsdiff4", Vadd "vadd",
    Vadd2 "vadd2", Vadd4 "vadd4", Vavrg2 "vavrg2", Vavrg4 "vavrg4", Vmad "vmad", Vmax "vmax",
    Vmax2 "vmax2", Vmax4 "vmax4", Vmin "vmin", Vmin2 "vmin2", Vmin4 "vmin4", Vset "vset",
    Vset2 "vset2", Vset4 "vset4", Vshl "vshl", Vshr "vshr", Vsub "vsub", Vsub2 "vsub2",
    Vsub4 "vsub4": (Of(Other), Computed, Nothing, Yes)

    // Moves, conversions, addresses.
    Cvt "cvt": (Of(Convert), Merged, Nothing, Yes)
    Cvta "cvta", Isspacep "isspacep": (Of(Convert), Computed, Nothing, Yes)
    Getctarank "getctarank", Mapa "mapa": (Of(Convert), Written, Nothing, Yes, since(90, 7, 8))
    Istypep "istypep": (Of(Other), Written, Nothing, Yes)
    Mov "mov": (Of(Move), Merged, Nothing, Yes)

    // Memory.
    Atom "atom": (Of(Atomic), Written, Updates, No)
    Ld "ld": (Memory, Written, Reads, Own)
    Ldmatrix "ldmatrix": (Of(Shared), Written, Reads, No, ptx(6, 5))
    Ldu "ldu": (Of(Global), Written, Reads, No)
    Multimem "multimem": (Of(Global), Written, Updates, No, since(90, 8, 1))
    Red "red": {
        (Of(Atomic), Read, Updates, No)
        "async": (Of(Atomic), Read, Asynchronous, No, since(90, 8, 1))
    }
    St "st": {
        (Memory, Stored, Writes, Own)
        "async": (Memory, Read, Asynchronous, No, since(90, 8, 1))
        "bulk": (Memory, Read, Asynchronous, No, since(100, 8, 6))
        // Parameters of a call go on into registers, in the function that is called.
        "param": (Memory, Read, Writes, No)
        "param::func": (Memory, Read, Writes, No)
    }
    Stmatrix "stmatrix": (Of(Shared), Read, Writes, No, since(90, 7, 8))

    // Caches.
    Applypriority "applypriority", Discard "discard":
        (Of(Other), Read, Hints, No, since(80, 7, 4))
    Createpolicy "createpolicy": (Of(Other), Written, Nothing, Yes, since(80, 7, 4))
    Prefetch "prefetch": {
        (Memory, Read, Hints, No)
        "tensormap": (Memory, Read, Hints, No, since(90, 8, 0))
    }
    Prefetchu "prefetchu": (Of(Other), Read, Hints, No)

    // Textures and surfaces.
    Suld "suld", Tex "tex", Tld4 "tld4": (Of(Global), Written, Reads, No)
    Suq "suq", Txq "txq": (Of(Other), Written, Reads, No)
    Sured "sured": (Of(Atomic), Read, Updates, No)
    Sust "sust": (Of(Global), Read, Writes, No)

    // Asynchronous copies.
    Clusterlaunchcontrol "clusterlaunchcontrol":
        (Of(Other), Written, Asynchronous, No, since(100, 8, 6))
    Cp "cp": {
        (Of(AsyncCopy), Read, Asynchronous, No)
        "async": (Of(AsyncCopy), Read, Asynchronous, No, since(80, 7, 0))
        "bulk": (Of(AsyncCopy), Read, Asynchronous, No, since(90, 8, 0))
        "reduce": (Of(AsyncCopy), Read, Asynchronous, No, since(90, 8, 0))
    }
    Tensormap "tensormap": {
        (Of(AsyncCopy), Read, Asynchronous, No, since(90, 8, 3))
        "replace": (Of(AsyncCopy), Read, Asynchronous, No, alone(90, 8, 3))
    }

    // Tensor cores.
    Mma "mma": {
        (Of(Tensor), Written, Lanes, No, ptx(6, 4))
        "m16n8k16": (Of(Tensor), Written, Lanes, No, since(80, 7, 0))
        "m16n8k32": (Of(Tensor), Written, Lanes, No, since(80, 7, 0))
    }
    Movmatrix "movmatrix": (Of(Shared), Written, Lanes, No, ptx(7, 8))
    Tcgen05 "tcgen05": {
        (Of(Tensor), Read, Asynchronous, No, alone(100, 8, 6))
        "ld": (Of(Tensor), Written, Asynchronous, No, alone(100, 8, 6))
    }
    Wgmma "wgmma": {
        (Of(Tensor), Read, Asynchronous, No, alone(90, 8, 0))
        "mma_async": (Of(Tensor), Accumulated, Asynchronous, No, alone(90, 8, 0))
    }
    Wmma "wmma": {
        (Of(Tensor), Written, Lanes, No)
        "f64": (Of(Tensor), Written, Lanes, No, since(80, 7, 0))
        "and": (Of(Tensor), Written, Lanes, No, since(80, 7, 1))
        "load": (Memory, Written, Reads, No)
        "store": (Memory, Read, Writes, No)
    }

    // Barriers and fences. A barrier of a cluster is for shared memory of other blocks, which may
    // not be there before the wait.
    Bar "bar": {
        (Of(Barrier), Read, Orders, Yes)
        "red": (Of(Barrier), Written, Orders, Yes)
    }
    Barrier "barrier": {
        (Of(Barrier), Read, Orders, No)
        "red": (Of(Barrier), Written, Orders, No)
    }
    Fence "fence": {
        (Of(Barrier), Read, Orders, Yes)
        "async": (Of(Barrier), Read, Orders, Yes, since(90, 8, 0))
        "mbarrier_init": (Of(Barrier), Read, Orders, Yes, since(90, 8, 0))
    }
    Griddepcontrol "griddepcontrol": (Of(Barrier), Read, Orders, No, since(90, 7, 8))
    Mbarrier "mbarrier": {
        (Of(Barrier), Written, Orders, No, since(80, 7, 0))
        "init": (Of(Barrier), Read, Orders, Yes, since(80, 7, 0))
        "try_wait": (Of(Barrier), Written, Orders, No, since(90, 7, 8))
        "expect_tx": (Of(Barrier), Written, Orders, No, since(90, 8, 0))
        "complete_tx": (Of(Barrier), Read, Orders, No, since(90, 8, 0))
    }
    Membar "membar": (Of(Barrier), Read, Orders, No)

    // Between the lanes of a warp.
    Activemask "activemask", Match "match", Vote "vote": (Of(Warp), Written, Lanes, No)
    Elect "elect": (Of(Warp), Written, Lanes, Yes, since(90, 8, 0))
    Redux "redux": (Of(Warp), Written, Lanes, No, since(80, 7, 0))
    Shfl "shfl": (Of(Warp), Exchanged, Lanes, No)

    // Control. Before the wait no branch may lead across it, and `brx` does not say where it leads.
    Bra "bra": (Of(Control), Read, Jumps, Yes)
    Brx "brx": (Of(Control), Read, Jumps, No)
    Call "call": (Of(Control), Called, Calls, No)
    Exit "exit", Ret "ret": (Of(Control), Read, Ends, No)
    Trap "trap": (Of(Control), Read, Traps, No)

    // The thread and the machine.
    Alloca "alloca", Stacksave "stacksave": (Of(Other), Written, Thread, No, ptx(7, 3))
    Brkpt "brkpt", Nanosleep "nanosleep": (Of(Control), Read, Thread, No)
    Pmevent "pmevent": (Of(Other), Read, Thread, No)
    Setmaxnreg "setmaxnreg": (Of(Other), Read, Thread, No, alone(90, 8, 0))
    Stackrestore "stackrestore": (Of(Other), Read, Thread, No, ptx(7, 3))
}

/// Modifiers that need more than the instruction that has them: scopes and shared memory of a
/// cluster, types of tensor cores, cache policies.
pub(super) const MODIFIERS: [(&str, Since); 11] = [
    ("cluster", since(90, 7, 8)),
    ("shared::cluster", since(90, 7, 8)),
    ("multicast::cluster", since(90, 8, 0)),
    ("e4m3", since(89, 8, 1)),
    ("e5m2", since(89, 8, 1)),
    ("e4m3x2", since(89, 8, 1)),
    ("e5m2x2", since(89, 8, 1)),
    ("tf32", since(80, 7, 0)),
    ("bf16", since(80, 7, 0)),
    ("bf16x2", since(80, 7, 0)),
    ("L2::cache_hint", since(80, 7, 4)),
];

/// What is known of an opcode that is not in the table. Its first operand counts as written, so that
/// nothing right is called wrong.
pub(super) const UNKNOWN: Facts = facts!(Of(Other), Written, Unknown, No);

/// Every architecture, since a PTX version.
const fn ptx(major: u32, minor: u32) -> Since {
    since(10, major, minor)
}

/// An architecture and those after it, since a PTX version.
const fn since(sm: u32, major: u32, minor: u32) -> Since {
    let (target, version) = (Target::onward((sm / 10, sm % 10)), (major, minor));
    Since { target, version }
}

/// One architecture alone (`sm_90a`), since a PTX version.
const fn alone(sm: u32, major: u32, minor: u32) -> Since {
    let (target, version) = (Target::alone((sm / 10, sm % 10)), (major, minor));
    Since { target, version }
}

const fn float(class: super::Class, flops: u8, other: super::Class) -> Sort {
    Sort::Float {
        class,
        flops,
        other,
    }
}
