//! What launches read and write.

use std::ops::Range;

use warpsmith_emulator::{Emulator, EmulatorConfig, Footprint, LaunchConfig, Touched};

const KERNEL: &str = ".version 8.0 .target sm_90 .address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{
    .shared .align 16 .b8 tile[512];
    .reg .u64 %x, %y, %a; .reg .u32 %t, %v, %s;
    ld.param.u64 %x, [x];
    ld.param.u64 %y, [y];
    mov.u32 %t, %tid.x;
    mov.u32 %s, tile;
    mad.lo.u32 %s, %t, 16, %s;
    mad.wide.u32 %a, %t, 16, %x;
    cp.async.ca.shared.global [%s], [%a], 16;
    cp.async.wait_all;
    ld.shared.u32 %v, [%s];
    mad.wide.u32 %a, %t, 8, %y;
    st.global.u32 [%a], %v;
    red.global.add.u32 [%y + 512], %v;
    ld.volatile.global.u32 %v, [%y + 516];
    ret;
}";

#[test]
fn a_footprint_has_each_byte_and_the_line_that_touched_it() {
    let emulator = Emulator::new(EmulatorConfig {
        footprint: true,
        ..EmulatorConfig::default()
    });
    let module = emulator.load(KERNEL).expect("the module loads");
    let [x, y] = [0; 2].map(|_| {
        let address = emulator.alloc(1024).expect("memory suffices");
        emulator.fill(address, 0, 1024).expect("it is live");
        address
    });
    let shape = LaunchConfig {
        grid: [1; 3],
        block: [32, 1, 1],
        shared_bytes: 0,
        cluster: None,
    };
    let params = [x.to_le_bytes(), y.to_le_bytes()];
    let stats = emulator
        .launch(&module, "k", &shape, &[&params[0], &params[1]])
        .expect("the kernel runs");
    let part = |bytes: Range<u64>, line| Touched {
        bytes,
        line: Some(line),
    };
    let words = (0..32).map(|thread| part(y + 8 * thread..y + 8 * thread + 4, 16));
    let expected = Footprint {
        reads: vec![part(x..x + 512, 12)],
        writes: words.collect(),
        strong_reads: vec![part(y + 516..y + 520, 18)],
        strong_writes: vec![part(y + 512..y + 516, 17)],
    };
    assert_eq!(stats.footprint.as_deref(), Some(&expected));
}
