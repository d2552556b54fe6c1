//! Where functions of one name are: rustc names the second alone.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Adds the places of all to an error about a symbol that is defined twice.
pub(crate) fn explained(mut error: Error, krate: &Path) -> Error {
    if let Error::Tool { cause, .. } = &mut error
        && let Some(name) = defined_twice(cause)
    {
        let places = places(name, krate);
        if places.len() > 1 {
            *cause += &format!(
                "\n`{name}` is defined at {}: a kernel's or fragment's name is its symbol, and unique \
                 in the crate",
                places.join(" and ")
            );
        }
    }
    error
}

/// The name in rustc's "symbol `k` is already defined".
fn defined_twice(cause: &str) -> Option<&str> {
    let (before, _) = cause.split_once("` is already defined")?;
    before.rsplit_once("symbol `").map(|(_, name)| name)
}

/// File and line of each function of that name in a crate.
fn places(name: &str, krate: &Path) -> Vec<String> {
    let is_it = |line: &str| {
        let after = line
            .split_once(&format!("fn {name}"))
            .map(|(_, after)| after);
        after.is_some_and(|after| after.starts_with(['(', '<'])) && !line.trim().starts_with("//")
    };
    let mut places = Vec::new();
    for file in sources(krate) {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let path = file.strip_prefix(krate).unwrap_or(&file).display();
        let lines = text.lines().enumerate().filter(|(_, line)| is_it(line));
        places.extend(lines.map(|(index, _)| format!("{path}:{}", index + 1)));
    }
    places
}

/// The Rust files of a crate, in order.
fn sources(krate: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![krate.join("src")];
    while let Some(folder) = open.pop() {
        // What cannot be read has no place to name; rustc has said what is wrong.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Step;

    #[test]
    fn both_places_of_a_name_are_named() -> std::io::Result<()> {
        let krate = tempfile::tempdir()?;
        let src = krate.path().join("src");
        fs::create_dir_all(src.join("deep"))?;
        fs::write(
            src.join("lib.rs"),
            "mod deep;\n\n#[kernel]\npub unsafe fn k(x: u32) {}\n",
        )?;
        fs::write(
            src.join("deep/mod.rs"),
            "// fn k() of another\nunsafe fn kk() {}\npub unsafe fn k() {}\nfn once() {}\n",
        )?;
        let explained = |symbol: &str| {
            let error = Error::Tool {
                step: Step::Compile,
                tool: "cargo".into(),
                file: "Cargo.toml".into(),
                status: "exit status: 101".into(),
                cause: format!("error: symbol `{symbol}` is already defined\n --> src/lib.rs:4:1"),
            };
            explained(error, krate.path()).to_string()
        };
        let both = explained("k");
        let places = Path::new("src").join("deep").join("mod.rs");
        let places = format!("`k` is defined at {}:3 and ", places.display());
        assert!(both.contains(&places), "{both}");
        assert!(both.contains("lib.rs:4: a kernel's"), "{both}");
        assert!(!explained("once").contains("is defined at"));
        Ok(())
    }
}
