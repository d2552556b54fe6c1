//! Marks everything convergent.
//!
//! LLVM may duplicate calls, or move them into divergent control flow, unless they are
//! `convergent`. rustc marks functions so, but not `asm!`, in which all barriers, votes and
//! shuffles are. Here every function, call and `asm` is marked, as clang does for CUDA. LLVM
//! removes the attribute again where it can prove that nothing convergent is reached.

use super::{Module, text};

/// Marks all of `module`.
pub fn apply(module: &mut Module) {
    for group in module.attributes.values_mut() {
        if !group.split(' ').any(|word| word == "convergent") {
            *group = format!("convergent {group}").trim_end().to_owned();
        }
    }
    let alone = module.attribute_group("convergent");
    for function in module.functions_mut() {
        if !function.name.starts_with("llvm.") && function.attribute_group().is_none() {
            function.set_attribute_group(alone);
        }
        for line in function.body.iter_mut().flatten() {
            if is_call(line) && text::attribute_reference(line).is_none() {
                text::set_attribute_reference(line, alone);
            }
        }
    }
}

/// Whether a line of a body is a call.
pub fn is_call(line: &str) -> bool {
    let instruction = match line.split_once(" = ") {
        Some((result, rest)) if result.trim_start().starts_with('%') => rest,
        _ => line.trim_start(),
    };
    let words = ["call ", "tail call ", "musttail call ", "notail call "];
    words.iter().any(|word| instruction.starts_with(word))
}

/// The template of a call of `asm`, in the form of IR.
pub fn asm_template(line: &str) -> Option<&str> {
    line.split_once(" asm ")?.1.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_calls_and_asm_become_convergent() {
        let mut module = Module::parse(
            "define void @k() #0 {\n  call void asm sideeffect \"bar.sync 0;\", \"\"(), !srcloc !3\n  \
             %1 = tail call i32 @f(i32 0) #1\n  ret void\n}\n\
             declare i32 @f(i32)\ndeclare void @llvm.trap()\n\
             attributes #0 = { nounwind }\nattributes #1 = { convergent nounwind }\n",
        );
        apply(&mut module);
        assert_eq!(
            module.to_string(),
            "\ndefine void @k() #0 {\n  call void asm sideeffect \"bar.sync 0;\", \"\"() #2, !srcloc !3\n  \
             %1 = tail call i32 @f(i32 0) #1\n  ret void\n}\n\
             \ndeclare i32 @f(i32) #2\n\ndeclare void @llvm.trap()\n\
             attributes #0 = { convergent nounwind }\nattributes #1 = { convergent nounwind }\n\
             attributes #2 = { convergent }\n"
        );
    }

    #[test]
    fn marking_twice_changes_nothing() {
        let mut once = Module::parse(
            "define void @k() {\n  call void %3(i32 1)\n  store i32 0, ptr %2\n  ret void\n}\n",
        );
        apply(&mut once);
        let mut twice = once.clone();
        apply(&mut twice);
        assert_eq!(once, twice);
        assert_eq!(once.to_string().matches(" #0").count(), 3);
    }

    #[test]
    fn templates_are_read() {
        let line = "  %1 = call i32 asm sideeffect \"mov.u32 $0, %laneid;\", \"=r\"()";
        assert_eq!(asm_template(line), Some("mov.u32 $0, %laneid;"));
        assert_eq!(asm_template("  %1 = call i32 @f(ptr @x)"), None);
    }
}
