//! saxpy on every device, against f64.

use warpsmith::{Tensor, testing};

mod kernels {
    include!(concat!(env!("OUT_DIR"), "/ptx/kernels.rs"));
}

#[test]
fn saxpy_is_as_in_f64() {
    const LEN: usize = 1000;
    let x = testing::random::<f32>(LEN, 1);
    let y = testing::random::<f32>(LEN, 2);
    testing::on_every_device(|device| {
        let stream = device.default_stream();
        let xs = Tensor::from_slice(device, &[LEN], &x)?;
        let mut ys = Tensor::from_slice(device, &[LEN], &y)?;
        kernels::load(device)?.saxpy(&stream, 2.0, &xs, &mut ys)?;
        testing::assert_close(&ys, |i| {
            testing::sum([2.0 * f64::from(x[i]), f64::from(y[i])])
        })
    });
}
