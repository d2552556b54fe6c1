//! Functions of single elements, and of pairs.

mod binary;
mod plan;
mod unary;

pub use binary::Binary;
pub(super) use plan::Walk;
pub use unary::Unary;
