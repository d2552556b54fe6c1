//! Operations on elements, by indices, and copies.

use super::calls::{Calls, bits};
use half::bf16;
use warpsmith::{
    Binary, BinaryOp, Chain, GradOp, Gradient, Map, Reducible, Scatter, ScatterAdd, Select, Take,
    Tensor, Unary, UnaryOp,
};
use warpsmith_tests::element::TestElement;

pub(crate) fn add(calls: &mut Calls) {
    elementwise(calls);
    mapped(calls);
    copied(calls);
    by_index(calls);
    // Indices that one block sorts, and that several do.
    for count in [20, 1200, 5000] {
        scatter_add::<f32>(calls, count);
    }
    scatter_add::<bf16>(calls, 1200);
    scatter_add::<i64>(calls, 1200);
}

fn elementwise(calls: &mut Calls) {
    let [x, y] = [(); 2].map(|()| calls.numbers::<f32>(&[100, 70]));
    let row = calls.numbers::<bf16>(&[70]);
    calls.add("element-wise operations", move |stream| {
        let each = [
            Unary::new(UnaryOp::Exp, &x).run(stream)?,
            Binary::new(BinaryOp::Mul, &x, &y).run(stream)?,
            Select::new(&x, &y, &x).run(stream)?,
            Gradient::new(GradOp::Gelu, &x, &y).run(stream)?,
            Chain::new(&x)
                .with(BinaryOp::Add, &row)
                .clamp(-1.0, 1.0)
                .run(stream)?,
        ];
        let each = each.iter().map(bits).collect::<warpsmith::Result<Vec<_>>>();
        Ok(each?.concat())
    });
}

fn mapped(calls: &mut Calls) {
    const PTX: &str = include_str!("../../../examples/kernels/ptx/sm_75/swish_gate.ptx");
    let module = calls.stream.device().load_ptx(PTX).expect("a module");
    let kernel = module.kernel("swish_gate").expect("a kernel");
    let [x, beta, gate] = [(); 3].map(|()| calls.numbers::<bf16>(&[1000]));
    calls.add("Map", move |stream| {
        let map = Map::new(&kernel)
            .input(&x)
            .input(&beta)
            .input(&gate)
            .output::<bf16>();
        // SAFETY: the kernel maps three inputs of bf16 to one output of bf16.
        bits(&unsafe { map.run(stream) }?)
    });
}

fn copied(calls: &mut Calls) {
    let x = calls.numbers::<f32>(&[60, 70]);
    calls.add("copies, casts and fills", move |stream| {
        let turned = x.t().contiguous(stream)?;
        let narrow = x.slice_step(1, .., -2)?.cast::<bf16>(stream)?;
        let filled = Tensor::full(stream, &[70, 60], 3.0_f32)?;
        filled
            .slice(0, 10..20)?
            .assign(&turned.slice(0, 30..40)?, stream)?;
        Ok([bits(&turned)?, bits(&narrow)?, bits(&filled)?].concat())
    });
}

fn by_index(calls: &mut Calls) {
    let x = calls.numbers::<f32>(&[50, 24]);
    let indices = calls.below::<i64>(50, &[300]);
    let src = calls.numbers::<f32>(&[300, 24]);
    calls.add("Take and Scatter", move |stream| {
        let taken = Take::new(&x, &indices).run(stream)?;
        let written = Tensor::zeros(stream, &[50, 24])?;
        Scatter::new(&indices, &src).run_into(&written, stream)?;
        Ok([bits(&taken)?, bits(&written)?].concat())
    });
}

fn scatter_add<T: TestElement + Reducible>(calls: &mut Calls, count: usize) {
    let indices = calls.below::<i32>(30, &[count]);
    let src = calls.numbers::<T>(&[count, 8]);
    calls.add(
        format!("ScatterAdd of {count} rows of {}", T::DTYPE),
        move |stream| bits(&ScatterAdd::new(&indices, &src).extent(30).run(stream)?),
    );
}
