//! Tensor maps, on every device that there is (`WARPSMITH_TEST_DEVICE` chooses): what is refused
//! is refused with the same words everywhere.

#![cfg(feature = "emulator")]

use proptest::collection::vec;
use proptest::prelude::*;
use warpsmith::testing::devices;
use warpsmith::{
    DType, Device, DeviceBuffer, Error, Im2col, L2Promotion, LaunchConfig, ShapeError,
    TensorMapDesc, TensorMapFill, TensorMapSwizzle, TensorMapType,
};
use warpsmith_emulator as emulator;

fn good() -> TensorMapDesc {
    TensorMapDesc::new(TensorMapType::Bf16, &[1000, 300], &[2048], &[64, 128])
        .swizzle(TensorMapSwizzle::B128)
}

fn tensor(device: &Device) -> DeviceBuffer<u8> {
    DeviceBuffer::zeros(&device.default_stream(), 300 * 2048).expect("allocates")
}

/// Devices that have tensor copies.
fn capable() -> impl Iterator<Item = Device> {
    devices()
        .into_iter()
        .filter(|device| device.arch() >= (9, 0))
}

#[test]
fn a_map_by_the_rules_is_encoded() {
    for device in capable() {
        let tensor = tensor(&device);
        let full = TensorMapDesc::new(
            TensorMapType::F32,
            &[8, 7, 6, 5, 4],
            &[32, 224, 1344, 6720],
            &[8, 2, 2, 2, 2],
        )
        .element_strides(&[1, 2, 1, 1, 8])
        .swizzle(TensorMapSwizzle::B32)
        .fill(TensorMapFill::Nan)
        .l2_promotion(L2Promotion::B256);
        let pixels = TensorMapDesc::new(
            TensorMapType::F16,
            &[64, 14, 14, 2],
            &[128, 1792, 25088],
            &[],
        )
        .im2col(Im2col {
            lower_corner: vec![-1, -1],
            upper_corner: vec![-1, -1],
            channels_per_pixel: 64,
            pixels_per_column: 32,
        });
        for desc in [good(), full, pixels] {
            let map = desc.encode(&tensor).expect("a map by the rules");
            let again = desc.encode(&tensor).expect("a map by the rules");
            assert_eq!(map.bytes(), again.bytes());
            assert_ne!(map.bytes(), &[0; 128]);
        }
    }
}

#[test]
fn what_breaks_a_rule_is_refused_with_value_and_rule() {
    type Change = fn(&mut TensorMapDesc);
    let rules: [(Change, &str); 11] = [
        (|m| m.dims.clear(), "number of dims is 0, want 1 to 5"),
        (
            |m| m.strides_bytes.push(16),
            "strides_bytes is 2 values, want 1 values for 2 dimensions",
        ),
        (
            |m| m.box_dims.truncate(1),
            "box is 1 values, want 2 values for 2 dimensions",
        ),
        (
            |m| m.element_strides.clear(),
            "element_strides is 0 values, want 2 values for 2 dimensions",
        ),
        (|m| m.dims[1] = 0, "dims[1] is 0, want 1 to 2^32"),
        (
            |m| m.strides_bytes[0] = 2004,
            "strides_bytes[0] is 2004, want a multiple of 16",
        ),
        (
            |m| m.strides_bytes[0] = 1 << 40,
            "strides_bytes[0] is 1099511627776, want less than 2^40",
        ),
        (|m| m.box_dims[1] = 257, "box[1] is 257, want 1 to 256"),
        (
            |m| m.element_strides[1] = 0,
            "element_strides[1] is 0, want 1 to 8",
        ),
        (
            |m| m.box_dims[0] = 60,
            "box[0] is 60 elements of 2 bytes, 120 bytes, want a multiple of 16 bytes",
        ),
        (
            |m| m.box_dims[0] = 128,
            "box[0] is 128 elements of 2 bytes, 256 bytes, want at most the 128 bytes of the swizzle",
        ),
    ];
    for device in devices() {
        let tensor = tensor(&device);
        for (change, want) in rules {
            let mut desc = good();
            change(&mut desc);
            let error = desc.encode(&tensor).expect_err(want);
            assert_eq!(error.to_string(), format!("tensor map: {want}"));
        }
        let mut integers = good().fill(TensorMapFill::Nan);
        integers.data_type = TensorMapType::I32;
        integers.box_dims[0] = 4;
        let error = integers
            .encode(&tensor)
            .expect_err("integers have no NaN")
            .to_string();
        assert!(error.contains("NaN for elements of type I32"), "{error}");
        let error = good()
            .encode_at(&device, 0x1008)
            .expect_err("misaligned")
            .to_string();
        assert_eq!(
            error,
            "tensor map: address is 0x1008, want a multiple of 16"
        );
    }
}

#[test]
fn a_tensor_that_leaves_its_buffer_is_refused() {
    for device in capable() {
        // The last row needs no padding.
        let short = DeviceBuffer::<u8>::zeros(&device.default_stream(), 299 * 2048 + 2000);
        good()
            .encode(&short.expect("allocates"))
            .expect("just fits");
        let short = DeviceBuffer::<u8>::zeros(&device.default_stream(), 299 * 2048 + 1999);
        let refused = good().encode(&short.expect("allocates"));
        assert!(
            matches!(
                refused,
                Err(Error::Shape(ShapeError::OutOfBounds {
                    got: 614_352,
                    limit: 614_352,
                    ..
                }))
            ),
            "{refused:?}"
        );
    }
}

#[test]
fn every_dtype_has_a_type_of_its_size() {
    for dtype in DType::ALL {
        let size = TensorMapType::from(dtype).size_bytes();
        assert_eq!(size, dtype.size_bytes() as u64, "{dtype}");
    }
}

/// Doubles a matrix of 50 by 60 elements, which tensor copies bring in boxes.
const TILES: &str = include_str!("../../examples/check/tensor_map/kernel.ptx");

#[test]
fn a_kernel_reads_through_a_map_by_value_and_by_pointer() {
    for device in capable().filter(|device| device.arch() == (9, 0)) {
        let stream = device.stream().expect("a stream");
        let values: Vec<f32> = (0..50 * 60).map(|i| i as f32 + 0.5).collect();
        let x = DeviceBuffer::from_slice(&device, &values).expect("allocates");
        let map = TensorMapDesc::new(TensorMapType::F32, &[60, 50], &[240], &[32, 16]);
        let map = map.encode(&x).expect("a map by the rules");
        let copy = DeviceBuffer::from_slice(&device, map.bytes()).expect("allocates");
        let module = device.load_ptx(TILES).expect("loads");
        let config = LaunchConfig {
            grid: [2, 4, 1],
            ..LaunchConfig::linear(1, 32).cluster([2, 1, 1])
        };
        let want: Vec<f32> = values.iter().map(|value| 2.0 * value).collect();
        for name in ["by_value", "by_pointer"] {
            let kernel = module.kernel(name).expect("is there");
            let mut y = DeviceBuffer::<f32>::uninit(&stream, 50 * 60).expect("allocates");
            // SAFETY: the map's tensor and the output have the kernel's extents.
            let launched = unsafe {
                match name {
                    "by_value" => kernel.launch(&stream, config, (&map, &mut y)),
                    _ => kernel.launch(&stream, config, (&copy, &mut y)),
                }
            };
            launched.expect("launches");
            assert_eq!(y.to_vec().expect("reads"), want, "{name} on {device}");
        }
    }
}

const TYPES: [TensorMapType; 4] = [
    TensorMapType::U8,
    TensorMapType::Bf16,
    TensorMapType::F32,
    TensorMapType::I64,
];

/// Mostly a value that is right, else one near or beyond the rule's edge.
fn mostly<T: Clone + std::fmt::Debug + 'static>(
    right: impl Strategy<Value = T> + 'static,
    edges: &[T],
) -> impl Strategy<Value = T> {
    prop_oneof![12 => right, 1 => proptest::sample::select(edges.to_vec())]
}

prop_compose! {
    /// Values around the rules' edges, lists mostly of fitting lengths.
    fn descriptions()(rank in mostly(1..=5_usize, &[0, 6]), off in mostly(Just(0), &[1]))(
        dims in vec(mostly(1_u64..1000, &[0, 1 << 32, (1 << 32) + 1]), rank),
        strides in vec(
            mostly((0_u64..1000).prop_map(|x| 16 * x), &[8, (1 << 40) - 16, 1 << 40]),
            rank.saturating_sub(1) + off,
        ),
        boxes in vec(mostly((1_u32..=16).prop_map(|x| 8 * x), &[0, 1, 256, 257]), rank),
        element_strides in vec(mostly(1_u32..=8, &[0, 9]), rank),
        data_type in proptest::sample::select(TYPES.to_vec()),
        span in proptest::sample::select(vec![0, 32, 64, 128]),
        nan in any::<bool>(),
        address in mostly(Just(0x1000_u64), &[0x1008]),
        corners in (vec(-140_i32..140, 0..6), vec(-20_i32..20, 0..6)),
        columns in (mostly((1_u32..=4).prop_map(|x| 8 * x), &[0, 256, 257]), mostly(1_u32..=1024, &[0, 1025])),
        is_im2col in any::<bool>(),
        fits in mostly(Just(true), &[false]),
    ) -> (TensorMapDesc, u64) {
        let desc = TensorMapDesc::new(data_type, &dims, &strides, &boxes)
            .element_strides(&element_strides)
            .swizzle(TensorMapSwizzle::from_span_bytes(span).expect("a span"))
            .fill(if nan { TensorMapFill::Nan } else { TensorMapFill::Zeros });
        if !is_im2col {
            return (desc, address);
        }
        let (mut lower_corner, mut upper_corner) = corners;
        if fits {
            lower_corner.resize(dims.len().saturating_sub(2), 0);
            upper_corner.resize(dims.len().saturating_sub(2), 0);
        }
        let (channels_per_pixel, pixels_per_column) = columns;
        let im2col = Im2col { lower_corner, upper_corner, channels_per_pixel, pixels_per_column };
        (desc.im2col(im2col), address)
    }
}

/// Whether the emulator's own encoder takes it.
fn emulator_takes(desc: &TensorMapDesc, address: u64) -> bool {
    let own = emulator::TensorMapDesc {
        data_type: match desc.data_type {
            TensorMapType::U8 => emulator::TensorMapType::U8,
            TensorMapType::Bf16 => emulator::TensorMapType::Bf16,
            TensorMapType::F32 => emulator::TensorMapType::F32,
            _ => emulator::TensorMapType::I64,
        },
        address,
        dims: desc.dims.clone(),
        strides_bytes: desc.strides_bytes.clone(),
        box_dims: desc.box_dims.clone(),
        element_strides: desc.element_strides.clone(),
        swizzle: match desc.swizzle.span_bytes() {
            None => emulator::Swizzle::None,
            Some(32) => emulator::Swizzle::B32,
            Some(64) => emulator::Swizzle::B64,
            Some(_) => emulator::Swizzle::B128,
        },
        fill: match desc.fill {
            TensorMapFill::Zeros => emulator::Fill::Zeros,
            TensorMapFill::Nan => emulator::Fill::Nan,
        },
    };
    match &desc.im2col {
        None => own.encode().is_ok(),
        Some(im2col) => own
            .encode_im2col(&emulator::Im2col {
                lower_corner: im2col.lower_corner.clone(),
                upper_corner: im2col.upper_corner.clone(),
                channels_per_pixel: im2col.channels_per_pixel,
                pixels_per_column: im2col.pixels_per_column,
            })
            .is_ok(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn library_and_emulator_have_the_same_rules((desc, address) in descriptions()) {
        let device = Device::emulator().expect("this build has it");
        let encoded = desc.encode_at(&device, address);
        prop_assert_eq!(encoded.is_ok(), emulator_takes(&desc, address), "{:?}", encoded.err());
    }
}
