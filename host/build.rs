//! Embeds the compiled kernels, compressed: the manifest of the folder `ptx`, and each `.ptx` whose
//! features are on.
//!
//! The folder is `ptx` beside this file: a copy in a published package, a symbolic link here. In a
//! checkout whose file system has no links, it is `../ptx`.
//!
//! A debug build embeds nothing if `WARPSMITH_PTX_DIR` names a folder, as `.cargo/config.toml` of
//! this workspace does: the files are read from there at run time.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[allow(
    clippy::duplicate_mod,
    reason = "the library's tests load this file as a module"
)]
#[path = "src/load/features.rs"]
mod features;

fn main() -> Result<(), Box<dyn Error>> {
    let package = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/load/features.rs");
    println!("cargo::rerun-if-env-changed=WARPSMITH_PTX_DIR");
    let read_from = env::var("WARPSMITH_PTX_DIR").unwrap_or_default();
    if !read_from.is_empty() && env::var("PROFILE")? == "debug" {
        let read_from = Path::new(&read_from);
        fs::write(out.join("embedded.rs"), table(Some(read_from), &[], &out)?)?;
        return Ok(());
    }
    let folder = ["ptx", "../ptx"].map(|name| package.join(name)).into_iter();
    let mut found = Vec::new();
    match folder.clone().find(|folder| folder.is_dir()) {
        Some(folder) => {
            let folder = folder.canonicalize()?;
            // Cargo looks at the whole folder, so files that come and go count too.
            println!("cargo::rerun-if-changed={}", folder.display());
            collect(&folder, &folder, &mut found)?;
        }
        None => {
            for folder in folder {
                println!("cargo::rerun-if-changed={}", folder.display());
            }
        }
    }
    found.retain(|(name, _)| features::lacking(name, features::FEATURES).is_empty());
    found.sort();
    fs::write(out.join("embedded.rs"), table(None, &found, &out)?)?;
    Ok(())
}

/// All `.ptx` and `.json` files under `folder`: their paths relative to `root`, with `/`, and
/// their places.
pub(crate) fn collect(
    root: &Path,
    folder: &Path,
    found: &mut Vec<(String, PathBuf)>,
) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, found)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "ptx" || extension == "json")
        {
            let parts = path
                .strip_prefix(root)?
                .iter()
                .map(|part| part.to_string_lossy());
            found.push((parts.collect::<Vec<_>>().join("/"), path));
        }
    }
    Ok(())
}

/// Compresses each file into `out`, and gives the source of a table of them, and of the folder that
/// is read instead.
pub(crate) fn table(
    read_from: Option<&Path>,
    files: &[(String, PathBuf)],
    out: &Path,
) -> Result<String, Box<dyn Error>> {
    let read_from = read_from.map(|folder| folder.display().to_string());
    let mut source = format!(
        "pub(super) const FOLDER: Option<&str> = {read_from:?};\n\
         pub(super) static FILES: &[(&str, &[u8])] = &[\n"
    );
    for (index, (name, path)) in files.iter().enumerate() {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&fs::read(path)?)?;
        let packed = out.join(format!("embedded_{index}.z"));
        fs::write(&packed, encoder.finish()?)?;
        writeln!(
            source,
            "    ({name:?}, include_bytes!({:?})),",
            packed.display().to_string()
        )?;
    }
    source.push_str("];\n");
    Ok(source)
}
