//! Heads whose elements lie side by side, by vectors of 16 bytes.

use cuda_std::mem;

use super::coord::{Arrays, OWN, turned};
use super::lanes::{Lanes, Raw, Table};

/// # Safety
/// The arrays are those of the launch; all heads, and rows of the tables, lie on multiples of 16
/// bytes.
#[inline(always)]
pub(super) unsafe fn rotate<
    T: Lanes<V>,
    C: Table<V>,
    const V: usize,
    const IS_INTERLEAVED: bool,
>(
    arrays: &Arrays<'_>,
) {
    let lanes = V as u32;
    let params = arrays.params;
    let (half, written) = (params.half, params.written);
    // SAFETY: passed on to the caller.
    let Some(coord) = (unsafe { arrays.coord() }) else {
        return;
    };
    let pairs = half / lanes;
    let is_rotated = coord.slot < pairs;
    // Neighbouring threads have neighbouring vectors, in the first half of what is turned (or
    // copied) and in the second.
    let (first, second) = match is_rotated {
        true => (lanes * coord.slot, lanes * coord.slot + half),
        false => {
            let copied = 2 * half + lanes * (coord.slot - pairs);
            (copied, copied + lanes * (params.slots.divisor - pairs))
        }
    };
    // Of a single vector to be copied, that one twice.
    let columns = [first, if second < written { second } else { first }].map(i64::from);
    let mut raw: [[Raw; 2]; OWN] = [[[0; 4]; 2]; OWN];
    for j in 0..OWN {
        if let Some(head) = arrays.head(&coord, j) {
            // SAFETY: vectors of the head.
            raw[j] = columns.map(|at| unsafe {
                mem::ld_global_once_v4_u32(arrays.of_x::<T>(&coord, head, at).cast())
            });
        }
    }
    if is_rotated {
        let (mut cos, mut sin) = ([f32::NAN; V], [f32::NAN; V]);
        if let Some(row) = arrays.row(&coord) {
            // SAFETY: there is such a row, of `half` columns.
            unsafe { (cos, sin) = angles::<C, V, IS_INTERLEAVED>(arrays, row, first) };
        }
        sin = sin.map(|sin| arrays.signed(sin));
        for j in 0..OWN {
            raw[j] = vectors::<T, V, IS_INTERLEAVED>(raw[j], &cos, &sin);
        }
    }
    for j in 0..OWN {
        if let Some(head) = arrays.head(&coord, j) {
            for k in 0..2 {
                let to = arrays.of_y::<T>(&coord, head, columns[k]);
                // SAFETY: a vector of the head, which this thread alone has.
                unsafe { mem::st_global_v4_u32(to.cast(), raw[j][k]) };
            }
        }
    }
}

/// The cosines and sines of a row for the vectors that begin at element `first` of the first half,
/// and at its like of the second.
///
/// # Safety
/// There are such a row and such vectors.
#[inline(always)]
unsafe fn angles<C: Table<V>, const V: usize, const IS_INTERLEAVED: bool>(
    arrays: &Arrays<'_>,
    row: i64,
    first: u32,
) -> ([f32; V], [f32; V]) {
    // SAFETY: passed on to the caller.
    unsafe {
        if !IS_INTERLEAVED {
            let [cos, sin] = arrays.tables::<C>(row, first.into());
            return (C::load_lanes(cos), C::load_lanes(sin));
        }
        // A vector of neighbours has half as many pairs.
        let [cos, sin] = arrays.tables::<C>(row, (first / 2).into());
        let other = arrays.params.half as usize / 2;
        let load = |from: *const C| C::load_halves([from, from.wrapping_add(other)]);
        (load(cos), load(sin))
    }
}

/// Two vectors of pairs, turned.
#[inline(always)]
fn vectors<T: Lanes<V>, const V: usize, const IS_INTERLEAVED: bool>(
    raw: [Raw; 2],
    cos: &[f32; V],
    sin: &[f32; V],
) -> [Raw; 2] {
    let mut values = raw.map(T::widen);
    for i in 0..V {
        // Where the pair's elements are: vector and lane.
        let [(va, ia), (vb, ib)] = match IS_INTERLEAVED {
            true => [(2 * i / V, 2 * i % V), (2 * i / V, 2 * i % V + 1)],
            false => [(0, i), (1, i)],
        };
        (values[va][ia], values[vb][ib]) = turned(values[va][ia], values[vb][ib], cos[i], sin[i]);
    }
    values.map(T::narrow)
}
