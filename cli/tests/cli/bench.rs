//! `warpsmith bench`: measurements on the emulator, and the gate between two result files.

use serde_json::Value;

use super::support::{Folder, warpsmith};

const SMALL: [&str; 6] = [
    "bench",
    "gemm",
    "--device",
    "emulator",
    "--repetitions",
    "1",
];

/// Results of two small products, in `folder`.
fn measured(folder: &Folder) -> Value {
    let out = folder.path("results");
    let shapes = ["--shape", "16x16x16", "--shape", "33x17x8", "--out"].map(Into::into);
    let args = SMALL.map(Into::into).into_iter().chain(shapes);
    let args: Vec<std::ffi::OsString> = args.chain([out.clone().into()]).collect();
    let table = warpsmith(args).done();
    for text in [
        "beside nothing (cuBLASLt computes on GPUs; this device is emulator)",
        "gemm/bf16/nt/m16_n16_k16 ",
        "gemm/bf16/nt/m33_n17_k8 ",
        "own: no peer, 0 of 2 rows short",
    ] {
        assert!(table.contains(text), "`{text}` is not in: {table}");
    }
    for name in ["gemm.csv", "gemm_own_bf16.svg"] {
        assert!(out.join(name).is_file(), "{name}");
    }
    let text = std::fs::read_to_string(out.join("gemm.json")).expect("it was written");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn products_are_measured_without_a_gpu_and_kept() {
    let results = measured(&Folder::new());
    let rows = results["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    assert!(
        rows.iter()
            .all(|row| row["ours"]["ms"].as_f64() > Some(0.0))
    );
    assert!(rows.iter().all(|row| row["peer"].is_null()));
    assert!(results["machine"]["date"].is_string());
}

#[test]
fn json_is_one_line_with_the_same() {
    let args = SMALL
        .into_iter()
        .chain(["--shape", "8x8x8", "--precision", "f32", "--json"]);
    let line = warpsmith(args).done();
    assert_eq!(line.lines().count(), 1);
    let results: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(results["rows"][0]["case"], "gemm/f32/nt/m8_n8_k8");
}

#[test]
fn of_all_kernels_the_fastest_is_named() {
    let shape = ["--shape", "8x8x8", "--all-candidates", "--json"];
    let args = SMALL.into_iter().chain(shape);
    let results: Value = serde_json::from_str(&warpsmith(args).done()).expect("JSON");
    let ours = &results["rows"][0]["ours"];
    let kernel = ours["choice"].as_str().expect("a kernel");
    assert!(kernel.starts_with("gemm_"), "{ours}");
    let slower = results["rows"][0]["slower_ours"].as_array();
    for other in slower.into_iter().flatten() {
        assert!(
            other["ms"].as_f64() >= ours["ms"].as_f64(),
            "{other} {ours}"
        );
    }
}

#[test]
fn sets_that_are_too_large_or_empty_are_wrong_usage() {
    let large = SMALL.into_iter().chain(["--set", "squares"]);
    warpsmith(large).failed(
        2,
        &["gemm/bf16/nt/m1024_n1024_k1024", "more than the 2.0e9"],
    );
    let none = SMALL.into_iter().chain(["--only", "e5m2"]);
    warpsmith(none).failed(2, &["no case is left", "'e5m2'"]);
}

#[test]
fn files_that_cannot_be_are_refused_before_anything_is_measured() {
    let folder = Folder::new();
    let file = folder.write("file", "");
    for [operation, more] in [["gemm", "--shape=8x8x8"], ["reduce", "--set=tiny"]] {
        let bench = |name: &str, out: &std::path::Path| {
            let options = ["--device=emulator", "--repetitions=1", more, "--name", name];
            let args = ["bench", operation].into_iter().chain(options);
            let args = args.map(std::ffi::OsString::from);
            warpsmith(args.chain(["--out".into(), out.into()]))
        };
        for name in ["a/b", "../a", "", "..", "a\\b"] {
            let words = ["no name of result files", &format!("'{name}'")];
            bench(name, &folder.path("results")).failed(2, &words);
        }
        bench("a", &file).failed(1, &["file: "]);
        bench("a", &file.join("results")).failed(1, &["results: "]);
    }
    assert_eq!(folder.names(), ["file"]);
}

#[test]
fn operations_are_measured_alone_with_what_measures_their_peers() {
    for operation in [
        "attention",
        "attention_grad",
        "reduce",
        "rows",
        "topk",
        "elementwise",
        "gather",
        "scatter",
        "rotary",
        "grouped",
    ] {
        let args = [
            "bench",
            operation,
            "--device",
            "emulator",
            "--repetitions",
            "1",
        ];
        let table = warpsmith(args).done();
        let peers = format!("benches/peers/compare.py {operation} measures peers");
        for text in [peers.as_str(), "tiny: no peer, 0 of "] {
            assert!(table.contains(text), "`{text}` is not in: {table}");
        }
        warpsmith(args.into_iter().chain(["--set", "huge"])).failed(2, &["'huge'", "tiny, all"]);
    }
}

#[test]
fn norms_are_measured_without_other_rows() {
    let args = ["bench", "norm", "--device", "emulator", "--repetitions=1"];
    let table = warpsmith(args).done();
    for case in ["/layer_norm/", "/rms_norm/", "/layer_norm_grad/"] {
        assert!(table.contains(case), "`{case}` is not in: {table}");
    }
    assert!(!table.contains("softmax"), "{table}");
    let one = args.into_iter().chain(["--only", "rms"]);
    let table = warpsmith(one).done();
    assert!(!table.contains("layer_norm"), "{table}");
}

#[test]
fn a_kernel_that_there_is_not_is_wrong_usage_and_those_that_are_are_named() {
    let kernel = |name: &'static str| {
        let args = SMALL
            .into_iter()
            .chain(["--shape", "8x8x8", "--kernel", name]);
        warpsmith(args)
    };
    kernel("nonsense").failed(
        2,
        &["--kernel nonsense", "gemm_simt", "gemm_sm90", "gemm_mma"],
    );
    // It adds up the parts of others.
    kernel("gemm_finish").failed(2, &["--kernel gemm_finish", "gemm_simt"]);
    // One for another type: what is there for this case is listed.
    let ran = kernel("gemm_sm90_f16");
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stdout.contains("not computed: "), "{}", ran.stdout);
    for word in ["--kernel gemm_sm90_f16: it computes no case", "supported: "] {
        assert!(ran.stderr.contains(word), "{}", ran.stderr);
    }
}

#[test]
fn the_gate_names_what_got_slower_and_fails() {
    let folder = Folder::new();
    let mut results = measured(&folder);
    let old = folder.write("old.json", results.to_string());
    let compare = |new: &std::path::Path, more: &[&str]| {
        let args = [&"bench".into(), &"compare".into(), &old, &new.to_owned()];
        let args = args.map(|arg| arg.clone().into_os_string());
        warpsmith(args.into_iter().chain(more.iter().map(Into::into)))
    };
    assert_eq!(compare(&old, &[]).done(), "0 of 2 cases got worse\n");

    let ms = results["rows"][1]["ours"]["ms"].as_f64().expect("a time");
    results["rows"][1]["ours"]["ms"] = (ms * 1.5).into();
    let new = folder.write("new.json", results.to_string());
    let ran = compare(&new, &[]);
    assert_eq!(ran.code, 1);
    assert_eq!(
        ran.stdout,
        "own gemm/bf16/nt/m33_n17_k8: takes 1.500 times as long\n1 of 2 cases got worse\n"
    );
    assert_eq!(compare(&new, &["--tolerance", "0.6"]).code, 0);
    let json: Value = serde_json::from_str(&compare(&new, &["--json"]).stdout).expect("JSON");
    assert_eq!(
        (&json["change"], &json["case"]),
        (&"slower".into(), &"gemm/bf16/nt/m33_n17_k8".into())
    );

    results["rows"] = Value::Array(Vec::new());
    let empty = folder.write("empty.json", results.to_string());
    let args = [&"bench".into(), &"compare".into(), &empty, &old];
    warpsmith(args.map(|arg| arg.clone().into_os_string())).failed(1, &["empty.json", "no rows"]);

    let wrong = folder.write("wrong.json", "{}");
    compare(&wrong, &[]).failed(1, &["wrong.json is not a result file"]);
    compare(&folder.path("absent.json"), &[]).failed(1, &["absent.json", "No such file"]);
}
