//! The lines of our programs in the book's table are those of their files.

use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::read_to_string(root.join(path)).expect(path)
}

/// Lines that are neither blank nor comments.
fn lines(text: &str) -> usize {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

#[test]
fn programs_have_the_lines_that_the_book_says() {
    let guide = read("docs/writing-a-kernel.md");
    let (_, host) = guide
        .split_once("// examples/saxpy.rs\n")
        .expect("the host");
    let (host, _) = host.split_once("```").expect("its end");
    let of = |path| lines(&read(path));
    let sum = [
        of("cli/templates/new/src/lib.rs"),
        of("cli/templates/new/build.rs"),
        lines(host),
    ];
    let written_out = [
        of("examples/kernels/src/hopper_gemm.rs"),
        of("examples/08_hopper_gemm/main.rs"),
    ];
    let with_epilogue = [
        of("examples/kernels/src/lower_triangle.rs"),
        of("examples/06_your_epilogue/main.rs"),
    ];
    let page = read("docs/other-kits.md");
    for (program, parts) in [
        ("| vector sum, from `warpsmith new`", &sum[..]),
        ("| tensor-core GEMM, written out", &written_out),
        ("| tensor-core GEMM, epilogue", &with_epilogue),
    ] {
        let mut rows = page.lines();
        let row = rows.find(|row| row.starts_with(program)).expect(program);
        for part in parts {
            assert!(row.contains(&format!(") {part}")), "{program}: {part}");
        }
        let all: usize = parts.iter().sum();
        assert!(row.ends_with(&format!("| {all} |")), "{program}: {all}");
    }
}
