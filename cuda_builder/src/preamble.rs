//! The first line of a kernels crate: without it rustc says what is missing, but proposes to build `std`.

use std::fs;
use std::path::Path;

use crate::error::Error;

/// What a crate begins with that has kernels.
const FIRST_LINE: &str = "#![cfg_attr(target_arch = \"nvptx64\", no_std, feature(abi_ptx))]";

/// Adds the line to an error that comes of its absence.
pub(crate) fn explained(mut error: Error, krate: &Path) -> Error {
    if let Error::Tool { cause, .. } = &mut error
        && ["can't find crate for `std`", "#![feature(abi_ptx)]"]
            .iter()
            .any(|words| cause.contains(words))
        && let root = krate.join("src").join("lib.rs")
        && let Ok(text) = fs::read_to_string(&root)
        && ["no_std", "abi_ptx"]
            .iter()
            .any(|word| !text.contains(word))
    {
        *cause += &format!("\n`{}` has to begin with {FIRST_LINE}", root.display());
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Step;

    #[test]
    fn a_crate_without_the_first_line_is_told_which_it_is() -> std::io::Result<()> {
        let krate = tempfile::tempdir()?;
        let root = krate.path().join("src").join("lib.rs");
        fs::create_dir_all(krate.path().join("src"))?;
        let build = |text: &str, cause: &str| -> std::io::Result<String> {
            fs::write(&root, text)?;
            let error = Error::Tool {
                step: Step::Compile,
                tool: "cargo".into(),
                file: "Cargo.toml".into(),
                status: "exit status: 101".into(),
                cause: cause.into(),
            };
            Ok(explained(error, krate.path()).to_string())
        };
        let cause = "error[E0463]: can't find crate for `std`";
        assert!(build("use cuda_std::prelude::*;\n", cause)?.contains(FIRST_LINE));
        let unstable = "= help: add `#![feature(abi_ptx)]` to the crate attributes to enable";
        assert!(build("#![no_std]\n", unstable)?.contains(FIRST_LINE));
        // Then it is a dependency that needs `std`.
        assert!(!build(FIRST_LINE, cause)?.contains("has to begin"));
        assert!(!build("", "error: mismatched types")?.contains("has to begin"));
        Ok(())
    }
}
