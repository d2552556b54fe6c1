//! Textures and surfaces. Numbers of filters are those of an H200.

use warpsmith_emulator::semantics::texture::weights;
use warpsmith_emulator::{
    AddressMode, Channel, Emulator, EmulatorConfig, FaultKind, ImageDesc, ImageKind, LaunchConfig,
    LaunchError, TextureDesc,
};

/// A kernel of 32 threads: `body` has an object `%h`, a thread `%t`, its float `%x` out of the
/// input, and an output `%o` of 16 bytes for each thread.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.0 .target sm_90 .address_size 64
         .visible .entry k(.param .u64 object, .param .u64 input, .param .u64 output) {{
             .reg .u64 %h, %i, %o; .reg .u32 %t, %r<4>; .reg .f32 %x, %f<4>; .reg .b16 %b<4>;
             .reg .pred %p;
             ld.param.u64 %h, [object];
             ld.param.u64 %i, [input];
             ld.param.u64 %o, [output];
             mov.u32 %t, %tid.x;
             mad.wide.u32 %i, %t, 4, %i;
             ld.global.f32 %x, [%i];
             mad.wide.u32 %o, %t, 16, %o;
             {body}
             ret;
         }}"
    )
}

struct Case {
    emulator: Emulator,
    image: ImageDesc,
}

impl Case {
    /// An image of one channel in rows of `width` texels.
    fn new(channel: Channel, bytes: &[u8], [width, height]: [u32; 2]) -> Self {
        let emulator = Emulator::new(EmulatorConfig::default());
        let address = emulator.alloc(bytes.len() as u64).expect("memory suffices");
        emulator.write(address, bytes).expect("it is live");
        let image = ImageDesc {
            address,
            channel,
            channels: 1,
            extent: [width, height, 0],
            pitch: u64::from(width * channel.bits() / 8),
            slice: 0,
            kind: ImageKind::Single,
        };
        Self { emulator, image }
    }

    fn floats(values: &[f32], extent: [u32; 2]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Self::new(Channel::Float, &bytes, extent)
    }

    fn texture(&self, linear: bool, normalized: bool, mode: AddressMode) -> u64 {
        let texture = TextureDesc {
            image: self.image,
            linear,
            normalized,
            modes: [mode, AddressMode::Wrap, AddressMode::Wrap],
            border: [9.0, 0.0, 0.0, 0.0],
        };
        self.emulator.create_texture(&texture).expect("it is right")
    }

    /// Runs a kernel with an object; the first word of each thread's output.
    fn run(&self, body: &str, object: u64, input: &[f32]) -> Result<Vec<u32>, LaunchError> {
        let module = self.emulator.load(&kernel(body)).expect("the module loads");
        let alloc = |len| {
            let address = self.emulator.alloc(len).expect("memory suffices");
            self.emulator.fill(address, 0, len).expect("it is live");
            address
        };
        let (from, to) = (alloc(128), alloc(512));
        let bytes: Vec<u8> = input.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.emulator.write(from, &bytes).expect("it is live");
        let shape = LaunchConfig {
            grid: [1; 3],
            block: [input.len() as u32, 1, 1],
            shared_bytes: 0,
            cluster: None,
        };
        let params = [object, from, to].map(u64::to_le_bytes);
        let params: Vec<&[u8]> = params.iter().map(<[u8; 8]>::as_slice).collect();
        self.emulator.launch(&module, "k", &shape, &params)?;
        let mut bytes = vec![0; 16 * input.len()];
        self.emulator.read(to, &mut bytes).expect("it is live");
        let word = |at: &[u8]| u32::from_le_bytes(at[..4].try_into().expect("four bytes"));
        Ok(bytes.chunks(16).map(word).collect())
    }
}

const TEX_1D: &str = "tex.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%h, {%x}];
    st.global.f32 [%o], %f0;";

const SEVEN: [f32; 7] = [
    57.704_59,
    35.946_35,
    110.990_845,
    87.434_69,
    45.718_628,
    -90.620_48,
    -41.430_36,
];

#[test]
fn linear_filters_are_those_of_the_hardware() {
    let case = Case::floats(&SEVEN, [7, 0]);
    let texture = case.texture(true, true, AddressMode::Wrap);
    let at = [
        -0.491_629_45,
        -0.081_473_22,
        0.150_390_63,
        0.671_875,
        1.359_933,
        2.011_160_6,
        2.070_591_4,
    ];
    let expected = [
        0x42a9_fb15,
        0xc233_8e60,
        0x4236_8ad2,
        0x4190_32ae,
        0x42dd_0fc0,
        0x417e_1ccf,
        0x4263_b86c,
    ];
    assert_eq!(case.run(TEX_1D, texture, &at).expect("it runs"), expected);
    let at = [-0.248_883_93, 1.676_339_3];
    for (mode, expected) in [
        (AddressMode::Clamp, [0x4266_d180, 0xc225_b8b0]),
        (AddressMode::Mirror, [0x4258_7c19, 0x42ba_cdf9]),
        (AddressMode::Border, [0x4110_0000, 0x4110_0000]),
    ] {
        let texture = case.texture(true, true, mode);
        assert_eq!(case.run(TEX_1D, texture, &at).expect("it runs"), expected);
    }
}

#[test]
fn a_point_is_the_texel_that_it_lies_in() {
    let case = Case::floats(&SEVEN, [7, 0]);
    let texels = |mode, normalized, at: &[f32]| -> Vec<f32> {
        let texture = case.texture(false, normalized, mode);
        let bits = case.run(TEX_1D, texture, at).expect("it runs");
        bits.into_iter().map(f32::from_bits).collect()
    };
    let pick = |indices: &[usize]| indices.iter().map(|i| SEVEN[*i]).collect::<Vec<f32>>();
    // Without normalised coordinates, repetition is clamping.
    let at = [-1.0, 0.0, 0.99, 6.5, 7.0, 1e30, f32::NAN];
    assert_eq!(
        texels(AddressMode::Wrap, false, &at),
        pick(&[0, 0, 0, 6, 6, 6, 0])
    );
    let at = [-0.1, 0.0, 0.5, 1.0, 1.2];
    assert_eq!(texels(AddressMode::Wrap, true, &at), pick(&[6, 0, 3, 0, 1]));
    assert_eq!(
        texels(AddressMode::Mirror, true, &at),
        pick(&[0, 0, 3, 6, 5])
    );
    // A coordinate is cut to 21 bits behind the point before it is multiplied: 1/7 is below 1.
    assert_eq!(texels(AddressMode::Wrap, true, &[0.142_857_15]), pick(&[0]));
}

#[test]
fn weights_of_eight_texels_add_up_to_one() {
    assert_eq!(weights([68, 212, 120]), [17, 6, 83, 30, 15, 5, 73, 27]);
    assert_eq!(weights([137, 191, 4]), [30, 34, 87, 101, 1, 1, 1, 1]);
    for x in (0..256).step_by(5) {
        for y in (0..256).step_by(7) {
            for z in (0..256).step_by(9) {
                let all = weights([x, y, z]);
                assert_eq!(all.iter().sum::<i32>(), 256);
                assert!(
                    all.iter().all(|weight| *weight >= 0),
                    "{x} {y} {z}: {all:?}"
                );
            }
        }
    }
}

#[test]
fn filtered_values_have_the_precision_of_their_format() {
    let filtered = |channel: Channel, raw: [u32; 4], weights: [i32; 4]| {
        let texels: Vec<(u32, i32)> = raw
            .iter()
            .map(|raw| channel.value(*raw))
            .zip(weights)
            .collect();
        channel.filtered(&texels)
    };
    assert_eq!(
        filtered(
            Channel::UnsignedNormalized(8),
            [73, 241, 62, 177],
            [51, 41, 90, 74]
        ),
        0.494_514_38
    );
    assert_eq!(
        filtered(
            Channel::UnsignedNormalized(16),
            [46_360, 51_325, 7_875, 22_178],
            [24, 18, 125, 89]
        ),
        0.297_718_76
    );
    let s16 = |value: i16| u32::from(value as u16);
    assert_eq!(
        filtered(
            Channel::SignedNormalized(16),
            [s16(-7_669), s16(-26_401), s16(15_010), s16(-2_737)],
            [31, 221, 0, 4]
        ),
        -0.725_211_3
    );
    // Small texels are cut off at a unit of the largest.
    let f16 = [0xb1af, 0x8bf7, 0xbd8a, 0x9d2b];
    assert_eq!(
        filtered(Channel::Half, f16, [53, 180, 5, 18]),
        -0.064_270_02
    );
}

#[test]
fn a_fetch_by_index_gives_zeros_outside_of_linear_memory() {
    let mut case = Case::new(Channel::Signed(8), &[1, 0xff, 3, 4], [4, 0]);
    case.image.kind = ImageKind::Linear;
    let texture = case.texture(false, false, AddressMode::Clamp);
    let fetch = "add.u32 %r0, %t, -1;
        tex.1d.v4.s32.s32 {%r0, %r1, %r2, %r3}|%p, [%h, {%r0}];
        @%p st.global.u32 [%o], %r0;";
    let expected = [0, 1, u32::MAX, 3, 4, 0];
    assert_eq!(
        case.run(fetch, texture, &[0.0; 6]).expect("it runs"),
        expected
    );
}

#[test]
fn four_texels_are_gathered_and_queries_have_the_extents() {
    let values: Vec<f32> = (0..6).map(|i| i as f32).collect();
    let case = Case::floats(&values, [3, 2]);
    let texture = case.texture(false, false, AddressMode::Clamp);
    let gather = "mov.f32 %f0, 0f3F800000;
        tld4.r.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%h, {%x, %f0}];
        fma.rn.f32 %f0, %f0, 0f41200000, %f1;
        fma.rn.f32 %f0, %f0, 0f41200000, %f2;
        fma.rn.f32 %f0, %f0, 0f41200000, %f3;
        st.global.f32 [%o], %f0;";
    let gathered = case.run(gather, texture, &[1.0, 2.0]).expect("it runs");
    let gathered: Vec<f32> = gathered.into_iter().map(f32::from_bits).collect();
    assert_eq!(gathered, [3410.0, 4521.0]);
    let query = "txq.width.b32 %r0, [%h]; txq.height.b32 %r1, [%h]; txq.depth.b32 %r2, [%h];
        mad.lo.u32 %r0, %r0, 10, %r1; mad.lo.u32 %r0, %r0, 10, %r2; st.global.u32 [%o], %r0;";
    assert_eq!(case.run(query, texture, &[0.0]).expect("it runs"), [320]);
}

#[test]
fn surfaces_are_read_and_written_in_bytes() {
    let case = Case::new(Channel::Unsigned(8), &[1, 2, 3, 4, 5, 6, 7, 8], [4, 2]);
    let surface = case
        .emulator
        .create_surface(&case.image)
        .expect("it is right");
    let body = "mov.u32 %r0, 1;
        add.u32 %r2, %t, -1;
        suld.b.2d.b8.zero {%b0}, [%h, {%r2, %r0}];
        suld.b.2d.b8.clamp {%b1}, [%h, {%r2, %r0}];
        cvt.u32.u8 %r1, %b1;
        cvt.u32.u8 %r3, %b0;
        mad.lo.u32 %r1, %r3, 16, %r1;
        st.global.u32 [%o], %r1;
        bar.sync 0;
        mov.u32 %r0, 0;
        sust.b.2d.b8.zero [%h, {%r2, %r0}], {%b1};";
    let read = case.run(body, surface, &[0.0; 6]).expect("it runs");
    assert_eq!(read, [0x05, 0x55, 0x66, 0x77, 0x88, 0x08]);
    let mut bytes = [0; 8];
    case.emulator
        .read(case.image.address, &mut bytes)
        .expect("it is live");
    assert_eq!(bytes, [5, 6, 7, 8, 5, 6, 7, 8]);
}

#[test]
fn what_no_image_can_give_is_a_fault() {
    let case = Case::floats(&SEVEN, [7, 0]);
    let texture = case.texture(false, false, AddressMode::Clamp);
    let surface = case
        .emulator
        .create_surface(&case.image)
        .expect("it is right");
    let fault = |body: &str, object| match case.run(body, object, &[0.0; 2]) {
        Err(LaunchError::Fault(report)) => (report.kind, report.message),
        other => panic!("{other:?}"),
    };
    let (kind, message) = fault(TEX_1D, 77);
    assert_eq!(kind, FaultKind::BadImage);
    assert_eq!(message, "0x4d is no texture or surface object");
    let (kind, message) = fault(TEX_1D, surface);
    assert_eq!(kind, FaultKind::BadImage);
    assert!(
        message.ends_with("is a surface, not a texture"),
        "{message}"
    );
    let layered = "tex.a1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%h, {%t, %x}];";
    assert_eq!(fault(layered, texture).0, FaultKind::BadImage);
    let outside = "mov.u32 %r0, 28; suld.b.1d.b32.trap {%r0}, [%h, {%r0}];";
    let (kind, message) = fault(outside, surface);
    assert_eq!(kind, FaultKind::OutOfBounds);
    assert!(
        message.starts_with("4 bytes at byte 28, row 0"),
        "{message}"
    );
    // What the kernel has written does not reach its textures.
    let written = "shl.b32 %r0, %t, 2; mov.u32 %r1, 0; mov.b64 %i, 2;
        sust.b.1d.b32.trap [%i, {%r0}], {%r1};
        tex.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%h, {%x}];";
    assert_eq!((texture, surface), (1, 2));
    assert_eq!(fault(written, texture).0, FaultKind::DataRace);
    // Memory that is gone.
    case.emulator.free(case.image.address).expect("it is live");
    assert_eq!(fault(TEX_1D, texture).0, FaultKind::UseAfterFree);
    assert!(case.emulator.destroy_object(texture));
    assert_eq!(fault(TEX_1D, texture).0, FaultKind::BadImage);
}

#[test]
fn descriptions_that_cannot_be_are_errors() {
    let case = Case::floats(&SEVEN, [7, 0]);
    let refused = |change: fn(&mut ImageDesc)| {
        let mut image = case.image;
        change(&mut image);
        case.emulator
            .create_surface(&image)
            .expect_err("it is wrong")
            .to_string()
    };
    assert_eq!(
        refused(|image| image.channels = 3),
        "a texel has 1, 2 or 4 channels"
    );
    assert_eq!(
        refused(|image| image.extent[0] = 0),
        "an extent is 0 or too large"
    );
    assert_eq!(
        refused(|image| image.address += 2),
        "address and pitches are multiples of the texel's size"
    );
    assert_eq!(
        refused(|image| image.channel = Channel::UnsignedNormalized(32)),
        "the channels of this format have 8, 16 or 32 bits"
    );
    let mut image = case.image;
    image.channel = Channel::Unsigned(32);
    let texture = TextureDesc {
        image,
        linear: true,
        normalized: false,
        modes: [AddressMode::Clamp; 3],
        border: [0.0; 4],
    };
    let error = case
        .emulator
        .create_texture(&texture)
        .expect_err("it is wrong");
    assert_eq!(
        error.to_string(),
        "only fetches that give floats can interpolate"
    );
}
