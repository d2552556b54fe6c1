//! Cases of the rotary position embedding.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use spec::division::Division;
use spec::elementwise::{MAX_RANK, WalkParams};
use spec::rotary::{Form, HEADS, RotaryEntry, RotaryParams, THREADS, flags};
use warpsmith::LaunchConfig;

use super::trial::{Arg, Trial};

/// Tokens of some heads, by positions that are counted or given, some of which are no row.
pub(crate) fn rotary(entry: RotaryEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let [tokens, heads, rows] = [70, 7, 40].map(|largest| rng.random_range(1..=largest));
    let unit = match entry.form {
        Form::Strided => 1,
        _ => entry.lanes(),
    };
    let half = unit * rng.random_range(0..=4);
    let written = 2 * half + unit * rng.random_range(u32::from(half == 0)..=3);
    let row = heads * written;
    let x = trial.floats(entry.dtype, u64::from(tokens * row), rng);
    let y = trial.noise(
        u64::from(tokens * row) * entry.dtype.size_bytes() as u64,
        rng,
    );
    let of_table = u64::from(rows * half.max(1));
    let [cos, sin] = [0, 1].map(|_| trial.floats(entry.table, of_table, rng));
    let is_counted = rng.random_bool(0.5);
    let positions = match is_counted {
        true => Arg::Null,
        false => {
            let drawn = (0..tokens).flat_map(|_| {
                let position: i32 = rng.random_range(-2..=rows as i32);
                position.to_le_bytes()
            });
            let drawn = drawn.collect();
            trial.buffer(drawn)
        }
    };
    let mut walk = WalkParams {
        len: tokens,
        rank: 1,
        chunk: 1,
        splat: 0,
        extents: [Division::ONE; MAX_RANK],
        strides: [[0; MAX_RANK]; 5],
    };
    walk.extents[0] = Division::new(tokens);
    (walk.strides[0][0], walk.strides[1][0]) = (row.into(), row.into());
    (walk.strides[2][0], walk.strides[3][0]) = (1, i64::from(is_counted));
    let (slots, groups) = (entry.slots(half, written), heads.div_ceil(HEADS));
    let params = RotaryParams {
        walk,
        base: if is_counted { -3 } else { 0 },
        rows: rows.into(),
        head_strides: [written.into(); 2],
        last_strides: [1; 2],
        cos_strides: [half.into(), 1],
        sin_strides: [half.into(), 1],
        slots: Division::new(slots),
        groups: Division::new(groups),
        heads,
        half,
        written,
        flags: rng.random_range(0..=flags::INVERSE | flags::INTERLEAVED),
    };
    let threads = u64::from(tokens * slots * groups);
    let config = LaunchConfig::for_elements(threads, THREADS);
    trial.launch(
        entry,
        config,
        [x, y, cos, sin, positions, Arg::params(params)],
    );
    trial
}
