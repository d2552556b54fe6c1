//! Fills of memory with a value.

use warpsmith_emulator::Footprint;

use crate::c::Address;
use crate::code::{Answer, Code};
use crate::order;
use crate::state::Driver;

use super::copy::{CHUNK, copy};

/// Rows of `count` units each, `pitch` bytes apart, to fill with a value.
#[derive(Clone)]
pub(crate) struct Fill {
    pub(crate) to: Address,
    pub(super) pitch: usize,
    unit: Vec<u8>,
    count: usize,
    rows: usize,
}

impl Fill {
    pub(super) fn new(
        to: Address,
        pitch: usize,
        unit: &[u8],
        [count, rows]: [usize; 2],
    ) -> Answer<Self> {
        let is_aligned = |value: u64| value.is_multiple_of(unit.len() as u64);
        if !is_aligned(to) || rows > 1 && !is_aligned(pitch as u64) {
            return Err(Code::INVALID_VALUE);
        }
        let width = count.checked_mul(unit.len()).ok_or(Code::INVALID_VALUE)?;
        let all = pitch
            .checked_mul(rows)
            .and_then(|all| all.checked_add(width));
        let end = all.and_then(|all| to.checked_add(all as u64));
        end.ok_or(Code::INVALID_VALUE)?;
        Ok(Self {
            to,
            pitch,
            unit: unit.to_vec(),
            count,
            rows,
        })
    }
}

impl Fill {
    /// The unit, units of a row, and rows.
    pub(super) fn shape(&self) -> (&[u8], [usize; 2]) {
        (&self.unit, [self.count, self.rows])
    }
}

/// Fills rows.
pub(crate) fn fill(driver: &Driver, fill: &Fill) -> Answer<Footprint> {
    let len = fill.count * fill.unit.len();
    if len == 0 {
        return Ok(Footprint::default());
    }
    let block = fill.unit.repeat(fill.count.min(CHUNK / fill.unit.len()));
    for row in 0..fill.rows {
        let first = fill.to + (row * fill.pitch) as u64;
        let mut done = 0;
        while done < len {
            let chunk = (len - done).min(block.len());
            let from = block.as_ptr() as Address;
            // SAFETY: `from` is the block, and by the contract of the functions that fill, memory
            // of the host at `to` is valid.
            unsafe { copy(driver, first + done as u64, from, chunk) }?;
            done += chunk;
        }
    }
    let row = |row: usize| {
        let first = fill.to + (row * fill.pitch) as u64;
        first..first + len as u64
    };
    Ok(Footprint {
        writes: order::parts((0..fill.rows).map(row)),
        ..Footprint::default()
    })
}
