//! Finds the device toolchain: cargo, rustc with the library sources, LLVM tools of the major
//! version that rustc is built on, and ptxas.
//!
//! Search order for cargo and rustc:
//! 1. the folder in `WARPSMITH_DEVICE_RUST`, and nothing else when it is set;
//! 2. rustup's toolchain [`PINNED_RUST`];
//! 3. a system one, [`PINNED_RUST`] or newer, in `/usr/bin` or `/usr/local/bin`.
//!
//! For LLVM: the folder in `WARPSMITH_LLVM_BIN`, and nothing else when it is set; the `llvm-tools`
//! component of the toolchain; `/usr/lib/llvm-<major>/bin`; the folders of `PATH`.
//!
//! For ptxas (optional): the program in `WARPSMITH_PTXAS`, and nothing else when it is set; `PATH`;
//! `CUDA_HOME` and `CUDA_PATH`; `/usr/local/cuda`; Python's package `nvidia-cuda-nvcc`.

mod llvm;
mod ptxas;
mod rust;

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub use ptxas::Ptxas;

/// The release of rustc that the kernels are pinned to; older ones are refused.
pub const PINNED_RUST: &str = "1.96.0";
/// The environment variable that names the folder with cargo and rustc.
pub const RUST_VARIABLE: &str = "WARPSMITH_DEVICE_RUST";
/// The environment variable that names the folder with llvm-ar, llvm-link, opt and llc.
pub const LLVM_VARIABLE: &str = "WARPSMITH_LLVM_BIN";
/// The environment variable that names the program ptxas.
pub const PTXAS_VARIABLE: &str = "WARPSMITH_PTXAS";

/// Where a toolchain came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An environment variable named it.
    Environment,
    /// rustup.
    Rustup,
    /// Installed in the system.
    System,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Environment => RUST_VARIABLE,
            Self::Rustup => "rustup",
            Self::System => "system",
        })
    }
}

/// All tools that are needed to make PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceToolchain {
    /// Where it came from.
    pub origin: Origin,
    /// The program cargo.
    pub cargo: PathBuf,
    /// The program rustc.
    pub rustc: PathBuf,
    /// rustc's sysroot.
    pub sysroot: PathBuf,
    /// Release of rustc, `1.96.0`.
    pub rustc_version: String,
    /// Folder with llvm-ar, llvm-link, opt and llc.
    pub llvm_bin: PathBuf,
    /// Version of these tools, `22.1.8`.
    pub llvm_version: String,
}

/// A candidate that was examined and is not suitable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// What was examined.
    pub candidate: String,
    /// What it lacks.
    pub reason: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.candidate, self.reason)
    }
}

/// A tool that is missing, with the command that installs it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolchainError {
    /// No matching set of cargo, rustc, sources and LLVM tools was found.
    #[error(
        "no device toolchain: needs cargo and rustc {PINNED_RUST} or newer with library sources, \
         and LLVM's tools of rustc's major version. Looked at:{}\nInstall one of these:\n{}",
        list(rejected),
        INSTALL
    )]
    NoToolchain {
        /// The candidates, and why each is not suitable.
        rejected: Vec<Rejected>,
    },
    /// No ptxas was found, though one is required.
    #[error(
        "no ptxas: {}.\nInstall it with `python3 -m pip install nvidia-cuda-nvcc` (no GPU \
         needed), or set {PTXAS_VARIABLE}",
        rejected
    )]
    NoPtxas {
        /// Why none was found.
        rejected: Rejected,
    },
}

const INSTALL: &str = "  rustup toolchain install 1.96.0 --profile minimal -c rust-src -c llvm-tools\n  \
     apt-get install cargo-web rustc-web rust-web-src llvm-22   (Debian)";

fn list(rejected: &[Rejected]) -> String {
    rejected
        .iter()
        .map(|rejected| format!("\n  - {rejected}"))
        .collect()
}

impl DeviceToolchain {
    /// Looks for a toolchain in the order that the module documents.
    ///
    /// # Errors
    /// [`ToolchainError::NoToolchain`] with each candidate and what it lacks.
    pub fn discover() -> Result<Self, ToolchainError> {
        let mut rejected = Vec::new();
        for (origin, folder) in rust::candidates() {
            let candidate = format!("{} ({origin})", folder.display());
            match Self::in_folder(origin, &folder) {
                Ok(toolchain) => return Ok(toolchain),
                Err(reason) => rejected.push(Rejected { candidate, reason }),
            }
        }
        Err(ToolchainError::NoToolchain { rejected })
    }

    fn in_folder(origin: Origin, folder: &Path) -> Result<Self, String> {
        let rust = rust::inspect(folder)?;
        let llvm = llvm::find(rust.llvm_major, &rust.sysroot, &rust.host)?;
        Ok(Self {
            origin,
            cargo: rust.cargo,
            rustc: rust.rustc,
            sysroot: rust.sysroot,
            rustc_version: rust.version,
            llvm_bin: llvm.folder,
            llvm_version: llvm.version,
        })
    }

    /// The path of the LLVM tool with that name.
    pub fn llvm_tool(&self, name: &str) -> PathBuf {
        self.llvm_bin.join(name)
    }

    /// Folder with the sources of `core`.
    pub fn library_sources(&self) -> PathBuf {
        rust::library_sources(&self.sysroot)
    }
}

/// The standard output of `program arguments`, if it runs and succeeds.
fn output(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    // An outer rustup or cargo must not decide which program this is.
    command
        .env_remove("RUSTUP_TOOLCHAIN")
        .stdin(Stdio::null())
        .args(arguments);
    let output = command
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let first = stderr.lines().next().unwrap_or_default();
        return Err(format!("{}: {}: {first}", program.display(), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The folders of `PATH`.
fn path_folders() -> Vec<PathBuf> {
    env::var_os("PATH")
        .map(|path| env::split_paths(&path).collect())
        .unwrap_or_default()
}

/// The leading numbers of a version: `22.1.8-rust-1.96` is `[22, 1, 8]`.
fn numbers(version: &str) -> Vec<u32> {
    version
        .split(['.', '-'])
        .map_while(|part| part.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_toolchain_names_candidates_and_commands() {
        let rejected = vec![Rejected {
            candidate: "/usr/bin (system)".to_owned(),
            reason: "rustc is 1.85.0".to_owned(),
        }];
        let message = ToolchainError::NoToolchain { rejected }.to_string();
        for part in [
            "/usr/bin (system): rustc is 1.85.0",
            "rustup toolchain install",
            "llvm-22",
        ] {
            assert!(message.contains(part), "{part} is not in: {message}");
        }
        assert!(INSTALL.contains(PINNED_RUST));
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(numbers("1.100.0-nightly") > numbers(PINNED_RUST));
        assert!(numbers("1.95.0") < numbers(PINNED_RUST));
        assert_eq!(numbers("22.1.8"), [22, 1, 8]);
    }
}
