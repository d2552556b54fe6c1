//! Runs forms and programs on a device of the library.

use warpsmith::{Device, DeviceBuffer, LaunchConfig, Result};

use super::forms::Form;
use super::golden;
use super::kernel::{self, HEADER};
use super::operands;
use super::program::{self, PREAMBLE, Program};

/// Operand tuples of a form. (A form with a single 16-bit operand gets all its 65,536 values.)
pub const TUPLES: usize = 2048;

/// Kernels per module: a driver compiles many together faster than one by one.
pub const MODULE: usize = 64;

/// The operand tuples on which a form is tested.
#[must_use]
pub fn operands_of(form: &Form) -> Vec<Vec<u64>> {
    operands::tuples(&form.inputs, TUPLES, golden::seed(&form.name))
}

/// A module with these forms: kernels `form_0` and so on.
#[must_use]
pub fn form_module(forms: &[Form]) -> String {
    let kernels = forms.iter().enumerate();
    let kernels = kernels.map(|(i, form)| kernel::kernel(&format!("form_{i}"), form));
    std::iter::once(HEADER.to_owned()).chain(kernels).collect()
}

/// A module with these programs.
#[must_use]
pub fn program_module(programs: &[Program]) -> String {
    let texts = programs.iter().map(|program| program.ptx.as_str());
    [HEADER, PREAMBLE].into_iter().chain(texts).collect()
}

/// The answers of a device to forms, one word for each tuple of [`operands_of`].
pub fn run_forms(device: &Device, forms: &[Form]) -> Result<Vec<Vec<u64>>> {
    let mut answers = Vec::new();
    for forms in forms.chunks(MODULE) {
        let module = device.load_ptx(&form_module(forms))?;
        for (i, form) in forms.iter().enumerate() {
            answers.push(run_form(&module.kernel(&format!("form_{i}"))?, form)?);
        }
    }
    Ok(answers)
}

fn run_form(kernel: &warpsmith::Kernel, form: &Form) -> Result<Vec<u64>> {
    let tuples = operands_of(form);
    let inputs: Vec<u64> = (0..form.inputs.len())
        .flat_map(|k| tuples.iter().map(move |tuple| tuple[k]))
        .collect();
    let device = kernel.device();
    let stream = device.stream()?;
    let inputs = DeviceBuffer::from_slice(device, &inputs)?;
    let mut outputs = DeviceBuffer::<u64>::zeros(&stream, tuples.len())?;
    let config = LaunchConfig::for_elements(tuples.len() as u64, 128);
    let count = tuples.len() as u32;
    // SAFETY: the kernel reads one word per operand and tuple and writes one word per tuple. Both
    // buffers are that long, and it stops at the count.
    unsafe { kernel.launch(&stream, config, (&inputs, &mut outputs, count))? };
    stream.synchronize()?;
    outputs.to_vec()
}

/// The answers of a device to programs: each thread's row, then the memory that threads changed.
pub fn run_programs(device: &Device, programs: &[Program]) -> Result<Vec<Vec<u64>>> {
    let module = device.load_ptx(&program_module(programs))?;
    let run = |program: &Program| run_program(&module.kernel(&program.kernel())?, program);
    programs.iter().map(run).collect()
}

fn run_program(kernel: &warpsmith::Kernel, program: &Program) -> Result<Vec<u64>> {
    let device = kernel.device();
    let stream = device.stream()?;
    let inputs = DeviceBuffer::from_slice(device, &program.inputs)?;
    let mut memory = DeviceBuffer::from_slice(device, &program.memory)?;
    let mut outputs = DeviceBuffer::<u64>::zeros(&stream, program.inputs.len())?;
    let config = LaunchConfig::linear(program::GRID, program::BLOCK);
    let block = Block {
        words: program.block,
    };
    let arguments = (&inputs, &mut outputs, &mut memory, block);
    // SAFETY: each thread of this grid accesses its own words of buffers that were made for it.
    unsafe { kernel.launch(&stream, config, arguments)? };
    stream.synchronize()?;
    let mut answer = outputs.to_vec()?;
    answer.extend(memory.to_vec()?);
    Ok(answer)
}

warpsmith::kernel_param! {
    /// The by-value parameter of a program.
    #[repr(align(16))]
    struct Block {
        words: [u64; 8],
    }
}
