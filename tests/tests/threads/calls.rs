//! Calls with tensors of their own, and the bits that they give.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::HashSet;
use std::sync::Barrier;
use warpsmith::{Device, Result, Stream, Tensor};
use warpsmith_tests::element::TestElement;

/// The bits of all elements of all results.
pub(crate) type Bits = Vec<u64>;

pub(crate) fn bits<T: TestElement>(tensor: &Tensor<T>) -> Result<Bits> {
    Ok(tensor.to_vec()?.into_iter().map(T::bits).collect())
}

type Run = dyn Fn(&Stream) -> Result<Bits> + Send + Sync;

struct Call {
    name: String,
    run: Box<Run>,
    /// What it gives when nothing else runs.
    alone: Bits,
}

/// Calls of one thread.
pub(crate) struct Calls {
    pub(crate) stream: Stream,
    rng: ChaCha8Rng,
    all: Vec<Call>,
}

impl Calls {
    pub(crate) fn new(device: &Device, seed: u64) -> Self {
        Self {
            stream: device.stream().expect("a stream"),
            rng: ChaCha8Rng::seed_from_u64(seed),
            all: Vec::new(),
        }
    }

    fn drawn<T: TestElement>(
        &mut self,
        shape: &[usize],
        draw: impl Fn(&mut ChaCha8Rng) -> f64,
    ) -> Tensor<T> {
        let len = shape.iter().product();
        let values: Vec<T> = (0..len).map(|_| T::nearest(draw(&mut self.rng))).collect();
        Tensor::from_slice(self.stream.device(), shape, &values).expect("a tensor")
    }

    /// Numbers from -2 to 2; whole ones for integers.
    pub(crate) fn numbers<T: TestElement>(&mut self, shape: &[usize]) -> Tensor<T> {
        self.drawn(shape, |rng| rng.random_range(-2.0..=2.0))
    }

    /// Whole numbers below `end`.
    pub(crate) fn below<T: TestElement>(&mut self, end: u32, shape: &[usize]) -> Tensor<T> {
        self.drawn(shape, |rng| rng.random_range(0..end).into())
    }

    /// Adds a call, after it was made alone.
    pub(crate) fn add(
        &mut self,
        name: impl Into<String>,
        run: impl Fn(&Stream) -> Result<Bits> + Send + Sync + 'static,
    ) {
        let name = name.into();
        let alone = run(&self.stream).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!alone.is_empty(), "{name} has no result");
        self.all.push(Call {
            name,
            run: Box::new(run),
            alone,
        });
    }

    /// Makes each call so many times, beside other threads that do the same; says which results
    /// were wrong.
    pub(crate) fn wrong(&self, stream: &Stream, times: usize, together: &Barrier) -> Vec<String> {
        let mut wrong = Vec::new();
        for Call { name, run, alone } in &self.all {
            together.wait();
            for _ in 0..times {
                match run(stream) {
                    Ok(bits) if bits == *alone => {}
                    Ok(bits) => {
                        let pairs = bits.iter().zip(alone);
                        let count = pairs.filter(|(got, want)| got != want).count();
                        wrong.push(format!("{name}: {count} of {} differ", alone.len()));
                    }
                    Err(error) => wrong.push(format!("{name}: {error}")),
                }
            }
        }
        wrong
    }
}

/// One name of each kind: those of a kind differ only in numbers.
pub(crate) fn kinds(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut known = HashSet::new();
    let kind = |name: &str| name.replace(|letter: char| letter.is_ascii_digit(), "");
    names
        .into_iter()
        .filter(|name| known.insert(kind(name)))
        .collect()
}
