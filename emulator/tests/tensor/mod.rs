//! Compares the tensor cores with the answers of an H200, bit by bit.
//!
//! `h200_answers.txt` has a hash of all accumulators for each instruction and kind of inputs;
//! scripts/gpu/tensor makes it on a GPU. The inputs are generated again here, from their seeds.

mod gemm;
mod inputs;
mod kernels;
mod wmma;

use inputs::{Format, elements, pack};
use kernels::Case;
use warpsmith_emulator::{Checks, Emulator, EmulatorConfig, LaunchConfig};

const ANSWERS: &str = include_str!("h200_answers.txt");

/// FNV-1a of the words.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .chunks_exact(4)
        .fold(0xcbf2_9ce4_8422_2325, |hash, word| {
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            (hash ^ u64::from(word)).wrapping_mul(0x100_0000_01b3)
        })
}

/// A line of the answers: an instruction with its inputs, and the hash of the results.
struct Set<'a> {
    label: &'a str,
    kinds: [&'a str; 3],
    steps: usize,
    blocks: usize,
    seeds: [u64; 3],
    hash: u64,
}

impl<'a> Set<'a> {
    fn parse(line: &'a str) -> Self {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, label, a, b, c, steps, blocks, sa, sb, sc, hash] = words[..] else {
            panic!("not a set: {line}");
        };
        let number = |word: &str| word.parse().expect("a count is a number");
        Self {
            label,
            kinds: [a, b, c],
            steps: number(steps),
            blocks: number(blocks),
            seeds: [sa, sb, sc].map(|seed| seed.parse().expect("a seed is a number")),
            hash: u64::from_str_radix(hash, 16).expect("a hash is hexadecimal"),
        }
    }

    /// The bytes of A, of B (preceded by A if that is in memory) and of C.
    fn bytes(&self, case: &Case) -> [Vec<u8>; 3] {
        let tiles = self.steps * self.blocks;
        let [ka, kb, kc] = self.kinds;
        let made = |name: &str, kind: &str, seed: u64, count: usize| {
            pack(&elements(name, kind, seed, count), Format::of(name).bits)
        };
        let a = made(&case.a, ka, self.seeds[0], tiles * case.m * case.k);
        let b = made(&case.b, kb, self.seeds[1], tiles * case.n * case.k);
        let c = made(&case.d, kc, self.seeds[2], self.blocks * case.m * case.n);
        if !case.a_in_memory {
            return [a, b, c];
        }
        let (each_a, each_b) = (a.len() / tiles, b.len() / tiles);
        let image = a.chunks_exact(each_a).zip(b.chunks_exact(each_b));
        let image = image
            .flat_map(|(a, b)| a.iter().chain(b).copied())
            .collect();
        [vec![0; 16], image, c]
    }

    fn run(&self, case: &Case, emulator: &Emulator) -> Vec<u8> {
        let module = emulator
            .load(&case.ptx())
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let [a, b, c] = self.bytes(case);
        let held = [&a, &b, &c].map(|bytes| {
            let address = emulator.alloc(bytes.len() as u64).expect("memory suffices");
            emulator.write(address, bytes).expect("the buffer is live");
            address
        });
        let out = emulator.alloc(c.len() as u64).expect("memory suffices");
        let descriptor = |start: u64| start >> 4 | (128 >> 4) << 16 | (256 >> 4) << 32;
        let b_at = if case.a_in_memory { 2048 } else { 0 };
        let words = [held[0], held[1], held[2], out].map(u64::to_le_bytes);
        let steps = (self.steps as u32).to_le_bytes();
        let descriptors = [descriptor(0), descriptor(b_at)].map(u64::to_le_bytes);
        let mut params: Vec<&[u8]> = words.iter().map(<[u8; 8]>::as_slice).collect();
        params.push(&steps);
        params.extend(descriptors.iter().map(<[u8; 8]>::as_slice));
        let shape = LaunchConfig {
            grid: [self.blocks as u32, 1, 1],
            block: [case.threads() as u32, 1, 1],
            shared_bytes: 0,
            cluster: None,
        };
        if let Err(error) = emulator.launch(&module, "k", &shape, &params) {
            panic!("{} {}: {error}", case.name, self.label);
        }
        let mut bytes = vec![0; c.len()];
        emulator.read(out, &mut bytes).expect("the buffer is live");
        for address in held.into_iter().chain([out]) {
            emulator.free(address).expect("the buffer is live");
        }
        bytes
    }
}

/// Runs every set of the cases for which `chosen` is true; returns the number of sets.
fn check(chosen: impl Fn(&Case) -> bool) -> usize {
    let emulator = Emulator::new(EmulatorConfig {
        threads: Some(2),
        checks: Checks::QUICK,
        ..EmulatorConfig::default()
    });
    let (mut case, mut count, mut wrong) = (None, 0, Vec::new());
    for line in ANSWERS.lines() {
        if line.starts_with("case ") {
            case = Some(Case::parse(line)).filter(|case| chosen(case));
        }
        let Some(case) = case.as_ref().filter(|_| line.starts_with("set ")) else {
            continue;
        };
        let set = Set::parse(line);
        let got = set.run(case, &emulator);
        count += 1;
        if let Ok(folder) = std::env::var("TENSOR_ANSWERS") {
            let file = format!("{folder}/{}.{}.bin", case.name, set.label);
            std::fs::write(file, &got).expect("the folder can be written to");
        }
        if hash(&got) != set.hash {
            wrong.push(format!("{} {}", case.name, set.label));
        }
    }
    assert!(
        wrong.is_empty(),
        "other bits than an H200 gives: {wrong:#?}"
    );
    count
}

#[test]
fn mma_gives_the_bits_of_an_h200() {
    assert_eq!(check(|case| !case.is_wgmma()), 320);
}

#[test]
fn wgmma_gives_the_bits_of_an_h200() {
    assert_eq!(check(Case::is_wgmma), 383);
}
