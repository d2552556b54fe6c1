//! A finding: its rule, its severity, its place.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How bad a finding is, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing to mend.
    Note,
    /// Likely slow, or bits that the ISA leaves open.
    Warning,
    /// The module will not load, or not do what it says.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

impl FromStr for Severity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "note" => Ok(Severity::Note),
            "warning" => Ok(Severity::Warning),
            "error" => Ok(Severity::Error),
            _ => Err(format!("`{text}` is no severity: note, warning or error")),
        }
    }
}

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Rule {
    /// A function or variable that is declared and defined nowhere: the module does not load.
    /// The driver defines `vprintf`, `malloc`, `free` and `__assertfail`.
    UnresolvedExtern,
    /// Thread-local memory, which is global memory by another name: an array that was not kept
    /// in registers.
    LocalMemory,
    /// wgmma in a kernel without `.maxntid` or `.reqntid`: ptxas cannot give it its registers.
    WgmmaWithoutBounds,
    /// setmaxnreg in a kernel without `.maxntid` (or `.reqntid`) and `.minnctapersm`: ptxas
    /// ignores it (C7508).
    SetmaxnregWithoutBounds,
    /// `add`, `sub` or `mul` of floats without a rounding modifier: ptxas may contract it into an
    /// fma, so the bits are not defined. Write `.rn`.
    UnroundedFloat,
    /// An approximate instruction: its bits are the hardware's own and no emulator's.
    ApproximateFloat,
    /// A generic access through an address made by `cvta.shared`: `ld.shared` is shorter and
    /// tells ptxas more.
    GenericShared,
    /// An instruction that the module's target lacks: the module does not load. Only what came with
    /// an architecture as a whole is known (copies, barriers, tensor cores), not every form.
    NewerInstruction,
    /// An aligned barrier behind a guard: undefined unless the predicate is the same for all
    /// threads.
    GuardedBarrier,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Rule::UnresolvedExtern => "unresolved-extern",
            Rule::LocalMemory => "local-memory",
            Rule::WgmmaWithoutBounds => "wgmma-without-bounds",
            Rule::SetmaxnregWithoutBounds => "setmaxnreg-without-bounds",
            Rule::UnroundedFloat => "unrounded-float",
            Rule::ApproximateFloat => "approximate-float",
            Rule::GenericShared => "generic-shared",
            Rule::NewerInstruction => "newer-instruction",
            Rule::GuardedBarrier => "guarded-barrier",
        })
    }
}

/// One finding. Displayed as `line: severity[rule]: in function: message`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Which rule found it.
    pub rule: Rule,
    /// Line of the PTX text.
    pub line: u32,
    /// The function it is in, where it is in one.
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
