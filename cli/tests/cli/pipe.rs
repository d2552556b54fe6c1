//! Output that cannot be written.

use std::fs::File;
use std::io::pipe;

use crate::support::{command, data};

#[test]
fn a_closed_pipe_ends_the_program_in_silence() {
    let kernels = data("kernels.ptx").display().to_string();
    for args in [
        &["--help"][..],
        &["lint", &data("faulty.ptx").display().to_string()],
        &["explain", &kernels],
        &["explain", "--json", &kernels],
        &["completions", "bash"],
        &["devices"],
        &["doctor"],
    ] {
        let (reader, writer) = pipe().expect("a pipe");
        drop(reader);
        let output = command()
            .args(args)
            .stdout(writer)
            .output()
            .expect("the program starts");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_one_line() {
    let full = File::options()
        .write(true)
        .open("/dev/full")
        .expect("Linux has it");
    let output = command()
        .args(["completions", "bash"])
        .stdout(full)
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.starts_with("error: ") && stderr.lines().count() == 1,
        "{stderr}"
    );
}
