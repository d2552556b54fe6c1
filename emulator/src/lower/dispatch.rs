//! Dispatch: what lowers each opcode.
//!
//! The match names every opcode of [`ptx_syntax::isa`], so that a new one does not compile before it
//! says here what lowers it.

use ptx_syntax::ast::Instruction;
use ptx_syntax::isa::{Opcode, Operands};

use super::lanewise::arithmetic;
use super::mods::Mods;
use super::{FunctionLowering, Lowered, compare, float, integer, logic, video};
use crate::profile::Kind;
use crate::program::{Guard, Op, Reg, Scope, Strength, Width};

impl<'a> FunctionLowering<'a, '_> {
    pub(super) fn instruction(&mut self, inst: &'a Instruction) -> Lowered {
        self.line = inst.line;
        self.guard = match &inst.guard {
            None => None,
            Some(guard) => {
                let pred = self.register(&guard.register)?;
                self.expect_width(pred, Width::Pred)?;
                Some(Guard {
                    pred: pred.slot,
                    negated: guard.negated,
                })
            }
        };
        self.watch()?;
        let first = self.build.code.len();
        self.dispatch(inst)?;
        let named: Box<[Reg]> = self.named.take().into();
        self.build.touched.resize(first, Box::default());
        self.build.touched.resize(self.build.code.len(), named);
        self.build
            .kinds
            .resize(self.build.code.len(), Kind::of(inst));
        let strength = Strength::of(inst);
        let own = &mut self.build.code[first..];
        let scope = Scope::of(inst);
        let computes = inst.facts().operands == Operands::Computed;
        for op in &mut *own {
            (op.strength, op.scope, op.computes) = (strength, scope, computes);
        }
        if let [preparations @ .., _] = own {
            preparations.iter_mut().for_each(|op| op.weight = 0);
        }
        Ok(())
    }

    #[rustfmt::skip] // rustfmt gives each opcode a line of its own
    fn dispatch(&mut self, inst: &'a Instruction) -> Lowered {
        use Opcode as O;
        let mods = Mods::new(inst);
        let Some(opcode) = inst.known() else {
            return Err(mods.unsupported());
        };
        match opcode {
            O::Add | O::Sub | O::Mad if inst.has("cc") => self.carry(inst, opcode, mods),
            O::Addc | O::Subc | O::Madc => self.carry(inst, opcode, mods),
            O::Abs | O::Add | O::Cos | O::Div | O::Ex2 | O::Fma | O::Lg2 | O::Mad
            | O::Mad24 | O::Max | O::Min | O::Mul | O::Mul24 | O::Neg | O::Rcp | O::Rem
            | O::Rsqrt | O::Sad | O::Sin | O::Sqrt | O::Sub | O::Tanh => {
                self.lanes(inst, mods, |mods| arithmetic(opcode, mods))
            }
            O::And | O::Bfe | O::Bfi | O::Bfind | O::Bmsk | O::Brev | O::Clz | O::Cnot
            | O::Fns | O::Not | O::Or | O::Popc | O::Prmt | O::Shf | O::Shl | O::Shr
            | O::Szext | O::Xor => {
                self.lanes(inst, mods, |mods| logic::recipe(opcode, mods))
            }
            O::Dp2a | O::Dp4a => self.lanes(inst, mods, |mods| integer::dot_product(opcode, mods)),
            O::Vabsdiff2 | O::Vabsdiff4 | O::Vadd2 | O::Vadd4 | O::Vavrg2 | O::Vavrg4
            | O::Vmax2 | O::Vmax4 | O::Vmin2 | O::Vmin4 | O::Vsub2 | O::Vsub4 => {
                self.lanes(inst, mods, |mods| video::recipe(opcode, mods))
            }
            O::Copysign => self.lanes(inst, mods, float::copysign),
            O::Selp => self.lanes(inst, mods, compare::selp),
            O::Slct => self.lanes(inst, mods, compare::slct),
            O::Testp => self.lanes(inst, mods, compare::testp),
            O::Set => self.set(inst, mods),
            O::Setp => self.setp(inst, mods),
            O::Lop3 => self.lop3(inst, mods),
            O::Mov => self.mov(inst, mods),
            O::Cvt => self.cvt(inst, mods),
            O::Cvta => self.cvta(inst, mods),
            O::Isspacep => self.is_space(inst, mods),
            O::Mapa => self.map_rank(inst, mods),
            O::Getctarank => self.rank_of(inst, mods),

            O::St | O::Red if inst.has("async") => self.remote_store(inst, opcode, mods),
            O::Ld | O::Ldu => self.load(inst, mods),
            O::St => self.store(inst, mods),
            O::Atom => self.atomic(inst, mods, true),
            O::Red => self.atomic(inst, mods, false),
            O::Applypriority | O::Discard | O::Prefetch | O::Prefetchu => self.cache_hint(inst, mods),
            O::Createpolicy => self.create_policy(inst, mods),
            O::Cp => self.copy(inst, mods),
            O::Tensormap => self.tensor_map(inst, mods),

            O::Tex | O::Tld4 => self.fetch(inst, mods),
            O::Suld | O::Sust => self.surface(inst, mods),
            O::Suq | O::Txq => self.image_query(inst, mods),

            O::Mma => self.mma(inst, mods),
            O::Ldmatrix => self.load_matrix(inst, mods),
            O::Stmatrix => self.store_matrix(inst, mods),
            O::Movmatrix => self.move_matrix(inst, mods),
            O::Wgmma => self.wgmma(inst, mods),
            O::Wmma => self.wmma(inst, mods),

            O::Barrier if inst.has("cluster") => self.cluster_barrier(inst, mods),
            O::Bar | O::Barrier => self.barrier(inst, mods),
            O::Mbarrier => self.mbarrier(inst, mods),
            O::Fence if inst.has("proxy") || inst.has("mbarrier_init") => {
                self.proxy_fence(inst, mods)
            }
            O::Fence | O::Membar => self.fence(mods),
            // A launch begins when the one before it on its stream has ended.
            O::Griddepcontrol if inst.has("wait") => self.plain(mods, &["wait"], Op::Nothing),
            O::Griddepcontrol => self.plain(mods, &["launch_dependents"], Op::Nothing),

            O::Activemask => self.collective(inst, mods, Self::active_mask),
            O::Elect => self.collective(inst, mods, Self::elect),
            O::Match => self.collective(inst, mods, Self::matching),
            O::Redux => self.collective(inst, mods, Self::redux),
            O::Shfl => self.collective(inst, mods, Self::shuffle),
            O::Vote => self.collective(inst, mods, Self::vote),

            O::Bra => self.branch(inst, mods),
            O::Brx => self.branch_indexed(inst, mods),
            O::Call => self.call(inst, mods),
            O::Ret => self.ret(mods),
            O::Exit => self.plain(mods, &["uni"], Op::Exit),
            O::Trap => self.plain(mods, &["uni"], Op::Trap),
            O::Brkpt => self.plain(mods, &["mask"], Op::Trap),
            O::Pmevent => self.plain(mods, &["mask"], Op::Nothing),
            O::Nanosleep => self.plain(mods, &["u32"], Op::Yield),
            O::Alloca | O::Stackrestore | O::Stacksave => self.stack(inst, opcode, mods),
            O::Setmaxnreg => self.set_registers(inst, mods),

            O::Clusterlaunchcontrol | O::Istypep | O::Multimem | O::Sured
            | O::Tcgen05 | O::Vabsdiff
            | O::Vadd | O::Vmad | O::Vmax | O::Vmin | O::Vset | O::Vset2 | O::Vset4
            | O::Vshl | O::Vshr | O::Vsub => Err(mods.unsupported()),
        }
    }

    /// An instruction whose modifiers and operands decide nothing.
    fn plain(&mut self, mut mods: Mods<'_>, words: &[&str], op: Op) -> Lowered {
        mods.ignore(words);
        mods.finish()?;
        self.emit(op);
        Ok(())
    }
}
