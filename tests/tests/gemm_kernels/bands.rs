//! A GEMM in bands of rows, one launch for each, gives the bits of one launch.

use half::bf16;
use warpsmith::{E4m3, Gemm};
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::values::Values;

use super::hopper::hoppers;

#[test]
fn bands_of_rows_give_the_bits_of_one_launch() {
    for device in hoppers(Some(3)) {
        // 32 waves of tiles of 128 x 128 and more, and a last tile that is not whole.
        let [m, n, k] = match device.is_emulator() {
            true => [1544, 1032, 48],
            false => [8328, 8328, 304],
        };
        let stream = device.stream().expect("there is a stream");
        let operand = |shape: [usize; 2], view, seed| {
            let drawn = Operand::<E4m3>::draw(&device, &shape, Values::Uniform, view, seed);
            drawn.expect("the device has memory").tensor
        };
        let a = operand([m, k], View::Contiguous, 1);
        let b = operand([k, n], View::Transposed, 2);
        let gemm = Gemm::new(&a, &b).output::<bf16>().alpha(0.5);
        let plan = gemm.plan(&stream).expect("it is a product");
        let names = plan.candidates().iter().map(|candidate| &candidate.name);
        let in_bands: Vec<&String> = names.filter(|name| name.contains("+bands")).collect();
        assert!(!in_bands.is_empty(), "{plan}");
        for name in in_bands {
            let bits = |name: &str| -> Vec<u16> {
                let d = gemm.with_kernel(name).run(&stream);
                let d = d.and_then(|d| d.to_vec());
                let d = d.unwrap_or_else(|error| panic!("{name}: {error}"));
                d.into_iter().map(bf16::to_bits).collect()
            };
            let (whole, _) = name.split_once("+bands").expect("it is in bands");
            assert!(bits(name) == bits(whole), "{name}");
        }
    }
}
