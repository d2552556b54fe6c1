//! In a checked build, lets panics say where they are.
//!
//! Before a call of a panic function of `core` stands a call of `__assertfail`, which drivers have for
//! CUDA's `assert`. It prints the message with file and line, and ends the launch; the emulator
//! reports the same. File and line are those of the `core::panic::Location` that the call passes.

use super::kernels::constant_bytes;
use super::traps::{is_panic, named_call};
use super::{Function, Global, Item, Module, symbols};

/// How IR defines a `core::panic::Location`: address and length of the file's name, line, column.
const LOCATION: &str = "constant <{ ptr, [16 x i8] }> <{ ptr @";
const DECLARATION: &str = "declare void @__assertfail(ptr, ptr, i32, ptr, i64)";

/// Adds the calls.
pub fn apply(module: &mut Module) {
    let mut texts = Vec::new();
    let mut lines = Vec::new();
    for (at, function) in module.functions().enumerate() {
        for (line, text) in function.body.iter().flatten().enumerate() {
            if let Some(said) = Said::by(text, module) {
                lines.push((at, line, said));
            }
        }
    }
    // From the end, so that the numbers of lines stay right.
    for (at, line, said) in lines.iter().rev() {
        let [message, file, kernel] =
            [&said.message, &said.file, &said.function].map(|text| symbol(&mut texts, text));
        let call = format!(
            "  call void @__assertfail(ptr {message}, ptr {file}, i32 {}, ptr {kernel}, i64 1)",
            said.line
        );
        let function = module.functions_mut().nth(*at);
        let body = function.and_then(|function| function.body.as_mut());
        body.into_iter()
            .for_each(|body| body.insert(*line, call.clone()));
    }
    if lines.is_empty() {
        return;
    }
    module
        .items
        .extend(texts.iter().enumerate().map(|(at, text)| {
            let bytes = text.bytes().map(|byte| format!("\\{byte:02X}"));
            Item::Global(Global {
                name: format!("__warpsmith_panic_{at}"),
                definition: format!(
                    "private unnamed_addr constant [{} x i8] c\"{}\\00\", align 1",
                    text.len() + 1,
                    bytes.collect::<String>()
                ),
            })
        }));
    module.items.push(Item::Function(Function {
        name: "__assertfail".to_owned(),
        header: DECLARATION.to_owned(),
        body: None,
    }));
}

/// The name of the constant with this text.
fn symbol(texts: &mut Vec<String>, text: &str) -> String {
    let at = texts.iter().position(|known| known == text);
    let at = at.unwrap_or_else(|| {
        texts.push(text.to_owned());
        texts.len() - 1
    });
    format!("@__warpsmith_panic_{at}")
}

/// What a panic says.
struct Said {
    message: String,
    file: String,
    line: u32,
    function: String,
}

impl Said {
    /// What the call in a line says; `None` if it is no panic, or one whose place is not constant.
    fn by(line: &str, module: &Module) -> Option<Self> {
        let (callee, arguments) = named_call(line)?;
        if !is_panic(&callee) {
            return None;
        }
        let global = |name: &str| module.globals().find(|global| global.name == name);
        let arguments: Vec<&Global> = symbols(arguments)
            .filter_map(|name| global(&name))
            .collect();
        let location = arguments.last()?;
        let (_, fields) = location.definition.split_once(LOCATION)?;
        let name = symbols(&format!("@{fields}")).next()?;
        let numbers = constant_bytes(&location.definition)?;
        let number = |at: usize| {
            Some(u32::from_le_bytes(
                numbers.get(at..at + 4)?.try_into().ok()?,
            ))
        };
        let file = constant_bytes(&global(&name)?.definition)?;
        let file = file.get(..number(0)? as usize)?;
        Some(Self {
            message: message(&callee, &arguments[..arguments.len() - 1]),
            file: String::from_utf8_lossy(file).into_owned(),
            line: number(8)?,
            function: "panic".to_owned(),
        })
    }
}

/// The text that a panic function is given, or that its name stands for.
fn message(callee: &str, arguments: &[&Global]) -> String {
    let given = arguments.first().filter(|_| callee.ends_with("5panic"));
    if let Some(text) = given.and_then(|global| constant_bytes(&global.definition)) {
        return String::from_utf8_lossy(&text).into_owned();
    }
    if let Some((_, operation)) = callee.split_once("panic_const_") {
        return operation.replace('_', " ");
    }
    let known = [
        ("panic_bounds_check", "index out of bounds"),
        ("slice_index", "range out of bounds"),
        ("slice_start_index", "range out of bounds"),
        ("slice_end_index", "range out of bounds"),
        ("unwrap_failed", "unwrap"),
        ("expect_failed", "expect"),
    ];
    let found = known.iter().find(|(name, _)| callee.contains(name));
    found.map_or("panic", |(_, text)| text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_names_its_file_and_line() {
        let mut module = Module::parse(
            "@a = private unnamed_addr constant [8 x i8] c\"src/k.rs\", align 1\n\
             @l = private unnamed_addr constant <{ ptr, [16 x i8] }> <{ ptr @a, [16 x i8] \
             c\"\\08\\00\\00\\00\\00\\00\\00\\00\\0C\\01\\00\\00\\05\\00\\00\\00\" }>, align 8\n\
             define void @k(ptr %0) #0 {\n  \
             call void @_RNvNtCsih_4core9panicking18panic_bounds_check(i64 1, i64 1, ptr @l) #2\n  \
             call void @_RNvNtCsih_4core9panicking18panic_bounds_check(i64 1, i64 1, ptr %0) #2\n  \
             unreachable\n}\n",
        );
        apply(&mut module);
        let text = module.to_string();
        let call = "  call void @__assertfail(ptr @__warpsmith_panic_0, ptr @__warpsmith_panic_1, \
                    i32 268, ptr @__warpsmith_panic_2, i64 1)\n  \
                    call void @_RNvNtCsih_4core9panicking18panic_bounds_check(i64 1, i64 1, ptr @l)";
        assert!(text.contains(call), "{text}");
        assert_eq!(text.matches("call void @__assertfail").count(), 1);
        assert!(text.contains(DECLARATION), "{text}");
        let file = "[9 x i8] c\"\\73\\72\\63\\2F\\6B\\2E\\72\\73\\00\"";
        assert!(text.contains(file), "{text}");
    }

    #[test]
    fn what_does_not_panic_is_left_alone() {
        let text = "define void @k() {\n  call void @f()\n  ret void\n}\n";
        let mut module = Module::parse(text);
        apply(&mut module);
        assert_eq!(module, Module::parse(text));
    }
}
