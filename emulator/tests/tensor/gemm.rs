//! Small GEMMs, compared with sums in f64.

use warpsmith_emulator::{Emulator, EmulatorConfig, LaunchConfig};

use super::inputs::{elements, pack, value};

/// A GEMM of `m` by `k` and `k` by `n`; both operands are row-major.
struct Problem {
    name: &'static str,
    m: usize,
    n: usize,
    k: usize,
}

/// Bits of A and B, the exact result, and the sum of the products' magnitudes.
struct Made {
    a: Vec<u64>,
    b: Vec<u64>,
    exact: Vec<f64>,
    magnitude: Vec<f64>,
}

impl Problem {
    fn make(&self) -> Made {
        let a = elements(self.name, "normal", 1, self.m * self.k);
        let b = elements(self.name, "normal", 2, self.k * self.n);
        let values =
            |bits: &[u64]| -> Vec<f64> { bits.iter().map(|b| value(self.name, *b)).collect() };
        let (rows, columns) = (values(&a), values(&b));
        let (mut exact, mut magnitude) = (Vec::new(), Vec::new());
        for row in 0..self.m {
            for column in 0..self.n {
                let products =
                    (0..self.k).map(|i| rows[row * self.k + i] * columns[i * self.n + column]);
                let both = products.fold((0.0, 0.0), |(sum, all), p| (sum + p, all + p.abs()));
                exact.push(both.0);
                magnitude.push(both.1);
            }
        }
        Made {
            a,
            b,
            exact,
            magnitude,
        }
    }

    /// Checks that each error is within what truncation at 25 bits and the truncation of each step
    /// to f32 can lose.
    fn compare(&self, made: &Made, got: &[f32], step: usize) {
        let steps = (self.k / step) as f64;
        let each = (step as f64 + 1.0) * 2f64.powi(-25) + 2f64.powi(-23);
        for (i, got) in got.iter().enumerate() {
            let bound = steps * each * made.magnitude[i];
            let error = (f64::from(*got) - made.exact[i]).abs();
            assert!(
                error <= bound,
                "row {}, column {}: {got}, exactly {}",
                i / self.n,
                i % self.n,
                made.exact[i]
            );
        }
    }
}

/// Loads `text` and runs its kernel `gemm` with buffers of bytes and 32-bit numbers.
fn run(text: &str, grid: [u32; 3], threads: u32, buffers: &mut [Vec<u8>], numbers: &[u32]) {
    let emulator = Emulator::new(EmulatorConfig {
        threads: Some(2),
        ..EmulatorConfig::default()
    });
    let module = emulator
        .load(text)
        .unwrap_or_else(|error| panic!("{error}"));
    let addresses: Vec<u64> = buffers
        .iter()
        .map(|bytes| {
            let address = emulator.alloc(bytes.len() as u64).expect("memory suffices");
            emulator.write(address, bytes).expect("the buffer is live");
            address
        })
        .collect();
    let mut params: Vec<Vec<u8>> = addresses.iter().map(|a| a.to_le_bytes().to_vec()).collect();
    params.extend(numbers.iter().map(|n| n.to_le_bytes().to_vec()));
    let params: Vec<&[u8]> = params.iter().map(Vec::as_slice).collect();
    let shape = LaunchConfig {
        grid,
        block: [threads, 1, 1],
        shared_bytes: 0,
        cluster: None,
    };
    emulator
        .launch(&module, "gemm", &shape, &params)
        .unwrap_or_else(|error| panic!("{error}"));
    for (bytes, address) in buffers.iter_mut().zip(addresses) {
        emulator.read(address, bytes).expect("the buffer is live");
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let words = bytes.chunks_exact(4);
    words
        .map(|w| f32::from_le_bytes([w[0], w[1], w[2], w[3]]))
        .collect()
}

fn wgmma(text: &str, tile_n: usize, problem: &Problem) {
    let made = problem.make();
    let mut buffers = [
        pack(&made.a, 16),
        pack(&made.b, 16),
        vec![0; 4 * problem.m * problem.n],
    ];
    let grid = [(problem.n / tile_n) as u32, (problem.m / 64) as u32, 1];
    let numbers = [problem.n as u32, problem.k as u32];
    run(text, grid, 128, &mut buffers, &numbers);
    problem.compare(&made, &floats(&buffers[2]), 16);
}

#[test]
fn wgmma_multiplies_with_both_majors_and_swizzles() {
    let problem = Problem {
        name: "bf16",
        m: 128,
        n: 192,
        k: 128,
    };
    wgmma(include_str!("../pass/wgmma_gemm_n64.ptx"), 64, &problem);
}

#[test]
fn wgmma_multiplies_512_cubed_with_all_checks() {
    let problem = Problem {
        name: "bf16",
        m: 512,
        n: 512,
        k: 512,
    };
    wgmma(include_str!("../pass/wgmma_gemm_n256.ptx"), 256, &problem);
}

#[test]
fn mma_multiplies_what_ldmatrix_brings_and_stmatrix_takes_away() {
    let problem = Problem {
        name: "f16",
        m: 16,
        n: 8,
        k: 96,
    };
    let made = problem.make();
    let mut buffers = [
        pack(&made.a, 16),
        pack(&made.b, 16),
        vec![0; 4 * 16 * 8],
        vec![0; 2 * 16 * 8],
    ];
    let text = include_str!("../pass/mma_gemm.ptx");
    run(text, [1; 3], 32, &mut buffers, &[problem.k as u32]);
    let got = floats(&buffers[2]);
    problem.compare(&made, &got, 16);
    for (i, half) in buffers[3].chunks_exact(2).enumerate() {
        let (row, column) = (i % 16, i / 16);
        let half = value("f16", u64::from(u16::from_le_bytes([half[0], half[1]])));
        let want = f64::from(got[row * 8 + column]);
        assert!((half - want).abs() <= want.abs() * 2f64.powi(-11), "{i}");
    }
}
