//! `vprintf` prints as C does.

use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};

use warpsmith_emulator::{
    Checks, Emulator, EmulatorConfig, FaultKind, LaunchConfig, LaunchError, Output,
    PRINTF_FIFO_BYTES,
};

/// Pseudo-random numbers below `end`, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ self.0 >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(mixed) * u128::from(end)) >> 64) as u64
    }
}

/// A module whose kernel `print` calls `vprintf` `calls` times with arguments in 8-byte slots, and
/// then returns the last result in its parameter. A null format if `format` is `None`.
fn module(format: Option<&[u8]>, arguments: &[u64], calls: u32) -> String {
    let bytes: Vec<String> = format
        .unwrap_or_default()
        .iter()
        .chain([&0])
        .map(u8::to_string)
        .collect();
    let pointer = if format.is_some() { "format" } else { "0" };
    let stores: String = arguments
        .iter()
        .enumerate()
        .map(|(i, value)| format!("st.local.u64 [depot+{}], 0x{value:x};\n", 8 * i))
        .collect();
    format!(
        ".version 8.0 .target sm_75 .address_size 64
         .extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
         .global .align 1 .b8 format[{}] = {{{}}};
         .global .align 1 .b8 word[4] = {{97, 98, 99, 0}};
         .visible .entry print(.param .u64 result)
         {{
             .local .align 8 .b8 depot[512];
             .reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .pred %p;
             {stores}
             mov.u64 %rd1, depot;
             cvta.local.u64 %rd1, %rd1;
             mov.u64 %rd2, {pointer};
             mov.u32 %r1, {calls};
             LOOP:
             {{
                 .param .b64 f; .param .b64 a; .param .b32 r;
                 st.param.b64 [f], %rd2;
                 st.param.b64 [a], %rd1;
                 call (r), vprintf, (f, a);
                 ld.param.b32 %r2, [r];
             }}
             sub.u32 %r1, %r1, 1;
             setp.ne.u32 %p, %r1, 0;
             @%p bra LOOP;
             ld.param.u64 %rd1, [result];
             st.global.u32 [%rd1], %r2;
             ret;
         }}",
        bytes.len(),
        bytes.join(", ")
    )
}

/// Runs the kernel of a [`module`] in `blocks` blocks of one thread: the result, or the error, and
/// what was written.
fn run(text: &str, blocks: u32, threads: usize) -> (Result<i32, LaunchError>, Vec<u8>) {
    let (output, printed) = Output::buffer();
    let emulator = Emulator::new(EmulatorConfig {
        output,
        threads: Some(threads),
        checks: Checks::QUICK,
        ..EmulatorConfig::default()
    });
    let module = emulator.load(text).expect("the module loads");
    let result = emulator.alloc(4).expect("there is room");
    let shape = LaunchConfig {
        grid: [blocks, 1, 1],
        block: [1, 1, 1],
        shared_bytes: 0,
        cluster: None,
    };
    let ran = emulator.launch(&module, "print", &shape, &[&result.to_le_bytes()]);
    let mut bytes = [0; 4];
    emulator.read(result, &mut bytes).expect("it is there");
    let printed = printed.lock().expect("no writer panicked").clone();
    (ran.map(|_| i32::from_le_bytes(bytes)), printed)
}

/// The text of one call.
fn print(format: &str, arguments: &[u64]) -> String {
    let (ran, printed) = run(&module(Some(format.as_bytes()), arguments, 1), 1, 1);
    ran.expect("the kernel runs");
    String::from_utf8(printed).expect("the text is ASCII")
}

/// The result of one call.
fn result(format: Option<&[u8]>) -> i32 {
    run(&module(format, &[0; 20], 1), 1, 1).0.expect("it runs")
}

#[test]
fn integers() {
    assert_eq!(print("[%lld]", &[(-5i64) as u64]), "[-5]");
    assert_eq!(
        print("[%+lld|% lld|%06lld|%-6lld|%6lld]", &[5; 5]),
        "[+5| 5|000005|5     |     5]"
    );
    assert_eq!(print("[%.4llu|%8.4llu]", &[42, 42]), "[0042|    0042]");
    assert_eq!(
        print("[%llx|%#llx|%#llX|%llo|%#llo]", &[255; 5]),
        "[ff|0xff|0XFF|377|0377]"
    );
    assert_eq!(
        print("[%hhd %hd]%%", &[0x0001_8040_u64 | 0x8040_u64 << 32, 0]),
        "[64 -32704]%"
    );
    assert_eq!(print("[%.0llu]", &[0]), "[]");
}

#[test]
fn floats() {
    let bits = f64::to_bits;
    assert_eq!(
        print("%f %.2f %8.3f|", &[bits(1.5), bits(2.345), bits(-0.5)]),
        "1.500000 2.35   -0.500|"
    );
    assert_eq!(
        print("%e %.0e %E", &[bits(12345.678), bits(1e100), bits(1e-5)]),
        "1.234568e+04 1e+100 1.000000E-05"
    );
    assert_eq!(
        print("%g %g %g", &[bits(0.0001), bits(1e-5), bits(1e6)]),
        "0.0001 1e-05 1e+06"
    );
    assert_eq!(
        print("%g %#g %.3g", &[bits(2.0), bits(2.0), bits(1234.0)]),
        "2 2.00000 1.23e+03"
    );
    assert_eq!(
        print("%a %.2a %a", &[bits(1.0), bits(3.125), bits(0.0)]),
        "0x1p+0 0x1.90p+1 0x0p+0"
    );
    assert_eq!(
        print(
            "%f %F %5.1f|%-5.1f|",
            &[bits(f64::INFINITY), bits(f64::NAN), bits(1.25), bits(1.25)]
        ),
        "inf NAN   1.2|1.2  |"
    );
    assert_eq!(
        print("%08.3f %+.1f", &[bits(-1.5), bits(0.25)]),
        "-001.500 +0.2"
    );
}

#[test]
fn characters_and_pointers() {
    assert_eq!(print("%c%c|%p", &[65 | 66 << 32, 0xabc]), "AB|0xabc");
    assert_eq!(print("%3c|%-3c|", &[65 | 66 << 32]), "  A|B  |");
}

#[test]
fn width_and_precision_from_arguments() {
    assert_eq!(print("[%*d]", &[6 | 42 << 32]), "[    42]");
    assert_eq!(
        print("[%*d]", &[((-6i32) as u32 as u64) | 42 << 32]),
        "[42    ]"
    );
    assert_eq!(print("[%.*f]", &[2, 1.0f64.to_bits()]), "[1.00]");
}

#[test]
fn strings() {
    assert_eq!(print("%s|%5s|%-5s|%.2s", &[WORD; 4]), "abc|  abc|abc  |ab");
    assert_eq!(print("%lls|%hs|%.0s|", &[WORD; 3]), "abc|abc||");
    // A precision bounds what is read: these bytes have no zero behind them.
    assert_eq!(print("%.3s|%.1s", &[WORD, WORD + 2]), "abc|c");
    assert_eq!(print("%.*s", &[2, WORD]), "ab");
}

/// Address of `word`: the format is the first global variable, which ends within 256 bytes; after
/// it come the guard and `word`.
const WORD: u64 = 0x7f00_0000_0000 + (64 << 10) + 256;

fn fault(format: &[u8], arguments: &[u64]) -> FaultKind {
    match run(&module(Some(format), arguments, 1), 1, 1).0 {
        Err(LaunchError::Fault(report)) => report.kind,
        other => panic!("{other:?} for {:?}", format.escape_ascii().to_string()),
    }
}

#[test]
fn what_c_has_and_cuda_has_not_is_a_fault_and_so_is_a_format_that_ends_too_early() {
    for format in [
        "%n", "%", "a%", "%5", "%-", "%.", "%.*", "%ll", "%*", "%y", "%.-3d", "%5%",
    ] {
        assert_eq!(
            fault(format.as_bytes(), &[0; 4]),
            FaultKind::BadFormat,
            "{format}"
        );
    }
}

#[test]
fn strings_at_bad_addresses_are_faults() {
    for address in [
        0,
        1,
        WORD + 4,
        0x7eff_ffff_ffff,
        1 << 63,
        u64::MAX,
        u64::MAX - 2,
    ] {
        assert_eq!(
            fault(b"%s", &[address]),
            FaultKind::OutOfBounds,
            "{address:x}"
        );
    }
}

#[test]
fn a_character_is_one_byte() {
    let (ran, printed) = run(&module(Some(b"\xe4%c|%3c"), &[0xff | 0xc3 << 32], 1), 1, 1);
    assert_eq!((ran, printed), (Ok(2), b"\xe4\xff|  \xc3".to_vec()));
}

#[test]
fn a_call_returns_the_number_of_arguments_and_reads_at_most_32() {
    assert_eq!(result(None), -1);
    assert_eq!(result(Some(b"")), 0);
    assert_eq!(result(Some(b"no %% arguments")), 0);
    assert_eq!(result(Some(b"%d %*.*f")), 4);
    assert_eq!(result(Some("%d".repeat(40).as_bytes())), 32);
    let text = print(&format!("{}|%5d|%c", "%d".repeat(32)), &[0; 20]);
    assert_eq!(text, format!("{}|%5d|%c", "0".repeat(32)));
    let text = print(&format!("{}|%*d|%d", "%d".repeat(31)), &[0; 20]);
    assert_eq!(text, format!("{}|%*d|%d", "0".repeat(31)));
}

#[test]
fn width_and_precision_have_no_limit_but_the_buffer() {
    let star = |width: i32, value: u32| u64::from(width as u32) | u64::from(value) << 32;
    assert_eq!(print("%.65536d", &[7]), "0".repeat(65_535) + "7");
    assert_eq!(print("%65537d|", &[7]), " ".repeat(65_536) + "7|");
    assert_eq!(print("%.*d", &[star(-5, 42)]), "42");
    assert_eq!(print("%.*d", &[star(i32::MIN, 42)]), "42");
    assert_eq!(
        print("%.70000f", &[0.5_f64.to_bits()]),
        "0.5".to_owned() + &"0".repeat(69_999)
    );
    assert_eq!(print("%#.70000g", &[2.0_f64.to_bits()]).len(), 70_001);
    assert_eq!(print("%.70000a", &[2.0_f64.to_bits()]).len(), 70_007);
    assert_eq!(print("%.70000e", &[2.0_f64.to_bits()]).len(), 70_006);
    assert_eq!(print("%.70000g", &[2.0_f64.to_bits()]), "2");
    let full = |text: &str| {
        let (note, text) = text.split_once('\n').expect("a note comes first");
        assert_eq!(text.len(), PRINTF_FIFO_BYTES);
        let dropped = (1_u64 << 31) - PRINTF_FIFO_BYTES as u64;
        assert_eq!(
            note,
            format!(
                "[printf: {dropped} bytes of older output were dropped; the buffer holds 1048576]"
            )
        );
    };
    full(&print("%*d", &[star(i32::MIN, 42)]));
    full(&print("%.2147483647d", &[-1_i32 as u32 as u64]));
    full(&print("%-2147483647d|", &[7]));
    full(&print("%99999999999999999999d|", &[7]));
    full(&print("%.2147483646f", &[1.0_f64.to_bits()]));
}

#[test]
fn a_launch_keeps_its_newest_output_and_says_what_it_dropped() {
    // 9 bytes, 200,000 times; in 40 blocks, of which several run at a time.
    let text = module(Some(b"line %03d\n"), &[7], 5_000);
    let (ran, printed) = run(&text, 40, 1);
    assert_eq!(ran, Ok(1));
    let printed = String::from_utf8(printed).expect("the text is ASCII");
    let (note, rest) = printed.split_once('\n').expect("a note comes first");
    assert!(
        note.contains(&format!("{} bytes", 40 * 5_000 * 9 - PRINTF_FIFO_BYTES)),
        "{note}"
    );
    assert_eq!(rest.len(), PRINTF_FIFO_BYTES);
    assert!(rest.ends_with("line 007\nline 007\n"));
    assert_eq!(run(&text, 40, 4).1, printed.as_bytes());
}

#[test]
fn a_writer_may_launch_kernels_that_print() {
    let text = module(Some(b"inner "), &[], 1);
    let emulator = Arc::new(OnceLock::<Emulator>::new());
    let launch = move |emulator: &Emulator| {
        let module = emulator.load(&text).expect("the module loads");
        let result = emulator.alloc(4).expect("there is room");
        let shape = LaunchConfig {
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            cluster: None,
        };
        let params: [&[u8]; 1] = [&result.to_le_bytes()];
        emulator
            .launch(&module, "print", &shape, &params)
            .expect("it runs");
    };
    struct Launches<F> {
        emulator: Arc<OnceLock<Emulator>>,
        launch: F,
        seen: Arc<Mutex<Vec<u8>>>,
    }
    impl<F: Fn(&Emulator)> Write for Launches<F> {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            let mut seen = self.seen.lock().expect("no writer panicked");
            seen.extend_from_slice(text);
            let again = seen.len() < 18;
            drop(seen);
            if again {
                (self.launch)(self.emulator.get().expect("it was made"));
            }
            Ok(text.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let seen = Arc::<Mutex<Vec<u8>>>::default();
    let output = Output::to(Launches {
        emulator: emulator.clone(),
        launch: launch.clone(),
        seen: seen.clone(),
    });
    let made = emulator.get_or_init(|| {
        Emulator::new(EmulatorConfig {
            output,
            ..EmulatorConfig::default()
        })
    });
    launch(made);
    assert_eq!(
        *seen.lock().expect("no writer panicked"),
        b"inner inner inner "
    );
}

/// A format of `count` pieces, each a conversion or text, often malformed.
fn random_format(random: &mut Random, count: u64) -> Vec<u8> {
    let mut format = Vec::new();
    for _ in 0..count {
        format.push(b'%');
        for _ in 0..random.below(3) {
            format.push(b"-+ #0"[random.below(5) as usize]);
        }
        let width = [0, 1, 9, 200, 65_536, 1 << 20, u64::from(u32::MAX), u64::MAX];
        match random.below(4) {
            0 => format.push(b'*'),
            1 => format.extend(width[random.below(8) as usize].to_string().bytes()),
            _ => {}
        }
        match random.below(5) {
            0 => format.extend(b".*"),
            1 => format.extend(format!(".{}", width[random.below(8) as usize]).bytes()),
            2 => format.push(b'.'),
            _ => {}
        }
        format.extend(["", "h", "hh", "l", "ll"][random.below(5) as usize].bytes());
        format.push(b"diouxXcpfFeEgGaAs%n"[random.below(19) as usize]);
        if random.below(9) == 0 {
            format.push(1 + random.below(255) as u8);
        }
    }
    format
}

#[test]
fn no_format_and_no_arguments_do_harm() {
    let mut random = Random(7);
    for round in 0..1_500 {
        let format = random_format(&mut random, 1 + round % 5);
        let values = [
            0,
            1,
            u64::MAX,
            1 << 63,
            WORD,
            1 << 31,
            0x7ff0 << 48,
            0x8000_0000_8000_0000,
        ];
        let arguments: Vec<u64> = (0..20)
            .map(|_| match random.below(3) {
                0 => random.below(u64::MAX),
                _ => values[random.below(8) as usize],
            })
            .collect();
        let (ran, printed) = run(&module(Some(&format), &arguments, 1), 1, 1);
        let context = format!("{} with {arguments:x?}", format.escape_ascii());
        assert!(printed.len() <= PRINTF_FIFO_BYTES + 128, "{context}");
        match ran {
            Ok(count) => assert!((0..=32).contains(&count), "{context}"),
            Err(LaunchError::Fault(report)) => assert!(
                matches!(report.kind, FaultKind::BadFormat | FaultKind::OutOfBounds),
                "{report} {context}"
            ),
            Err(other) => panic!("{other} {context}"),
        }
    }
}

#[cfg(target_env = "gnu")]
#[test]
fn conversions_print_as_the_c_library_prints() {
    use std::ffi::{c_char, c_int};
    unsafe extern "C" {
        fn snprintf(text: *mut c_char, size: usize, format: *const c_char, ...) -> c_int;
    }
    let mut random = Random(11);
    for _ in 0..3_000 {
        let mut format = b"%".to_vec();
        for _ in 0..random.below(4) {
            format.push(b"-+ #0"[random.below(5) as usize]);
        }
        if random.below(2) == 0 {
            format.extend((1 + random.below(30)).to_string().bytes());
        }
        if random.below(2) == 0 {
            format.extend(format!(".{}", random.below(20)).bytes());
        }
        let letter = b"diouxXfFeEgGaA"[random.below(14) as usize];
        if b"diouxX".contains(&letter) {
            format.extend(b"ll");
        }
        format.push(letter);
        let value = match random.below(4) {
            0 => random.below(2),
            1 => (random.below(2_000_000) as f64 / 1024.0 - 900.0).to_bits(),
            2 => random.below(1000).wrapping_neg(),
            _ => random.below(u64::MAX),
        };
        let mut text = [0_u8; 2048];
        let terminated = [format.as_slice(), &[0]].concat();
        let (start, size) = (text.as_mut_ptr().cast(), text.len());
        let pattern = terminated.as_ptr().cast();
        let length = if b"diouxX".contains(&letter) {
            // SAFETY: the format ends with a zero byte and has one conversion, of a `long long`.
            unsafe { snprintf(start, size, pattern, value) }
        } else {
            // SAFETY: as above, of a `double`.
            unsafe { snprintf(start, size, pattern, f64::from_bits(value)) }
        };
        let want = std::str::from_utf8(&text[..length as usize]).expect("the text is ASCII");
        let format = std::str::from_utf8(&format).expect("it is ASCII");
        assert_eq!(print(format, &[value]), want, "{format} of 0x{value:x}");
    }
}
