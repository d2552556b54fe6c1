//! Keys and values in pages.

use ndarray::{Array3, ArrayView2, ArrayView4, Axis};

use crate::ReferenceError;

/// The positions of all sequences that a paged cache holds, one sequence behind the other, as
/// [`packed`](super::packed) takes them: `pool` is `[pages, page_size, heads, x]`, `table`
/// `[batch, n]`, and sequence b has `lengths[b]` positions. Position j of it is position
/// `j % page_size` of page `table[b, j / page_size]`; an entry that names no page means the last one.
/// Entries for other positions are not read.
///
/// # Errors
/// [`ReferenceError::ShapeMismatch`].
pub fn gathered(
    pool: &ArrayView4<'_, f64>,
    table: &ArrayView2<'_, i32>,
    lengths: &[usize],
) -> Result<Array3<f64>, ReferenceError> {
    let (pages, page_size, heads, x) = pool.dim();
    let room = if pages == 0 {
        0
    } else {
        table.ncols() * page_size
    };
    ReferenceError::unless_one_per("sequence", lengths.len(), "table", table.nrows())?;
    if let Some(length) = lengths.iter().find(|&&length| length > room) {
        let want = format!("pages for {length} positions");
        return Err(ReferenceError::shape("table", table.shape(), want));
    }
    let mut all = Array3::zeros((lengths.iter().sum(), heads, x));
    let places = lengths
        .iter()
        .zip(table.rows())
        .flat_map(|(&length, row)| (0..length).map(move |j| (row[j / page_size], j % page_size)));
    for (mut to, (entry, position)) in all.axis_iter_mut(Axis(0)).zip(places) {
        let page = usize::try_from(entry).map_or(pages - 1, |page| page.min(pages - 1));
        to.assign(&pool.index_axis(Axis(0), page).index_axis(Axis(0), position));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use ndarray::{Array4, array};

    use super::*;

    #[test]
    fn positions_come_in_the_order_of_the_table_and_of_their_page() {
        let pool = Array4::from_shape_fn((3, 2, 1, 1), |(page, position, ..)| {
            (10 * page + position) as f64
        });
        let table = array![[2, 0], [1, 7], [-1, -1], [0, 5]];
        let got = gathered(&pool.view(), &table.view(), &[3, 1, 0, 4]).expect("they fit");
        let got: Vec<f64> = got.into_iter().collect();
        assert_eq!(got, [20.0, 21.0, 0.0, 10.0, 0.0, 1.0, 20.0, 21.0]);
    }

    #[test]
    fn lengths_that_have_no_room_are_refused() {
        let table = array![[0, 0]];
        let pool = Array4::zeros((1, 2, 1, 1));
        assert!(gathered(&pool.view(), &table.view(), &[5]).is_err());
        assert!(gathered(&pool.view(), &table.view(), &[1, 1]).is_err());
        let none = Array4::zeros((0, 2, 1, 1));
        assert!(gathered(&none.view(), &table.view(), &[1]).is_err());
        assert!(gathered(&none.view(), &table.view(), &[0]).is_ok());
    }
}
