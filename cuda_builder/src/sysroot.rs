//! `core` for the device: built once for each toolchain and set of flags, and kept for all crates of
//! this machine.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use ptx_syntax::manifest::hash;

use crate::compile::{PROFILE, Request, TARGET, cargo, common_flags, joined, profile};
use crate::error::{Error, Step};
use crate::process;

/// The environment variable that names the folder in which `core` for the device is kept.
pub const CACHE_VARIABLE: &str = "WARPSMITH_CACHE_DIR";

/// A sysroot with `core` and `compiler_builtins` for the device.
#[derive(Clone, Debug)]
pub(crate) struct Sysroot {
    /// What rustc's option `--sysroot` takes.
    pub(crate) path: PathBuf,
    /// Its rlibs, sorted.
    pub(crate) rlibs: Vec<PathBuf>,
}

impl Sysroot {
    /// The sysroot for a build. It is built if it is not there.
    pub(crate) fn for_build(request: &Request<'_>) -> Result<Self, Error> {
        let folder = cache(request).join(key(request));
        let path = folder.join("sysroot");
        let io = |source| Error::Io {
            step: Step::Compile,
            path: folder.clone(),
            source,
        };
        fs::create_dir_all(&folder).map_err(io)?;
        // Builds of other crates wait here for the first one.
        let lock = File::create(folder.join("lock")).map_err(io)?;
        lock.lock().map_err(io)?;
        if !path.is_dir() {
            tracing::info!(folder = %folder.display(), "building core for the GPU, once");
            let rlibs = build(request, &folder)?;
            install(&rlibs, &folder).map_err(io)?;
        }
        let rlibs = rlibs_in(&libraries(&path)).map_err(io)?;
        Ok(Self { path, rlibs })
    }
}

/// The folder of [`CACHE_VARIABLE`], that of the user, or one beside the crate's other files.
fn cache(request: &Request<'_>) -> PathBuf {
    let named = env::var_os(CACHE_VARIABLE).filter(|folder| !folder.is_empty());
    let of_user = || Some(dirs::cache_dir()?.join("warpsmith"));
    let folder = named.map(PathBuf::from).or_else(of_user);
    folder
        .unwrap_or_else(|| request.target_dir.to_owned())
        .join("device")
}

/// A name for the toolchain and the flags.
fn key(request: &Request<'_>) -> String {
    let toolchain = request.toolchain;
    let described = format!(
        "{} {} {:?} {:?}",
        toolchain.rustc.display(),
        toolchain.sysroot.display(),
        common_flags(request),
        profile(request)
    );
    format!("{}-{}", toolchain.rustc_version, hash(&described))
}

/// Compiles an empty crate and, for it, `core`.
fn build(request: &Request<'_>, folder: &Path) -> Result<Vec<PathBuf>, Error> {
    const MANIFEST: &str = "[package]\nname = \"empty\"\nedition = \"2024\"\n\n[workspace]\n";
    let krate = folder.join("crate");
    let io = |source| Error::Io {
        step: Step::Compile,
        path: krate.clone(),
        source,
    };
    fs::create_dir_all(krate.join("src")).map_err(io)?;
    fs::write(krate.join("Cargo.toml"), MANIFEST).map_err(io)?;
    fs::write(krate.join("src/lib.rs"), "#![no_std]\n").map_err(io)?;
    let mut command: Command = cargo(request.toolchain, &krate);
    command
        .env("CARGO_ENCODED_RUSTFLAGS", joined(common_flags(request)))
        .args(["build", "--lib", "--quiet", "-Zbuild-std=core"])
        .args(["--target", TARGET, "--profile", PROFILE])
        .args(["--target-dir", "target"]);
    for setting in profile(request) {
        let setting = format!("profile.{PROFILE}.{setting}");
        command.args(["--config", &setting]);
    }
    process::run(Step::Compile, &krate.join("Cargo.toml"), &mut command)?;
    let built = krate.join("target").join(TARGET).join(PROFILE).join("deps");
    let is_core = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libcore-") || name.starts_with("libcompiler_builtins-")
    };
    let mut rlibs = rlibs_in(&built).map_err(io)?;
    rlibs.retain(is_core);
    Ok(rlibs)
}

/// Copies the rlibs to where rustc looks for them, all or none, and removes the rest.
fn install(rlibs: &[PathBuf], folder: &Path) -> io::Result<()> {
    let unfinished = folder.join("unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    let libraries = libraries(&unfinished);
    fs::create_dir_all(&libraries)?;
    for rlib in rlibs {
        fs::copy(rlib, libraries.join(rlib.file_name().unwrap_or_default()))?;
    }
    fs::rename(&unfinished, folder.join("sysroot"))?;
    fs::remove_dir_all(folder.join("crate"))
}

/// The folder of the device's libraries in a sysroot.
fn libraries(sysroot: &Path) -> PathBuf {
    sysroot.join("lib/rustlib").join(TARGET).join("lib")
}

fn rlibs_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let files = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut rlibs = files.collect::<io::Result<Vec<PathBuf>>>()?;
    rlibs.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "rlib")
    });
    rlibs.sort();
    Ok(rlibs)
}
