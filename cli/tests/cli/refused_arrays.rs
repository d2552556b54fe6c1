//! Arrays and options that commands on arrays refuse.

use crate::arrays::compute;
use crate::support::{Folder, data, warpsmith};

#[test]
fn bad_arrays_are_refused_with_their_name_and_nothing_is_written() {
    for (words, want) in [
        (
            "gemm missing.npy b_f32_c.npy",
            &["missing.npy", "No such file"][..],
        ),
        ("gemm a_f32_c.npy a_f32_c.npy", &["shape", "[3, 4]"]),
        ("gemm a_f32_c.npy structured.npy", &["structured.npy"]),
        ("gemm a_f32_c.npy complex.npy", &["complex.npy", "'<c8'"]),
        ("gemm a_f32_c.npy i32.npy", &["i32.npy", "'<i4'"]),
        (
            "gemm a_f32_c.npy q_f16_c.npy",
            &["B has shape [1, 3, 2, 8]"],
        ),
        (
            "attention a_f32_c.npy a_f32_c.npy a_f32_c.npy",
            &["Q has shape [3, 4]"],
        ),
    ] {
        let folder = Folder::new();
        compute(&folder, &format!("{words} -o out:y.npy")).failed(1, want);
        assert_eq!(folder.names(), Vec::<String>::new(), "{words}");
    }
}

#[test]
fn a_damaged_array_is_refused_with_its_name() {
    let folder = Folder::new();
    let whole = std::fs::read(data("b_f32_c.npy")).expect("test data");
    let mut longer = whole.clone();
    longer.push(0);
    for (name, bytes) in [
        ("cut_data.npy", &whole[..whole.len() - 1]),
        ("cut_header.npy", &whole[..40]),
        ("cut_magic.npy", &whole[..4]),
        ("empty.npy", &[]),
        ("longer.npy", &longer),
        ("text.npy", b"1 2 3 4"),
    ] {
        let path = folder.write(name, bytes);
        let a = data("a_f32_c.npy");
        let out = folder.path("d.npy");
        warpsmith([
            "gemm".as_ref(),
            a.as_os_str(),
            path.as_os_str(),
            "-o".as_ref(),
            out.as_os_str(),
        ])
        .failed(1, &["cannot read", name]);
        assert!(!out.exists());
    }
}

#[test]
fn numbers_below_0_are_refused_with_what_would_be_right() {
    let folder = Folder::new();
    let refused = |words: &str, option: &str, want: &str| {
        let ran = compute(&folder, &format!("{words} {option} -1"));
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
        let first = ran.stderr.lines().next().unwrap_or_default();
        assert!(
            first.starts_with("error: invalid value '-1' for"),
            "{first}"
        );
        assert!(first.ends_with(want), "{first}");
    };
    let reduce = "reduce std x_f64_c.npy -o out:y.npy";
    refused(reduce, "--ddof", ": want 0 or more");
    let attention = "attention q_f16_c.npy k_f64_fortran.npy v_f32_c.npy -o out:o.npy";
    for option in ["--window-left", "--window-right"] {
        refused(
            attention,
            option,
            ": want 0 or more; leave it out for no limit",
        );
    }
    let ran = compute(&folder, &format!("{reduce} --ddof 1.5"));
    assert!(ran.stderr.contains("invalid digit"), "{}", ran.stderr);
}

#[test]
fn an_output_that_cannot_be_is_refused_before_any_work() {
    let folder = Folder::new();
    compute(&folder, "gemm a_f32_c.npy b_f32_c.npy -o out:no/such/d.npy")
        .failed(1, &["the directory", "does not exist"]);
    for place in ["y.npy", "no/y.npy"] {
        let file = data("x_f64_c.npy").join(place);
        let words = ["softmax".into(), data("x_f64_c.npy"), "-o".into(), file];
        warpsmith(words).failed(1, &["cannot write", "x_f64_c.npy is not a directory"]);
    }
    compute(&folder, "softmax x_f64_c.npy -o out:").failed(1, &["it is a directory"]);
    compute(&folder, "softmax x_f64_c.npy -o out:results/").failed(1, &["results/", "want a file"]);
    compute(&folder, "softmax x_f64_c.npy -o -").failed(2, &["standard output", "./-"]);
    let words = "attention q_f16_c.npy k_f64_fortran.npy v_f32_c.npy";
    compute(&folder, &format!("{words} -o out:o.npy --lse out:o.npy")).failed(2, &["two outputs"]);
    assert_eq!(folder.names(), Vec::<String>::new());
}

#[test]
fn unknown_devices_are_named() {
    let folder = Folder::new();
    let args = [
        "softmax".into(),
        data("x_f64_c.npy"),
        "-o".into(),
        folder.path("y.npy"),
    ];
    let device = ["--device".into(), "tpu".into()];
    warpsmith(args.into_iter().chain(device)).failed(2, &["unknown device `tpu`", "emulator"]);
}

#[test]
fn an_axis_that_the_array_does_not_have_is_wrong_usage() {
    for command in ["reduce sum", "softmax"] {
        for axis in ["2", "-3"] {
            let folder = Folder::new();
            let words = format!("{command} x_f64_c.npy -o out:y.npy --axis {axis}");
            let named = format!("axis is {axis}");
            compute(&folder, &words).failed(2, &[&named, "want -2 to 1"]);
            assert_eq!(folder.names(), Vec::<String>::new(), "{words}");
        }
    }
}

#[test]
fn a_precision_of_other_operands_than_f32_is_wrong_usage() {
    for dtype in ["f16", "bf16", "e4m3", "e5m2"] {
        for precision in ["tf32", "full"] {
            let folder = Folder::new();
            let types = format!("--dtype {dtype} --precision {precision}");
            let words = format!("gemm a_f32_c.npy b_f32_c.npy -o out:d.npy {types}");
            let named = format!("--dtype is {dtype}");
            compute(&folder, &words).failed(2, &["--precision is for --dtype f32", &named]);
            assert_eq!(folder.names(), Vec::<String>::new(), "{words}");
        }
    }
}

#[test]
fn a_beta_without_c_is_wrong_usage() {
    let folder = Folder::new();
    compute(
        &folder,
        "gemm a_f32_c.npy b_f32_c.npy --beta 1 -o out:d.npy",
    )
    .failed(2, &["--beta needs --c"]);
}

#[test]
fn attention_says_that_lengths_are_not_negative() {
    for option in [
        "--seqused-k",
        "--leftpad-k",
        "--cu-seqlens-q",
        "--cu-seqlens-k",
    ] {
        let folder = Folder::new();
        let words = format!("attention q.npy k.npy v.npy -o out:o.npy {option} 0,-1");
        let ran = compute(&folder, &words);
        let (code, said) = (ran.code, ran.stderr);
        assert!(
            code == 2 && said.contains("want 0 or more"),
            "{code} {said}"
        );
    }
}
