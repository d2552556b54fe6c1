//! The kernel of chains by hand: also programs for which the library has a faster one.

use half::{bf16, f16};
use spec::elementwise::{
    BinaryOp, ChainParams, Division, GROUP, MAX_RANK, MAX_STEPS, Operand, Step, THREADS, UnaryOp,
    WalkParams, code, grid_blocks,
};
use warpsmith::testing::devices;
use warpsmith::{DeviceBuffer, Module};

use super::{Value, launch, module, noise, upload};

const PORTABLE: &str = include_str!("../../../ptx/sm_75/elementwise.ptx");

/// y = exp(a) · b of `len` elements from an offset on.
fn check<T: Value>(module: &Module, name: &str, [len, offset]: [usize; 2]) {
    let device = module.device();
    let draw =
        |seed: usize| -> Vec<T> { (0..len + offset).map(|i| T::new(noise(seed + i))).collect() };
    let (a, b) = (draw(0), draw(5000));
    let (a_device, b_device) = (upload(device, &a), upload(device, &b));
    let y = upload(device, &vec![T::new(0.0); len + offset]);
    let at = |x: &DeviceBuffer<T>| x.device_ptr().as_raw() + (offset * size_of::<T>()) as u64;
    let chunk = match (offset, size_of::<T>()) {
        (0, 2) => 8,
        (0, _) => 4,
        _ => 1,
    };
    let mut walk = WalkParams {
        len: len as u32,
        rank: 1,
        chunk,
        splat: 0,
        extents: [Division::ONE; MAX_RANK],
        strides: [[0; MAX_RANK]; 5],
    };
    walk.extents[0] = Division::new(len as u32);
    for strides in &mut walk.strides[..3] {
        strides[0] = 1;
    }
    let mut program = [Step::default(); MAX_STEPS];
    program[0] = Step::load(Operand::Input(0, T::DTYPE));
    program[1] = Step::unary(UnaryOp::Exp, 0.0);
    program[2] = Step::binary(BinaryOp::Mul, Operand::Input(1, T::DTYPE), false);
    let dtype = code::dtype(T::DTYPE);
    let params = ChainParams {
        walk,
        steps: 3,
        output: dtype,
        inputs: 2,
        dtypes: dtype | dtype << 8,
        program,
    };
    let kernel = module.kernel(name).expect("the entry is there");
    let per_thread = if chunk == 8 { 2 * GROUP } else { GROUP };
    let blocks = grid_blocks(len as u64, per_thread);
    let arguments = (at(&y), at(&a_device), at(&b_device), 0_u64, 0_u64, params);
    launch(&kernel, blocks, THREADS, arguments);
    let y = y.to_vec().expect("the result can be read");
    for ((a, b), y) in a.iter().zip(&b).zip(&y).skip(offset) {
        let want = a.get().exp() * b.get();
        // exp is off by 1.1 ulp, the product rounded, then the result.
        let bound = want.abs() * (2.0 * f64::from(f32::EPSILON) + T::EPSILON / 2.0) + 3e-8;
        assert!(
            (y.get() - want).abs() <= bound,
            "{name}: {a:?} {b:?} is {y:?}, want {want}"
        );
    }
}

#[test]
fn chains_are_computed_in_chunks_and_one_by_one() {
    for device in devices() {
        let module = module(&device, PORTABLE);
        // Whole blocks and a rest, chunks of one tensor, offsets where there are none.
        for case in [[2048, 0], [3003, 0], [514, 1], [1, 0]] {
            check::<f32>(&module, "chain", case);
            check::<f16>(&module, "chain", case);
            check::<bf16>(&module, "chain", case);
        }
    }
}
