//! Writes the PTX and the manifest.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use ptx_syntax::manifest::file::File;
use ptx_syntax::manifest::{Manifest, ModuleEntry};
use serde::Deserialize;

use crate::arch::Arch;
use crate::builder::BuiltModule;
use crate::error::{Error, Step};
use crate::launches::{self, LAUNCHES};

/// File name of the manifest.
pub const MANIFEST: &str = "manifest.json";

/// A folder for the modules of one crate, and the files there that an earlier build of it wrote.
#[derive(Debug)]
pub(crate) struct Folder<'a> {
    path: &'a Path,
    own: BTreeSet<String>,
}

/// What a manifest of any format says of its files.
#[derive(Deserialize)]
struct Owner {
    #[serde(rename = "crate")]
    krate: String,
    modules: Vec<Owned>,
}

#[derive(Deserialize)]
struct Owned {
    path: String,
}

impl<'a> Folder<'a> {
    /// The folder at `path`, for the crate `krate`.
    ///
    /// # Errors
    /// [`Error::Foreign`] where the manifest there is that of another crate, or of nobody known.
    pub(crate) fn of(path: &'a Path, krate: &str) -> Result<Self, Error> {
        let manifest = path.join(MANIFEST);
        let text = match fs::read_to_string(&manifest) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let own = BTreeSet::new();
                return Ok(Self { path, own });
            }
            Err(source) => return Err(io(&manifest)(source)),
        };
        let owner: Option<Owner> = serde_json::from_str(&text).ok();
        match owner {
            Some(owner) if owner.krate == krate => {
                let paths = owner.modules.into_iter().map(|module| module.path);
                let own = paths.filter(|path| is_module(path)).collect();
                Ok(Self { path, own })
            }
            owner => Err(Error::Foreign {
                path: manifest,
                krate: krate.to_owned(),
                owner: owner.map(|owner| owner.krate),
            }),
        }
    }

    /// Removes the files of an earlier build that `manifest` does not name, and writes the manifest
    /// and then the PTX. A build that is interrupted leaves no file that the next one does not
    /// list.
    ///
    /// # Errors
    /// [`Error::Foreign`] where a file that is not of an earlier build is in the way; [`Error::Io`].
    pub(crate) fn write(&self, manifest: &Manifest, modules: &[BuiltModule]) -> Result<(), Error> {
        let file = |path: &String| self.path.join(path);
        let is_foreign = |path: &&String| !self.own.contains(*path) && file(path).exists();
        let mut paths = modules.iter().map(|module| &module.entry.path);
        if let Some(foreign) = paths.find(is_foreign) {
            return Err(Error::Foreign {
                path: file(foreign),
                krate: manifest.krate.clone(),
                owner: None,
            });
        }
        let is_kept = |path: &String| manifest.modules.iter().any(|entry| entry.path == *path);
        for path in self.own.iter().filter(|path| !is_kept(path)).map(file) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(io(&path)(error)),
                _ => {}
            }
        }
        fs::create_dir_all(self.path).map_err(io(self.path))?;
        let path = self.path.join(MANIFEST);
        fs::write(&path, text(manifest)?).map_err(io(&path))?;
        for module in modules {
            let file = file(&module.entry.path);
            let parent = file.parent().unwrap_or(self.path);
            fs::create_dir_all(parent).map_err(io(parent))?;
            fs::write(&file, &module.ptx).map_err(io(&file))?;
        }
        Ok(())
    }

    /// Writes the launches of the kernels that `manifest` describes.
    pub(crate) fn write_launches(&self, manifest: &Manifest) -> Result<(), Error> {
        let path = self.path.join(LAUNCHES);
        fs::write(&path, launches::source(manifest)).map_err(io(&path))
    }
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
    let there = found(folder);
    if there.is_none() && !folder.join(MANIFEST).exists() {
        return Ok(());
    }
    let same = there.filter(|there| there.toolchain == manifest.toolchain);
    let Some(there) = same else {
        return Err(Error::Option {
            option: "family",
            reason: format!(
                "what is in `{}` was built by another toolchain; build all families",
                folder.display()
            ),
        });
    };
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
fn is_module(path: &str) -> bool {
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
    use ptx_syntax::manifest::{FORMAT, Toolchain, hash};

    fn module(path: &str) -> BuiltModule {
        let ptx = format!("// {path}");
        let entry = ModuleEntry {
            path: path.to_owned(),
            arch: "sm_75".to_owned(),
            hash: hash(&ptx),
            kernels: Vec::new(),
            fragments: Vec::new(),
        };
        BuiltModule {
            arch: Arch::Sm75,
            family: path.to_owned(),
            ptx,
            entry,
            assembled: None,
        }
    }

    /// Writes modules of a crate into `folder`, as a build does.
    fn build(folder: &Path, krate: &str, paths: &[&str]) -> Result<(), Error> {
        let modules: Vec<BuiltModule> = paths.iter().map(|path| module(path)).collect();
        let manifest = Manifest {
            format: FORMAT,
            krate: krate.to_owned(),
            toolchain: Toolchain {
                rustc: "1".to_owned(),
                llvm: "2".to_owned(),
                cuda_builder: "3".to_owned(),
            },
            modules: modules.iter().map(|module| module.entry.clone()).collect(),
        };
        Folder::of(folder, krate)?.write(&manifest, &modules)
    }

    fn is_foreign(built: Result<(), Error>, file: &Path, whose: Option<&str>) -> bool {
        matches!(built, Err(Error::Foreign { path, owner, .. })
            if path == file && owner.as_deref() == whose)
    }

    #[test]
    fn a_build_replaces_its_own_files_and_leaves_all_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let is_there = |path: &str| folder.join(path).exists();
        build(folder, "one", &["sm_75/a.ptx", "sm_75/b.ptx"]).expect("an empty folder");
        fs::write(folder.join("sm_75/notes.txt"), "mine").expect("writes");
        build(folder, "one", &["sm_75/b.ptx", "sm_75/c.ptx"]).expect("its own folder");
        assert!(!is_there("sm_75/a.ptx") && is_there("sm_75/c.ptx") && is_there("sm_75/notes.txt"));

        let manifest = folder.join(MANIFEST);
        let refused = build(folder, "two", &["sm_75/d.ptx"]);
        assert!(is_foreign(refused, &manifest, Some("one")));
        assert!(is_there("sm_75/b.ptx") && is_there("sm_75/c.ptx") && !is_there("sm_75/d.ptx"));

        fs::write(&manifest, "{\"name\":\"something else\"}").expect("writes");
        assert!(is_foreign(
            build(folder, "one", &["sm_75/b.ptx"]),
            &manifest,
            None
        ));
        fs::remove_file(&manifest).expect("it is there");
        let file = folder.join("sm_75/b.ptx");
        assert!(is_foreign(
            build(folder, "one", &["sm_75/b.ptx"]),
            &file,
            None
        ));
        assert!(is_there("sm_75/c.ptx") && !manifest.exists());
    }

    #[test]
    fn only_modules_are_removed_on_the_word_of_a_manifest() {
        assert!(is_module("sm_90a/gemm.ptx"));
        for path in [
            "gemm.ptx",
            "../gemm.ptx",
            "sm_75/../x.ptx",
            "/sm_75/x.ptx",
            "sm_75/x.rs",
        ] {
            assert!(!is_module(path), "{path}");
        }
    }
}
