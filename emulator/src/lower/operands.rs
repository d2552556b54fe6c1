//! Operands: registers, constants, symbols, addresses.

use ptx_syntax::ast::{AddressBase, Instruction, Operand, RegisterNames, Registers, ScalarType};

use super::scope::Symbol;
use super::{FunctionLowering, Lowered, special};
use crate::error::LoadError;
use crate::exec::registers::Slot;
use crate::memory::space::Space;
use crate::program::{Base, Guard, Op, Reg, Width};

/// Most registers that one declaration may have.
pub(super) const REGISTERS: u32 = 1 << 20;

/// An address operand, resolved.
pub(super) struct Address {
    pub(super) base: Base,
    pub(super) offset: u64,
    /// If the base is a variable, the state space of its declaration.
    pub(super) space: Option<Space>,
}

impl FunctionLowering<'_, '_> {
    /// The operands of an instruction that has this many; `takes` says what it takes.
    pub(super) fn operands<'o, const N: usize>(
        &self,
        inst: &'o Instruction,
        takes: &str,
    ) -> Result<&'o [Operand; N], LoadError> {
        let given = inst.operands.as_slice();
        given.try_into().map_err(|_| self.invalid(takes))
    }

    /// The first operand of an instruction, which is its result, and the others.
    pub(super) fn result<'o>(
        &self,
        inst: &'o Instruction,
        takes: &str,
    ) -> Result<(&'o Operand, &'o [Operand]), LoadError> {
        let split = inst.operands.split_first();
        split.ok_or_else(|| self.invalid(takes))
    }

    pub(super) fn declare_registers(&mut self, registers: &Registers) -> Lowered {
        self.line = registers.line;
        if registers.vector.is_some() {
            return Err(self.unsupported(".reg of a vector type"));
        }
        let Some(width) = register_width(registers.ty) else {
            return Err(self.unsupported(&format!(".reg .{}", registers.ty.word())));
        };
        for names in &registers.names {
            if let RegisterNames::Range { count, prefix } = names
                && *count > REGISTERS
            {
                let message = format!("{count} registers `{prefix}`, allowed are {REGISTERS}");
                return Err(self.invalid(message));
            }
            match names {
                RegisterNames::One(name) => {
                    let reg = self.fresh(width);
                    self.declare(name, Symbol::Register(reg))?;
                }
                RegisterNames::Range { prefix, count } => {
                    for i in 0..*count {
                        let reg = self.fresh(width);
                        self.declare(&format!("{prefix}{i}"), Symbol::Register(reg))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The register of that name.
    pub(super) fn register(&self, name: &str) -> Result<Reg, LoadError> {
        match self.scopes.get(name) {
            Some(Symbol::Register(reg)) => {
                self.named.borrow_mut().push(*reg);
                Ok(*reg)
            }
            Some(_) => Err(self.invalid(format!("`{name}` is not a register"))),
            None => Err(self.undeclared(name)),
        }
    }

    pub(super) fn expect_width(&self, reg: Reg, width: Width) -> Lowered {
        if reg.width == width {
            return Ok(());
        }
        Err(self.invalid(format!(
            "a register of {} bits where one of {} bits is needed",
            reg.width.bits(),
            width.bits()
        )))
    }

    /// A destination of any width; `_` becomes a register of width `sink` that nothing reads.
    pub(super) fn destination(&mut self, operand: &Operand, sink: Width) -> Result<Reg, LoadError> {
        match operand {
            Operand::Name(name) => self.register(name),
            Operand::Sink => Ok(self.fresh(sink)),
            _ => Err(self.invalid("a destination must be a register")),
        }
    }

    /// A destination of one width.
    pub(super) fn destination_reg(
        &mut self,
        operand: &Operand,
        width: Width,
    ) -> Result<Reg, LoadError> {
        let reg = self.destination(operand, width)?;
        self.expect_width(reg, width)?;
        Ok(reg)
    }

    /// Its slot.
    pub(super) fn destination_of(
        &mut self,
        operand: &Operand,
        width: Width,
    ) -> Result<Slot, LoadError> {
        self.destination_reg(operand, width).map(|reg| reg.slot)
    }

    /// A source of one width. Literals and symbols become constants; special registers and frame
    /// addresses are read into a scratch register first.
    pub(super) fn source_reg(&mut self, operand: &Operand, width: Width) -> Result<Reg, LoadError> {
        let reg = self.source_any(operand, width)?;
        self.expect_width(reg, width)?;
        Ok(reg)
    }

    /// Its slot.
    pub(super) fn source(&mut self, operand: &Operand, width: Width) -> Result<Slot, LoadError> {
        self.source_reg(operand, width).map(|reg| reg.slot)
    }

    /// A source of any width; a literal gets `width`.
    pub(super) fn source_any(&mut self, operand: &Operand, width: Width) -> Result<Reg, LoadError> {
        let constant = |this: &mut Self, value: u64| Reg {
            slot: this.build.pool.slot(width, value & width_mask(width)),
            width,
        };
        match operand {
            Operand::Name(name) => self.named_source(name, 0, width),
            Operand::SymbolOffset { name, offset } => self.named_source(name, *offset, width),
            Operand::Integer(value) => Ok(constant(self, *value as u64)),
            Operand::F32(bits) if width == Width::B32 => Ok(constant(self, u64::from(*bits))),
            Operand::F64(bits) => match width {
                Width::B64 => Ok(constant(self, *bits)),
                Width::B32 => {
                    let narrow = f64::from_bits(*bits) as f32;
                    Ok(constant(self, u64::from(narrow.to_bits())))
                }
                _ => Err(self.invalid("a float constant where there can be none")),
            },
            _ => Err(self.invalid("this operand must be a register or a constant")),
        }
    }

    fn named_source(&mut self, name: &str, offset: i64, width: Width) -> Result<Reg, LoadError> {
        if let Some(Symbol::Register(reg)) = self.scopes.get(name) {
            let reg = *reg;
            self.named.borrow_mut().push(reg);
            if offset != 0 {
                return Err(self.invalid(format!("`{name}` is a register: no offset here")));
            }
            return Ok(reg);
        }
        if name == "WARP_SZ" {
            return Ok(Reg {
                slot: self.build.pool.slot(width, 32),
                width,
            });
        }
        if name.starts_with('%') {
            return self.special_source(name);
        }
        if let Some(Symbol::Frame(at, _)) = self.scopes.get(name) {
            let at = at.wrapping_add_signed(offset);
            let d = self.fresh(width);
            self.emit_unguarded(Op::FrameAddress { d, offset: at });
            return Ok(d);
        }
        let address = self.symbol_address(name)?.wrapping_add_signed(offset);
        Ok(Reg {
            slot: self.build.pool.slot(width, address & width_mask(width)),
            width,
        })
    }

    /// Whether a name is a special register of that width, read at run time.
    pub(super) fn reads_special(&self, name: &str, width: Width) -> bool {
        self.scopes.get(name).is_none()
            && matches!(
                special::special(name),
                Some((special::Value::Read(_), own)) if own == width
            )
    }

    /// Reads a special register straight into a destination.
    pub(super) fn read_special(&mut self, name: &str, d: Reg) {
        if let Some((special::Value::Read(source), _)) = special::special(name) {
            self.emit(Op::Special { d, source });
        }
    }

    fn special_source(&mut self, name: &str) -> Result<Reg, LoadError> {
        let Some((value, width)) = special::special(name) else {
            if name.contains('.') || special::is_special(name) {
                return Err(self.unsupported(name));
            }
            return Err(self.undeclared(name));
        };
        if special::is_reserved_shared(name) {
            self.build.shared_from = 0;
        }
        match value {
            special::Value::Constant(value) => Ok(Reg {
                slot: self.build.pool.slot(width, value),
                width,
            }),
            special::Value::Read(source) => {
                let d = self.fresh(width);
                self.emit_unguarded(Op::Special { d, source });
                Ok(d)
            }
        }
    }

    /// Address of a variable outside the frame, in its own state space; for a function, its handle.
    fn symbol_address(&self, name: &str) -> Result<u64, LoadError> {
        match self.scopes.get(name) {
            Some(Symbol::Shared(address)) => return Ok(*address),
            Some(Symbol::KernelParam(offset)) => return Ok(*offset),
            Some(_) => return Err(self.invalid(format!("`{name}` has no address"))),
            None => {}
        }
        if let Some(address) = self
            .build
            .shared
            .get(name)
            .or_else(|| self.build.globals.get(name))
        {
            return Ok(*address);
        }
        if self.build.module.functions.iter().any(|f| f.name == name) {
            return Err(LoadError::Unresolved {
                name: name.to_owned(),
                line: self.line,
            });
        }
        Err(self.undeclared(name))
    }

    /// A predicate operand, `p` or `!p`.
    pub(super) fn predicate(&mut self, operand: &Operand) -> Result<Guard, LoadError> {
        match operand {
            Operand::Not(inner) => {
                let inner = self.predicate(inner)?;
                Ok(Guard {
                    negated: !inner.negated,
                    ..inner
                })
            }
            other => {
                let pred = self.source(other, Width::Pred)?;
                Ok(Guard {
                    pred,
                    negated: false,
                })
            }
        }
    }

    /// An address operand in brackets.
    pub(super) fn address(&mut self, operand: &Operand) -> Result<Address, LoadError> {
        let Operand::Address {
            base,
            offset,
            extra,
        } = operand
        else {
            return Err(self.invalid("this operand must be an address in brackets"));
        };
        if !extra.is_empty() {
            return Err(self.unsupported("an address with coordinates"));
        }
        let offset = *offset as u64;
        let name = match base {
            AddressBase::Absolute(at) => {
                let offset = at.wrapping_add(offset);
                return Ok(Address {
                    base: Base::Absolute,
                    offset,
                    space: None,
                });
            }
            AddressBase::Name(name) => name,
        };
        let (base, offset, space) = match self.scopes.get(name) {
            Some(Symbol::Register(reg)) if matches!(reg.width, Width::B32 | Width::B64) => {
                self.named.borrow_mut().push(*reg);
                (Base::Register(*reg), offset, None)
            }
            Some(Symbol::Register(_)) => {
                return Err(self.invalid("an address must have 32 or 64 bits"));
            }
            Some(Symbol::Frame(at, _)) => {
                (Base::Frame, at.wrapping_add(offset), Some(Space::Local))
            }
            Some(Symbol::KernelParam(at)) => {
                (Base::Absolute, at.wrapping_add(offset), Some(Space::Param))
            }
            _ => {
                let at = self.symbol_address(name)?;
                let shared = matches!(self.scopes.get(name), Some(Symbol::Shared(_)))
                    || self.build.shared.contains_key(name);
                let space = if shared { Space::Shared } else { Space::Global };
                (Base::Absolute, at.wrapping_add(offset), Some(space))
            }
        };
        Ok(Address {
            base,
            offset,
            space,
        })
    }
}

/// The width of the register for a type.
pub(super) fn register_width(ty: ScalarType) -> Option<Width> {
    match ty {
        ScalarType::Pred => Some(Width::Pred),
        _ => super::convert::natural(ty),
    }
}

/// A mask of the bits of a width.
pub(super) fn width_mask(width: Width) -> u64 {
    match width {
        Width::Pred => 1,
        Width::B16 => 0xffff,
        Width::B32 => 0xffff_ffff,
        Width::B64 => u64::MAX,
    }
}
