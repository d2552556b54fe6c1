//! `warpsmith run` with checks, schedules, profiles, clusters and tensor maps.

use std::path::PathBuf;

use serde_json::Value;

use crate::support::{Folder, Ran, warpsmith};

fn example(name: &str, file: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/check");
    root.join(name).join(file)
}

fn run(name: &str, options: &[&str]) -> Ran {
    let files = ["kernel.ptx", "launch.toml"].map(|file| example(name, file).into_os_string());
    let options = options.iter().map(|option| (*option).into());
    warpsmith(["run".into()].into_iter().chain(files).chain(options))
}

/// Runs an example with its launch file changed.
fn edited(name: &str, from: &str, to: &str, options: &[&str]) -> Ran {
    let toml = std::fs::read_to_string(example(name, "launch.toml")).expect("the file is there");
    assert!(toml.contains(from), "{from}");
    let folder = Folder::new();
    let toml = folder.write("launch.toml", toml.replacen(from, to, 1));
    let files = [
        example(name, "kernel.ptx").into_os_string(),
        toml.into_os_string(),
    ];
    let options = options.iter().map(|option| (*option).into());
    warpsmith(["run".into()].into_iter().chain(files).chain(options))
}

fn json(text: &str) -> Value {
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(text).expect("one line of JSON")
}

/// Asserts a report on stderr with all of `words`.
fn found(ran: &Ran, words: &[&str]) {
    assert_eq!(ran.code, 3, "{}{}", ran.stdout, ran.stderr);
    for word in words {
        assert!(
            ran.stderr.contains(word),
            "`{word}` is not in: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_loop_without_an_end_is_a_report() {
    let folder = Folder::new();
    let ptx = ".version 8.0\n.target sm_75\n.address_size 64\n\
               .visible .entry spin() {\nagain:\n  bra again;\n}\n";
    let ptx = folder.write("spin.ptx", ptx);
    let toml = folder.write("spin.toml", "kernel = \"spin\"\ngrid = 1\nblock = 32\n");
    let spin = |options: &[&str]| {
        let files = [ptx.clone().into_os_string(), toml.clone().into_os_string()];
        let options = options.iter().map(|option| (*option).into());
        warpsmith(["run".into()].into_iter().chain(files).chain(options))
    };
    // The option alone means the emulator.
    let ran = spin(&["--instruction-budget", "100000"]);
    let more = "--instruction-budget N allows a block more than 100000";
    let place = "PTX line 6";
    found(
        &ran,
        &[
            "instruction budget exhausted",
            "the warps of a block ran",
            place,
            more,
        ],
    );
    assert!(!ran.stderr.contains("to reproduce"), "{}", ran.stderr);
    let ran = spin(&["--instruction-budget", "100000", "--check"]);
    let again = "to reproduce: --check --instruction-budget 100000 --seed 0";
    found(&ran, &[more, again]);
    let ran = spin(&["--instruction-budget", "100000", "--device", "gpu"]);
    ran.failed(2, &["--instruction-budget needs the emulator"]);
    let options = ["--instruction-budget", "1000000"];
    run("transpose", &options).done();
}

#[test]
fn a_race_is_found_with_check_and_passes_without() {
    run("missing_barrier", &["--device", "emulator"]).done();
    let ran = run("missing_barrier", &["--check"]);
    found(
        &ran,
        &[
            "error: data race",
            "kernel.cu:",
            "(1)",
            "(2)",
            "--check --seed 0",
        ],
    );
    assert_eq!(ran.stdout, "");
}

#[test]
fn a_finding_in_json_says_both_places_and_how_to_reproduce_it() {
    let ran = run("missing_barrier", &["--check", "--seed", "4", "--json"]);
    found(&ran, &["error: data race"]);
    let line = json(&ran.stdout);
    assert_eq!(line["finding"]["kind"], "data race");
    assert_eq!(line["finding"]["place"]["source"]["file"], "kernel.cu");
    assert_eq!(
        line["finding"]["other"]["place"]["source"]["file"],
        "kernel.cu"
    );
    assert_eq!(
        (&line["seed"], &line["reproduce"]),
        (&4.into(), &"--check --seed 4".into())
    );
}

#[test]
fn schedules_find_what_one_order_hides_and_name_its_seed() {
    run("two_locks", &["--check"]).done();
    let ran = run("two_locks", &["--schedules", "100", "--json"]);
    found(&ran, &["deadlock", "note: found in schedule"]);
    let line = json(&ran.stdout);
    let seed = line["seed"].as_u64().expect("a seed").to_string();
    found(
        &run("two_locks", &["--check", "--seed", &seed]),
        &["deadlock"],
    );
    // Fewer schedules than it takes find nothing.
    let ran = run("two_locks", &["--schedules", &seed]).done();
    assert!(
        ran.contains(&format!("nothing found under {seed} seeds, 0 to ")),
        "{ran}"
    );
}

#[test]
fn schedules_run_from_the_same_buffers_and_tell_of_results_that_differ() {
    let ran = run("sum_order", &["--schedules", "16"]).done();
    assert!(
        ran.contains("check: nothing found under 16 seeds, 0 to 15"),
        "{ran}"
    );
    assert!(
        ran.contains("note: buffer `y` is not the same under seed 0 and seed "),
        "{ran}"
    );
    let line = json(&run("sum_order", &["--schedules", "16", "--json"]).done());
    assert_eq!(line["check"]["seeds"], 16);
    assert_eq!(line["check"]["differing"][0]["buffer"], "y");
    // Saved results accumulate in no buffer: integers add up to the same under every seed.
    let ran = run("transpose", &["--schedules", "4"]).done();
    assert!(!ran.contains("note:"), "{ran}");
}

#[test]
fn a_reproduced_fault_keeps_the_bytes_of_the_buffers() {
    let ran = edited(
        "two_locks",
        "fill = \"iota\"",
        "fill = \"uniform\"",
        &["--schedules", "100"],
    );
    found(&ran, &["--fill-seed 0"]);
    let hash = |options: &[&str]| {
        let line = json(&run("transpose", options).done());
        line["buffers"][0]["hash"]
            .as_str()
            .expect("a hash")
            .to_owned()
    };
    let plain = hash(&["--json", "--check", "--seed", "3"]);
    assert_eq!(
        hash(&["--json", "--check", "--seed", "9", "--fill-seed", "3"]),
        plain
    );
    assert_ne!(hash(&["--json", "--check", "--seed", "9"]), plain);
}

#[test]
fn a_profile_counts_what_the_kernel_does() {
    let line = json(&run("transpose", &["--profile", "--json"]).done());
    let profile = &line["profile"];
    let bytes = 256 * 256 * 4;
    assert_eq!(profile["global"]["loads"]["bytes"], bytes);
    assert_eq!(profile["global"]["distinct_read"], bytes);
    assert_eq!(profile["global"]["stores"]["sectors"], bytes / 32);
    // 64 blocks read 32 columns each, in 32 passes instead of one.
    assert_eq!(profile["shared"]["bank_conflicts"], 64 * 32 * 31);
    assert_eq!(profile["waits"]["barrier"], 64 * 8);
    assert_eq!(profile["occupancy"]["registers_are_estimated"], true);
    assert_eq!(
        profile["estimate"]["bounds"][0]["resource"],
        "shared memory"
    );
    let first = &profile["lines"][0];
    assert_eq!(
        (&first["source"]["file"], &first["warp"]),
        (&"kernel.cu".into(), &512.into())
    );
}

#[test]
fn a_profile_counts_tensor_copies_at_the_line_that_issues_them() {
    let line = json(&run("tensor_map", &["--profile", "--json"]).done());
    let profile = &line["profile"];
    // Eight boxes of 16 by 32 elements, of which 50 by 60 lie in the matrix.
    let copies = &profile["copies"]["tensor"];
    assert_eq!(
        (&copies["copies"], &copies["bytes"]),
        (&8.into(), &(8 * 2048).into())
    );
    let global = &profile["global"];
    assert_eq!(global["copies_in"]["bytes"], 50 * 60 * 4);
    assert_eq!(global["distinct_read"], 50 * 60 * 4);
    assert_eq!(global["loads"]["bytes"], 0);
    assert_eq!(
        profile["waits"]["mbarrier"]
            .as_u64()
            .map(|waits| waits >= 8),
        Some(true)
    );
    let lines = profile["lines"].as_array().expect("lines");
    let issuing = lines.iter().find(|line| line["kind"] == "async-copy");
    let issuing = issuing.expect("the copy's line");
    assert_eq!(issuing["sectors"], global["copies_in"]["sectors"]);
}

#[test]
fn a_profile_for_people_says_that_it_estimates() {
    for (model, name, bound) in [
        ("h100", "H100 SXM", "shared memory"),
        ("h200", "H200 SXM", "shared memory"),
        ("a100", "A100 SXM 80 GB", "shared memory"),
        ("b200", "B200 (HGX)", "shared memory"),
        ("2080ti", "GeForce RTX 2080 Ti", "memory"),
    ] {
        let text = run("transpose", &["--profile", "--gpu-model", model]).done();
        let estimate = format!("estimate for {name}: at least ");
        let bound = format!(", bound by {bound}\n");
        for words in [
            estimate.as_str(),
            &bound,
            "Not a measurement",
            "kernel.cu:8",
        ] {
            assert!(text.contains(words), "`{words}` is not in: {text}");
        }
    }
}

#[test]
fn a_run_that_goes_on_reports_each_line_once_and_leaves_out_what_is_ignored() {
    let lines = |ran: &Ran| -> Vec<u64> {
        let line = json(&ran.stdout);
        let earlier = line["earlier"].as_array().expect("a list");
        let all = earlier.iter().chain([&line["finding"]]);
        all.map(|finding| finding["place"]["ptx_line"].as_u64().expect("a line"))
            .collect()
    };
    let first = run("missing_barrier", &["--check", "--json"]);
    found(&first, &["error: data race"]);
    let all = run("missing_barrier", &["--check", "--keep-going", "--json"]);
    let again = "to reproduce: --check --keep-going --seed 0";
    found(&all, &["error: data race", again]);
    let races = lines(&all);
    assert_eq!(lines(&first), races[..1]);
    assert!(races.len() > 2, "{races:?}");
    let errors = all.stderr.matches("error: ").count();
    assert_eq!(errors, races.len(), "{}", all.stderr);
    let one = format!("data-race:{}", races[0]);
    let ran = run("missing_barrier", &["--check", "--json", "--ignore", &one]);
    found(&ran, &["error: data race", &format!("--ignore {one}")]);
    assert_eq!(lines(&ran), races[1..2]);
    let each: Vec<String> = races
        .iter()
        .map(|line| format!("--ignore=data-race:{line}"))
        .collect();
    let each = ["--check"]
        .into_iter()
        .chain(each.iter().map(String::as_str));
    run("missing_barrier", &each.collect::<Vec<_>>()).done();
    run("missing_barrier", &["--check", "--ignore", "data-race"]).done();
    // A deadlock ends a kernel.
    for wrong in ["deadlock", "data-race:0", "data-race:x", ""] {
        assert_eq!(run("deadlock", &["--ignore", wrong]).code, 2, "{wrong}");
    }
}

#[test]
fn options_of_the_emulator_are_refused_on_a_gpu() {
    for option in [
        &["--check"][..],
        &["--schedules", "2"],
        &["--keep-going"],
        &["--ignore", "data-race"],
        &["--profile"],
    ] {
        let options = [option, &["--device", "gpu"]].concat();
        let words = [option[0], "needs the emulator, and --device is gpu"];
        run("transpose", &options).failed(2, &words);
    }
    for options in [
        &["--schedules", "0"][..],
        &["--schedules", "many"],
        &["--gpu-model", "h100"],
        &["--profile", "--gpu-model", "voodoo"],
    ] {
        assert_eq!(run("transpose", options).code, 2, "{options:?}");
    }
}

#[test]
fn a_tensor_map_is_passed_by_value_and_by_pointer() {
    let hash = |ran: Ran| {
        let line = json(&ran.done());
        assert_eq!(line["cluster"], serde_json::json!([2, 1, 1]));
        line["buffers"][1]["hash"]
            .as_str()
            .expect("a hash")
            .to_owned()
    };
    let options = ["--json", "--check"];
    let by_value = hash(run("tensor_map", &options));
    let by_pointer = hash(edited("tensor_map", "by_value", "by_pointer", &options));
    assert_eq!(by_value, by_pointer);
}

#[test]
fn a_tensor_map_that_cannot_be_is_refused_with_value_and_rule() {
    for (from, to, words) in [
        (
            "box = [32, 16]",
            "box = [33, 16]",
            "box[0] is 33 elements of 4 bytes, 132 bytes",
        ),
        (
            "strides_bytes = [240]",
            "strides_bytes = [244]",
            "strides_bytes[0] is 244, want a multiple of 16",
        ),
        (
            "strides_bytes = [240]",
            "strides_bytes = []",
            "strides_bytes is 0 values, want 1",
        ),
        (
            "dims = [60, 50]",
            "dims = [60, 0]",
            "dims[1] is 0, want 1 to 2^32",
        ),
        (
            "dims = [60, 50]",
            "dims = [60, 51]",
            "end of a tensor map's tensor in bytes is 12240",
        ),
        (
            "box = [32, 16]",
            "box = [32, 16]\nelement_strides = [1, 9]",
            "element_strides[1] is 9, want 1 to 8",
        ),
        (
            "box = [32, 16]",
            "box = [32, 16]\nswizzle = 64",
            "at most the 64 bytes of the swizzle",
        ),
        (
            "box = [32, 16]",
            "box = [32, 16]\nswizzle = 48",
            "swizzle: 48 is not 0, 32, 64 or 128",
        ),
        (
            "box = [32, 16]",
            "box = [32, 16]\nfill = \"ones\"",
            "fill: `ones` is neither zeros nor nan",
        ),
        (
            "box = [32, 16]",
            "box = [32, 16]\nfil = \"nan\"",
            "unknown field `fil`",
        ),
        ("box = [32, 16]", "", "missing field `box`"),
    ] {
        let ran = edited("tensor_map", from, to, &["--device", "emulator"]);
        ran.failed(1, &["launch.toml", words]);
    }
    let buffer = "[[tensor_map]]\nname = \"x\"\nbuffer = \"x\"";
    let ran = edited(
        "tensor_map",
        buffer,
        &buffer.replace("buffer = \"x\"", "buffer = \"z\""),
        &[],
    );
    ran.failed(
        1,
        &["tensor_map `x`: buffer = \"z\": no such buffer; there are: x, y"],
    );
    let ran = edited("tensor_map", "map = \"x\"", "map = \"z\"", &[]);
    ran.failed(1, &["arg 1: map = \"z\": no such map; there are: x"]);
    let ran = edited("tensor_map", "map = \"x\"", "buffer = \"x\"", &[]);
    ran.failed(
        1,
        &["arg 1: `buffer` has 8 bytes, parameter `by_value_param_0` has 128"],
    );
    let twice = format!("{buffer}\ndims = [4]\nstrides_bytes = []\nbox = [4]\n\n{buffer}");
    edited("tensor_map", buffer, &twice, &[]).failed(1, &["two tensor maps have the name `x`"]);
}

#[test]
fn clusters_that_cannot_be_are_refused() {
    for (to, words) in [
        ("cluster = 3", "a multiple of the cluster [3, 1, 1]"),
        ("cluster = [2, 0]", "cluster: [2, 0, 1] has an extent of 0"),
        (
            "cluster = [2, 4, 4]",
            "cluster is [2, 4, 4], want 1 to 16 blocks",
        ),
        ("cluster = \"two\"", "one to three extents"),
    ] {
        let ran = edited("tensor_map", "cluster = 2", to, &["--device", "emulator"]);
        ran.failed(1, &["launch.toml", words]);
    }
    edited(
        "tensor_map",
        "cluster = 2",
        "cluster = [1, 4]",
        &["--check"],
    )
    .done();
}

#[test]
fn orders_are_explored_and_counted() {
    let ran = run("two_locks", &["--explore"]);
    found(&ran, &["deadlock", "to reproduce: --explore=10000"]);
    let few = edited("sum_order", "block = 256", "block = 96", &["--explore=50"]);
    assert_eq!(few.code, 0, "{}", few.stderr);
    let first = "explore: nothing found in the first 50 orders of 4 blocks x 96 threads";
    assert!(few.stdout.contains(first), "{}", few.stdout);
    let one = edited("two_locks", "block = 64", "block = 32", &["--explore"]);
    let only = "explore: nothing found in the only order of 1 blocks x 32 threads";
    assert!(one.stdout.contains(only), "{}{}", one.stdout, one.stderr);
    assert_eq!(run("two_locks", &["--explore", "--seed", "3"]).code, 2);
}
