//! Loads, stores, atomics and address conversions.

use ptx_syntax::ast::{Instruction, Operand, ScalarType as T};
use ptx_syntax::isa::Opcode;

use super::mods::Mods;
use super::{FunctionLowering, Lowered};
use crate::error::LoadError;
use crate::exec::kernel::{Args, kernel};
use crate::memory::space::Space;
use crate::program::{Access, Op, OpenStore, Reg, Width};

/// Modifiers that only order or hint, and change no value.
pub(super) const ORDERING: [&str; 26] = [
    "weak",
    "volatile",
    "relaxed",
    "acquire",
    "release",
    "acq_rel",
    "sc",
    "mmio",
    "cta",
    "cluster",
    "gpu",
    "sys",
    "gl",
    "nc",
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
];
/// Prefetch hints.
const PREFETCH: [&str; 6] = [
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "L2::evict_last",
    "L2::evict_normal",
    "L2::evict_first",
];
/// Modifiers of loads whose value another block may have written.
const STRONG: [&str; 5] = ["volatile", "relaxed", "acquire", "mmio", "acq_rel"];

impl<'a> FunctionLowering<'a, '_> {
    /// `prefetch` and its like, which change no value.
    pub(super) fn cache_hint(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        mods.ignore(&["global", "local", "L1", "L2", "L2::128B", "tensormap"]);
        mods.ignore(&PREFETCH);
        if inst.known() == Some(Opcode::Prefetch) && inst.has("tensormap") {
            mods.ignore(&["param", "const"]);
        }
        mods.finish()?;
        self.emit(Op::Nothing);
        Ok(())
    }

    pub(super) fn load(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        let [d, address] = self.without_policy(inst, &mut mods)? else {
            return Err(self.invalid("a load takes a destination and an address"));
        };
        let (mut access, ty) = self.access(inst, &mut mods, address)?;
        mods.finish()?;
        access.signed = super::convert::is_signed(ty);
        access.regs = match d {
            Operand::Vector(items) => items
                .iter()
                .map(|item| match item {
                    Operand::Sink => Ok(None),
                    other => self.element(other, &access).map(Some),
                })
                .collect::<Result<_, _>>()?,
            Operand::Sink => Box::new([None]),
            other => Box::new([Some(self.element(other, &access)?)]),
        };
        self.check_count(&access)?;
        self.emit(Op::Load(Box::new(access)));
        Ok(())
    }

    fn element(&mut self, operand: &Operand, access: &Access) -> Result<Reg, LoadError> {
        let reg = self.destination(operand, Width::B64)?;
        self.check_element(reg, access)?;
        Ok(reg)
    }

    fn check_element(&self, reg: Reg, access: &Access) -> Lowered {
        if reg.width == Width::Pred || (reg.width.bits() as usize) < 8 * access.element {
            return Err(self.invalid(format!(
                "a register of {} bits cannot hold {} bytes",
                reg.width.bits(),
                access.element
            )));
        }
        Ok(())
    }

    fn check_count(&self, access: &Access) -> Lowered {
        let want = access.bytes / access.element;
        if access.regs.len() == want {
            return Ok(());
        }
        Err(self.invalid(format!(
            "{} elements given, {want} are needed",
            access.regs.len()
        )))
    }

    pub(super) fn store(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        let [address, value] = self.without_policy(inst, &mut mods)? else {
            return Err(self.invalid("a store takes an address and a value"));
        };
        let (mut access, ty) = self.access(inst, &mut mods, address)?;
        mods.finish()?;
        let natural = super::convert::natural(ty).unwrap_or(Width::B64);
        let items = match value {
            Operand::Vector(items) => items.as_slice(),
            other => std::slice::from_ref(other),
        };
        access.regs = items
            .iter()
            .map(|item| {
                let reg = self.source_any(item, natural)?;
                self.check_element(reg, &access)?;
                Ok(Some(reg))
            })
            .collect::<Result<_, LoadError>>()?;
        self.check_count(&access)?;
        let elements = std::mem::take(&mut self.stored);
        self.emit(if elements.is_empty() {
            Op::Store(Box::new(access))
        } else {
            Op::OpenStore(Box::new(OpenStore { access, elements }))
        });
        Ok(())
    }

    /// Takes the modifiers of a load or store and resolves its address.
    fn access(
        &mut self,
        inst: &Instruction,
        mods: &mut Mods<'a>,
        address: &Operand,
    ) -> Result<(Access, T), LoadError> {
        let ty = mods.ty()?;
        let strong = mods.rest().iter().any(|word| STRONG.contains(word));
        mods.ignore(&ORDERING);
        mods.ignore(&PREFETCH);
        let count = mods
            .take_map(|word| match word {
                "v2" => Some(2),
                "v4" => Some(4),
                "v8" => Some(8),
                _ => None,
            })
            .unwrap_or(1);
        let declared = Self::space(mods);
        let address = self.address(address)?;
        let space = match declared {
            // Parameters of a device function are in its frame.
            Some(Space::Param) if !self.is_kernel() => Space::Local,
            Some(Space::Param) => address.space.unwrap_or(Space::Param),
            Some(space) => space,
            None => match address.space {
                Some(space) if !matches!(address.base, crate::program::Base::Register(_)) => space,
                _ => Space::Generic,
            },
        };
        // 128 bits are held in two registers.
        let (element, count) = match ty {
            T::B128 => (8, 2 * count),
            _ => (ty.bytes() as usize, count),
        };
        let bytes = element * count;
        if element > 8 || bytes > 32 || ty == T::Pred {
            return Err(LoadError::Unsupported {
                what: inst.mnemonic(),
                line: inst.line,
            });
        }
        if strong && matches!(space, Space::Global | Space::Generic) {
            self.build.ordered = true;
        }
        let access = Access {
            space,
            base: address.base,
            offset: address.offset,
            element,
            bytes,
            strong,
            signed: false,
            regs: Box::new([]),
        };
        Ok((access, ty))
    }

    /// Takes the state space; `None` means generic.
    pub(super) fn space(mods: &mut Mods<'_>) -> Option<Space> {
        mods.take_map(|word| match word {
            "global" | "const" => Some(Space::Global),
            "shared" | "shared::cta" | "shared::cluster" => Some(Space::Shared),
            "local" => Some(Space::Local),
            "param" | "param::entry" | "param::func" => Some(Space::Param),
            _ => None,
        })
    }

    /// The operands without the cache policy that `.L2::cache_hint` announces.
    pub(super) fn without_policy(
        &mut self,
        inst: &'a Instruction,
        mods: &mut Mods<'a>,
    ) -> Result<&'a [Operand], LoadError> {
        if !mods.take("L2::cache_hint") {
            return Ok(&inst.operands);
        }
        let Some((policy, operands)) = inst.operands.split_last() else {
            return Err(self.invalid("no cache policy"));
        };
        self.source(policy, Width::B64)?;
        Ok(operands)
    }

    pub(super) fn cvta(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        let to = mods.take("to");
        let Some(space) = Self::space(&mut mods) else {
            return Err(mods.unsupported());
        };
        let width = match mods.ty()? {
            T::U64 => Width::B64,
            _ => return Err(mods.unsupported()),
        };
        mods.finish()?;
        let [d, a] = self.operands(inst, "`cvta` takes two operands")?;
        // A function's parameters are in its frame.
        let space = match space {
            Space::Param if !self.is_kernel() => Space::Local,
            other => other,
        };
        let d = self.destination_of(d, width)?;
        let a = self.source(a, width)?;
        let window = space.window();
        let delta = if to { window.wrapping_neg() } else { window };
        let b = self.build.pool.slot(width, delta);
        let recipe = super::recipe::op!(|x, a: u64, b: u64| -> u64 { a.wrapping_add(b) });
        self.emit(Op::Lanes(
            recipe.kernel,
            Args {
                d,
                a,
                b,
                ..recipe.args
            },
        ));
        Ok(())
    }

    pub(super) fn is_space(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        let constant = mods.rest().contains(&"const");
        let of_cluster = mods.rest().contains(&"shared::cluster");
        let Some(space) = Self::space(&mut mods) else {
            return Err(mods.unsupported());
        };
        mods.finish()?;
        let [p, a] = self.operands(inst, "`isspacep` takes two operands")?;
        let d = self.destination_of(p, Width::Pred)?;
        let a = self.source(a, Width::B64)?;
        let kernel = match space {
            // Constants are placed in global memory, but are not in the global state space.
            Space::Global if constant => kernel!(|regs, _k, x, mask| regs.set_pred(x.d, 0, mask)),
            Space::Global => kernel!(|regs, k, x, mask| {
                let a = *regs.row::<u64>(k, x.a);
                let test = crate::exec::row::mask_of(
                    #[inline(always)]
                    |i| Space::of_generic(a.0[i]) == Space::Global,
                );
                regs.set_pred(x.d, test, mask);
            }),
            _ => kernel!(|regs, k, x, mask| {
                let (a, base) = (*regs.row::<u64>(k, x.a), *regs.row::<u64>(k, x.b));
                let size = *regs.row::<u64>(k, x.c);
                let test = crate::exec::row::mask_of(
                    #[inline(always)]
                    |i| a.0[i].wrapping_sub(base.0[i]) < size.0[i],
                );
                regs.set_pred(x.d, test, mask);
            }),
        };

        let b = self.build.pool.slot(Width::B64, space.window());
        let bytes = match space {
            Space::Shared if !of_cluster => 1 << crate::exec::cluster::RANK_SHIFT,
            space => space.window_bytes(),
        };
        let c = self.build.pool.slot(Width::B64, bytes);
        let default = Args::default();
        self.emit(Op::Lanes(
            kernel,
            Args {
                d,
                a,
                b,
                c,
                ..default
            },
        ));
        Ok(())
    }
}
