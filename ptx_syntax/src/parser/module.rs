//! Module scope: the header, debug sections, linkage, and declarations.

use super::cursor::{Cursor, Result};
use super::declaration::{space, variables};
use super::expression;
use super::function::function;
use crate::ast::{Alias, Linkage, Module, Space};
use crate::lexer::Kind;

/// A whole module.
pub(super) fn module(c: &mut Cursor) -> Result<Module> {
    let version = version(c)?;
    if !c.is_word(".target") {
        return Err(c.expected("`.target` after `.version`"));
    }
    let mut module = Module {
        version,
        targets: Vec::new(),
        target_line: c.line(),
        address_size: 64,
        files: Vec::new(),
        pragmas: Vec::new(),
        variables: Vec::new(),
        functions: Vec::new(),
        aliases: Vec::new(),
    };
    while c.peek().kind != Kind::End {
        item(c, &mut module)?;
    }
    Ok(module)
}

/// `.version 8.3`. Not parsed as a float, because 8.10 comes after 8.9.
fn version(c: &mut Cursor) -> Result<(u32, u32)> {
    if !c.eat_word(".version") {
        return Err(c.expected("`.version`, which begins a PTX module"));
    }
    let parts = c.peek().text.split_once('.');
    let parsed = parts.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let version = parsed.ok_or_else(|| c.expected("a version such as 8.3"))?;
    c.next();
    Ok(version)
}

fn item(c: &mut Cursor, module: &mut Module) -> Result<()> {
    let linkage = linkage(c);
    let word = c.peek().text;
    match word {
        _ if c.is("@") && c.is_at(1, "@") => skip_line(c),
        _ if c.peek().kind != Kind::Word => return Err(c.expected("a directive")),
        ".entry" | ".func" => {
            let function = function(c, linkage)?;
            module.functions.push(function);
        }
        _ if word == ".align" || space(word).is_some_and(|space| space != Space::Reg) => {
            module.variables.extend(variables(c, linkage)?);
        }
        _ if linkage != Linkage::Internal => {
            return Err(c.expected("a variable or a function after its linkage"));
        }
        ".target" => {
            c.next();
            module.targets.extend(c.list(|c| c.name("a target"))?);
        }
        ".address_size" => {
            let at = c.error("`.address_size` is 32 or 64".into());
            c.next();
            module.address_size = expression::number(c, "an address size")?;
            if !matches!(module.address_size, 32 | 64) {
                return Err(at);
            }
        }
        ".file" => file(c, module)?,
        ".section" => section(c)?,
        ".pragma" => {
            c.next();
            module.pragmas.extend(c.list(Cursor::text)?);
            c.expect(";")?;
        }
        ".alias" => {
            let line = c.line();
            c.next();
            let name = c.name("a function")?;
            c.expect(",")?;
            let target = c.name("a function")?;
            c.expect(";")?;
            module.aliases.push(Alias { name, target, line });
        }
        _ => return Err(c.expected("a directive of a module")),
    }
    Ok(())
}

/// The linkage directive, if any.
pub(super) fn linkage(c: &mut Cursor) -> Linkage {
    let found = match c.peek().text {
        _ if c.peek().kind != Kind::Word => Linkage::Internal,
        ".extern" => Linkage::Extern,
        ".visible" => Linkage::Visible,
        ".weak" => Linkage::Weak,
        ".common" => Linkage::Common,
        _ => Linkage::Internal,
    };
    if found != Linkage::Internal {
        c.next();
    }
    found
}

/// `.file 1 "path", timestamp, size`; the last two are dropped.
fn file(c: &mut Cursor, module: &mut Module) -> Result<()> {
    c.next();
    let index = expression::number(c, "a file index")?;
    let path = c.text()?;
    while c.eat(",") {
        expression::integer(c)?;
    }
    module.files.push((index, path));
    Ok(())
}

/// `.section .debug_info { .. }`: skipped.
pub(super) fn section(c: &mut Cursor) -> Result<()> {
    c.next();
    if !matches!(c.peek().kind, Kind::Word | Kind::Name | Kind::Text) {
        return Err(c.expected("a section name"));
    }
    c.next();
    c.expect("{")?;
    let mut open = 1_u32;
    while open > 0 {
        if c.peek().kind == Kind::End {
            return Err(c.expected("`}` that closes the section"));
        }
        match c.next() {
            token if token.kind != Kind::Punct => {}
            token if token.text == "{" => open += 1,
            token if token.text == "}" => open -= 1,
            _ => {}
        }
    }
    Ok(())
}

/// `@@DWARF ..` of PTX before 3.0: skipped to the end of its line.
fn skip_line(c: &mut Cursor) {
    let line = c.line();
    while c.line() == line && c.peek().kind != Kind::End {
        c.next();
    }
}
