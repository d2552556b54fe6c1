//! Programs of `examples/` on the driver. They find it as they would find NVIDIA's: by its name in
//! the loader's path.
#![cfg(target_os = "linux")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The folder of this test, where cargo puts the driver, too.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a place");
    test.parent().expect("it is in a folder").to_path_buf()
}

/// Runs an example of this package on the driver.
fn run(example: &str, settings: &[(&str, &Path)]) -> Output {
    run_with(example, &[], settings)
}

/// Runs it with arguments.
fn run_with(example: &str, arguments: &[&str], settings: &[(&str, &Path)]) -> Output {
    let folder = TempDir::new().expect("a temporary folder");
    let driver = built().join("libwarpsmith_driver.so");
    assert!(driver.exists(), "{}", driver.display());
    for name in ["libcuda.so", "libcuda.so.1", "libcudart.so.13"] {
        symlink(&driver, folder.path().join(name)).expect("the folder can be written");
    }
    Command::new(built().join("../examples").join(example))
        .env("LD_LIBRARY_PATH", folder.path())
        .args(arguments)
        .envs(settings.iter().copied())
        .output()
        .expect("the example is built with the tests")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_program_with_cudarc_adds_vectors() {
    let ran = run("vector_add", &[]);
    let (stdout, stderr) = (text(&ran.stdout), text(&ran.stderr));
    assert!(ran.status.success(), "{stderr}");
    assert_eq!(stdout, "added 1000 numbers with driver 13050\n");
    assert_eq!(
        stderr,
        "warpsmith: libcuda of warpsmith, an emulated GPU of compute capability 9.0\n"
    );
}

#[test]
fn a_race_is_a_report_and_a_lasting_error() {
    let folder = TempDir::new().expect("a temporary folder");
    let reports = folder.path().join("reports");
    let ran = run("race", &[("WARPSMITH_REPORTS", &reports)]);
    let (stdout, stderr) = (text(&ran.stdout), text(&ran.stderr));
    // As on a GPU, the launch succeeds, and what waits for it does not.
    assert_eq!(
        stdout,
        "launched: Ok(())\n\
         waited: Err(DriverError(CUDA_ERROR_LAUNCH_FAILED, \"unspecified launch failure\"))\n"
    );
    assert!(stderr.contains("error: data race"), "{stderr}");
    assert!(stderr.contains("kernel race, PTX line 10"), "{stderr}");
    let kept = std::fs::read_to_string(&reports).expect("the driver wrote it");
    assert!(stderr.contains(&kept), "{kept}");
    let blocking = run("race", &[("CUDA_LAUNCH_BLOCKING", Path::new("1"))]);
    assert!(text(&blocking.stdout).starts_with("launched: Err("));
}

#[test]
fn a_program_on_the_runtime_api_registers_its_kernels_and_runs() {
    let ran = run("runtime", &[]);
    let (stdout, stderr) = (text(&ran.stdout), text(&ran.stderr));
    assert!(ran.status.success(), "{stderr}");
    assert_eq!(
        stdout,
        "scaled 100 numbers\nsampled 20 texels\n\
         waited: (\"cudaErrorLaunchFailure\", \"unspecified launch failure\")\n"
    );
    assert!(stderr.contains("kernel race, PTX line 39"), "{stderr}");
    assert!(stderr.contains("error: data race"), "{stderr}");
    let told = "the image has no PTX for sm_90 or older";
    assert_eq!(stderr.matches(told).count(), 1, "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn a_program_links_modules() {
    let ran = run("link", &[]);
    let stderr = text(&ran.stderr);
    assert!(ran.status.success(), "{stderr}");
    assert_eq!(
        text(&ran.stdout),
        "linked: 133\n\
         twice: `base` is defined in module 1 and in module 2: one may define it\n"
    );
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn a_program_captures_streams_and_builds_graphs() {
    let ran = run("graphs", &[]);
    let stderr = text(&ran.stderr);
    assert!(ran.status.success(), "{stderr}");
    assert_eq!(
        text(&ran.stdout),
        "captured: 16\nbuilt: 26\nnested: 64 levels\n"
    );
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn a_program_maps_memory_and_launches_in_older_ways() {
    let ran = run("mapping", &[]);
    let stderr = text(&ran.stderr);
    assert!(ran.status.success(), "{stderr}");
    assert_eq!(
        text(&ran.stdout),
        "mapped: 7\nlaunched: 17\nchanged: 1017\n"
    );
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn the_driver_answers_as_the_manual_says() {
    let ran = run("facts", &[]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let stderr = text(&ran.stderr);
    let told = "warpsmith: cuIpcGetMemHandle is not supported\n";
    assert_eq!(stderr.matches(told).count(), 1, "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

/// A mistake of the program `streams`, and what the report says of the later and the earlier access.
const MISTAKES: [(&str, &str, &str); 10] = [
    (
        "kernels",
        "kernel double, PTX line 11, reads on stream",
        "kernel double, PTX line 13, writes on stream",
    ),
    (
        "copies",
        "kernel double, PTX line 11, reads on stream",
        "a copy writes on stream",
    ),
    (
        "result",
        "a copy reads on the legacy stream",
        "kernel double, PTX line 13, writes on stream",
    ),
    (
        "legacy",
        "kernel double, PTX line 11, reads on the legacy stream",
        "kernel double, PTX line 13, writes on stream",
    ),
    (
        "allocation",
        "a fill writes on stream",
        "cuMemAllocAsync writes on stream",
    ),
    (
        "free",
        "cuMemFreeAsync writes on stream",
        "a fill writes on stream",
    ),
    (
        "graph",
        "kernel double, PTX line 11, reads on stream",
        "kernel double, PTX line 13, writes on stream",
    ),
    (
        "reuse",
        "with the host: it writes",
        "a copy reads on stream",
    ),
    (
        "download",
        "with the host: it reads",
        "a copy writes on stream",
    ),
    (
        "managed",
        "with the host: it reads",
        "kernel double, PTX line 13, writes on stream",
    ),
];

#[test]
fn a_program_that_waits_has_no_reports() {
    let ran = run("streams", &[]);
    let stderr = text(&ran.stderr);
    assert!(ran.status.success(), "{stderr}");
    assert_eq!(text(&ran.stdout), "done\n", "{stderr}");
    assert!(!stderr.contains("error"), "{stderr}");
}

#[test]
fn what_a_program_does_not_wait_for_is_a_report() {
    for (mistake, later, earlier) in MISTAKES {
        let ran = run_with("streams", &[mistake], &[]);
        let stderr = text(&ran.stderr);
        assert_eq!(text(&ran.stdout), "done\n", "{mistake}: {stderr}");
        assert!(stderr.contains(later), "{mistake}: {stderr}");
        assert!(stderr.contains(earlier), "{mistake}: {stderr}");
    }
}
