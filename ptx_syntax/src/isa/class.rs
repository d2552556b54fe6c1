//! Classes of instructions.

use serde::Serialize;

use crate::named::named;

named! {
    /// The kind of work that an instruction does.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    #[non_exhaustive]
    pub enum Class {
        /// mma, wmma, wgmma, tcgen05.
        Tensor = "tensor",
        /// Fused multiply-add of floats.
        Fma = "fma",
        /// Other float arithmetic with IEEE-defined results.
        Float = "float",
        /// rcp, sqrt, div, ex2, lg2, sin, cos, tanh of floats.
        Special = "special",
        /// Integer arithmetic, shifts and logic.
        Integer = "integer",
        /// setp, set, selp, slct, testp.
        Compare = "compare",
        /// cvt and cvta.
        Convert = "convert",
        /// mov, prmt and other copies between registers.
        Move = "move",
        /// Loads and stores of global memory.
        Global = "global",
        /// Loads and stores of shared memory, ldmatrix and stmatrix.
        Shared = "shared",
        /// Loads and stores of thread-local memory.
        Local = "local",
        /// Loads of constants and parameters, and accesses to the parameters of calls.
        Constant = "constant",
        /// Loads and stores through generic addresses.
        Generic = "generic",
        /// atom, red.
        Atomic = "atomic",
        /// cp.async, bulk and tensor copies.
        AsyncCopy = "async-copy",
        /// Barriers, mbarriers and fences.
        Barrier = "barrier",
        /// shfl, vote, match, redux, elect, activemask.
        Warp = "warp",
        /// Branches, calls, exits.
        Control = "control",
        /// Anything else.
        Other = "other",
    }
}
