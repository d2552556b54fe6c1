//! The constants of a program.

use std::collections::HashMap;

use crate::exec::registers::{Constants, Slot};
use crate::exec::row::{LANES, Row};
use crate::program::Width;

/// Constants, each stored once.
#[derive(Default)]
pub(super) struct Pool {
    pub(super) constants: Constants,
    known: HashMap<(Width, u64), Slot>,
}

impl Pool {
    pub(super) fn slot(&mut self, width: Width, value: u64) -> Slot {
        if let Some(slot) = self.known.get(&(width, value)) {
            return *slot;
        }
        let constants = &mut self.constants;
        let index = match width {
            Width::Pred => {
                constants.pred.push(if value != 0 { u32::MAX } else { 0 });
                constants.pred.len()
            }
            Width::B16 => {
                constants.b16.push(Row([value as u16; LANES]));
                constants.b16.len()
            }
            Width::B32 => {
                constants.b32.push(Row([value as u32; LANES]));
                constants.b32.len()
            }
            Width::B64 => {
                constants.b64.push(Row([value; LANES]));
                constants.b64.len()
            }
        };
        let slot = Slot::constant(index as u32 - 1);
        self.known.insert((width, value), slot);
        slot
    }
}
