//! Runs forms and programs on a device of the library.

use warpsmith::{Device, DeviceBuffer, LaunchConfig, Result};

use super::forms::Form;
use super::golden;
use super::kernel::{self, HEADER};
use super::operands;
use super::program::{self, Program};

/// Operand tuples of a form that has not one 16-bit operand (which gets all its 65,536 values).
pub const TUPLES: usize = 2048;

/// The operands a form is tried on.
#[must_use]
pub fn operands_of(form: &Form) -> Vec<Vec<u64>> {
    operands::tuples(&form.inputs, TUPLES, golden::seed(&form.name))
}

/// What a device answers to a form, one word a tuple.
pub fn run_form(device: &Device, form: &Form, tuples: &[Vec<u64>]) -> Result<Vec<u64>> {
    let ptx = format!("{HEADER}{}", kernel::kernel("form", form));
    let inputs: Vec<u64> = (0..form.inputs.len())
        .flat_map(|k| tuples.iter().map(move |tuple| tuple[k]))
        .collect();
    let stream = device.stream()?;
    let kernel = device.load_ptx(&ptx)?.kernel("form")?;
    let inputs = DeviceBuffer::from_slice(device, &inputs)?;
    let mut outputs = DeviceBuffer::<u64>::zeros(&stream, tuples.len())?;
    let config = LaunchConfig::for_elements(tuples.len() as u64, 128);
    // SAFETY: the kernel reads one word an operand and tuple, and writes one a tuple; both buffers
    // have that many, and it stops at the count.
    unsafe {
        kernel.launch(
            &stream,
            config,
            (&inputs, &mut outputs, tuples.len() as u32),
        )?
    };
    stream.synchronize()?;
    outputs.to_vec()
}

/// The registers that a program leaves on a device, thread by thread.
pub fn run_program(device: &Device, program: &Program) -> Result<Vec<u64>> {
    let stream = device.stream()?;
    let kernel = device.load_ptx(&program.ptx)?.kernel("program")?;
    let inputs = DeviceBuffer::from_slice(device, &program.inputs)?;
    let mut outputs = DeviceBuffer::<u64>::zeros(&stream, program.inputs.len())?;
    let config = LaunchConfig::linear(program::GRID, program::BLOCK);
    // SAFETY: each thread of this grid reads and writes its own words of buffers made for it.
    unsafe { kernel.launch(&stream, config, (&inputs, &mut outputs))? };
    stream.synchronize()?;
    outputs.to_vec()
}
