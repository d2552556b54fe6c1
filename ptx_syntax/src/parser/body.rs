//! Statements of a function body.

use super::cursor::{Cursor, Result};
use super::declaration::{parameters, registers, space, variables};
use super::function::directives;
use super::module::section;
use super::{expression, operand};
use crate::ast::{Guard, Instruction, Linkage, Statement};
use crate::lexer::Kind;

/// `{ statements }`
pub(super) fn block(c: &mut Cursor) -> Result<Vec<Statement>> {
    c.nested(|c| {
        c.expect("{")?;
        let mut statements = Vec::new();
        while !c.eat("}") {
            statement(c, &mut statements)?;
        }
        Ok(statements)
    })
}

fn statement(c: &mut Cursor, out: &mut Vec<Statement>) -> Result<()> {
    let token = c.peek();
    match token.kind {
        Kind::Punct if token.text == "{" => out.push(Statement::Block(block(c)?)),

        Kind::Punct if token.text == "@" => out.push(instruction(c)?),
        Kind::Name if c.is_at(1, ":") => out.push(label(c)?),
        Kind::Name => out.push(instruction(c)?),
        Kind::Word => directive(c, out)?,
        _ => return Err(c.expected("a statement or `}`")),
    }
    Ok(())
}

fn directive(c: &mut Cursor, out: &mut Vec<Statement>) -> Result<()> {
    let word = c.peek().text;
    match word {
        ".reg" => out.push(Statement::Registers(registers(c)?)),
        ".loc" => out.push(loc(c)?),
        ".section" => section(c)?,
        ".pragma" => {
            c.next();
            out.extend(c.list(Cursor::text)?.into_iter().map(Statement::Pragma));
            c.expect(";")?;
        }
        _ if space(word).is_some() || word == ".align" => {
            out.extend(
                variables(c, Linkage::Internal)?
                    .into_iter()
                    .map(Statement::Variable),
            );
        }
        ".extern" | ".visible" | ".weak" | ".common" => {
            let linkage = super::module::linkage(c);
            out.extend(variables(c, linkage)?.into_iter().map(Statement::Variable));
        }
        _ => return Err(c.expected("a directive of a body")),
    }
    Ok(())
}

/// `.loc 1 22 5, function_name $L__info0+4, inlined_at 1 9 3`; the name is dropped.
fn loc(c: &mut Cursor) -> Result<Statement> {
    c.next();
    let file = expression::number(c, "a file index")?;
    let line = expression::number(c, "a line")?;
    let column = expression::number(c, "a column")?;
    let mut inlined_at = None;
    while c.eat(",") {
        match c.name("`function_name` or `inlined_at`")?.as_str() {
            "function_name" => {
                let token = c.peek();
                if !matches!(token.kind, Kind::Name | Kind::Word) {
                    return Err(c.expected("a label"));
                }
                c.next();
                if c.eat("+") {
                    expression::integer(c)?;
                }
            }
            "inlined_at" => {
                inlined_at = Some([
                    expression::number(c, "a file index")?,
                    expression::number(c, "a line")?,
                    expression::number(c, "a column")?,
                ]);
            }
            other => return Err(c.error(format!("unknown `.loc` attribute `{other}`"))),
        }
    }
    Ok(Statement::Loc {
        file,
        line,
        column,
        inlined_at,
    })
}

/// `name:`, or a labelled directive such as `.branchtargets`.
fn label(c: &mut Cursor) -> Result<Statement> {
    let line = c.line();
    let name = c.name("a label")?;
    c.expect(":")?;
    if c.eat_word(".branchtargets") {
        let targets = c.list(|c| c.name("a label"))?;
        c.expect(";")?;
        return Ok(Statement::BranchTargets {
            name,
            targets,
            line,
        });
    }
    if c.eat_word(".calltargets") {
        let targets = c.list(|c| c.name("a function"))?;
        c.expect(";")?;
        return Ok(Statement::CallTargets {
            name,
            targets,
            line,
        });
    }
    if c.eat_word(".callprototype") {
        let returns = parameters(c)?;
        c.name("`_`")?;
        let params = parameters(c)?;
        let directives = directives(c)?;
        c.expect(";")?;
        return Ok(Statement::CallPrototype {
            name,
            returns,
            params,
            directives,
            line,
        });
    }
    Ok(Statement::Label { name, line })
}

fn instruction(c: &mut Cursor) -> Result<Statement> {
    let guard = if c.eat("@") {
        let negated = c.eat("!");
        Some(Guard {
            register: c.name("a predicate")?,
            negated,
        })
    } else {
        None
    };
    let line = c.line();
    let opcode = c.name("an instruction")?;
    let mut modifiers = Vec::new();
    while c.peek().kind == Kind::Word {
        modifiers.push(c.next().text[1..].to_owned());
    }
    let operands = operand::operands(c, opcode == "call")?;
    let reads_once = c.is_marked();
    c.expect(";")?;
    Ok(Statement::Instruction(Instruction {
        guard,
        opcode,
        modifiers,
        operands,
        reads_once,
        line,
    }))
}
