//! Entries, functions, prototypes and their directives.

use super::cursor::{Cursor, Result};
use super::declaration::{attributes, parameters};
use super::{body, expression};
use crate::ast::{Directives, Function, FunctionKind, Linkage};
use crate::lexer::Kind;

/// `.entry ..` or `.func ..`, to the end of its body or its `;`.
pub(super) fn function(c: &mut Cursor, linkage: Linkage) -> Result<Function> {
    let kind = if c.next().text == ".entry" {
        FunctionKind::Entry
    } else {
        FunctionKind::Func
    };
    let mut own_attributes = Vec::new();
    while c.is_word(".attribute") {
        own_attributes.extend(attributes(c)?);
    }
    let returns = if kind == FunctionKind::Func {
        parameters(c)?
    } else {
        Vec::new()
    };
    let line = c.line();
    let name = c.name("a function name")?;
    let params = parameters(c)?;
    let directives = directives(c)?;
    let body = if c.eat(";") {
        None
    } else {
        Some(body::block(c)?)
    };
    Ok(Function {
        name,
        kind,
        linkage,
        returns,
        params,
        attributes: own_attributes,
        directives,
        body,
        line,
    })
}

/// Performance directives after a signature.
pub(super) fn directives(c: &mut Cursor) -> Result<Directives> {
    let mut all = Directives::default();
    while c.peek().kind == Kind::Word {
        let word = c.peek().text;
        let at = c.expected("a directive of a function");
        c.next();
        match word {
            ".maxntid" => all.maxntid = Some(extents(c)?),
            ".reqntid" => all.reqntid = Some(extents(c)?),
            ".reqnctapercluster" => all.reqnctapercluster = Some(extents(c)?),
            ".minnctapersm" => all.minnctapersm = Some(count(c)?),
            ".maxnctapersm" => all.maxnctapersm = Some(count(c)?),
            ".maxnreg" => all.maxnreg = Some(count(c)?),
            ".maxclusterrank" => all.maxclusterrank = Some(count(c)?),
            ".local_maxnreg" => all.local_maxnreg = Some(count(c)?),
            ".abi_preserve" => all.abi_preserve = Some(count(c)?),
            ".abi_preserve_control" => all.abi_preserve_control = Some(count(c)?),
            ".explicitcluster" => all.explicitcluster = true,
            ".blocksareclusters" => all.blocksareclusters = true,
            ".noreturn" => all.noreturn = true,
            ".pragma" => {
                all.pragmas.extend(c.list(Cursor::text)?);
                c.eat(";");
            }
            _ => return Err(at),
        }
    }
    Ok(all)
}

fn count(c: &mut Cursor) -> Result<u32> {
    expression::number(c, "a count")
}

/// `x`, `x, y` or `x, y, z`; missing extents are 1.
fn extents(c: &mut Cursor) -> Result<[u32; 3]> {
    let mut all = [1; 3];
    all[0] = count(c)?;
    for extent in &mut all[1..] {
        if !c.eat(",") {
            break;
        }
        *extent = count(c)?;
    }
    Ok(all)
}
