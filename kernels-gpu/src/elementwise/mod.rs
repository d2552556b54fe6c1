//! Unary and binary operations element by element.
