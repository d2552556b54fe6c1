//! `WARPSMITH_DUMP` writes what is loaded. A test program of its own, because it sets an
//! environment variable: it runs itself.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use warpsmith::{Device, Error, KernelError, Softmax, Tensor, Unary, UnaryOp};

const FOLDER: &str = "WARPSMITH_DUMP";

/// A folder of this name that is not there.
fn fresh(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        fs::remove_dir_all(&path).expect("of an earlier run");
    }
    path
}

/// Runs a test of this program, with this folder for the dump.
fn run(test: &str, folder: &Path) {
    let program = env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", test]);
    let status = command.env(FOLDER, folder).status().expect("it starts");
    assert!(status.success(), "{test}");
}

fn row(device: &Device, len: usize) -> Tensor<f32> {
    let values: Vec<f32> = (0..len).map(|i| (i % 9) as f32).collect();
    Tensor::from_slice(device, &[1, len], &values).expect("a tensor")
}

/// A brief launch of an embedded kernel, and a streaming one of a composed kernel.
#[test]
fn child_launches_two_kernels() {
    let device = Device::emulator().expect("an emulator");
    let stream = device.stream().expect("a stream");
    let softmax = Softmax::new(&row(&device, 100)).run(&stream);
    assert_eq!(softmax.expect("probabilities").shape(), [1, 100]);
    let relu = Unary::new(UnaryOp::Relu, &row(&device, 1 << 14)).run(&stream);
    assert_eq!(relu.expect("values").shape(), [1, 1 << 14]);
}

#[test]
fn the_folder_gets_each_kernel_as_it_was_loaded() {
    if env::var_os(FOLDER).is_some() {
        return; // this is the process that is started below
    }
    let folder = fresh("dump").join("made");
    run("child_launches_two_kernels", &folder);
    let files = fs::read_dir(&folder).expect("it was made").flatten();
    let texts: BTreeMap<String, String> = files
        .map(|file| {
            let name = file.file_name().into_string().expect("a name");
            let text = fs::read_to_string(file.path()).expect("a text");
            (name, text)
        })
        .collect();
    let names: Vec<&String> = texts.keys().collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let of = |start: &str, end: &str| {
        let mut all = texts.iter();
        let found = all.find(|(name, _)| name.starts_with(start) && name.ends_with(end));
        found.unwrap_or_else(|| panic!("no {start}..{end} in {names:?}"))
    };
    let (name, softmax) = of("softmax_", ".brief.sm_90.ptx");
    assert!(softmax.contains("griddepcontrol.launch_dependents; griddepcontrol.wait;"));
    let (_, relu) = of("fused_dense_1x1_", ".streaming.sm_90.ptx");
    assert!(relu.contains("griddepcontrol.wait;") && relu.contains("L2::evict_last"));

    // What was written can be loaded, and the name is the entry's.
    let device = Device::emulator().expect("an emulator");
    let module = device.load_ptx(softmax).expect("it was loaded before");
    let entry = name.split('.').next().expect("a name");
    assert_eq!(module.kernel_names().collect::<Vec<_>>(), [entry]);
    device.load_ptx(relu).expect("it was loaded before");
}

#[test]
fn child_cannot_write() {
    let Some(folder) = env::var_os(FOLDER) else {
        return; // started by the test below
    };
    let device = Device::emulator().expect("an emulator");
    let stream = device.stream().expect("a stream");
    let error = Softmax::new(&row(&device, 100)).run(&stream);
    let error = error.expect_err("the folder cannot be made");
    let Error::Kernel(KernelError::Dump { folder: got, .. }) = error.root() else {
        panic!("{error}");
    };
    assert_eq!(**got, *folder.to_str().expect("text"));
    assert!(error.to_string().contains("WARPSMITH_DUMP"), "{error}");
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error() {
    if env::var_os(FOLDER).is_some() {
        return; // this is the process that is started below
    }
    let folder = fresh("dump_to_a_file");
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("file");
    fs::write(&file, "no folder").expect("a file");
    run("child_cannot_write", &file.join("below"));
}
