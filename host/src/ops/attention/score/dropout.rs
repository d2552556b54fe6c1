//! Fills the holes of dropout (`kernels-gpu/src/attention/dropout.rs`).

use super::compose::{DROPOUT, Writer};
use crate::fuse::{Body, Scalar, Value};
use crate::{Error, Result};
use abi::attention::dropout::{Dropout, MULTIPLIERS, ROUNDS};

/// Slots of the two keys of each round; then threshold and heads, factor and offset.
pub(super) const DROPOUT_SLOTS: usize = ROUNDS + 2;

/// Bytes of a slot, and of its halves.
const SLOT: u32 = 8;
const HALF: u32 = 4;

/// What kernels read.
pub(super) fn slots(dropout: &Dropout, heads: u32) -> [u64; DROPOUT_SLOTS] {
    let pair = |[low, high]: [u32; 2]| u64::from(low) | u64::from(high) << 32;
    let mut slots = [0; DROPOUT_SLOTS];
    for (slot, keys) in slots.iter_mut().zip(dropout.round_keys()) {
        *slot = pair(keys);
    }
    slots[ROUNDS] = pair([dropout.threshold() << 16, heads]);
    slots[ROUNDS + 1] = pair([dropout.factor().to_bits(), dropout.offset]);
    slots
}

/// Whether a hole is one of dropout.
pub(super) fn is_of_dropout(hole: &str) -> bool {
    let holes = [
        "keep_of_keys",
        "kept_factor",
        "keeps",
        "keeps_of_keys",
        "keeps_of_queries",
        "kept",
    ];
    holes.contains(&hole)
}

/// Words from a query to the one 8 behind.
const WORD_OF_ROW: usize = 2;

impl Writer<'_> {
    /// The body of a hole of dropout.
    pub(super) fn dropout(mut self, hole: &str) -> Result<Body> {
        match hole {
            "keep_of_keys" => {
                let probabilities: Vec<Value> =
                    (0..8).map(|idx| self.body.input_f32(idx)).collect();
                let [batch, head, query, key] = self.four(8);
                let words = self.words([batch, head, query, key])?;
                let threshold = self.half(ROUNDS, 0, Scalar::U32);
                for (idx, p) in probabilities.into_iter().enumerate() {
                    let word = words[word_of(idx)];
                    let names = ["dropout_low", "dropout_high"];
                    let kept = self.apply(names[idx % 2], &[p, word, threshold])?;
                    self.body.output(idx, kept)?;
                }
            }
            "kept_factor" => {
                let factor = self.half(ROUNDS + 1, 0, Scalar::F32);
                self.body.output(0, factor)?;
            }
            "keeps" => {
                let place = self.four(0);
                let [a, b, c, d] = self.words(place)?;
                let [.., query, key] = place;
                let word = self.apply("dropout_word", &[a, b, c, d, query, key])?;
                let half = self.apply("dropout_half", &[word, key])?;
                self.bits(&[half])?;
            }
            "keeps_of_keys" => {
                let place = self.four(0);
                let words = self.words(place)?;
                let mut halves = Vec::new();
                for idx in 0..8 {
                    let parity = self.body.constant(idx as u64 % 2, Scalar::U32);
                    halves.push(self.apply("dropout_half", &[words[word_of(idx)], parity])?);
                }
                self.bits(&halves)?;
            }
            "keeps_of_queries" => {
                let [batch, head, query, key] = self.four(0);
                let next = self.apply("score_next", &[query])?;
                let of_both = [
                    self.words([batch, head, query, key])?,
                    self.words([batch, head, next, key])?,
                ];
                let mut halves = Vec::new();
                for idx in 0..8 {
                    // Rows are keys: of each eight queries and then the next, of a key and the one 8 behind.
                    let word = of_both[idx % 2][idx / 4 * WORD_OF_ROW + idx / 2 % 2];
                    halves.push(self.apply("dropout_half", &[word, key])?);
                }
                self.bits(&halves)?;
            }
            "kept" => {
                let numbers = [0, 1].map(|idx| self.body.input_f32(idx));
                let bits = self.body.input(2);
                let factor = self.half(ROUNDS + 1, 0, Scalar::F32);
                for (idx, x) in numbers.into_iter().enumerate() {
                    let bit = self.body.constant(1 << idx, Scalar::U32);
                    let kept = self.apply("dropout_kept", &[x, bits, bit, factor])?;
                    self.body.output(idx, kept)?;
                }
            }
            _ => return Err(Error::Bug("a hole of dropout that has no filling")),
        }
        Ok(self.body)
    }

    fn four(&mut self, first: usize) -> [Value; 4] {
        [0, 1, 2, 3].map(|idx| self.body.input(first + idx))
    }

    /// The low or the high half of a slot of dropout.
    fn half(&mut self, slot: usize, half: u32, scalar: Scalar) -> Value {
        let offset = SLOT * (DROPOUT + slot) as u32 + HALF * half;
        self.body.param(self.param, offset, scalar)
    }

    /// Sets a bit of the hole's output for each half of a word that is the threshold or more.
    fn bits(&mut self, halves: &[Value]) -> Result<()> {
        let threshold = self.half(ROUNDS, 0, Scalar::U32);
        let mut bits = self.body.constant(0, Scalar::U32);
        for (idx, half) in halves.iter().enumerate() {
            let bit = self.body.constant(1 << idx, Scalar::U32);
            bits = self.apply("dropout_bit", &[bits, *half, threshold, bit])?;
        }
        Ok(self.body.output(0, bits)?)
    }

    /// The words of the group of a pair, which [`Dropout`] defines.
    fn words(&mut self, [batch, head, query, key]: [Value; 4]) -> Result<[Value; 4]> {
        let heads = self.half(ROUNDS, 1, Scalar::U32);
        let multipliers = MULTIPLIERS.map(|of| self.body.constant(of.into(), Scalar::U32));
        let mut counter = [
            self.apply("dropout_keys", &[key])?,
            self.apply("dropout_queries", &[query])?,
            self.apply("dropout_head", &[batch, head, heads])?,
            self.half(ROUNDS + 1, 1, Scalar::U32),
        ];
        for round in 0..ROUNDS {
            let keys = [0, 1].map(|half| self.half(round, half, Scalar::U32));
            let a = self.apply("philox_product", &[counter[0], multipliers[0]])?;
            let b = self.apply("philox_product", &[counter[2], multipliers[1]])?;
            counter = [
                self.apply("philox_mix", &[b, counter[1], keys[0]])?,
                self.apply("philox_low", &[b])?,
                self.apply("philox_mix", &[a, counter[3], keys[1]])?,
                self.apply("philox_low", &[a])?,
            ];
        }
        Ok(counter)
    }
}

/// The word of element `idx` of eight, whose rows are queries.
const fn word_of(idx: usize) -> usize {
    idx / 2 % 2 * WORD_OF_ROW + idx / 4
}
