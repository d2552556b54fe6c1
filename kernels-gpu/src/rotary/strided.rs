//! Heads of any strides, by single pairs.

use abi::rotary::flags;
use cuda_std::element::Element;

use super::coord::{Arrays, OWN, turned};

/// # Safety
/// The arrays are those of the launch.
#[inline(always)]
pub(super) unsafe fn rotate<T: Element, C: Element>(arrays: &Arrays<'_>) {
    // SAFETY: passed on to the caller.
    let Some(coord) = (unsafe { arrays.coord() }) else {
        return;
    };
    let (half, slot) = (arrays.params.half, coord.slot);
    if slot >= half {
        let at = i64::from(2 * half + (slot - half));
        for j in 0..OWN {
            if let Some(head) = arrays.head(&coord, j) {
                let (from, to) = (
                    arrays.of_x::<T>(&coord, head, at),
                    arrays.of_y::<T>(&coord, head, at),
                );
                // SAFETY: an element behind the pairs, which this thread alone has.
                unsafe { to.write(from.read()) };
            }
        }
        return;
    }
    let (first, second) = match arrays.params.flags & flags::INTERLEAVED != 0 {
        true => (2 * slot, 2 * slot + 1),
        false => (slot, slot + half),
    };
    let columns = [first, second].map(i64::from);
    let mut pairs = [[0.0; 2]; OWN];
    for j in 0..OWN {
        if let Some(head) = arrays.head(&coord, j) {
            // SAFETY: elements of the head.
            pairs[j] = columns.map(|at| unsafe { T::load(arrays.of_x::<T>(&coord, head, at)) });
        }
    }
    let (mut cos, mut sin) = (f32::NAN, f32::NAN);
    if let Some(row) = arrays.row(&coord) {
        let [from_cos, from_sin] = arrays.tables::<C>(row, i64::from(slot));
        // SAFETY: there is such a row, of `half` columns.
        unsafe { (cos, sin) = (C::load(from_cos), C::load(from_sin)) };
    }
    sin = arrays.signed(sin);
    for j in 0..OWN {
        if let Some(head) = arrays.head(&coord, j) {
            let (a, b) = turned(pairs[j][0], pairs[j][1], cos, sin);
            // SAFETY: elements of the head, which this thread alone has.
            unsafe {
                T::store(arrays.of_y::<T>(&coord, head, columns[0]), a);
                T::store(arrays.of_y::<T>(&coord, head, columns[1]), b);
            }
        }
    }
}
