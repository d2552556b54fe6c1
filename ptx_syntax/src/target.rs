//! Architectures as `.target` names them, and what each runs on.
//!
//! Source: PTX ISA 9.0, 11.1.2 (`.target`).

use std::fmt;
use std::str::FromStr;

use crate::ast::{Instruction, Module};
use crate::isa::Since;

/// What PTX knows as `sm_<number>`.
const NUMBERS: [u32; 31] = [
    10, 11, 12, 13, 20, 21, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89,
    90, 100, 101, 103, 110, 120, 121,
];
/// The first architecture with names that end in `a`, and the first with names that end in `f`.
const FIRST_SPECIFIC: u32 = 90;
const FIRST_FAMILY: u32 = 100;
/// What `.target` may say beside the architecture.
const OPTIONS: [&str; 4] = [
    "debug",
    "map_f64_to_f32",
    "texmode_unified",
    "texmode_independent",
];

/// Which newer architectures run a module, beside its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// Every newer one: no suffix.
    Onward,
    /// Newer ones of the same family: `f`.
    Family,
    /// None: `a`.
    Alone,
}

/// An architecture that PTX knows, such as `sm_90a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    number: u32,
    reach: Reach,
}

/// A name in `.target` that PTX does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{got}` is not a target of PTX 9.0: an architecture is sm_ and one of {NUMBERS:?}, with \
     `a` behind it from {FIRST_SPECIFIC} on, or with `f` from {FIRST_FAMILY} on"
)]
pub struct UnknownTarget {
    /// The name.
    pub got: String,
}

/// An instruction that the module's target lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{instruction}` needs {needs}, and the module's target is {target}")]
pub struct NewerInstruction {
    /// The instruction, with its modifiers.
    pub instruction: String,
    /// Its line.
    pub line: u32,
    /// The least target that has it.
    pub needs: Target,
    /// The module's target.
    pub target: Target,
}

impl Target {
    /// The architecture of every GPU from this compute capability (major, minor) on.
    pub const fn onward((major, minor): (u32, u32)) -> Self {
        Self {
            number: 10 * major + minor,
            reach: Reach::Onward,
        }
    }

    /// The architecture of the GPUs of one compute capability alone.
    pub const fn alone((major, minor): (u32, u32)) -> Self {
        Self {
            number: 10 * major + minor,
            reach: Reach::Alone,
        }
    }

    /// Whether a driver loads a module for this target on a GPU of this compute capability (major,
    /// minor).
    pub fn runs_on(self, (major, minor): (u32, u32)) -> bool {
        let device = 10 * major + minor;
        match self.reach {
            Reach::Onward => self.number <= device,
            Reach::Family => self.number <= device && self.number / 10 == device / 10,
            Reach::Alone => self.number == device,
        }
    }

    /// Whether it has an instruction.
    ///
    /// # Errors
    /// [`NewerInstruction`] for one that it lacks. Only what came with an architecture as a whole is
    /// known (copies, barriers, tensor cores), not every form.
    pub fn check(self, instruction: &Instruction) -> Result<(), NewerInstruction> {
        let needs = instruction.since().target;
        if self.has(needs) {
            return Ok(());
        }
        Err(NewerInstruction {
            instruction: instruction.mnemonic(),
            line: instruction.line,
            needs,
            target: self,
        })
    }

    /// Whether it has what came with `needs`. A later architecture may also be the only one to have
    /// these instructions. Which ones is not known here.
    fn has(self, needs: Self) -> bool {
        self.number >= needs.number && (needs.reach == Reach::Onward || self.reach != Reach::Onward)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.reach {
            Reach::Onward => "",
            Reach::Family => "f",
            Reach::Alone => "a",
        };
        f.pad(&format!("sm_{}{suffix}", self.number))
    }
}

impl FromStr for Target {
    type Err = UnknownTarget;

    fn from_str(name: &str) -> Result<Self, UnknownTarget> {
        let version = name.strip_prefix("sm_").unwrap_or_default();
        let (digits, reach, first) = if let Some(digits) = version.strip_suffix('a') {
            (digits, Reach::Alone, FIRST_SPECIFIC)
        } else if let Some(digits) = version.strip_suffix('f') {
            (digits, Reach::Family, FIRST_FAMILY)
        } else {
            (version, Reach::Onward, 0)
        };
        let mut known = NUMBERS.into_iter().filter(|number| *number >= first);
        match known.find(|number| number.to_string() == digits) {
            Some(number) => Ok(Self { number, reach }),
            None => Err(UnknownTarget { got: name.into() }),
        }
    }
}

impl Module {
    /// The architecture that `.target` names; `None` if it names none.
    ///
    /// # Errors
    /// [`UnknownTarget`] for the first name that is neither an architecture nor an option.
    pub fn target(&self) -> Result<Option<Target>, UnknownTarget> {
        let mut found = None;
        for name in &self.targets {
            if !OPTIONS.contains(&name.as_str()) {
                let target = name.parse()?;
                found = found.or(Some(target));
            }
        }
        Ok(found)
    }

    /// Raises the version and the architecture to at least what an instruction needs that is added.
    /// An architecture that runs on no newer GPU stays.
    ///
    /// # Errors
    /// As [`target`](Self::target); then nothing has changed.
    pub fn require(&mut self, since: Since) -> Result<(), UnknownTarget> {
        let target = self.target()?;
        self.version = self.version.max(since.version);
        if let Some(own) = target.filter(|own| own.reach == Reach::Onward && *own < since.target) {
            let mut names = self.targets.iter_mut();
            if let Some(name) = names.find(|name| **name == own.to_string()) {
                *name = since.target.to_string();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Opcode;

    #[test]
    fn names_read_back_and_others_are_refused() {
        for name in ["sm_10", "sm_75", "sm_90", "sm_90a", "sm_100f", "sm_121a"] {
            let target = name.parse::<Target>();
            assert_eq!(target.map(|target| target.to_string()), Ok(name.into()));
        }
        for name in [
            "sm_999",
            "sm_90f",
            "sm_89a",
            "sm_",
            "sm_090",
            "sm_+75",
            "sm_100af",
            "compute_75",
            "",
        ] {
            let error = UnknownTarget { got: name.into() };
            assert_eq!(name.parse::<Target>(), Err(error));
        }
        let error = UnknownTarget {
            got: "sm_91".into(),
        }
        .to_string();
        assert!(error.contains("`sm_91`") && error.contains("90"), "{error}");
    }

    #[test]
    fn modules_are_raised_to_what_they_need() {
        let raised = |version: &str, targets: &str| {
            let text = format!(".version {version}\n.target {targets}\n");
            let mut module = crate::parse(&text).expect("valid");
            let done = module.require(Opcode::Griddepcontrol.facts().since);
            done.map(|()| (module.version, module.targets.join(" ")))
        };
        assert_eq!(raised("7.0", "sm_75"), Ok(((7, 8), "sm_90".into())));
        assert_eq!(
            raised("8.4", "debug, sm_89"),
            Ok(((8, 4), "debug sm_90".into()))
        );
        for newer in ["sm_90", "sm_90a", "sm_100f", "sm_120"] {
            assert_eq!(raised("8.10", newer), Ok(((8, 10), newer.into())));
        }
        let got = "sm_999".to_owned();
        assert_eq!(raised("7.0", "sm_999"), Err(UnknownTarget { got }));
    }

    #[test]
    fn what_runs_where_is_as_ptxas_says() {
        let runs = |name: &str, on| name.parse::<Target>().expect("known").runs_on(on);
        for name in ["sm_10", "sm_75", "sm_89", "sm_90", "sm_90a"] {
            assert!(runs(name, (9, 0)), "{name}");
        }
        for name in ["sm_100", "sm_100a", "sm_100f", "sm_121a"] {
            assert!(!runs(name, (9, 0)), "{name}");
        }
        assert!(!runs("sm_90a", (10, 0)));
        assert!(runs("sm_90", (10, 0)));
        assert!(runs("sm_100f", (10, 3)));
        assert!(!runs("sm_100a", (10, 3)));
        assert!(!runs("sm_100f", (12, 1)));
        assert!(runs("sm_120f", (12, 1)));
        assert_eq!(Target::onward((9, 0)), Target::onward((9, 0)));
    }
}
