//! A finding: rule, severity and place.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::named::named;

named! {
    /// Severity of a finding, least first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum Severity {
        /// Worth knowing; nothing needs to change.
        Note = "note",
        /// Probably slow, or a result that the ISA leaves open.
        Warning = "warning",
        /// The module will not load, or will not do what it says.
        Error = "error",
    }
}

impl FromStr for Severity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "note" => Ok(Severity::Note),
            "warning" => Ok(Severity::Warning),
            "error" => Ok(Severity::Error),
            _ => Err(format!(
                "`{text}` is not a severity, want note, warning or error"
            )),
        }
    }
}

named! {
    /// The rules that are checked.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[non_exhaustive]
    pub enum Rule {
        /// A function or variable that is declared but defined nowhere: the module does not load. (The
        /// driver provides `vprintf`, `malloc`, `free` and `__assertfail`.)
        UnresolvedExtern = "unresolved-extern",
        /// Local memory, which resides in device memory: for example, an array that could not be kept
        /// in registers.
        LocalMemory = "local-memory",
        /// wgmma in a kernel without `.maxntid` or `.reqntid`: ptxas cannot assign its registers.
        WgmmaWithoutBounds = "wgmma-without-bounds",
        /// setmaxnreg in a kernel without `.maxnreg`, or `.maxntid` (or `.reqntid`) and
        /// `.minnctapersm`: ptxas ignores it (C7508).
        SetmaxnregWithoutBounds = "setmaxnreg-without-bounds",
        /// `add`, `sub` or `mul` of floats without a rounding modifier: ptxas may contract it into an
        /// fma, so the bits are not defined. Write `.rn`. Looked for if
        /// [`LintOptions::rounding`](super::LintOptions::rounding) is set.
        UnroundedFloat = "unrounded-float",
        /// An approximate instruction: its result is the hardware's own, and differs elsewhere.
        ApproximateFloat = "approximate-float",
        /// A generic access through an address from `cvta.shared`: `ld.shared` is shorter and tells
        /// ptxas more.
        GenericShared = "generic-shared",
        /// A `.target` that PTX does not know: the module does not load.
        UnknownTarget = "unknown-target",
        /// An instruction that the module's target lacks: the module does not load. Only what came with
        /// an architecture as a whole is known (copies, barriers, tensor cores), not every form.
        NewerInstruction = "newer-instruction",
        /// An aligned barrier behind a guard: undefined unless the predicate is the same for all
        /// threads.
        GuardedBarrier = "guarded-barrier",
        /// A kernel with more than 48 KiB of static shared memory: ptxas refuses it. Dynamic shared
        /// memory may have more.
        StaticShared = "static-shared",
        /// A register that is used as an address or a guard, is stored, or leaves the thread, and
        /// that nothing writes before on any way. It may have any value.
        UnwrittenRegister = "unwritten-register",
    }
}

/// One finding. Displayed as `line: severity[rule]: in function: message`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How severe it is.
    pub severity: Severity,
    /// The rule that found it.
    pub rule: Rule,
    /// Line of the PTX text.
    pub line: u32,
    /// The function that it is in, if any.
    pub function: Option<String>,
    /// What was found and what would be right.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}[{}]: ", self.line, self.severity, self.rule)?;
        if let Some(function) = &self.function {
            write!(f, "in {function}: ")?;
        }
        f.write_str(&self.message)
    }
}
