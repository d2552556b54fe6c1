//! `vprintf` prints as C does.

use warpsmith_emulator::{Emulator, EmulatorConfig, LaunchConfig, Output};

/// Prints `format` with arguments in 8-byte slots from two threads, and returns the text.
fn print(format: &str, arguments: &[u64]) -> String {
    let bytes: Vec<String> = format
        .bytes()
        .chain([0])
        .map(|byte| byte.to_string())
        .collect();
    let stores: String = arguments
        .iter()
        .enumerate()
        .map(|(i, value)| format!("st.local.u64 [depot+{}], 0x{value:x};\n", 8 * i))
        .collect();
    let text = format!(
        ".version 8.0 .target sm_75 .address_size 64
         .extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
         .global .align 1 .b8 format[{}] = {{{}}};
         .global .align 1 .b8 word[4] = {{97, 98, 99, 0}};
         .visible .entry print()
         {{
             .local .align 8 .b8 depot[64];
             .reg .b64 %rd<3>;
             .param .b64 f; .param .b64 a; .param .b32 r;
             {stores}
             mov.u64 %rd1, depot;
             cvta.local.u64 %rd1, %rd1;
             mov.u64 %rd2, format;
             st.param.b64 [f], %rd2;
             st.param.b64 [a], %rd1;
             call (r), vprintf, (f, a);
             ret;
         }}",
        bytes.len(),
        bytes.join(", ")
    );
    let (output, printed) = Output::buffer();
    let emulator = Emulator::new(EmulatorConfig {
        output,
        ..EmulatorConfig::default()
    });
    let module = emulator.load(&text).expect("the module loads");
    let shape = LaunchConfig {
        grid: [1; 3],
        block: [1, 1, 1],
        shared_bytes: 0,
        cluster: None,
    };
    emulator
        .launch(&module, "print", &shape, &[])
        .expect("the kernel runs");
    let printed = printed.lock().expect("no writer panicked").clone();
    String::from_utf8(printed).expect("the text is ASCII")
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
    // The format is the first global variable: 256 bytes, then the guard; `word` is the next one.
    let word = 0x7f00_0000_0000_u64 + (64 << 10) + 256;
    assert_eq!(print("%s|%5s|%-5s|%.2s", &[word; 4]), "abc|  abc|abc  |ab");
}
