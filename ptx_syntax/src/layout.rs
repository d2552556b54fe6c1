//! Sizes and alignments of variables: PTX ISA 5.4.

use crate::ast::Variable;

impl Variable {
    /// Size in bytes; `None` if an extent is missing (`[]`) or the size overflows.
    pub fn bytes(&self) -> Option<u64> {
        let element = u64::from(self.ty.bytes()) * u64::from(self.vector.unwrap_or(1));
        self.dims
            .iter()
            .try_fold(element, |bytes, extent| bytes.checked_mul((*extent)?))
    }

    /// Alignment in bytes: `.align` if written, else the natural one (of the whole vector).
    pub fn alignment(&self) -> u32 {
        self.align
            .unwrap_or_else(|| self.ty.bytes() * u32::from(self.vector.unwrap_or(1)))
    }
}
