//! How products in f64 use shared memory: conflicts, and what orders its accesses.

use abi::gemm::DoubleEntry;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::testing::Capture;
use warpsmith::{Device, Gemm, Tensor};
use warpsmith_tests::values::Values;
use warpsmith_tests::{recording, say};

/// Operands of 130 rows and columns and 41 of k, each as it is or stored transposed, with rows that
/// are aligned to 16 bytes or not.
fn operands(device: &Device, transposed: [bool; 2], gap: usize) -> [Tensor<f64>; 2] {
    let operand = |[rows, columns]: [usize; 2], is_transposed: bool, seed| {
        let stored = if is_transposed {
            [columns, rows]
        } else {
            [rows, columns]
        };
        let [lines, len] = stored;
        let pitch = len.next_multiple_of(2) + gap;
        let whole = Values::Uniform.draw(&[lines, pitch], seed);
        let whole = Tensor::from_ndarray(device, &whole).expect("memory");
        let view = whole.slice(1, 0..len).expect("a view");
        if is_transposed { view.t() } else { view }
    };
    [
        operand([130, 41], transposed[0], 1),
        operand([41, 130], transposed[1], 2),
    ]
}

const LAYOUTS: [[bool; 2]; 4] = [[false, false], [false, true], [true, false], [true, true]];

#[test]
fn fragments_are_read_without_bank_conflicts() {
    let device = Device::emulator_with(EmulatorConfig {
        profile: true,
        ..EmulatorConfig::default()
    })
    .expect("an emulator");
    let stream = device.stream().expect("a stream");
    for entry in DoubleEntry::ALL {
        for transposed in LAYOUTS {
            for gap in [0, 1] {
                let [a, b] = operands(&device, transposed, gap);
                let name = entry.to_string();
                let product = Gemm::new(&a, &b).with_kernel(&name).run(&stream);
                product.expect("a product");
                let stats = device.last_launch().expect("it was launched");
                let lines = stats.counters().lines.iter();
                let loads = lines.filter(|line| line.ptx_text.starts_with("ld.shared"));
                let bad: Vec<_> = loads.filter(|line| line.bank_conflicts > 0).collect();
                assert!(bad.is_empty(), "{entry} {transposed:?} {gap}: {bad:#?}");
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_order_of_warps_and_copies() {
    let mut first: Option<Vec<f64>> = None;
    for seed in 0..4 {
        let device = Device::emulator_with(EmulatorConfig {
            seed,
            ..EmulatorConfig::default()
        })
        .expect("an emulator");
        let stream = device.stream().expect("a stream");
        let [a, b] = operands(&device, [false, true], 1);
        for entry in DoubleEntry::ALL {
            let name = entry.to_string();
            let product = Gemm::new(&a, &b).with_kernel(&name).run(&stream);
            let got = product.and_then(|d| d.to_vec()).expect("a product");
            let first = first.get_or_insert_with(|| got.clone());
            assert_eq!(*first, got, "{entry}, seed {seed}");
        }
    }
}

/// The kernel whose text bugs are planted in.
const PLANTED: &str = "gemm_mma_f64_128x128x8_s4_m16";

/// A product of ones.
fn ones() -> Capture {
    let recording = recording((9, 0), 2, EmulatorConfig::default());
    let stream = recording.device().default_stream();
    let ones = |rows, columns| Tensor::full(&stream, &[rows, columns], 1.0_f64).expect("memory");
    let (a, b) = (ones(140, 100), ones(130, 100).t());
    let product = Gemm::new(&a, &b).with_kernel(PLANTED).run(&stream);
    product.and_then(|d| d.to_vec()).expect("a product");
    recording.capture().expect("a capture")
}

/// The product by the kernel with this text; fails with the emulator's report.
fn run(ones: &Capture, text: String) -> Result<Vec<u8>, String> {
    let mut ones = ones.clone();
    *ones.text_of(PLANTED).expect("its module") = text;
    let device = Device::emulator().map_err(say)?;
    // SAFETY: the emulator checks every access.
    let mut read = unsafe { ones.replay(&device) }.map_err(say)?;
    Ok(read.remove(0))
}

#[test]
fn every_barrier_and_wait_is_needed() {
    let mut ones = ones();
    let clean = entry_of(ones.text_of(PLANTED).expect("its module"));
    let want = [100.0; 140 * 130]
        .iter()
        .flat_map(|x: &f64| x.to_le_bytes())
        .collect();
    assert_eq!(run(&ones, clean.clone()), Ok(want));
    let orders = ["bar.sync", "cp.async.wait_group", "cp.async.wait_all"];
    let lines: Vec<&str> = clean.lines().collect();
    let mut planted = 0;
    for (idx, line) in lines.iter().enumerate() {
        if !orders
            .iter()
            .any(|order| line.trim_start().starts_with(order))
        {
            continue;
        }
        let kept = lines.iter().enumerate().filter(|&(other, _)| other != idx);
        let without: Vec<&str> = kept.map(|(_, &line)| line).collect();
        let report = run(&ones, without.join("\n"));
        assert!(report.is_err(), "`{line}` in line {idx} is not missed");
        planted += 1;
    }
    assert_eq!(planted, 7);
}

/// The module's header and that kernel.
fn entry_of(module: &str) -> String {
    let mut parts = module.split(".visible .entry ");
    let head = parts.next().expect("a head");
    let start = format!("{PLANTED}(");
    let entry = parts.find(|part| part.starts_with(&start));
    format!("{head}.visible .entry {}", entry.expect("the kernel"))
}
