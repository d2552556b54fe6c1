//! Input made to do harm, and outputs that must not take the place of something else.

use std::path::Path;

use crate::support::{Folder, Ran, command, data, ran, warpsmith};

/// A .npy file of zeros whose header is `header`.
fn npy(header: &str, data_bytes: usize) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    let length = u16::try_from(header.len()).expect("a short header");
    bytes.extend(length.to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(vec![0; data_bytes]);
    bytes
}

fn softmax(x: &Path, y: &Path) -> Ran {
    let words = ["softmax".as_ref(), x.as_os_str(), "-o".as_ref()];
    let device = ["--device".as_ref(), "emulator".as_ref()];
    warpsmith(words.into_iter().chain([y.as_os_str()]).chain(device))
}

#[test]
fn headers_made_to_overflow_or_to_flood_are_one_short_line() {
    let folder = Folder::new();
    let shaped =
        |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
    let nine = "(1, 1, 1, 1, 1, 1, 1, 1, 1)";
    for (name, header, want) in [
        ("product", shaped("(4294967296, 4294967296)"), "too large"),
        (
            "hidden",
            shaped("(0, 9223372036854775807, 9223372036854775807)"),
            "too large",
        ),
        (
            "extent",
            shaped("(99999999999999999999,)"),
            "not a number from 0",
        ),
        ("negative", shaped("(-4, 5)"), "not a number from 0"),
        ("rank", shaped(nine), "at most 8 dimensions"),
        ("flood", "{".repeat(60_000), "a string expected"),
        (
            "colour",
            "\u{1b}[31mred".to_owned(),
            r"expected `{` at `\u{1b}[31mred`",
        ),
    ] {
        let x = folder.write(name, npy(&header, 4));
        let ran = softmax(&x, &folder.path("y.npy"));
        assert!(ran.stderr.len() < 500, "{}", ran.stderr);
        ran.failed(1, &[want]);
    }
    assert!(!folder.path("y.npy").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_without_end_is_not_read_to_its_end() {
    let folder = Folder::new();
    let zero = Path::new("/dev/zero");
    softmax(zero, &folder.path("y.npy")).failed(1, &["/dev/zero", "not a .npy file"]);
    warpsmith(["lint", "/dev/zero"]).failed(1, &["/dev/zero", "268435456 bytes"]);
}

#[test]
fn a_text_of_brackets_is_refused_before_it_fills_the_memory() {
    let folder = Folder::new();
    let path = folder.write("brackets.ptx", "(".repeat((1 << 24) + 1));
    warpsmith(["lint".as_ref(), path.as_os_str()]).failed(1, &["brackets.ptx", "16777216 tokens"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_is_no_output_and_stays_what_it_is() {
    use std::os::unix::fs::FileTypeExt;
    softmax(&data("x_f64_c.npy"), Path::new("/dev/null"))
        .failed(1, &["/dev/null", "not a regular file"]);
    let kind = std::fs::metadata("/dev/null")
        .expect("Linux has it")
        .file_type();
    assert!(kind.is_char_device());
}

#[cfg(unix)]
#[test]
fn a_link_stays_and_its_target_is_written() {
    let folder = Folder::new();
    let target = folder.write("target.npy", "old");
    let link = folder.path("link.npy");
    std::os::unix::fs::symlink(&target, &link).expect("a link");
    softmax(&data("x_f64_c.npy"), &link).done();
    assert!(link.is_symlink());
    let written = std::fs::read(&target).expect("the target");
    assert!(written.starts_with(b"\x93NUMPY"));
}

#[cfg(unix)]
#[test]
fn a_link_to_nothing_stays_and_what_it_leads_to_is_written() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    std::fs::create_dir(folder.path("there")).expect("a folder");
    let link = folder.path("link.npy");
    symlink("over.npy", &link).expect("a link");
    symlink("there/target.npy", folder.path("over.npy")).expect("a link to where that link is");
    softmax(&data("x_f64_c.npy"), &link).done();
    assert!(link.is_symlink() && folder.path("over.npy").is_symlink());
    let written = std::fs::read(folder.path("there/target.npy")).expect("the target");
    assert!(written.starts_with(b"\x93NUMPY"));
    assert_eq!(folder.names(), ["link.npy", "over.npy", "there"]);

    let lost = folder.path("lost.npy");
    symlink("no/such/target.npy", &lost).expect("a link");
    softmax(&data("x_f64_c.npy"), &lost).failed(1, &["lost.npy", "no/such does not exist"]);
    let round = folder.path("round.npy");
    symlink(&round, &round).expect("a link");
    softmax(&data("x_f64_c.npy"), &round).failed(1, &["round.npy", "leads on more than 40 times"]);
    assert!(lost.is_symlink() && round.is_symlink());
}

#[cfg(unix)]
#[test]
fn two_outputs_of_which_one_is_a_link_to_the_other_are_refused() {
    let folder = Folder::new();
    let (o, lse) = (folder.path("o.npy"), folder.path("lse.npy"));
    std::os::unix::fs::symlink("o.npy", &lse).expect("a link");
    let [q, k, v] = ["q_f16_c.npy", "k_f64_fortran.npy", "v_f32_c.npy"].map(data);
    let words = [
        "attention".as_ref(),
        q.as_os_str(),
        k.as_os_str(),
        v.as_os_str(),
    ];
    let outputs = [
        "-o".as_ref(),
        o.as_os_str(),
        "--lse".as_ref(),
        lse.as_os_str(),
    ];
    warpsmith(words.into_iter().chain(outputs)).failed(2, &["two outputs", "lse.npy"]);
    assert_eq!(folder.names(), ["lse.npy"]);
}

#[test]
fn an_output_may_be_an_input_which_stays_when_the_command_fails() {
    let folder = Folder::new();
    let x = folder.path("x.npy");
    let original = std::fs::read(data("x_f64_c.npy")).expect("test data");
    std::fs::write(&x, &original).expect("the folder can be written");
    let reduce = |axis: &str| {
        let words = [
            "reduce".as_ref(),
            "sum".as_ref(),
            x.as_os_str(),
            "-o".as_ref(),
        ];
        let rest = [x.as_os_str(), "--axis".as_ref(), axis.as_ref()];
        warpsmith(words.into_iter().chain(rest))
    };
    reduce("7").failed(2, &["axis is 7"]);
    assert_eq!(std::fs::read(&x).expect("still there"), original);
    softmax(&x, &x).done();
    assert_ne!(std::fs::read(&x).expect("still there"), original);
    assert_eq!(folder.names(), ["x.npy"]);
}

#[test]
fn one_place_in_two_spellings_is_refused() {
    let folder = Folder::new();
    let (o, lse) = (folder.path("o.npy"), folder.path("./o.npy"));
    let [q, k, v] = ["q_f16_c.npy", "k_f64_fortran.npy", "v_f32_c.npy"].map(data);
    warpsmith([
        "attention".as_ref(),
        q.as_os_str(),
        k.as_os_str(),
        v.as_os_str(),
        "-o".as_ref(),
        o.as_os_str(),
        "--lse".as_ref(),
        lse.as_os_str(),
    ])
    .failed(2, &["two outputs would go to", "o.npy"]);
    assert_eq!(folder.names(), Vec::<String>::new());
}

#[test]
fn a_result_takes_neither_the_place_of_another_nor_of_the_launch() {
    let folder = Folder::new();
    std::fs::copy(data("kernels.ptx"), folder.path("kernels.ptx")).expect("test data");
    let toml = |save: &str| {
        let buffer = |name: &str, save: &str| {
            format!(
                "[[buffer]]\nname = \"{name}\"\ndtype = \"u8\"\nshape = [4]\nfill = \"zeros\"\n\
                 save = \"{save}\"\n"
            )
        };
        format!(
            "kernel = \"leave\"\ngrid = 1\nblock = 1\n{}{}[[arg]]\nbuffer = \"a\"\n",
            buffer("a", "a.npy"),
            buffer("b", save)
        )
    };
    for save in ["./a.npy", "launch.toml", "./kernels.ptx"] {
        let launch = folder.write("launch.toml", toml(save));
        let ptx = folder.path("kernels.ptx");
        warpsmith(["run".as_ref(), ptx.as_os_str(), launch.as_os_str()])
            .failed(1, &["launch.toml", "buffer `b`", "save"]);
        assert_eq!(folder.names(), ["kernels.ptx", "launch.toml"], "{save}");
        let kept = std::fs::read_to_string(&launch).expect("still there");
        assert_eq!(kept, toml(save));
    }
}

#[test]
fn factors_that_are_no_numbers_are_wrong_usage() {
    let folder = Folder::new();
    let [a, b] = ["a_f32_c.npy", "b_f32_c.npy"].map(data);
    let d = folder.path("d.npy");
    for alpha in ["nan", "inf", "1e309", "one"] {
        let option = format!("--alpha={alpha}");
        let ran = warpsmith([
            "gemm".as_ref(),
            a.as_os_str(),
            b.as_os_str(),
            "-o".as_ref(),
            d.as_os_str(),
            option.as_ref(),
        ]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        let words = format!("error: invalid value '{alpha}' for '--alpha <ALPHA>'");
        assert!(ran.stderr.starts_with(&words), "{}", ran.stderr);
    }
    assert_eq!(folder.names(), Vec::<String>::new());
}

/// Runs a kernel on the emulator where the process may have `kilobytes` of address space.
#[cfg(target_os = "linux")]
fn run_within(kilobytes: u32, ptx: &Path, toml: &Path, options: &[&str]) -> Ran {
    let program = command();
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", "ulimit -v $0 && exec \"$@\"", &kilobytes.to_string()])
        .arg(program.get_program())
        .arg("run")
        .args([ptx, toml])
        .args(["--device", "emulator"])
        .args(options);
    // Threads take address space as well: 64 MiB for an arena of each.
    shell.env("MALLOC_ARENA_MAX", "1");
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    ran(&mut shell)
}

#[cfg(target_os = "linux")]
#[test]
fn a_launch_for_which_the_host_has_no_memory_is_an_error_not_an_abort() {
    let folder = Folder::new();
    let head = ".version 8.0\n.target sm_90\n.address_size 64\n";
    let deep = format!(
        "{head}.visible .entry deep() {{\n\
         .local .align 4 .b8 big[500000];\n.reg .b32 %r;\n\
         mov.u32 %r, 1;\nst.local.u32 [big], %r;\nret;\n}}\n"
    );
    let ptx = folder.write("deep.ptx", deep);
    let toml = "kernel = \"deep\"\ngrid = 8\nblock = 1024\ncluster = 8\n";
    let toml = folder.write("deep.toml", toml);
    let ran = run_within(2_500_000, &ptx, &toml, &[]);
    ran.failed(1, &["the host has no memory", "local memory needs"]);
    // Every warp reads everything, and is remembered for it.
    let wide = format!(
        "{head}.visible .entry wide(.param .u64 in) {{\n\
         .reg .pred %p;\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n\
         ld.param.u64 %rd1, [in];\nmov.u32 %r1, %tid.x;\nand.b32 %r1, %r1, 31;\n\
         mul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd1, %rd1, %rd2;\nmov.u32 %r2, 0;\n\
         NEXT:\nld.global.u32 %r3, [%rd1];\nadd.u64 %rd1, %rd1, 128;\nadd.u32 %r2, %r2, 1;\n\
         setp.lt.u32 %p, %r2, 131072;\n@%p bra NEXT;\nret;\n}}\n"
    );
    let ptx = folder.write("wide.ptx", wide);
    let toml = "kernel = \"wide\"\ngrid = 1\nblock = 1024\n[[buffer]]\nname = \"x\"\n\
                dtype = \"i32\"\nshape = [4194304]\nfill = \"zeros\"\n[[arg]]\nbuffer = \"x\"\n";
    let toml = folder.write("wide.toml", toml);
    let ran = run_within(1_000_000, &ptx, &toml, &["--check"]);
    ran.failed(1, &["the host has no memory", "the check for races needs"]);
}
