//! `call`, direct and indirect, and the functions that the system provides.

use ptx_syntax::ast::{Instruction, Operand};

use super::FunctionLowering;
use super::mods::Mods;
use super::scope::Symbol;
use crate::error::LoadError;
use crate::program::{Call, Callee, Op, Printf, Width};

impl<'a> FunctionLowering<'a, '_> {
    pub(super) fn call(&mut self, inst: &'a Instruction) -> Result<(), LoadError> {
        let mut mods = Mods::new(inst);
        mods.ignore(&["uni"]);
        mods.finish()?;
        let (results, rest) = match inst.operands.as_slice() {
            [Operand::List(results), rest @ ..] => (results.as_slice(), rest),
            rest => (&[][..], rest),
        };
        let Some((Operand::Name(target), rest)) = rest.split_first() else {
            return Err(self.invalid("`call` needs a function"));
        };
        let args = match rest.first() {
            Some(Operand::List(args)) => args.as_slice(),
            _ => &[],
        };
        let args = self.variables(args)?;
        let results = self.variables(results)?;
        if let Some(Symbol::Register(reg)) = self.scopes.get(target) {
            let reg = *reg;
            self.expect_width(reg, Width::B64)?;
            let callee = Callee::Indirect(reg.slot);
            self.emit(Op::Call(Box::new(Call {
                callee,
                args,
                results,
            })));
            return Ok(());
        }
        if let Some(index) = self.build.functions.get(target.as_str()) {
            let callee = Callee::Direct(*index);
            self.check_signature(target, &args, &results)?;
            self.emit(Op::Call(Box::new(Call {
                callee,
                args,
                results,
            })));
            return Ok(());
        }
        self.system_call(target, &args, &results)
    }

    /// Functions without a body that the system has.
    fn system_call(
        &mut self,
        name: &str,
        args: &[(u64, u64)],
        results: &[(u64, u64)],
    ) -> Result<(), LoadError> {
        match (name, args) {
            ("vprintf", [(format, 8), (arguments, 8)]) => {
                let result = results.first().map(|(offset, _)| *offset);
                let (format, arguments) = (*format, *arguments);
                self.emit(Op::Printf(Box::new(Printf {
                    format,
                    arguments,
                    result,
                })));
                Ok(())
            }
            ("__assertfail", [(message, 8), (file, 8), (line, 4), (function, 8), _]) => {
                self.emit(Op::AssertFail(Box::new([
                    *message, *file, *line, *function,
                ])));
                Ok(())
            }
            _ if self.build.module.functions.iter().any(|f| f.name == name) => {
                Err(LoadError::Unresolved {
                    name: name.to_owned(),
                    line: self.line,
                })
            }
            _ => Err(self.undeclared(name)),
        }
    }

    /// The frame variables that a call passes.
    fn variables(&self, operands: &[Operand]) -> Result<Box<[(u64, u64)]>, LoadError> {
        operands
            .iter()
            .map(|operand| match operand {
                Operand::Name(name) => {
                    match self.scopes.get(name) {
                        Some(Symbol::Frame(offset, bytes)) => Ok((*offset, *bytes)),
                        Some(_) => Err(self
                            .invalid(format!("`{name}` must be a .param variable to be passed"))),
                        None => Err(self.undeclared(name)),
                    }
                }
                _ => Err(self.invalid("arguments of a call must be .param variables")),
            })
            .collect()
    }

    fn check_signature(
        &self,
        name: &str,
        args: &[(u64, u64)],
        results: &[(u64, u64)],
    ) -> Result<(), LoadError> {
        let functions = &self.build.module.functions;
        let number = self.build.bodies.get(name).copied();
        let Some(callee) = number.and_then(|number| functions.get(number)) else {
            return Err(self.undeclared(name));
        };
        let fits = |given: &[(u64, u64)], wanted: &[ptx_syntax::ast::Variable]| {
            given.len() == wanted.len()
                && given
                    .iter()
                    .zip(wanted)
                    .all(|((_, have), want)| Some(*have) == want.bytes())
        };
        if fits(args, &callee.params) && fits(results, &callee.returns) {
            return Ok(());
        }
        Err(self.invalid(format!(
            "arguments or results do not fit the signature of `{name}`"
        )))
    }
}
