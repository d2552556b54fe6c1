//! What `warpsmith run` refuses.

use super::{SAXPY, run};
use crate::support::{Folder, data, warpsmith};

#[test]
fn launches_that_do_not_fit_the_kernel_are_refused() {
    for (from, to, want) in [
        (
            "\"saxpy\"",
            "\"daxpy\"",
            &["no `daxpy`", "saxpy, unpack, leave, overrun"][..],
        ),
        (
            "[[arg]]\nu32 = 100\n",
            "",
            &["3 [[arg]] tables for the 4 parameters of saxpy("],
        ),
        (
            "u32 = 100\n",
            "u64 = 100\n",
            &["arg 4: `u64` has 8 bytes, parameter `n` has 4"],
        ),
        (
            "[[arg]]\nf32 = 0.0",
            "[[arg]]\nbuffer = \"x\"",
            &["arg 3: `buffer` has 8 bytes"],
        ),
        (
            "grid = 2",
            "grid = 0",
            &["grid: [0, 1, 1] has an extent of 0"],
        ),
        ("block = 64", "block = [16, 0]", &["block: [16, 0, 1]"]),
        ("block = 64", "block = 129", &["129", "128"]),
        ("block = 64", "block = [1, 1, 65]", &["65", "64"]),
        ("grid = 2", "grid = [1, 65536]", &["65536", "65535"]),
        (
            "block = 64",
            "block = 64\nshared_bytes = 300000",
            &["300000"],
        ),
        ("[100]", "[1000000000000]", &["the buffers need"]),
        (
            "\"y.npy\"",
            "\"no/such/y.npy\"",
            &["no/such does not exist"],
        ),
    ] {
        let folder = Folder::new();
        run(&folder, &SAXPY.replacen(from, to, 1), &[]).failed(1, want);
        assert_eq!(folder.names(), ["launch.toml"], "{to}");
    }
}

#[test]
fn faults_of_the_description_name_file_and_key() {
    for (from, to, want) in [
        (
            "grid = 2",
            "grids = 2",
            &["line 3: unknown field `grids`"][..],
        ),
        (
            "fill = \"iota\"",
            "fil = \"iota\"",
            &["unknown field `fil`"],
        ),
        (
            "f32 = 0.0",
            "f32 = 0.0\nf64 = 0.0",
            &["line 2", "a value is one key: buffer"],
        ),
        ("u32 = 100", "u32 = -1", &["line "]),
        (
            "f32 = 0.0",
            "f32 = 1e300",
            &["line ", "1e300 is too large for f32"],
        ),
        (
            "u32 = 100",
            "u128 = 100",
            &["unknown variant `u128`", "`u32`"],
        ),
        (
            "u32 = 100",
            "u16 = 100",
            &["arg 4: `u16` has 2 bytes, parameter `n` has 4"],
        ),
        (
            "\"f32\"",
            "\"fp32\"",
            &["buffer `x`: dtype: `fp32` is not one of"],
        ),
        (
            "\"iota\"",
            "\"ones\"",
            &["buffer `x`: fill: `ones` is not one of"],
        ),
        (
            "name = \"y\"",
            "name = \"x\"",
            &["two buffers have the name `x`"],
        ),
        (
            "buffer = \"y\"",
            "buffer = \"z\"",
            &["arg 2: buffer = \"z\"", "x, y"],
        ),
        ("kernel = \"saxpy\"", "kernel = saxpy", &["line 2: "]),
    ] {
        let folder = Folder::new();
        let ran = run(&folder, &SAXPY.replacen(from, to, 1), &[]);
        ran.failed(1, &[&["launch.toml: "], want].concat());
    }
}

#[test]
fn missing_and_wrong_files_are_named() {
    let folder = Folder::new();
    let toml = folder.write("launch.toml", SAXPY);
    let kernels = data("kernels.ptx");
    let run = |ptx: &std::path::Path, toml: &std::path::Path| {
        warpsmith(["run".as_ref(), ptx.as_os_str(), toml.as_os_str()])
    };
    run(&kernels, &folder.path("none.toml")).failed(1, &["none.toml", "No such file"]);
    run(&folder.path("none.ptx"), &toml).failed(1, &["none.ptx", "No such file"]);
    run(&toml, &toml).failed(1, &["launch.toml is not PTX"]);
    run(&data("a_f32_c.npy"), &toml).failed(1, &["is not PTX"]);
}

#[test]
fn a_gpu_that_is_not_there_is_an_error_and_no_emulator() {
    let folder = Folder::new();
    let toml = folder.write("launch.toml", SAXPY);
    let kernels = data("kernels.ptx");
    let ran = warpsmith([
        "run".as_ref(),
        kernels.as_os_str(),
        toml.as_os_str(),
        "--device".as_ref(),
        "gpu:99".as_ref(),
    ]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert_eq!(folder.names(), ["launch.toml"]);
}

#[test]
fn options_of_numbers_say_that_a_negative_one_is_out_of_range() {
    let folder = Folder::new();
    for option in [
        "--seed",
        "--fill-seed",
        "--schedules",
        "--instruction-budget",
    ] {
        let ran = run(&folder, SAXPY, &[option, "-1"]);
        let (code, said) = (ran.code, ran.stderr);
        assert!(
            code == 2 && said.contains("invalid value '-1'") && said.contains(option),
            "{code} {said}"
        );
    }
}
