//! A pass over tidy PTX that gives predicates of `asm!` to the whole kernel.
//!
//! `asm!` has no operands that are predicates, so a wrapper of an instruction with one opens a scope:
//!
//! ```text
//! {
//! .reg .pred p;
//! mbarrier.try_wait.parity.shared::cta.b64 p,[%r1],%r2;
//! selp.u32 %r3,1,0,p;
//! }
//! ```
//!
//! Here the predicate becomes one more of LLVM's, of this scope alone, and the three lines around the
//! instructions go. Scopes of anything else than predicates, with labels or with scopes in them stay;
//! so do those of functions and of kernels with holes, to which hosts add text.

use crate::registers::{bodies, has_label, is_complete_kernel, is_declared_once, is_number, words};

const DECLARATION: &str = ".reg .pred\t%p<";

/// The text of a module, tidy, without scopes that have only predicates of their own.
pub(crate) fn flatten(ptx: &str) -> String {
    bodies(ptx, |head, body| {
        if is_complete_kernel(head, body) && is_declared_once(body, "%p") {
            flattened(body).unwrap_or_else(|| body.to_owned())
        } else {
            body.to_owned()
        }
    })
}

/// Nothing where LLVM's declaration is not as it writes it.
fn flattened(body: &str) -> Option<String> {
    let lines: Vec<&str> = body.lines().collect();
    let declared = |line: &&str| {
        line.strip_prefix(DECLARATION)?
            .strip_suffix(">;")?
            .parse()
            .ok()
    };
    let first: usize = lines.iter().find_map(declared)?;
    let mut next = first;
    let mut out = Vec::with_capacity(lines.len());
    let mut at = 0;
    while let Some(&line) = lines.get(at) {
        let scope = if line == "{" {
            Scope::of(&lines[at + 1..])
        } else {
            None
        };
        if let Some(scope) = scope {
            out.extend(scope.lines.iter().map(|line| scope.renamed(line, next)));
            next += scope.predicates.len();
            // The two braces and the declaration.
            at += scope.lines.len() + 3;
        } else {
            out.push(line.to_owned());
            at += 1;
        }
    }
    let text = out.iter().map(|line| match declared(&line.as_str()) {
        Some(_) => format!("{DECLARATION}{next}>;\n"),
        None => format!("{line}\n"),
    });
    Some(text.collect())
}

/// What is in a scope that need not be one.
struct Scope<'a> {
    predicates: Vec<&'a str>,
    lines: &'a [&'a str],
}

impl<'a> Scope<'a> {
    /// The scope whose opening brace is before these lines.
    fn of(lines: &'a [&'a str]) -> Option<Self> {
        let (declaration, rest) = lines.split_first()?;
        let names = declaration.strip_prefix(".reg .pred ")?.strip_suffix(';')?;
        let predicates: Vec<&str> = names.split(',').collect();
        let is_plain = |name: &&str| words(name).eq([(0, *name)]) && !is_number(name);
        let lines = &rest[..rest.iter().position(|line| *line == "}")?];
        // A line that declares, opens a scope, or is a label.
        let is_other = |line: &&str| {
            line.starts_with(['{', '.'])
                || line.ends_with('{')
                || line.contains(".reg")
                || has_label(line)
        };
        let is_flat = predicates.iter().all(is_plain) && !lines.iter().any(is_other);
        is_flat.then_some(Self { predicates, lines })
    }

    /// A line in which the predicates are LLVM's from this number on.
    fn renamed(&self, line: &str, first: usize) -> String {
        let mut out = String::with_capacity(line.len() + 8);
        let mut copied = 0;
        for (start, word) in words(line) {
            let own = self.predicates.iter().position(|name| *name == word);
            // Behind a dot it is a part of an instruction.
            if let Some(own) = own.filter(|_| !line[..start].ends_with('.')) {
                out.push_str(&line[copied..start]);
                out.push_str(&format!("%p{}", first + own));
                copied = start + word.len();
            }
        }
        out.push_str(&line[copied..]);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module of a kernel with this body.
    fn kernel(predicates: usize, body: &str) -> String {
        format!(".visible .entry f(\n)\n{{\n{DECLARATION}{predicates}>;\n{body}ret;\n}}\n")
    }

    #[test]
    fn predicates_of_scopes_are_the_kernels() {
        let before = "\
            {\n.reg .pred p;\nsetp.eq.pred.p p,%r1,0;\n@!p bra\t$a;\n}\n\
            @%p1 bra\t$a;\n\
            {\n.reg .pred p,q;\nelect.sync _|p,-1;\nand.pred q,p,%p2;\nselp.u32 %r3,1,0,q;\n}\n";
        let after = "\
            setp.eq.pred.p %p3,%r1,0;\n@!%p3 bra\t$a;\n\
            @%p1 bra\t$a;\n\
            elect.sync _|%p4,-1;\nand.pred %p5,%p4,%p2;\nselp.u32 %r3,1,0,%p5;\n";
        assert_eq!(flatten(&kernel(3, before)), kernel(6, after));
    }

    #[test]
    fn other_scopes_stay() {
        let read = "selp.u32 %r3,1,0,p;\n";
        for scope in [
            format!("{{\n.reg .b32 p;\n{read}}}\n"),
            format!("{{\n.reg .pred p<2>;\n{read}}}\n"),
            format!("{{\n.reg .pred %p1;\n{read}}}\n"),
            format!("{{\n.reg .pred p;\n.reg .b32 t;\n{read}}}\n"),
            format!("{{\n.reg .pred p;\nbra again;\nagain:\n{read}}}\n"),
            format!("{{\n.reg .pred p;\nagain: bra again;\n{read}}}\n"),
            format!("{{\n.reg .pred p;\n{{ .reg .pred p; {read} }}\n}}\n"),
            format!("{{ .reg .pred p;\n{read}}}\n"),
            format!("{{\n{read}}}\n"),
        ] {
            let text = kernel(3, &scope);
            assert_eq!(flatten(&text), text);
        }
    }

    #[test]
    fn functions_and_kernels_with_holes_stay() {
        let text = kernel(3, "{\n.reg .pred p;\nselp.u32 %r3,1,0,p;\n}\n");
        for other in [
            text.replace(".visible .entry", ".func"),
            text.replace("ret;", "ret; // hole x"),
            text.replace(DECLARATION, ".reg .pred\t%q<"),
        ] {
            assert_eq!(flatten(&other), other);
        }
    }
}
