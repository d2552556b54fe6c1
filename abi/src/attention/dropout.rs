//! Dropout: which probabilities are dropped, as a function of their places.

/// Random numbers of dropout. Whether the pair of a query and a key is kept depends on these, on the
/// pair's batch and query head, and on the number of query heads. It does not depend on kernels, tiles
/// and devices.
///
/// Pairs of 16 queries and 16 keys share calls of [`philox`]. With `i` and `j` the positions of query
/// and key within their sequence, and all numbers modulo 2^32:
///
/// | word | value |
/// |---|---|
/// | counter 0 | `j / 16 * 4 + j / 2 % 4` |
/// | counter 1 | `i / 16 * 8 + i % 8` |
/// | counter 2 | `batch * heads + head` |
/// | counter 3 | `offset` |
/// | key 0, 1 | the low and the high half of `seed` |
///
/// Of the result, word `2 * (i / 8 % 2) + j / 8 % 2` is the pair's: its low 16 bits if j is even, else
/// the high ones. The pair is kept if these are [`threshold`](Self::threshold) or more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// The probability of dropping, at least 0 and below 1.
    pub p: f32,
    /// Key of the generator.
    pub seed: u64,
    /// Which of the masks of this seed: those of different calls should differ.
    pub offset: u32,
}

impl Dropout {
    /// Of 65,536 values of 16 bits, so many drop: `p * 65536`, rounded to the nearest, at most 65,535.
    pub fn threshold(&self) -> u32 {
        ((self.p * 65536.0 + 0.5) as u32).min(u16::MAX.into())
    }

    /// What kept probabilities are multiplied by: `1 / (1 - p)`.
    pub fn factor(&self) -> f32 {
        (1.0 / (1.0 - f64::from(self.p))) as f32
    }

    /// Whether the pair `[batch, head, query, key]` of an attention of so many query heads is kept.
    pub fn keeps(&self, [batch, head, query, key]: [u32; 4], heads: u32) -> bool {
        let counter = [
            key / 16 * 4 + key / 2 % 4,
            query / 16 * 8 + query % 8,
            batch.wrapping_mul(heads).wrapping_add(head),
            self.offset,
        ];
        let words = philox(counter, self.keys());
        let word = words[(query / 8 % 2 * 2 + key / 8 % 2) as usize & 3];
        word >> (16 * (key % 2)) & u32::from(u16::MAX) >= self.threshold()
    }

    /// The keys of all rounds.
    pub fn round_keys(&self) -> [[u32; 2]; ROUNDS] {
        let mut keys = [self.keys(); ROUNDS];
        for (round, [low, high]) in keys.iter_mut().enumerate() {
            let round = round as u32;
            *low = low.wrapping_add(round.wrapping_mul(WEYL[0]));
            *high = high.wrapping_add(round.wrapping_mul(WEYL[1]));
        }
        keys
    }

    fn keys(&self) -> [u32; 2] {
        [self.seed as u32, (self.seed >> 32) as u32]
    }
}

/// Rounds of the generator.
pub const ROUNDS: usize = 10;
/// What counters are multiplied by in each round.
pub const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// What is added to keys after each round.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Philox4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011).
pub fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let [a, b] = [(counter[0], MULTIPLIERS[0]), (counter[2], MULTIPLIERS[1])]
            .map(|(x, multiplier)| u64::from(x).wrapping_mul(multiplier.into()));
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers of the authors' library.
    #[test]
    fn philox_has_known_answers() {
        let known = [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [u32::MAX; 4],
                [u32::MAX; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, want) in known {
            assert_eq!(philox(counter, key), want);
        }
    }

    /// Rates over all pairs, and of neighbours that are both kept.
    #[test]
    fn masks_have_their_rates() {
        for p in [0.1_f32, 0.5, 0.9] {
            let dropout = Dropout {
                p,
                seed: 0x1234_5678_9abc_def0,
                offset: 3,
            };
            let keeps = |place: [u32; 3], head| dropout.keeps([1, head, place[1], place[2]], 4);
            let (mut kept, mut both, mut of_heads) = (0, [0; 3], 0);
            const EXTENT: u32 = 256;
            for i in 0..EXTENT {
                for j in 0..EXTENT {
                    let it = keeps([0, i, j], 2);
                    kept += u32::from(it);
                    for (both, to) in
                        both.iter_mut()
                            .zip([[0, i, j + 1], [0, i + 1, j], [0, i + 8, j + 8]])
                    {
                        *both += u32::from(it && keeps(to, 2));
                    }
                    of_heads += u32::from(it && keeps([0, i, j], 3));
                }
            }
            let count = f64::from(EXTENT * EXTENT);
            let near = |got: u32, want: f64| {
                let sigma = (want * (1.0 - want) / count).sqrt();
                assert!(
                    (f64::from(got) / count - want).abs() < 5.0 * sigma,
                    "{p}: {got} of {count}"
                );
            };
            let q = 1.0 - f64::from(p);
            near(kept, q);
            for both in both.into_iter().chain([of_heads]) {
                near(both, q * q);
            }
        }
    }

    #[test]
    fn no_probability_drops_none() {
        let dropout = Dropout {
            p: 0.0,
            seed: 1,
            offset: 0,
        };
        assert!((0..4096).all(|idx| dropout.keeps([0, 0, idx / 64, idx % 64], 1)));
    }
}
