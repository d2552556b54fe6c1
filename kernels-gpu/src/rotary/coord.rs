//! Which slot of which heads of which token a thread has.

use abi::elementwise::MAX_RANK;
use abi::rotary::{HEADS, RotaryParams, THREADS, flags};
use cuda_std::hint::opaque;
use cuda_std::{math, thread};

/// The arrays of a launch.
#[derive(Clone, Copy)]
pub(super) struct Arrays<'a> {
    pub(super) x: *const u8,
    pub(super) y: *mut u8,
    pub(super) cos: *const u8,
    pub(super) sin: *const u8,
    pub(super) positions: *const i32,
    pub(super) params: &'a RotaryParams,
}

/// A thread's place.
#[derive(Clone, Copy)]
pub(super) struct Coord {
    /// Slot of a head.
    pub(super) slot: u32,
    /// The first of its heads.
    pub(super) head: u32,
    /// The token, in elements of y and of x.
    pub(super) of_y: i64,
    pub(super) of_x: i64,
    /// The token's position. What looks at it waits for it.
    position: i64,
}

impl Arrays<'_> {
    /// This thread's place; `None` behind the last one.
    ///
    /// # Safety
    /// The arrays are those of the launch.
    #[inline(always)]
    pub(super) unsafe fn coord(&self) -> Option<Coord> {
        let params = self.params;
        let index = thread::block_idx_x() * THREADS + thread::thread_idx_x();
        let (rest, slot) = params.slots.div_rem(index);
        let (token, head) = params.groups.div_rem(rest);
        if token >= params.walk.len {
            return None;
        }
        let (mut offsets, mut rest, mut dimension) = ([0_i64; 4], token, 0);
        while dimension < params.walk.rank {
            let axis = dimension as usize % MAX_RANK;
            let (quotient, at) = params.walk.extents[axis].div_rem(rest);
            for t in 0..4 {
                let step = i64::from(at).wrapping_mul(params.walk.strides[t][axis]);
                offsets[t] = offsets[t].wrapping_add(step);
            }
            rest = quotient;
            // Not unrolled: there are few dimensions, and all threads have the same number.
            dimension = opaque(dimension) + 1;
        }
        let [of_y, of_x, of_position, counted] = offsets;
        let mut position = params.base.wrapping_add(counted);
        if !self.positions.is_null() {
            let from = self.positions.wrapping_offset(of_position as isize);
            // SAFETY: the token's element.
            position = position.wrapping_add(i64::from(unsafe { from.read() }));
        }
        Some(Coord {
            slot,
            head,
            of_y,
            of_x,
            position,
        })
    }

    /// The token's row of the tables, if it has one.
    #[inline(always)]
    pub(super) fn row(&self, coord: &Coord) -> Option<i64> {
        // A negative one is larger than any number of rows.
        ((coord.position as u64) < self.params.rows).then_some(coord.position)
    }

    /// Head `j` of the thread, if it has so many.
    #[inline(always)]
    pub(super) fn head(&self, coord: &Coord, j: usize) -> Option<i64> {
        let head = coord.head + j as u32 * self.params.groups.divisor;
        (head < self.params.heads).then_some(i64::from(head))
    }

    /// Element `at` of a head in x; in y.
    #[inline(always)]
    pub(super) fn of_x<T>(&self, coord: &Coord, head: i64, at: i64) -> *const T {
        let params = self.params;
        let offset = coord.of_x + head * params.head_strides[1] + at * params.last_strides[1];
        self.x.cast::<T>().wrapping_offset(offset as isize)
    }

    #[inline(always)]
    pub(super) fn of_y<T>(&self, coord: &Coord, head: i64, at: i64) -> *mut T {
        let params = self.params;
        let offset = coord.of_y + head * params.head_strides[0] + at * params.last_strides[0];
        self.y.cast::<T>().wrapping_offset(offset as isize)
    }

    /// The places of `column` of a row in the cosines and in the sines.
    #[inline(always)]
    pub(super) fn tables<C>(&self, row: i64, column: i64) -> [*const C; 2] {
        let params = self.params;
        let of = |start: *const u8, [of_row, of_column]: [i64; 2]| {
            let offset = row * of_row + column * of_column;
            start.cast::<C>().wrapping_offset(offset as isize)
        };
        [
            of(self.cos, params.cos_strides),
            of(self.sin, params.sin_strides),
        ]
    }

    /// The sine with the sign of the launch's direction.
    #[inline(always)]
    pub(super) fn signed(&self, sin: f32) -> f32 {
        const { assert!(flags::INVERSE == 1) };
        f32::from_bits(sin.to_bits() ^ self.params.flags << 31)
    }
}

/// Number of a thread's heads.
pub(super) const OWN: usize = HEADS as usize;

/// (a cos - b sin, b cos + a sin).
#[inline(always)]
pub(super) fn turned(a: f32, b: f32, cos: f32, sin: f32) -> (f32, f32) {
    (math::fma(-b, sin, a * cos), math::fma(a, sin, b * cos))
}
