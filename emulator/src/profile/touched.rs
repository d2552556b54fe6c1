//! A set of byte addresses: which bytes of memory were touched at least once.

use std::collections::HashMap;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Bytes that one word of a page's bitmap stands for.
const WORD: u64 = 64;

type Page = [u64; (PAGE / WORD) as usize];

/// A set of byte addresses, as bitmaps of pages: takes an eighth of the memory that was touched.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched {
    index: HashMap<u64, usize>,
    pages: Vec<Page>,
    /// The page that was looked up last, and its position.
    last: Option<(u64, usize)>,
}

impl Touched {
    /// Adds `len` bytes from `address` on.
    pub(super) fn add(&mut self, address: u64, len: u64) {
        let (mut at, end) = (address, address.saturating_add(len));
        while at < end {
            let next = (at / WORD + 1).saturating_mul(WORD).min(end);
            let bits = u64::MAX >> (WORD - (next - at)) << (at % WORD);
            self.page(at / PAGE)[(at % PAGE / WORD) as usize] |= bits;
            at = next;
        }
    }

    fn page(&mut self, number: u64) -> &mut Page {
        let place = match self.last {
            Some((page, place)) if page == number => place,
            _ => {
                let pages = &mut self.pages;
                *self.index.entry(number).or_insert_with(|| {
                    pages.push([0; (PAGE / WORD) as usize]);
                    pages.len() - 1
                })
            }
        };
        self.last = Some((number, place));
        &mut self.pages[place]
    }

    /// Adds all of another set.
    pub(super) fn unite(&mut self, other: &Self) {
        for (number, place) in &other.index {
            let own = self.page(*number);
            for (own, new) in own.iter_mut().zip(other.pages[*place].iter()) {
                *own |= new;
            }
        }
    }

    /// How many bytes it holds.
    pub(super) fn bytes(&self) -> u64 {
        let words = self.pages.iter().flat_map(|page| page.iter());
        words.map(|word| u64::from(word.count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_once_across_words_and_pages() {
        let mut set = Touched::default();
        set.add(10, 4);
        set.add(12, 4);
        assert_eq!(set.bytes(), 6);
        set.add(4090, 12);
        set.add(60, 200);
        assert_eq!(set.bytes(), 6 + 12 + 200);
        set.add(0, 0);
        assert_eq!(set.bytes(), 218);
    }

    #[test]
    fn a_union_is_the_same_whatever_the_order() {
        let (mut a, mut b) = (Touched::default(), Touched::default());
        a.add(0, 100);
        b.add(50, 100);
        b.add(9000, 8);
        let mut both = a.clone();
        both.unite(&b);
        let mut other = b.clone();
        other.unite(&a);
        assert_eq!((both.bytes(), other.bytes()), (158, 158));
    }
}
