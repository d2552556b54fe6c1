//! Splits PTX text as cuda_builder writes it, with one statement per line.

/// The pieces of a module's text, all borrowed from it.
#[derive(Debug)]
pub(super) struct Pieces<'a> {
    pub(super) version: &'a str,
    pub(super) target: &'a str,
    /// Variables of the module, one line each.
    pub(super) variables: Vec<&'a str>,
    pub(super) functions: Vec<Function<'a>>,
}

/// A kernel or function.
#[derive(Debug)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) is_kernel: bool,
    /// All lines before the body: name and parameters.
    pub(super) header: Vec<&'a str>,
    /// Lines between the outer braces.
    pub(super) body: Vec<&'a str>,
}

impl<'a> Pieces<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let mut pieces = Self {
            version: "",
            target: "",
            variables: Vec::new(),
            functions: Vec::new(),
        };
        let lines = text.lines().map(str::trim);
        let mut lines = lines.filter(|line| !line.is_empty());
        while let Some(line) = lines.next() {
            if let Some(version) = line.strip_prefix(".version") {
                pieces.version = version.trim();
            } else if let Some(target) = line.strip_prefix(".target") {
                pieces.target = target.trim();
            } else if is_function(line) {
                pieces.functions.extend(function(line, &mut lines));
            } else if is_variable(line) {
                pieces.variables.push(line);
            }
        }
        pieces
    }

    pub(super) fn function(&self, name: &str, is_kernel: bool) -> Option<&Function<'a>> {
        let found = |function: &&Function<'_>| function.name == name;
        let mut all = self.functions.iter();
        all.find(|function| found(function) && function.is_kernel == is_kernel)
    }
}

fn is_function(line: &str) -> bool {
    line.contains(".entry ") || line.contains(".func ")
}

fn is_variable(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    words.any(|word| [".global", ".const", ".shared"].contains(&word))
}

/// The function that begins with the line `first`; consumes its lines. `None` for one that is only
/// declared, such as the `vprintf` of a `println!`.
fn function<'a>(first: &'a str, lines: &mut impl Iterator<Item = &'a str>) -> Option<Function<'a>> {
    let is_kernel = first.contains(".entry ");
    let mut header = vec![first];
    while !header.last()?.ends_with(';') {
        match lines.next()? {
            "{" => return Some(defined(header, is_kernel, lines)),
            line => header.push(line),
        }
    }
    None
}

/// The function with this header, whose body follows; consumes its lines.
fn defined<'a>(
    header: Vec<&'a str>,
    is_kernel: bool,
    lines: &mut impl Iterator<Item = &'a str>,
) -> Function<'a> {
    let first = header.first().copied().unwrap_or_default();
    let mut body = Vec::new();
    let mut depth = 1_usize;
    for line in lines {
        // Scopes open and close on different lines; braces of vector operands on one.
        depth += line.matches('{').count();
        depth -= line.matches('}').count().min(depth);
        if depth == 0 {
            break;
        }
        body.push(line);
    }
    // The name stands before the parameters. Those of the result are in parentheses before it.
    let (before, _) = first.rsplit_once('(').unwrap_or((first, ""));
    let name = before.trim_end().rsplit(|c| !is_of_name(c)).next();
    Function {
        name: name.unwrap_or_default(),
        is_kernel,
        header,
        body,
    }
}

pub(super) fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_$%".contains(c)
}

/// Whether `line` contains `name` as a whole identifier.
pub(super) fn names(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + name.len()..].chars().next();
        !before.is_some_and(is_of_name) && !after.is_some_and(is_of_name)
    })
}

/// `line` with the identifier `name` replaced by `new`.
pub(super) fn renamed(line: &str, name: &str, new: &str) -> String {
    let mut out = String::with_capacity(line.len() + new.len());
    let mut copied = 0;
    for (at, _) in line.match_indices(name) {
        let end = at + name.len();
        let before = line[..at].chars().next_back();
        let after = line[end..].chars().next();
        if !before.is_some_and(is_of_name) && !after.is_some_and(is_of_name) {
            out.push_str(&line[copied..at]);
            out.push_str(new);
            copied = end;
        }
    }
    out.push_str(&line[copied..]);
    out
}

/// The name that the line of a variable declares.
pub(super) fn variable_name(line: &str) -> &str {
    let head = line.split(['[', '=', ';']).next().unwrap_or(line);
    head.split_ascii_whitespace().next_back().unwrap_or("")
}
