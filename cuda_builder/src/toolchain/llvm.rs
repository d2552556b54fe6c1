//! Finds LLVM's tools.

use std::env;
use std::path::{Path, PathBuf};

use super::{LLVM_VARIABLE, numbers, output, path_folders};

/// The tools that a build runs.
const TOOLS: [&str; 4] = ["llvm-ar", "llvm-link", "opt", "llc"];

/// A folder with all of [`TOOLS`].
pub(super) struct Llvm {
    pub(super) folder: PathBuf,
    pub(super) version: String,
}

/// Finds tools of major version `major`. Those of another version may not read rustc's bitcode, and
/// may produce different PTX.
pub(super) fn find(major: u32, sysroot: &Path, host: &str) -> Result<Llvm, String> {
    let folders = if let Some(folder) = env::var_os(LLVM_VARIABLE) {
        vec![PathBuf::from(folder)]
    } else {
        let own = sysroot.join("lib/rustlib").join(host).join("bin");
        let mut folders = vec![own, PathBuf::from(format!("/usr/lib/llvm-{major}/bin"))];
        folders.extend(path_folders());
        folders
    };
    let mut reasons = Vec::new();
    for folder in &folders {
        match inspect(folder, major) {
            Ok(version) => {
                return Ok(Llvm {
                    folder: folder.clone(),
                    version,
                });
            }
            // Most folders of PATH have no LLVM at all: report that only of those before PATH.
            Err(Reason::Absent(_)) if reasons.len() >= 2 => {}
            Err(Reason::Absent(reason) | Reason::Unfit(reason)) => {
                reasons.push(format!("{}: {reason}", folder.display()));
            }
        }
    }
    Err(format!(
        "no tools of LLVM {major}, which this rustc uses ({})",
        reasons.join("; ")
    ))
}

enum Reason {
    Absent(String),
    Unfit(String),
}

fn inspect(folder: &Path, major: u32) -> Result<String, Reason> {
    for tool in TOOLS {
        if !folder
            .join(format!("{tool}{}", env::consts::EXE_SUFFIX))
            .is_file()
        {
            return Err(Reason::Absent(format!("no {tool}")));
        }
    }
    let about = output(&folder.join("opt"), &["--version"]).map_err(Reason::Unfit)?;
    let version = about
        .lines()
        .find_map(|line| line.trim().split_once("LLVM version "));
    let Some((_, version)) = version else {
        return Err(Reason::Unfit("`opt --version` names no version".to_owned()));
    };
    let version = version.trim();
    if numbers(version).first() != Some(&major) {
        return Err(Reason::Unfit(format!("its LLVM is {version}")));
    }
    let numbers: Vec<String> = numbers(version).iter().map(u32::to_string).collect();
    Ok(numbers.join("."))
}
