//! The kernels of `examples/crates_io`: crates of crates.io, on the device.

use std::fmt::Write;

use warpsmith::testing::{assert_close, on_every_device, sum};
use warpsmith::{Device, Tensor};

mod kernels {
    include!("../crates_io/ptx/kernels.rs");
}

const TEXTS: usize = 300;

/// The texts, one after the other.
fn texts() -> Vec<u8> {
    let byte = |at: usize| ((at / 100 * 7 + at % 100) % 251) as u8;
    (0..100 * TEXTS).map(byte).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text takes it");
        text
    })
}

/// The digests are those of `sha256sum` and `sha512sum` for the first and the last text.
#[test]
fn each_thread_hashes_a_text() {
    on_every_device(|device: &Device| {
        let (stream, kernels) = (device.stream()?, kernels::load(device)?);
        let texts = Tensor::from_slice(device, &[100 * TEXTS], &texts())?;
        let mut digests = Tensor::<u8>::zeros(&stream, &[32 * TEXTS])?;
        kernels.sha256_of_each(&stream, &texts, &mut digests)?;
        let got = digests.to_vec()?;
        assert_eq!(
            hex(&got[..32]),
            "bce0aff19cf5aa6a7469a30d61d04e4376e4bbf6381052ee9e7f33925c954d52"
        );
        assert_eq!(
            hex(&got[32 * (TEXTS - 1)..]),
            "a5cf82ae547e6976caebaff6d459598385fa73084c685782c7edb12da34d1b3d"
        );
        let mut digests = Tensor::<u8>::zeros(&stream, &[64 * TEXTS])?;
        kernels.sha512_of_each(&stream, &texts, &mut digests)?;
        let got = digests.to_vec()?;
        assert_eq!(
            hex(&got[..64]),
            "af216a7122d29d6a7dc7b89c8b41c111e7c9a00781d4a867a1d75110b48a5a9c\
             92a15d1dc2aeabb53b83bcffc50f44cfdcae29dc9984c8c84febd0189322be25"
        );
        assert_eq!(
            hex(&got[64 * (TEXTS - 1)..]),
            "dfee6082175e928ad6ed8605793a1a73e846f1d545910da70dc8aba55e1abdce\
             47a08b9201ba561392dd7dc0bd57a2333203992551e38ab12cd8ea7cdd9302ea"
        );
        Ok(())
    });
}

#[test]
fn each_thread_turns_a_point() {
    on_every_device(|device: &Device| {
        let (stream, kernels) = (device.stream()?, kernels::load(device)?);
        let points = warpsmith::testing::random::<f32>(3 * 500, 1);
        let (sine, cosine) = (0.6_f32, 0.8_f32);
        let xs = Tensor::from_slice(device, &[points.len()], &points)?;
        let mut turned = Tensor::<f32>::zeros(&stream, &[points.len()])?;
        kernels.turn_each(&stream, sine, cosine, &xs, &mut turned)?;
        let (sine, cosine) = (f64::from(sine), f64::from(cosine));
        // Of the whole angle.
        let (sine, cosine) = (2.0 * sine * cosine, cosine * cosine - sine * sine);
        assert_close(&turned, |i| {
            let [x, y, z] = [0, 1, 2].map(|axis| f64::from(points[i / 3 * 3 + axis]));
            let length = (x * x + y * y + z * z).sqrt();
            let terms = match i % 3 {
                0 => [x * cosine, -y * sine],
                1 => [x * sine, y * cosine],
                _ => [z, 0.0],
            };
            // A rotation by a quaternion adds a dozen terms, none longer than the point.
            sum(terms
                .map(|term| term / length)
                .into_iter()
                .chain([1.0, -1.0].repeat(6)))
        })
    });
}
