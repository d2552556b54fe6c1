//! Variables of modules, `examples/kernels/src/globals.rs`.

use anyhow::{Result, ensure};
use warpsmith::testing::devices;
use warpsmith::{ArgumentError, Device, Error, KernelError, Tensor};
use warpsmith_examples::kernels;

#[test]
fn kernels_read_what_the_host_wrote_and_the_host_what_they_counted() -> Result<()> {
    devices().iter().try_for_each(counted)
}

fn counted(device: &Device) -> Result<()> {
    let (stream, kernels) = (device.stream()?, kernels::load(device)?);
    let x = Tensor::from_slice(device, &[3], &[1.0_f32, 2.0, -1.0])?;
    let mut y = Tensor::<f32>::empty(&stream, &[3])?;
    kernels.polynomial(&stream, &x, &mut y)?;
    assert_eq!(y.to_vec()?, [1.5, 2.5, -0.5]);

    let module = kernels.built().module("polynomial")?;
    let coefficients = module.global::<f32>("COEFFICIENTS")?;
    assert_eq!(coefficients.read(&stream)?, [0.0, 0.0, 1.0, 0.0]);
    // SAFETY: `Global`s of f32, and all work that was given is done.
    unsafe {
        coefficients.write(&[1.0, 0.0, -2.0, 4.0], &stream)?;
        module.global::<f32>("OFFSET")?.write(&[0.0], &stream)?;
    }
    kernels.polynomial(&stream, &x, &mut y)?;
    assert_eq!(y.to_vec()?, [3.0, 8.0, 5.0]);
    assert_eq!(module.global::<u32>("COMPUTED")?.read(&stream)?, [6]);

    // Another loading of the module has variables of its own.
    let module = kernels::load(device)?.built().module("polynomial")?;
    assert_eq!(module.global::<f32>("OFFSET")?.read(&stream)?, [0.5]);
    Ok(())
}

/// As nvcc writes `__device__ float weights[3]`, `__constant__ int limit` and a struct.
const FOREIGN: &str = "
.version 7.0
.target sm_75
.address_size 64
.visible .global .align 4 .f32 weights[3] = {0f3F800000, 0f40000000, 0f40400000};
.visible .const .align 4 .u32 limit = 7;
.visible .global .align 8 .b8 point[16];
.visible .entry k() { ret; }";

#[test]
fn a_variable_is_held_against_its_type_and_its_size() -> Result<()> {
    devices().iter().try_for_each(held)
}

fn held(device: &Device) -> Result<()> {
    let stream = device.stream()?;

    let module = device.load_ptx(FOREIGN)?;
    let weights = module.global::<f32>("weights")?;
    assert_eq!(
        (weights.len(), weights.read(&stream)?),
        (3, vec![1.0, 2.0, 3.0])
    );
    assert_eq!(module.global::<i32>("limit")?.read(&stream)?, [7]);
    assert_eq!(module.global::<f64>("point")?.read(&stream)?, [0.0, 0.0]);
    assert_eq!(module.global::<u16>("point")?.len(), 8);
    let refused = [
        (
            module.global::<u32>("weights").map(|_| ()),
            "`.f32`, 12 bytes",
        ),
        (
            module.global::<f64>("weights").map(|_| ()),
            "no elements of f64",
        ),
        (module.global::<i64>("limit").map(|_| ()), "`.u32`, 4 bytes"),
        (
            module.global::<f32>("limit").map(|_| ()),
            "no elements of f32",
        ),
    ];
    for (refused, want) in refused {
        let Err(error @ Error::Kernel(KernelError::VariableType { .. })) = refused else {
            anyhow::bail!("{refused:?}, want {want}");
        };
        ensure!(error.to_string().contains(want), "{error}");
    }
    let unknown = module.global::<f32>("bias").map(|_| ());
    let Err(error @ Error::Kernel(KernelError::UnknownVariable { .. })) = unknown else {
        anyhow::bail!("{unknown:?}");
    };
    let want = "no variable `bias` in this module; it has: weights, limit, point";
    assert_eq!(error.to_string(), want);
    // SAFETY: refused before anything is written.
    let refused = unsafe { weights.write(&[1.0], &stream) };
    ensure!(matches!(refused, Err(Error::Shape(_))), "{refused:?}");
    let captured = stream.capture(|stream| weights.read(stream).map(drop));
    ensure!(
        matches!(
            &captured,
            Err(Error::Argument(ArgumentError::Unsupported { .. }))
        ),
        "{captured:?}"
    );
    Ok(())
}
