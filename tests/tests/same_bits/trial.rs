//! One case: buffers, and launches on them.

use half::{bf16, f16};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use warpsmith::{
    DType, Device, DeviceBuffer, E4m3, E5m2, KernelArg, KernelParam, LaunchConfig, Result,
    TensorMap, TensorMapDesc,
};

/// A sequence of launches, on buffers with the same initial contents on every device.
#[derive(Default)]
pub(crate) struct Trial {
    buffers: Vec<Vec<u8>>,
    /// Buffers (by index) whose first bytes (their number) are not compared.
    scratch: Vec<(usize, usize)>,
    launches: Vec<Launch>,
}

struct Launch {
    source: Source,
    config: LaunchConfig,
    args: Vec<Arg>,
}

/// Where a kernel comes from.
enum Source {
    /// The library; the kernel's name.
    Builtin(String),
    /// PTX text, and the kernel's name in it.
    Text(String, String),
}

/// An argument.
pub(crate) enum Arg {
    /// The address of a buffer, by index.
    Buffer(usize),
    /// A null pointer.
    Null,
    /// Parameters by value.
    Params(Box<dyn KernelArg>),
    /// Parameters by value that have the address of a buffer (by index) in them.
    Around(usize, Box<dyn Fn(u64) -> Box<dyn KernelArg>>),
    /// The address in device memory of a tensor map over a buffer (by index).
    Map(usize, TensorMapDesc),
    /// The same map, passed by value.
    MapValue(usize, TensorMapDesc),
}

impl Arg {
    pub(crate) fn params<P: KernelParam + 'static>(params: P) -> Self {
        Self::Params(Box::new(params))
    }

    /// What `params` makes of the address of buffer `number`.
    pub(crate) fn around<P: KernelParam + 'static>(
        number: usize,
        params: impl Fn(u64) -> P + 'static,
    ) -> Self {
        Self::Around(number, Box::new(move |address| Box::new(params(address))))
    }

    /// The same address, for another launch.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Buffer(index) => Self::Buffer(*index),
            Self::Null => Self::Null,
            _ => panic!("no address of a buffer"),
        }
    }
}

impl Trial {
    /// Adds a buffer of random elements of a float type.
    pub(crate) fn floats(&mut self, dtype: DType, len: u64, rng: &mut ChaCha8Rng) -> Arg {
        let is_special = rng.random_bool(0.3);
        let scale = 2f32.powi(rng.random_range(-3..=3));
        let mut bytes = Vec::with_capacity(len as usize * dtype.size_bytes());
        for _ in 0..len {
            let x: f32 = match rng.random_range(0..60) {
                0 if is_special => f32::NAN,
                1 if is_special => f32::INFINITY,
                2 if is_special => f32::NEG_INFINITY,
                3 => -0.0,
                4 => 1e-41,
                _ => rng.random_range(-1.0..1.0) * scale,
            };
            match dtype {
                DType::F64 => bytes.extend(f64::from(x).to_le_bytes()),
                DType::F32 => bytes.extend(x.to_le_bytes()),
                DType::F16 => bytes.extend(f16::from_f32(x).to_le_bytes()),
                DType::Bf16 => bytes.extend(bf16::from_f32(x).to_le_bytes()),
                DType::E4m3 => bytes.push(E4m3::from_f32(x).0),
                DType::E5m2 => bytes.push(E5m2::from_f32(x).0),
                DType::I8 => bytes.push(rng.random()),
                DType::I32 => bytes.extend(rng.random::<i32>().to_le_bytes()),
                other => panic!("no kernel reads {other}"),
            }
        }
        self.buffer(bytes)
    }

    /// Adds a buffer of random bytes, for copies and as initial contents of outputs.
    pub(crate) fn noise(&mut self, bytes: u64, rng: &mut ChaCha8Rng) -> Arg {
        let mut noise = vec![0; bytes as usize];
        rng.fill(&mut noise[..]);
        self.buffer(noise)
    }

    /// Adds a buffer with these bytes.
    pub(crate) fn buffer(&mut self, bytes: Vec<u8>) -> Arg {
        Arg::Buffer(self.numbered(bytes))
    }

    /// Adds a buffer with these bytes; returns its index.
    pub(crate) fn numbered(&mut self, bytes: Vec<u8>) -> usize {
        self.buffers.push(bytes);
        self.buffers.len() - 1
    }

    /// Adds a buffer with these bytes, of which the first `no_result` are not compared: blocks use
    /// them for counters or for messages that depend on the device.
    pub(crate) fn scratch(&mut self, bytes: Vec<u8>, no_result: usize) -> Arg {
        self.scratch.push((self.buffers.len(), no_result));
        self.buffer(bytes)
    }

    pub(crate) fn launch(
        &mut self,
        kernel: impl ToString,
        config: LaunchConfig,
        args: impl Into<Vec<Arg>>,
    ) {
        self.launches.push(Launch {
            source: Source::Builtin(kernel.to_string()),
            config,
            args: args.into(),
        });
    }

    /// A launch of a kernel of PTX text.
    pub(crate) fn launch_text(
        &mut self,
        text: &str,
        kernel: &str,
        config: LaunchConfig,
        args: impl Into<Vec<Arg>>,
    ) {
        self.launches.push(Launch {
            source: Source::Text(text.to_owned(), kernel.to_owned()),
            config,
            args: args.into(),
        });
    }

    /// All buffers after all launches, with 0 in bytes that are not compared.
    pub(crate) fn run(&self, device: &Device) -> Result<Vec<Vec<u8>>> {
        let stream = device.stream()?;
        let buffers = self
            .buffers
            .iter()
            .map(|bytes| DeviceBuffer::from_slice(device, bytes))
            .collect::<Result<Vec<_>>>()?;
        let borrowed: Vec<&DeviceBuffer<u8>> = buffers.iter().collect();
        let null: Option<&DeviceBuffer<u8>> = None;
        for launch in &self.launches {
            let maps = maps_of(device, &buffers, &launch.args)?;
            let borrowed_maps: Vec<&DeviceBuffer<u8>> = maps.iter().collect();
            let mut next_map = borrowed_maps.iter();
            let values = map_values_of(&buffers, &launch.args)?;
            let borrowed_values: Vec<&TensorMap> = values.iter().collect();
            let mut next_value = borrowed_values.iter();
            let around = around_of(&buffers, &launch.args);
            let mut next_around = around.iter();
            let args: Vec<&dyn KernelArg> = launch
                .args
                .iter()
                .map(|arg| match arg {
                    Arg::Buffer(number) => &borrowed[*number] as &dyn KernelArg,
                    Arg::Null => &null,
                    Arg::Params(params) => &**params,
                    Arg::Around(..) => match next_around.next() {
                        Some(params) => &**params,
                        None => &null,
                    },
                    Arg::Map(..) => match next_map.next() {
                        Some(map) => map as &dyn KernelArg,
                        None => &null,
                    },
                    Arg::MapValue(..) => match next_value.next() {
                        Some(map) => map as &dyn KernelArg,
                        None => &null,
                    },
                })
                .collect();
            let kernel = match &launch.source {
                Source::Builtin(name) => device.builtin_kernel(name)?,
                Source::Text(text, name) => device.load_ptx(text)?.kernel(name)?,
            };
            // SAFETY: the catalogue and the cases make buffers as large as the extents and strides
            // in the parameters require, and no output is also an input.
            unsafe { kernel.launch(&stream, launch.config, &args[..]) }?;
        }
        stream.synchronize()?;
        let read = buffers.iter().map(DeviceBuffer::to_vec);
        let mut results = read.collect::<Result<Vec<_>>>()?;
        for &(number, no_result) in &self.scratch {
            results[number][..no_result].fill(0);
        }
        Ok(results)
    }
}

/// The tensor maps among arguments, in device memory.
fn maps_of(
    device: &Device,
    buffers: &[DeviceBuffer<u8>],
    args: &[Arg],
) -> Result<Vec<DeviceBuffer<u8>>> {
    let of = |arg: &Arg| match arg {
        Arg::Map(number, desc) => Some((*number, desc.clone())),
        _ => None,
    };
    args.iter()
        .filter_map(of)
        .map(|(number, desc)| {
            let map = desc.encode(&buffers[number])?;
            DeviceBuffer::from_slice(device, map.bytes().as_slice())
        })
        .collect()
}

/// The tensor maps by value among arguments.
fn map_values_of(buffers: &[DeviceBuffer<u8>], args: &[Arg]) -> Result<Vec<TensorMap>> {
    let of = |arg: &Arg| match arg {
        Arg::MapValue(number, desc) => Some((*number, desc.clone())),
        _ => None,
    };
    let maps = args.iter().filter_map(of);
    maps.map(|(number, desc)| desc.encode(&buffers[number]))
        .collect()
}

/// The parameters among arguments that have an address in them.
fn around_of(buffers: &[DeviceBuffer<u8>], args: &[Arg]) -> Vec<Box<dyn KernelArg>> {
    let of = |arg: &Arg| match arg {
        Arg::Around(number, params) => Some(params(buffers[*number].device_ptr().as_raw())),
        _ => None,
    };
    args.iter().filter_map(of).collect()
}
