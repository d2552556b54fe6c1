//! gemm, attention, reduce and softmax on files that numpy wrote (tests/data/make.py), against
//! what numpy computed.

use std::path::Path;

use crate::support::{self, Folder, Npy, Ran, data, warpsmith};

/// Runs the command with files of tests/data for words that name one, output into `folder`.
pub(crate) fn compute(folder: &Folder, words: &str) -> Ran {
    let args = support::words(folder, words).into_iter();
    warpsmith(args.chain(["--device".into(), "emulator".into()]))
}

fn assert_close(got: &Path, want: &str, tolerance: f32) {
    let (got, want) = (Npy::read(got), Npy::read(&data(want)));
    assert_eq!(got.shape, want.shape);
    for (index, (got, want)) in got.f32s().iter().zip(want.f32s()).enumerate() {
        let bound = tolerance * want.abs().max(1.0);
        assert!(
            (got - want).abs() <= bound,
            "element {index}: {got}, numpy says {want}"
        );
    }
}

#[test]
fn gemm_multiplies_files_of_every_float_type_and_order() {
    for (a, b) in [
        ("a_f32_c.npy", "b_f32_c.npy"),
        ("a_f64_fortran.npy", "b_f16_fortran.npy"),
        ("a_f16_big_endian.npy", "b_f32_c.npy"),
        ("--trans-a at_f32_c.npy", "b_f16_fortran.npy"),
    ] {
        for dtype in ["f32", "f16", "bf16"] {
            let folder = Folder::new();
            compute(
                &folder,
                &format!("gemm {a} {b} -o out:d.npy --dtype {dtype}"),
            )
            .done();
            // Small integers and halves: exact in each of the types.
            assert_close(&folder.path("d.npy"), "d.npy", 0.0);
            assert_eq!(folder.names(), ["d.npy"]);
        }
    }
}

#[test]
fn gemm_scales_and_adds_c() {
    let folder = Folder::new();
    let words = "gemm a_f32_c.npy b_f32_c.npy --c c_f64_c.npy --alpha 0.5 --beta 2 -o out:d.npy";
    compute(&folder, words).done();
    assert_close(&folder.path("d.npy"), "d_alpha_half_beta_2.npy", 0.0);
}

#[test]
fn gemm_fuses_bias_activation_and_residual_in_every_type() {
    for types in [
        "--dtype f32 --precision tf32",
        "--dtype bf16 --out-dtype bf16",
        "--dtype e4m3 --out-dtype f16",
        "--dtype e5m2",
    ] {
        let folder = Folder::new();
        let words = format!("gemm a_f32_c.npy b_f32_c.npy {types} -o out:d.npy");
        let layer = "--bias bias_columns.npy --activation relu --residual c_f64_c.npy";
        compute(&folder, &format!("{words} {layer}")).done();
        assert_close(
            &folder.path("d.npy"),
            "d_column_bias_relu_residual.npy",
            0.0,
        );
        compute(&folder, &format!("{words} --bias bias_rows.npy --row-bias")).done();
        assert_close(&folder.path("d.npy"), "d_row_bias.npy", 0.0);
    }
}

#[test]
fn gemm_in_f64_multiplies_and_writes_f64() {
    let folder = Folder::new();
    let words = "gemm a_f64_fortran.npy b_f32_c.npy --dtype f64 -o out:d.npy";
    compute(&folder, &format!("{words} --alpha 0.1")).done();
    let (got, want) = (Npy::read(&folder.path("d.npy")), Npy::read(&data("d.npy")));
    assert_eq!(got.shape, want.shape);
    for (got, want) in got.f64s().iter().zip(want.f32s()) {
        // 0.1 in f32 is 1.5e-9 off.
        assert!(
            (got - 0.1 * f64::from(want)).abs() <= 1e-14,
            "{got}, {want}"
        );
    }
    compute(&folder, &format!("{words} --out-dtype f32"))
        .failed(2, &["--out-dtype is for the other dtypes"]);
    compute(&folder, &format!("{words} --activation tanh")).failed(1, &["tanh"]);
    let words = "gemm a_f32_c.npy b_f32_c.npy -o out:d.npy --alpha 1e39";
    compute(&folder, words).failed(2, &["--alpha is 1e39", "finite in f32"]);
}

/// The file of a matrix of i8, as numpy writes it.
fn of_i8(rows: usize, columns: usize, values: &[i8]) -> Vec<u8> {
    let dictionary = "{'descr': '|i1', 'fortran_order': False, 'shape':";
    let header = format!("{dictionary} ({rows}, {columns}), }}");
    let mut file = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    file.extend(format!("{header:<117}\n").bytes());
    file.extend(values.iter().map(|&x| x as u8));
    file
}

#[test]
fn gemm_of_i8_takes_files_of_i8_and_writes_i32() {
    let folder = Folder::new();
    let write = |name, file: Vec<u8>| std::fs::write(folder.path(name), file).expect("a file");
    write("a", of_i8(2, 3, &[127, -128, 1, 2, 3, 4]));
    write("b", of_i8(2, 3, &[-128, -128, 0, 1, 0, -1]));
    let [a, b] = ["a", "b"].map(|name| folder.path(name).display().to_string());
    let words = format!("gemm {a} {b} -o out:d.npy --trans-b");
    compute(&folder, &format!("{words} --dtype i8 --alpha -2")).done();
    let d = Npy::read(&folder.path("d.npy"));
    let data = d.data.chunks_exact(4);
    let got: Vec<i32> = data
        .map(|x| i32::from_le_bytes(x.try_into().expect("4 bytes")))
        .collect();
    assert_eq!((d.descr.as_str(), got), ("<i4", vec![-256, -252, 1280, 4]));
    compute(
        &folder,
        &format!("{words} --dtype i8 --out-dtype bf16 --alpha 0.5"),
    )
    .done();
    let got = Npy::read(&folder.path("d.npy")).f32s();
    assert_eq!(got, [64.0, 63.0, -320.0, -1.0]);
    compute(&folder, &format!("{words} --dtype i8 --alpha 0.5"))
        .failed(2, &["--alpha is 0.5", "integer"]);
    compute(&folder, &words).failed(1, &["'|i1'"]);
    let words = "gemm a_f32_c.npy b_f32_c.npy -o out:d.npy --dtype i8 --activation tanh";
    compute(&folder, words).failed(1, &["tanh", "i32"]);
}

#[test]
fn gemm_refuses_a_bias_of_the_wrong_length() {
    let folder = Folder::new();
    let words = "gemm a_f32_c.npy b_f32_c.npy --bias bias_rows.npy -o out:d.npy";
    compute(&folder, words).failed(1, &["shape of `bias` is [3]", "want [5]"]);
}

#[test]
fn gemm_prints_one_line_of_json() {
    let folder = Folder::new();
    let text = compute(&folder, "gemm a_f32_c.npy b_f32_c.npy -o out:d.npy --json").done();
    assert_eq!(text.lines().count(), 1);
    let line: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(line["shapes"]["d"], serde_json::json!([3, 5]));
    assert!(
        line["device"]
            .as_str()
            .is_some_and(|name| name.starts_with("emulator"))
    );
    assert!(line["time_ms"].as_f64().is_some_and(|time| time > 0.0));
}

#[test]
fn attention_agrees_with_numpy() {
    for (option, suffix) in [("", ""), (" --causal", "_causal")] {
        let folder = Folder::new();
        let words = "attention q_f16_c.npy k_f64_fortran.npy v_f32_c.npy";
        compute(
            &folder,
            &format!("{words} -o out:o.npy --lse out:lse.npy{option}"),
        )
        .done();
        assert_close(&folder.path("o.npy"), &format!("o{suffix}.npy"), 1e-5);
        assert_close(&folder.path("lse.npy"), &format!("lse{suffix}.npy"), 1e-5);
        assert_eq!(folder.names(), ["lse.npy", "o.npy"]);
    }
}

#[test]
fn a_trace_shows_what_a_command_launched() {
    let folder = Folder::new();
    let words = "attention q_f16_c.npy k_f64_fortran.npy v_f32_c.npy -o out:o.npy";
    compute(&folder, &format!("{words} --trace out:t.json")).done();
    let text = std::fs::read_to_string(folder.path("t.json")).expect("it was written");
    let trace: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    assert!(events.iter().any(|event| event["cat"] == "run"));
    let gpu = support::words(&folder, &format!("{words} --trace out:t.json --device gpu"));
    warpsmith(gpu).failed(2, &["--trace needs the emulator, and --device is gpu"]);
}

#[test]
fn options_of_attention_that_say_the_same_agree_with_numpy() {
    let q = "attention q_f16_c.npy k_f64_fortran.npy v_f32_c.npy";
    for (options, want) in [
        ("--window-right 0", "o_causal.npy"),
        ("--window-left 1000 --causal", "o_causal.npy"),
        ("--leftpad-k 0 --window-left 1000", "o.npy"),
        ("--out-dtype f16 --dtype f32", "o.npy"),
        (
            "--bias scores_bias.npy --mask scores_mask.npy --alibi scores_slopes.npy",
            "o_scores.npy",
        ),
    ] {
        let folder = Folder::new();
        compute(&folder, &format!("{q} -o out:o.npy {options}")).done();
        let tolerance = if options.contains("f16") { 2e-3 } else { 1e-5 };
        assert_close(&folder.path("o.npy"), want, tolerance);
    }
    for (options, code, want) in [
        (
            "--cu-seqlens-q 0,3",
            1,
            &["Q has shape", "3 dimensions with --cu-seqlens-q"][..],
        ),
        ("--seqused-k 1000", 2, &["seqused_k", "1000 at index 0"]),
        ("--seqused-k 1,2,3", 2, &["seqused_k: 3 elements, want 1"]),
        ("--softcap 0", 2, &["softcap", "above 0"]),
        ("--softcap -1", 2, &["softcap is -1.0", "above 0"]),
        ("--scale 3e38", 2, &["softmax_scale is 3e38"]),
        ("--sink a_f32_c.npy", 1, &["sink", "[3, 4]"]),
        ("--bias a_f32_c.npy", 1, &["bias", "[3, 4]", "[1, 2, 3, 5]"]),
        ("--mask a_f32_c.npy", 1, &["mask", "[3, 4]"]),
        ("--alibi a_f32_c.npy", 1, &["alibi", "[3, 4]", "[1, 2]"]),
    ] {
        let folder = Folder::new();
        compute(&folder, &format!("{q} -o out:o.npy {options}")).failed(code, want);
        assert_eq!(folder.names(), Vec::<String>::new(), "{options}");
    }
    for (options, want) in [
        ("--scale 1e39", ["--scale", "inf in f32"]),
        ("--softcap nan", ["--softcap", "NaN in f32"]),
    ] {
        let folder = Folder::new();
        let run = compute(&folder, &format!("{q} -o out:o.npy {options}"));
        assert_eq!(run.code, 2);
        for word in want {
            assert!(run.stderr.contains(word), "{}", run.stderr);
        }
    }
}

#[test]
fn attention_takes_a_mask_of_blocks() {
    let q = "attention q_f16_c.npy k_f64_fortran.npy v_f32_c.npy -o out:o.npy";
    // One block, of all queries and keys.
    let mask = |folder: &Folder, shown: f32| {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1), }";
        let padded = format!("{header:<117}\n");
        let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        bytes.extend(padded.as_bytes());
        bytes.extend(shown.to_le_bytes());
        std::fs::write(folder.path("blocks.npy"), bytes).expect("a file");
    };
    for size in ["", " --block-size 64,192"] {
        let folder = Folder::new();
        mask(&folder, 1.0);
        let words = format!("{q} --block-mask out:blocks.npy{size}");
        compute(&folder, &words).done();
        assert_close(&folder.path("o.npy"), "o.npy", 1e-5);
        mask(&folder, 0.0);
        compute(&folder, &words).done();
        let o = Npy::read(&folder.path("o.npy")).f32s();
        assert!(o.iter().all(|&x| x == 0.0));
    }
    for (options, code, want) in [
        (
            "--block-mask a_f32_c.npy",
            1,
            &["BM has shape [3, 4]", "4 dimensions"][..],
        ),
        (
            "--block-mask out:blocks.npy --block-size 100,64",
            2,
            &["block of queries is 100", "multiple of 64"],
        ),
    ] {
        let folder = Folder::new();
        mask(&folder, 1.0);
        compute(&folder, &format!("{q} {options}")).failed(code, want);
    }
    for (options, want) in [
        ("--block-mask out:blocks.npy --block-size 64", "two numbers"),
        ("--block-size 64,64", "--block-mask"),
    ] {
        let folder = Folder::new();
        let run = compute(&folder, &format!("{q} {options}"));
        assert_eq!(run.code, 2);
        assert!(run.stderr.contains(want), "{}", run.stderr);
    }
}

#[test]
fn reductions_agree_with_numpy() {
    for x in ["x_f64_c.npy", "x_f32_fortran.npy"] {
        for (words, want) in [
            ("sum", "sum.npy"),
            ("sum --axis 1", "sum_axis_1.npy"),
            ("sum --axis -1", "sum_axis_1.npy"),
            ("max --axis 0", "max_axis_0.npy"),
            ("sum --axis 1 --axis 0", "sum.npy"),
        ] {
            let folder = Folder::new();
            let (op, rest) = words.split_once(' ').unwrap_or((words, "--json"));
            compute(&folder, &format!("reduce {op} {x} -o out:y.npy {rest}")).done();
            assert_close(&folder.path("y.npy"), want, 0.0);
        }
        let folder = Folder::new();
        compute(&folder, &format!("reduce argmin {x} -o out:y.npy --axis 1")).done();
        let (got, want) = (
            Npy::read(&folder.path("y.npy")),
            Npy::read(&data("argmin_axis_1.npy")),
        );
        assert_eq!(
            (got.shape.as_str(), got.i64s()),
            (want.shape.as_str(), want.i64s())
        );
    }
}

#[test]
fn integers_are_reduced_in_i64_and_their_means_in_f64() {
    // -2, -1, 0 / 1, 2, 3
    for x in ["i32.npy", "i32_fortran.npy"] {
        for (words, want) in [
            ("sum", &[3][..]),
            ("prod --axis 1", &[0, 6]),
            ("max --axis 0", &[1, 2, 3]),
            ("norm1 --axis 1", &[3, 6]),
            ("argmin", &[0]),
            ("count_nonzero --f64", &[5]),
        ] {
            let folder = Folder::new();
            compute(&folder, &format!("reduce {words} {x} -o out:y.npy")).done();
            assert_eq!(Npy::read(&folder.path("y.npy")).i64s(), want, "{words} {x}");
        }
        for words in ["mean", "mean --f64", "sum --f64", "std"] {
            let folder = Folder::new();
            compute(&folder, &format!("reduce {words} {x} -o out:y.npy")).done();
            let file = std::fs::read(folder.path("y.npy")).expect("it was written");
            assert!(
                String::from_utf8_lossy(&file).contains("'<f8'"),
                "{words} {x}"
            );
        }
    }
}

#[test]
fn every_reduction_writes_values_or_indices_of_the_dtype_that_is_asked_for() {
    for op in "sum mean prod max min norm1 norm2 norm_inf logsumexp variance std".split(' ') {
        for (options, bytes) in [("--ddof 0", 4), ("--f64", 8)] {
            let folder = Folder::new();
            let words = format!("reduce {op} x_f64_c.npy -o out:y.npy --axis 0 {options}");
            compute(&folder, &words).done();
            let file = std::fs::read(folder.path("y.npy")).expect("it was written");
            let text = String::from_utf8_lossy(&file);
            assert!(text.contains(&format!("'<f{bytes}'")), "{op} {options}");
        }
    }
    for op in ["any", "all", "count_nonzero", "argmax"] {
        let folder = Folder::new();
        let words = format!("reduce {op} x_f64_c.npy -o out:y.npy --keep-dims");
        compute(&folder, &words).done();
        let got = Npy::read(&folder.path("y.npy"));
        assert_eq!((got.i64s().len(), got.shape.as_str()), (1, "1, 1"));
    }
    let folder = Folder::new();
    compute(&folder, "reduce sum x_f64_c.npy -o out:y.npy --ddof 1").failed(2, &["variance"]);
}

#[test]
fn softmax_agrees_with_numpy() {
    let folder = Folder::new();
    compute(&folder, "softmax x_f64_c.npy -o out:y.npy").done();
    assert_close(&folder.path("y.npy"), "softmax.npy", 1e-6);
}
