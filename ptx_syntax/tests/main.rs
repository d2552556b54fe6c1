//! The tests of the syntax, a module for each subject, as one program.

mod explain;
mod generated;
mod isa;
mod link;
mod lint;
mod parse;
mod roundtrip;
mod samples;
mod unwritten;
