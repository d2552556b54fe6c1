//! The GPU architectures that the builder supports.

use std::fmt;
use std::str::FromStr;

/// A GPU architecture. PTX for one without a suffix runs on it and on everything newer; PTX for one
/// with the suffix `a` runs on that compute capability only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize)]
#[serde(try_from = "String")]
#[non_exhaustive]
pub enum Arch {
    /// Turing.
    Sm75,
    /// Ampere (A100).
    Sm80,
    /// Ampere (GeForce 30, A10, A40).
    Sm86,
    /// Ada (GeForce 40, L4, L40).
    Sm89,
    /// Hopper, portable features only.
    Sm90,
    /// Hopper with wgmma and setmaxnreg; runs on 9.0 only.
    Sm90a,
    /// Blackwell (B200) with tcgen05; runs on 10.0 only.
    Sm100a,
}

impl Arch {
    /// All architectures, oldest first.
    pub const ALL: [Self; 7] = [
        Self::Sm75,
        Self::Sm80,
        Self::Sm86,
        Self::Sm89,
        Self::Sm90,
        Self::Sm90a,
        Self::Sm100a,
    ];

    /// Its name in PTX, LLVM and rustc, such as `sm_90a`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sm75 => "sm_75",
            Self::Sm80 => "sm_80",
            Self::Sm86 => "sm_86",
            Self::Sm89 => "sm_89",
            Self::Sm90 => "sm_90",
            Self::Sm90a => "sm_90a",
            Self::Sm100a => "sm_100a",
        }
    }

    /// The PTX ISA version of its modules, major and minor.
    ///
    /// It is the oldest one that has all the instructions that `cuda_std` wraps for the
    /// architecture, so that old drivers can load the module. 7.8 is CUDA 11.8, 8.1 is 12.1 (fp8
    /// conversions), 8.4 is 12.4 (wgmma of mixed integers, mma of fp8), 8.6 is 12.7 (tcgen05).
    pub fn ptx_version(self) -> (u32, u32) {
        match self {
            Self::Sm75 | Self::Sm80 | Self::Sm86 => (7, 8),
            Self::Sm90 => (8, 1),
            Self::Sm89 | Self::Sm90a => (8, 4),
            Self::Sm100a => (8, 6),
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is not that of an [`Arch`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{got}` is not an architecture that can be built for; known: {}",
    known()
)]
pub struct UnknownArch {
    /// The name given.
    pub got: String,
}

fn known() -> String {
    Arch::ALL.map(Arch::name).join(", ")
}

impl TryFrom<String> for Arch {
    type Error = UnknownArch;

    fn try_from(name: String) -> Result<Self, UnknownArch> {
        name.parse()
    }
}

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(name: &str) -> Result<Self, UnknownArch> {
        let found = Self::ALL.into_iter().find(|arch| arch.name() == name);
        found.ok_or_else(|| UnknownArch {
            got: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for arch in Arch::ALL {
            assert_eq!(arch.name().parse(), Ok(arch));
        }
        let error = "sm_91".parse::<Arch>().map_err(|error| error.to_string());
        assert!(error.is_err_and(|text| text.contains("`sm_91`") && text.contains("sm_90a")));
    }

    #[test]
    fn the_macros_know_the_same_architectures() {
        let source = include_str!("../../cuda_std_macros/src/attributes.rs");
        let (_, list) = source.split_once("const ARCHITECTURES").expect("the list");
        let (list, _) = list.split_once(';').expect("its end");
        let names: Vec<_> = list.split('"').skip(1).step_by(2).collect();
        assert_eq!(names, Arch::ALL.map(Arch::name));
    }
}
