//! Which crate may depend on which: the architecture's rules, checked with `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// For each package of the workspace, the packages of the workspace that it may depend on in any
/// way. Device code never depends on the host, nor does the emulator; the reference shares nothing
/// but `abi` with what it judges.
const MAY_IMPORT: [(&str, &[&str]); 15] = [
    ("warpsmith-abi", &[]),
    ("warpsmith-ptx-syntax", &[]),
    ("warpsmith-cuda-std-macros", &[]),
    (
        "warpsmith-cuda-std",
        &["warpsmith-cuda-std-macros", "warpsmith-abi"],
    ),
    ("kernels-gpu", &["warpsmith-cuda-std", "warpsmith-abi"]),
    ("warpsmith-reference", &["warpsmith-abi"]),
    ("warpsmith-emulator", &["warpsmith-ptx-syntax"]),
    (
        "warpsmith-driver",
        &["warpsmith-emulator", "warpsmith-ptx-syntax"],
    ),
    ("warpsmith-cuda-builder", &["warpsmith-ptx-syntax"]),
    (
        "warpsmith",
        &[
            "warpsmith-abi",
            "warpsmith-ptx-syntax",
            "warpsmith-emulator",
            "warpsmith-reference",
        ],
    ),
    (
        "warpsmith-cli",
        &[
            "warpsmith-cuda-builder",
            "warpsmith-ptx-syntax",
            "warpsmith-driver",
            "warpsmith-emulator",
            "warpsmith",
            "warpsmith-benches",
        ],
    ),
    ("warpsmith-benches", &["warpsmith", "warpsmith-examples"]),
    (
        "warpsmith-examples",
        &["warpsmith", "warpsmith-cuda-builder", "warpsmith-abi"],
    ),
    (
        "warpsmith-tests",
        &[
            "kernels-gpu",
            "warpsmith",
            "warpsmith-cuda-builder",
            "warpsmith-cuda-std",
            "warpsmith-emulator",
            "warpsmith-ptx-syntax",
            "warpsmith-reference",
            "warpsmith-abi",
        ],
    ),
    ("xtask", &["warpsmith-cuda-builder"]),
];

/// What cargo prints, or `None` where there is none: the machine that lends a GPU has the test
/// programs, but no cargo.
fn cargo(arguments: &[&str]) -> Option<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(std::env::var_os("CARGO")?)
        .args(arguments)
        .arg("--offline")
        .current_dir(root)
        .output()
        .expect("cargo runs: it started this test");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(output.stdout)
}

/// The packages of the workspace, with their dependencies in the workspace.
fn workspace_imports() -> Option<BTreeMap<String, BTreeSet<String>>> {
    let output = cargo(&["metadata", "--no-deps", "--format-version", "1"])?;
    let metadata: serde_json::Value = serde_json::from_slice(&output).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let name = |value: &serde_json::Value| value["name"].as_str().expect("name").to_owned();
    let ours: BTreeSet<String> = packages.iter().map(name).collect();
    let imports = |package: &serde_json::Value| {
        let dependencies = package["dependencies"].as_array().expect("dependencies");
        dependencies
            .iter()
            .map(name)
            .filter(|d| ours.contains(d))
            .collect()
    };
    Some(
        packages
            .iter()
            .map(|package| (name(package), imports(package)))
            .collect(),
    )
}

#[test]
fn crates_import_only_what_the_table_allows() {
    let Some(imports) = workspace_imports() else {
        println!("skipped: no cargo here");
        return;
    };
    let table: BTreeMap<&str, &[&str]> = MAY_IMPORT.into_iter().collect();
    let named: Vec<&str> = imports.keys().map(String::as_str).collect();
    let listed: Vec<&str> = table.keys().copied().collect();
    assert_eq!(
        named, listed,
        "a package is missing from the table, or gone from the workspace"
    );
    for (package, imported) in &imports {
        for dependency in imported {
            assert!(
                table[package.as_str()].contains(&dependency.as_str()),
                "{package} imports {dependency}, which the table does not allow",
            );
        }
    }
}

#[test]
fn the_table_has_no_cycle() {
    let table: BTreeMap<&str, &[&str]> = MAY_IMPORT.into_iter().collect();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    while done.len() < table.len() {
        let ready: Vec<&str> = table
            .iter()
            .filter(|(name, deps)| !done.contains(*name) && deps.iter().all(|d| done.contains(d)))
            .map(|(name, _)| *name)
            .collect();
        assert!(
            !ready.is_empty(),
            "cycle among {:?}",
            table.keys().filter(|n| !done.contains(*n))
        );
        done.extend(ready);
    }
}

/// Packages with their features, as `packages` (options that choose them) are built with tests.
fn features(packages: &[&str]) -> Option<BTreeSet<String>> {
    let tree = [
        "tree",
        "--edges",
        "normal,build,dev",
        "--prefix",
        "none",
        "--format",
        "{p} [{f}]",
    ];
    let output = cargo(&[&tree, packages].concat())?;
    let text = String::from_utf8(output).expect("text");
    let lines = text.lines().filter(|line| line.contains(" v"));
    Some(
        lines
            .map(|line| line.trim_end_matches(" (*)").to_owned())
            .collect(),
    )
}

#[test]
fn these_tests_alone_and_the_workspace_share_what_they_build() {
    let (Some(alone), Some(all)) = (
        features(&["--package", "warpsmith-tests"]),
        features(&["--workspace"]),
    ) else {
        println!("skipped: no cargo here");
        return;
    };
    let differ: Vec<_> = alone.difference(&all).collect();
    assert!(
        differ.is_empty(),
        "built twice, since the workspace enables other features; \
         tests/Cargo.toml has to enable the same: {differ:?}"
    );
}
