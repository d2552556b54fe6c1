//! Errors of a build.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::arch::Arch;
use crate::ir::atomics::AtomicError;
use crate::ir::kernels::MetadataError;
use crate::ir::spaces::SpaceError;
use crate::lint::Refusal;
use crate::toolchain::ToolchainError;

/// A step of the build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// cargo and rustc: crate to bitcode.
    Compile,
    /// llvm-ar: bitcode out of the rlibs.
    Unpack,
    /// llvm-link: one module.
    Link,
    /// opt.
    Optimise,
    /// llc: PTX.
    Codegen,
    /// Parsing the PTX and checking it against the rules.
    Lint,
    /// ptxas.
    Assemble,
    /// Writing the results.
    Write,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Compile => "compile",
            Self::Unpack => "unpack",
            Self::Link => "link",
            Self::Optimise => "optimise",
            Self::Codegen => "codegen",
            Self::Lint => "lint",
            Self::Assemble => "assemble",
            Self::Write => "write",
        })
    }
}

/// Why a build failed. Its `Debug` is its `Display`: that is what the `main` of a build script prints.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path is not a crate.
    #[error("`{}` is not a kernels crate: {reason}", path.display())]
    NotACrate {
        /// The path given.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// No usable device toolchain or ptxas.
    #[error(transparent)]
    Toolchain(#[from] ToolchainError),
    /// A tool could not be started.
    #[error("{step}: cannot start {}: {source}", tool.display())]
    Start {
        /// The step.
        step: Step,
        /// The program.
        tool: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A tool failed.
    #[error("{step}: {} failed on {} ({status}):\n{cause}", tool.display(), file.display())]
    Tool {
        /// The step.
        step: Step,
        /// The program.
        tool: PathBuf,
        /// Its input.
        file: PathBuf,
        /// Exit status.
        status: String,
        /// The end of what it printed.
        cause: String,
    },
    /// A tool's output has an unexpected form.
    #[error("{step}: {} gave what cannot be understood: {cause}", tool.display())]
    Output {
        /// The step.
        step: Step,
        /// The program.
        tool: PathBuf,
        /// What was wrong with it.
        cause: String,
    },
    /// A file could not be read or written.
    #[error("{step}: {}: {source}", path.display())]
    Io {
        /// The step.
        step: Step,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Metadata of `#[kernel]` is not valid.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A static cannot be moved to its address space.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// An atomic operation that PTX cannot do.
    #[error(transparent)]
    Atomic(#[from] AtomicError),
    /// The crate has no kernel.
    #[error(
        "`{krate}` has no kernel: mark functions with `#[kernel]` and build them for nvptx64 \
         (a `cfg` may leave them out)"
    )]
    NoKernels {
        /// The crate.
        krate: String,
    },
    /// A cluster size for an architecture that has no clusters.
    #[error(
        "kernel `{kernel}` has a cluster size, which {arch} does not know: build it for sm_90 or newer"
    )]
    ClusterUnsupported {
        /// The kernel.
        kernel: String,
        /// The architecture.
        arch: Arch,
    },
    /// LLVM emitted PTX that `ptx_syntax` cannot parse.
    #[error("lint: {arch}/{family}.ptx, {source}")]
    Unreadable {
        /// Architecture.
        arch: Arch,
        /// Family.
        family: String,
        /// Where and why.
        source: ptx_syntax::ParseError,
    },
    /// The PTX breaks a rule.
    #[error("lint: {arch}/{family}.ptx is refused:{}", list(refusals, lines))]
    Refused {
        /// Architecture.
        arch: Arch,
        /// Family.
        family: String,
        /// Each rule broken.
        refusals: Vec<Refusal>,
        /// Where the lines are that the refusals name; empty if they name none.
        lines: String,
    },
    /// A file in the output folder was not written by a build of this crate.
    #[error(
        "write: `{}` {}: build `{krate}` into another folder, or delete what is there",
        path.display(),
        of_whom(owner.as_deref())
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The crate that is built.
        krate: String,
        /// The crate that the file was built from, if it is known.
        owner: Option<String>,
    },
    /// An option that contradicts another, or is empty.
    #[error("option `{option}`: {reason}")]
    Option {
        /// The builder's method.
        option: &'static str,
        /// What is wrong, and what would be right.
        reason: String,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn of_whom(owner: Option<&str>) -> String {
    match owner {
        Some(owner) => format!("was built from the crate `{owner}`"),
        None => "is not from an earlier build of this crate".to_owned(),
    }
}

fn list(refusals: &[Refusal], lines: &str) -> String {
    let mut list: String = refusals
        .iter()
        .map(|refusal| format!("\n  - {refusal}"))
        .collect();
    if !lines.is_empty() {
        list.extend(["\n", lines]);
    }
    list
}
