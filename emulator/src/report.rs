//! Reports of faults: their data, and here alone their layout as text.

use std::fmt;

/// The kind of fault that a kernel hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access outside every live allocation, stack frame or block's shared memory.
    OutOfBounds,
    /// An access to an allocation that was freed.
    UseAfterFree,
    /// An access whose address is not a multiple of its size.
    Misaligned,
    /// A read of bytes that were never written.
    Uninitialized,
    /// A register that was never written is used as an address or a guard, is stored, or is passed
    /// on; or one whose content was computed from such a register.
    UnwrittenRegister,
    /// A write to constant memory or to a kernel parameter.
    ReadOnly,
    /// An aligned barrier or warp-wide instruction that the lanes of a warp do not reach together.
    DivergentBarrier,
    /// A barrier that is used with different thread counts, or with a count that it cannot have.
    BarrierMisuse,
    /// Registers or memory of an asynchronous operation are touched before it was waited for.
    AsyncInFlight,
    /// A `wgmma` whose registers were touched after the last `wgmma.fence`.
    MissingFence,
    /// Threads wait for something that cannot happen.
    Deadlock,
    /// `trap`, or a failed device-side assertion.
    Trap,
    /// A call or jump through a value that is not a function or label.
    BadTarget,
    /// Calls that need more local memory than a thread has.
    StackOverflow,
    /// The warps of a block ran more instructions than the configuration's budget.
    InstructionBudget,
    /// The launch took longer than the configuration allows.
    TimeLimit,
    /// Two unordered accesses to the same bytes, of which at least one is a write.
    DataRace,
    /// An mbarrier that is not initialised, whose counts go beyond their limits, or that is
    /// accessed as plain memory.
    MbarrierMisuse,
    /// A block that exits while copies from or to its shared memory are in flight.
    LeftInFlight,
    /// A `setmaxnreg` that is not possible, or that asks for more registers than the block has.
    RegisterBudget,
    /// A tensor copy through bytes that are not a valid tensor map.
    TensorMap,
    /// A `vprintf` whose format or arguments cannot be read.
    BadFormat,
    /// `tex`, `suld` and the like of an object that is not there, or whose image does not fit.
    BadImage,
}

impl FaultKind {
    /// The name that reports begin with.
    pub fn name(self) -> &'static str {
        match self {
            Self::OutOfBounds => "out-of-bounds access",
            Self::UseAfterFree => "use after free",
            Self::Misaligned => "misaligned access",
            Self::Uninitialized => "read of uninitialised memory",
            Self::UnwrittenRegister => "use of an unwritten register",
            Self::ReadOnly => "write to read-only memory",
            Self::DivergentBarrier => "divergent barrier",
            Self::BarrierMisuse => "barrier misuse",
            Self::AsyncInFlight => "asynchronous operation in flight",
            Self::MissingFence => "missing wgmma.fence",
            Self::Deadlock => "deadlock",
            Self::Trap => "trap",
            Self::BadTarget => "bad branch or call target",
            Self::StackOverflow => "stack overflow",
            Self::InstructionBudget => "instruction budget exhausted",
            Self::TimeLimit => "time limit exceeded",
            Self::DataRace => "data race",
            Self::MbarrierMisuse => "mbarrier misuse",
            Self::LeftInFlight => "work left in flight",
            Self::RegisterBudget => "register budget",
            Self::TensorMap => "bad tensor map",
            Self::BadFormat => "bad printf format",
            Self::BadImage => "bad texture or surface",
        }
    }

    /// Whether a kernel can go on after it: races, and reads of unwritten bytes. Only a read by
    /// `wgmma` of memory that nothing wrote ends a launch always.
    pub fn lets_go_on(self) -> bool {
        matches!(
            self,
            Self::DataRace | Self::Uninitialized | Self::UnwrittenRegister
        )
    }
}

/// A place in a kernel: an instruction, and the block, warp and thread that executed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Line in the PTX text, from 1.
    pub ptx_line: u32,
    /// That line, trimmed.
    pub ptx_text: String,
    /// Source file and line in the kernel, if the PTX has a `.loc` for it.
    pub source: Option<(String, u32)>,
    /// Files and lines of functions that were inlined there, the innermost last.
    pub inlined: Vec<(String, u32)>,
    /// Block index in x, y, z.
    pub block: [u32; 3],
    /// Index of the warp in the block.
    pub warp: u32,
    /// Thread index in x, y, z; `None` if the fault is not a single thread's.
    pub thread: Option<[u32; 3]>,
}

/// A fault that a kernel hit. Its `Display` is the whole report, in several lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What went wrong.
    pub kind: FaultKind,
    /// Kernel that was launched.
    pub kernel: String,
    /// Where it happened.
    pub place: Place,
    /// For a race, the earlier access: what it was, and where.
    pub second: Option<(String, Place)>,
    /// The offending address, in the state space of the access.
    pub address: Option<u64>,
    /// One sentence that says what is wrong, with the values that matter.
    pub message: String,
    /// Further help, such as the allocation concerned or who waits where.
    pub notes: Vec<String>,
    /// Seed of the schedule: the same seed reproduces the fault.
    pub seed: u64,
    /// The findings before this one, of a launch that [went
    /// on](crate::EmulatorConfig::keep_going) after them.
    pub earlier: Vec<Report>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for earlier in &self.earlier {
            writeln!(f, "{earlier}")?;
        }
        let located = |number, place| Located {
            kernel: &self.kernel,
            place,
            number,
        };
        writeln!(f, "error: {}: {}", self.kind.name(), self.message)?;
        match &self.second {
            None => write!(f, "{}", located("", &self.place))?,
            Some((_, second)) => {
                writeln!(f, "{}", located("(1) ", &self.place))?;
                write!(f, "{}", located("(2) ", second))?;
            }
        }
        for note in &self.notes {
            write!(f, "\n  = note: {note}")?;
        }
        if self.seed != 0 {
            write!(f, "\n  = note: seed {} gives this order again", self.seed)?;
        }
        Ok(())
    }
}

/// The lines of a report that say where an access happened.
struct Located<'a> {
    kernel: &'a str,
    place: &'a Place,
    /// "(1) " or "(2) " if it is one of the two accesses of a race.
    number: &'static str,
}

impl fmt::Display for Located<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place;
        writeln!(
            f,
            " --> {}kernel {}, PTX line {}",
            self.number, self.kernel, place.ptx_line
        )?;
        writeln!(f, "  | {}", Brief(&place.ptx_text))?;
        if let Some((file, line)) = &place.source {
            write!(f, "  = source: {file}:{line}")?;
            for (at, (file, line)) in place.inlined.iter().enumerate() {
                let before = if at == 0 { ", inlined there: " } else { ", " };
                write!(f, "{before}{file}:{line}")?;
            }
            writeln!(f)?;
        }
        write!(f, "  = block {}, warp {}", Triple(place.block), place.warp)?;
        if let Some(thread) = place.thread {
            write!(f, ", thread {}", Triple(thread))?;
        }
        Ok(())
    }
}

/// A line of PTX; of a list of many registers, as `wgmma` has, the first and the last alone.
struct Brief<'a>(&'a str);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = self.0.split_once('{').and_then(|(before, rest)| {
            let (list, behind) = rest.split_once('}')?;
            let (first, more) = list.split_once(',')?;
            let (middle, last) = more.rsplit_once(',')?;
            (middle.split(',').count() > MIDDLE_MAX).then_some((before, first, last, behind))
        });
        match list {
            Some((before, first, last, behind)) => {
                write!(f, "{before}{{{first}, .., {}}}{behind}", last.trim())
            }
            None => f.write_str(self.0),
        }
    }
}

/// Registers of a list between the first and the last that are still written out.
const MIDDLE_MAX: usize = 6;

/// `(x, y, z)`
pub(crate) struct Triple(pub(crate) [u32; 3]);

impl fmt::Display for Triple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "({x}, {y}, {z})")
    }
}

#[cfg(test)]
mod tests {
    use super::Brief;

    #[test]
    fn long_lists_of_registers_are_cut_and_short_ones_are_not() {
        let registers: Vec<String> = (0..64).map(|i| format!("%f{i}")).collect();
        let line = format!("wgmma.x {{{}}}, %rd1, %rd2, 1;", registers.join(", "));
        assert_eq!(
            Brief(&line).to_string(),
            "wgmma.x {%f0, .., %f63}, %rd1, %rd2, 1;"
        );
        let tight = line.replace(", ", ",");
        assert_eq!(
            Brief(&tight).to_string(),
            "wgmma.x {%f0, .., %f63},%rd1,%rd2,1;"
        );
        for short in [
            "ld.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];",
            "bar.sync 0;",
            "{ trap; }",
        ] {
            assert_eq!(Brief(short).to_string(), short);
        }
    }
}
