//! Whether two tensors share an element.

use super::layout::Layout;

/// Whether `a` and `b`, layouts of one storage, may have an element in common. `false` is certain.
/// `true` is also returned for disjoint layouts that interleave without a common period.
pub(crate) fn may_overlap(a: &Layout, b: &Layout) -> bool {
    let (Some(of_a), Some(of_b)) = (a.bounds(), b.bounds()) else {
        return false;
    };
    if of_a.1 < of_b.0 || of_b.1 < of_a.0 {
        return false;
    }
    // Disjoint column blocks, even and odd rows and the like: modulo some stride, the two cover
    // disjoint intervals.
    let periods = a
        .strides
        .iter()
        .chain(&*b.strides)
        .map(|&stride| i128::from(stride).abs());
    !periods
        .filter(|&period| period > 1)
        .any(|period| apart_modulo(a, b, period))
}

/// Whether `a` and `b` cover disjoint intervals of the storage indices modulo `period`.
fn apart_modulo(a: &Layout, b: &Layout, period: i128) -> bool {
    let (Some((a_first, a_len)), Some((b_first, b_len))) = (part(a, period), part(b, period))
    else {
        return false;
    };
    // On a circle of `period` elements, the distance from the start of `a` to the start of `b`.
    let distance = (b_first - a_first).rem_euclid(period);
    distance >= a_len && period - distance >= b_len
}

/// Start and length of an interval that covers all elements modulo `period`; `None` where it is
/// the whole period.
fn part(layout: &Layout, period: i128) -> Option<(i128, i128)> {
    let (mut low, mut high) = (0_i128, 0_i128);
    for (&extent, &stride) in layout.shape.iter().zip(&*layout.strides) {
        let stride = i128::from(stride);
        if stride % period != 0 {
            let reach = (extent as i128 - 1) * stride;
            low += reach.min(0);
            high += reach.max(0);
        }
    }
    let len = high - low + 1;
    (len < period).then(|| ((layout.offset as i128 + low).rem_euclid(period), len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix() -> Layout {
        Layout::contiguous(&[4, 8]).expect("a small shape")
    }

    #[test]
    fn columns_side_by_side_do_not_overlap() {
        let left = matrix().slice(1, 0, 4, 1).expect("inside");
        let right = matrix().slice(1, 4, 8, 1).expect("inside");
        let middle = matrix().slice(1, 3, 5, 1).expect("inside");
        assert!(!may_overlap(&left, &right));
        assert!(may_overlap(&left, &middle));
        assert!(may_overlap(&middle, &right));
    }

    #[test]
    fn even_and_odd_elements_do_not_overlap() {
        let even = matrix().slice(1, 0, 8, 2).expect("inside");
        let odd = matrix().slice(1, 1, 8, 2).expect("inside");
        assert!(!may_overlap(&even, &odd));
        assert!(may_overlap(&even, &matrix()));
    }

    #[test]
    fn a_tensor_overlaps_itself_unless_it_is_empty() {
        assert!(may_overlap(&matrix(), &matrix().transposed()));
        let empty = matrix().slice(0, 2, 2, 1).expect("inside");
        assert!(!may_overlap(&empty, &matrix()));
    }
}
