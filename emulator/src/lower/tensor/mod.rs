//! Tensor-core instructions.

mod matrices;
mod mma;
mod wgmma;
mod wmma;

use ptx_syntax::ast::Operand;

use super::mods::Mods;
use super::{FunctionLowering, Lowered};
use crate::error::LoadError;
use crate::exec::registers::Slot;
use crate::program::Width;

impl FunctionLowering<'_, '_> {
    /// Takes `.sync.aligned`, which all of them have.
    fn require_aligned(&self, mods: &mut Mods<'_>) -> Lowered {
        match mods.take("sync") && mods.take("aligned") {
            true => Ok(()),
            false => Err(mods.unsupported()),
        }
    }

    /// The operands in the braces of a vector; a lone operand is a vector of one.
    fn vector<'o>(&self, operand: &'o Operand) -> &'o [Operand] {
        match operand {
            Operand::Vector(parts) => parts,
            one => std::slice::from_ref(one),
        }
    }

    /// `count` source registers of a vector.
    fn sources(
        &mut self,
        operand: &Operand,
        count: usize,
        width: Width,
        what: &str,
    ) -> Result<Box<[Slot]>, LoadError> {
        let parts = self.counted(operand, count, what)?;
        parts.iter().map(|part| self.source(part, width)).collect()
    }

    /// `count` destination registers of a vector.
    fn destinations(
        &mut self,
        operand: &Operand,
        count: usize,
        width: Width,
        what: &str,
    ) -> Result<Box<[Slot]>, LoadError> {
        let parts = self.counted(operand, count, what)?;
        parts
            .iter()
            .map(|part| self.destination_of(part, width))
            .collect()
    }

    fn counted<'o>(
        &self,
        operand: &'o Operand,
        count: usize,
        what: &str,
    ) -> Result<&'o [Operand], LoadError> {
        let parts = self.vector(operand);
        if parts.len() == count {
            return Ok(parts);
        }
        Err(self.invalid(format!(
            "{what} takes {count} registers here, not {}",
            parts.len()
        )))
    }
}

/// Extents of a shape such as `m16n8k16`.
fn shape(word: &str) -> Option<(usize, usize, usize)> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some((m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
}
