//! Writing the results.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use ptx_syntax::manifest::Manifest;

use crate::builder::BuiltModule;
use crate::error::{Error, Step};

/// File name of the manifest.
pub const MANIFEST: &str = "manifest.json";

/// Writes PTX and manifest into `folder`, the manifest last, and removes the files that an
/// earlier manifest there names and this one does not.
pub(crate) fn write(
    folder: &Path,
    manifest: &Manifest,
    modules: &[BuiltModule],
) -> Result<(), Error> {
    let path = folder.join(MANIFEST);
    let kept: BTreeSet<&str> = manifest
        .modules
        .iter()
        .map(|entry| entry.path.as_str())
        .collect();
    let old = fs::read_to_string(&path).ok();
    let old: Option<Manifest> = old.and_then(|text| serde_json::from_str(&text).ok());
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
    fs::write(&path, text(manifest)?).map_err(io(&path))
}

/// The manifest as it stands in the file: each kernel and each fragment is a line.
pub(crate) fn text(manifest: &Manifest) -> Result<String, Error> {
    let json = |error: serde_json::Error| Error::Io {
        step: Step::Write,
        path: MANIFEST.into(),
        source: error.into(),
    };
    // The same text without white space that stands between kernels and modules alone.
    let text = serde_json::to_string(manifest).map_err(json)?;
    let mut lines = Vec::new();
    for module in &manifest.modules {
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

/// `<arch>/<family>.ptx`: nothing else is removed on the word of a file.
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
