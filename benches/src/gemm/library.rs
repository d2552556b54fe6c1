//! Finds cuBLASLt's fastest algorithm for a case by measurement.

use std::rc::Rc;

use warpsmith::{DevicePtr, GemmOutput};

use super::product::{Copy, Product};
use crate::cublaslt::{Algorithm, CublasLt, CublasLtError, Extras, Matmul, Operands};
use crate::error::Result;
use crate::inputs::Sample;
use crate::opponent::{Opponent, fastest as fastest_of};
use crate::timing::Timer;

/// The fastest of the first `asked` algorithms that the library has for `product`; `None` if it has
/// none.
pub(super) fn fastest<'a, In: Sample, Out: GemmOutput + Sample>(
    library: &'a CublasLt,
    product: &'a Product<In, Out>,
    timer: &Timer,
    asked: usize,
) -> Result<Option<Opponent<'a>>> {
    let matmul = Rc::new(Matmul::new(
        library,
        product.case.problem(),
        extras(product),
    )?);
    let algorithms = match matmul.algorithms(asked) {
        Err(CublasLtError::NoAlgorithm(_)) => return Ok(None),
        algorithms => algorithms?,
    };
    let opponent = |algorithm: Algorithm| {
        let matmul = Rc::clone(&matmul);
        Opponent {
            name: library.name(),
            choice: Some(format!("heuristic {}", algorithm.rank)),
            launch: Box::new(move |copy| enqueue(&matmul, &algorithm, &product.copies[copy])),
        }
    };
    let all = algorithms.into_iter().map(opponent).collect();
    fastest_of(timer, product.copies.len(), all)
}

/// The addresses of bias and scales, which live as long as the product.
fn extras<In: Sample, Out: GemmOutput + Sample>(product: &Product<In, Out>) -> Extras {
    let (bias, scales) = (product.bias.as_ref(), product.scales.as_ref());
    Extras {
        bias: bias.map(|bias| cast(bias.device_ptr())),
        // 8-bit operands alone have scales, which are f32.
        scales: scales.map(|[a, b]| [cast(a.device_ptr()), cast(b.device_ptr())]),
    }
}

fn cast<T, U>(address: DevicePtr<T>) -> DevicePtr<U> {
    DevicePtr::from_raw(address.as_raw())
}

fn enqueue<In: Sample, Out: GemmOutput + Sample>(
    matmul: &Matmul<'_>,
    algorithm: &Algorithm,
    copy: &Copy<In, Out>,
) -> Result<()> {
    let operands = Operands {
        a: cast(copy.a.device_ptr()),
        b: cast(copy.b.device_ptr()),
        d: cast(copy.theirs.device_ptr()),
    };
    // SAFETY: the tensors are those of the case that the product describes, stored without gaps,
    // and outlive the timing, which synchronizes the stream.
    Ok(unsafe { matmul.enqueue(algorithm, operands) }?)
}
