//! Names in `.loc` the lines of the kernel, not of a library's function alone.
//!
//! LLVM 22 writes the place of an instruction in the function that it is from: of `thread::index()`
//! a line of cuda_std or of `core`. Where that was inlined it says in a comment only:
//!
//! ```text
//! .loc 2 83 5    // core/nvptx.rs:83:5 @[ src/thread.rs:21:17 @[ src/kernel.rs:16:15 ] ]
//! ```
//!
//! PTX can say it to profilers and to the emulator:
//!
//! ```text
//! .loc 1 16 15
//! .loc 3 21 17, function_name $L__inlined, inlined_at 1 16 15
//! .loc 2 83 5, function_name $L__inlined, inlined_at 3 21 17
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What stands in a comment before a place of inlining.
const AT: &str = " @[ ";

/// Where the one name stands that all inlined functions get: PTX requires a name, LLVM gives none.
const NAME: &str = ".section\t.debug_str\n{\n$L__inlined:\n.b8 105,110,108,105,110,101,100,0\n}\n";

/// Joins the folder to the name of each file in the debug information of IR: then the comments have
/// the names that `.file` has.
pub(crate) fn join_folders(ir: &str) -> String {
    let joined = |line: &str| -> Option<String> {
        let (head, rest) = line.split_once("!DIFile(filename: \"")?;
        let (name, rest) = rest.split_once("\", directory: \"")?;
        let (folder, rest) = rest.split_once('"')?;
        (!folder.is_empty() && !name.starts_with('/'))
            .then(|| format!("{head}!DIFile(filename: \"{folder}/{name}\", directory: \"\"{rest}"))
    };
    let lines = ir.split_inclusive('\n');
    lines
        .map(|line| joined(line).unwrap_or_else(|| line.to_owned()))
        .collect()
}

/// Adds to the `.loc` of what was inlined where that was. The entry of a safe kernel calls the
/// kernel's body: the body's lines stand for themselves.
pub(crate) fn name_callers(ptx: &str, is_safe: impl Fn(&str) -> bool) -> String {
    let mut files = Files::of(ptx);
    let mut out = String::with_capacity(ptx.len());
    let (mut is_named, mut in_safe) = (false, false);
    for line in ptx.split_inclusive('\n') {
        let Some(mut places) = places(line) else {
            if let Some(entry) = entry(line) {
                in_safe = is_safe(entry);
            }
            out.push_str(line);
            continue;
        };
        if in_safe {
            leave_entry(&mut places);
        }
        is_named = true;
        let mut caller: Option<String> = None;
        for (path, position) in places.into_iter().rev() {
            let place = format!("{} {position}", files.index(path));
            // Writing to a string does not fail.
            let _ = write!(out, "\t.loc\t{place}");
            if let Some(caller) = caller {
                let _ = write!(out, ", function_name $L__inlined, inlined_at {caller}");
            }
            out.push('\n');
            caller = Some(place);
        }
    }
    if is_named {
        out.extend([&files.added, NAME]);
    }
    out
}

/// The name in the line that begins an entry.
fn entry(line: &str) -> Option<&str> {
    let (_, name) = line.split_once(".entry ")?;
    name.split(['(', '\n']).next()
}

/// Removes the line of `#[kernel]`, where the entry calls the kernel's body, which is in the same file.
fn leave_entry(places: &mut Vec<(&str, String)>) {
    let line_of = |position: &str| position.split(' ').next().map(str::to_owned);
    let Some((file, position)) = places.last() else {
        return;
    };
    let (file, line) = (*file, line_of(position));
    while let [.., (body, _), (path, position)] = &places[..]
        && [*body, *path] == [file; 2]
        && line_of(position) == line
    {
        places.pop();
    }
}

/// The places in the comment of a `.loc` that is inlined, the innermost first: files, and lines with
/// columns.
fn places(line: &str) -> Option<Vec<(&str, String)>> {
    let (_, comment) = line.trim().strip_prefix(".loc\t")?.split_once("// ")?;
    if !comment.contains(AT) {
        return None;
    }
    let place = |text| {
        let mut parts = str::rsplitn(text, 3, ':');
        let (column, line) = (parts.next()?, parts.next()?);
        Some((parts.next()?, format!("{line} {column}")))
    };
    comment
        .trim_end_matches([' ', ']'])
        .split(AT)
        .map(place)
        .collect()
}

/// The numbers of files, and `.file` of those that had none.
struct Files<'a> {
    numbers: BTreeMap<&'a str, usize>,
    added: String,
}

impl<'a> Files<'a> {
    fn of(ptx: &'a str) -> Self {
        let file = |line: &'a str| {
            let (number, path) = line.trim().strip_prefix(".file\t")?.split_once(' ')?;
            Some((path.trim().trim_matches('"'), number.parse().ok()?))
        };
        Self {
            numbers: ptx.lines().filter_map(file).collect(),
            added: String::new(),
        }
    }

    fn index(&mut self, path: &'a str) -> usize {
        let next = self.numbers.values().max().map_or(1, |last| last + 1);
        let number = *self.numbers.entry(path).or_insert(next);
        if number == next {
            let _ = writeln!(self.added, "\t.file\t{number} \"{path}\"");
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_inlined_says_where() {
        let ptx = "\
\t.loc\t1 13 0                          // ./src/k.rs:13:0
\t.loc\t2 83 5                          // core/nvptx.rs:83:5 @[ /std/thread.rs:21:17 @[ ./src/k.rs:16:15 ] ]
\tmov.u32 \t%r1, %tid.x;
\t.loc\t2 84 5                          // core/nvptx.rs:84:5 @[ /std/thread.rs:22:17 ]
\t.file\t1 \"./src/k.rs\"
\t.file\t2 \"core/nvptx.rs\"
";
        let named = "\
\t.loc\t1 13 0                          // ./src/k.rs:13:0
\t.loc\t1 16 15
\t.loc\t3 21 17, function_name $L__inlined, inlined_at 1 16 15
\t.loc\t2 83 5, function_name $L__inlined, inlined_at 3 21 17
\tmov.u32 \t%r1, %tid.x;
\t.loc\t3 22 17
\t.loc\t2 84 5, function_name $L__inlined, inlined_at 3 22 17
\t.file\t1 \"./src/k.rs\"
\t.file\t2 \"core/nvptx.rs\"
\t.file\t3 \"/std/thread.rs\"
";
        assert_eq!(name_callers(ptx, |_| true), named.to_owned() + NAME);
        let plain = "\t.loc\t1 13 0 // ./src/k.rs:13:0\n\tret; // a @[ b\n";
        assert_eq!(name_callers(plain, |_| true), plain);
    }

    #[test]
    fn lines_of_a_safe_kernel_leave_out_its_attribute() {
        let of = |kernel: &str| {
            format!(
                ".visible .entry {kernel}(\n\
                 \t.loc\t2 5 5 // std.rs:5:5 @[ k.rs:16:15 @[ k.rs:13:1 @[ k.rs:13:1 ] ] ]\n\
                 \t.loc\t1 17 5 // k.rs:17:5 @[ k.rs:13:1 ]\n\
                 \t.loc\t2 6 5 // std.rs:6:5 @[ k.rs:13:1 ]\n\
                 \t.file\t1 \"k.rs\"\n\t.file\t2 \"std.rs\"\n"
            )
        };
        let named = |kernel: &str| name_callers(&of(kernel), |name| name == "safe");
        let lines = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| line.contains(".loc"));
            let plain = lines.map(|line| line.replace(", function_name $L__inlined", ""));
            plain.map(|line| line.trim().to_owned()).collect()
        };
        let safe = [
            ".loc\t1 16 15",
            ".loc\t2 5 5, inlined_at 1 16 15",
            ".loc\t1 17 5",
            ".loc\t1 13 1",
            ".loc\t2 6 5, inlined_at 1 13 1",
        ];
        assert_eq!(lines(&named("safe")), safe);
        assert!(named("other").contains(".loc\t1 17 5, function_name"));
    }

    #[test]
    fn folders_are_joined_to_names() {
        let file = |name: &str, folder: &str| {
            format!(
                "!2 = !DIFile(filename: \"{name}\", directory: \"{folder}\", checksum: \"0\")\n"
            )
        };
        let joined = join_folders(&file("src/k.rs", "."));
        assert_eq!(joined, file("./src/k.rs", ""));
        for text in [file("/a/k.rs", "/b"), file("k.rs", ""), "!3 = !{}\n".into()] {
            assert_eq!(join_folders(&text), text);
        }
    }
}
