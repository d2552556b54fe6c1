//! Launches in a row, each of which reads what the one before it wrote, with nothing between them:
//! on compute capability 9.0 and later, a launch begins before the one before it has ended.

use warpsmith::testing::devices;
use warpsmith::{Binary, BinaryOp, Tensor};

#[test]
fn each_launch_of_a_row_sees_what_the_one_before_it_wrote() {
    for device in devices() {
        // On a GPU, more blocks than run at the same time.
        let (elements, launches) = match device.is_emulator() {
            true => (1_000, 20),
            false => (1 << 23, 500),
        };
        let stream = device.stream().expect("a stream");
        let mut here = Tensor::<f32>::zeros(&stream, &[elements]).expect("memory");
        let mut there = Tensor::<f32>::zeros(&stream, &[elements]).expect("memory");
        let one = Tensor::<f32>::full(&stream, &[1], 1.0).expect("memory");
        for _ in 0..launches {
            // The first block reads what the last one wrote.
            let reversed = here.slice_step(0, .., -1).expect("a view");
            Binary::new(BinaryOp::Add, &reversed, &one)
                .run_into(&there, &stream)
                .expect("runs");
            std::mem::swap(&mut here, &mut there);
        }
        let got = here.to_vec().expect("a copy");
        let wrong = got.iter().position(|&x| x != launches as f32);
        let example = wrong.map(|at| (at, got[at]));
        assert_eq!(example, None, "want {launches} everywhere on {device}");
    }
}
