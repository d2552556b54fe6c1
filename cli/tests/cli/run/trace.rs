//! `--trace` and `--html`.

use serde_json::Value;

use super::{SAXPY, run};
use crate::support::Folder;

/// The events of a kind.
fn events<'v>(trace: &'v Value, phase: &str) -> Vec<&'v Value> {
    let all = trace["traceEvents"].as_array().expect("a list");
    all.iter().filter(|event| event["ph"] == phase).collect()
}

#[test]
fn a_trace_has_a_span_for_each_warp() {
    let folder = Folder::new();
    let path = folder.path("out.json");
    let place = path.to_str().expect("UTF-8");
    run(&folder, SAXPY, &["--trace", place]).done();
    let text = std::fs::read_to_string(&path).expect("it was written");
    let trace: Value = serde_json::from_str(&text).expect("it is JSON");
    // Two blocks of two warps.
    for process in 1..=2 {
        for thread in 0..2 {
            let of_warp = |event: &&Value| event["pid"] == process && event["tid"] == thread;
            let names = events(&trace, "M");
            let name = names
                .iter()
                .find(|event| of_warp(event) && event["name"] == "thread_name");
            let name = name.map(|event| &event["args"]["name"]);
            assert_eq!(name, Some(&Value::from(format!("warp {thread}"))));
            let spans = events(&trace, "X");
            let own: Vec<&&Value> = spans.iter().filter(|event| of_warp(event)).collect();
            assert_eq!(own.len(), 1, "{own:?}");
            assert_eq!(own[0]["cat"], "run");
            assert!(own[0]["dur"].as_u64() > Some(5), "{}", own[0]);
            assert!(own[0]["args"]["first"]["ptx_line"].is_u64());
        }
    }
    assert_eq!(trace["otherData"]["launches"][0]["kernel"], "saxpy");
}

#[test]
fn a_page_holds_the_timeline_the_estimate_and_the_lines() {
    let folder = Folder::new();
    let path = folder.path("out.html");
    let place = path.to_str().expect("UTF-8");
    let shown = run(&folder, SAXPY, &["--html", place, "--trace-blocks", "1"]).done();
    assert!(!shown.contains("hottest lines"), "{shown}");
    let page = std::fs::read_to_string(&path).expect("it was written");
    let (_, data) = page.split_once("const DATA = ").expect("it has data");
    let (data, _) = data.split_once(";</script>").expect("they end");
    let data: Value = serde_json::from_str(data).expect("they are JSON");
    let launch = &data["launches"][0];
    assert_eq!(
        (&launch["recorded"], &launch["blocks"]),
        (&1.into(), &2.into())
    );
    assert_eq!(launch["rows"].as_array().map(Vec::len), Some(2));
    assert!(launch["profile"]["estimate"]["bounds"].is_array());
    assert!(launch["profile"]["lines"][0]["warp"].is_u64());
    for outside in ["http://", "https://", "src="] {
        assert!(!page.contains(outside), "the page needs {outside}");
    }
}

#[test]
fn a_kernel_at_fault_leaves_its_trace() {
    let folder = Folder::new();
    let path = folder.path("out.html");
    let place = path.to_str().expect("UTF-8");
    let toml = SAXPY.replace("u32 = 100", "u32 = 128");
    let ran = run(&folder, &toml, &["--html", place]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let page = std::fs::read_to_string(&path).expect("it was written");
    assert!(page.contains("out-of-bounds access"));
}

#[test]
fn a_trace_is_of_one_schedule_and_no_other_result_stands_in_its_place() {
    let folder = Folder::new();
    let place = folder.path("y.npy");
    let place = place.to_str().expect("UTF-8");
    let ran = run(&folder, SAXPY, &["--trace", place]);
    ran.failed(1, &["--trace", "another result's place"]);
    let ran = run(&folder, SAXPY, &["--trace", "out.json", "--schedules", "2"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
}
