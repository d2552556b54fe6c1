//! A lane-wise operation whose operands are not resolved yet.

use crate::exec::kernel::{Args, Kernel, Widths};
use crate::program::Width;
use crate::semantics::FloatMode;
use crate::semantics::fp32::MinMaxMode;

/// An operation, the widths of its operands, and its modes.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) kernel: Kernel,
    /// Width of the destination.
    pub(crate) d: Width,
    /// Widths of the sources, in PTX order.
    pub(crate) sources: Vec<Width>,
    /// Modes; its operands are not resolved.
    pub(crate) args: Args,
}

impl Recipe {
    pub(crate) fn new(kernel: Kernel, d: Width, sources: &[Width]) -> Self {
        Self {
            kernel,
            d,
            sources: sources.to_vec(),
            args: Args {
                widths: Widths {
                    d: Some(d),
                    sources: std::array::from_fn(|at| sources.get(at).copied()),
                },
                ..Args::default()
            },
        }
    }

    pub(crate) fn float(mut self, float: FloatMode) -> Self {
        self.args.float = float;
        self
    }

    pub(crate) fn minmax(mut self, minmax: MinMaxMode) -> Self {
        self.args.minmax = minmax;
        self
    }

    pub(crate) fn imm(mut self, imm: u32) -> Self {
        self.args.imm = imm;
        self
    }
}

/// Width of the register that holds a value of a type.
pub(crate) const fn width_of<T: crate::exec::kernel::Value>() -> Width {
    <T::Bits as crate::exec::registers::Lane>::WIDTH
}

/// Makes a [`Recipe`] from a function of typed sources, in the form of
/// [`lanes!`](crate::exec::kernel::lanes).
macro_rules! op {
    (|$x:ident, $($a:ident: $t:ty),+| -> $r:ty $body:block) => {
        $crate::lower::recipe::Recipe::new(
            $crate::exec::kernel::lanes!(|$x, $($a: $t),+| -> $r $body),
            $crate::lower::recipe::width_of::<$r>(),
            &[$($crate::lower::recipe::width_of::<$t>()),+],
        )
    };
}

/// `Some` of an expression in which a type name stands for the Rust type of a PTX type, or `None`
/// for PTX types that are not listed.
macro_rules! typed {
    ($ty:expr, [$($v:ident: $t:ty),+], $name:ident => $e:expr) => {
        match $ty {
            $(ptx_syntax::ast::ScalarType::$v => {
                type $name = $t;
                Some($e)
            })+
            _ => None,
        }
    };
}

/// [`typed!`] for integers of 16, 32 and 64 bits.
macro_rules! integers {
    ($ty:expr, $name:ident => $e:expr) => {
        $crate::lower::recipe::typed!(
            $ty,
            [U16: u16, S16: i16, U32: u32, S32: i32, U64: u64, S64: i64],
            $name => $e
        )
    };
}

/// [`typed!`] for unsigned integers as wide as a type, whatever it is.
macro_rules! by_width {
    ($ty:expr, $name:ident => $e:expr) => {
        match $ty.bytes() {
            2 => {
                type $name = u16;
                Some($e)
            }
            4 => {
                type $name = u32;
                Some($e)
            }
            8 => {
                type $name = u64;
                Some($e)
            }
            _ => None,
        }
    };
}

pub(crate) use {by_width, integers, op, typed};
