//! Merging of dimensions.

/// Merges dimensions into one, and returns its extent and stride: `None` unless the elements, taken
/// in row-major order, are equally spaced.
pub(super) fn merge(shape: &[usize], strides: &[i64]) -> Option<(usize, i64)> {
    let mut merged: Option<(usize, i64)> = None;
    for (&extent, &stride) in shape.iter().zip(strides) {
        if extent == 0 {
            return Some((0, 0));
        }
        if extent == 1 {
            continue;
        }
        merged = match merged {
            None => Some((extent, stride)),
            Some((outer, outer_stride))
                if i128::from(outer_stride) == i128::from(stride) * extent as i128 =>
            {
                Some((outer * extent, stride))
            }
            Some(_) if shape.contains(&0) => return Some((0, 0)),
            Some(_) => return None,
        };
    }
    Some(merged.unwrap_or((1, 0)))
}

#[cfg(test)]
mod tests {
    use super::merge;

    #[test]
    fn even_steps_merge_and_others_do_not() {
        assert_eq!(merge(&[2, 3, 4], &[12, 4, 1]), Some((24, 1)));
        assert_eq!(merge(&[2, 3], &[12, 4]), Some((6, 4)));
        assert_eq!(merge(&[2, 1, 3], &[12, 99, 4]), Some((6, 4)));
        assert_eq!(merge(&[2, 3], &[-3, -1]), Some((6, -1)));
        assert_eq!(merge(&[2, 3], &[0, 0]), Some((6, 0)));
        assert_eq!(merge(&[2, 3], &[1, 2]), None);
        assert_eq!(merge(&[], &[]), Some((1, 0)));
        assert_eq!(merge(&[3, 5, 0], &[7, 9, 1]), Some((0, 0)));
    }
}
