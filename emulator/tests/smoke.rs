//! The shortest way through: PTX that llc made runs and gives the right answer.

use warpsmith_emulator::{Emulator, EmulatorConfig, LaunchConfig};

#[test]
fn vector_add_of_llc() -> Result<(), Box<dyn std::error::Error>> {
    let emulator = Emulator::new(EmulatorConfig::default());
    let module = emulator.load(include_str!("pass/vector_add.ptx"))?;
    let n = 1000u32;
    let bytes = u64::from(n) * 4;
    let (a, b, c) = (
        emulator.alloc(bytes)?,
        emulator.alloc(bytes)?,
        emulator.alloc(bytes)?,
    );
    let values =
        |f: fn(u32) -> f32| -> Vec<u8> { (0..n).flat_map(|i| f(i).to_le_bytes()).collect() };
    emulator.write(a, &values(|i| i as f32))?;
    emulator.write(b, &values(|i| 0.5 * i as f32))?;
    let shape = LaunchConfig {
        grid: [8, 1, 1],
        block: [128, 1, 1],
        shared_bytes: 0,
    };
    let params: [&[u8]; 4] = [
        &a.to_le_bytes(),
        &b.to_le_bytes(),
        &c.to_le_bytes(),
        &n.to_le_bytes(),
    ];
    emulator.launch(&module, "vector_add", &shape, &params)?;
    let mut out = vec![0; bytes as usize];
    emulator.read(c, &mut out)?;
    assert_eq!(out, values(|i| 1.5 * i as f32));
    Ok(())
}
