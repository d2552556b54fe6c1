//! Makes symbol names and their order depend on the source alone.
//!
//! rustc hashes a crate's path and dependencies into its symbol names, and orders generic functions
//! and constants by these names. Here symbols are named by their demangled path, functions are
//! sorted by it, and constants are numbered by first use. The same source then gives the same PTX,
//! wherever it is.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use super::{Function, Global, Item, Module, symbols};

/// The longest name that is kept, in bytes.
const LONGEST: usize = 160;

/// Renames and sorts the items of `module`. Names that are not mangled (kernels, `#[no_mangle]`
/// statics, intrinsics) are kept.
pub fn apply(module: &mut Module) {
    let mut functions: Vec<Function> = Vec::new();
    let mut globals: BTreeMap<String, Global> = BTreeMap::new();
    let mut others = Vec::new();
    for item in mem::take(&mut module.items) {
        match item {
            Item::Function(function) => functions.push(function),
            Item::Global(global) => {
                globals.insert(global.name.clone(), global);
            }
            Item::Other(line) => others.push(line),
        }
    }
    functions.sort_by_cached_key(|function| {
        (
            function.body.is_none(),
            stem(&function.name),
            without_hashes(&function.name),
        )
    });
    let order = first_uses(&functions, &globals);
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut names = BTreeMap::new();
    for name in functions
        .iter()
        .map(|function| &function.name)
        .chain(&order)
    {
        let stem = stem(name).unwrap_or_else(|| name.clone());
        let mut new = stem.clone();
        let mut count = 0;
        while !taken.insert(new.clone()) {
            count += 1;
            new = format!("{stem}_{count}");
        }
        if new != *name {
            names.insert(name.clone(), new);
        }
    }
    let (metadata, head): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|line| line.starts_with('!'));
    module.items.extend(head.into_iter().map(Item::Other));
    module.items.extend(
        order
            .iter()
            .filter_map(|name| globals.remove(name))
            .map(Item::Global),
    );
    module
        .items
        .extend(functions.into_iter().map(Item::Function));
    module.items.extend(metadata.into_iter().map(Item::Other));
    module.rename(|name| names.get(name).cloned());
}

/// The globals in the order in which functions, and then earlier globals, refer to them. Globals to
/// which nothing refers are left out.
fn first_uses(functions: &[Function], globals: &BTreeMap<String, Global>) -> Vec<String> {
    let mut order: Vec<String> = Vec::new();
    let mut seen = BTreeSet::new();
    let bodies = functions
        .iter()
        .flat_map(|function| function.body.iter().flatten());
    for name in bodies.flat_map(|line| symbols(line)) {
        if globals.contains_key(&name) && seen.insert(name.clone()) {
            order.push(name);
        }
    }
    let mut next = 0;
    while let Some(global) = order.get(next).and_then(|name| globals.get(name)) {
        for name in symbols(&global.definition) {
            if globals.contains_key(&name) && seen.insert(name.clone()) {
                order.push(name);
            }
        }
        next += 1;
    }
    order
}

/// The readable name of a mangled symbol; `None` for names that others rely on.
fn stem(name: &str) -> Option<String> {
    if name.starts_with("anon.") || name.starts_with("alloc_") || name.starts_with("vtable.") {
        return Some("__const".to_owned());
    }
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    let mut stem = String::new();
    for c in format!("{demangled:#}").chars() {
        if c.is_ascii_alphanumeric() {
            stem.push(c);
        } else if !stem.ends_with('_') {
            stem.push('_');
        }
    }
    let stem = stem.trim_matches('_');
    Some(format!("__{}", stem.get(..LONGEST).unwrap_or(stem)))
}

/// A v0-mangled name without the hashes of its crates (`Cs1ab_4core` → `C4core`), to sort symbols
/// whose readable names are equal.
fn without_hashes(name: &str) -> String {
    let mut out = String::new();
    let mut rest = name;
    while let Some(at) = rest.find("Cs") {
        let (before, tail) = rest.split_at(at + 1);
        out.push_str(before);
        let hash = tail[1..]
            .bytes()
            .take_while(u8::is_ascii_alphanumeric)
            .count()
            + 1;
        rest = if tail[hash..].starts_with('_') {
            &tail[hash + 1..]
        } else {
            tail
        };
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(hash: &str, crate_hash: &str, swapped: bool) -> String {
        let a = format!("define internal void @_RNvCs{crate_hash}_3dep1a() {{\n  ret void\n}}\n");
        let b = format!(
            "define internal void @_RNvCs{crate_hash}_3dep1b() {{\n  \
             store i8 0, ptr @anon.{hash}.7\n  ret void\n}}\n"
        );
        let order = if swapped { b + &a } else { a + &b };
        format!(
            "@anon.{hash}.3 = private constant i8 1\n@anon.{hash}.7 = private constant ptr @anon.{hash}.3\n{order}!0 = !{{}}\n"
        )
    }

    fn renamed(text: &str) -> String {
        let mut module = Module::parse(text);
        apply(&mut module);
        module.to_string()
    }

    #[test]
    fn hashes_and_their_order_do_not_show() {
        let one = renamed(&module("1f", "ihrlQMM8TO4", false));
        assert_eq!(one, renamed(&module("77ab", "2", true)));
        assert_eq!(
            one,
            "@__const = private constant ptr @__const_1\n@__const_1 = private constant i8 1\n\
             \ndefine internal void @__dep_a() {\n  ret void\n}\n\
             \ndefine internal void @__dep_b() {\n  store i8 0, ptr @__const\n  ret void\n}\n!0 = !{}\n"
        );
    }

    #[test]
    fn names_that_read_the_same_stay_apart() {
        let text = "define internal void @_RNvCs1_3dep1a() {\n  ret void\n}\n\
                    define internal void @_RNvCs2_3dep1a() {\n  ret void\n}\n\
                    define ptx_kernel void @k() {\n  ret void\n}\n";
        let out = renamed(text);
        assert!(
            out.contains("@__dep_a()") && out.contains("@__dep_a_1()"),
            "{out}"
        );
        assert!(out.contains("@k()"), "{out}");
    }

    #[test]
    fn hashes_are_cut_out_of_mangled_names() {
        assert_eq!(
            without_hashes("_RNvNtCsihr_4core3fmtCs1_3abc"),
            "_RNvNtC4core3fmtC3abc"
        );
        assert_eq!(without_hashes("memcpy"), "memcpy");
    }
}
