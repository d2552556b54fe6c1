//! Vectors in memory: the elements of `&[[f32; 4]]`, for which a launch takes memory of `f32`.

/// Most bytes that a vector in memory is aligned to.
pub(crate) const VECTOR_BYTES: u64 = 16;

/// The element of a vector and their number: `f32` and 4 of `[f32;4]`. Any other type is one element.
pub(crate) fn vector(ty: &str) -> (&str, usize) {
    let inner = ty.strip_prefix('[').and_then(|ty| ty.strip_suffix(']'));
    let parts = inner.and_then(|inner| inner.split_once(';'));
    let parts = parts.and_then(|(of, lanes)| Some((of.trim(), lanes.trim().parse().ok()?)));
    parts.filter(|(_, lanes)| *lanes > 0).unwrap_or((ty, 1))
}

/// Extents and strides of elements in vectors of `lanes` of them, which lie along the last dimension.
pub(crate) fn in_vectors(
    extents: &mut [i64],
    strides: &mut [i64],
    lanes: usize,
) -> Result<(), String> {
    let vector = i64::try_from(lanes).unwrap_or(i64::MAX);
    let want = format!("it takes vectors of {lanes} elements, one after the other");
    let shown = format!("extents {extents:?} and strides {strides:?}");
    let (last, outer) = match strides.split_last_mut() {
        Some((last, outer)) => (Some(last), outer),
        None => (None, &mut [][..]),
    };
    let whole = extents.last_mut().filter(|extent| **extent % vector == 0);
    let (Some(extent), true) = (whole, last.is_none_or(|last| *last == 1)) else {
        return Err(format!("{shown}: {want}"));
    };
    *extent /= vector;
    for stride in outer {
        if *stride % vector != 0 {
            return Err(format!("{shown}: {want}"));
        }
        *stride /= vector;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{in_vectors, vector};

    #[test]
    fn a_vector_has_its_elements() {
        assert_eq!(vector("[half::f16;8]"), ("half::f16", 8));
        for other in ["f32", "[f32;N]", "[f32;0]"] {
            assert_eq!(vector(other), (other, 1));
        }
    }

    #[test]
    fn vectors_lie_along_the_last_dimension() {
        let fours = |mut extents: [i64; 2], mut strides: [i64; 2]| {
            in_vectors(&mut extents, &mut strides, 4)?;
            Ok::<_, String>((extents, strides))
        };
        assert_eq!(fours([2, 8], [8, 1]), Ok(([2, 2], [2, 1])));
        for (extents, strides) in [([8, 2], [1, 8]), ([2, 6], [8, 1]), ([2, 4], [5, 1])] {
            let refused = fours(extents, strides).expect_err("no vectors");
            assert!(refused.contains("vectors of 4 elements"), "{refused}");
        }
        assert_eq!(in_vectors(&mut [8], &mut [], 4), Ok(()));
    }
}
