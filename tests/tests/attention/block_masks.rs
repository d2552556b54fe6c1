//! Block masks: what is refused, graphs, streams, and which kernels take them.

use half::bf16;
use ndarray::Array3;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::{
    Attention, AttentionGrad, BinaryOp, BlockMask, BlockMaskShape, Device, Result, ScoreFunction,
    Stream, Tensor,
};
use warpsmith_tests::{on_every_device, refused};

use super::check::ones;

#[test]
fn lists_of_blocks_that_there_are_not() {
    on_every_device(|_, stream| {
        let shape = BlockMaskShape::new(200, 300);
        let of = |full: &[Vec<u32>]| BlockMask::from_lists(&shape, full, stream);
        refused!(of(&[vec![0, 3], vec![]]) => Shape::OutOfBounds, "full", "3");
        refused!(of(&[vec![], vec![2, 0, 2]]) => Argument::Value, "full", "block 2 of keys twice", "block 1");
        refused!(of(&[vec![]]) => Shape::Length, "full", "1", "2");
        for block in [[0, 64], [64, 100], [32, 64]] {
            let shape = BlockMaskShape::new(200, 300).blocks(block[0], block[1]);
            let made = BlockMask::from_lists(&shape, &[], stream);
            refused!(made => Argument::Value, "block of", "multiple of 64");
        }
        let function = ScoreFunction::new().scalar(BinaryOp::Mul, 2.0);
        let made = BlockMask::from_mask(&shape, &function, stream);
        refused!(made => Argument::Value, "mask", "mul");
    });
}

#[test]
fn indices_and_masks_of_another_shape() {
    on_every_device(|device, stream| {
        let shape = BlockMaskShape::new(200, 300).heads(2);
        let indices = Tensor::<i32>::zeros(stream, &[1, 1, 2, 1]).expect("indices");
        let made = BlockMask::from_indices(&shape, &indices, stream);
        refused!(made => Shape::Mismatch, "indices", "[1, 1, 2, 1]", "[1, 2, 2, n]");
        let flat = Tensor::from_slice(device, &[2], &[0, 1]).expect("indices");
        let made = BlockMask::from_indices(&shape, &flat, stream);
        refused!(made => Shape::Mismatch, "indices", "[2]", "[batch, heads, q_blocks, n]");
        let lists = vec![vec![0]; 4];
        let mask = BlockMask::from_lists(&shape, &lists, stream).expect("a mask");
        let x: Tensor<f32> = ones(stream, &[1, 301, 2, 8]);
        let run = Attention::new(&x, &x, &x).block_mask(&mask).run(stream);
        refused!(run => Shape::Mismatch, "block_mask", "[1, 2, 200, 300]", "at least 301 queries");
        let x: Tensor<f32> = ones(stream, &[1, 200, 3, 8]);
        let run = Attention::new(&x, &x, &x).block_mask(&mask).run(stream);
        refused!(run => Shape::Mismatch, "block_mask", "heads 1 or 3");
    });
}

/// 130 queries and keys of a head, in blocks of 64, of which some see the keys of one block.
struct Small {
    x: Tensor<bf16>,
    indices: Tensor<i32>,
    mask: BlockMask,
}

impl Small {
    fn new(stream: &Stream) -> Result<Self> {
        let shape = BlockMaskShape::new(130, 130).blocks(64, 64);
        let indices = Tensor::from_slice(stream.device(), &[1, 1, 3, 2], &[0, 9, 2, 2, -1, 3])?;
        let numbers = Array3::from_shape_fn((130, 1, 64), |(i, _, j)| {
            bf16::from_f32(((i * 37 + j * 11) % 64) as f32 / 64.0 - 0.5)
        });
        let x = Tensor::from_ndarray(stream.device(), &numbers.into_dyn())?;
        Ok(Self {
            x: x.insert_axis(0)?,
            mask: BlockMask::from_indices(&shape, &indices, stream)?,
            indices,
        })
    }

    fn attention(&self) -> Attention<'_, bf16> {
        Attention::new(&self.x, &self.x, &self.x).block_mask(&self.mask)
    }
}

#[test]
fn a_captured_graph_reads_the_indices_of_each_launch() {
    on_every_device(|_, stream| {
        let small = Small::new(stream).expect("operands");
        let o = Tensor::<bf16>::zeros(stream, &[1, 130, 1, 64]).expect("o");
        small.attention().run_into(&o, stream).expect("composed");
        let graph = stream.capture(|stream| {
            small.mask.set_indices(&small.indices, stream)?;
            small.attention().run_into(&o, stream)
        });
        let graph = graph.expect("a graph");
        for block in [2, 0, 7, 1] {
            small.indices.fill(block, stream).expect("indices");
            graph.launch(stream).expect("a launch");
            let got = o.to_vec().expect("o");
            let mask = BlockMask::from_indices(small.mask.shape(), &small.indices, stream);
            let mask = mask.expect("a mask");
            let want = Attention::new(&small.x, &small.x, &small.x).block_mask(&mask);
            let want = want.run(stream).expect("o").to_vec().expect("o");
            assert_eq!(got, want, "block {block}");
            assert_eq!(got.iter().all(|x| x.to_f32() == 0.0), block == 7);
        }
    });
}

#[test]
fn streams_share_a_mask() {
    on_every_device(|device, stream| {
        let small = Small::new(stream).expect("operands");
        let want = small.attention().lse().run(stream).expect("o");
        stream.synchronize().expect("done");
        let streams: Vec<Stream> = (0..3).map(|_| device.stream().expect("a stream")).collect();
        let all: Vec<_> = (0..6)
            .map(|idx| small.attention().lse().run(&streams[idx % 3]).expect("o"))
            .collect();
        let want = (want.o.to_vec().expect("o"), want.lse.to_vec().expect("lse"));
        for (idx, got) in all.into_iter().enumerate() {
            streams[idx % 3].synchronize().expect("done");
            let got = (got.o.to_vec().expect("o"), got.lse.to_vec().expect("lse"));
            assert_eq!(got, want);
        }
        // The last two queries see no key.
        assert_eq!(want.1[128..], [f32::NEG_INFINITY; 2]);
    });
}

#[test]
fn every_family_of_kernels_takes_block_masks() {
    let device = Device::emulator_with(EmulatorConfig::default()).expect("an emulator");
    let stream = device.stream().expect("a stream");
    let small = Small::new(&stream).expect("operands");
    let names = |plan: warpsmith::Plan| -> Vec<String> {
        let candidates = plan.candidates().iter();
        candidates.map(|candidate| candidate.name.clone()).collect()
    };
    let forward = names(small.attention().plan(&stream).expect("a plan"));
    let result = small.attention().lse().run(&stream).expect("o");
    let (x, o, lse) = (&small.x, &result.o, &result.lse);
    let grad = AttentionGrad::new(x, x, x, o, lse, o).block_mask(&small.mask);
    let backward = names(grad.plan(&stream).expect("a plan"));
    for family in ["sm90", "sm80", "simt"] {
        let has = |names: &[String]| names.iter().any(|name| name.contains(family));
        assert!(has(&forward) && has(&backward), "{forward:?}, {backward:?}");
    }
}
