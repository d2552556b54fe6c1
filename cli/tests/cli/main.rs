//! The program from the outside: every command, with good input and with bad.

mod build;
mod pipe;
mod ptx;
mod support;
