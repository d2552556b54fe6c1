//! Limits of declarations and directives that ptxas has too. A module within them takes no memory
//! that its launches do not touch.

use ptx_syntax::ast::{Function, FunctionKind, Module, Space, Variable};

use crate::error::LoadError;
use crate::lower::param_layout;

/// Most bytes of a kernel's parameters: up to PTX 8.0, and from 8.1 on.
const PARAM_BYTES: [u64; 2] = [4352, 32_764];
/// Largest alignment of a function's parameter.
const PARAM_ALIGN: u32 = 128;
/// Registers that a thread can have; ptxas ignores a larger `.maxnreg`.
const REGISTERS: u32 = 255;

/// Checks all declarations of a module.
pub(crate) fn check(module: &Module) -> Result<(), LoadError> {
    module.variables.iter().try_for_each(check_alignment)?;
    for function in &module.functions {
        check_directives(function)?;
        check_parameters(module, function)?;
    }
    Ok(())
}

/// The `.maxnreg` of a kernel, unless ptxas ignores it.
pub(crate) fn max_registers(kernel: &Function) -> Option<u32> {
    kernel.directives.maxnreg.filter(|most| *most <= REGISTERS)
}

fn check_alignment(variable: &Variable) -> Result<(), LoadError> {
    let pointer = variable.pointer.and_then(|pointer| pointer.align);
    for align in [variable.align, pointer].into_iter().flatten() {
        if !align.is_power_of_two() {
            let name = &variable.name;
            let message = format!("alignment {align} of `{name}`: it must be a power of two");
            return Err(invalid(message, variable.line));
        }
    }
    Ok(())
}

fn check_parameters(module: &Module, function: &Function) -> Result<(), LoadError> {
    let mut own = function.params.iter().chain(&function.returns);
    let mut all = own.clone().chain(function.local_variables());
    all.try_for_each(check_alignment)?;
    let mut passed = function
        .local_variables()
        .filter(|local| local.space == Space::Param);
    passed.try_for_each(check_passed)?;
    if function.kind == FunctionKind::Func {
        return own.try_for_each(check_passed);
    }
    let last = param_layout(function).last().copied();
    let bytes = last.map_or(0, |param| param.offset.saturating_add(param.bytes));
    let most = PARAM_BYTES[usize::from(module.version >= (8, 1))];
    if bytes > most {
        let message = format!(
            "kernel `{}` has {bytes} bytes of parameters, want {most} or less in PTX {}.{}",
            function.name, module.version.0, module.version.1
        );
        return Err(invalid(message, function.line));
    }
    Ok(())
}

/// Checks a parameter of a call.
fn check_passed(variable: &Variable) -> Result<(), LoadError> {
    match variable.align {
        Some(align) if align > PARAM_ALIGN => {
            let name = &variable.name;
            let message =
                format!("alignment {align} of parameter `{name}`, want {PARAM_ALIGN} or less");
            Err(invalid(message, variable.line))
        }
        _ => Ok(()),
    }
}

fn check_directives(function: &Function) -> Result<(), LoadError> {
    let all = &function.directives;
    let counts = [
        (".maxntid", all.maxntid.map(|extents| extents.contains(&0))),
        (".reqntid", all.reqntid.map(|extents| extents.contains(&0))),
        (".maxnreg", all.maxnreg.map(|count| count == 0)),
        (".minnctapersm", all.minnctapersm.map(|count| count == 0)),
    ];
    match counts.iter().find(|(_, is_zero)| *is_zero == Some(true)) {
        Some((name, _)) => {
            let message = format!("`{name}` of `{}` must not be 0", function.name);
            Err(invalid(message, function.line))
        }
        None => Ok(()),
    }
}

fn invalid(message: String, line: u32) -> LoadError {
    LoadError::Invalid { message, line }
}
