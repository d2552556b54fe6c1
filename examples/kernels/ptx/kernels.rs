// Launches of the kernels of `example_kernels`, written by warpsmith-cuda-builder.

/// The kernels of `example_kernels` on a device.
#[allow(dead_code, unreachable_pub)]
#[derive(Debug)]
pub struct Kernels {
    built: ::warpsmith::Built,
    chained_sums: ::std::sync::OnceLock<::warpsmith::Kernel>,
    counts_of_rows: ::std::sync::OnceLock<::warpsmith::Kernel>,
    half_of_the_grid_waits: ::std::sync::OnceLock<::warpsmith::Kernel>,
    hopper_attention: ::std::sync::OnceLock<::warpsmith::Kernel>,
    hopper_gemm: ::std::sync::OnceLock<::warpsmith::Kernel>,
    jacobi: ::std::sync::OnceLock<::warpsmith::Kernel>,
    lower_triangle: ::std::sync::OnceLock<::warpsmith::Kernel>,
    on_line: ::std::sync::OnceLock<::warpsmith::Kernel>,
    places_of_kept: ::std::sync::OnceLock<::warpsmith::Kernel>,
    polynomial: ::std::sync::OnceLock<::warpsmith::Kernel>,
    reverse_rows: ::std::sync::OnceLock<::warpsmith::Kernel>,
    row_norms: ::std::sync::OnceLock<::warpsmith::Kernel>,
    running_sums: ::std::sync::OnceLock<::warpsmith::Kernel>,
    safe_axpy: ::std::sync::OnceLock<::warpsmith::Kernel>,
    safe_histogram: ::std::sync::OnceLock<::warpsmith::Kernel>,
    safe_segmented_sum: ::std::sync::OnceLock<::warpsmith::Kernel>,
    safe_softmax: ::std::sync::OnceLock<::warpsmith::Kernel>,
    safe_stencil: ::std::sync::OnceLock<::warpsmith::Kernel>,
    safe_transpose: ::std::sync::OnceLock<::warpsmith::Kernel>,
    safe_vector_add: ::std::sync::OnceLock<::warpsmith::Kernel>,
    scale_by_four: ::std::sync::OnceLock<::warpsmith::Kernel>,
    shares: ::std::sync::OnceLock<::warpsmith::Kernel>,
    sorted_rows: ::std::sync::OnceLock<::warpsmith::Kernel>,
    sums_of_four: ::std::sync::OnceLock<::warpsmith::Kernel>,
    sums_of_groups: ::std::sync::OnceLock<::warpsmith::Kernel>,
    sums_of_three: ::std::sync::OnceLock<::warpsmith::Kernel>,
    swish_gate: ::std::sync::OnceLock<::warpsmith::Kernel>,
    turn_around: ::std::sync::OnceLock<::warpsmith::Kernel>,
    unsafe_histogram: ::std::sync::OnceLock<::warpsmith::Kernel>,
    unsafe_segmented_sum: ::std::sync::OnceLock<::warpsmith::Kernel>,
    unsafe_softmax: ::std::sync::OnceLock<::warpsmith::Kernel>,
    unsafe_stencil: ::std::sync::OnceLock<::warpsmith::Kernel>,
    unsafe_transpose: ::std::sync::OnceLock<::warpsmith::Kernel>,
    vector_add: ::std::sync::OnceLock<::warpsmith::Kernel>,
    vector_add_with_a_bug: ::std::sync::OnceLock<::warpsmith::Kernel>,
}

/// The kernels of `example_kernels` on `device`. Each is loaded when it is launched first.
///
/// # Errors
/// As [`warpsmith::Built::new`].
#[allow(dead_code, unreachable_pub)]
pub fn load(device: &::warpsmith::Device) -> ::warpsmith::Result<Kernels> {
    Ok(Kernels {
        built: ::warpsmith::Built::new(device, MANIFEST, MODULES)?,
        chained_sums: ::std::sync::OnceLock::new(),
        counts_of_rows: ::std::sync::OnceLock::new(),
        half_of_the_grid_waits: ::std::sync::OnceLock::new(),
        hopper_attention: ::std::sync::OnceLock::new(),
        hopper_gemm: ::std::sync::OnceLock::new(),
        jacobi: ::std::sync::OnceLock::new(),
        lower_triangle: ::std::sync::OnceLock::new(),
        on_line: ::std::sync::OnceLock::new(),
        places_of_kept: ::std::sync::OnceLock::new(),
        polynomial: ::std::sync::OnceLock::new(),
        reverse_rows: ::std::sync::OnceLock::new(),
        row_norms: ::std::sync::OnceLock::new(),
        running_sums: ::std::sync::OnceLock::new(),
        safe_axpy: ::std::sync::OnceLock::new(),
        safe_histogram: ::std::sync::OnceLock::new(),
        safe_segmented_sum: ::std::sync::OnceLock::new(),
        safe_softmax: ::std::sync::OnceLock::new(),
        safe_stencil: ::std::sync::OnceLock::new(),
        safe_transpose: ::std::sync::OnceLock::new(),
        safe_vector_add: ::std::sync::OnceLock::new(),
        scale_by_four: ::std::sync::OnceLock::new(),
        shares: ::std::sync::OnceLock::new(),
        sorted_rows: ::std::sync::OnceLock::new(),
        sums_of_four: ::std::sync::OnceLock::new(),
        sums_of_groups: ::std::sync::OnceLock::new(),
        sums_of_three: ::std::sync::OnceLock::new(),
        swish_gate: ::std::sync::OnceLock::new(),
        turn_around: ::std::sync::OnceLock::new(),
        unsafe_histogram: ::std::sync::OnceLock::new(),
        unsafe_segmented_sum: ::std::sync::OnceLock::new(),
        unsafe_softmax: ::std::sync::OnceLock::new(),
        unsafe_stencil: ::std::sync::OnceLock::new(),
        unsafe_transpose: ::std::sync::OnceLock::new(),
        vector_add: ::std::sync::OnceLock::new(),
        vector_add_with_a_bug: ::std::sync::OnceLock::new(),
    })
}

const MANIFEST: &str = include_str!("manifest.json");
const MODULES: &[(&str, &str)] = &[
    ("sm_75/block_calls.ptx", include_str!("sm_75/block_calls.ptx")),
    ("sm_75/contracts.ptx", include_str!("sm_75/contracts.ptx")),
    ("sm_75/cooperative.ptx", include_str!("sm_75/cooperative.ptx")),
    ("sm_75/globals.ptx", include_str!("sm_75/globals.ptx")),
    ("sm_75/reverse.ptx", include_str!("sm_75/reverse.ptx")),
    ("sm_75/row_norms.ptx", include_str!("sm_75/row_norms.ptx")),
    ("sm_75/safe.ptx", include_str!("sm_75/safe.ptx")),
    ("sm_75/scores.ptx", include_str!("sm_75/scores.ptx")),
    ("sm_75/soft_clip.ptx", include_str!("sm_75/soft_clip.ptx")),
    ("sm_75/swish_gate.ptx", include_str!("sm_75/swish_gate.ptx")),
    ("sm_75/twins.ptx", include_str!("sm_75/twins.ptx")),
    ("sm_75/vector_add.ptx", include_str!("sm_75/vector_add.ptx")),
    ("sm_90a/hopper_attention.ptx", include_str!("sm_90a/hopper_attention.ptx")),
    ("sm_90a/hopper_gemm.ptx", include_str!("sm_90a/hopper_gemm.ptx")),
    ("sm_90a/lower_triangle.ptx", include_str!("sm_90a/lower_triangle.ptx")),
];

#[allow(dead_code, unreachable_pub, unsafe_code, clippy::too_many_arguments)]
impl Kernels {
    /// What the kernels are loaded from: their modules with the variables, and each kernel's limits.
    pub fn built(&self) -> &::warpsmith::Built {
        &self.built
    }
    /// Enqueues `chained_sums(x: *const u32, x.len: usize, sums: *const AtomicU32, sums.len: usize, done: *const AtomicU32, done.len: usize, y: *mut u32, y.len: usize)`.
    /// Requires `a grid and a block of one dimension`.
    /// Requires `x.len() == y.len()`.
    /// Requires `sums.len() == x.len().div_ceil(128)`.
    /// Requires `done.len() == sums.len()`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn chained_sums(
        &self,
        stream: &::warpsmith::Stream,
        x: impl ::warpsmith::ConstPointer<u32>,
        sums: impl ::warpsmith::ConstPointer<u32>,
        done: impl ::warpsmith::ConstPointer<u32>,
        y: impl ::warpsmith::MutPointer<u32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 4] = [&x, &sums, &done, &y, ];
        let kernel = self.built.kernel(&self.chained_sums, "chained_sums")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, None, &arguments[..]) }
    }
    /// Enqueues `counts_of_rows(x: *const u32, x.shape: Shape2, counts: *mut u32, counts.shape: Shape2)`.
    /// Requires `a grid of one dimension`.
    /// Requires `x.rows() == counts.rows()`.
    /// Requires `counts.columns() == 64`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn counts_of_rows(
        &self,
        stream: &::warpsmith::Stream,
        x: impl ::warpsmith::ConstPointer<u32>,
        counts: impl ::warpsmith::MutPointer<u32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 2] = [&x, &counts, ];
        let kernel = self.built.kernel(&self.counts_of_rows, "counts_of_rows")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, None, &arguments[..]) }
    }
    /// Enqueues `half_of_the_grid_waits()`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    ///
    /// # Safety
    /// As [`warpsmith::Kernel::launch`].
    pub unsafe fn half_of_the_grid_waits(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 0] = [];
        let kernel = self.built.kernel(&self.half_of_the_grid_waits, "half_of_the_grid_waits")?;
        // SAFETY: guaranteed by the caller.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `hopper_attention(q: TensorMapParam, k: TensorMapParam, v: TensorMapParam, o: *mut f32, seqlen: u32, scale_log2: f32, causal: u32)`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    ///
    /// # Safety
    /// As [`warpsmith::Kernel::launch`].
    pub unsafe fn hopper_attention(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        q: &::warpsmith::TensorMap,
        k: &::warpsmith::TensorMap,
        v: &::warpsmith::TensorMap,
        o: impl ::warpsmith::MutPointer<f32>,
        seqlen: u32,
        scale_log2: f32,
        causal: u32,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 7] = [&q, &k, &v, &o, &seqlen, &scale_log2, &causal, ];
        let kernel = self.built.kernel(&self.hopper_attention, "hopper_attention")?;
        // SAFETY: guaranteed by the caller.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `hopper_gemm(a: TensorMapParam, b: TensorMapParam, d: *mut f32, m: u32, n: u32, k: u32)`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    ///
    /// # Safety
    /// As [`warpsmith::Kernel::launch`].
    pub unsafe fn hopper_gemm(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        a: &::warpsmith::TensorMap,
        b: &::warpsmith::TensorMap,
        d: impl ::warpsmith::MutPointer<f32>,
        m: u32,
        n: u32,
        k: u32,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 6] = [&a, &b, &d, &m, &n, &k, ];
        let kernel = self.built.kernel(&self.hopper_gemm, "hopper_gemm")?;
        // SAFETY: guaranteed by the caller.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `jacobi(steps: u32, a: *const AtomicF32, a.len: usize, b: *const AtomicF32, b.len: usize)`.
    /// Requires `a.len() == b.len()`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn jacobi(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        steps: u32,
        a: impl ::warpsmith::ConstPointer<f32>,
        b: impl ::warpsmith::ConstPointer<f32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 3] = [&steps, &a, &b, ];
        let kernel = self.built.kernel(&self.jacobi, "jacobi")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `lower_triangle(a: TensorMapParam, b: TensorMapParam, d: TensorMapParam, params: GemmParams, launch: Sm90Launch)`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    ///
    /// # Safety
    /// As [`warpsmith::Kernel::launch`].
    pub unsafe fn lower_triangle(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        a: &::warpsmith::TensorMap,
        b: &::warpsmith::TensorMap,
        d: &::warpsmith::TensorMap,
        params: impl ::warpsmith::KernelArg,
        launch: impl ::warpsmith::KernelArg,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 5] = [&a, &b, &d, &params, &launch, ];
        let kernel = self.built.kernel(&self.lower_triangle, "lower_triangle")?;
        // SAFETY: guaranteed by the caller.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `on_line(line: Line, x: *const f32, x.len: usize, y: *mut f32, y.len: usize)`.
    /// Requires `a grid and a block of one dimension`.
    /// Requires `x.len() >= y.len()`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn on_line(
        &self,
        stream: &::warpsmith::Stream,
        line: &impl ::warpsmith::__abi::KernelParam,
        x: impl ::warpsmith::ConstPointer<f32>,
        y: impl ::warpsmith::MutPointer<f32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 3] = [&::warpsmith::ByValue::with_layout::<4117842315187220320, _>(line), &x, &y, ];
        let kernel = self.built.kernel(&self.on_line, "on_line")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, None, &arguments[..]) }
    }
    /// Enqueues `places_of_kept(x: *const f32, x.shape: Shape2, places: *mut u32, places.shape: Shape2)`.
    /// Requires `a grid of one dimension`.
    /// Requires `x.rows() == places.rows()`.
    /// Requires `x.columns() == places.columns()`.
    /// Requires `x.columns() <= 64`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn places_of_kept(
        &self,
        stream: &::warpsmith::Stream,
        x: impl ::warpsmith::ConstPointer<f32>,
        places: impl ::warpsmith::MutPointer<u32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 2] = [&x, &places, ];
        let kernel = self.built.kernel(&self.places_of_kept, "places_of_kept")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, None, &arguments[..]) }
    }
    /// Enqueues `polynomial(x: *const f32, x.len: usize, y: *mut f32, y.len: usize)`.
    /// Requires `a grid and a block of one dimension`.
    /// Requires `x.len() == y.len()`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn polynomial(
        &self,
        stream: &::warpsmith::Stream,
        x: impl ::warpsmith::ConstPointer<f32>,
        y: impl ::warpsmith::MutPointer<f32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 2] = [&x, &y, ];
        let kernel = self.built.kernel(&self.polynomial, "polynomial")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, None, &arguments[..]) }
    }
    /// Enqueues `reverse_rows(x: *const f32, y: *mut f32, rows: usize)`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    ///
    /// # Safety
    /// As [`warpsmith::Kernel::launch`].
    pub unsafe fn reverse_rows(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        x: impl ::warpsmith::ConstPointer<f32>,
        y: impl ::warpsmith::MutPointer<f32>,
        rows: usize,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 3] = [&x, &y, &rows, ];
        let kernel = self.built.kernel(&self.reverse_rows, "reverse_rows")?;
        // SAFETY: guaranteed by the caller.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `row_norms(x: *const f32, norms: *mut f32, columns: usize)`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    ///
    /// # Safety
    /// As [`warpsmith::Kernel::launch`].
    pub unsafe fn row_norms(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        x: impl ::warpsmith::ConstPointer<f32>,
        norms: impl ::warpsmith::MutPointer<f32>,
        columns: usize,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 3] = [&x, &norms, &columns, ];
        let kernel = self.built.kernel(&self.row_norms, "row_norms")?;
        // SAFETY: guaranteed by the caller.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `running_sums(x: *const f32, x.shape: Shape2, y: *mut f32, y.shape: Shape2)`.
    /// Requires `a grid of one dimension`.
    /// Requires `x.rows() == y.rows()`.
    /// Requires `x.columns() == y.columns()`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn running_sums(
        &self,
        stream: &::warpsmith::Stream,
        x: impl ::warpsmith::ConstPointer<f32>,
        y: impl ::warpsmith::MutPointer<f32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 2] = [&x, &y, ];
        let kernel = self.built.kernel(&self.running_sums, "running_sums")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, None, &arguments[..]) }
    }
    /// Enqueues `safe_axpy(alpha: f32, x: *const f32, x.len: usize, y: *mut f32, y.len: usize)`.
    /// Requires `a grid and a block of one dimension`.
    /// Requires `x.len() >= y.len()`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn safe_axpy(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        alpha: f32,
        x: impl ::warpsmith::ConstPointer<f32>,
        y: impl ::warpsmith::MutPointer<f32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 3] = [&alpha, &x, &y, ];
        let kernel = self.built.kernel(&self.safe_axpy, "safe_axpy")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `safe_histogram(values: *const u32, values.len: usize, counts: *const AtomicU32, counts.len: usize)`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn safe_histogram(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        values: impl ::warpsmith::ConstPointer<u32>,
        counts: impl ::warpsmith::ConstPointer<u32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 2] = [&values, &counts, ];
        let kernel = self.built.kernel(&self.safe_histogram, "safe_histogram")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `safe_segmented_sum(x: *const f32, x.len: usize, starts: *const u32, starts.len: usize, sums: *mut f32, sums.len: usize)`.
    /// Requires `a grid of one dimension`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn safe_segmented_sum(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        x: impl ::warpsmith::ConstPointer<f32>,
        starts: impl ::warpsmith::ConstPointer<u32>,
        sums: impl ::warpsmith::MutPointer<f32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 3] = [&x, &starts, &sums, ];
        let kernel = self.built.kernel(&self.safe_segmented_sum, "safe_segmented_sum")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `safe_softmax(x: *const f32, x.shape: Shape2, y: *mut f32, y.shape: Shape2)`.
    /// Requires `a grid of one dimension`.
    /// Requires `x.rows() == y.rows()`.
    /// Requires `x.columns() == y.columns()`.
    /// Requires `x.column_stride() == 1`.
    /// Requires `y.column_stride() == 1`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn safe_softmax(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        x: impl ::warpsmith::ConstPointer<f32>,
        y: impl ::warpsmith::MutPointer<f32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 2] = [&x, &y, ];
        let kernel = self.built.kernel(&self.safe_softmax, "safe_softmax")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `safe_stencil(x: *const f32, x.len: usize, y: *mut f32, y.len: usize)`.
    /// Requires `a grid and a block of one dimension`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn safe_stencil(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        x: impl ::warpsmith::ConstPointer<f32>,
        y: impl ::warpsmith::MutPointer<f32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 2] = [&x, &y, ];
        let kernel = self.built.kernel(&self.safe_stencil, "safe_stencil")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `safe_transpose(x: *const f32, x.shape: Shape2, y: *mut f32, y.shape: Shape2)`.
    /// Requires `a grid of two dimensions`.
    /// Requires `x.rows() == y.columns()`.
    /// Requires `x.columns() == y.rows()`.
    /// Requires `x.column_stride() == 1`.
    /// Requires `y.column_stride() == 1`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn safe_transpose(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        x: impl ::warpsmith::ConstPointer<f32>,
        y: impl ::warpsmith::MutPointer<f32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 2] = [&x, &y, ];
        let kernel = self.built.kernel(&self.safe_transpose, "safe_transpose")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `safe_vector_add(a: *const f32, a.len: usize, b: *const f32, b.len: usize, c: *mut f32, c.len: usize)`.
    /// Requires `a grid and a block of one dimension`.
    /// Requires `a.len() >= c.len()`.
    /// Requires `b.len() >= c.len()`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn safe_vector_add(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        a: impl ::warpsmith::ConstPointer<f32>,
        b: impl ::warpsmith::ConstPointer<f32>,
        c: impl ::warpsmith::MutPointer<f32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 3] = [&a, &b, &c, ];
        let kernel = self.built.kernel(&self.safe_vector_add, "safe_vector_add")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `scale_by_four(factor: f32, x: *const [f32;4], x.len: usize, y: *mut [f32;4], y.len: usize)`.
    /// Requires `a grid and a block of one dimension`.
    /// Requires `x.len() == y.len()`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn scale_by_four(
        &self,
        stream: &::warpsmith::Stream,
        factor: f32,
        x: impl ::warpsmith::ConstPointer<[f32; 4]>,
        y: impl ::warpsmith::MutPointer<[f32; 4]>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 3] = [&factor, &x, &y, ];
        let kernel = self.built.kernel(&self.scale_by_four, "scale_by_four")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, None, &arguments[..]) }
    }
    /// Enqueues `shares(x: *const f32, x.len: usize, total: *const AtomicF32, total.len: usize, y: *mut f32, y.len: usize)`.
    /// Requires `a grid and a block of one dimension`.
    /// Requires `x.len() == y.len()`.
    /// Requires `total.len() == 1`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn shares(
        &self,
        stream: &::warpsmith::Stream,
        x: impl ::warpsmith::ConstPointer<f32>,
        total: impl ::warpsmith::ConstPointer<f32>,
        y: impl ::warpsmith::MutPointer<f32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 3] = [&x, &total, &y, ];
        let kernel = self.built.kernel(&self.shares, "shares")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, None, &arguments[..]) }
    }
    /// Enqueues `sorted_rows(x: *const f32, x.shape: Shape2, y: *mut f32, y.shape: Shape2)`.
    /// Requires `a grid of one dimension`.
    /// Requires `x.rows() == y.rows()`.
    /// Requires `x.columns() == y.columns()`.
    /// Requires `x.columns() <= 256`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn sorted_rows(
        &self,
        stream: &::warpsmith::Stream,
        x: impl ::warpsmith::ConstPointer<f32>,
        y: impl ::warpsmith::MutPointer<f32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 2] = [&x, &y, ];
        let kernel = self.built.kernel(&self.sorted_rows, "sorted_rows")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, None, &arguments[..]) }
    }
    /// Enqueues `sums_of_four(x: *const f32, x.len: usize, y: *mut f32, y.len: usize)`.
    /// Requires `a grid and a block of one dimension`.
    /// Requires `x.len() == 4 * y.len()`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn sums_of_four(
        &self,
        stream: &::warpsmith::Stream,
        x: impl ::warpsmith::ConstPointer<f32>,
        y: impl ::warpsmith::MutPointer<f32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 2] = [&x, &y, ];
        let kernel = self.built.kernel(&self.sums_of_four, "sums_of_four")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, None, &arguments[..]) }
    }
    /// Enqueues `sums_of_groups(n: u32, x: *const f32, x.len: usize, sums: *mut f32, sums.len: usize)`.
    /// Requires `a grid of one dimension`.
    /// Requires `n > 0`.
    /// Requires `x.len() % n == 0`.
    /// Requires `sums.len() == x.len() / n`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn sums_of_groups(
        &self,
        stream: &::warpsmith::Stream,
        n: u32,
        x: impl ::warpsmith::ConstPointer<f32>,
        sums: impl ::warpsmith::MutPointer<f32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 3] = [&n, &x, &sums, ];
        let kernel = self.built.kernel(&self.sums_of_groups, "sums_of_groups")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, None, &arguments[..]) }
    }
    /// Enqueues `sums_of_three(x: *const u32, x.len: usize, y: *mut u32, y.len: usize)`.
    /// Requires `a grid and a block of one dimension`.
    /// Requires `x.len() == 3 * y.len()`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn sums_of_three(
        &self,
        stream: &::warpsmith::Stream,
        x: impl ::warpsmith::ConstPointer<u32>,
        y: impl ::warpsmith::MutPointer<u32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 2] = [&x, &y, ];
        let kernel = self.built.kernel(&self.sums_of_three, "sums_of_three")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, None, &arguments[..]) }
    }
    /// Enqueues `swish_gate(x: *const bf16, beta: *const bf16, gate: *const bf16, y: *mut bf16, walk: ByValue<WalkParams,432>)`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    ///
    /// # Safety
    /// As [`warpsmith::Kernel::launch`].
    pub unsafe fn swish_gate(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        x: impl ::warpsmith::ConstPointer<::warpsmith::half::bf16>,
        beta: impl ::warpsmith::ConstPointer<::warpsmith::half::bf16>,
        gate: impl ::warpsmith::ConstPointer<::warpsmith::half::bf16>,
        y: impl ::warpsmith::MutPointer<::warpsmith::half::bf16>,
        walk: impl ::warpsmith::KernelArg,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 5] = [&x, &beta, &gate, &y, &walk, ];
        let kernel = self.built.kernel(&self.swish_gate, "swish_gate")?;
        // SAFETY: guaranteed by the caller.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `turn_around(x: *const f32, x.shape: Shape3, y: *mut f32, y.shape: Shape3)`.
    /// Requires `x.planes() == y.columns()`.
    /// Requires `x.rows() == y.rows()`.
    /// Requires `x.columns() == y.planes()`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    pub fn turn_around(
        &self,
        stream: &::warpsmith::Stream,
        x: impl ::warpsmith::ConstPointer<f32>,
        y: impl ::warpsmith::MutPointer<f32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 2] = [&x, &y, ];
        let kernel = self.built.kernel(&self.turn_around, "turn_around")?;
        // SAFETY: a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest.
        unsafe { kernel.launch(stream, None, &arguments[..]) }
    }
    /// Enqueues `unsafe_histogram(values: *const u32, counts: *mut u32, len: usize, counters: usize)`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    ///
    /// # Safety
    /// As [`warpsmith::Kernel::launch`].
    pub unsafe fn unsafe_histogram(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        values: impl ::warpsmith::ConstPointer<u32>,
        counts: impl ::warpsmith::MutPointer<u32>,
        len: usize,
        counters: usize,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 4] = [&values, &counts, &len, &counters, ];
        let kernel = self.built.kernel(&self.unsafe_histogram, "unsafe_histogram")?;
        // SAFETY: guaranteed by the caller.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `unsafe_segmented_sum(x: *const f32, starts: *const u32, sums: *mut f32, segments: usize)`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    ///
    /// # Safety
    /// As [`warpsmith::Kernel::launch`].
    pub unsafe fn unsafe_segmented_sum(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        x: impl ::warpsmith::ConstPointer<f32>,
        starts: impl ::warpsmith::ConstPointer<u32>,
        sums: impl ::warpsmith::MutPointer<f32>,
        segments: usize,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 4] = [&x, &starts, &sums, &segments, ];
        let kernel = self.built.kernel(&self.unsafe_segmented_sum, "unsafe_segmented_sum")?;
        // SAFETY: guaranteed by the caller.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `unsafe_softmax(x: *const f32, y: *mut f32, rows: usize, columns: usize)`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    ///
    /// # Safety
    /// As [`warpsmith::Kernel::launch`].
    pub unsafe fn unsafe_softmax(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        x: impl ::warpsmith::ConstPointer<f32>,
        y: impl ::warpsmith::MutPointer<f32>,
        rows: usize,
        columns: usize,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 4] = [&x, &y, &rows, &columns, ];
        let kernel = self.built.kernel(&self.unsafe_softmax, "unsafe_softmax")?;
        // SAFETY: guaranteed by the caller.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `unsafe_stencil(x: *const f32, y: *mut f32, len: usize)`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    ///
    /// # Safety
    /// As [`warpsmith::Kernel::launch`].
    pub unsafe fn unsafe_stencil(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        x: impl ::warpsmith::ConstPointer<f32>,
        y: impl ::warpsmith::MutPointer<f32>,
        len: usize,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 3] = [&x, &y, &len, ];
        let kernel = self.built.kernel(&self.unsafe_stencil, "unsafe_stencil")?;
        // SAFETY: guaranteed by the caller.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `unsafe_transpose(x: *const f32, y: *mut f32, rows: usize, columns: usize, x_stride: usize, y_stride: usize)`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    ///
    /// # Safety
    /// As [`warpsmith::Kernel::launch`].
    pub unsafe fn unsafe_transpose(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        x: impl ::warpsmith::ConstPointer<f32>,
        y: impl ::warpsmith::MutPointer<f32>,
        rows: usize,
        columns: usize,
        x_stride: usize,
        y_stride: usize,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 6] = [&x, &y, &rows, &columns, &x_stride, &y_stride, ];
        let kernel = self.built.kernel(&self.unsafe_transpose, "unsafe_transpose")?;
        // SAFETY: guaranteed by the caller.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `vector_add(a: *const f32, b: *const f32, c: *mut f32, len: usize)`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    ///
    /// # Safety
    /// As [`warpsmith::Kernel::launch`].
    pub unsafe fn vector_add(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        a: impl ::warpsmith::ConstPointer<f32>,
        b: impl ::warpsmith::ConstPointer<f32>,
        c: impl ::warpsmith::MutPointer<f32>,
        len: usize,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 4] = [&a, &b, &c, &len, ];
        let kernel = self.built.kernel(&self.vector_add, "vector_add")?;
        // SAFETY: guaranteed by the caller.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
    /// Enqueues `vector_add_with_a_bug(a: *const f32, b: *const f32, c: *mut f32)`.
    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
    ///
    /// # Safety
    /// As [`warpsmith::Kernel::launch`].
    pub unsafe fn vector_add_with_a_bug(
        &self,
        stream: &::warpsmith::Stream,
        config: ::warpsmith::LaunchConfig,
        a: impl ::warpsmith::ConstPointer<f32>,
        b: impl ::warpsmith::ConstPointer<f32>,
        c: impl ::warpsmith::MutPointer<f32>,
    ) -> ::warpsmith::Result<()> {
        let arguments: [&dyn ::warpsmith::KernelArg; 3] = [&a, &b, &c, ];
        let kernel = self.built.kernel(&self.vector_add_with_a_bug, "vector_add_with_a_bug")?;
        // SAFETY: guaranteed by the caller.
        unsafe { kernel.launch(stream, config, &arguments[..]) }
    }
}
