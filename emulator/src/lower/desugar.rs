//! Registers that consist of several parts are split before a function is lowered: `.reg .v4 .f32
//! v` becomes `v.x` to `v.w`, `.reg .b128 q` becomes `q.lo` and `q.hi`. An operand that names the
//! whole register becomes a vector of the parts.

use std::borrow::Cow;
use std::collections::HashMap;

use ptx_syntax::ast::{
    Function, Instruction, Operand, RegisterNames, Registers, ScalarType, Statement,
};

use super::Lowered;
use super::operands::REGISTERS;
use crate::error::LoadError;

/// The parts of each such register; one map per block, innermost last.
type Scopes = Vec<HashMap<String, Vec<String>>>;

/// The function with such registers split.
///
/// # Errors
/// A declaration of more registers than are allowed.
pub(super) fn desugar(function: &Function) -> Result<Cow<'_, Function>, LoadError> {
    let composite = |statement: &Statement| match statement {
        Statement::Registers(registers) => !suffixes(registers).is_empty(),
        _ => false,
    };
    if !function.statements().into_iter().any(composite) {
        return Ok(Cow::Borrowed(function));
    }
    let mut function = function.clone();
    if let Some(body) = &mut function.body {
        block(body, &mut Vec::new())?;
    }
    Ok(Cow::Owned(function))
}

/// Suffixes of the names of the parts; none for a plain register.
fn suffixes(registers: &Registers) -> &'static [&'static str] {
    match (registers.vector, registers.ty) {
        (Some(2), _) => &["x", "y"],
        (Some(4), _) => &["x", "y", "z", "w"],
        (None, ScalarType::B128) => &["lo", "hi"],
        _ => &[],
    }
}

fn block(statements: &mut [Statement], scopes: &mut Scopes) -> Lowered {
    scopes.push(HashMap::new());
    for statement in statements {
        match statement {
            Statement::Registers(registers) => declare(registers, scopes)?,
            Statement::Instruction(inst) => instruction(inst, scopes),
            Statement::Block(inner) => block(inner, scopes)?,
            _ => {}
        }
    }
    scopes.pop();
    Ok(())
}

fn declare(registers: &mut Registers, scopes: &mut Scopes) -> Lowered {
    let suffixes = suffixes(registers);
    if suffixes.is_empty() {
        return Ok(());
    }
    let mut whole = Vec::new();
    for names in &registers.names {
        match names {
            RegisterNames::One(name) => whole.push(name.clone()),
            RegisterNames::Range { prefix, count } => {
                if *count > REGISTERS {
                    let message = format!("{count} registers `{prefix}`, allowed are {REGISTERS}");
                    let line = registers.line;
                    return Err(LoadError::Invalid { message, line });
                }
                whole.extend((0..*count).map(|i| format!("{prefix}{i}")));
            }
        }
    }
    registers.names.clear();
    if registers.vector.take().is_none() {
        registers.ty = ScalarType::B64;
    }
    for name in whole {
        let parts: Vec<String> = suffixes
            .iter()
            .map(|suffix| format!("{name}.{suffix}"))
            .collect();
        let declared = parts.iter().cloned().map(RegisterNames::One);
        registers.names.extend(declared);
        if let Some(innermost) = scopes.last_mut() {
            innermost.insert(name, parts);
        }
    }
    Ok(())
}

fn instruction(inst: &mut Instruction, scopes: &Scopes) {
    for operand in &mut inst.operands {
        replace(operand, scopes);
    }
}

fn find<'a>(name: &str, scopes: &'a Scopes) -> Option<&'a Vec<String>> {
    scopes.iter().rev().find_map(|scope| scope.get(name))
}

fn replace(operand: &mut Operand, scopes: &Scopes) {
    match operand {
        Operand::Name(name) => {
            if let Some(parts) = find(name, scopes) {
                *operand = Operand::Vector(parts.iter().cloned().map(Operand::Name).collect());
            } else if let Some((whole, part)) = name.rsplit_once('.')
                && let Some(parts) = find(whole, scopes)
            {
                // The suffixes r, g, b, a are other names of x, y, z, w.
                let index = ["r", "g", "b", "a"].iter().position(|own| *own == part);
                if let Some(part) = index.and_then(|index| parts.get(index)) {
                    *name = part.clone();
                }
            }
        }
        Operand::Vector(items) => {
            items.iter_mut().for_each(|item| replace(item, scopes));
            // A vector of split registers becomes one flat list of parts.
            let nested = std::mem::take(items);
            for item in nested {
                match item {
                    Operand::Vector(inner) => items.extend(inner),
                    other => items.push(other),
                }
            }
        }
        Operand::Pair(a, b) => {
            replace(a, scopes);
            replace(b, scopes);
        }
        Operand::Not(inner) | Operand::Negated(inner) => replace(inner, scopes),
        _ => {}
    }
}
