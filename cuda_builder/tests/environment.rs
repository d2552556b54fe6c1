//! What the environment may and may not do to a build. Each case runs this test program again
//! with the environment in question, since a process cannot safely change its own.

use std::env;
use std::error::Error as StdError;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{builder, fixture, toolchain};
use cuda_builder::CudaBuilder;
use cuda_builder::toolchain::{DeviceToolchain, Ptxas};

type Outcome = Result<(), Box<dyn StdError>>;

/// Set in the inner run.
const INNER: &str = "WARPSMITH_TEST_INNER";

/// This program again, running `test` alone.
fn again(test: &str) -> Result<Command, std::io::Error> {
    let mut command = Command::new(env::current_exe()?);
    command
        .args(["--exact", &format!("environment::{test}"), "--nocapture"])
        .env(INNER, "1");
    Ok(command)
}

fn is_inner() -> bool {
    env::var_os(INNER).is_some()
}

/// Standard output of a run that must succeed.
fn output(command: &mut Command) -> Result<String, Box<dyn StdError>> {
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    Err(format!("{text}\n{}", String::from_utf8_lossy(&output.stderr)).into())
}

#[test]
fn an_outer_cargo_does_not_leak_into_the_build() -> Outcome {
    let test = "an_outer_cargo_does_not_leak_into_the_build";
    let Some(toolchain) = toolchain(test) else {
        return Ok(());
    };
    if is_inner() {
        let report = builder(&toolchain).build()?;
        println!("hash {}", report.manifest.modules[0].hash);
        return Ok(());
    }
    let hash = |text: &str| {
        let line = text.lines().find_map(|line| line.split_once("hash "));
        line.map(|(_, hash)| hash.to_owned())
            .ok_or("the inner run printed no hash")
    };
    let plain = output(&mut again(test)?)?;
    let out = tempfile::tempdir()?;
    let in_build_script = output(
        again(test)?
            .env("NUM_JOBS", "2")
            .env("OUT_DIR", out.path())
            .env("RUSTFLAGS", "-Cno-such-flag")
            .env("CARGO_ENCODED_RUSTFLAGS", "-Cno-such-flag")
            .env("RUSTC_WRAPPER", "/no/such/wrapper")
            .env("RUSTC", "/no/such/rustc")
            .env("RUSTUP_TOOLCHAIN", "no-such-toolchain")
            .env("CARGO_BUILD_TARGET", "no-such-target")
            .env("CARGO_TARGET_DIR", "/no/such/folder")
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "nonsense")
            .env("CARGO_MAKEFLAGS", "--jobserver-auth=100,101")
            .env("LD_LIBRARY_PATH", "/no/such/folder"),
    )?;
    assert_eq!(hash(&plain)?, hash(&in_build_script)?);
    assert!(!plain.contains("cargo:"));
    for line in [
        "cargo:rerun-if-changed=",
        "cargo:rerun-if-env-changed=WARPSMITH_LLVM_BIN",
    ] {
        assert!(
            in_build_script.contains(line),
            "{line} is not in: {in_build_script}"
        );
    }
    assert!(in_build_script.contains("kernels/dep/src"));
    assert!(out.path().join("ptx/manifest.json").is_file());
    assert!(out.path().join("ptx/sm_75/maths.ptx").is_file());
    Ok(())
}

#[test]
fn a_folder_without_a_toolchain_is_named_with_the_way_out() -> Outcome {
    let test = "a_folder_without_a_toolchain_is_named_with_the_way_out";
    if is_inner() {
        let error = CudaBuilder::new(fixture())
            .build()
            .err()
            .ok_or("built without a toolchain")?;
        println!("{error}");
        return Ok(());
    }
    let empty = tempfile::tempdir()?;
    let said = output(again(test)?.env("WARPSMITH_DEVICE_RUST", empty.path()))?;
    let folder = empty.path().display().to_string();
    for part in [
        &*folder,
        "no rustc in it",
        "rustup toolchain install 1.96.0",
        "apt-get install",
    ] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
    Ok(())
}

/// Writes a program that prints `text`.
#[cfg(unix)]
fn script(folder: &Path, name: &str, text: &str) -> Result<(), std::io::Error> {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\ncat <<'TEXT'\n{text}\nTEXT\n"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
}

#[test]
#[cfg(unix)]
fn llvm_tools_of_another_major_version_are_refused() -> Outcome {
    let test = "llvm_tools_of_another_major_version_are_refused";
    if !is_inner() && toolchain(test).is_none() {
        return Ok(());
    }
    if is_inner() {
        let error = DeviceToolchain::discover()
            .err()
            .ok_or("LLVM 19 was accepted")?;
        println!("{error}");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    for tool in ["llvm-ar", "llvm-link", "opt", "llc"] {
        script(
            folder.path(),
            tool,
            "LLVM (http://llvm.org/):\n  LLVM version 19.1.7",
        )?;
    }
    let said = output(again(test)?.env("WARPSMITH_LLVM_BIN", folder.path()))?;
    for part in ["its LLVM is 19.1.7", "which this rustc uses"] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
    Ok(())
}

#[test]
#[cfg(unix)]
fn a_rustc_that_is_too_old_is_refused() -> Outcome {
    if is_inner() {
        let error = DeviceToolchain::discover()
            .err()
            .ok_or("rustc 1.85 was accepted")?;
        println!("{error}");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let about =
        "rustc 1.85.0\nhost: x86_64-unknown-linux-gnu\nrelease: 1.85.0\nLLVM version: 19.1.7";
    script(folder.path(), "rustc", about)?;
    script(folder.path(), "cargo", "cargo 1.85.0")?;
    let mut inner = again("a_rustc_that_is_too_old_is_refused")?;
    let said = output(inner.env("WARPSMITH_DEVICE_RUST", folder.path()))?;
    assert!(
        said.contains("rustc is 1.85.0, older than 1.96.0"),
        "{said}"
    );
    Ok(())
}

#[test]
#[cfg(unix)]
fn ptxas_is_taken_from_the_variable_or_its_absence_explained() -> Outcome {
    let test = "ptxas_is_taken_from_the_variable_or_its_absence_explained";
    if is_inner() {
        match Ptxas::discover() {
            Ok(ptxas) => println!("found {} in {}", ptxas.version, ptxas.path.display()),
            Err(error) => println!("{error}"),
        }
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    script(
        folder.path(),
        "ptxas",
        "Cuda compilation tools, release 99.7, V99.7.1",
    )?;
    let program = folder.path().join("ptxas");
    let said = output(again(test)?.env("WARPSMITH_PTXAS", &program))?;
    assert!(said.contains("found 99.7 in"), "{said}");
    let said = output(again(test)?.env("WARPSMITH_PTXAS", folder.path().join("absent")))?;
    assert!(
        said.contains("no ptxas: WARPSMITH_PTXAS") && said.contains("pip install"),
        "{said}"
    );
    Ok(())
}
