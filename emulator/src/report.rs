//! Reports of faults: the data, and in this file only, their text.

use std::fmt;

/// What went wrong in a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// An address outside every live allocation, frame or block.
    OutOfBounds,
    /// An address inside an allocation that was freed.
    UseAfterFree,
    /// An address that is no multiple of the access's size.
    Misaligned,
    /// A read of bytes that nothing wrote.
    Uninitialized,
    /// A write to constant memory or to a kernel parameter.
    ReadOnly,
    /// An aligned barrier or collective that lanes of one warp do not reach together.
    DivergentBarrier,
    /// A barrier used with different thread counts, or with one it cannot have.
    BarrierMisuse,
    /// Registers or memory of an asynchronous operation are touched before it was waited for.
    AsyncInFlight,
    /// A `wgmma` whose registers were touched without a `wgmma.fence` since.
    MissingFence,
    /// Threads wait for what cannot come.
    Deadlock,
    /// `trap`, or a failed device-side assertion.
    Trap,
    /// A call or jump through a value that names no function or label.
    BadTarget,
    /// Calls nested deeper than the local memory of a thread allows.
    StackOverflow,
    /// The instruction budget of the configuration ran out.
    InstructionBudget,
    /// Two accesses of the same bytes, one of them a write, that nothing orders.
    DataRace,
    /// An mbarrier that is not initialised, counted beyond its limits, or accessed as plain memory.
    MbarrierMisuse,
    /// A block that exits while copies from or to its shared memory are in flight.
    LeftInFlight,
    /// `setmaxnreg` that cannot be, or asks for more registers than the block has.
    RegisterBudget,
    /// A tensor copy through what is no valid tensor map.
    TensorMap,
    /// A `vprintf` whose format or arguments cannot be read.
    BadFormat,
}

impl FaultKind {
    /// The name that reports begin with.
    pub fn name(self) -> &'static str {
        match self {
            Self::OutOfBounds => "out-of-bounds access",
            Self::UseAfterFree => "use after free",
            Self::Misaligned => "misaligned access",
            Self::Uninitialized => "read of uninitialised memory",
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
            Self::DataRace => "data race",
            Self::MbarrierMisuse => "mbarrier misuse",
            Self::LeftInFlight => "work left in flight",
            Self::RegisterBudget => "register budget",
            Self::TensorMap => "bad tensor map",
            Self::BadFormat => "bad printf format",
        }
    }
}

/// A place in a kernel: an instruction, and who ran it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Line in the PTX text, from 1.
    pub ptx_line: u32,
    /// That line, trimmed.
    pub ptx_text: String,
    /// Source file and line, where the PTX has `.loc`.
    pub source: Option<(String, u32)>,
    /// Block index in x, y, z.
    pub block: [u32; 3],
    /// Warp in the block.
    pub warp: u32,
    /// Thread index in x, y, z; `None` where the fault is not one thread's.
    pub thread: Option<[u32; 3]>,
}

/// A fault that a kernel ran into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What went wrong.
    pub kind: FaultKind,
    /// Kernel that was launched.
    pub kernel: String,
    /// Where.
    pub place: Place,
    /// The other access of a race, which came before: what it was, and where.
    pub second: Option<(String, Place)>,
    /// The offending address, in the space of the access.
    pub address: Option<u64>,
    /// One sentence with the values that matter.
    pub message: String,
    /// What else helps: the allocation concerned, who waits where.
    pub notes: Vec<String>,
    /// Seed of the schedule, which brings the fault about again.
    pub seed: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// The lines of a report that say where.
struct Located<'a> {
    kernel: &'a str,
    place: &'a Place,
    /// Which access of a race.
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
            writeln!(f, "  = source: {file}:{line}")?;
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
