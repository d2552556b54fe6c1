//! Where scores are, as holes are told.

use super::compose::Writer;
use crate::Result;
use crate::fuse::Value;

/// A score on its way, and where it is.
pub(super) struct At {
    pub(super) batch: Value,
    pub(super) head: Value,
    /// Query and key, which may be beyond the sequence.
    pub(super) given: [Value; 2],
    /// The same, or the last ones in their place if anything is read there.
    pub(super) query: Value,
    pub(super) key: Value,
    pub(super) seqlen_q: Value,
    pub(super) seqlen_k: Value,
    /// The key that the query is at, and the key, as numbers, if there is ALiBi.
    pub(super) alibi: Option<[Value; 2]>,
}

impl Writer<'_> {
    /// The places of `count` neighbouring keys or queries, from the hole's input `first` on.
    pub(super) fn places(
        &mut self,
        first: usize,
        (count, are_keys): (usize, bool),
    ) -> Result<Vec<At>> {
        let place: Vec<Value> = (first..first + 6).map(|idx| self.body.input(idx)).collect();
        let (mut query, mut key) = (place[2], place[3]);
        let mut places = Vec::new();
        for idx in 0..count {
            if idx > 0 {
                let next = if are_keys { &mut key } else { &mut query };
                *next = self.apply("score_next", &[*next])?;
            }
            // Scores of places that are not there are dropped, so only reads must not be there.
            let there = match self.of.reads_places() {
                true => [
                    self.apply("score_clamp", &[query, place[4]])?,
                    self.apply("score_clamp", &[key, place[5]])?,
                ],
                false => [query, key],
            };
            let alibi = match self.of.desc.alibi {
                true => {
                    Some(self.positions([query, key], &place[4..], (places.last(), are_keys))?)
                }
                false => None,
            };
            places.push(At {
                alibi,
                batch: place[0],
                head: place[1],
                given: [query, key],
                query: there[0],
                key: there[1],
                seqlen_q: place[4],
                seqlen_k: place[5],
            });
        }
        Ok(places)
    }

    /// The key that a query is at, and a key, for ALiBi. f32 has all positions below 2^24: neighbours of
    /// the place `before` are found by additions there, and their differences are.
    fn positions(
        &mut self,
        [query, key]: [Value; 2],
        lengths: &[Value],
        (before, are_keys): (Option<&At>, bool),
    ) -> Result<[Value; 2]> {
        if !self.of.desc.is_near {
            let own = self.apply("score_key_of_query", &[query, lengths[0], lengths[1]])?;
            return Ok([own, key]);
        }
        if let Some([own, key]) = before.and_then(|before| before.alibi) {
            let one = self.or_one(None);
            return Ok(match are_keys {
                true => [own, self.apply("f32_add", &[key, one])?],
                false => [self.apply("f32_add", &[own, one])?, key],
            });
        }
        let own = self.apply("score_key_of_query", &[query, lengths[0], lengths[1]])?;
        let own = self.apply("score_position", &[own])?;
        Ok([own, self.apply("score_position", &[key])?])
    }
}
