//! Variables, parameters, registers and initial values.

use super::cursor::{Cursor, Result};
use super::expression::{self, starts_constant};
use crate::ast::{
    Constant, Initializer, Linkage, PointerAttribute, RegisterNames, Registers, ScalarType, Space,
    Variable,
};
use crate::constant::Value;
use crate::lexer::Kind;

/// Most variables that one `name<n>` outside register space may declare.
const MAX_PARAMETERISED: u32 = 65_536;

/// Everything in a declaration before the names.
#[derive(Default)]
struct Head {
    align: Option<u32>,
    attributes: Vec<String>,
    pointer: Option<PointerAttribute>,
    ty: Option<ScalarType>,
    vector: Option<u8>,
}

pub(super) fn space(word: &str) -> Option<Space> {
    Some(match word {
        ".reg" => Space::Reg,
        ".const" => Space::Const,
        ".global" => Space::Global,
        ".local" => Space::Local,
        ".param" => Space::Param,
        ".shared" => Space::Shared,
        _ => return None,
    })
}

/// Consumes a state space.
fn take_space(c: &mut Cursor) -> Result<Space> {
    let token = c.peek();
    match space(token.text).filter(|_| token.kind == Kind::Word) {
        Some(found) => {
            c.next();
            Ok(found)
        }
        None => Err(c.expected("a state space")),
    }
}

/// `.global .align 4 .u32 a = 1, b;` including the `;`.
pub(super) fn variables(c: &mut Cursor, linkage: Linkage) -> Result<Vec<Variable>> {
    let early_align = align(c)?;
    let space = take_space(c)?;
    let mut head = head(c)?;
    head.align = head.align.or(early_align);
    let mut all = Vec::new();
    loop {
        declarator(c, space, linkage, &head, &mut all)?;
        if !c.eat(",") {
            break;
        }
    }
    c.expect(";")?;
    Ok(all)
}

/// `(.param .b64 a, .reg .b32 b)`; an empty list if there is no `(`.
pub(super) fn parameters(c: &mut Cursor) -> Result<Vec<Variable>> {
    let mut all = Vec::new();
    if !c.eat("(") || c.eat(")") {
        return Ok(all);
    }
    loop {
        let space = take_space(c)?;
        let head = head(c)?;
        declarator(c, space, Linkage::Internal, &head, &mut all)?;
        if !c.eat(",") {
            break;
        }
    }
    c.expect(")")?;
    Ok(all)
}

/// `.reg .v2 .b32 %r<5>, %x;` including the `;`.
pub(super) fn registers(c: &mut Cursor) -> Result<Registers> {
    let line = c.line();
    take_space(c)?;
    let head = head(c)?;
    let ty = head.ty.ok_or_else(|| c.expected("a type"))?;
    let names = c.list(|c| {
        let name = c.name("a register name")?;
        Ok(match parameterised(c)? {
            Some(count) => RegisterNames::Range {
                prefix: name,
                count,
            },
            None => RegisterNames::One(name),
        })
    })?;
    c.expect(";")?;
    Ok(Registers {
        ty,
        vector: head.vector,
        names,
        line,
    })
}

/// `<5>` after a name.
fn parameterised(c: &mut Cursor) -> Result<Option<u32>> {
    if !c.eat("<") {
        return Ok(None);
    }
    let token = c.peek();
    let Kind::Integer { value, .. } = token.kind else {
        return Err(c.expected("a count"));
    };
    let count =
        u32::try_from(value).map_err(|_| c.error(format!("a count of {value} is too large")))?;
    c.next();
    c.expect(">")?;
    Ok(Some(count))
}

fn head(c: &mut Cursor) -> Result<Head> {
    let mut head = Head::default();
    while c.peek().kind == Kind::Word {
        let word = c.peek().text;
        match word {
            // The type comes last; only `.ptr` may follow it.
            ".ptr" => head.pointer = Some(pointer(c)?),
            _ if head.ty.is_some() => return Err(c.expected("a name after the type")),
            ".align" => head.align = align(c)?,
            ".attribute" => head.attributes.extend(attributes(c)?),
            ".v2" | ".v4" | ".v8" => {
                c.next();
                head.vector = word[2..].parse().ok();
            }
            _ => {
                head.ty = Some(
                    word.strip_prefix('.')
                        .and_then(ScalarType::from_word)
                        .ok_or_else(|| c.expected("a type"))?,
                );
                c.next();
            }
        }
    }
    Ok(head)
}

/// `.align 16`, if it is there.
fn align(c: &mut Cursor) -> Result<Option<u32>> {
    if !c.eat_word(".align") {
        return Ok(None);
    }
    expression::number(c, "an alignment").map(Some)
}

/// `.ptr .global .align 16`
fn pointer(c: &mut Cursor) -> Result<PointerAttribute> {
    c.next();
    let mut pointer = PointerAttribute::default();
    if c.peek().kind == Kind::Word {
        pointer.space = space(c.peek().text);
        if pointer.space.is_some() || c.is_word(".generic") {
            c.next();
        }
    }
    pointer.align = align(c)?;
    Ok(pointer)
}

/// `.attribute(.managed, .unified(1, 2))`: the items as text.
pub(super) fn attributes(c: &mut Cursor) -> Result<Vec<String>> {
    c.next();
    c.expect("(")?;
    let items = c.list(|c| {
        if c.peek().kind != Kind::Word {
            return Err(c.expected("an attribute"));
        }
        let word = c.next().text;
        if !c.eat("(") {
            return Ok(word.to_owned());
        }
        let values = c.list(expression::integer)?;
        c.expect(")")?;
        let values: Vec<_> = values.iter().map(i128::to_string).collect();
        Ok(format!("{word}({})", values.join(", ")))
    })?;
    c.expect(")")?;
    Ok(items)
}

fn declarator(
    c: &mut Cursor,
    space: Space,
    linkage: Linkage,
    head: &Head,
    all: &mut Vec<Variable>,
) -> Result<()> {
    let line = c.line();
    let ty = head.ty.ok_or_else(|| c.expected("a type"))?;
    let name = c.name("a variable name")?;
    let mut variable = Variable {
        space,
        linkage,
        align: head.align,
        attributes: head.attributes.clone(),
        pointer: head.pointer,
        ty,
        vector: head.vector,
        name,
        dims: Vec::new(),
        init: None,
        line,
    };
    if let Some(count) = parameterised(c)? {
        if count > MAX_PARAMETERISED {
            return Err(c.error(format!(
                "`<{count}>` declares more than {MAX_PARAMETERISED}"
            )));
        }
        let prefix = variable.name.clone();
        all.extend((0..count).map(|index| Variable {
            name: format!("{prefix}{index}"),
            ..variable.clone()
        }));
        return Ok(());
    }
    while c.eat("[") {
        let open = c.is("]");
        let extent = if open {
            None
        } else {
            Some(expression::number(c, "an array extent")?)
        };
        variable.dims.push(extent);
        c.expect("]")?;
    }
    if c.eat("=") {
        variable.init = Some(initializer(c)?);
    }
    all.push(variable);
    Ok(())
}

fn initializer(c: &mut Cursor) -> Result<Initializer> {
    if !c.eat("{") {
        return Ok(Initializer::Value(constant(c)?));
    }
    if c.eat("}") {
        return Ok(Initializer::List(Vec::new()));
    }
    let mut items = vec![c.nested(initializer)?];
    while c.eat(",") {
        items.push(c.nested(initializer)?);
    }
    c.expect("}")?;
    Ok(Initializer::List(items))
}

/// A number, `sym+4`, `generic(sym)+4`, or `0xFF(sym)`.
fn constant(c: &mut Cursor) -> Result<Constant> {
    let is_name = c.peek().kind == Kind::Name && c.peek().text != "WARP_SZ";
    if is_name {
        return symbol(c, None);
    }
    if let (Kind::Integer { value, .. }, true) = (c.peek().kind, c.is_at(1, "(")) {
        c.next();
        c.expect("(")?;
        let masked = symbol(c, Some(value))?;
        c.expect(")")?;
        return Ok(masked);
    }
    if !starts_constant(c) && !is_warp_size(c) {
        return Err(c.expected("an initial value"));
    }
    Ok(match expression::constant(c)? {
        Value::F32(bits) => Constant::F32(bits),
        Value::F64(bits) => Constant::F64(bits),
        Value::Integer {
            bits,
            unsigned: true,
        } => Constant::Integer(i128::from(bits)),
        Value::Integer {
            bits,
            unsigned: false,
        } => Constant::Integer(i128::from(bits.cast_signed())),
    })
}

fn is_warp_size(c: &Cursor) -> bool {
    c.peek().kind == Kind::Name && c.peek().text == "WARP_SZ"
}

fn symbol(c: &mut Cursor, mask: Option<u64>) -> Result<Constant> {
    let generic = c.peek().text == "generic" && c.is_at(1, "(");
    if generic {
        c.next();
        c.next();
    }
    let name = c.name("a symbol")?;
    if generic {
        c.expect(")")?;
    }
    let offset = match (c.is("-"), c.eat("+")) {
        (false, false) => 0,
        _ => expression::number(c, "an offset")?,
    };
    Ok(Constant::Symbol {
        name,
        offset,
        generic,
        mask,
    })
}
