//! `Rotary` against its reference: every dtype, both kinds of pairs, both layouts, any strides,
//! positions from the host, from sequences and from tokens.

mod refused;

use half::{bf16, f16};
use ndarray::{ArrayD, Axis, Ix2};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::reference::rotary::{Rotation, rotary};
use warpsmith::testing::Recording;
use warpsmith::{DType, Device, Float, Layout, ParamElement, Rotary, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{agrees, run_repeatedly};
use warpsmith_tests::output::{Output, same_bits};
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, on_every_device, profiled, refused, say};

/// Where positions come from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    Counted,
    Offset,
    Offsets,
    Each,
}

#[derive(Clone, Debug)]
struct Case {
    outer: Vec<usize>,
    seqlen: usize,
    heads: usize,
    head_dim: usize,
    half: usize,
    layout: Layout,
    dtype: DType,
    is_table_f32: bool,
    is_interleaved: bool,
    is_inverse: bool,
    is_in_place: bool,
    source: Source,
    /// How many positions of ten are not a row.
    bad: u32,
    views: [View; 5],
    values: Values,
    seed: u64,
}

impl Case {
    /// The shape of x, with tokens before heads or behind.
    fn shape(&self, layout: Layout) -> Vec<usize> {
        let mut shape = self.outer.clone();
        shape.extend(match layout {
            Layout::Bhsd => [self.heads, self.seqlen, self.head_dim],
            _ => [self.seqlen, self.heads, self.head_dim],
        });
        shape
    }

    /// Rows of the tables, and what is added to the index of a token.
    fn rows(&self) -> (usize, usize) {
        match self.source {
            Source::Counted => (self.seqlen + 3, 0),
            Source::Offset => (self.seqlen + 11, 7),
            _ => (self.seqlen.max(5) + 2, 0),
        }
    }

    /// The tensor of positions: as exact values.
    fn drawn(&self) -> ArrayD<f64> {
        let mut shape = self.outer.clone();
        if self.source == Source::Each {
            shape.push(self.seqlen);
        }
        let (rows, _) = self.rows();
        let far = [-1, rows as i32, i32::MIN, i32::MAX];
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut drawn = ArrayD::from_shape_simple_fn(shape.clone(), || {
            let position = match rng.random_ratio(self.bad, 10) {
                true => far[rng.random_range(0..far.len())],
                false => rng.random_range(0..rows as i32),
            };
            f64::from(position)
        });
        if self.views[3] == View::Repeated && !shape.is_empty() && !drawn.is_empty() {
            let first = drawn.index_axis(Axis(0), 0).to_owned();
            for mut row in drawn.axis_iter_mut(Axis(0)) {
                row.assign(&first);
            }
        }
        drawn
    }

    /// The position of each token.
    fn positions(&self, drawn: &ArrayD<f64>) -> ArrayD<i64> {
        let mut shape = self.outer.clone();
        shape.push(self.seqlen);
        let (_, offset) = self.rows();
        ArrayD::from_shape_fn(shape, |at| {
            let at = ndarray::Dimension::slice(&at);
            let (outer, token) = at.split_at(at.len() - 1);
            match self.source {
                Source::Counted | Source::Offset => (token[0] + offset) as i64,
                Source::Offsets => drawn[outer] as i64 + token[0] as i64,
                Source::Each => drawn[at] as i64,
            }
        })
    }
}

fn check(case: &Case, device: &Device) -> Checked {
    match (case.dtype, case.is_table_f32) {
        (DType::F32, _) => check_of::<f32, f32>(case, device),
        (DType::F16, true) => check_of::<f16, f32>(case, device),
        (DType::F16, false) => check_of::<f16, f16>(case, device),
        (DType::Bf16, true) => check_of::<bf16, f32>(case, device),
        (DType::Bf16, false) => check_of::<bf16, bf16>(case, device),
        (other, _) => Err(format!("no rotation of {other}")),
    }
}

/// From the layout of `case` to `[.., seqlen, heads, head_dim]`, and back.
fn with_tokens_first<T: Clone>(case: &Case, x: &ArrayD<T>) -> ArrayD<T> {
    let mut x = x.clone();
    let rank = x.ndim();
    if case.layout == Layout::Bhsd {
        x.swap_axes(rank - 3, rank - 2);
    }
    x.as_standard_layout().into_owned()
}

fn check_of<T: Float + TestElement, C: ParamElement<T> + TestElement>(
    case: &Case,
    device: &Device,
) -> Checked {
    let stream = device.stream().map_err(say)?;
    let shape = case.shape(case.layout);
    let view = match case.is_in_place {
        true => case.views[0].writable_or_contiguous(),
        false => case.views[0],
    };
    let x = Operand::<T>::draw(device, &shape, case.values, view, case.seed)?;
    let of_table = [case.rows().0, case.half];
    let table = |view, seed| Operand::<C>::draw(device, &of_table, Values::Uniform, view, seed);
    let cos = table(case.views[1], case.seed + 1)?;
    let sin = table(case.views[2], case.seed + 2)?;
    let drawn = case.drawn();
    let positions = Operand::<i32>::lay_out(device, drawn.clone(), case.views[3])?;
    let (cos_table, sin_table, positions) = (&cos.tensor, &sin.tensor, &positions.tensor);
    let got = match case.is_in_place {
        false => {
            let output = || Output::<T>::new(device, &shape, case.views[4]);
            run_repeatedly(output, |y| {
                let operation = Rotary::new(&x.tensor, cos_table, sin_table);
                configured(case, operation, positions).run_into(&y.tensor, &stream)
            })?
        }
        true => {
            let values = x.values.mapv(T::nearest);
            let output = || Output::<T>::with(device, &values, view);
            run_repeatedly(output, |y| {
                let operation = Rotary::new(&y.tensor, cos_table, sin_table);
                configured(case, operation, positions).run_into(&y.tensor, &stream)
            })?
        }
    };
    x.expect_unchanged()?;
    let table = |operand: &Operand<C>| operand.values.clone().into_dimensionality::<Ix2>();
    let (cos, sin) = (table(&cos).map_err(say)?, table(&sin).map_err(say)?);
    let rotation = Rotation {
        cos: cos.view(),
        sin: sin.view(),
        interleaved: case.is_interleaved,
        inverse: case.is_inverse,
    };
    let values = with_tokens_first(case, &x.values);
    let positions = case.positions(&drawn);
    let want = rotary(&values.view(), &rotation, &positions.view(), T::DTYPE).map_err(say)?;
    let got = with_tokens_first(case, &got);
    agrees(&got, &want)?;
    // What is copied has its bits, those of a NaN too.
    let rank = got.ndim();
    let copied = |of: &ArrayD<T>| {
        let behind = ndarray::Slice::from(2 * case.half..);
        of.slice_axis(Axis(rank - 1), behind).to_owned()
    };
    same_bits(&copied(&got), &copied(&values.mapv(T::nearest)))
}

fn configured<'a, T: Float, C: ParamElement<T>>(
    case: &Case,
    operation: Rotary<'a, T, C>,
    positions: &'a Tensor<i32>,
) -> Rotary<'a, T, C> {
    let mut operation = operation.layout(case.layout);
    if case.is_interleaved {
        operation = operation.interleaved();
    }
    if case.is_inverse {
        operation = operation.inverse();
    }
    match case.source {
        Source::Counted => operation,
        Source::Offset => operation.offset(case.rows().1),
        Source::Offsets => operation.offsets(positions),
        Source::Each => operation.positions(positions),
    }
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    let outer = prop_oneof![
        2 => Just(vec![]),
        4 => (0..4_usize).prop_map(|n| vec![n]),
        1 => (1..3_usize, 1..4_usize).prop_map(|(a, b)| vec![a, b]),
    ];
    // Heads of any width, and of whole vectors.
    let head = prop_oneof![
        1 => (extent(20), 0..=10_usize).prop_map(|(n, half)| (n, half.min(n / 2))),
        2 => (1..=6_usize, 0..=6_usize).prop_map(|(n, half)| (16 * n, 8 * half.min(n))),
    ];
    let extents = (outer, extent(largest), 0..=7_usize, head);
    let layout = prop::sample::select(vec![Layout::Bshd, Layout::Bhsd]);
    let dtype = prop::sample::select(vec![DType::F32, DType::F16, DType::Bf16]);
    let source = [
        Source::Counted,
        Source::Offset,
        Source::Offsets,
        Source::Each,
    ];
    let source = prop::sample::select(source.to_vec());
    let flags = prop::array::uniform4(any::<bool>());
    let views = (
        View::any(),
        View::any(),
        View::any(),
        View::any(),
        View::writable(),
    );
    let rest = (
        prop::sample::select(vec![0, 0, 3]),
        Values::any(),
        any::<u32>(),
    );
    (extents, layout, dtype, source, flags, views, rest).prop_map(
        |((outer, seqlen, heads, (head_dim, half)), layout, dtype, source, flags, views, rest)| {
            Case {
                outer,
                seqlen,
                heads,
                head_dim,
                half,
                layout,
                dtype,
                is_table_f32: flags[0],
                is_interleaved: flags[1],
                is_inverse: flags[2],
                is_in_place: flags[3],
                source,
                bad: rest.0,
                views: [views.0, views.1, views.2, views.3, views.4],
                values: rest.1,
                seed: u64::from(rest.2),
            }
        },
    )
}

#[test]
fn rotary_matches_its_reference_for_every_layout_dtype_and_source_of_positions() {
    let effort = Effort {
        cases: [300, 1500],
        largest: [12, 600],
    };
    holds(effort, case, check);
}

/// Vectors and single pairs do the same arithmetic.
#[test]
fn strides_do_not_change_bits() {
    on_every_device(|device, stream| {
        let tensor = |shape: &[usize], seed| {
            let values = Values::Normal.draw(shape, seed).mapv(bf16::from_f64);
            Tensor::from_ndarray(device, &values).expect("a tensor")
        };
        // So many that contiguous ones go by vectors.
        let heads = 5 * device.info().multiprocessors as usize;
        let x = tensor(&[3, 6, heads, 48], 1);
        let (cos, sin) = (tensor(&[6, 16], 2), tensor(&[6, 16], 3));
        let apart = Tensor::<bf16>::zeros(stream, &[3, 6, heads, 96]).expect("a tensor");
        let apart = apart.slice_step(3, .., 2).expect("a view");
        apart.assign(&x, stream).expect("a copy");
        for interleaved in [false, true] {
            let of = |x| match interleaved {
                true => Rotary::new(x, &cos, &sin).interleaved(),
                false => Rotary::new(x, &cos, &sin),
            };
            let by_vectors = of(&x).run(stream).and_then(|y| y.to_vec());
            let by_pairs = of(&apart).run(stream).and_then(|y| y.to_vec());
            assert_eq!(by_vectors.expect("a launch"), by_pairs.expect("a launch"));
        }
    });
}

/// The emulator reports any access outside of an allocation: here the tables have theirs without a
/// guard.
#[test]
fn a_position_that_is_no_row_reads_none_and_is_nan() {
    on_every_device(|device, stream| {
        let ones = |shape: &[usize]| Tensor::full(stream, shape, 1.0_f32).expect("a tensor");
        let (x, cos, sin) = (ones(&[5, 1, 12]), ones(&[3, 4]), ones(&[3, 4]));
        let far = [-1, 3, 2, i32::MIN, i32::MAX];
        let positions = Tensor::from_slice(device, &[5], &far).expect("positions");
        let got = Rotary::new(&x, &cos, &sin)
            .positions(&positions)
            .run(stream);
        let got = got.and_then(|y| y.to_vec()).expect("a launch");
        for (token, position) in got.chunks_exact(12).zip(far) {
            let has_row = position == 2;
            let (turned, copied) = token.split_at(8);
            assert!(turned.iter().all(|y| y.is_nan() != has_row), "{token:?}");
            assert_eq!(copied, [1.0; 4]);
        }
    });
}

/// It turns each pair by what the inverse turns it back.
#[test]
fn the_inverse_is_the_gradient() {
    on_every_device(|device, stream| {
        let draw = |shape: &[usize], seed| {
            let values = Values::Integers.draw(shape, seed).mapv(|x| x as f32);
            Tensor::from_ndarray(device, &values).expect("a tensor")
        };
        let (x, dy) = (draw(&[4, 2, 16], 1), draw(&[4, 2, 16], 2));
        let (cos, sin) = (draw(&[4, 8], 3), draw(&[4, 8], 4));
        let dot = |a: &Tensor<f32>, b: &Tensor<f32>| -> f32 {
            let (a, b) = (a.to_vec().expect("a"), b.to_vec().expect("b"));
            a.iter().zip(b).map(|(a, b)| a * b).sum()
        };
        for interleaved in [false, true] {
            let of = |x| match interleaved {
                true => Rotary::new(x, &cos, &sin).interleaved(),
                false => Rotary::new(x, &cos, &sin),
            };
            let y = of(&x).run(stream).expect("a launch");
            let dx = of(&dy).inverse().run(stream).expect("a launch");
            // Sums of small integers are exact: <dy, R x> = <Rᵀ dy, x>.
            assert_eq!(dot(&dy, &y), dot(&dx, &x));
        }
    });
}

#[test]
fn vectors_are_read_and_written_once_and_in_place_only_pairs() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    let x = Tensor::full(&stream, &[2, 64, 8, 128], bf16::ONE).expect("a tensor");
    let table = Tensor::full(&stream, &[64, 32], 1.0_f32).expect("a table");
    let (bytes, of_tables) = (2 * x.len() as u64, 64 * 32 * 4);
    let of = Rotary::new(&x, &table, &table);
    for of in [of, of.interleaved()] {
        of.run(&stream).expect("a launch");
        let launch = device.last_launch().expect("a launch");
        let global = &launch.counters().global;
        let stores = &global.stores;
        assert_eq!((stores.bytes, stores.sectors * 32), (bytes, bytes));
        assert_eq!(stores.requests, bytes / 512);
        assert_eq!(global.distinct_read, bytes + of_tables);
        of.run_into(&x, &stream).expect("a launch");
        let launch = device.last_launch().expect("a launch");
        let global = &launch.counters().global;
        assert_eq!(global.stores.bytes, bytes / 2);
        assert_eq!(global.stores.sectors * 32, bytes / 2);
        assert_eq!(global.distinct_read, bytes / 2 + of_tables);
    }
}

/// More threads than one launch has, and offsets beyond 32 bits.
#[test]
fn tensors_beyond_32_bits_are_turned_in_several_launches() {
    let gpus = warpsmith::testing::devices()
        .into_iter()
        .filter(|device| !device.is_emulator());
    for device in gpus {
        let stream = device.stream().expect("a stream");
        let tokens = (1 << 30) + 77;
        let x = Tensor::full(&stream, &[tokens, 2, 2], bf16::ONE).expect("a tensor");
        let (none, one) = (bf16::ZERO, bf16::ONE);
        let cos = Tensor::from_slice(&device, &[1, 1], &[none]).expect("a table");
        let sin = Tensor::from_slice(&device, &[1, 1], &[one]).expect("a table");
        let first = Tensor::from_slice(&device, &[1], &[0]).expect("a position");
        let positions = first.broadcast_to(&[tokens]).expect("a view");
        let of = Rotary::new(&x, &cos, &sin).positions(&positions);
        of.run_into(&x, &stream).expect("launches");
        for from in [0, (1 << 29) - 2, (1 << 30) - 2, tokens - 4] {
            let part = x.slice(0, from..from + 4).expect("a view");
            let got = part.to_vec().expect("elements");
            assert_eq!(got, [-one, one].repeat(8), "from {from}");
        }
    }
}

/// Heads of whole vectors have two candidates; which goes first depends on the number of elements.
#[test]
fn every_candidate_of_a_plan_turns_heads_to_the_same_bits() {
    let recording = Recording::emulator(EmulatorConfig::default(), |info| {
        info.multiprocessors = 2;
    });
    let recording = recording.expect("an emulator");
    let (device, stream) = (recording.device(), recording.device().default_stream());
    for (seqlen, is_interleaved, want) in [
        (
            64,
            false,
            ["rotary_f32_f32_strided", "rotary_f32_f32_halves"],
        ),
        (
            65,
            false,
            ["rotary_f32_f32_halves", "rotary_f32_f32_strided"],
        ),
        (
            65,
            true,
            ["rotary_f32_f32_interleaved", "rotary_f32_f32_strided"],
        ),
    ] {
        let values = |n: usize| {
            (0..n)
                .map(|i| (i % 23) as f32 / 7.0 - 1.0)
                .collect::<Vec<_>>()
        };
        let shape = [seqlen, 4, 16];
        let x = Tensor::from_slice(device, &shape, &values(seqlen * 64)).expect("heads");
        let table = Tensor::from_slice(device, &[65, 8], &values(65 * 8)).expect("a table");
        let mut turn = Rotary::new(&x, &table, &table);
        if is_interleaved {
            turn = turn.interleaved();
        }
        let plan = turn.plan(&stream).expect("a plan");
        let names: Vec<_> = plan.candidates().iter().map(|other| &*other.name).collect();
        assert_eq!(names, want);
        assert_eq!(plan.chosen(), plan.candidates().first());
        let turned = turn.run(&stream).expect("heads").to_vec().expect("heads");
        let capture = recording.capture().expect("a capture");
        let launch = capture.launches().last().expect("a launch");
        let chosen = plan.chosen().expect("heads");
        assert_eq!(
            (&launch.entry, launch.config.grid),
            (&chosen.entry, chosen.grid)
        );
        for candidate in plan.candidates() {
            let by = turn.with_kernel(&candidate.name);
            let forced = by.plan(&stream).expect("a plan");
            assert_eq!(forced.chosen(), Some(candidate));
            assert_eq!(
                by.run(&stream).expect("heads").to_vec().expect("heads"),
                turned
            );
            let into = by.plan_into(&x, &stream).expect("a plan in place");
            assert_eq!(into.chosen().expect("heads").entry, candidate.entry);
        }
        let start = "rotary: kernel `rotary`";
        let by = turn.with_kernel("rotary");
        refused!(by.run(&stream) => Argument::Unsupported, start, &want.join(", "));
    }
}
