//! The register files of a warp: one for each width, each laid out as `[slot][32 lanes]`.
//!
//! Every function call has a window in each file. Lanes of a warp may be in different functions at
//! the same depth. Their windows overlap, but no two lanes share a cell: a cell belongs to one
//! lane, whatever the slot stands for.

use super::row::{Bits, FULL_MASK, LANES, Row, mask_of};
use crate::memory::host::{Starved, has_room};
use crate::program::{Reg, Width};

/// A register of the current window, or a constant of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Slot(u32);

impl Slot {
    const CONSTANT: u32 = 1 << 31;

    /// Register `index` of the current window.
    pub(crate) fn register(index: u32) -> Self {
        Self(index)
    }

    /// Constant `index` of the program.
    pub(crate) fn constant(index: u32) -> Self {
        Self(index | Self::CONSTANT)
    }

    /// Position in the window, or among the constants.
    pub(crate) fn index(self) -> usize {
        (self.0 & !Self::CONSTANT) as usize
    }

    /// The position in the window; `None` for a constant.
    pub(crate) fn in_register(self) -> Option<usize> {
        (!self.is_constant()).then(|| self.index())
    }

    #[inline(always)]
    fn is_constant(self) -> bool {
        self.0 & Self::CONSTANT != 0
    }
}

/// A number of slots of each width: the size of a window, or the position of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Extent {
    pub(crate) b16: u32,
    pub(crate) b32: u32,
    pub(crate) b64: u32,
    pub(crate) pred: u32,
}

impl Extent {
    /// The position after a window of size `size` that begins at `self`.
    pub(crate) fn after(self, size: Self) -> Self {
        Self {
            b16: self.b16 + size.b16,
            b32: self.b32 + size.b32,
            b64: self.b64 + size.b64,
            pred: self.pred + size.pred,
        }
    }
}

/// Constants of a program, each the same in all lanes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Constants {
    pub(crate) b16: Vec<Row<u16>>,
    pub(crate) b32: Vec<Row<u32>>,
    pub(crate) b64: Vec<Row<u64>>,
    pub(crate) pred: Vec<u32>,
}

/// The register files of one warp, and the window in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Registers {
    b16: Vec<Row<u16>>,
    b32: Vec<Row<u32>>,
    b64: Vec<Row<u64>>,
    pred: Vec<u32>,
    window: Extent,
}

impl Registers {
    /// Makes the window at `window` the current one.
    #[inline]
    pub(crate) fn enter(&mut self, window: Extent) {
        self.window = window;
    }

    /// Makes room for slots up to `end`; false if the host has no memory for them, which starves the
    /// launch.
    #[must_use]
    pub(crate) fn reserve(&mut self, end: Extent, starved: &Starved) -> bool {
        grow(&mut self.b16, end.b16, Row::default(), starved)
            && grow(&mut self.b32, end.b32, Row::default(), starved)
            && grow(&mut self.b64, end.b64, Row::default(), starved)
            && grow(&mut self.pred, end.pred, 0, starved)
    }

    /// The mask of lanes in which a predicate is true.
    #[inline(always)]
    pub(crate) fn pred(&self, constants: &Constants, slot: Slot) -> u32 {
        if slot.is_constant() {
            constants.pred[slot.index()]
        } else {
            self.pred[slot.index() + self.window.pred as usize]
        }
    }

    /// Sets the lanes of `mask` of a predicate.
    #[inline(always)]
    pub(crate) fn set_pred(&mut self, slot: Slot, value: u32, mask: u32) {
        let cell = &mut self.pred[slot.index() + self.window.pred as usize];
        *cell = *cell & !mask | value & mask;
    }

    /// A row.
    #[inline(always)]
    pub(crate) fn row<'a, T: Lane>(&'a self, constants: &'a Constants, slot: Slot) -> &'a Row<T> {
        if slot.is_constant() {
            &T::constants(constants)[slot.index()]
        } else {
            &T::file(self)[slot.index() + T::base(self.window)]
        }
    }

    /// Position of a register in its file, whatever the window; `None` for a constant.
    #[inline(always)]
    pub(crate) fn position<T: Lane>(&self, slot: Slot) -> Option<usize> {
        (!slot.is_constant()).then(|| slot.index() + T::base(self.window))
    }

    /// The 32-bit row at a position.
    pub(crate) fn file_row(&self, position: usize) -> &Row<u32> {
        &self.b32[position]
    }

    /// 32-bit rows that there are.
    pub(crate) fn b32_count(&self) -> usize {
        self.b32.len()
    }

    /// A row to write to. Constants are never written: destinations are always registers.
    #[inline(always)]
    pub(crate) fn row_mut<T: Lane>(&mut self, slot: Slot) -> &mut Row<T> {
        let base = T::base(self.window);
        &mut T::file_mut(self)[slot.index() + base]
    }

    /// Writes the lanes of `mask`.
    #[inline(always)]
    pub(crate) fn put<T: Lane>(&mut self, slot: Slot, value: &Row<T>, mask: u32) {
        self.row_mut(slot).blend(value, mask);
    }

    /// Takes over the window and the sizes of other registers.
    pub(crate) fn follow(&mut self, other: &Self) {
        self.window = other.window;
        if self.b16.len() < other.b16.len() {
            self.b16.resize(other.b16.len(), Row::default());
        }
        if self.b32.len() < other.b32.len() {
            self.b32.resize(other.b32.len(), Row::default());
        }
        if self.b64.len() < other.b64.len() {
            self.b64.resize(other.b64.len(), Row::default());
        }
        if self.pred.len() < other.pred.len() {
            self.pred.resize(other.pred.len(), 0);
        }
    }

    /// The lanes in which a register, which is not a constant, differs from that of another file
    /// with the same window.
    pub(crate) fn differs(&self, other: &Self, reg: Reg) -> u32 {
        fn lanes<T: Lane + PartialEq>(a: &Registers, b: &Registers, slot: Slot) -> u32 {
            let at = slot.index() + T::base(a.window);
            let (a, b) = (&T::file(a)[at], &T::file(b)[at]);
            mask_of(|lane| a.0[lane] != b.0[lane])
        }
        if reg.slot.is_constant() {
            return 0;
        }
        match reg.width {
            Width::Pred => {
                let at = reg.slot.index() + self.window.pred as usize;
                self.pred[at] ^ other.pred[at]
            }
            Width::B16 => lanes::<u16>(self, other, reg.slot),
            Width::B32 => lanes::<u32>(self, other, reg.slot),
            Width::B64 => lanes::<u64>(self, other, reg.slot),
        }
    }

    /// Takes over the lanes of `mask` of a register from a file with the same window.
    pub(crate) fn take_over(&mut self, other: &Self, reg: Reg, mask: u32) {
        fn copy<T: Lane>(to: &mut Registers, from: &Registers, slot: Slot, mask: u32) {
            let at = slot.index() + T::base(from.window);
            let row = T::file(from)[at];
            to.put(slot, &row, mask);
        }
        if reg.slot.is_constant() {
            return;
        }
        match reg.width {
            Width::Pred => {
                let at = reg.slot.index() + other.window.pred as usize;
                self.set_pred(reg.slot, other.pred[at], mask);
            }
            Width::B16 => copy::<u16>(self, other, reg.slot, mask),
            Width::B32 => copy::<u32>(self, other, reg.slot, mask),
            Width::B64 => copy::<u64>(self, other, reg.slot, mask),
        }
    }

    /// Sets all bits of a register to `bit`, in the lanes of `mask`.
    pub(crate) fn fill(&mut self, reg: Reg, bit: bool, mask: u32) {
        let ones = if bit { u64::MAX } else { 0 };
        match reg.width {
            Width::Pred => self.set_pred(reg.slot, ones as u32, mask),
            Width::B16 => self.splat(reg.slot, ones as u16, mask),
            Width::B32 => self.splat(reg.slot, ones as u32, mask),
            Width::B64 => self.splat(reg.slot, ones, mask),
        }
    }

    /// Writes one value to the lanes of `mask`.
    #[inline(always)]
    pub(crate) fn splat<T: Lane>(&mut self, slot: Slot, value: T, mask: u32) {
        let row = Row([value; LANES]);
        if mask == FULL_MASK {
            *self.row_mut(slot) = row;
        } else {
            self.put(slot, &row, mask);
        }
    }
}

fn grow<T: Clone>(file: &mut Vec<T>, len: u32, fresh: T, starved: &Starved) -> bool {
    let more = (len as usize).saturating_sub(file.len());
    if more > 0 {
        if !has_room(file, more, starved, "registers") {
            return false;
        }
        file.resize(len as usize, fresh);
    }
    true
}

/// A register width with a file of its own.
pub(crate) trait Lane: Bits {
    const WIDTH: Width;
    fn file(registers: &Registers) -> &[Row<Self>];
    fn file_mut(registers: &mut Registers) -> &mut [Row<Self>];
    fn constants(constants: &Constants) -> &[Row<Self>];
    fn base(window: Extent) -> usize;
}

macro_rules! lane {
    ($($t:ty => $file:ident, $width:ident;)*) => {$(
        impl Lane for $t {
            const WIDTH: Width = Width::$width;

            #[inline(always)]
            fn file(registers: &Registers) -> &[Row<Self>] {
                &registers.$file
            }

            #[inline(always)]
            fn file_mut(registers: &mut Registers) -> &mut [Row<Self>] {
                &mut registers.$file
            }

            #[inline(always)]
            fn constants(constants: &Constants) -> &[Row<Self>] {
                &constants.$file
            }

            #[inline(always)]
            fn base(window: Extent) -> usize {
                window.$file as usize
            }
        }
    )*};
}

lane!(u16 => b16, B16; u32 => b32, B32; u64 => b64, B64;);
