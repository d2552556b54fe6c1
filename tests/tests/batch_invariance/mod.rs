//! Batch invariance: the same row in batches of 1 to 64, beside rows of NaN, at any place, has the same
//! bits by every kernel that may be chosen.

mod attention;
mod gemm;
mod rows;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use warpsmith::Device;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::testing::devices;
use warpsmith_tests::emulator;

/// Numbers of rows: one, around tiles, and the most of a small batch.
const ROWS: [usize; 6] = [1, 2, 15, 17, 33, 64];

/// The devices of tests, and emulators of older architectures that have kernels of their own.
fn generations() -> Vec<Device> {
    let mut all = devices();
    if all.iter().any(Device::is_emulator) {
        all.extend([(7, 5), (8, 0)].map(|arch| emulator(arch, 2, EmulatorConfig::default())));
    }
    all
}

/// What a row of a batch holds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Filled {
    /// This row of those whose bits are compared.
    Row(usize),
    /// NaN.
    Nan,
    /// Numbers of no interest.
    Other,
}

/// A batch of `rows` rows in which some of the `kept` rows are, at any places, among others.
fn batch(rows: usize, kept: usize, rng: &mut ChaCha8Rng) -> Vec<Filled> {
    let mut all: Vec<usize> = (0..kept).collect();
    all.shuffle(rng);
    let of_kept = kept.min(rows.div_ceil(2));
    let mut batch: Vec<Filled> = all[..of_kept].iter().map(|&row| Filled::Row(row)).collect();
    batch.resize_with(rows, || match rng.random_range(0..2) {
        0 => Filled::Nan,
        _ => Filled::Other,
    });
    batch.shuffle(rng);
    batch
}

fn random(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Compares bits of rows with those that were seen first.
#[derive(Default)]
struct Seen(std::collections::HashMap<usize, (String, Vec<u64>)>);

impl Seen {
    fn check(&mut self, row: usize, bits: &[u64], of: &str) {
        let first = self.0.entry(row);
        let (by, want) = first.or_insert_with(|| (of.to_owned(), bits.to_vec()));
        let differing = want.iter().zip(bits).position(|(want, got)| want != got);
        if let Some(at) = differing {
            panic!(
                "row {row}, element {at}: {:#x} by {by}, {:#x} by {of}",
                want[at], bits[at]
            );
        }
    }
}
