//! doctor, devices and build.

use crate::support::{Folder, command, warpsmith};

#[test]
fn devices_ends_with_the_emulator() {
    let text = warpsmith(["devices"]).done();
    assert!(text.starts_with("device "), "{text}");
    assert!(
        text.lines()
            .last()
            .is_some_and(|line| line.starts_with("emulator ")),
        "{text}"
    );
    let json = warpsmith(["devices", "--json"]).done();
    let last: serde_json::Value =
        serde_json::from_str(json.lines().last().expect("a line")).expect("JSON");
    assert_eq!(last["device"], "emulator");
    assert!(
        last["max_threads_per_block"]
            .as_u64()
            .is_some_and(|threads| threads >= 1024)
    );
}

#[test]
fn doctor_names_everything_it_looked_for() {
    let ran = warpsmith(["doctor"]);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    for what in [
        "emulator",
        "built-in kernels",
        "driver and GPU",
        "device toolchain",
        "ptxas",
    ] {
        assert!(
            ran.stdout.contains(what),
            "{what} is not in:\n{}",
            ran.stdout
        );
    }
}

#[test]
fn doctor_says_how_to_get_what_is_missing() {
    let folder = Folder::new();
    let nowhere = folder.path("nowhere");
    let output = command()
        .args(["doctor", "--json"])
        .env("WARPSMITH_DEVICE_RUST", &nowhere)
        .env("WARPSMITH_PTXAS", &nowhere)
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(0));
    let stdout = String::from_utf8_lossy(&output.stdout);
    let checks: Vec<serde_json::Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for (what, remedy) in [
        ("device toolchain", "rustup toolchain install"),
        ("ptxas", "pip install"),
    ] {
        let check = checks
            .iter()
            .find(|check| check["what"] == what)
            .expect("it is there");
        assert_eq!(check["state"], "missing");
        assert!(
            check["remedy"]
                .as_str()
                .is_some_and(|text| text.contains(remedy)),
            "{check}"
        );
    }
}

#[test]
fn build_refuses_what_is_no_crate_and_writes_nothing() {
    let folder = Folder::new();
    let out = folder.path("out");
    let build = |krate: std::path::PathBuf| {
        warpsmith([
            "build".as_ref(),
            krate.as_os_str(),
            "-o".as_ref(),
            out.as_os_str(),
        ])
    };
    build(folder.path("missing")).failed(1, &["missing", "not a kernels crate"]);
    build(folder.path("")).failed(1, &["it has no Cargo.toml"]);
    assert_eq!(folder.names(), Vec::<String>::new());
}

#[test]
fn build_without_a_toolchain_says_how_to_get_one() {
    let folder = Folder::new();
    folder.write("Cargo.toml", "[package]\nname = \"k\"\n");
    let output = command()
        .arg("build")
        .arg(folder.path(""))
        .env("WARPSMITH_DEVICE_RUST", folder.path("nowhere"))
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("rustup toolchain install"), "{stderr}");
    assert_eq!(folder.names(), ["Cargo.toml"]);
}
