//! `warpsmith build` with the fixture crate of cuda_builder. Where there is no device toolchain
//! each test says so and checks the refusal instead.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::support::{Folder, Ran, warpsmith};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cuda_builder/tests/fixtures/kernels")
}

/// Builds the fixture with these options, output into `folder`.
fn build(folder: &Folder, options: &[&str]) -> Ran {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fixtures");
    let paths = [
        fixture().into_os_string(),
        "-o".into(),
        folder.path("out").into(),
        "--target-dir".into(),
        target.into(),
    ];
    let options = options.iter().map(|option| (*option).into());
    warpsmith(["build".into()].into_iter().chain(paths).chain(options))
}

/// False, after saying so, where there is no device toolchain; then `ran` says how to get one.
fn has_toolchain(ran: &Ran) -> bool {
    let missing = ran.stderr.contains("no device toolchain");
    if missing {
        assert_eq!(ran.code, 1);
        assert!(
            ran.stderr.contains("rustup toolchain install"),
            "{}",
            ran.stderr
        );
        let required = std::env::var_os("WARPSMITH_REQUIRE_DEVICE_TOOLCHAIN").is_some();
        assert!(!required, "{}", ran.stderr);
        writeln!(std::io::stderr(), "\nskipped: no device toolchain").ok();
    }
    !missing
}

#[test]
fn a_crate_becomes_ptx_and_a_manifest() {
    let folder = Folder::new();
    let ran = build(&folder, &["--arch", "sm_75", "--json"]);
    if !has_toolchain(&ran) {
        return;
    }
    let text = ran.done();
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let file = line["file"].as_str().expect("a path");
        let kernel = line["kernel"]["name"].as_str().expect("a name");
        let ptx = std::fs::read_to_string(file).expect("it was written");
        assert!(
            ptx.contains(&format!(".entry {kernel}(")),
            "{kernel} is not in {file}"
        );
        assert!(ptx.contains(".target sm_75"), "{file}");
    }
    assert!(text.lines().count() > 5, "{text}");
    let manifest = std::fs::read_to_string(folder.path("out/manifest.json")).expect("written");
    assert!(manifest.contains("\"sm_75/"), "{manifest}");
}

#[test]
fn a_kernel_that_breaks_a_rule_is_named_and_nothing_is_written() {
    let folder = Folder::new();
    for (feature, want) in [
        ("local", "local-memory"),
        ("unresolved", "unresolved-extern"),
    ] {
        let ran = build(&folder, &["--features", feature]);
        if !has_toolchain(&ran) {
            return;
        }
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
        assert!(ran.stderr.contains(want), "{}", ran.stderr);
        let last = ran.stderr.lines().last().expect("a line");
        assert!(last.starts_with("error: lint: sm_75/"), "{last}");
        assert_eq!(folder.names(), Vec::<String>::new());
    }
}

#[test]
fn a_family_that_the_crate_does_not_have_is_wrong_usage() {
    let folder = Folder::new();
    let ran = build(&folder, &["--family", "no_such"]);
    if !has_toolchain(&ran) {
        return;
    }
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    let last = ran.stderr.lines().last().expect("a line");
    assert!(
        last.starts_with("error: --family: no ") && last.contains("`no_such`"),
        "{last}"
    );
    assert_eq!(folder.names(), Vec::<String>::new());
}

#[test]
fn an_unknown_feature_is_cargos_message_and_one_line() {
    let folder = Folder::new();
    let ran = build(&folder, &["--features", "no-such-feature"]);
    if !has_toolchain(&ran) {
        return;
    }
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("no-such-feature"), "{}", ran.stderr);
    let last = ran.stderr.lines().last().expect("a line");
    assert!(last.starts_with("error: compile: "), "{last}");
    assert_eq!(folder.names(), Vec::<String>::new());
}

#[test]
fn a_panic_of_a_checked_build_names_its_file_line_and_text() {
    let folder = Folder::new();
    let options = ["--checked", "--features", "panics", "--family", "panics"];
    let ran = build(&folder, &options);
    if !has_toolchain(&ran) {
        return;
    }
    ran.done();
    let source = fixture().join("src/panics.rs");
    let source = std::fs::read_to_string(source).expect("the file is there");
    let marked = (1..).zip(source.lines());
    let marked = marked.filter_map(|(at, line)| Some((at, line.split_once("// PANICS: ")?.1)));
    let mut cases = 0;
    for (case, (line, text)) in marked.enumerate() {
        let toml = format!(
            "kernel = \"panics\"\ngrid = 1\nblock = 1\n\
             [[buffer]]\nname = \"x\"\ndtype = \"u32\"\nshape = [4]\nfill = \"iota\"\n\
             [[arg]]\nbuffer = \"x\"\n[[arg]]\nbuffer = \"x\"\n[[arg]]\nu32 = {case}\n"
        );
        let toml = folder.write("launch.toml", toml);
        let ptx = folder.path("out/sm_75/panics.ptx");
        let files = [ptx.into_os_string(), toml.into_os_string()];
        let files = ["run".into()].into_iter().chain(files);
        let ran = warpsmith(files.chain(["--device".into(), "emulator".into()]));
        assert_eq!(ran.code, 3, "{text}: {}{}", ran.stdout, ran.stderr);
        let want = format!("assertion `{text}` failed at src/panics.rs:{line} in `panics`");
        assert!(ran.stderr.contains(&want), "{want}: {}", ran.stderr);
        cases += 1;
    }
    assert_eq!(cases, 7);
}
