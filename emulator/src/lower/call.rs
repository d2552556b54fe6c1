//! `call`, direct and indirect, and the functions that the runtime provides.

use ptx_syntax::ast::{Instruction, Operand, ScalarType as T, Variable};
use ptx_syntax::isa::Opcode;

use super::mods::Mods;
use super::scope::Symbol;
use super::{FunctionLowering, Lowered};
use crate::error::LoadError;
use crate::memory::space::Space;
use crate::program::{
    Access, AssertFail, Base, Call, Callee, HeapCall, Op, Printf, Reg, StackOp, Width,
};

/// Functions of checked builds of cuda_builder. They call `__assertfail`, and take two values more, the
/// index and the length, or three, the range and the length.
const INDEX_FAILED: &str = "__warpsmith_index_failed";
const RANGE_FAILED: &str = "__warpsmith_range_failed";
const FAILED: [&str; 2] = [INDEX_FAILED, RANGE_FAILED];

impl<'a> FunctionLowering<'a, '_> {
    pub(super) fn call(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
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
        let number = self.build.bodies.get(target.as_str()).copied();
        let number = number.filter(|_| !FAILED.contains(&target.as_str()));
        let callee = number.and_then(|number| self.build.module.functions.get(number));
        let (params, returns) = match callee {
            Some(callee) => (callee.params.as_slice(), callee.returns.as_slice()),
            None => (&[][..], &[][..]),
        };
        let args = self.arguments(args, params)?;
        let (results, returned) = self.results(results)?;
        if let Some(Symbol::Register(reg)) = self.scopes.get(target) {
            let reg = *reg;
            self.expect_width(reg, Width::B64)?;
            let callee = Callee::Indirect(reg.slot);
            self.emit(Op::Call(Box::new(Call {
                callee,
                args,
                results,
            })));
        } else if let Some(index) = number.and_then(|number| self.build.handles[number]) {
            let callee = Callee::Direct(index);
            let fits = |given: &[(u64, u64)], wanted: &[Variable]| {
                let pairs = given.iter().zip(wanted);
                given.len() == wanted.len()
                    && pairs
                        .into_iter()
                        .all(|((_, have), want)| Some(*have) == want.bytes())
            };
            if !fits(&args, params) || !fits(&results, returns) {
                return Err(self.invalid(format!(
                    "arguments or results do not fit the signature of `{target}`"
                )));
            }
            self.emit(Op::Call(Box::new(Call {
                callee,
                args,
                results,
            })));
        } else {
            self.system_call(target, &args, &results)?;
        }
        for (reg, offset) in returned {
            self.load_frame(reg, offset);
        }
        Ok(())
    }

    /// The frame offsets and sizes of the arguments. `.param` variables have theirs; registers and
    /// constants are stored to a new place first.
    fn arguments(
        &mut self,
        operands: &[Operand],
        params: &[Variable],
    ) -> Result<Box<[(u64, u64)]>, LoadError> {
        let mut places = Vec::new();
        for (i, operand) in operands.iter().enumerate() {
            if let Operand::Name(name) = operand
                && let Some(Symbol::Frame(offset, bytes)) = self.scopes.get(name)
            {
                places.push((*offset, *bytes));
                continue;
            }
            let width = params.get(i).and_then(|p| super::convert::natural(p.ty));
            let reg = self.source_any(operand, width.unwrap_or(Width::B32))?;
            let (offset, bytes) = self.register_place(reg)?;
            // A byte parameter may be passed in a wider register.
            let bytes = match params.get(i).and_then(Variable::bytes) {
                Some(wanted) if wanted < bytes => wanted,
                _ => bytes,
            };
            self.store_frame(reg, offset);
            places.push((offset, bytes));
        }
        Ok(places.into())
    }

    /// The frame offsets and sizes of the results, and the registers to load from them.
    #[allow(clippy::type_complexity)] // places, and registers with theirs
    fn results(
        &mut self,
        operands: &[Operand],
    ) -> Result<(Box<[(u64, u64)]>, Vec<(Reg, u64)>), LoadError> {
        let (mut places, mut registers) = (Vec::new(), Vec::new());
        for operand in operands {
            match operand {
                Operand::Name(name) => match self.scopes.get(name) {
                    Some(Symbol::Frame(offset, bytes)) => places.push((*offset, *bytes)),
                    Some(Symbol::Register(reg)) => {
                        let reg = *reg;
                        let place = self.register_place(reg)?;
                        places.push(place);
                        registers.push((reg, place.0));
                    }
                    Some(_) => {
                        return Err(self.invalid(format!(
                            "`{name}` must be a .param variable or a register to take a result"
                        )));
                    }
                    None => return Err(self.undeclared(name)),
                },
                _ => return Err(self.invalid("a result goes to a .param variable or a register")),
            }
        }
        Ok((places.into(), registers))
    }

    /// Reserves a place in the frame for a register.
    fn register_place(&mut self, reg: Reg) -> Result<(u64, u64), LoadError> {
        if reg.width == Width::Pred {
            return Err(self.invalid("a predicate cannot be passed"));
        }
        let bytes = u64::from(reg.width.bits() / 8);
        Ok((self.frame.place(bytes, bytes), bytes))
    }

    /// The register of a `.reg` parameter.
    pub(super) fn register_parameter(&mut self, variable: &Variable) -> Result<Reg, LoadError> {
        let plain = variable.vector.is_none() && variable.dims.is_empty();
        let width =
            super::convert::natural(variable.ty).filter(|_| plain && variable.ty.bytes() > 1);
        match width {
            Some(width) => Ok(self.fresh(width)),
            None => Err(self.unsupported(&format!(".reg parameter `{}`", variable.name))),
        }
    }

    /// Loads a register from the frame.
    pub(super) fn load_frame(&mut self, reg: Reg, offset: u64) {
        let access = frame_access(reg, offset);
        self.emit(Op::Load(Box::new(access)));
    }

    fn store_frame(&mut self, reg: Reg, offset: u64) {
        let access = frame_access(reg, offset);
        self.emit(Op::Store(Box::new(access)));
    }

    /// Leaves the function or the kernel; return parameters that are registers are stored first.
    pub(super) fn leave(&mut self) {
        if self.is_kernel() {
            return self.emit(Op::Exit);
        }
        for (reg, offset) in self.returned.clone() {
            self.store_frame(reg, offset);
        }
        self.emit(Op::Return);
    }

    /// `alloca`, `stacksave`, `stackrestore`
    pub(super) fn stack(
        &mut self,
        inst: &'a Instruction,
        opcode: Opcode,
        mut mods: Mods<'a>,
    ) -> Lowered {
        let width = match mods.ty()? {
            T::U64 => Width::B64,
            T::U32 => Width::B32,
            _ => return Err(mods.unsupported()),
        };
        mods.finish()?;
        let reg = |this: &mut Self, operand: &Operand, written: bool| {
            let slot = if written {
                this.destination_of(operand, width)?
            } else {
                this.source(operand, width)?
            };
            Ok::<_, LoadError>(Reg { slot, width })
        };
        let op = match (opcode, inst.operands.as_slice()) {
            (Opcode::Alloca, [d, bytes, rest @ ..]) => {
                let align = match rest {
                    [] => 8,
                    [Operand::Integer(align)] if (1..=4096).contains(align) => *align as u64,
                    _ => return Err(self.invalid("the alignment must be a constant")),
                };
                if !align.is_power_of_two() {
                    return Err(self.invalid(format!("alignment {align}: it must be a power of 2")));
                }
                StackOp::Alloc {
                    d: reg(self, d, true)?,
                    bytes: reg(self, bytes, false)?,
                    align,
                }
            }
            (Opcode::Stacksave, [d]) => StackOp::Save(reg(self, d, true)?),
            (Opcode::Stackrestore, [a]) => StackOp::Restore(reg(self, a, false)?),
            _ => return Err(self.invalid("the operands do not fit the instruction")),
        };
        self.emit(Op::Stack(Box::new(op)));
        Ok(())
    }

    /// Lowers a call of a function without a body that the runtime provides.
    fn system_call(&mut self, name: &str, args: &[(u64, u64)], results: &[(u64, u64)]) -> Lowered {
        match (name, args, results) {
            ("vprintf", [(format, 8), (arguments, 8)], _) => {
                let result = results.first().map(|(offset, _)| *offset);
                let (format, arguments) = (*format, *arguments);
                self.emit(Op::Printf(Box::new(Printf {
                    format,
                    arguments,
                    result,
                })));
                Ok(())
            }
            ("malloc", [(bytes, 8)], [(result, 8)]) => {
                let (argument, result) = (*bytes, Some(*result));
                self.emit(Op::Heap(HeapCall { argument, result }));
                Ok(())
            }
            ("free", [(pointer, 8)], []) => {
                let (argument, result) = (*pointer, None);
                self.emit(Op::Heap(HeapCall { argument, result }));
                Ok(())
            }
            (
                "__assertfail" | INDEX_FAILED | RANGE_FAILED,
                [
                    (message, 8),
                    (file, 8),
                    (line, 4),
                    (function, 8),
                    values @ ..,
                ],
                _,
            ) if !values.is_empty() => {
                let values = values.iter().map(|(offset, _)| *offset);
                self.emit(Op::AssertFail(Box::new(AssertFail {
                    message: *message,
                    file: *file,
                    line: *line,
                    function: *function,
                    values: match name {
                        "__assertfail" => Box::default(),
                        _ => values.collect(),
                    },
                })));
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
}

/// The access for a load or store of a whole register in the frame.
fn frame_access(reg: Reg, offset: u64) -> Access {
    let bytes = (reg.width.bits() / 8) as usize;
    Access {
        space: Space::Local,
        base: Base::Frame,
        offset,
        element: bytes,
        bytes,
        strong: false,
        signed: false,
        regs: Box::new([Some(reg)]),
    }
}
