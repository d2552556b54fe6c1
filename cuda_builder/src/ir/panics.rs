//! Lets panics say where they are, in checked builds and debug builds.
//!
//! Before a call of a panic function of `core` stands a call of `__assertfail`, which drivers have for
//! CUDA's `assert`. It prints the message with file and line, and ends the launch; the emulator
//! reports the same. File and line are those of the `core::panic::Location` that the call passes.
//!
//! Where an index or a range is out of bounds, the call is one of a function that also takes the
//! values, and calls `__assertfail` without them. The emulator reports the values too.

use std::collections::BTreeMap;

use super::kernels::constant_bytes;
use super::text::split_top_level;
use super::traps::{is_panic, named_call};
use super::{Function, Global, Item, Module, symbols};

/// How IR defines a `core::panic::Location`: address and length of the file's name, line, column.
const LOCATION: &str = "constant <{ ptr, [16 x i8] }> <{ ptr @";
/// Names of the constants with texts begin so.
const NAME: &str = "__warpsmith_panic_";
/// What a safe kernel's body is called, in the function with the kernel's name.
const SAFE_BODY: &str = "::__safe_kernel";
/// Ends of the names of panic functions whose first argument is their text.
const TAKE_TEXT: [&str; 3] = ["5panic", "13expect_failed", "13unwrap_failed"];
/// Texts of other panic functions, by a part of their names.
const KNOWN: [(&str, &str); 4] = [
    ("panic_bounds_check", "index out of bounds"),
    ("slice_index", "range out of bounds"),
    (
        "unwrap_failed",
        "called `Option::unwrap()` on a `None` value",
    ),
    ("assert_failed", "assertion of two values failed"),
];
/// The function that is called, with the types of its last parameters.
const ASSERT_FAIL: (&str, &str) = ("__assertfail", "i64");
/// Panic functions that begin with so many values, and the functions that take them.
const WITH_VALUES: [(&str, usize, &str); 2] = [
    ("panic_bounds_check", 2, "__warpsmith_index_failed"),
    ("slice_index_fail", 3, "__warpsmith_range_failed"),
];

/// Adds the calls.
pub fn apply(module: &mut Module) {
    let globals: BTreeMap<&str, &Global> = module
        .globals()
        .map(|global| (global.name.as_str(), global))
        .collect();
    let mut texts = Texts::default();
    let mut calls = Vec::new();
    for (at, function) in module.functions().enumerate() {
        for (line, text) in function.body.iter().flatten().enumerate() {
            if let Some(panic) = Panic::by(text, &globals) {
                calls.push((at, line, panic.call(&function.name, &mut texts)));
            }
        }
    }
    if calls.is_empty() {
        return;
    }
    let mut functions: Vec<&mut Function> = module.functions_mut().collect();
    // From the end, so that the numbers of lines stay right.
    for (at, line, call) in calls.into_iter().rev() {
        if let Some(body) = &mut functions[at].body {
            body.insert(line, call);
        }
    }
    module.items.extend(texts.globals().map(Item::Global));
    let with_values = WITH_VALUES.map(|(_, count, name)| (name, vec!["i64"; count].join(", ")));
    let called = [(ASSERT_FAIL.0, ASSERT_FAIL.1.to_owned())];
    for (name, last) in called.into_iter().chain(with_values) {
        module.items.push(Item::Function(Function {
            name: name.to_owned(),
            header: format!("declare void @{name}(ptr, ptr, i32, ptr, {last})"),
            body: None,
        }));
    }
}

/// PTX in which the functions that take values are defined.
pub(crate) fn define(ptx: String) -> String {
    WITH_VALUES.into_iter().fold(ptx, |ptx, (_, count, name)| {
        let declaration = format!(".extern .func {name}\n");
        let Some((before, rest)) = ptx.split_once(&declaration) else {
            return ptx;
        };
        let after = rest.split_once("\n;").map_or("", |(_, after)| after);
        let values: String = (0..count)
            .map(|at| format!(", .param .b64 v{at}"))
            .collect();
        format!(
            "{before}.extern .func __assertfail\n(.param .b64 m, .param .b64 f, .param .b32 l, \
             .param .b64 k, .param .b64 s)\n;\n\
             .func {name}(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 k{values})\n{{\n\
             .reg .b64 %rd<3>;\n.reg .b32 %r<1>;\n\
             ld.param.b64 %rd0, [m];\nld.param.b64 %rd1, [f];\nld.param.b32 %r0, [l];\n\
             ld.param.b64 %rd2, [k];\n{{\n.param .b64 a;\n.param .b64 b;\n.param .b32 c;\n\
             .param .b64 d;\n.param .b64 e;\nst.param.b64 [a], %rd0;\nst.param.b64 [b], %rd1;\n\
             st.param.b32 [c], %r0;\nst.param.b64 [d], %rd2;\nst.param.b64 [e], 1;\n\
             call.uni __assertfail, (a, b, c, d, e);\n}}\nret;\n}}{after}"
        )
    })
}

/// The texts of the calls, each once.
#[derive(Default)]
struct Texts(Vec<String>);

impl Texts {
    /// The name of the constant with this text.
    fn symbol(&mut self, text: &str) -> String {
        let known = self.0.iter().position(|known| known == text);
        let at = known.unwrap_or(self.0.len());
        if known.is_none() {
            self.0.push(text.to_owned());
        }
        format!("@{NAME}{at}")
    }

    fn globals(&self) -> impl Iterator<Item = Global> {
        self.0.iter().enumerate().map(|(at, text)| {
            let bytes: String = text.bytes().map(|byte| format!("\\{byte:02X}")).collect();
            let length = text.len() + 1;
            Global {
                name: format!("{NAME}{at}"),
                definition: format!(
                    "private unnamed_addr constant [{length} x i8] c\"{bytes}\\00\", align 1"
                ),
            }
        })
    }
}

/// A call of a panic function.
struct Panic<'a> {
    message: String,
    file: String,
    line: u32,
    /// The function that is called instead, and its last arguments.
    callee: &'static str,
    last: String,
    /// Its debug location, with the comma before it.
    debug: &'a str,
}

impl<'a> Panic<'a> {
    /// The call in a line; `None` if it is not a panic, or its place is not constant.
    fn by(line: &'a str, globals: &BTreeMap<&str, &Global>) -> Option<Self> {
        let (callee, written) = named_call(line)?;
        if !is_panic(&callee) {
            return None;
        }
        let arguments: Vec<&Global> = symbols(written)
            .filter_map(|name| globals.get(name.as_str()).copied())
            .collect();
        let (location, arguments) = arguments.split_last()?;
        let (_, fields) = location.definition.split_once(LOCATION)?;
        let name = symbols(&format!("@{fields}")).next()?;
        let numbers = constant_bytes(&location.definition)?;
        let number = |at: usize| {
            let bytes = numbers.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_le_bytes(bytes))
        };
        let file = constant_bytes(&globals.get(name.as_str())?.definition)?;
        let file = file.get(..number(0)? as usize)?;
        let (instead, last) = with_values(&callee, written)
            .unwrap_or_else(|| (ASSERT_FAIL.0, format!("{} 1", ASSERT_FAIL.1)));
        Some(Self {
            callee: instead,
            last,
            message: message(&callee, written, arguments),
            file: String::from_utf8_lossy(file).into_owned(),
            line: number(8)?,
            debug: line.find(", !dbg ").map_or("", |at| &line[at..]),
        })
    }

    /// The call before it, in this function.
    fn call(&self, function: &str, texts: &mut Texts) -> String {
        let message = texts.symbol(&self.message);
        let file = texts.symbol(&self.file);
        let function = format!("{:#}", rustc_demangle::demangle(function));
        let function = function.strip_suffix(SAFE_BODY).unwrap_or(&function);
        let function = texts.symbol(function);
        let Self {
            line,
            callee,
            last,
            debug,
            ..
        } = self;
        format!(
            "  call void @{callee}(ptr {message}, ptr {file}, i32 {line}, ptr {function}, \
             {last}){debug}"
        )
    }
}

/// The function that takes the values of a panic function, and these as its arguments.
fn with_values(callee: &str, written: &str) -> Option<(&'static str, String)> {
    let mut known = WITH_VALUES.iter();
    let (_, count, name) = known.find(|(of_core, ..)| callee.ends_with(of_core))?;
    let arguments = written.strip_prefix('(')?;
    let values = split_top_level(arguments).take(*count).map(|argument| {
        let value = argument.trim().strip_prefix("i64 ")?;
        Some(format!("i64 {}", value.rsplit(' ').next()?))
    });
    let values: Option<Vec<String>> = values.collect();
    Some((name, values?.join(", ")))
}

/// The text that a panic function is given, or that its name stands for.
fn message(callee: &str, written: &str, arguments: &[&Global]) -> String {
    if let Some(text) = given(callee, written, arguments) {
        return String::from_utf8_lossy(&text).into_owned();
    }
    if let Some((_, operation)) = callee.split_once("panic_const_") {
        return operation.replace('_', " ");
    }
    let known = KNOWN.iter().find(|(name, _)| callee.contains(name));
    known.map_or("panic", |(_, text)| text).to_owned()
}

/// The text among the arguments of a panic function, if it is constant.
fn given(callee: &str, written: &str, arguments: &[&Global]) -> Option<Vec<u8>> {
    let mut text = constant_bytes(&arguments.first()?.definition)?;
    if callee.ends_with("9panic_fmt") {
        // `fmt::Arguments` of a text without values: its address, and twice its length plus one.
        let (_, length) = written.split_once("inttoptr (i64 ")?;
        let length: usize = length.split_once(' ')?.0.parse().ok()?;
        text.truncate(length / 2);
        return Some(text);
    }
    let takes_text = TAKE_TEXT.iter().any(|name| callee.ends_with(name));
    takes_text.then_some(text)
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
             call void @_RNvNtCsih_4core9panicking18panic_bounds_check(i64 noundef %1, i64 1, ptr @l) #2\n  \
             call void @_RNvNtCsih_4core9panicking18panic_bounds_check(i64 1, i64 1, ptr %0) #2\n  \
             unreachable\n}\n",
        );
        apply(&mut module);
        let text = module.to_string();
        let call = "  call void @__warpsmith_index_failed(ptr @__warpsmith_panic_0, \
                    ptr @__warpsmith_panic_1, i32 268, ptr @__warpsmith_panic_2, i64 %1, i64 1)\n  \
                    call void @_RNvNtCsih_4core9panicking18panic_bounds_check(i64 noundef %1";
        assert!(text.contains(call), "{text}");
        assert_eq!(text.matches("call void @__warpsmith").count(), 1);
        let declared = "declare void @__assertfail(ptr, ptr, i32, ptr, i64)";
        assert!(text.contains(declared), "{text}");
        let file = "[9 x i8] c\"\\73\\72\\63\\2F\\6B\\2E\\72\\73\\00\"";
        assert!(text.contains(file), "{text}");
    }

    #[test]
    fn a_panic_says_the_text_that_it_is_given_or_stands_for() {
        let text = Global {
            name: "t".to_owned(),
            definition: "private unnamed_addr constant [6 x i8] c\"a nine\", align 1".to_owned(),
        };
        let text = vec![&text];
        for (callee, written, arguments, want) in [
            ("4core6option13expect_failed", "", &text, "a nine"),
            ("4core9panicking5panic", "", &text, "a nine"),
            (
                "11panic_const23panic_const_div_by_zero",
                "",
                &vec![],
                "div by zero",
            ),
            (
                "4core9panicking9panic_fmt",
                "(ptr @t, ptr %1)",
                &text,
                "panic",
            ),
            (
                "4core9panicking9panic_fmt",
                "(ptr @t, ptr inttoptr (i64 13 to ptr))",
                &text,
                "a nine",
            ),
        ] {
            assert_eq!(message(callee, written, arguments), want, "{callee}");
        }
    }

    #[test]
    fn functions_that_take_values_are_defined() {
        let head = ".version 7.0\n.target sm_75\n.address_size 64\n";
        let declared = format!(
            "{head}.extern .func __warpsmith_index_failed\n(\n.param .b64 a,\n.param .b64 b\n)\n;\n\
             .visible .entry k()\n{{\nret;\n}}\n"
        );
        let defined = define(declared);
        let module = ptx_syntax::parse(&defined).expect("PTX");
        let function = |name: &str| {
            let mut functions = module.functions.iter();
            functions
                .find(|function| function.name == name)
                .expect(name)
        };
        assert!(function("__warpsmith_index_failed").body.is_some());
        assert_eq!(function("__warpsmith_index_failed").params.len(), 6);
        assert!(function("k").body.is_some());
        assert_eq!(define(head.to_owned()), head);
    }

    #[test]
    fn what_does_not_panic_is_left_alone() {
        let text = "define void @k() {\n  call void @f()\n  ret void\n}\n";
        let mut module = Module::parse(text);
        apply(&mut module);
        assert_eq!(module, Module::parse(text));
    }
}
