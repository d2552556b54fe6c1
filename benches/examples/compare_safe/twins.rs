//! The unsafe twins as peers, on the same operands.

use std::cell::RefCell;

use serde_json::Value;
use warpsmith::{Device, DevicePtr, LaunchConfig, Stream};
use warpsmith_benches::error::{BenchError, Result};
use warpsmith_benches::operations::{Offer, Peers};
use warpsmith_examples::kernels::{self, Kernels};

/// The kernels by raw pointers.
pub(crate) struct Twins {
    kernels: Kernels,
    stream: Stream,
    /// Name and description of the case.
    case: RefCell<(String, Value)>,
}

impl Twins {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            kernels: kernels::load(device)?,
            stream: device.default_stream(),
            case: RefCell::default(),
        })
    }

    /// Enqueues the twin on the addresses of a copy, with the output `to`, by its operand's name.
    fn launch(&self, copy: usize, to: impl Fn(&str) -> Result<u64>) -> Result<()> {
        let (name, description) = &*self.case.borrow();
        let missing = || BenchError::Peers {
            case: name.clone(),
            message: "its description lacks what a twin needs".to_owned(),
        };
        let number = |value: &Value| value.as_u64().ok_or_else(missing);
        let operand = |name: &str| &description["operands"][name];
        let from = |name: &str| number(&operand(name)["addresses"][copy]);
        let extent = |name: &str, axis: usize| -> Result<usize> {
            Ok(number(&operand(name)["shape"][axis])? as usize)
        };
        let dims = |what: &str| -> Result<[u32; 3]> {
            let values = &description["case"][what];
            Ok([0, 1, 2].map(|axis| values[axis].as_u64().unwrap_or(1) as u32))
        };
        let config = LaunchConfig {
            grid: dims("grid")?,
            block: dims("block")?,
            ..LaunchConfig::linear(1, 1)
        };
        let (stream, kernels) = (&self.stream, &self.kernels);
        let f32s = |address: u64| DevicePtr::<f32>::from_raw(address);
        let u32s = |address: u64| DevicePtr::<u32>::from_raw(address);
        let kernel = name.split('/').nth(2).unwrap_or_default();
        // SAFETY: operands and results of the shapes that are passed, in the block that each takes.
        unsafe {
            match kernel {
                "vector_add" => kernels.vector_add(
                    stream,
                    config,
                    f32s(from("a")?),
                    f32s(from("b")?),
                    f32s(to("c")?),
                    extent("a", 0)?,
                )?,
                "stencil" => kernels.unsafe_stencil(
                    stream,
                    config,
                    f32s(from("x")?),
                    f32s(to("y")?),
                    extent("x", 0)?,
                )?,
                "transpose" => {
                    let (rows, columns) = (extent("x", 0)?, extent("x", 1)?);
                    kernels.unsafe_transpose(
                        stream,
                        config,
                        f32s(from("x")?),
                        f32s(to("y")?),
                        rows,
                        columns,
                        columns,
                        rows,
                    )?;
                }
                "softmax" => kernels.unsafe_softmax(
                    stream,
                    config,
                    f32s(from("x")?),
                    f32s(to("y")?),
                    extent("x", 0)?,
                    extent("x", 1)?,
                )?,
                "segmented_sum" => kernels.unsafe_segmented_sum(
                    stream,
                    config,
                    f32s(from("x")?),
                    u32s(from("starts")?),
                    f32s(to("sums")?),
                    extent("copies of sums", 0)?,
                )?,
                _ => kernels.unsafe_histogram(
                    stream,
                    config,
                    u32s(from("values")?),
                    u32s(to("counts")?),
                    extent("values", 0)?,
                    extent("copies of counts", 0)?,
                )?,
            }
        }
        Ok(())
    }

    /// The address that the description of the case has under these names.
    fn address(&self, group: &str, name: &str, copy: usize) -> Result<u64> {
        let (case, description) = &*self.case.borrow();
        let address = &description[group][name]["addresses"][copy];
        address.as_u64().ok_or_else(|| BenchError::Peers {
            case: case.clone(),
            message: format!("{group} have no {name}"),
        })
    }
}

impl Peers for Twins {
    fn name(&self) -> &str {
        "the unsafe twins in examples/kernels"
    }

    fn prepare(&self, case: &str, description: &Value) -> Result<Offer> {
        self.case.replace((case.to_owned(), description.clone()));
        Ok(Offer {
            peers: vec!["unsafe twin".to_owned()],
            absent: Vec::new(),
        })
    }

    fn run(&self, _: usize, copy: usize) -> Result<()> {
        let to = |name: &str| self.address("operands", &format!("copies of {name}"), copy);
        self.launch(copy, to)
    }

    fn answer(&self, _: usize) -> Result<()> {
        self.launch(0, |name| self.address("answers", name, 0))
    }
}
