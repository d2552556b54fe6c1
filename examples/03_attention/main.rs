//! Causal attention with grouped heads (GQA): which keys a query sees.
//!
//! ```text
//! cargo run --release --example 03_attention
//! ```

use anyhow::{Result, ensure};
use ndarray::Array4;
use warpsmith::{Attention, Device, Tensor};

fn main() -> Result<()> {
    let device = Device::auto()?;
    let stream = device.stream()?;

    // [batch, seqlen, heads, head_dim]: 4 query heads share 2 heads of keys and values.
    let (seqlen, head_dim) = (6, 64);
    let q = Array4::from_shape_fn((1, seqlen, 4, head_dim), |(_, s, h, d)| {
        ((s + h + d) % 5) as f32 * 0.1
    });
    let k = Array4::from_shape_fn((1, seqlen, 2, head_dim), |(_, s, h, d)| {
        ((2 * s + h + d) % 3) as f32 * 0.1
    });
    // The value of key j is j, so the output is the weighted mean position of the visible keys.
    let v = Array4::from_shape_fn((1, seqlen, 2, head_dim), |(_, s, _, _)| s as f32);

    let q = Tensor::from_ndarray(&device, &q)?;
    let k = Tensor::from_ndarray(&device, &k)?;
    let v = Tensor::from_ndarray(&device, &v)?;
    let results = Attention::new(&q, &k, &v).causal().lse().run(&stream)?;

    let (o, lse) = (results.o.to_ndarray()?, results.lse.to_ndarray()?);
    println!("query  mean position seen  log of the sum");
    for s in 0..seqlen {
        println!(
            "{s:>5}  {:>18.3}  {:>14.3}",
            o[[0, s, 0, 0]],
            lse[[0, 0, s]]
        );
        ensure!(o[[0, s, 0, 0]] <= s as f32, "query {s} saw the future");
    }
    Ok(())
}
