//! Files and options that ask for more memory than there is, and files without an end: an error of
//! one line, in bounded time and memory.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::support::{Folder, Ran, command, ran};

/// What the program may have in most of these tests: a few arrays of this size do not fit.
const LIMIT_KIB: u32 = 1 << 20;

/// The beginning of a .npy file: the magic string, the version, and the header.
fn header(descr: &str, elements: u64) -> Vec<u8> {
    let text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({elements},), }}\n");
    let length = u16::try_from(text.len()).expect("a short header");
    [
        b"\x93NUMPY\x01\x00",
        &length.to_le_bytes()[..],
        text.as_bytes(),
    ]
    .concat()
}

/// An array of zeros, most of which take no place on the disk.
fn zeros(folder: &Folder, descr: &str, elements: u64, bytes: u64) -> std::path::PathBuf {
    let start = header(descr, elements);
    let path = folder.write("zeros.npy", &start);
    let file = std::fs::File::options().append(true).open(&path);
    let length = start.len() as u64 + bytes;
    let grown = file.and_then(|file| file.set_len(length));
    grown.expect("the folder can have sparse files");
    path
}

/// Runs the program through a shell, with its own path as `$0` and `args` as `$@`.
fn shell<S: AsRef<OsStr>>(script: &str, args: impl IntoIterator<Item = S>) -> Ran {
    let program = command();
    let mut shell = Command::new("sh");
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.arg("-c").arg(script).arg(program.get_program());
    ran(shell.args(args))
}

/// Runs the program with an address space of [`LIMIT_KIB`].
fn limited<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Ran {
    shell(
        &format!("ulimit -v {LIMIT_KIB} && exec \"$0\" \"$@\""),
        args,
    )
}

fn softmax(x: &Path, y: &Path) -> [std::ffi::OsString; 6] {
    let words = ["softmax".as_ref(), x.as_os_str(), "-o".as_ref()];
    let more = [y.as_os_str(), "--device".as_ref(), "emulator".as_ref()];
    let [a, b, c] = words.map(OsStr::to_owned);
    let [d, e, f] = more.map(OsStr::to_owned);
    [a, b, c, d, e, f]
}

#[test]
fn an_array_that_the_host_has_no_memory_for_is_an_error() {
    let folder = Folder::new();
    let y = folder.path("y.npy");
    let x = zeros(&folder, "<f4", 1 << 28, 1 << 30);
    limited(softmax(&x, &y)).failed(1, &["zeros.npy", "out of host memory", "2147483648 bytes"]);

    let kernels = crate::support::data("kernels.ptx");
    let integers = zeros(&folder, "|u1", 1 << 31, 1 << 31);
    for (fill, place) in [
        ("zeros.npy", integers.as_path()),
        ("zeros", Path::new("`x`")),
    ] {
        let launch = format!(
            "kernel = \"leave\"\ngrid = 1\nblock = 1\n[[buffer]]\nname = \"x\"\ndtype = \"u8\"\n\
             shape = [2147483648]\nfill = \"{fill}\"\n[[arg]]\nbuffer = \"x\"\n"
        );
        let launch = folder.write("launch.toml", launch);
        let run = ["run".as_ref(), kernels.as_os_str(), launch.as_os_str()];
        let device = ["--device=emulator".as_ref()];
        limited(run.into_iter().chain(device)).failed(
            1,
            &[
                &place.display().to_string(),
                "out of host memory",
                "2147483648 bytes",
            ],
        );
    }
}

#[test]
fn operands_of_a_measurement_that_the_host_has_no_memory_for_are_an_error() {
    let bench = [
        "bench",
        "gemm",
        "--device=emulator",
        "--repetitions=1",
        "--json",
    ];
    limited(bench.into_iter().chain(["--shape=1x1000x1000000"]))
        .failed(1, &["out of host memory", "2000000000 bytes"]);
}

#[test]
fn of_a_pipe_without_end_no_more_is_read_than_its_header_says() {
    let folder = Folder::new();
    let y = folder.path("y.npy");
    let script = format!(
        "ulimit -v {LIMIT_KIB} && cat \"$1\" /dev/zero | \"$0\" softmax /dev/stdin -o \"$2\" \
         --device emulator"
    );
    let mut flood = b"\x93NUMPY\x02\x00".to_vec();
    flood.extend(u32::MAX.to_le_bytes());
    for (start, want) in [
        (
            header("<f4", 1000),
            "needs 4000 bytes of data, the file has more",
        ),
        (
            header("<f4", 10_u64.pow(15)),
            "out of host memory: asked for 8000000000000000 bytes",
        ),
        (
            flood,
            "the header has 4294967295 bytes; at most 1048576 are read",
        ),
    ] {
        let start = folder.write("start", start);
        shell(&script, [&start, &y]).failed(1, &["/dev/stdin", want]);
        assert!(!y.exists());
    }
}

#[test]
fn an_array_comes_through_a_pipe_as_from_a_file() {
    let folder = Folder::new();
    let (x, y) = (crate::support::data("x_f64_c.npy"), folder.path("y.npy"));
    let script = "cat \"$1\" | \"$0\" softmax /dev/stdin -o \"$2\" --device emulator";
    shell(script, [&x, &y]).done();
    let file = folder.path("from_file.npy");
    shell("exec \"$0\" \"$@\"", softmax(&x, &file)).done();
    let read = |path| std::fs::read(path).expect("it was written");
    assert_eq!(read(&y), read(&file));
}

#[test]
fn a_header_that_claims_more_than_its_file_has_is_refused_with_both() {
    let folder = Folder::new();
    let x = zeros(&folder, "<f4", 10_u64.pow(15), 100);
    limited(softmax(&x, &folder.path("y.npy"))).failed(
        1,
        &["needs 4000000000000000 bytes of data, the file has 100"],
    );
}

#[test]
fn result_files_without_end_are_read_up_to_a_limit() {
    for files in [["/dev/zero", "none.csv"], ["/dev/zero", "/dev/zero"]] {
        limited(["bench", "compare"].into_iter().chain(files))
            .failed(1, &["/dev/zero", "larger than 67108864 bytes"]);
    }
}

#[test]
fn where_no_thread_can_be_started_is_an_error_or_none_is_needed() {
    let folder = Folder::new();
    // No address space has room for such a stack.
    let script = "RUST_MIN_STACK=1152921504606846976 exec \"$0\" \"$@\"";
    let launch = "kernel = \"leave\"\ngrid = 1\nblock = 1\n[[buffer]]\nname = \"x\"\n\
                  dtype = \"u8\"\nshape = [100]\nfill = \"zeros\"\n[[arg]]\nbuffer = \"x\"\n";
    let launch = folder.write("launch.toml", launch);
    let kernels = crate::support::data("kernels.ptx");
    let run = ["run".as_ref(), kernels.as_os_str(), launch.as_os_str()];
    let bench = ["bench", "gemm", "--shape=8x8x8", "--repetitions=1"].map(OsStr::new);
    for words in [&run[..], &bench, &["demo".as_ref()]] {
        let device = ["--device=emulator".as_ref()];
        let words = words.iter().copied().chain(device);
        shell(script, words).failed(1, &["no threads can be started"]);
    }
    let x = crate::support::data("x_f64_c.npy");
    shell(script, softmax(&x, &folder.path("y.npy"))).done();
}
