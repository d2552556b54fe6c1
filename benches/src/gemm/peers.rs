//! The peers that are available for comparison.

use warpsmith::{GemmOutput, Stream};

use super::GemmOptions;
use super::cases::{Beside, Case};
use super::cutlass::Cutlass;
use super::product::{Copy, Product};
use super::triton::Triton;
use crate::cublaslt::CublasLt;
use crate::error::Result;
use crate::inputs::Sample;
use crate::opponent::{Opponent, fastest};
use crate::timing::Timer;

/// The libraries and kernels with which a run's cases are compared.
pub(super) struct Peers {
    pub(super) library: Option<CublasLt>,
    pub(super) triton: Option<Triton>,
    pub(super) cutlass: Option<Cutlass>,
    /// The names of all of them, or why there is none.
    pub(super) name: String,
}

impl Peers {
    /// Loads the peers that `cases` need. A missing cuBLASLt is not an error; a folder without
    /// kernels is.
    pub(super) fn load(options: &GemmOptions, cases: &[Case], stream: &Stream) -> Result<Self> {
        let mut peers = Self {
            library: None,
            triton: None,
            cutlass: None,
            name: "nothing (--no-peer)".to_owned(),
        };
        if options.no_peer {
            return Ok(peers);
        }
        let mut names = Vec::new();
        if cases.iter().any(|case| case.beside == Beside::Library) {
            match CublasLt::load(stream) {
                Ok(library) => {
                    names.push(library.name());
                    peers.library = Some(library);
                }
                Err(error) => names.push(format!("nothing ({error})")),
            }
        }
        if let Some(folder) = &options.triton {
            let triton = Triton::load(folder, stream.device())?;
            names.push(triton.name().to_owned());
            peers.triton = Some(triton);
        }
        if let Some(folder) = &options.cutlass {
            let cutlass = Cutlass::load(folder)?;
            names.push(cutlass.name().to_owned());
            peers.cutlass = Some(cutlass);
        }
        peers.name = match names.is_empty() {
            true => "nothing (neither --triton nor --cutlass)".to_owned(),
            false => names.join(" and "),
        };
        Ok(peers)
    }

    /// Whether `case` may have a peer.
    pub(super) fn has(&self, case: &Case) -> bool {
        match case.beside {
            Beside::Library => self.library.is_some(),
            Beside::Ampere => self.triton.is_some() || self.cutlass.is_some(),
            Beside::PlainOfOurs => true,
        }
    }
}

/// The fastest of a peer's kernels for `product`; `None` if there is none. A kernel is its name and
/// a function that enqueues it on the timer's stream.
pub(super) fn fastest_kernel<'a, In: Sample, Out: GemmOutput + Sample>(
    peer: &str,
    product: &'a Product<In, Out>,
    timer: &Timer,
    kernels: impl Iterator<Item = (&'a str, impl Fn(&Copy<In, Out>) -> Result<()> + 'a)>,
) -> Result<Option<Opponent<'a>>> {
    let all = kernels.map(|(choice, enqueue)| Opponent {
        name: peer.to_owned(),
        choice: Some(choice.to_owned()),
        launch: Box::new(move |copy| enqueue(&product.copies[copy])),
    });
    fastest(timer, product.copies.len(), all.collect())
}
