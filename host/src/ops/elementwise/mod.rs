//! Functions of elements, and chains of them.

mod binary;
mod chain;
mod gradient;
mod map;
mod plan;
mod program;
mod select;
mod transpose;
mod unary;

pub use binary::Binary;
pub use chain::Chain;
pub use gradient::Gradient;
pub use map::Map;
pub(super) use plan::{Steps, Walk};
pub use program::ChainElement;
pub(super) use program::{Program, cast_pieces, steps_of};
pub use select::Select;
pub(super) use transpose::Transposition;
pub use unary::Unary;
