//! The semantics of single instructions, compared with independent implementations: bit by bit as
//! the ISA describes them, in wide integers, or by searching a format for the right neighbour.

mod approximations;
mod bits;
mod conversions;
mod floats;
mod halves;
mod integer_conversions;
mod integers;
mod oracle;
