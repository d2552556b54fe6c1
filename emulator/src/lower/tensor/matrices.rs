//! `ldmatrix`, `stmatrix`, `movmatrix`.

use ptx_syntax::ast::{Instruction, Operand};

use crate::error::LoadError;
use crate::lower::mods::Mods;
use crate::lower::{FunctionLowering, Lowered};
use crate::memory::space::Space;
use crate::program::tensor::{Matrices, TensorOp};
use crate::program::{Op, Width};

impl<'a> FunctionLowering<'a, '_> {
    pub(in crate::lower) fn load_matrix(
        &mut self,
        inst: &'a Instruction,
        mut mods: Mods<'a>,
    ) -> Lowered {
        self.require_aligned(&mut mods)?;
        let [d, address] = self.operands(inst, "`ldmatrix` takes registers and an address")?;
        let (count, mut matrices) = self.matrices(address, mods)?;
        matrices.regs = self.destinations(d, count, Width::B32, "`ldmatrix`")?;
        self.emit(Op::Tensor(Box::new(TensorOp::LoadMatrix(matrices))));
        Ok(())
    }

    pub(in crate::lower) fn store_matrix(
        &mut self,
        inst: &'a Instruction,
        mut mods: Mods<'a>,
    ) -> Lowered {
        self.require_aligned(&mut mods)?;
        let [address, source] = self.operands(inst, "`stmatrix` takes an address and registers")?;
        let (count, mut matrices) = self.matrices(address, mods)?;
        matrices.regs = self.sources(source, count, Width::B32, "`stmatrix`")?;
        self.emit(Op::Tensor(Box::new(TensorOp::StoreMatrix(matrices))));
        Ok(())
    }

    /// Takes the number of matrices, and resolves everything but the registers.
    fn matrices(
        &mut self,
        address: &Operand,
        mut mods: Mods<'a>,
    ) -> Result<(usize, Matrices), LoadError> {
        let count = mods.take_map(|word| {
            Some(match word {
                "x1" => 1,
                "x2" => 2,
                "x4" => 4,
                _ => return None,
            })
        });
        let transposed = mods.take("trans");
        let shared = mods.take("shared") || mods.take("shared::cta");
        let (Some(count), true, true) = (count, mods.take("m8n8"), mods.take("b16")) else {
            return Err(mods.unsupported());
        };
        mods.finish()?;
        let address = self.address(address)?;
        let space = if shared {
            Space::Shared
        } else {
            address.space.unwrap_or(Space::Generic)
        };
        Ok((
            count,
            Matrices {
                space,
                base: address.base,
                offset: address.offset,
                transposed,
                regs: Box::default(),
            },
        ))
    }

    pub(in crate::lower) fn move_matrix(
        &mut self,
        inst: &'a Instruction,
        mut mods: Mods<'a>,
    ) -> Lowered {
        self.require_aligned(&mut mods)?;
        if !(mods.take("m8n8") && mods.take("trans") && mods.take("b16")) {
            return Err(mods.unsupported());
        }
        mods.finish()?;
        let [d, a] = self.operands(inst, "`movmatrix` takes two operands")?;
        let a = self.source(a, Width::B32)?;
        let d = self.destination_of(d, Width::B32)?;
        self.emit(Op::Tensor(Box::new(TensorOp::MoveMatrix { d, a })));
        Ok(())
    }
}
