//! `warpsmith run` with tests/data/kernels.ptx.

mod refused;
mod trace;
mod variables;

use serde_json::Value;

use crate::support::{Folder, Npy, Ran, data, warpsmith};

const SAXPY: &str = r#"
kernel = "saxpy"
grid = 2
block = 64

[[buffer]]
name = "x"
dtype = "f32"
shape = [100]
fill = "iota"

[[buffer]]
name = "y"
dtype = "f32"
shape = [100]
fill = "normal"
seed = 3
save = "y.npy"

[[arg]]
buffer = "x"
[[arg]]
buffer = "y"
[[arg]]
f32 = 0.0
[[arg]]
u32 = 100
"#;

fn run(folder: &Folder, toml: &str, options: &[&str]) -> Ran {
    let toml = folder.write("launch.toml", toml);
    let args = [data("kernels.ptx").into_os_string(), toml.into_os_string()];
    let options = options.iter().map(|option| (*option).into());
    let device = ["--device".into(), "emulator".into()];
    warpsmith(
        ["run".into()]
            .into_iter()
            .chain(args)
            .chain(device)
            .chain(options),
    )
}

/// A launch of `leave`, which only fills a buffer and saves it.
fn filled(dtype: &str, shape: &str, rest: &str) -> String {
    format!(
        "kernel = \"leave\"\ngrid = 1\nblock = 1\n[[buffer]]\nname = \"x\"\ndtype = \"{dtype}\"\n\
         shape = {shape}\nsave = \"x.npy\"\n{rest}\n[[arg]]\nbuffer = \"x\"\n"
    )
}

#[test]
fn a_kernel_runs_and_its_buffers_are_saved() {
    let folder = Folder::new();
    let text = run(
        &folder,
        &SAXPY
            .replace("\"normal\"", "\"iota\"")
            .replace("0.0", "2.5"),
        &[],
    );
    let text = text.done();
    assert!(
        text.contains("saxpy on emulator") && text.contains("y.npy"),
        "{text}"
    );
    let y = Npy::read(&folder.path("y.npy"));
    assert_eq!(y.shape, "100,");
    let want: Vec<f32> = (0..100).map(|i| 3.5 * i as f32).collect();
    assert_eq!(y.f32s(), want);
    assert_eq!(folder.names(), ["launch.toml", "y.npy"]);
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_others() {
    let hash = |toml: &str, options: &[&str]| {
        let folder = Folder::new();
        let options = [options, &["--json"]].concat();
        let line = run(&folder, toml, &options).done();
        let line: Value = serde_json::from_str(&line).expect("one line of JSON");
        assert_eq!(line["device"], "emulator");
        assert_eq!(line["kernel"], "saxpy");
        assert_eq!(line["grid"], serde_json::json!([2, 1, 1]));
        line["buffers"][1]["hash"]
            .as_str()
            .expect("a hash")
            .to_owned()
    };
    let fixed = hash(SAXPY, &[]);
    assert_eq!(
        hash(SAXPY, &["--seed", "9"]),
        fixed,
        "a buffer's own seed wins"
    );
    assert_ne!(hash(&SAXPY.replace("seed = 3", "seed = 4"), &[]), fixed);
    let open = SAXPY.replace("seed = 3", "");
    assert_eq!(hash(&open, &["--seed", "5"]), hash(&open, &["--seed", "5"]));
    assert_ne!(hash(&open, &["--seed", "5"]), hash(&open, &["--seed", "6"]));
    assert_eq!(
        hash(&open, &["--seed", "2"]),
        fixed,
        "the position is added to --seed"
    );
}

#[test]
fn every_dtype_is_filled_and_saved() {
    for (dtype, descr) in [
        ("f64", "<f8"),
        ("f32", "<f4"),
        ("f16", "<f4"),
        ("bf16", "<f4"),
        ("e4m3", "<f4"),
        ("e5m2", "<f4"),
        ("i8", "|i1"),
        ("i16", "<i2"),
        ("i32", "<i4"),
        ("i64", "<i8"),
        ("u8", "|u1"),
        ("u16", "<u2"),
        ("u32", "<u4"),
        ("u64", "<u8"),
    ] {
        for fill in ["normal", "uniform", "zeros", "iota", "poison"] {
            let folder = Folder::new();
            let ran = run(
                &folder,
                &filled(dtype, "[3, 4]", &format!("fill = \"{fill}\"")),
                &[],
            );
            if fill == "normal" && (dtype.starts_with('i') || dtype.starts_with('u')) {
                ran.failed(1, &["buffer `x`", "fill: `normal` is for floats"]);
                assert_eq!(folder.names(), ["launch.toml"]);
                continue;
            }
            ran.done();
            let x = Npy::read(&folder.path("x.npy"));
            assert_eq!(
                (x.descr.as_str(), x.shape.as_str()),
                (descr, "3, 4"),
                "{dtype} {fill}"
            );
            match (fill, descr) {
                ("zeros", _) => assert!(x.data.iter().all(|byte| *byte == 0), "{dtype}"),
                ("poison", "<f4") => assert!(x.f32s().iter().all(|v| v.is_nan()), "{dtype}"),
                ("poison", _) => assert!(x.data.iter().all(|byte| *byte == 0xff), "{dtype}"),
                // Up to 8, every float type has every integer.
                ("iota", "<f4") => {
                    let want: Vec<f32> = (0..=8).map(|i| i as f32).collect();
                    assert_eq!(x.f32s()[..9], want, "{dtype}");
                }
                ("uniform", "<f4") => {
                    assert!(x.f32s().iter().all(|v| (0.0..=1.0).contains(v)), "{dtype}");
                }
                _ => assert_ne!(x.data, vec![0; x.data.len()], "{dtype} {fill}"),
            }
        }
    }
}

#[test]
fn empty_buffers_and_scalars_are_arrays_too() {
    for (shape, python, elements) in [("[0, 4]", "0, 4", 0), ("[]", "", 1)] {
        let folder = Folder::new();
        run(&folder, &filled("f32", shape, "fill = \"poison\""), &[]).done();
        let x = Npy::read(&folder.path("x.npy"));
        assert_eq!((x.shape.as_str(), x.f32s().len()), (python, elements));
    }
}

#[test]
fn a_module_the_emulator_cannot_run_is_refused_with_its_line() {
    let folder = Folder::new();
    let toml = folder.write("launch.toml", filled("f32", "[1]", "fill = \"zeros\""));
    let text = std::fs::read_to_string(data("kernels.ptx")).expect("test data");
    let (others, leave) = text.split_once(".entry leave").expect("it is there");
    let leave = leave.replacen("\tret;", "\tno.such.instruction;", 1);
    let odd = folder.write("odd.ptx", format!("{others}.entry leave{leave}"));
    let args = [
        "run".into(),
        odd,
        toml,
        "--device".into(),
        "emulator".into(),
    ];
    warpsmith(args).failed(1, &["odd.ptx", "PTX line 57", "`no.such.instruction`"]);
    assert_eq!(folder.names(), ["launch.toml", "odd.ptx"]);
}

#[test]
fn buffers_are_read_from_files_that_numpy_wrote() {
    let copy = |folder: &Folder, name: &str| {
        let bytes = std::fs::read(data(name)).expect("test data");
        folder.write("in.npy", bytes);
    };
    for (name, dtype) in [
        ("a_f32_c.npy", "f64"),
        ("a_f64_fortran.npy", "bf16"),
        ("a_f16_big_endian.npy", "f32"),
    ] {
        let folder = Folder::new();
        copy(&folder, name);
        run(&folder, &filled(dtype, "[3, 4]", "fill = \"in.npy\""), &[]).done();
        let x = Npy::read(&folder.path("x.npy"));
        let values: Vec<f32> = match dtype {
            "f64" => {
                let elements = x.data.chunks_exact(8);
                elements
                    .map(|e| f64::from_le_bytes(e.try_into().expect("8")) as f32)
                    .collect()
            }
            _ => x.f32s(),
        };
        assert_eq!(values, Npy::read(&data("a_f32_c.npy")).f32s(), "{name}");
    }
    for name in ["i32.npy", "i32_fortran.npy"] {
        let folder = Folder::new();
        copy(&folder, name);
        run(&folder, &filled("i32", "[2, 3]", "fill = \"in.npy\""), &[]).done();
        assert_eq!(
            Npy::read(&folder.path("x.npy")).data,
            Npy::read(&data("i32.npy")).data
        );
    }
    for (name, dtype, shape, want) in [
        ("i32.npy", "u32", "[2, 3]", "want '<u4' for dtype u32"),
        ("i32.npy", "f32", "[2, 3]", "'<i4'"),
        ("i32.npy", "i32", "[3, 2]", "`shape` says [3, 2]"),
        ("a_f32_c.npy", "f32", "[4, 3]", "`shape` says [4, 3]"),
        ("a_f32_c.npy", "i32", "[3, 4]", "'<f4'"),
        ("structured.npy", "f32", "[2]", "in.npy"),
    ] {
        let folder = Folder::new();
        copy(&folder, name);
        run(&folder, &filled(dtype, shape, "fill = \"in.npy\""), &[])
            .failed(1, &["buffer `x`", want]);
        assert_eq!(folder.names(), ["in.npy", "launch.toml"]);
    }
    let folder = Folder::new();
    run(&folder, &filled("f32", "[2]", "fill = \"in.npy\""), &[])
        .failed(1, &["in.npy", "No such file"]);
}

#[test]
fn a_struct_goes_by_value() {
    let folder = Folder::new();
    let toml = "kernel = \"unpack\"\ngrid = 1\nblock = 1\n[[buffer]]\nname = \"out\"\n\
                dtype = \"i64\"\nshape = [3]\nfill = \"zeros\"\nsave = \"out.npy\"\n\
                [[arg]]\nbuffer = \"out\"\n\
                [[arg]]\nstruct = [{ i32 = -5 }, { i64 = 77 }, { f64 = 1.5 }]\n";
    run(&folder, toml, &[]).done();
    let out = Npy::read(&folder.path("out.npy")).i64s();
    assert_eq!(out, [-5, 77, 1.5_f64.to_bits().cast_signed()]);
    run(&folder, &toml.replace("{ i32 = -5 }, ", ""), &[])
        .failed(1, &["arg 2: `struct` has 16 bytes, parameter `s` has 24"]);
}

#[test]
fn arguments_point_into_buffers() {
    let folder = Folder::new();
    let toml = "kernel = \"unpack\"\ngrid = 1\nblock = 1\n[[buffer]]\nname = \"out\"\n\
                dtype = \"i64\"\nshape = [4]\nfill = \"zeros\"\nsave = \"out.npy\"\n\
                [[arg]]\nbuffer = { name = \"out\", offset_bytes = 8 }\n\
                [[arg]]\nstruct = [{ struct = [{ i16 = -5 }, { i16 = -1 }] }, { buffer = \"out\" }, \
                { u8 = 3 }]\n";
    run(&folder, toml, &[]).done();
    let out = Npy::read(&folder.path("out.npy")).i64s();
    assert_eq!((out[0], out[1], out[3] & 255), (0, -5, 3));
    assert!(out[2] > 0 && out[2] % 256 == 0, "{out:x?}");
    for (from, to, want) in [
        (
            "offset_bytes = 8",
            "offset_bytes = 33",
            "offset_bytes = 33: buffer `out` has 32 bytes",
        ),
        ("offset_bytes = 8", "offset = 8", "a buffer is a name, or"),
        (
            "{ buffer = \"out\" }",
            "{ buffer = \"in\" }",
            "arg 2: buffer = \"in\": no such buffer",
        ),
    ] {
        run(&folder, &toml.replace(from, to), &[]).failed(1, &[want]);
    }
}

#[test]
fn a_buffer_may_be_unwritten() {
    let folder = Folder::new();
    let toml = SAXPY.replace("fill = \"iota\"", "fill = \"unwritten\"");
    let ran = run(&folder, &toml, &[]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("read of uninitialised memory"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_kernel_at_fault_is_reported_with_exit_code_3_and_nothing_is_saved() {
    let folder = Folder::new();
    let toml = filled("u32", "[10]", "fill = \"zeros\"").replace("\"leave\"", "\"overrun\"")
        + "[[arg]]\nu64 = 40\n";
    let ran = run(&folder, &toml, &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (3, ""), "{}", ran.stderr);
    assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("overrun"), "{}", ran.stderr);
    assert_eq!(folder.names(), ["launch.toml"]);
}

#[test]
fn launches_of_one_file_run_in_order_on_the_same_buffers() {
    let folder = Folder::new();
    // y becomes 2 x + y, and then x becomes 3 y + x.
    let (buffers, _) = SAXPY.split_once("[[arg]]").expect("it has arguments");
    let (_, buffers) = buffers.split_once("block = 64").expect("it has a block");
    let buffers = buffers.replace("\"normal\"", "\"iota\"");
    let buffers = buffers.replacen("fill =", "save = \"x.npy\"\nfill =", 1);
    let launch = |from: &str, to: &str, a: &str| {
        format!(
            "[[launch]]\nkernel = \"saxpy\"\ngrid = 2\nblock = 64\narg = [{{ buffer = \"{from}\" }}, \
             {{ buffer = \"{to}\" }}, {{ f32 = {a} }}, {{ u32 = 100 }}]\n"
        )
    };
    let toml = format!(
        "{buffers}{}{}",
        launch("x", "y", "2.0"),
        launch("y", "x", "3.0")
    );
    let text = run(&folder, &toml, &["--check"]).done();
    assert_eq!(text.matches("saxpy on emulator").count(), 2, "{text}");
    let scaled = |by: f32| (0..100).map(|i| by * i as f32).collect::<Vec<f32>>();
    assert_eq!(Npy::read(&folder.path("y.npy")).f32s(), scaled(3.0));
    assert_eq!(Npy::read(&folder.path("x.npy")).f32s(), scaled(10.0));
    let text = run(&folder, &toml, &["--profile", "--json"]).done();
    let line: Value = serde_json::from_str(&text).expect("JSON");
    let launches = line["launches"].as_array().expect("a list");
    assert_eq!(launches.len(), 2);
    for launch in launches {
        assert_eq!(launch["kernel"], "saxpy");
        assert!(launch["profile"].is_object(), "{launch}");
    }
    let wrong = toml.replacen(
        "{ u32 = 100 }]\n[[launch]]",
        "{ u32 = 100 }]\n[[launch]]\nextra = 1",
        1,
    );
    run(&folder, &wrong, &[]).failed(1, &["launch.toml: line ", "unknown field `extra`"]);
    let wrong = toml.replace("f32 = 3.0", "f64 = 3.0");
    run(&folder, &wrong, &[]).failed(1, &["launch.toml: launch 2: arg 3: `f64` has 8 bytes"]);
}

#[test]
fn a_fault_of_a_later_launch_is_a_report_of_its_kernel() {
    let folder = Folder::new();
    let toml = "[[buffer]]\nname = \"x\"\ndtype = \"f32\"\nshape = [4]\nfill = \"zeros\"\n\
                save = \"x.npy\"\n\
                [[launch]]\nkernel = \"leave\"\ngrid = 1\nblock = 1\narg = [{ buffer = \"x\" }]\n\
                [[launch]]\nkernel = \"overrun\"\ngrid = 1\nblock = 1\n\
                arg = [{ buffer = \"x\" }, { u64 = 16 }]\n";
    let ran = run(&folder, toml, &["--json"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("kernel overrun"), "{}", ran.stderr);
    let line: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(line["kernel"], "overrun");
    assert_eq!(folder.names(), ["launch.toml"]);
}
