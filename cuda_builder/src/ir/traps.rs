//! Replaces panics by traps.
//!
//! Functions of `core` that never return (`panic_fmt`, `panic_bounds_check`, `unwrap_failed`,
//! `slice_index_fail` and the like) and the panic handler's entry are replaced by `llvm.trap`, both
//! at their calls and in their definitions. An index out of bounds therefore stops the kernel with
//! an error that the host sees, and no formatting code remains.

use std::collections::BTreeSet;

use super::{Function, Item, Module, symbols, text};

/// Replaces the panic functions of `module`.
pub fn apply(module: &mut Module) {
    let panics: BTreeSet<String> = module
        .functions()
        .filter(|function| is_noreturn(function, module) && is_panic(&function.name))
        .map(|function| function.name.clone())
        .collect();
    if panics.is_empty() {
        return;
    }
    let group = module.attribute_group("alwaysinline noreturn nounwind");
    for function in module.functions_mut() {
        if panics.contains(&function.name) {
            define_as_trap(function, group);
        } else {
            for line in function.body.iter_mut().flatten() {
                call_trap(line, &panics);
            }
        }
    }
    if module.function("llvm.trap").is_none() {
        module.items.push(Item::Function(Function {
            name: "llvm.trap".to_owned(),
            header: "declare void @llvm.trap()".to_owned(),
            body: None,
        }));
    }
}

fn is_noreturn(function: &Function, module: &Module) -> bool {
    let group = function
        .attribute_group()
        .and_then(|number| module.attributes.get(&number));
    group.is_some_and(|group| group.split(' ').any(|word| word == "noreturn"))
}

/// Whether a mangled name belongs to `core`, or is the symbol of `#[panic_handler]`.
pub(super) fn is_panic(name: &str) -> bool {
    name.contains("rust_begin_unwind") || root_crate(name) == Some("core")
}

/// The first crate in a v0-mangled name: `core` in `_RNvNtCs1ab_4core9panicking5panic`.
fn root_crate(name: &str) -> Option<&str> {
    let mangled = name.strip_prefix("_R")?;
    let at = mangled.find('C')?;
    let mut rest = &mangled[at + 1..];
    if let Some(disambiguated) = rest.strip_prefix('s') {
        rest = disambiguated.split_once('_')?.1;
    }
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = rest[..digits].parse().ok()?;
    let name = rest[digits..].trim_start_matches('_');
    name.get(..length)
}

fn define_as_trap(function: &mut Function, group: u32) {
    if let Some(declared) = function.header.strip_prefix("declare ") {
        function.header = format!("define {declared}");
    }
    function.set_attribute_group(group);
    function.body = Some(vec![
        "  call void @llvm.trap()".to_owned(),
        "  unreachable".to_owned(),
    ]);
}

/// The function that a line calls directly, without a result, and the arguments.
pub(super) fn named_call(line: &str) -> Option<(String, &str)> {
    let call = line
        .trim_start()
        .trim_start_matches("tail ")
        .trim_start_matches("musttail ");
    if !call.starts_with("call ") {
        return None;
    }
    let (start, _) = text::split_call_arguments(call)?;
    // A function that is passed as an argument comes after the parenthesis; it is not called here.
    let callee = symbols(&call[..start]).next()?;
    Some((callee, &call[start..]))
}

/// Turns a direct call of a panic function without a result into a call of the trap. rustc has
/// already put `unreachable` after it.
fn call_trap(line: &mut String, panics: &BTreeSet<String>) {
    if !named_call(line).is_some_and(|(callee, _)| panics.contains(&callee)) {
        return;
    }
    let location = line
        .rsplit_once(", !dbg ")
        .map(|(_, number)| format!(", !dbg {number}"));
    *line = format!("  call void @llvm.trap(){}", location.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_check_becomes_a_trap() {
        let mut module = Module::parse(
            "define void @k(ptr %0) #0 {\n  \
             call void @_RNvNtCsih_4core9panicking18panic_bounds_check(i64 1, ptr %0) #2, !dbg !7\n  \
             unreachable\n}\n\
             declare void @_RNvNtCsih_4core9panicking18panic_bounds_check(i64, ptr) unnamed_addr #1\n\
             attributes #0 = { nounwind }\nattributes #1 = { cold noinline noreturn nounwind }\n",
        );
        apply(&mut module);
        assert_eq!(
            module.to_string(),
            "\ndefine void @k(ptr %0) #0 {\n  call void @llvm.trap(), !dbg !7\n  unreachable\n}\n\
             \ndefine void @_RNvNtCsih_4core9panicking18panic_bounds_check(i64, ptr) unnamed_addr #2 \
             {\n  call void @llvm.trap()\n  unreachable\n}\n\
             \ndeclare void @llvm.trap()\n\
             attributes #0 = { nounwind }\nattributes #1 = { cold noinline noreturn nounwind }\n\
             attributes #2 = { alwaysinline noreturn nounwind }\n"
        );
    }

    #[test]
    fn a_users_own_endless_function_is_left_alone() {
        let text = "define void @_RNvCs1_4mine4spin() #0 {\n  br label %1\n}\n\
                    attributes #0 = { noreturn }\n";
        let mut module = Module::parse(text);
        apply(&mut module);
        assert_eq!(module, Module::parse(text));
    }

    #[test]
    fn crates_are_read_from_mangled_names() {
        assert_eq!(
            root_crate("_RNvNtCsihrlQMM8TO4_4core9panicking5panic"),
            Some("core")
        );
        assert_eq!(root_crate("_RNvC4core3abc"), Some("core"));
        assert_eq!(
            root_crate("_RINvNtCs1_8cuda_std4warp4coreE"),
            Some("cuda_std")
        );
        assert_eq!(root_crate("memcpy"), None);
    }
}
