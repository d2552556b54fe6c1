//! Which form of a kernel a plan takes.

use super::ring::MULTIPROCESSORS;
use super::{
    Ahead, FEW_BLOCKS, FEW_THREADS, Form, RowEntry, RowOp, RowPlan, Stages, Strategy, WIDE_VECTORS,
};
use crate::DType;

impl RowPlan {
    /// The form of the entry.
    pub const fn form(&self) -> Form {
        match self.strategy {
            Strategy::Registers(form) => form,
            Strategy::Slices => Form::Slices,
            Strategy::Ahead(Ahead { rows: 1, .. }) => Form::Ahead,
            Strategy::Ahead(_) => Form::Pairs,
            Strategy::Ring(Stages { vectors, .. }) if vectors == WIDE_VECTORS as u32 => Form::Wide,
            Strategy::Ring(_) => Form::Ring,
            Strategy::Short(_) => Form::Short,
            Strategy::Shared | Strategy::Passes => Form::Loose,
        }
    }

    /// The form of the kernel for `rows` rows. It changes no bits: where few rows are held, weights are
    /// loaded with them, as no others hide the time that this takes.
    pub fn form_of(&self, op: RowOp, dtype: DType, rows: u64) -> Form {
        let form = self.form();
        match self.blocks(rows) {
            Some(blocks)
                if matches!(form, Form::Held)
                    && RowEntry::of(op, dtype, Form::Few).is_some()
                    && self.block_threads() <= FEW_THREADS
                    && blocks <= FEW_BLOCKS * MULTIPROCESSORS =>
            {
                Form::Few
            }
            _ => form,
        }
    }
}
