//! Bugs planted in the kernel's text, each of which the emulator must find: it shows that a clean
//! run of the other tests rules out such races.

use abi::gemm::MmaEntry;
use half::bf16;
use warpsmith::Device;

use super::launch::{Tail, try_launch};
use super::problem::{Problem, poisoned, stream};

const ENTRY: MmaEntry = MmaEntry::read("gemm_mma_bf16_nt_128x128x32_s4_fused");

/// The module's header and the one entry.
fn text() -> String {
    let whole = warpsmith_tests::built_ptx("sm_80/gemm.ptx");
    let mut parts = whole.split(".visible .entry ");
    let head = parts.next().expect("a head");
    let start = format!("{ENTRY}(");
    let entry = parts.find(|part| part.starts_with(&start));
    format!("{head}.visible .entry {}", entry.expect("the entry"))
}

/// Runs the kernel with this text; fails with the emulator's report.
fn run(text: &str) -> Result<(), String> {
    let device = Device::emulator().expect("an emulator");
    let stream = stream(&device);
    let problem = Problem::new(140, 130, 400);
    let operands = problem.operands();
    let (a, b) = problem.place::<bf16, bf16>(&stream, &ENTRY, &operands);
    let d = poisoned::<bf16>(&stream, &problem);
    let params = problem.params(&a, &b, &d);
    let tail = Tail::EMPTY;
    device
        .load_ptx(text)
        .and_then(|module| module.kernel(&ENTRY.to_string()))
        .and_then(|kernel| {
            try_launch(
                &stream,
                &kernel,
                &ENTRY,
                &problem,
                (&a, &b, &d),
                params,
                &tail,
            )
        })
        .map_err(|error| error.to_string())
}

/// The text with its `nth` line that contains `find` replaced; `None` if there are fewer.
fn planted(text: &str, find: &str, nth: usize, with: &str) -> Option<String> {
    let (idx, line) = text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.contains(find))
        .nth(nth)?;
    assert!(!line.contains('@'), "not under a predicate: {line}");
    let lines = text.lines().enumerate();
    let lines = lines.map(|(i, line)| if i == idx { with } else { line });
    Some(lines.flat_map(|line| [line, "\n"]).collect())
}

#[test]
fn a_missing_barrier_or_wait_is_found() {
    let text = text();
    assert_eq!(run(&text), Ok(()), "the kernel as it is");
    let mut bugs = 0;
    for (find, with) in [
        ("bar.sync", ""),
        ("cp.async.wait_group", "cp.async.wait_group 7;"),
    ] {
        let mut nth = 0;
        while let Some(planted) = planted(&text, find, nth, with) {
            let found = run(&planted);
            assert!(found.is_err(), "`{find}` number {nth} is not missed");
            nth += 1;
            bugs += 1;
        }
    }
    // Barriers: before the first tile, in each tile, before the results and after them. Waits: at
    // the first three.
    assert_eq!(bugs, 7);
}
