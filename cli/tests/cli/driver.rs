//! `warpsmith check`: programs on the emulated GPU. The program is `warpsmith` itself on its GPU
//! backend, which finds the driver as on a machine with a GPU.

use std::path::{Path, PathBuf};

use crate::support::{self, Folder, Npy, Ran, command, data, ran};

/// `warpsmith check -- warpsmith words`, with the words that name files of `folder` or tests/data.
fn checked(folder: &Folder, words: &str) -> Ran {
    let program = env!("CARGO_BIN_EXE_warpsmith");
    ran(command()
        .args(["check", "--", program])
        .args(support::words(folder, words)))
}

fn assert_close(got: &Path, want: &str) {
    let (got, want) = (Npy::read(got), Npy::read(&data(want)));
    assert_eq!(got.shape, want.shape);
    for (got, want) in got.f32s().iter().zip(want.f32s()) {
        assert!((got - want).abs() <= 1e-5 * want.abs().max(1.0));
    }
}

fn example(name: &str, file: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/check");
    root.join(name).join(file)
}

#[test]
fn the_emulated_gpu_is_a_device() {
    let ran = checked(&Folder::new(), "devices --json");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let first = ran.stdout.lines().next().expect("a line");
    let gpu: serde_json::Value = serde_json::from_str(first).expect("JSON");
    assert_eq!(gpu["device"], "gpu:0");
    assert_eq!(gpu["name"], "warpsmith emulator");
}

#[test]
fn operations_of_the_library_run_through_the_driver() {
    for (words, want) in [
        (
            "gemm a_f32_c.npy b_f32_c.npy -o out:d.npy --dtype f16",
            "d.npy",
        ),
        ("softmax x_f64_c.npy -o out:d.npy", "softmax.npy"),
        (
            "reduce sum x_f64_c.npy -o out:d.npy --axis 1",
            "sum_axis_1.npy",
        ),
        (
            "attention q_f16_c.npy k_f64_fortran.npy v_f32_c.npy --causal -o out:d.npy",
            "o_causal.npy",
        ),
    ] {
        let folder = Folder::new();
        let ran = checked(&folder, &format!("{words} --device gpu"));
        assert_eq!(ran.code, 0, "{words}: {}{}", ran.stdout, ran.stderr);
        assert_close(&folder.path("d.npy"), want);
    }
}

#[test]
fn a_fault_is_a_report_and_exit_status_3() {
    let files = ["kernel.ptx", "launch.toml"].map(|file| example("missing_barrier", file));
    let program = env!("CARGO_BIN_EXE_warpsmith");
    let ran = ran(command()
        .args(["check", "--", program, "run"])
        .args(files)
        .args(["--device", "gpu"]));
    assert_eq!(ran.code, 3, "{}{}", ran.stdout, ran.stderr);
    for words in [
        "error: data race",
        "kernel reverse",
        "CUDA_ERROR_LAUNCH_FAILED",
    ] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    assert!(
        ran.stderr.ends_with("warpsmith: 1 launch had a fault\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_program_without_faults_ends_as_it_ends() {
    let exits = ran(command().args(["check", "--", "sh", "-c", "echo out; exit 7"]));
    assert_eq!((exits.code, exits.stdout.as_str()), (7, "out\n"));
    let runtime = r#"cd "${LD_LIBRARY_PATH%%:*}" && ls libcudart.so.1?"#;
    let found = ran(command().args(["check", "--", "sh", "-c", runtime]));
    assert_eq!(found.stdout, "libcudart.so.12\nlibcudart.so.13\n");
    let killed = ran(command().args(["check", "--", "sh", "-c", "kill -9 $$"]));
    assert_eq!(killed.code, 128 + 9);
    ran(command().args(["check", "--", "/nowhere/program"])).failed(1, &["/nowhere/program"]);
    let nowhere = ["check", "--driver", "/nowhere/libcuda.so", "--", "true"];
    ran(command().args(nowhere)).failed(1, &["/nowhere/libcuda.so"]);
}

#[test]
fn a_program_runs_under_seeds_until_one_fails() {
    let under = |count: &str| {
        let program = "echo $WARPSMITH_SEED; [ $WARPSMITH_SEED != 7 ]";
        let options = ["check", "--seed", "5", "--schedules", count];
        ran(command().args(options).args(["--", "sh", "-c", program]))
    };
    let clean = under("2");
    assert_eq!((clean.code, clean.stdout.as_str()), (0, "5\n6\n"));
    assert_eq!(clean.stderr, "");
    let fails = under("9");
    assert_eq!((fails.code, fails.stdout.as_str()), (1, "5\n6\n7\n"));
    assert_eq!(fails.stderr, "warpsmith: this was --seed 7\n");
}

#[test]
fn a_program_goes_on_after_findings() {
    let files = ["kernel.ptx", "launch.toml"].map(|file| example("missing_barrier", file));
    let checked = |options: &[&str]| {
        ran(command()
            .args(["check"])
            .args(options)
            .args(["--", env!("CARGO_BIN_EXE_warpsmith"), "run"])
            .args(&files)
            .args(["--device", "gpu"]))
    };
    let stops = checked(&[]);
    assert_eq!(stops.code, 3, "{}", stops.stderr);
    assert!(!stops.stdout.contains("hash"), "{}", stops.stdout);
    let goes_on = checked(&["--keep-going"]);
    assert_eq!(goes_on.code, 3, "{}", goes_on.stderr);
    assert!(goes_on.stdout.contains("hash"), "{}", goes_on.stdout);
    assert!(goes_on.stderr.contains("data race"), "{}", goes_on.stderr);
    let found = goes_on.stderr.matches("error: data race").count();
    let counted = match found {
        1 => "warpsmith: 1 finding".to_owned(),
        more => format!("warpsmith: {more} findings"),
    };
    assert!(goes_on.stderr.contains(&counted), "{}", goes_on.stderr);
}

/// The hashes of buffers that `warpsmith run` prints.
fn hashes(stdout: &str) -> Vec<&str> {
    let hashes = stdout.lines().filter_map(|line| line.split_once(" hash "));
    hashes.map(|(_, hash)| hash).collect()
}

#[test]
fn a_launch_is_captured_in_front_of_a_driver_and_replayed() {
    let folder = Folder::new();
    let library =
        Path::new(env!("CARGO_BIN_EXE_warpsmith")).with_file_name("libwarpsmith_driver.so");
    let library = match library.exists() {
        true => library,
        false => library.with_file_name("deps/libwarpsmith_driver.so"),
    };
    let files = ["kernel.ptx", "launch.toml"].map(|file| example("transpose", file));
    let program = |capture: &str, bytes: &str| {
        ran(command()
            .args(["check", "--", env!("CARGO_BIN_EXE_warpsmith"), "run"])
            .args(&files)
            .args(["--device", "gpu"])
            .env("LD_AUDIT", &library)
            .env("WARPSMITH_CAPTURE", capture)
            .env("WARPSMITH_CAPTURE_TO", folder.path("captured"))
            .env("WARPSMITH_CAPTURE_BYTES", bytes))
    };
    let first = program("transpose:1", "1000000000");
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert!(
        first.stderr.contains("captured a launch of transpose"),
        "{}",
        first.stderr
    );
    let captured = ["kernel.ptx", "launch.toml"].map(|file| folder.path("captured").join(file));
    let replayed = ran(command()
        .arg("run")
        .args(captured)
        .args(["--device", "emulator"]));
    assert_eq!(replayed.code, 0, "{}", replayed.stderr);
    assert_eq!(hashes(&replayed.stdout), hashes(&first.stdout));
    let too_large = program("*", "100");
    assert_eq!(too_large.code, 0, "{}", too_large.stderr);
    let told = "WARPSMITH_CAPTURE_BYTES is the limit";
    assert!(too_large.stderr.contains(told), "{}", too_large.stderr);
    let second = program("transpose:2", "100");
    assert!(!second.stderr.contains("capture"), "{}", second.stderr);
}
