//! A module of textual IR as a list of top-level items.
//!
//! Only what the steps need is parsed: function headers, bodies as lines, globals, attribute
//! groups. The text was printed by LLVM's own printer, so its format (one instruction per line, one
//! space between words) can be relied on.

use std::collections::BTreeMap;
use std::fmt;

/// One module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Top-level items in order.
    pub items: Vec<Item>,
    /// `attributes #n = { .. }`: from the number to the text between the braces.
    pub attributes: BTreeMap<u32, String>,
}

/// A top-level item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// `define` or `declare`.
    Function(Function),
    /// `@name = ..`
    Global(Global),
    /// Anything else: target triple, type definitions, metadata.
    Other(String),
}

/// A function, defined or declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Name without `@` and quotes.
    pub name: String,
    /// The first line without the opening brace.
    pub header: String,
    /// Lines between the braces; `None` for a declaration.
    pub body: Option<Vec<String>>,
}

/// A global variable or an alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// Name without `@` and quotes.
    pub name: String,
    /// The text to the right of the equals sign.
    pub definition: String,
}

impl Module {
    /// Parses a module. Any text is accepted; lines that are neither functions, globals nor
    /// attribute groups are kept as they are.
    pub fn parse(text: &str) -> Self {
        let mut module = Self::default();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line.starts_with("define ") {
                let header = line.strip_suffix(" {").unwrap_or(line).to_owned();
                let body = lines.by_ref().take_while(|line| *line != "}");
                let body = body.map(str::to_owned).collect();
                module
                    .items
                    .push(Item::Function(Function::new(header, Some(body))));
            } else if line.starts_with("declare ") {
                module
                    .items
                    .push(Item::Function(Function::new(line.to_owned(), None)));
            } else if let Some((number, group)) = attribute_group(line) {
                module.attributes.insert(number, group.to_owned());
            } else if let Some((name, definition)) = global(line) {
                let definition = definition.to_owned();
                module.items.push(Item::Global(Global { name, definition }));
            } else if !line.is_empty() && !line.starts_with(';') {
                module.items.push(Item::Other(line.to_owned()));
            }
        }
        module
    }

    /// All functions.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.items.iter().filter_map(|item| match item {
            Item::Function(function) => Some(function),
            _ => None,
        })
    }

    /// All functions, mutable.
    pub fn functions_mut(&mut self) -> impl Iterator<Item = &mut Function> {
        self.items.iter_mut().filter_map(|item| match item {
            Item::Function(function) => Some(function),
            _ => None,
        })
    }

    /// All globals.
    pub fn globals(&self) -> impl Iterator<Item = &Global> {
        self.items.iter().filter_map(|item| match item {
            Item::Global(global) => Some(global),
            _ => None,
        })
    }

    /// Lines of all functions: how long it takes to compile, roughly.
    pub fn lines(&self) -> usize {
        let lines = |function: &Function| function.body.as_ref().map_or(0, Vec::len);
        self.functions().map(lines).sum()
    }

    /// The function of that name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions().find(|function| function.name == name)
    }

    /// The number of the attribute group with this content, which is added if it does not exist.
    pub fn attribute_group(&mut self, content: &str) -> u32 {
        if let Some((number, _)) = self.attributes.iter().find(|(_, group)| *group == content) {
            return *number;
        }
        let number = self
            .attributes
            .last_key_value()
            .map_or(0, |(last, _)| last + 1);
        self.attributes.insert(number, content.to_owned());
        number
    }

    /// Rewrites every symbol reference and definition; `rename` gives the text that replaces a
    /// name (with its sigil), or `None` to leave it.
    pub fn rename(&mut self, rename: impl Fn(&str) -> Option<String>) {
        for item in &mut self.items {
            match item {
                Item::Function(function) => {
                    function.header =
                        map_symbols(&function.header, |name| written_new(name, &rename));
                    for line in function.body.iter_mut().flatten() {
                        *line = map_symbols(line, |name| written_new(name, &rename));
                    }
                    function.name = rename(&function.name).unwrap_or_else(|| function.name.clone());
                }
                Item::Global(global) => {
                    global.definition =
                        map_symbols(&global.definition, |name| written_new(name, &rename));
                    global.name = rename(&global.name).unwrap_or_else(|| global.name.clone());
                }
                Item::Other(line) => *line = map_symbols(line, |name| written_new(name, &rename)),
            }
        }
    }
}

fn written_new(name: &str, rename: &impl Fn(&str) -> Option<String>) -> Option<String> {
    rename(name).map(|new| written(&new))
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for item in &self.items {
            match item {
                Item::Function(Function {
                    header,
                    body: Some(body),
                    ..
                }) => {
                    writeln!(f, "\n{header} {{")?;
                    body.iter().try_for_each(|line| writeln!(f, "{line}"))?;
                    writeln!(f, "}}")?;
                }
                Item::Function(Function {
                    header, body: None, ..
                }) => writeln!(f, "\n{header}")?,
                Item::Global(Global { name, definition }) => {
                    writeln!(f, "{} = {definition}", written(name))?;
                }
                Item::Other(line) => writeln!(f, "{line}")?,
            }
        }
        self.attributes
            .iter()
            .try_for_each(|(number, group)| writeln!(f, "attributes #{number} = {{ {group} }}"))
    }
}

impl Function {
    fn new(header: String, body: Option<Vec<String>>) -> Self {
        let name = symbols(&header).next().unwrap_or_default();
        Self { name, header, body }
    }

    /// Whether its calling convention is that of a kernel.
    pub fn is_kernel(&self) -> bool {
        self.body.is_some() && self.header.split(' ').any(|word| word == "ptx_kernel")
    }

    /// Number of the attribute group in the header.
    pub fn attribute_group(&self) -> Option<u32> {
        attribute_reference(&self.header).map(|(_, _, number)| number)
    }

    /// Replaces the header's attribute group by `number`, or adds it.
    pub fn set_attribute_group(&mut self, number: u32) {
        set_attribute_reference(&mut self.header, number);
    }
}

/// The start and end of ` #n` in a function header or a call, and `n`.
pub(crate) fn attribute_reference(line: &str) -> Option<(usize, usize, u32)> {
    let tail = end_of_arguments(line)?;
    let start = tail + outside_strings(&line[tail..]).find(|(_, c)| *c == '#')?.0;
    let digits = line[start + 1..]
        .bytes()
        .take_while(u8::is_ascii_digit)
        .count();
    let number = line[start + 1..start + 1 + digits].parse().ok()?;
    Some((start, start + 1 + digits, number))
}

/// Replaces or adds the attribute group of a header or a call.
pub(crate) fn set_attribute_reference(line: &mut String, number: u32) {
    if let Some((start, end, _)) = attribute_reference(line) {
        line.replace_range(start..end, &format!("#{number}"));
    } else if let Some(mut at) = end_of_arguments(line) {
        for word in [" local_unnamed_addr", " unnamed_addr"] {
            if line[at..].starts_with(word) {
                at += word.len();
            }
        }
        line.insert_str(at, &format!(" #{number}"));
    }
}

/// The position after the parenthesis that closes the argument list of a header or a call.
fn end_of_arguments(line: &str) -> Option<usize> {
    split_call_arguments(line).map(|(_, end)| end)
}

/// The start and end of the argument list, parentheses included. It begins with the first top-level
/// parenthesis after the callee, which may be a symbol, a register or an asm string.
pub(crate) fn split_call_arguments(line: &str) -> Option<(usize, usize)> {
    let callee = if let Some(asm) = find_word(line, "asm") {
        asm
    } else if let Some((at, _)) = outside_strings(line).find(|(_, c)| *c == '@') {
        at
    } else {
        let call = find_word(line, "call")?;
        call + outside_strings(&line[call..]).find(|(_, c)| *c == '%')?.0
    };
    let mut depth = 0_usize;
    let mut start = None;
    for (at, c) in outside_strings(line).skip_while(|(at, _)| *at < callee) {
        match c {
            '(' => {
                start.get_or_insert(at);
                depth += 1;
            }
            ')' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some((start?, at + 1));
                }
            }
            _ => {}
        }
    }
    None
}

/// The parts of a text between its commas, except those in strings and in brackets.
pub(crate) fn split_top_level(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let mut start = 0;
    let mut ends: Vec<usize> = Vec::new();
    for (at, c) in outside_strings(text) {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => ends.push(at),
            _ => {}
        }
    }
    ends.push(text.len());
    ends.into_iter().map(move |end| {
        let part = &text[start..end];
        start = end + 1;
        part
    })
}

/// The position of a whole word outside strings.
fn find_word(line: &str, word: &str) -> Option<usize> {
    outside_strings(line)
        .filter(|(at, _)| line[*at..].starts_with(word))
        .find(|(at, _)| {
            let before = line[..*at].chars().next_back();
            let after = line[at + word.len()..].chars().next();
            before.is_none_or(|c| c == ' ') && after.is_none_or(|c| c == ' ')
        })
        .map(|(at, _)| at)
}

/// Characters that are not inside a `"..."` string; the quotes themselves count as outside.
fn outside_strings(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut inside = false;
    text.char_indices().filter(move |(_, c)| {
        let outside = !inside || *c == '"';
        if *c == '"' {
            inside = !inside;
        }
        outside
    })
}

fn attribute_group(line: &str) -> Option<(u32, &str)> {
    let (number, group) = line.strip_prefix("attributes #")?.split_once(" = { ")?;
    Some((number.parse().ok()?, group.strip_suffix(" }")?))
}

fn global(line: &str) -> Option<(String, &str)> {
    if !line.starts_with('@') {
        return None;
    }
    let (name, length) = symbol_at(line)?;
    Some((name, line[length..].strip_prefix(" = ")?))
}

/// The symbol, `@` included, with which `text` begins: its name, and its length in bytes.
fn symbol_at(text: &str) -> Option<(String, usize)> {
    let rest = text.strip_prefix('@')?;
    if let Some(quoted) = rest.strip_prefix('"') {
        let end = quoted.find('"')?;
        return Some((quoted[..end].to_owned(), end + 3));
    }
    let length = rest.bytes().take_while(|byte| is_name_byte(*byte)).count();
    (length > 0).then(|| (rest[..length].to_owned(), length + 1))
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'$' | b'-')
}

/// A name in the form of IR: with its sigil, quoted where necessary.
pub(crate) fn written(name: &str) -> String {
    if name.bytes().all(is_name_byte) {
        format!("@{name}")
    } else {
        format!("@\"{name}\"")
    }
}

/// The names of the symbols in a piece of IR, outside strings, in order.
pub fn symbols(text: &str) -> impl Iterator<Item = String> {
    let mut found = Vec::new();
    map_symbols(text, |name| {
        found.push(name.to_owned());
        None
    });
    found.into_iter()
}

/// Replaces symbols outside strings. `replace` gets the bare name and returns the replacement,
/// sigil included, or `None` to keep the symbol.
pub(crate) fn map_symbols(text: &str, mut replace: impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['@', '"']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = if let Some((name, length)) = symbol_at(rest) {
            match replace(&name) {
                Some(new) => out.push_str(&new),
                None => out.push_str(&rest[..length]),
            }
            length
        } else {
            let string = rest.strip_prefix('"').and_then(|inside| inside.find('"'));
            let length = string.map_or(1, |end| end + 2);
            out.push_str(&rest[..length]);
            length
        };
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"target triple = "nvptx64-nvidia-cuda"
@data = internal constant [3 x i8] c"@\22x", align 1

define ptx_kernel void @k(ptr noundef %0) unnamed_addr #0 {
  call void asm sideeffect "bar.sync 0; // (x)", "~{memory}"() #1, !srcloc !2
  ret void
}

declare void @"odd name"(ptr, i64) unnamed_addr #1
attributes #0 = { convergent nounwind }
attributes #1 = { nounwind }
"#;

    #[test]
    fn printing_gives_the_parsed_text_back() {
        let module = Module::parse(SMALL);
        assert_eq!(module.to_string(), SMALL);
        let names: Vec<_> = module
            .functions()
            .map(|function| function.name.as_str())
            .collect();
        assert_eq!(names, ["k", "odd name"]);
        assert!(module.function("k").is_some_and(Function::is_kernel));
        assert_eq!(
            module.function("k").and_then(Function::attribute_group),
            Some(0)
        );
    }

    #[test]
    fn symbols_in_strings_are_not_symbols() {
        let line = r#"  %1 = call ptr @f(ptr @"a b", ptr c"@no") ; "@neither""#;
        assert_eq!(symbols(line).collect::<Vec<_>>(), ["f", "a b"]);
    }

    #[test]
    fn attribute_groups_are_found_behind_the_arguments_of_asm_and_calls() {
        let mut asm = r#"call { i32 } asm "x #7 (", "=r,(r"(i32 (1)) #4, !srcloc !1"#.to_owned();
        assert_eq!(attribute_reference(&asm).map(|found| found.2), Some(4));
        set_attribute_reference(&mut asm, 9);
        assert!(asm.ends_with("(i32 (1)) #9, !srcloc !1"), "{asm}");
        let mut call = "  %3 = tail call i32 @f(i32 %2), !dbg !5".to_owned();
        set_attribute_reference(&mut call, 3);
        assert_eq!(call, "  %3 = tail call i32 @f(i32 %2) #3, !dbg !5");
        let mut header = "define void @f() unnamed_addr".to_owned();
        set_attribute_reference(&mut header, 2);
        assert_eq!(header, "define void @f() unnamed_addr #2");
        let mut indirect = "  call void %4(ptr %5)".to_owned();
        set_attribute_reference(&mut indirect, 2);
        assert_eq!(indirect, "  call void %4(ptr %5) #2");
    }
}
