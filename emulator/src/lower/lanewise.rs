//! Lane-wise instructions: the operation, then its operands.

use ptx_syntax::ast::{Instruction, Operand, ScalarType as T};
use ptx_syntax::isa::Opcode;

use super::mods::Mods;
use super::recipe::{Recipe, op};
use super::{FunctionLowering, Lowered, approx, compare, convert, float, half, integer, logic};
use crate::error::LoadError;
use crate::exec::kernel::Args;
use crate::exec::registers::Slot;
use crate::program::{Op, Reg, Width};

impl<'a> FunctionLowering<'a, '_> {
    /// An instruction that is one operation on operands of the common form.
    pub(super) fn lanes(
        &mut self,
        inst: &'a Instruction,
        mut mods: Mods<'a>,
        find: impl FnOnce(&mut Mods<'a>) -> Result<Recipe, LoadError>,
    ) -> Lowered {
        let recipe = find(&mut mods)?;
        mods.finish()?;
        let args = self.args(inst, &recipe)?;
        self.emit(Op::Lanes(recipe.kernel, args));
        Ok(())
    }

    /// An addition, subtraction or product that reads or writes the carry flag.
    pub(super) fn carry(
        &mut self,
        inst: &'a Instruction,
        opcode: Opcode,
        mut mods: Mods<'a>,
    ) -> Lowered {
        let writes = mods.take("cc");
        let ty = mods.ty()?;
        let recipe = integer::carry(opcode, &mut mods, ty)?;
        mods.finish()?;
        let mut args = self.args(inst, &recipe)?;
        args.f = self.carry;
        // Without `.cc` the carry out goes to a scratch predicate.
        args.e = match writes {
            true => self.carry,
            false => self.fresh(Width::Pred).slot,
        };
        self.emit(Op::Lanes(recipe.kernel, args));
        Ok(())
    }

    /// Operands of the common form `d, a, b, ..`.
    fn args(&mut self, inst: &'a Instruction, recipe: &Recipe) -> Result<Args, LoadError> {
        let (d, sources) = self.result(inst, "an instruction without operands")?;
        let d = self.destination_of(d, recipe.d)?;
        self.args_with(d, sources, recipe)
    }

    /// Operands for a destination that has been resolved already.
    fn args_with(
        &mut self,
        d: Slot,
        sources: &[Operand],
        recipe: &Recipe,
    ) -> Result<Args, LoadError> {
        if sources.len() != recipe.sources.len() {
            return Err(self.invalid(format!(
                "{} sources given, {} are needed",
                sources.len(),
                recipe.sources.len()
            )));
        }
        let mut args = Args { d, ..recipe.args };
        let places = [&mut args.a, &mut args.b, &mut args.c, &mut args.f];
        for ((place, operand), width) in places.into_iter().zip(sources).zip(&recipe.sources) {
            *place = self.source(operand, *width)?;
        }
        Ok(args)
    }

    /// Emits an operation with one source.
    pub(super) fn emit_unary(&mut self, recipe: &Recipe, d: Slot, a: Slot) {
        let args = Args {
            d,
            a,
            ..recipe.args
        };
        self.emit(Op::Lanes(recipe.kernel, args));
    }

    /// `mov.b128`, whose operands consist of two 64-bit halves each.
    fn mov_wide(&mut self, d: &Operand, a: &Operand) -> Lowered {
        let (Operand::Vector(to), Operand::Vector(from)) = (d, a) else {
            return Err(self.invalid("`mov.b128` needs a register of 128 bits on one side"));
        };
        let ([low, high], [from_low, from_high]) = (to.as_slice(), from.as_slice()) else {
            return Err(self.invalid("128 bits are two halves of 64"));
        };
        let copy = op!(|x, a: u64| -> u64 { a });
        let from_low = self.source(from_low, Width::B64)?;
        let from_high = self.source(from_high, Width::B64)?;
        // Through a scratch register, because source and destination halves may be swapped.
        let d = self.fresh(Width::B64).slot;
        let a = from_high;
        self.emit_unguarded(Op::Lanes(copy.kernel, Args { d, a, ..copy.args }));
        for (to, a) in [(low, from_low), (high, d)] {
            let d = self.destination_of(to, Width::B64)?;
            self.emit_unary(&copy, d, a);
        }
        Ok(())
    }

    pub(super) fn mov(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        let ty = mods.ty()?;
        let [d, a] = self.operands(inst, "`mov` takes two operands")?;
        if ty == T::B128 {
            mods.finish()?;
            return self.mov_wide(d, a);
        }
        let width = super::operands::register_width(ty).ok_or_else(|| mods.unsupported())?;
        mods.finish()?;
        match (d, a) {
            (Operand::Vector(parts), a) => {
                let a = self.source_reg(a, width)?;
                let parts = self.parts(parts, width)?;
                self.emit(Op::Unpack { parts, a });
            }
            (d, Operand::Vector(parts)) => {
                let parts = self.parts(parts, width)?;
                let d = self.destination_reg(d, width)?;
                self.emit(Op::Pack { d, parts });
            }
            (d, Operand::Name(name))
                if name.starts_with('%') && self.reads_special(name, width) =>
            {
                let d = self.destination_reg(d, width)?;
                self.read_special(name, d);
            }
            _ => {
                let slot = self.destination_of(d, width)?;
                let a = match self.source_any(a, width)? {
                    a if a.width == width => a.slot,
                    // `mov.u32` of a 64-bit special register takes the low half.
                    a => self.converted(a, width)?,
                };
                self.emit_unary(&logic::mov(width), slot, a);
            }
        }
        Ok(())
    }

    fn converted(&mut self, a: Reg, to: Width) -> Result<Slot, LoadError> {
        let recipe = convert::narrow(a.width, to).or_else(|| convert::extend(a.width, to, false));
        let is_special = matches!(
            self.build.code.last().map(|inst| &inst.op),
            Some(Op::Special { d, .. }) if *d == a
        );
        let Some(recipe) = recipe.filter(|_| is_special) else {
            self.expect_width(a, to)?;
            return Ok(a.slot);
        };
        let d = self.fresh(to).slot;
        self.emit_unary(&recipe, d, a.slot);
        Ok(d)
    }

    /// The elements of a vector operand of `mov`.
    fn parts(&mut self, parts: &[Operand], whole: Width) -> Result<Box<[Reg]>, LoadError> {
        let each = match (whole, parts.len()) {
            // Registers of eight bits take sixteen.
            (Width::B16, 2) | (Width::B32, 2 | 4) | (Width::B64, 4) => Width::B16,
            (Width::B64, 2) => Width::B32,
            _ => return Err(self.unsupported("mov of a vector of this shape")),
        };
        parts
            .iter()
            .map(|part| match part {
                Operand::Sink => Ok(self.fresh(each)),
                other => Ok(self.source_reg(other, each)?),
            })
            .collect()
    }

    pub(super) fn cvt(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        if mods.take("pack") {
            return self.lanes(inst, mods, convert::pack);
        }
        let from = mods.ty()?;
        let to = mods.ty()?;
        let recipe = convert::recipe(&mut mods, to, from)?;
        mods.finish()?;
        let (d, sources) = self.result(inst, "`cvt` takes two operands")?;
        let d = self.destination(d, recipe.d)?;
        let target = if d.width == recipe.d {
            d
        } else {
            self.fresh(recipe.d)
        };
        if let ([a], [width]) = (sources, recipe.sources.as_slice()) {
            let mut a = self.source_any(a, *width)?;
            if a.width != *width {
                let cut = convert::narrow(a.width, *width)
                    .ok_or_else(|| self.invalid("the source register is too narrow"))?;
                let cut_to = self.fresh(*width);
                self.emit_unary(&cut, cut_to.slot, a.slot);
                a = cut_to;
            }
            self.emit_unary(&recipe, target.slot, a.slot);
        } else {
            let args = self.args_with(target.slot, sources, &recipe)?;
            self.emit(Op::Lanes(recipe.kernel, args));
        }
        if target != d {
            let extend = convert::extend(recipe.d, d.width, convert::is_signed(to))
                .ok_or_else(|| self.invalid("the destination register is too narrow"))?;
            self.emit_unary(&extend, d.slot, target.slot);
        }
        Ok(())
    }

    pub(super) fn setp(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        let ty = mods.ty()?;
        let mut recipe = compare::setp(&mut mods, ty)?;
        mods.finish()?;
        let (d, sources) = self.result(inst, "`setp` takes at least three operands")?;
        let (p, q) = match d {
            Operand::Pair(p, q) => {
                recipe.args.imm |= compare::BOTH;
                (
                    self.destination_of(p, Width::Pred)?,
                    self.destination_of(q, Width::Pred)?,
                )
            }
            p => (self.destination_of(p, Width::Pred)?, Slot::register(0)),
        };
        let mut args = self.condition_args(p, sources, &mut recipe)?;
        args.e = q;
        self.emit(Op::Lanes(recipe.kernel, args));
        Ok(())
    }

    /// Sources of `setp` and `set`; a third one is a predicate that may be negated.
    fn condition_args(
        &mut self,
        p: Slot,
        sources: &[Operand],
        recipe: &mut Recipe,
    ) -> Result<Args, LoadError> {
        let mut plain = sources.to_vec();
        if let Some(Operand::Not(inner)) = plain.get(2) {
            recipe.args.imm |= compare::NEGATED;
            plain[2] = (**inner).clone();
        }
        self.args_with(p, &plain, recipe)
    }

    pub(super) fn set(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        let mut set = compare::set(&mut mods)?;
        mods.finish()?;
        let (d, sources) = self.result(inst, "`set` takes at least three operands")?;
        let width = set.choose.as_ref().map_or(set.first.d, |choose| choose.d);
        let d = self.destination_of(d, width)?;
        let written = match set.choose {
            Some(_) => self.fresh(Width::Pred).slot,
            None => d,
        };
        let args = self.condition_args(written, sources, &mut set.first)?;
        self.emit(Op::Lanes(set.first.kernel, args));
        if let Some(choose) = set.choose {
            self.emit_unary(&choose, d, written);
        }
        Ok(())
    }

    pub(super) fn lop3(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        if mods.ty()? != T::B32 {
            return Err(mods.unsupported());
        }
        let combine = mods.take_map(logic::combine_nonzero);
        mods.finish()?;
        let (d, a, b, c, table, tested) = match (combine, inst.operands.as_slice()) {
            (None, [d, a, b, c, Operand::Integer(table)]) => (d, a, b, c, table, None),
            (Some(combine), [Operand::Pair(d, p), a, b, c, Operand::Integer(table), q]) => {
                (&**d, a, b, c, table, Some((combine, p, q)))
            }
            (None, _) => return Err(self.invalid("`lop3` takes four operands and a table")),
            (Some(_), _) => {
                return Err(self.invalid("`lop3` takes `d|p`, three operands, a table and `q`"));
            }
        };
        let Ok(table) = u8::try_from(*table) else {
            return Err(self.invalid(format!("the table is {table}, allowed is 0 to 255")));
        };
        let recipe = logic::lop3(table);
        let d = self.destination_of(d, Width::B32)?;
        let args = self.args_with(d, &[a.clone(), b.clone(), c.clone()], &recipe)?;
        self.emit(Op::Lanes(recipe.kernel, args));
        let Some((mut combine, p, q)) = tested else {
            return Ok(());
        };
        let q = match q {
            Operand::Not(inner) => {
                combine.args.imm = 1;
                self.source(inner, Width::Pred)?
            }
            q => self.source(q, Width::Pred)?,
        };
        let args = Args {
            d: self.destination_of(p, Width::Pred)?,
            a: d,
            b: q,
            ..combine.args
        };
        self.emit(Op::Lanes(combine.kernel, args));
        Ok(())
    }
}

/// The operation of an opcode whose types are integers or floats.
pub(super) fn arithmetic(opcode: Opcode, mods: &mut Mods<'_>) -> Result<Recipe, LoadError> {
    use Opcode as O;
    let ty = mods.ty()?;
    let approximate = matches!(
        opcode,
        O::Ex2 | O::Lg2 | O::Sin | O::Cos | O::Rsqrt | O::Tanh
    ) || mods.take("approx")
        || mods.rest().contains(&"full");
    match ty {
        _ if approximate => approx::recipe(opcode, mods, ty),
        T::F32 => float::f32_recipe(opcode, mods),
        T::F64 => float::f64_recipe(opcode, mods),
        T::F16 | T::Bf16 | T::F16x2 | T::Bf16x2 => half::recipe(opcode, mods, ty),
        _ => integer::recipe(opcode, mods, ty),
    }
}
