//! `cargo xtask hook`: Git hooks that check a commit before it is made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Characters of a commit's subject.
const SUBJECT_CHARS: usize = 72;

/// What Git runs: the name of the hook, and its script.
const HOOKS: [(&str, &str); 2] = [
    ("pre-commit", "cargo fmt --all --check && cargo xtask prose"),
    ("commit-msg", "cargo xtask subject \"$1\""),
];

/// Writes the hooks into the repository at `root`, and returns their paths.
///
/// # Errors
/// There is a hook already that is not one of these; Git or the file system fails.
pub(crate) fn install(root: &Path) -> Result<Vec<PathBuf>> {
    let git = Command::new("git")
        .args(["rev-parse", "--git-path", "hooks"])
        .current_dir(root)
        .output()
        .context("git does not start")?;
    ensure!(
        git.status.success(),
        "{}",
        String::from_utf8_lossy(&git.stderr)
    );
    let folder = root.join(String::from_utf8(git.stdout)?.trim());
    fs::create_dir_all(&folder)?;
    let mut paths = Vec::new();
    for (name, script) in HOOKS {
        let path = folder.join(name);
        let text = format!("#!/bin/sh\n# Written by `cargo xtask hook`.\n{script}\n");
        if path.exists() && fs::read_to_string(&path)? != text {
            bail!(
                "{} exists and is another hook: remove it first",
                path.display()
            );
        }
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        make_executable(&path)?;
        paths.push(path);
    }
    Ok(paths)
}

#[cfg(unix)]
fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<()> {
    Ok(())
}

/// Whether the first line of a commit message has the form `area: verb object`.
///
/// # Errors
/// The reason why it has not.
pub(crate) fn check_subject(message: &str) -> Result<()> {
    let subject = message.lines().next().unwrap_or_default();
    if ["Merge ", "Revert ", "fixup! "]
        .iter()
        .any(|start| subject.starts_with(start))
    {
        return Ok(());
    }
    let chars = subject.chars().count();
    ensure!(
        chars <= SUBJECT_CHARS,
        "the subject has {chars} characters, at most {SUBJECT_CHARS}: {subject}"
    );
    let (area, rest) = subject.split_once(": ").unwrap_or_default();
    let is_area =
        |mark: char| mark.is_ascii_lowercase() || mark.is_ascii_digit() || "_-, ".contains(mark);
    let has_area = !area.is_empty() && area.chars().all(is_area);
    ensure!(
        has_area && !rest.trim().is_empty() && !rest.ends_with('.'),
        "the subject is not `area: verb object` without a full stop: {subject}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_an_area_and_at_most_72_characters() {
        for good in [
            "docs: shorten the README",
            "cuda_std: add a fence\n\nWhy.",
            "Merge branch 'x'",
        ] {
            assert!(check_subject(good).is_ok(), "{good}");
        }
        let long = format!("docs: {}", "x".repeat(67));
        for bad in [
            "Shorten the README",
            "Docs: shorten it",
            "docs:",
            "docs: shorten it.",
            &long,
            "",
        ] {
            assert!(check_subject(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hooks_are_written_once_and_never_over_others() -> Result<()> {
        let root = tempfile::tempdir()?;
        let git = Command::new("git")
            .arg("init")
            .arg("-q")
            .current_dir(&root)
            .status()?;
        assert!(git.success());
        let paths = install(root.path())?;
        assert_eq!(paths.len(), 2);
        assert!(fs::read_to_string(&paths[0])?.contains("cargo xtask prose"));
        install(root.path())?;
        fs::write(&paths[1], "another")?;
        assert!(install(root.path()).is_err());
        Ok(())
    }
}
