//! `ldmatrix`, `stmatrix` and `movmatrix`: matrices of eight by eight 16-bit elements.
//!
//! Lane `8 * i + r` has the address of row `r` of matrix `i`. Of each matrix, lane `l` holds
//! elements `2 * (l % 4)` and the next one of row `l / 4`, or with `.trans` of column `l / 4`.

use crate::exec::access::{Intent, count};
use crate::exec::block::Block;
use crate::exec::fault::{Checked, Fault};
use crate::exec::registers::{Registers, Slot};
use crate::exec::row::{FULL_MASK, LANES, Row};
use crate::exec::warp::Warp;
use crate::memory::lanes::Planes;
use crate::memory::space::Space;
use crate::profile::Touch;
use crate::program::tensor::Matrices;
use crate::report::FaultKind;

/// Bytes of a matrix row.
const ROW_BYTES: usize = 16;

/// The row, the word in the row and the half of the word in which element `e` of lane `lane` lies.
fn place(lane: usize, e: usize, transposed: bool) -> (usize, usize, usize) {
    let (own, pair) = (lane / 4, 2 * (lane % 4) + e);
    let (row, column) = if transposed { (pair, own) } else { (own, pair) };
    (row, column / 2, column % 2)
}

/// Spreads the rows of matrices over the lanes.
fn spread(regs: &mut Registers, planes: &Planes, matrices: &Matrices) {
    for (i, d) in matrices.regs.iter().enumerate() {
        let mut out = Row([0; LANES]);
        for lane in 0..LANES {
            for e in 0..2 {
                let (row, word, half) = place(lane, e, matrices.transposed);
                let bits = planes[word].0[8 * i + row] >> (16 * half) & 0xffff;
                out.0[lane] |= bits << (16 * e);
            }
        }
        regs.put(*d, &out, FULL_MASK);
    }
}

impl Warp {
    pub(super) fn load_matrices(
        &mut self,
        block: &mut Block<'_>,
        matrices: &Matrices,
        path: usize,
    ) -> Checked<()> {
        self.tolerates = true;
        let loaded = self.access_rows(block, matrices, path, Intent::Read);
        self.tolerates = false;
        loaded?;
        if self.missing.is_some() || self.open.is_some() {
            self.unpack_open(|regs, planes| spread(regs, planes, matrices));
        }
        spread(&mut self.regs, &self.planes, matrices);
        Ok(())
    }

    pub(super) fn store_matrices(
        &mut self,
        block: &mut Block<'_>,
        matrices: &Matrices,
        path: usize,
    ) -> Checked<()> {
        let constants = &block.launch.program.constants;
        for (i, source) in matrices.regs.iter().enumerate() {
            let own = self.regs.row::<u32>(constants, *source);
            for lane in 0..LANES {
                for e in 0..2 {
                    let (row, word, half) = place(lane, e, matrices.transposed);
                    let cell = &mut self.planes[word].0[8 * i + row];
                    let bits = own.0[lane] >> (16 * e) & 0xffff;
                    *cell = *cell & !(0xffff << (16 * half)) | bits << (16 * half);
                }
            }
        }
        block.cluster.effect();
        self.access_rows(block, matrices, path, Intent::Write)
    }

    /// Moves the rows between shared memory and the planes.
    fn access_rows(
        &mut self,
        block: &mut Block<'_>,
        matrices: &Matrices,
        path: usize,
        intent: Intent,
    ) -> Checked<()> {
        let addresses = self.addresses(block, matrices.base, matrices.offset, path);
        let mask = u32::MAX >> (32 - 8 * matrices.regs.len());
        let addresses = (matrices.space, &addresses);
        self.access_matrix(
            block,
            &[Space::Shared],
            addresses,
            (mask, ROW_BYTES),
            intent,
        )
    }

    /// Moves `bytes` of each lane of `mask` between memory of these spaces and the planes.
    pub(super) fn access_matrix(
        &mut self,
        block: &mut Block<'_>,
        spaces: &[Space],
        (space, addresses): (Space, &Row<u64>),
        (mask, bytes): (u32, usize),
        intent: Intent,
    ) -> Checked<()> {
        self.each_space(space, addresses, mask, |warp, space, own, mask| {
            if !spaces.contains(&space) {
                let lane = mask.trailing_zeros();
                let address = own.0[lane as usize];
                let names: Vec<&str> = spaces.iter().map(|space| space.name()).collect();
                let names = names.join(" or ");
                let message = format!(
                    "0x{address:x} of {} memory is not an address of {names} memory",
                    space.name()
                );
                let fault = Fault::new(FaultKind::OutOfBounds, Some(lane), message);
                return Err(fault.at(address));
            }
            warp.transfer(block, space, own, mask, bytes, intent)?;
            let touch = match intent {
                Intent::Read => Touch::Load,
                Intent::Write => Touch::Store,
            };
            count(block, space, touch, own, mask, bytes);
            Ok(())
        })
    }

    /// `movmatrix`: transposes a matrix.
    pub(super) fn move_matrix(&mut self, block: &Block<'_>, d: Slot, a: Slot) {
        self.on_copies(|warp| warp.move_matrix(block, d, a));
        let own = self.row32(block, a);
        let mut out = Row([0; LANES]);
        for lane in 0..LANES {
            for e in 0..2 {
                let (row, word, half) = place(lane, e, true);
                // Row `row` is held by lanes `4 * row ..`, one word each.
                let bits = own.0[4 * row + word] >> (16 * half) & 0xffff;
                out.0[lane] |= bits << (16 * e);
            }
        }
        self.regs.put(d, &out, FULL_MASK);
    }
}
