//! Each wrapper of `cuda_std` compiles to exactly its instruction; checked with the kernels of
//! `device_std/src/instructions`, which call one wrapper after another.
//!
//! `device_std/instructions.txt` lists the instructions with register numbers removed. After a
//! change, rebuild the PTX (see `device_std.rs`), run with `WARPSMITH_BLESS=1` and review the diff.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const MODULES: [(&str, &str); 4] = [
    (
        "sm_75",
        include_str!("../device_std/ptx/sm_75/instructions.ptx"),
    ),
    (
        "sm_80",
        include_str!("../device_std/ptx/sm_80/instructions.ptx"),
    ),
    (
        "sm_89",
        include_str!("../device_std/ptx/sm_89/instructions.ptx"),
    ),
    (
        "sm_90a",
        include_str!("../device_std/ptx/sm_90a/instructions.ptx"),
    ),
];

/// The lines of a kernel, each with whether it came from `asm!`.
type Lines<'a> = Vec<(bool, &'a str)>;

/// The body of each kernel, by name.
fn kernels(ptx: &str) -> BTreeMap<&str, Lines<'_>> {
    let mut kernels: BTreeMap<&str, Lines<'_>> = BTreeMap::new();
    let mut name = "";
    for line in ptx.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix(".visible .entry ") {
            name = rest.trim_end_matches('(');
        }
        let lines = kernels.entry(name).or_default();
        lines.push((is_from_asm(line), line));
    }
    kernels
}

/// LLVM puts a tab between an instruction and its operands; text from `asm!` has spaces.
fn is_from_asm(line: &str) -> bool {
    line.ends_with(';') && !line.contains('\t') && !["ret;", "trap;", "exit;"].contains(&line)
}

/// An instruction from `asm!`, with `%r` for each register and the number of registers for each
/// list. `None` for lines that only move a predicate or tie registers.
fn instruction(line: &str) -> Option<String> {
    let line = line.split("//").next().unwrap_or_default().trim();
    let carries = ["{", "}", "", ".reg .pred p;"].contains(&line) || line.starts_with("selp.u32");
    if carries {
        return None;
    }
    let mut text = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_%.".contains(c);
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let after = &rest[end..];
        text += if is_register(&rest[..end]) {
            "%r"
        } else {
            &rest[..end]
        };
        let end = after.find(is_name).unwrap_or(after.len());
        text += &after[..end];
        rest = &after[end..];
    }
    text = text.replace(", ", ",").replace(',', ", ");
    for count in (3..=128).rev() {
        let list = vec!["%r"; count].join(", ");
        text = text.replace(&format!("{{{list}}}"), &format!("{{%r x {count}}}"));
    }
    Some(text)
}

/// Whether a name is LLVM's of a register, `%r12` or `%low16`, or one that `asm!` declares, `p`.
fn is_register(name: &str) -> bool {
    let numbered = name.ends_with(|c: char| c.is_ascii_digit());
    let short = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name[1..].bytes().all(|byte| byte.is_ascii_digit());
    short || (numbered && name.starts_with('%'))
}

fn listing() -> String {
    let mut listing = String::new();
    for (arch, ptx) in MODULES {
        for (name, lines) in kernels(ptx).iter().filter(|(name, _)| !name.is_empty()) {
            writeln!(listing, "{arch} {name}").expect("a String takes all");
            for (_, line) in lines.iter().filter(|(inside, _)| *inside) {
                if let Some(instruction) = instruction(line) {
                    writeln!(listing, "    {instruction}").expect("a String takes all");
                }
            }
        }
    }
    listing
}

#[test]
fn each_wrapper_is_exactly_its_instruction() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("device_std/instructions.txt");
    let got = listing();
    if std::env::var_os("WARPSMITH_BLESS").is_some() {
        std::fs::write(&path, &got).expect("the list can be written");
    }
    let want = std::fs::read_to_string(&path).expect("the list can be read");
    for (index, (got, want)) in got.lines().zip(want.lines()).enumerate() {
        assert_eq!(got, want, "line {} of {}", index + 1, path.display());
    }
    assert_eq!(got.lines().count(), want.lines().count());
}

#[test]
fn a_loop_of_products_moves_no_register() {
    let kernels = kernels(MODULES[3].1);
    let lines = &kernels["wgmma_loop"];
    let is = |start: &'static str| move |(_, line): &(bool, &str)| line.starts_with(start);
    let label = lines.iter().position(is("$")).expect("there is a loop");
    let end = label + lines[label..].iter().position(is("@")).expect("it ends");
    let body = &lines[label..end];
    assert_eq!(body.iter().filter(|line| is("wgmma.mma")(line)).count(), 2);
    // Fence, two wgmma, commit, wait; two addresses and a counter.
    let others: Vec<_> = body[1..]
        .iter()
        .map(|(_, line)| line)
        .filter(|line| !line.is_empty() && !line.starts_with("//") && !line.starts_with("wgmma."))
        .collect();
    assert!(others.len() <= 4, "{others:#?}");
    assert!(
        others.iter().all(|line| !line.starts_with("mov")),
        "{others:#?}"
    );
}

#[test]
fn a_wait_is_a_loop_of_the_wait() {
    let kernels = kernels(MODULES[3].1);
    let lines = &kernels["every_mbarrier_instruction"];
    let label = lines.iter().position(|(_, line)| line.starts_with('$'));
    let body: Vec<_> = lines[label.expect("there is a loop")..]
        .iter()
        .map(|(_, line)| *line)
        // Scopes of `asm!`, and what they declare.
        .filter(|line| !["", "{", "}"].contains(line) && !line.starts_with('.'))
        .map(|line| line.split(' ').next().unwrap_or_default())
        .map(|word| word.split('\t').next().unwrap_or_default())
        .collect();
    let want = ["mbarrier.try_wait.parity.shared::cta.b64", "selp.u32"];
    assert_eq!(body[1..3], want);
    assert!(
        body[3].starts_with("setp.") && body[4].starts_with('@'),
        "{body:?}"
    );
}
