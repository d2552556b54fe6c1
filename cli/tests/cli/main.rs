//! The program from the outside: every command, with good input and with bad.

mod arrays;
mod bench;
mod build;
mod chapter;
mod check;
mod demo;
#[cfg(target_os = "linux")]
mod driver;
mod environment;
mod guide;
mod hostile;
#[cfg(target_os = "linux")]
mod memory;
mod pipe;
mod ptx;
mod readme;
mod refused_arrays;
mod run;
mod support;
