//! `wmma.load` and `wmma.store`: a matrix between memory and the fragments of a warp. A `wmma.mma`
//! runs as `mma`.

use super::uniform;
use crate::exec::access::Intent;
use crate::exec::block::Block;
use crate::exec::fault::{Checked, Fault};
use crate::exec::registers::{Constants, Registers};
use crate::exec::row::{FULL_MASK, LANES, Row};
use crate::exec::warp::Warp;
use crate::memory::lanes::Planes;
use crate::memory::space::Space;
use crate::memory::words::low_bits;
use crate::program::tensor::{ConvertSums, Fragment};
use crate::report::FaultKind;
use crate::semantics::fp16::{F16, Half};
use crate::semantics::tensor::wmma::Matrix;

/// The state spaces that hold matrices.
const SPACES: [Space; 2] = [Space::Global, Space::Shared];

/// Where a matrix begins, and how many elements its lines are apart.
#[derive(Clone, Copy)]
struct Origin {
    address: u64,
    stride: u64,
}

/// Part `part` of register `reg` of a fragment, and of those that repeat it.
#[derive(Clone, Copy)]
struct Part<'a> {
    fragment: &'a Fragment,
    reg: usize,
    part: usize,
}

impl Part<'_> {
    /// The parts of a fragment.
    fn all(fragment: &Fragment) -> impl Iterator<Item = Part<'_>> {
        let matrix = &fragment.matrix;
        (0..matrix.distinct()).flat_map(move |reg| {
            (0..matrix.parts()).map(move |part| Part {
                fragment,
                reg,
                part,
            })
        })
    }

    /// The bit of the register where it begins.
    fn shift(self) -> usize {
        8 * self.part * self.fragment.matrix.part_bytes()
    }

    fn addresses(self, origin: Origin) -> Row<u64> {
        let matrix = &self.fragment.matrix;
        let at = |lane| matrix.offset(origin.stride, lane, self.reg, self.part);
        Row(std::array::from_fn(|lane| {
            origin.address.wrapping_add(at(lane))
        }))
    }

    /// Writes what was loaded to the registers. Parts come in order, and the first clears the
    /// others.
    fn unpack(self, regs: &mut Registers, constants: &Constants, planes: &Planes) {
        let Fragment {
            matrix, regs: own, ..
        } = self.fragment;
        for slot in own.iter().skip(self.reg).step_by(matrix.distinct()) {
            if matrix.register_bits() == 64 {
                let (low, high) = (&planes[0].0, &planes[1].0);
                let whole = |lane| u64::from(low[lane]) | u64::from(high[lane]) << 32;
                regs.put(*slot, &Row(std::array::from_fn(whole)), FULL_MASK);
                continue;
            }
            let old = match self.part {
                0 => Row([0; LANES]),
                _ => *regs.row::<u32>(constants, *slot),
            };
            let merged = |lane: usize| old.0[lane] | planes[0].0[lane] << self.shift();
            regs.put(*slot, &Row(std::array::from_fn(merged)), FULL_MASK);
        }
    }

    /// Collects what is stored.
    fn pack(self, regs: &Registers, constants: &Constants, planes: &mut Planes) {
        let slot = self.fragment.regs[self.reg];
        if self.fragment.matrix.register_bits() == 64 {
            let whole = regs.row::<u64>(constants, slot);
            planes[0] = whole.map(|bits| bits as u32);
            planes[1] = whole.map(|bits| (bits >> 32) as u32);
            return;
        }
        let bits = low_bits(8 * self.fragment.matrix.part_bytes());
        let word = regs.row::<u32>(constants, slot);
        planes[0] = word.map(|word| word >> self.shift() & bits);
    }
}

/// Refuses what PTX leaves undefined.
fn check(matrix: &Matrix, origin: Origin) -> Checked<()> {
    let Origin { address, stride } = origin;
    let misaligned = |message| Err(Fault::new(FaultKind::Misaligned, None, message).at(address));
    let (line, name) = (matrix.line(), matrix.line_name());
    if (stride as i32) < line as i32 {
        return misaligned(format!(
            "a stride of {} elements, but a {name} of the matrix has {line}",
            stride as i32
        ));
    }
    let alignment = matrix.alignment();
    if !address.is_multiple_of(alignment as u64) {
        return misaligned(format!(
            "the matrix is at 0x{address:x}, which is not a multiple of {alignment}, the bytes of \
             a lane's fragment"
        ));
    }
    let bits = 8 * matrix.line_alignment() as u64;
    if !matrix.stride_bits(stride).is_multiple_of(bits) {
        return misaligned(format!(
            "a stride of {stride} elements: the bytes from one {name} to the next are not a \
             multiple of {}",
            bits / 8
        ));
    }
    Ok(())
}

impl Warp {
    pub(super) fn load_fragment(
        &mut self,
        block: &mut Block<'_>,
        fragment: &Fragment,
        path: usize,
    ) -> Checked<()> {
        let origin = self.origin(block, fragment, path)?;
        for part in Part::all(fragment) {
            self.tolerates = true;
            let loaded = self.access_part(block, part, origin, Intent::Read);
            self.tolerates = false;
            loaded?;
            let constants = &block.launch.program.constants;
            if self.missing.is_some() || self.open.is_some() {
                self.unpack_open(|regs, planes| part.unpack(regs, constants, planes));
            }
            part.unpack(&mut self.regs, constants, &self.planes);
        }
        Ok(())
    }

    pub(super) fn store_fragment(
        &mut self,
        block: &mut Block<'_>,
        fragment: &Fragment,
        path: usize,
    ) -> Checked<()> {
        let origin = self.origin(block, fragment, path)?;
        block.cluster.effect();
        for part in Part::all(fragment) {
            let constants = &block.launch.program.constants;
            part.pack(&self.regs, constants, &mut self.planes);
            self.access_part(block, part, origin, Intent::Write)?;
        }
        Ok(())
    }

    fn origin(&self, block: &Block<'_>, fragment: &Fragment, path: usize) -> Checked<Origin> {
        let address = self.addresses(block, fragment.base, fragment.offset, path);
        let stride = self.row32(block, fragment.stride).map(u64::from);
        let origin = Origin {
            address: uniform(&address, "the address of the matrix")?,
            stride: uniform(&stride, "the stride")?,
        };
        check(&fragment.matrix, origin)?;
        Ok(origin)
    }

    fn access_part(
        &mut self,
        block: &mut Block<'_>,
        part: Part<'_>,
        origin: Origin,
        intent: Intent,
    ) -> Checked<()> {
        let bytes = part.fragment.matrix.part_bytes();
        let addresses = (part.fragment.space, &part.addresses(origin));
        self.access_matrix(block, &SPACES, addresses, (FULL_MASK, bytes), intent)
    }

    /// Converts accumulators between f16 and f32.
    pub(super) fn convert_sums(&mut self, block: &Block<'_>, sums: &ConvertSums) {
        self.on_copies(|warp| warp.convert_pairs(block, sums));
        self.convert_pairs(block, sums);
    }

    fn convert_pairs(&mut self, block: &Block<'_>, sums: &ConvertSums) {
        for (narrow, wide) in sums.narrow.iter().zip(sums.wide.chunks_exact(2)) {
            if sums.widens {
                let pairs = self.row32(block, *narrow);
                for (half, wide) in wide.iter().enumerate() {
                    let part = |pair: u32| F16::widen((pair >> (16 * half)) as u16).to_bits();
                    self.regs.put(*wide, &pairs.map(part), FULL_MASK);
                }
                continue;
            }
            let halves = [wide[0], wide[1]].map(|wide| {
                let row = self.row32(block, wide);
                row.map(|bits| u32::from(F16::narrow(f32::from_bits(bits))))
            });
            let pair = |lane: usize| halves[0].0[lane] | halves[1].0[lane] << 16;
            let pairs = Row(std::array::from_fn(pair));
            self.regs.put(*narrow, &pairs, FULL_MASK);
        }
    }
}
