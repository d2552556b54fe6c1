//! Triton's kernels for an architecture, as `scripts/gpu/triton_gemm` compiles them: a peer of
//! those of our kernels that do not use Hopper's instructions.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use warpsmith::{Device, DevicePtr, GemmOutput, Kernel, KernelArg, LaunchConfig, Stream};

use super::cases::{Case, Layout, Precision};
use super::peers::fastest_kernel;
use super::product::{Copy, Product};
use crate::cublaslt::Epilogue;
use crate::error::{BenchError, Result};
use crate::inputs::Sample;
use crate::opponent::Opponent;
use crate::timing::Timer;

/// The contents of `kernels.json`, which the script writes.
#[derive(Debug, Deserialize)]
struct Manifest {
    /// Triton's version.
    triton: String,
    kernels: Vec<Described>,
}

#[derive(Clone, Debug, Deserialize)]
struct Described {
    name: String,
    element: Element,
    file: PathBuf,
    entry: String,
    /// m, n, k.
    tile: [usize; 3],
    threads: u32,
    shared_bytes: u32,
}

/// The element type of all three matrices.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Element {
    Bf16,
    F16,
}

/// Its kernels, loaded: A `[m, k]`, B `[n, k]`.
#[derive(Debug)]
pub(super) struct Triton {
    name: String,
    kernels: Vec<(Described, Kernel)>,
}

impl Triton {
    /// Loads all kernels from `folder`.
    pub(super) fn load(folder: &Path, device: &Device) -> Result<Self> {
        let path = folder.join("kernels.json");
        let text = fs::read_to_string(&path).map_err(BenchError::file(&path))?;
        let manifest: Manifest =
            serde_json::from_str(&text).map_err(|error| BenchError::file(&path)(error.into()))?;
        let load = |described: Described| {
            let path = folder.join(&described.file);
            let ptx = fs::read_to_string(&path).map_err(BenchError::file(&path))?;
            let kernel = device.load_ptx(&ptx)?.kernel(&described.entry)?;
            Ok((described, kernel))
        };
        let kernels = manifest.kernels.into_iter().map(load);
        Ok(Self {
            name: format!("Triton {}", manifest.triton),
            kernels: kernels.collect::<Result<_>>()?,
        })
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The fastest of the kernels that compute `product`; `None` if none does.
    pub(super) fn fastest<'a, In: Sample, Out: GemmOutput + Sample>(
        &'a self,
        product: &'a Product<In, Out>,
        timer: &'a Timer,
    ) -> Result<Option<Opponent<'a>>> {
        let all = self.kernels.iter();
        let fitting = all.filter(|(described, _)| described.computes(&product.case));
        let kernels = fitting.map(|(described, kernel)| {
            let enqueue =
                move |copy: &_| launch(described, kernel, &product.case, copy, timer.stream());
            (described.name.as_str(), enqueue)
        });
        fastest_kernel(&self.name, product, timer, kernels)
    }
}

impl Described {
    fn computes(&self, case: &Case) -> bool {
        let [m, n, k] = self.tile;
        let is_whole =
            case.m.is_multiple_of(m) && case.n.is_multiple_of(n) && case.k.is_multiple_of(k);
        let is_plain = case.batch == 1 && case.epilogue == Epilogue::None;
        let precision = match self.element {
            Element::Bf16 => Precision::Bf16,
            Element::F16 => Precision::F16,
        };
        is_whole && is_plain && case.precision == precision && case.layout == Layout::Nt
    }
}

fn launch<In: Sample, Out: GemmOutput + Sample>(
    described: &Described,
    kernel: &Kernel,
    case: &Case,
    copy: &Copy<In, Out>,
    stream: &Stream,
) -> Result<()> {
    let [tile_m, tile_n, _] = described.tile;
    let tiles = (case.m / tile_m) * (case.n / tile_n);
    let config = LaunchConfig::linear(tiles as u32, described.threads);
    let config = config.shared_bytes(described.shared_bytes);
    let [m, n, k] = [case.m, case.n, case.k].map(|extent| extent as i32);
    let (a, b, d) = (&copy.a, &copy.b, &copy.theirs);
    // Scratch memory that Triton's newer versions pass to every kernel, and this one does not use.
    let scratch = DevicePtr::<u8>::NULL;
    let arguments: [&dyn KernelArg; 10] = [
        &a, &b, &d, &m, &n, &k, &scratch, &scratch, &scratch, &scratch,
    ];
    let count = kernel.params().len().min(arguments.len());
    // SAFETY: matrices of the kernel's type and of these extents, which the tile divides, without
    // gaps, B transposed: `computes` made sure; `d` overlaps neither.
    Ok(unsafe { kernel.launch(stream, config, &arguments[..count]) }?)
}
