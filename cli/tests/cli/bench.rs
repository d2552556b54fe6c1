//! `warpsmith bench`: measurements on the emulator, and the gate between two result files.

use std::path::PathBuf;

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

/// The file of two small products.
fn measured(folder: &Folder) -> PathBuf {
    let out = folder.path("results");
    let shapes = ["--shape", "16x16x16", "--shape", "33x17x8", "--out"].map(Into::into);
    let args = SMALL.map(Into::into).into_iter().chain(shapes);
    let args: Vec<std::ffi::OsString> = args.chain([out.into()]).collect();
    let table = warpsmith(args).done();
    for text in [
        "beside nothing (cuBLASLt computes on GPUs; this device is emulator)",
        "gemm/bf16/nt/m16_n16_k16 ",
        "gemm/bf16/nt/m33_n17_k8 ",
        "own: no peer, 0 of 2 rows short",
    ] {
        assert!(table.contains(text), "`{text}` is not in: {table}");
    }
    folder.path("results/warpsmith-emulator/gemm.csv")
}

#[test]
fn products_are_measured_without_a_gpu_and_kept() {
    let folder = Folder::new();
    let file = measured(&folder);
    // A second time, the same rows are replaced.
    assert_eq!(measured(&folder), file);
    let text = std::fs::read_to_string(&file).expect("it was written");
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("set,case,mode,candidates,ours_us,peer,"),
        "{text}"
    );
    for (line, case) in lines[1..].iter().zip(["m16_n16_k16", "m33_n17_k8"]) {
        let fields = format!("own,gemm/bf16/nt/{case},alone,1,");
        let us: Option<f64> =
            (line.strip_prefix(&fields)).and_then(|rest| rest.split(',').next()?.parse().ok());
        assert!(us > Some(0.0), "{line}");
        assert!(line.ends_with("--shape 16x16x16 --shape 33x17x8"), "{line}");
    }
    assert_eq!(lines.len(), 3);
    assert_eq!(folder.names(), ["results"]);
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
        let bench = |out: &std::path::Path| {
            let options = ["--device=emulator", "--repetitions=1", more];
            let args = ["bench", operation].into_iter().chain(options);
            let args = args.map(std::ffi::OsString::from);
            warpsmith(args.chain(["--out".into(), out.into()]))
        };
        bench(&file).failed(1, &["file/warpsmith-emulator: "]);
        bench(&file.join("results")).failed(1, &["results/warpsmith-emulator: "]);
        std::fs::create_dir_all(folder.path("warpsmith-emulator")).expect("the folder can be made");
        let other = folder.write(&format!("warpsmith-emulator/{operation}.csv"), "a,b\n");
        let root = other.ancestors().nth(2).expect("its folder's folder");
        bench(root).failed(1, &["is not a result file"]);
    }
    assert_eq!(folder.names(), ["file", "warpsmith-emulator"]);
}

#[test]
fn operations_are_measured_alone_with_what_measures_their_peers() {
    for operation in [
        "attention",
        "attention_grad",
        "scored_attention",
        "reduce",
        "rows",
        "sort",
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
    let old = measured(&folder);
    let text = std::fs::read_to_string(&old).expect("it was written");
    let compare = |new: &std::path::Path, more: &[&str]| {
        let args = [&"bench".into(), &"compare".into(), &old, &new.to_owned()];
        let args = args.map(|arg| arg.clone().into_os_string());
        warpsmith(args.into_iter().chain(more.iter().map(Into::into)))
    };
    assert_eq!(compare(&old, &[]).done(), "0 of 2 cases got worse\n");

    let (before, last) = text.trim_end().rsplit_once('\n').expect("two rows");
    let mut fields: Vec<String> = last.split(',').map(str::to_owned).collect();
    let us: f64 = fields[4].parse().expect("a time");
    fields[4] = (us * 1.5).to_string();
    let new = folder.write("new.csv", format!("{before}\n{}\n", fields.join(",")));
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

    let (header, _) = text.split_once('\n').expect("a header");
    let empty = folder.write("empty.csv", format!("{header}\n"));
    let args = [&"bench".into(), &"compare".into(), &empty, &old];
    warpsmith(args.map(|arg| arg.clone().into_os_string())).failed(1, &["empty.csv", "no rows"]);

    let wrong = folder.write("wrong.csv", "{}");
    compare(&wrong, &[]).failed(1, &["wrong.csv is not a result file"]);
    compare(&folder.path("absent.csv"), &[]).failed(1, &["absent.csv", "No such file"]);
}
