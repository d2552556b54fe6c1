// Launches of the kernels of `crates_io`, written by warpsmith-cuda-builder.

/// The kernels of `crates_io` on a device.
#[allow(dead_code, unreachable_pub)]
#[derive(Debug)]
pub struct Kernels {
    built: ::warpsmith::Built,
    sha256_of_each: ::std::sync::OnceLock<::warpsmith::Kernel>,
    sha512_of_each: ::std::sync::OnceLock<::warpsmith::Kernel>,
    turn_each: ::std::sync::OnceLock<::warpsmith::Kernel>,
}

/// The kernels of `crates_io` on `device`. Each is loaded when it is launched first.
///
/// # Errors
/// As [`warpsmith::Built::new`].
#[allow(dead_code, unreachable_pub)]
pub fn load(device: &::warpsmith::Device) -> ::warpsmith::Result<Kernels> {
    Ok(Kernels {
        built: ::warpsmith::Built::new(device, MANIFEST, MODULES)?,
        sha256_of_each: ::std::sync::OnceLock::new(),
        sha512_of_each: ::std::sync::OnceLock::new(),
        turn_each: ::std::sync::OnceLock::new(),
    })
}

const MANIFEST: &str = include_str!("manifest.json");
const MODULES: &[(&str, &str)] = &[
    ("sm_75/crates_io.ptx", include_str!("sm_75/crates_io.ptx")),
];

#[allow(dead_code, unreachable_pub, unsafe_code, clippy::too_many_arguments)]
impl Kernels {
    /// What the kernels are loaded from: their modules with the variables, and each kernel's limits.
    pub fn built(&self) -> &::warpsmith::Built {
        &self.built
    }
    /// Enqueues `sha256_of_each(texts: *const [u8;100], texts.len: usize, digests: *mut [u8;32], digests.len: usize)`.
    /// Requires `a grid and a block of one dimension`.
    /// Requires `texts.len() == digests.len()`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn sha256_of_each(
        &self,
        stream: &::warpsmith::Stream,
        texts: impl ::warpsmith::ConstPointer<[u8; 100]>,
        digests: impl ::warpsmith::MutPointer<[u8; 32]>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 2] = [&texts, &digests, ];
        let kernel = self.built.kernel(&self.sha256_of_each, "sha256_of_each")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, None, &arguments[..]) }
    }
    /// Enqueues `sha512_of_each(texts: *const [u8;100], texts.len: usize, digests: *mut [u8;64], digests.len: usize)`.
    /// Requires `a grid and a block of one dimension`.
    /// Requires `texts.len() == digests.len()`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn sha512_of_each(
        &self,
        stream: &::warpsmith::Stream,
        texts: impl ::warpsmith::ConstPointer<[u8; 100]>,
        digests: impl ::warpsmith::MutPointer<[u8; 64]>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 2] = [&texts, &digests, ];
        let kernel = self.built.kernel(&self.sha512_of_each, "sha512_of_each")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, None, &arguments[..]) }
    }
    /// Enqueues `turn_each(sine: f32, cosine: f32, points: *const [f32;3], points.len: usize, turned: *mut [f32;3], turned.len: usize)`.
    /// Requires `a grid and a block of one dimension`.
    /// Requires `points.len() == turned.len()`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn turn_each(
        &self,
        stream: &::warpsmith::Stream,
        sine: f32,
        cosine: f32,
        points: impl ::warpsmith::ConstPointer<[f32; 3]>,
        turned: impl ::warpsmith::MutPointer<[f32; 3]>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 4] = [&sine, &cosine, &points, &turned, ];
        let kernel = self.built.kernel(&self.turn_each, "turn_each")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, None, &arguments[..]) }
    }
}
