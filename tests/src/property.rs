//! Property tests that run on every device there is.

use std::fmt::Debug;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use warpsmith::Device;
use warpsmith::testing::devices;

use crate::Checked;

/// How many cases a property gets, and how large they are: fewer and smaller ones on an emulator on
/// two cores than on a GPU.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Cases of a property on the emulator, and on a GPU.
    pub cases: [u32; 2],
    /// Largest extent on the emulator, and on a GPU.
    pub largest: [usize; 2],
}

/// Environment variable with the number of cases of a property, on every device.
const CASES: &str = "WARPSMITH_TEST_CASES";

/// Checks a property on every device. `strategy` generates cases with extents up to its argument.
///
/// # Panics
/// With the smallest case that fails, and the reason; also if `WARPSMITH_TEST_CASES` is not a
/// number.
pub fn holds<S>(
    effort: Effort,
    strategy: impl Fn(usize) -> S,
    check: impl Fn(&S::Value, &Device) -> Checked,
) where
    S: Strategy,
    S::Value: Debug,
{
    for device in devices() {
        let at = usize::from(!device.is_emulator());
        let (cases, largest) = (effort.cases[at], effort.largest[at]);
        let cases = match std::env::var(CASES) {
            Ok(text) => text
                .parse()
                .unwrap_or_else(|_| panic!("{CASES} is `{text}`, want a number")),
            Err(_) => cases,
        };
        let config = Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        };
        let outcome = TestRunner::new(config).run(&strategy(largest), |case| {
            check(&case, &device).map_err(TestCaseError::fail)
        });
        if let Err(error) = outcome {
            panic!("on {device}: {error}");
        }
    }
}

/// Extents at which kernels tend to fail: 0, 1, primes, powers of two, and neighbours of multiples
/// of tile sizes, all up to `largest`.
pub fn extent(largest: usize) -> impl Strategy<Value = usize> {
    let edges: Vec<usize> = [
        0, 1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97, 127, 128, 129,
    ]
    .into_iter()
    .chain([191, 255, 256, 257, 511, 513, 1023, 1024, 1025])
    .filter(|&extent| extent <= largest)
    .collect();
    proptest::prop_oneof![3 => proptest::sample::select(edges), 2 => 1..=largest]
}
