//! Expected output as comments in the source: a small FileCheck.

/// Holds `ptx` and `ir` against the `//! PTX..:` and `//! IR..:` lines of `source`; the first
/// that does not hold comes back as text.
pub(crate) fn check(source: &str, ptx: &str, ir: &str) -> Result<(), String> {
    let mut expected = 0;
    let (mut ptx_rest, mut ir_rest) = (ptx, ir);
    for line in source.lines().filter_map(|line| line.strip_prefix("//! ")) {
        let Some((kind, pattern)) = line.split_once(": ") else {
            continue;
        };
        let words: Vec<&str> = kind.split(' ').collect();
        let (whole, rest) = if kind.starts_with("PTX") {
            (ptx, &mut ptx_rest)
        } else {
            (ir, &mut ir_rest)
        };
        let holds = match words[..] {
            ["PTX" | "IR"] => advance(rest, pattern),
            ["PTX-NOT" | "IR-NOT"] => !whole.contains(pattern),
            ["PTX-COUNT" | "IR-COUNT", count] => {
                count.parse() == Ok(whole.matches(pattern).count())
            }
            _ => continue,
        };
        expected += 1;
        if !holds {
            return Err(format!("`{kind}: {pattern}` does not hold of:\n{whole}"));
        }
    }
    if expected == 0 {
        Err("the source expects nothing".to_owned())
    } else {
        Ok(())
    }
}

/// Moves `rest` behind the next occurrence of `pattern`, if there is one.
fn advance(rest: &mut &str, pattern: &str) -> bool {
    let after = rest.find(pattern).map(|at| &rest[at + pattern.len()..]);
    *rest = after.unwrap_or(rest);
    after.is_some()
}

#[test]
fn expectations_hold_in_order() {
    let source = "//! PTX: a\n//! PTX: b\n//! PTX-NOT: x\n//! PTX-COUNT 2: b\n//! IR: i\n";
    assert_eq!(check(source, "b a b", "i"), Ok(()));
    assert!(check(source, "b b a", "i").is_err());
    assert!(check(source, "a b b x", "i").is_err());
    assert!(check(source, "a b b b", "i").is_err());
    assert!(check(source, "a b b", "").is_err());
    assert!(check("nothing", "a", "i").is_err());
}
