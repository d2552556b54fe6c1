//! How products in f64 use shared memory: conflicts, and what orders its accesses.

use abi::gemm::{DOUBLE_LARGE, DoubleEntry, DoubleParams, DoubleProduct, EpilogueParams};
use warpsmith::emulator::EmulatorConfig;
use warpsmith::{ByValue, Device, Gemm, LaunchConfig, Tensor};
use warpsmith_tests::say;
use warpsmith_tests::values::Values;

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

/// The entry whose text bugs are planted in.
fn planted_entry() -> DoubleEntry {
    let is_it =
        |entry: &DoubleEntry| entry.product == DoubleProduct::Mma16 && entry.tile == DOUBLE_LARGE;
    DoubleEntry::find(is_it).expect("an entry")
}

/// The module's header and that entry.
fn text() -> String {
    let whole = warpsmith_tests::built_ptx("sm_90a/gemm.ptx");
    let mut parts = whole.split(".visible .entry ");
    let head = parts.next().expect("a head");
    let start = format!("{}(", planted_entry());
    let entry = parts.find(|part| part.starts_with(&start));
    format!("{head}.visible .entry {}", entry.expect("the entry"))
}

/// The product of ones by the kernel with this text; fails with the emulator's report.
fn run(text: &str) -> Result<Vec<f64>, String> {
    const EXTENTS: [u32; 3] = [140, 130, 100];
    let [m, n, k] = EXTENTS;
    let device = Device::emulator().map_err(say)?;
    let stream = device.stream().map_err(say)?;
    let ones = |rows: u32, columns: u32| {
        Tensor::full(&stream, &[rows as usize, columns as usize], 1.0_f64).map_err(say)
    };
    let (a, b, d) = (ones(m, k)?, ones(n, k)?, ones(m, n)?);
    let params = DoubleParams {
        m,
        n,
        k,
        batch: 1,
        lda: k.into(),
        ldb: k.into(),
        ldc: n.into(),
        ldd: n.into(),
        batch_stride_a: 0,
        batch_stride_b: 0,
        batch_stride_c: 0,
        batch_stride_d: 0,
        alpha: 1.0,
        beta: 0.0,
        a_is_k_major: 1,
        b_is_k_major: 1,
    };
    let entry = planted_entry();
    let config = LaunchConfig {
        grid: entry.tile.grid(m, n, 1).expect("a small product"),
        block: [entry.tile.threads, 1, 1],
        shared_bytes: entry.smem_bytes(),
        cluster: None,
    };
    let kernel = device
        .load_ptx(text)
        .and_then(|module| module.kernel(&entry.to_string()))
        .map_err(say)?;
    let (null, epilogue) = (None::<&Tensor<f64>>, EpilogueParams::default());
    let (a, b, d) = (&a, &b, &d);
    let (params, epilogue) = (ByValue::of(&params), ByValue::of(&epilogue));
    let args = (
        a, b, null, d, null, null, null, null, null, null, params, epilogue,
    );
    // SAFETY: extents and strides are those of the tensors; what is planted, the emulator reports.
    unsafe { kernel.launch(&stream, config, args) }.map_err(say)?;
    stream.synchronize().map_err(say)?;
    d.to_vec().map_err(say)
}

#[test]
fn every_barrier_and_wait_is_needed() {
    let clean = text();
    assert_eq!(run(&clean), Ok(vec![100.0; 140 * 130]));
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
        let report = run(&without.join("\n"));
        assert!(report.is_err(), "`{line}` in line {idx} is not missed");
        planted += 1;
    }
    assert_eq!(planted, 7);
}
