//! Finds cargo and rustc.

use std::env;
use std::path::{Path, PathBuf};

use super::{Origin, PINNED_RUST, RUST_VARIABLE, numbers, output};

/// The properties of a rustc that was found.
pub(super) struct Rust {
    pub(super) cargo: PathBuf,
    pub(super) rustc: PathBuf,
    pub(super) sysroot: PathBuf,
    pub(super) host: String,
    pub(super) version: String,
    pub(super) llvm_major: u32,
}

/// Folders that may hold cargo and rustc, best first.
pub(super) fn candidates() -> Vec<(Origin, PathBuf)> {
    if let Some(folder) = env::var_os(RUST_VARIABLE) {
        return vec![(Origin::Environment, folder.into())];
    }
    let mut found: Vec<_> = rustup_toolchains()
        .into_iter()
        .map(|path| (Origin::Rustup, path.join("bin")))
        .collect();
    found.extend(["/usr/bin", "/usr/local/bin"].map(|path| (Origin::System, path.into())));
    found
}

/// The installed toolchains of the pinned release. They are read from rustup's folder, because
/// asking rustup for a toolchain may make it download one.
fn rustup_toolchains() -> Vec<PathBuf> {
    let home = env::var_os("RUSTUP_HOME").map(PathBuf::from).or_else(|| {
        let home = env::var_os("HOME").or_else(|| env::var_os("USERPROFILE"))?;
        Some(PathBuf::from(home).join(".rustup"))
    });
    let entries = home.and_then(|home| home.join("toolchains").read_dir().ok());
    let mut toolchains: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            name.starts_with(&format!("{PINNED_RUST}-"))
        })
        .collect();
    toolchains.sort();
    toolchains
}

/// Queries the version and paths of the rustc in `folder`.
pub(super) fn inspect(folder: &Path) -> Result<Rust, String> {
    let program = |name: &str| {
        let path = folder.join(format!("{name}{}", env::consts::EXE_SUFFIX));
        if path.is_file() {
            Ok(path)
        } else {
            Err(format!("no {name} in it"))
        }
    };
    let (rustc, cargo) = (program("rustc")?, program("cargo")?);
    let about = output(&rustc, &["-vV"])?;
    let field = |name: &str| {
        let line = about
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.map(str::to_owned)
            .ok_or_else(|| format!("`rustc -vV` names no {name}"))
    };
    let (version, host, llvm) = (field("release")?, field("host")?, field("LLVM version")?);
    if numbers(&version) < numbers(PINNED_RUST) {
        return Err(format!("rustc is {version}, older than {PINNED_RUST}"));
    }
    let llvm_major = numbers(&llvm).first().copied();
    let llvm_major = llvm_major.ok_or_else(|| format!("rustc's LLVM version is `{llvm}`"))?;
    let sysroot = PathBuf::from(output(&rustc, &["--print", "sysroot"])?.trim());
    let sources = library_sources(&sysroot);
    if !sources.join("core/src/lib.rs").is_file() {
        return Err(format!(
            "rustc {version} has no library sources in {} (rustup component add rust-src, or \
             Debian's rust-web-src)",
            sources.display()
        ));
    }
    Ok(Rust {
        cargo,
        rustc,
        sysroot,
        host,
        version,
        llvm_major,
    })
}

/// The folder with the sources of `core` in a sysroot.
pub(super) fn library_sources(sysroot: &Path) -> PathBuf {
    sysroot.join("lib/rustlib/src/rust/library")
}
