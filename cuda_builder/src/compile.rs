//! Compiles a kernels crate to rlibs of unoptimised bitcode with cargo and rustc.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::arch::Arch;
use crate::duplicates;
use crate::error::{Error, Step};
use crate::preamble;
use crate::process;
use crate::sysroot::Sysroot;
use crate::toolchain::DeviceToolchain;

/// rustc's name of the device target.
pub(crate) const TARGET: &str = "nvptx64-nvidia-cuda";
/// Name of the cargo profile that is defined for the build.
pub(crate) const PROFILE: &str = "warpsmith-device";

/// What to compile and how.
#[derive(Clone, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) toolchain: &'a DeviceToolchain,
    /// Folder of the crate.
    pub(crate) krate: &'a Path,
    pub(crate) target_dir: &'a Path,
    pub(crate) features: &'a [String],
    pub(crate) default_features: bool,
    /// Whether to enable debug assertions and overflow checks, which trap.
    pub(crate) checked: bool,
    pub(crate) line_info: bool,
    pub(crate) locked: bool,
}

/// The compiled rlibs.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) crate_name: String,
    /// The crate's own rlib.
    pub(crate) own: PathBuf,
    /// The rlibs of its dependencies, those of the sysroot last.
    pub(crate) others: Vec<PathBuf>,
    /// `src` folders of the packages that come neither from a registry nor from the toolchain: a
    /// build script watches these.
    pub(crate) sources: Vec<PathBuf>,
}

/// The messages of cargo's JSON output that are used here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    package_id: String,
    #[serde(default)]
    manifest_path: PathBuf,
    target: Option<TargetInfo>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct TargetInfo {
    name: String,
    src_path: PathBuf,
}

pub(crate) fn compile(request: &Request<'_>) -> Result<Compiled, Error> {
    let sysroot = Sysroot::for_build(request)?;
    let mut command = compiler(request, &sysroot);
    let manifest = request.krate.join("Cargo.toml");
    let output = process::run(Step::Compile, &manifest, &mut command)
        .map_err(|error| duplicates::explained(error, request.krate))
        .map_err(|error| preamble::explained(error, request.krate))?;
    let warnings = String::from_utf8_lossy(&output.stderr);
    if !warnings.trim().is_empty() {
        tracing::warn!("{}", warnings.trim_end());
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    let compiled = collect(&stdout, &manifest).ok_or_else(|| Error::Output {
        step: Step::Compile,
        tool: request.toolchain.cargo.clone(),
        cause: format!("no library of `{}` among what it built", manifest.display()),
    })?;
    Ok(Compiled {
        others: [compiled.others, sysroot.rlibs].concat(),
        ..compiled
    })
}

/// The toolchain's cargo in the crate's folder, without settings of an outer cargo.
pub(crate) fn cargo(toolchain: &DeviceToolchain, krate: &Path) -> Command {
    let mut command = Command::new(&toolchain.cargo);
    clean_environment(&mut command);
    command
        .current_dir(krate)
        .env("RUSTC", &toolchain.rustc)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TERM_COLOR", "never");
    command
}

fn compiler(request: &Request<'_>, sysroot: &Sysroot) -> Command {
    let mut command = cargo(request.toolchain, request.krate);
    command
        .env("CARGO_ENCODED_RUSTFLAGS", rustflags(request, sysroot))
        .args(["rustc", "--lib", "--crate-type", "rlib", "--target", TARGET])
        .args([
            "--message-format",
            "json-render-diagnostics",
            "--quiet",
            "--profile",
            PROFILE,
        ])
        .arg("--target-dir")
        .arg(request.target_dir);
    for setting in profile(request) {
        command
            .arg("--config")
            .arg(format!("profile.{PROFILE}.{setting}"));
    }
    if !request.features.is_empty() {
        command.arg("--features").arg(request.features.join(","));
    }
    if !request.default_features {
        command.arg("--no-default-features");
    }
    if request.locked {
        command.arg("--locked");
    }
    // In the script of this very crate: cargo takes the setting for what the script prints, and
    // compiles neither the script nor what it depends on.
    if let Ok(links) = env::var("CARGO_MANIFEST_LINKS") {
        let setting = format!("target.{TARGET}.\"{links}\".built_by=\"warpsmith\"");
        command.arg("--config").arg(setting);
    }
    command
}

/// The cargo profile. Every setting is explicit, so that the workspace's own profiles have no
/// effect.
pub(crate) fn profile(request: &Request<'_>) -> [String; 10] {
    let checked = request.checked;
    [
        "inherits=\"release\"".to_owned(),
        "opt-level=3".to_owned(),
        "codegen-units=1".to_owned(),
        "panic=\"abort\"".to_owned(),
        "lto=\"off\"".to_owned(),
        "debug=false".to_owned(),
        "strip=false".to_owned(),
        "incremental=false".to_owned(),
        format!("debug-assertions={checked}"),
        format!("overflow-checks={checked}"),
    ]
}

fn rustflags(request: &Request<'_>, sysroot: &Sysroot) -> OsString {
    let mut flags = common_flags(request);
    let mut path = OsString::from("--sysroot=");
    path.push(&sysroot.path);
    flags.push(path);
    flags.extend(remapping(
        request.krate.parent().map(|path| (path.to_owned(), ".")),
    ));
    // rustc uses the last prefix that matches.
    flags.extend(remapping([(request.krate.to_owned(), ".")]));
    joined(flags)
}

/// Flags as cargo takes them.
pub(crate) fn joined(flags: Vec<OsString>) -> OsString {
    flags.join("\u{1f}".as_ref())
}

/// The flags with which all crates are compiled, and `core` for them.
pub(crate) fn common_flags(request: &Request<'_>) -> Vec<OsString> {
    let mut flags = vec![
        // What is compiled serves all architectures, and none of its functions keeps this one.
        OsString::from(format!("-Ctarget-cpu={}", Arch::Sm75)),
        // The rlibs then hold bitcode on which no LLVM pass has run: the typed pass must come
        // first.
        "-Clinker-plugin-lto".into(),
        "-Cno-prepopulate-passes".into(),
        // MIR jump threading copies barriers into both arms of a branch.
        "-Zmir-enable-passes=-JumpThreading".into(),
        // Symbol names can then be demangled, whatever the release's default is.
        "-Csymbol-mangling-version=v0".into(),
    ];
    if request.line_info {
        flags.push("-Cdebuginfo=line-directives-only".into());
    }
    let cargo_home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    flags.extend(remapping([(request.toolchain.library_sources(), "rust")]));
    flags.extend(remapping(cargo_home.or(home).map(|path| (path, "cargo"))));
    flags
}

/// Flags that replace paths of this machine in `.file` directives and panic locations.
fn remapping(
    paths: impl IntoIterator<Item = (PathBuf, &'static str)>,
) -> impl Iterator<Item = OsString> {
    paths.into_iter().map(|(from, to)| {
        let mut flag = OsString::from("--remap-path-prefix=");
        flag.push(from);
        flag.push(format!("={to}"));
        flag
    })
}
/// Removes the environment variables that an outer cargo, rustc or rustup has set: this build may
/// run inside a build script of a different toolchain with different flags.
fn clean_environment(command: &mut Command) {
    let kept = ["CARGO_HOME", "RUSTUP_HOME"];
    let kept_prefixes = [
        "CARGO_HTTP_",
        "CARGO_NET_",
        "CARGO_REGISTR",
        "CARGO_SOURCE_",
        "CARGO_TERM_",
    ];
    let dropped_prefixes = ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP", "DEP_"];
    let dropped = [
        "RUSTFLAGS",
        "MAKEFLAGS",
        "MFLAGS",
        "TARGET",
        "HOST",
        "OUT_DIR",
        "OPT_LEVEL",
        "PROFILE",
        "DEBUG",
        "NUM_JOBS",
    ];
    let in_cargo = env::var_os("CARGO").is_some();
    for (name, _) in env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        let keep = kept.contains(&text) || kept_prefixes.iter().any(|p| text.starts_with(p));
        let drop = dropped.contains(&text) || dropped_prefixes.iter().any(|p| text.starts_with(p));
        // cargo points the library path at its own toolchain for the programs that it runs.
        if (drop && !keep) || (in_cargo && text == "LD_LIBRARY_PATH") {
            command.env_remove(name);
        }
    }
}

fn collect(stdout: &str, manifest: &Path) -> Option<Compiled> {
    let device = |file: &PathBuf| {
        file.extension()
            .is_some_and(|extension| extension == "rlib")
            && file.components().any(|part| part.as_os_str() == TARGET)
    };
    let mut own = None;
    let mut others = Vec::new();
    let mut sources = Vec::new();
    for message in messages(stdout).filter(|message| message.reason == "compiler-artifact") {
        let Some(target) = message.target else {
            continue;
        };
        let Some(rlib) = message.filenames.into_iter().find(device) else {
            continue;
        };
        if message.package_id.starts_with("path+") {
            sources.extend(target.src_path.parent().map(Path::to_owned));
        }
        if message.manifest_path == manifest {
            own = Some((target.name.replace('-', "_"), rlib));
        } else {
            others.push(rlib);
        }
    }
    others.sort();
    let (crate_name, own) = own?;
    Some(Compiled {
        crate_name,
        own,
        others,
        sources,
    })
}

fn messages(stdout: &str) -> impl Iterator<Item = Message> {
    stdout
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(package: &str, name: &str, file: &str) -> String {
        let reason = "compiler-artifact";
        serde_json::json!({
            "reason": reason,
            "package_id": package,
            "manifest_path": format!("/k/{name}/Cargo.toml"),
            "target": { "name": name, "src_path": format!("/k/{name}/src/lib.rs"), "kind": ["lib"] },
            "filenames": [file, format!("{file}.rmeta")],
            "fresh": true,
        })
        .to_string()
    }

    #[test]
    fn the_rlibs_of_the_device_are_collected_and_nothing_else() {
        let device = "/t/nvptx64-nvidia-cuda/warpsmith-device/deps";
        let lines = [
            artifact(
                "registry+x#syn",
                "syn",
                "/t/warpsmith-device/deps/libsyn.rlib",
            ),
            artifact(
                "path+file:///k/my-k",
                "my-k",
                &format!("{device}/libmy_k.rlib"),
            ),
            artifact("registry+x#half", "half", &format!("{device}/libhalf.rlib")),
            artifact("path+file:///k/mac", "mac", &format!("{device}/libmac.so")),
            "{\"reason\":\"build-finished\",\"success\":true}".to_owned(),
        ];
        let manifest = Path::new("/k/my-k/Cargo.toml");
        let compiled = collect(&lines.join("\n"), manifest);
        let compiled = compiled.expect("the crate is among them");
        assert_eq!(compiled.crate_name, "my_k");
        assert_eq!(compiled.own, Path::new(device).join("libmy_k.rlib"));
        assert_eq!(compiled.others, [Path::new(device).join("libhalf.rlib")]);
        assert_eq!(compiled.sources, [Path::new("/k/my-k/src")]);
        let elsewhere = Path::new("/k/other/Cargo.toml");
        assert!(collect(&lines.join("\n"), elsewhere).is_none());
    }
}
