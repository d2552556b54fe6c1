//! The demo: its figures, and that it says them in one line of JSON too.

use crate::support::warpsmith;

#[test]
fn demo_reads_345_of_360_digits_and_says_how_far_each_result_is_from_its_reference() {
    let text = warpsmith(["demo", "--device", "emulator"]).done();
    assert!(text.contains("345 of 360 right (95.83 %)"), "{text}");
    assert!(text.contains("same 360 answers"), "{text}");
    for operation in ["row sums", "division", "attention", "gemm", "softmax"] {
        assert!(
            text.contains(&format!("\n{operation} ")),
            "{operation} is not in\n{text}"
        );
    }
    // Drawn: nine lines of images, the darkest shade among them.
    assert!(text.contains("██"), "{text}");
}

#[test]
fn demo_prints_one_line_of_json() {
    let text = warpsmith(["demo", "--device", "emulator", "--json"]).done();
    assert_eq!(text.lines().count(), 1, "{text}");
    let line: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(line["right"], 345);
    assert_eq!(line["images"], 360);
    let operations = line["operations"].as_array().expect("operations");
    assert_eq!(operations.len(), 6);
    for operation in operations {
        let share = operation["max_error_over_bound"]
            .as_f64()
            .expect("a number");
        assert!((0.0..=1.0).contains(&share), "{operation}");
    }
}
