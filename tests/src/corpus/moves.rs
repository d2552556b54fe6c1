//! Elementwise functions, copies, rows by indices, rotations.

use half::{bf16, f16};
use warpsmith::{
    Binary, BinaryOp, Chain, DType, Float, GradOp, Gradient, IndexElement, KvCache, KvCacheShape,
    ParamElement, Reducible, Result, Rotary, Scatter, ScatterAdd, ScatterOp, ScatterReduce, Select,
    Take, Unary, UnaryOp,
};

use super::{Case, Inputs, read};
use crate::element::TestElement;

const ARCHS: [(u32, u32); 2] = [(7, 5), (9, 0)];
/// More than 2^17 chunks of 16 bytes.
const BYTES: usize = 2_200_000;
/// More than 2^18 elements, of which every other one is taken.
const WORDS: usize = 264_000;

pub(super) fn add(cases: &mut Vec<Case>) {
    cases.push(Case::new("large elementwise functions", (9, 0), large));
    for arch in ARCHS {
        cases.push(Case::new("elementwise functions of f32", arch, functions::<f32>).approximate());
        cases.push(Case::new("elementwise functions of f16", arch, functions::<f16>).approximate());
        let functions = functions::<bf16>;
        cases.push(Case::new("elementwise functions of bf16", arch, functions).approximate());
        copied::<u8>(cases, arch);
        copied::<f16>(cases, arch);
        copied::<f32>(cases, arch);
        copied::<f64>(cases, arch);
    }
    // All devices have the same kernels for the rest.
    let arch = ARCHS[0];
    chosen::<u8>(cases, arch);
    chosen::<f16>(cases, arch);
    chosen::<f32>(cases, arch);
    chosen::<f64>(cases, arch);
    added::<f32>(cases, arch);
    added::<f16>(cases, arch);
    added::<bf16>(cases, arch);
    added::<f64>(cases, arch);
    added::<i32>(cases, arch);
    rotated::<f32, f32>(cases, arch);
    rotated::<f16, f32>(cases, arch);
    rotated::<f16, f16>(cases, arch);
    rotated::<bf16, f32>(cases, arch);
    rotated::<bf16, bf16>(cases, arch);
    appended::<f32, f32>(cases, arch);
    appended::<f16, f32>(cases, arch);
    appended::<f16, f16>(cases, arch);
    appended::<bf16, f32>(cases, arch);
    appended::<bf16, bf16>(cases, arch);
}

/// Functions of one to four tensors, contiguous and not.
fn functions<T: Float + TestElement>(inputs: &mut Inputs) -> Result<()> {
    let stream = inputs.stream.clone();
    for shape in [[40, 200], [7, 33]] {
        let [a, b, c, d] = [(); 4].map(|()| inputs.tensor::<T>(&shape));
        let (a, b, c, d) = (a?, b?, c?, d?);
        let views = [
            [a.clone(), b.clone(), c.clone(), d.clone()],
            {
                let reversed = [&a, &b, &c, &d].map(|x| x.t());
                reversed.map(|x| x.permute(&[1, 0]))
            }
            .map(|x| x.expect("a permutation")),
        ];
        for [a, b, c, d] in views {
            read(&Unary::new(UnaryOp::Silu, &a).run(&stream)?)?;
            read(&Binary::new(BinaryOp::Mul, &a, &b).run(&stream)?)?;
            read(&Gradient::new(GradOp::Gelu, &a, &b).run(&stream)?)?;
            read(&Select::new(&a, &b, &c).run(&stream)?)?;
            let three = Chain::new(&a)
                .with(BinaryOp::Mul, &b)
                .with(BinaryOp::Add, &c);
            read(&three.run(&stream)?)?;
            let four = three.with(BinaryOp::Sub, &d);
            read(&four.run(&stream)?)?;
            read(&four.output::<f32>().run(&stream)?)?;
            read(&three.store(&d).run(&stream)?)?;
            read(&d)?;
        }
        let (half, column) = (a.slice_step(1, .., 2)?, b.slice(1, ..1)?);
        let column = column.broadcast_to(half.shape())?;
        read(&Unary::new(UnaryOp::Exp, &half).run(&stream)?)?;
        read(&Binary::new(BinaryOp::Add, &half, &column).run(&stream)?)?;
        read(
            &Chain::new(&half)
                .with(BinaryOp::Mul, &column)
                .with(BinaryOp::Add, &half)
                .run(&stream)?,
        )?;
        let across = c.t().slice_step(0, .., 2)?.t();
        let three = Chain::new(&half)
            .with(BinaryOp::Mul, &column)
            .with(BinaryOp::Add, &across);
        read(&three.run(&stream)?)?;
        let last = d.slice_step(1, .., 2)?;
        read(&three.with(BinaryOp::Sub, &last).run(&stream)?)?;
        read(&three.store(&last).run(&stream)?)?;
        read(&last)?;
        read(&half.cast::<f32>(&stream)?)?;
    }
    Ok(())
}

/// So many elements that threads take several chunks: contiguous bytes, and every other f32.
fn large(inputs: &mut Inputs) -> Result<()> {
    let stream = inputs.stream.clone();
    let [a, b, c, d] = [(); 4].map(|()| inputs.tensor::<u8>(&[BYTES]));
    let (a, b, c, d) = (a?, b?, c?, d?);
    let one = Chain::new(&a).unary(UnaryOp::Relu);
    read(&one.run(&stream)?)?;
    let two = one.with(BinaryOp::Add, &b);
    read(&two.run(&stream)?)?;
    let three = two.with(BinaryOp::Max, &c);
    read(&three.run(&stream)?)?;
    read(&three.with(BinaryOp::Add, &d).run(&stream)?)?;
    let [a, b, c, d] = [(); 4].map(|()| {
        let words = inputs.tensor::<f32>(&[WORDS])?;
        words.slice_step(0, .., 2)
    });
    let (a, b, c, d) = (a?, b?, c?, d?);
    let one = Chain::new(&a).unary(UnaryOp::Relu);
    read(&one.run(&stream)?)?;
    let two = one.with(BinaryOp::Add, &b);
    read(&two.run(&stream)?)?;
    let three = two.with(BinaryOp::Max, &c);
    read(&three.run(&stream)?)?;
    read(&three.with(BinaryOp::Add, &d).run(&stream)?)
}

fn copied<T: TestElement>(cases: &mut Vec<Case>, arch: (u32, u32)) {
    let name = format!("copies of {}", T::DTYPE);
    cases.push(Case::new(name, arch, copies::<T>));
}

fn chosen<T: TestElement>(cases: &mut Vec<Case>, arch: (u32, u32)) {
    let dtype = T::DTYPE;
    let (by_i32, by_i64) = (rows::<T, i32>, rows::<T, i64>);
    cases.push(Case::new(format!("rows of {dtype} by i32"), arch, by_i32));
    cases.push(Case::new(format!("rows of {dtype} by i64"), arch, by_i64));
}

fn copies<T: TestElement>(inputs: &mut Inputs) -> Result<()> {
    let stream = inputs.stream.clone();
    let x = inputs.tensor::<T>(&[72, 100])?;
    read(&x.t().contiguous(&stream)?)?;
    read(&x.slice_step(1, .., 3)?.contiguous(&stream)?)?;
    read(&x.slice(1, 3..80)?.contiguous(&stream)?)?;
    read(&x.slice(1, 16..80)?.contiguous(&stream)?)?;
    let folded = x.reshape(&[6, 12, 100])?.permute(&[2, 0, 1])?;
    read(&folded.contiguous(&stream)?)
}

/// Rows that are aligned and not, by few indices and by many.
fn rows<T: TestElement, I: IndexElement + TestElement>(inputs: &mut Inputs) -> Result<()> {
    let stream = inputs.stream.clone();
    for (count, len, columns) in [(40, 150, 32), (9, 10, 33), (30, 1100, 16)] {
        let indices = inputs.indices::<I>(len, count)?;
        let table = inputs.tensor::<T>(&[count, columns])?;
        read(&Take::new(&table, &indices).run(&stream)?)?;
        let src = inputs.tensor::<T>(&[len, columns])?;
        Scatter::new(&indices, &src).run_into(&table, &stream)?;
        read(&table)?;
        // Neighbours that are not contiguous are moved one by one.
        let (table, src) = (inputs.tensor::<T>(&[columns, count])?, src.t());
        Scatter::new(&indices, &src)
            .axis(1)
            .run_into(&table, &stream)?;
        read(&table)?;
        read(&Take::new(&table, &indices).axis(1).run(&stream)?)?;
    }
    Ok(())
}

fn added<T: Reducible + TestElement>(cases: &mut Vec<Case>, arch: (u32, u32)) {
    let dtype = T::DTYPE;
    let name = format!("rows of {dtype} added");
    cases.push(Case::new(name, arch, move |inputs| {
        for (count, len, columns) in [(5, 10, 32), (40, 3000, 32), (7, 5000, 3), (300, 9000, 1)] {
            let indices = inputs.indices::<i32>(len, count)?;
            let src = inputs.tensor::<T>(&[len, columns])?;
            read(
                &ScatterAdd::new(&indices, &src)
                    .extent(count)
                    .run(&inputs.stream)?,
            )?;
            for op in [ScatterOp::Prod, ScatterOp::Max, ScatterOp::Min] {
                let others = ScatterReduce::new(op, &indices, &src).extent(count);
                read(&others.wrap_negative().run(&inputs.stream)?)?;
            }
        }
        Ok(())
    }));
}

/// New keys and values of a paged cache: one token of each sequence, and several.
fn appended<T, C>(cases: &mut Vec<Case>, arch: (u32, u32))
where
    T: Float + TestElement,
    C: ParamElement<T> + TestElement,
{
    let name = format!("keys of {} turned by {} in a cache", T::DTYPE, C::DTYPE);
    cases.push(Case::new(name, arch, |inputs| {
        let shape = KvCacheShape {
            layers: 1,
            pages: 9,
            page_size: 16,
            heads_kv: 2,
            head_dim: 40,
            head_dim_v: 24,
        };
        let of = inputs.tensor::<f32>(&[2])?;
        let stream = inputs.stream.clone();
        if T::DTYPE != DType::F32 {
            let mut cache = KvCache::<T, _>::e4m3(&stream, shape, &[[&of, &of]])?;
            let a = cache.insert();
            let k = inputs.tensor::<T>(&[17, 2, 40])?;
            let v = inputs.tensor::<T>(&[17, 2, 24])?;
            let table = inputs.tensor::<C>(&[40, 12])?;
            let step = cache.append(&[(a, 17)], &stream)?;
            step.write(0, &k, &v).rotary(&table, &table).run(&stream)?;
            let [k, v] = step.pools(0)?;
            read(&k.slice(0, ..1)?)?;
            read(&v.slice(0, ..1)?)?;
        }
        let mut cache = KvCache::<T>::new(&stream, shape)?;
        let (a, b) = (cache.insert(), cache.insert());
        for (counts, half) in [([17, 30], 20), ([1, 1], 12)] {
            let tokens = counts[0] + counts[1];
            let k = inputs.tensor::<T>(&[tokens, 2, 40])?;
            let v = inputs.tensor::<T>(&[tokens, 2, 24])?;
            let (cos, sin) = (
                inputs.tensor::<C>(&[40, half])?,
                inputs.tensor::<C>(&[40, half])?,
            );
            let step = cache.append(&[(a, counts[0]), (b, counts[1])], &stream)?;
            let write = step.write(0, &k, &v).rotary(&cos, &sin);
            match half {
                20 => write.run(&stream)?,
                _ => write.interleaved().run(&stream)?,
            }
            let [k, v] = step.pools(0)?;
            read(&k.slice(0, ..3)?)?;
            read(&v.slice(0, ..3)?)?;
        }
        Ok(())
    }));
}

fn rotated<T, C>(cases: &mut Vec<Case>, arch: (u32, u32))
where
    T: Float + TestElement,
    C: ParamElement<T> + TestElement,
{
    let name = format!("rotation of {} by {}", T::DTYPE, C::DTYPE);
    cases.push(Case::new(name, arch, |inputs| {
        for (tokens, head_dim, half) in [(200, 64, 32), (12, 28, 9), (300, 48, 16)] {
            let x = inputs.tensor::<T>(&[tokens, 3, head_dim])?;
            let (cos, sin) = (
                inputs.tensor::<C>(&[310, half])?,
                inputs.tensor::<C>(&[310, half])?,
            );
            let positions = inputs.indices::<i32>(tokens, 310)?;
            let rotation = Rotary::new(&x, &cos, &sin);
            read(&rotation.offset(3).run(&inputs.stream)?)?;
            read(&rotation.positions(&positions).run(&inputs.stream)?)?;
            read(&rotation.interleaved().inverse().run(&inputs.stream)?)?;
        }
        Ok(())
    }));
}
