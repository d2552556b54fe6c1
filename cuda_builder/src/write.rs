//! Writes the PTX and the manifest.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use ptx_syntax::manifest::file::File;
use ptx_syntax::manifest::{Manifest, ModuleEntry};

use crate::arch::Arch;
use crate::builder::BuiltModule;
use crate::error::{Error, Step};

/// File name of the manifest.
pub const MANIFEST: &str = "manifest.json";

/// Writes the PTX and then the manifest into `folder`, and removes the files that an earlier
/// manifest there names and this one does not.
pub(crate) fn write(
    folder: &Path,
    manifest: &Manifest,
    modules: &[BuiltModule],
) -> Result<(), Error> {
    let kept: BTreeSet<&str> = manifest
        .modules
        .iter()
        .map(|entry| entry.path.as_str())
        .collect();
    let old = found(folder);
    for module in modules {
        let file = folder.join(&module.entry.path);
        let parent = file.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(io(parent))?;
        fs::write(&file, &module.ptx).map_err(io(&file))?;
    }
    for entry in old.iter().flat_map(|manifest| &manifest.modules) {
        let file = folder.join(&entry.path);
        if !kept.contains(entry.path.as_str()) && is_ours(&entry.path) && file.is_file() {
            fs::remove_file(&file).map_err(io(&file))?;
        }
    }
    let path = folder.join(MANIFEST);
    fs::write(&path, text(manifest)?).map_err(io(&path))
}

/// The manifest in `folder`, if there is one that can be read.
fn found(folder: &Path) -> Option<Manifest> {
    let text = fs::read_to_string(folder.join(MANIFEST)).ok()?;
    serde_json::from_str(&text).ok()
}

/// Adds to `manifest`, which describes `families`, the entries of all other families from the
/// manifest in `folder`.
pub(crate) fn keep_others(
    folder: &Path,
    manifest: &mut Manifest,
    families: &[String],
) -> Result<(), Error> {
    let Some(there) = found(folder) else {
        return Ok(());
    };
    if there.toolchain != manifest.toolchain {
        return Err(Error::Option {
            option: "family",
            reason: format!(
                "what is in `{}` was built by another toolchain; build all families",
                folder.display()
            ),
        });
    }
    let is_built = |entry: &ModuleEntry| {
        let file = entry.path.split('/').next_back().unwrap_or_default();
        families
            .iter()
            .any(|family| file.strip_suffix(".ptx") == Some(family))
    };
    let others = there.modules.into_iter().filter(|entry| !is_built(entry));
    manifest.modules.extend(others);
    manifest
        .modules
        .sort_by_key(|entry| (entry.arch.parse::<Arch>().ok(), entry.path.clone()));
    Ok(())
}

/// The manifest as it stands in the file: each signature, kernel and fragment is a
/// line.
pub(crate) fn text(manifest: &Manifest) -> Result<String, Error> {
    let json = |error: serde_json::Error| Error::Io {
        step: Step::Write,
        path: MANIFEST.into(),
        source: error.into(),
    };
    let file = File::from(manifest.clone());
    let text = serde_json::to_string(&file).map_err(json)?;
    // The same text, with white space between these alone.
    let mut lines = Vec::new();
    for signature in &file.signatures {
        lines.push(serde_json::to_string(signature).map_err(json)?);
    }
    for module in &file.modules {
        for kernel in &module.kernels {
            lines.push(serde_json::to_string(kernel).map_err(json)?);
        }
        for fragment in &module.fragments {
            lines.push(serde_json::to_string(fragment).map_err(json)?);
        }
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text.as_str());
    for line in &lines {
        if let Some((before, after)) = rest.split_once(line.as_str()) {
            out.extend([before, "\n", line.as_str()]);
            rest = after;
        }
    }
    Ok(out + rest + "\n")
}

/// Whether the path has the form `<arch>/<family>.ptx`. A manifest read from a file cannot make a
/// build remove anything else.
fn is_ours(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts[..], [arch, file] if arch.starts_with("sm_") && file.ends_with(".ptx"))
        && !path.contains('\\')
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io {
        step: Step::Write,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_modules_are_removed_on_the_word_of_a_manifest() {
        assert!(is_ours("sm_90a/gemm.ptx"));
        for path in [
            "gemm.ptx",
            "../gemm.ptx",
            "sm_75/../x.ptx",
            "/sm_75/x.ptx",
            "sm_75/x.rs",
        ] {
            assert!(!is_ours(path), "{path}");
        }
    }
}
