//! Tensor maps in memory: reading them for copies, and the `tensormap` instructions.

use crate::exec::block::Block;
use crate::exec::fault::{Checked, Fault};
use crate::exec::row::Lanes;
use crate::exec::warp::Warp;
use crate::memory::global::{Allocation, at_or_below};
use crate::memory::space::Space;
use crate::program::{MapField, Pointer, ReplaceField, Width};
use crate::report::FaultKind;
use crate::tensor_map::{
    Fill, Im2col, Swizzle, TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES, TENSOR_MAP_RANK, TensorMapDesc,
    TensorMapType,
};

/// Element types in the order of the numbers that `tensormap.replace` uses.
const ELEMENT_TYPES: [TensorMapType; 13] = [
    TensorMapType::U8,
    TensorMapType::U16,
    TensorMapType::U32,
    TensorMapType::I32,
    TensorMapType::U64,
    TensorMapType::I64,
    TensorMapType::F16,
    TensorMapType::F32,
    TensorMapType::F32Ftz,
    TensorMapType::F64,
    TensorMapType::Bf16,
    TensorMapType::Tf32,
    TensorMapType::Tf32Ftz,
];

type Bytes = [u8; TENSOR_MAP_BYTES];

#[cold]
fn wrong(lane: usize, address: u64, message: String) -> Box<Fault> {
    Fault::new(FaultKind::TensorMap, Some(lane as u32), message).at(address)
}

/// Space and address in it.
fn resolve(space: Space, address: u64) -> (Space, u64) {
    if space != Space::Generic {
        return (space, address);
    }
    let space = Space::of_generic(address);
    (space, address.wrapping_sub(space.window()))
}

/// The allocation that contains a map, and the map's offset in it.
fn allocation<'a>(block: &Block<'a>, address: u64) -> Option<(&'a Allocation, usize)> {
    let (_, found) = at_or_below(&block.launch.memory, address)?;
    let offset = address - found.base;
    let fits = offset < found.len && found.len - offset >= TENSOR_MAP_BYTES as u64;
    (fits && !found.is_freed()).then_some((found, offset as usize))
}

/// The map at an address, decoded and checked for a copy.
pub(super) fn read_map(
    block: &Block<'_>,
    space: Space,
    address: u64,
    lane: usize,
) -> Checked<(TensorMapDesc, Option<Im2col>)> {
    if !address.is_multiple_of(TENSOR_MAP_ALIGN) {
        let message = format!(
            "the tensor map at 0x{address:x}: the address must be a multiple of {TENSOR_MAP_ALIGN}"
        );
        return Err(wrong(lane, address, message));
    }
    let (space, own) = resolve(space, address);
    let mut bytes = [0; TENSOR_MAP_BYTES];
    let in_bounds = match space {
        Space::Param => {
            let rest = block.launch.params.get(own as usize..);
            let found = rest.and_then(|rest| rest.get(..TENSOR_MAP_BYTES));
            found.map(|found| bytes.copy_from_slice(found)).is_some()
        }
        Space::Global | Space::Generic => allocation(block, own)
            .map(|(found, offset)| found.bytes().copy_out(offset, &mut bytes))
            .is_some(),
        Space::Shared | Space::Local => false,
    };
    if !in_bounds {
        let message = format!(
            "no tensor map can be at 0x{address:x} of {} memory: it must lie in global memory or \
             in a kernel parameter, with all of its {TENSOR_MAP_BYTES} bytes",
            space.name()
        );
        return Err(wrong(lane, address, message));
    }
    TensorMapDesc::decode(&bytes)
        .map_err(|error| wrong(lane, address, format!("the map at 0x{address:x}: {error}")))
}

impl Warp {
    /// `tensormap.replace`
    pub(in crate::exec) fn replace_field(
        &self,
        block: &Block<'_>,
        op: &ReplaceField,
        index: usize,
        active: u32,
    ) -> Checked<()> {
        let addresses = self.addresses(block, op.map.base, op.map.offset, index);
        block.cluster.effect();
        for lane in Lanes(active) {
            let address = addresses.0[lane];
            let value = match op.value.width {
                Width::B64 => self.lane64(block, op.value.slot, lane),
                _ => u64::from(self.lane32(block, op.value.slot, lane)),
            };
            let mut bytes = self.load_map(block, op.map.space, address, lane)?;
            replaced(&mut bytes, op.field, value).map_err(|why| wrong(lane, address, why))?;
            self.store_map(block, op.map.space, address, &bytes, lane)?;
        }
        Ok(())
    }

    /// `tensormap.cp_fenceproxy`: the lanes of a warp copy one map together.
    pub(in crate::exec) fn copy_map(
        &self,
        block: &Block<'_>,
        to: &Pointer,
        from: &Pointer,
        index: usize,
        active: u32,
    ) -> Checked<()> {
        let lane = active.trailing_zeros() as usize;
        let source = self.addresses(block, from.base, from.offset, index).0[lane];
        let target = self.addresses(block, to.base, to.offset, index).0[lane];
        let bytes = self.load_map(block, from.space, source, lane)?;
        block.cluster.effect();
        self.store_map(block, to.space, target, &bytes, lane)
    }

    fn load_map(&self, block: &Block<'_>, space: Space, at: u64, lane: usize) -> Checked<Bytes> {
        let mut bytes = [0; TENSOR_MAP_BYTES];
        let len = TENSOR_MAP_BYTES as u64;
        let written = match resolve(space, at) {
            (Space::Shared, own) => {
                let place = block.shared_place(own, lane, len, TENSOR_MAP_ALIGN, "a tensor map")?;
                let memory = block.cluster.shared[place.rank as usize].bytes();
                memory.copy_out(place.offset as usize, &mut bytes);
                memory.range_written(place.offset as usize, TENSOR_MAP_BYTES)
            }
            (Space::Global, own) => {
                let (found, offset) =
                    allocation(block, own).ok_or_else(|| self.no_map(at, lane))?;
                found.bytes().copy_out(offset, &mut bytes);
                found.bytes().range_written(offset, TENSOR_MAP_BYTES)
            }
            _ => return Err(self.no_map(at, lane)),
        };
        if !written {
            let message = format!("the tensor map at 0x{at:x} was not written in full");
            return Err(wrong(lane, at, message));
        }
        Ok(bytes)
    }

    fn store_map(
        &self,
        block: &Block<'_>,
        space: Space,
        at: u64,
        bytes: &Bytes,
        lane: usize,
    ) -> Checked<()> {
        let len = TENSOR_MAP_BYTES as u64;
        match resolve(space, at) {
            (Space::Shared, own) => {
                let place = block.shared_place(own, lane, len, TENSOR_MAP_ALIGN, "a tensor map")?;
                let memory = block.cluster.shared[place.rank as usize].bytes();
                memory.copy_in(place.offset as usize, bytes);
            }
            (Space::Global, own) => {
                let (found, offset) = allocation(block, own)
                    .filter(|(found, _)| !found.read_only)
                    .ok_or_else(|| self.no_map(at, lane))?;
                found.bytes().copy_in(offset, bytes);
            }
            _ => return Err(self.no_map(at, lane)),
        }
        Ok(())
    }

    #[cold]
    fn no_map(&self, at: u64, lane: usize) -> Box<Fault> {
        let message = format!(
            "no tensor map can be changed at 0x{at:x}: {TENSOR_MAP_BYTES} bytes of global or \
             shared memory are needed"
        );
        wrong(lane, at, message)
    }
}

/// Replaces a field. Its value is checked only when a copy uses the map, since a kernel may replace
/// one field after another.
fn replaced(bytes: &mut Bytes, field: MapField, value: u64) -> Result<(), String> {
    let (mut map, im2col) = match bytes.iter().all(|byte| *byte == 0) {
        // A kernel makes a map from nothing: it zeroes the bytes, and sets each field.
        true => (TensorMapDesc::zeroed(), None),
        false => TensorMapDesc::decode_unchecked(bytes).map_err(|error| error.to_string())?,
    };
    let rank = map.dims.len();
    let small = value as u32;
    let set = |list: &mut Vec<u32>, axis: usize| {
        let count = list.len();
        let place = list.get_mut(axis);
        *place.ok_or_else(|| format!("dimension {axis} of a map of {count}"))? = small;
        Ok::<(), String>(())
    };
    match field {
        MapField::GlobalAddress => map.address = value,
        MapField::Rank => {
            let rank = small as usize + 1;
            if small as usize >= TENSOR_MAP_RANK {
                return Err(format!(
                    "a rank of {rank}: it must be 1 to {TENSOR_MAP_RANK}"
                ));
            }
            map.dims.resize(rank, 1);
            map.strides_bytes.resize(rank - 1, 0);
            map.element_strides.resize(rank, 1);
            if im2col.is_none() {
                map.box_dims.resize(rank, 1);
            }
        }
        MapField::BoxDim(axis) => set(&mut map.box_dims, axis)?,
        MapField::ElementStride(axis) => set(&mut map.element_strides, axis)?,
        MapField::GlobalDim(axis) => match map.dims.get_mut(axis) {
            Some(dim) => *dim = u64::from(small),
            None => return Err(format!("dimension {axis} of a map of {rank}")),
        },
        MapField::GlobalStride(axis, unit) => match map.strides_bytes.get_mut(axis) {
            Some(stride) => *stride = value.wrapping_mul(unit),
            None => return Err(format!("stride {axis} of a map of {rank} dimensions")),
        },
        MapField::ElementType => {
            let known = ELEMENT_TYPES.get(small as usize);
            map.data_type = *known.ok_or_else(|| format!("element type {small}: 0 to 12"))?;
        }
        MapField::Interleave if small == 0 => {}
        MapField::Interleave => {
            return Err(format!("interleave layout {small}: only 0 is supported"));
        }
        MapField::Swizzle => {
            let known = Swizzle::ALL.get(small as usize);
            map.swizzle = *known.ok_or_else(|| format!("swizzle mode {small}: 0 to 3"))?;
        }
        MapField::Fill => {
            let known = [Fill::Zeros, Fill::Nan];
            let known = known.get(small as usize);
            map.fill = *known.ok_or_else(|| format!("fill mode {small}: 0 or 1"))?;
        }
    }
    *bytes = map.encode_unchecked(im2col.as_ref());
    Ok(())
}
