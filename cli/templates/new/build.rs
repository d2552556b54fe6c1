//! Compiles the kernels to `$OUT_DIR/ptx`, with a function for the launch of each in `kernels.rs`.

fn main() -> Result<(), cuda_builder::Error> {
    cuda_builder::CudaBuilder::new(".").build_script()
}
