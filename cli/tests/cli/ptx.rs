//! lint, explain, help and completions.

use crate::support::{Folder, data, warpsmith};

fn args<'a>(words: &[&'a str], file: &'a str) -> Vec<String> {
    let file = data(file).display().to_string();
    words
        .iter()
        .map(ToString::to_string)
        .chain([file])
        .collect()
}

#[test]
fn lint_prints_one_finding_a_line_and_fails_on_an_error() {
    let ran = warpsmith(args(&["lint", "--rounding"], "faulty.ptx"));
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", ran.stdout);
    for (line, want) in lines.iter().zip([
        "faulty.ptx:5: error[unresolved-extern]: function `nobody`",
        "faulty.ptx:9: warning[unrounded-float]: in k: `add.f32`",
        "faulty.ptx:10: note[approximate-float]: in k: ",
    ]) {
        assert!(line.contains(want), "{line}");
    }
}

#[test]
fn lint_is_silent_about_sound_ptx() {
    assert_eq!(warpsmith(args(&["lint"], "kernels.ptx")).done(), "");
}

#[test]
fn lint_filters_and_prints_json() {
    let ran = warpsmith(args(
        &["lint", "--rounding", "--json", "--min-severity", "warning"],
        "faulty.ptx",
    ));
    let findings: Vec<serde_json::Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    assert_eq!(findings.len(), 2);
    assert_eq!(findings[0]["rule"], "unresolved-extern");
    assert_eq!(findings[1]["line"], 9);
    assert_eq!(findings[1]["function"], "k");
}

#[test]
fn lint_fails_on_warnings_if_asked_to() {
    let folder = Folder::new();
    let text = std::fs::read_to_string(data("faulty.ptx")).expect("test data");
    let path = folder.write("warn.ptx", text.replace(".extern .func nobody;", ""));
    let path = path.to_str().expect("UTF-8");
    assert_eq!(warpsmith(["lint", path]).code, 0);
    assert_eq!(warpsmith(["lint", "--deny-warnings", path]).code, 0);
    let ran = warpsmith(["lint", "--rounding", "--deny-warnings", path]);
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    warpsmith(["lint", "--min-severity", "loud", path]).failed(2, &["`loud` is not a severity"]);
}

#[test]
fn files_that_are_not_ptx_are_refused_with_their_name() {
    let folder = Folder::new();
    let missing = folder.path("missing.ptx");
    let binary = folder.write("binary.ptx", [0x7f, b'E', b'L', b'F', 0xff, 0xfe]);
    let text = folder.write("text.ptx", ".version 8.0\n.target sm_75\nfn main() {}\n");
    let empty = folder.write("empty.ptx", "");
    for command in ["lint", "explain"] {
        let run = |path: &std::path::Path| warpsmith([command, path.to_str().expect("UTF-8")]);
        run(&missing).failed(1, &["missing.ptx", "No such file"]);
        run(&binary).failed(1, &["binary.ptx is not PTX"]);
        run(&text).failed(
            1,
            &["text.ptx is not PTX: 3:1: expected a directive, found `fn`"],
        );
        run(&empty).failed(1, &["empty.ptx is not PTX: 1:1: expected `.version`"]);
        run(&folder.path("")).failed(1, &["cannot read"]);
    }
}

#[test]
fn explain_shows_each_kernel() {
    let text = warpsmith(args(&["explain"], "kernels.ptx")).done();
    assert!(
        text.starts_with("PTX 7.0 for sm_75: 4 kernels\n\nsaxpy (line 7)\n"),
        "{text}"
    );
    assert!(
        text.contains("  launch bounds at most 128 x 1 x 1 threads\n"),
        "{text}"
    );
    let one = warpsmith(args(&["explain", "--kernel", "unpack"], "kernels.ptx")).done();
    assert!(
        one.contains("unpack (line") && !one.contains("saxpy"),
        "{one}"
    );
    warpsmith(args(&["explain", "--kernel", "gemm"], "kernels.ptx")).failed(
        1,
        &["no kernel `gemm`; it has: saxpy, unpack, leave, overrun"],
    );
}

#[test]
fn explain_prints_one_line_of_json() {
    let text = warpsmith(args(&["explain", "--json"], "kernels.ptx")).done();
    assert_eq!(text.lines().count(), 1);
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["kernels"][1]["params"][1]["bytes"], 24);
    assert_eq!(report["kernels"][0]["mix"]["fma"], 1);
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in [
        "demo",
        "gemm",
        "attention",
        "reduce",
        "softmax",
        "run",
        "build",
        "lint",
        "explain",
        "devices",
        "doctor",
        "completions",
    ] {
        let help = warpsmith([command, "--help"]).done();
        assert!(help.contains(&format!("warpsmith {command}")), "{help}");
        assert!(help.contains("Examples:"), "{command} has no example");
        assert!(warpsmith(["--help"]).done().contains(command));
    }
}

#[test]
fn wrong_usage_has_exit_code_2() {
    for args in [
        &["no-such-command"][..],
        &["lint"],
        &["lint", "--no-such-option", "x.ptx"],
        &["explain"],
        &["run", "x.ptx"],
        &["run", "x.ptx", "launch.toml", "--seed", "many"],
        &["build", "--arch", "sm_1"],
        &["completions", "sh"],
        &[],
    ] {
        let ran = warpsmith(args);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{args:?}");
        assert!(!ran.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = warpsmith(["completions", shell]).done();
        assert!(
            script.contains("explain") && script.contains("attention"),
            "{shell}"
        );
    }
    let folder = Folder::new();
    let path = folder.path("warpsmith.bash");
    assert_eq!(
        warpsmith(["completions", "bash", "-o", path.to_str().expect("UTF-8")]).done(),
        ""
    );
    let written = std::fs::read_to_string(path).expect("it was written");
    assert_eq!(written, warpsmith(["completions", "bash"]).done());
    assert_eq!(folder.names(), ["warpsmith.bash"]);
}
