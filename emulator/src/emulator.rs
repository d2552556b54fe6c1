//! The emulator: it owns global memory, loads modules and launches kernels.

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::check::GridOrder;
use crate::config::{EmulatorConfig, LaunchConfig, LaunchStats};
use crate::error::{ImageError, LaunchError, LoadError, MemoryError};
use crate::exec::block::Launch;
use crate::exec::grid;
use crate::exec::row::LANES;
use crate::explore::Explorer;
use crate::fifo::Fifo;
use crate::footprint::Recorder;
use crate::image::{ImageDesc, Object, Objects, TextureDesc};
use crate::memory::global::GlobalMemory;
use crate::memory::host::Starved;
use crate::memory::shared::SHARED_LIMIT;
use crate::module::{Kernel, Module};
use crate::profile::Collector;
use crate::program::{GRID_WORKSPACE_BYTES, Program};
use crate::trace::Log;

/// Compute capability of the emulated device: major, minor.
pub const COMPUTE_CAPABILITY: (u32, u32) = (9, 0);

/// Streaming multiprocessors of the GPU that the emulator models, an H200. A launch whose blocks wait
/// for each other ends if the blocks fit on them at a time, by [`Resources::occupancy`].
///
/// [`Resources::occupancy`]: crate::profile::Resources::occupancy
pub const MULTIPROCESSORS: u32 = 132;

/// Most threads of a block.
const BLOCK_THREADS: u64 = 1024;
/// Most blocks of a cluster: the non-portable limit of Hopper.
const CLUSTER_BLOCKS: u64 = 16;
/// Most host threads: more would only cost memory, and thousands take seconds to start.
const HOST_THREADS: usize = 256;
/// Largest extents of a block.
const BLOCK_LIMITS: [u32; 3] = [1024, 1024, 64];
/// Largest extents of a grid.
const GRID_LIMITS: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

/// A virtual GPU: global memory, and the host threads that run blocks.
///
/// All methods take `&self` and may be called from any thread. Launches from several threads run
/// concurrently, as kernels in different streams do; a launch itself is synchronous.
#[derive(Debug)]
pub struct Emulator {
    config: EmulatorConfig,
    memory: Arc<GlobalMemory>,
    objects: Mutex<Objects>,
    /// `None`: the thread that launches runs all blocks.
    pool: Option<rayon::ThreadPool>,
}

impl Emulator {
    /// Creates an emulator with empty memory. Where the system cannot start as many host threads as
    /// the configuration asks for, there are fewer, which a `tracing` event tells.
    pub fn new(config: EmulatorConfig) -> Self {
        Self {
            memory: Arc::new(GlobalMemory::new(config.memory_bytes)),
            objects: Mutex::default(),
            pool: start_most(host_threads(config.threads), start),
            config,
        }
    }

    pub(crate) fn memory(&self) -> &GlobalMemory {
        &self.memory
    }

    pub(crate) fn shared_memory(&self) -> &Arc<GlobalMemory> {
        &self.memory
    }

    /// Allocates `bytes` of global memory, aligned to 256 bytes, and returns its address. The
    /// contents count as uninitialised: a kernel that reads them before the host or a kernel has
    /// written them gets a fault. An allocation of zero bytes gets a unique address that nothing
    /// may access.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] or [`MemoryError::HostMemory`]
    pub fn alloc(&self, bytes: u64) -> Result<u64, MemoryError> {
        self.memory.alloc(bytes)
    }

    /// Frees an allocation of [`alloc`](Self::alloc). Its addresses are never reused.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`]
    pub fn free(&self, address: u64) -> Result<(), MemoryError> {
        self.memory.free(address)
    }

    /// Copies bytes from the host into an allocation; the range has to lie in one.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`]
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        self.memory.write(address, bytes)
    }

    /// Copies bytes of an allocation to the host; the range has to lie in one. Bytes that were
    /// never written read as zero.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`]
    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        self.memory.read(address, out)
    }

    /// Sets `len` bytes of an allocation to `byte`; the range has to lie in one.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`]
    pub fn fill(&self, address: u64, byte: u8, len: u64) -> Result<(), MemoryError> {
        self.memory.fill(address, byte, len)
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes an object that `tex` and `tld4` read an image by, and returns its handle. The image's
    /// memory is looked at when a kernel reads it.
    ///
    /// # Errors
    /// [`ImageError`]
    pub fn create_texture(&self, texture: &TextureDesc) -> Result<u64, ImageError> {
        self.objects().add(Object::Texture(*texture))
    }

    /// Makes an object that `suld` and `sust` access an image by, and returns its handle.
    ///
    /// # Errors
    /// [`ImageError`]
    pub fn create_surface(&self, image: &ImageDesc) -> Result<u64, ImageError> {
        self.objects().add(Object::Surface(*image))
    }

    /// Takes a texture or surface away; false if there is none with this handle. Its memory stays.
    pub fn destroy_object(&self, handle: u64) -> bool {
        self.objects().remove(handle)
    }

    /// Loads a PTX module: parses the text and places the module's variables in global memory. It
    /// checks that a driver would load the module on a GPU of [`COMPUTE_CAPABILITY`]: its target,
    /// and the instructions that the target has. A kernel is lowered to the form that the executor
    /// runs when it is first needed. If something is wrong or unsupported in one kernel, its launch
    /// returns the error ([`LaunchError::Unusable`]), and the others can run.
    ///
    /// # Errors
    /// [`LoadError`], which names what is wrong or unsupported in the module or in all of its
    /// kernels, and the line.
    pub fn load(&self, ptx: &str) -> Result<Module, LoadError> {
        Module::load(&self.memory, ptx, None)
    }

    /// Runs a kernel to completion. `params` are the bytes of each parameter, in order,
    /// little-endian; [`Module::params`] gives the sizes.
    ///
    /// # Errors
    /// [`LaunchError`]. If the launch is refused, nothing has run. With [`LaunchError::Fault`] and
    /// [`LaunchError::HostMemory`], memory keeps what the kernel wrote until then; warps that did not
    /// fail may have gone on for some turns, to say more in the report.
    pub fn launch(
        &self,
        module: &Module,
        kernel: &str,
        config: &LaunchConfig,
        params: &[&[u8]],
    ) -> Result<LaunchStats, LaunchError> {
        let ran = self.launch_unprinted(module, kernel, config, params);
        self.print();
        ran
    }

    /// Writes what kernels have printed to the configuration's [`Output`](crate::Output), if
    /// [`launch_unprinted`](Self::launch_unprinted) has left any.
    pub fn print(&self) {
        self.config.output.flush();
    }

    /// As [`launch`](Self::launch), but leaves what the kernel prints to the next
    /// [`print`](Self::print) or `launch`. The output's writer does not run, so the caller may hold
    /// a lock that the writer takes.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    pub fn launch_unprinted(
        &self,
        module: &Module,
        kernel: &str,
        config: &LaunchConfig,
        params: &[&[u8]],
    ) -> Result<LaunchStats, LaunchError> {
        if !module.belongs_to(&self.memory) {
            return Err(LaunchError::ForeignModule);
        }
        let found = module
            .kernel(kernel)
            .ok_or_else(|| module.unknown(kernel))?;
        let program = module.program(found)?;
        check_shape(found, config)?;
        check_shared(found, &program, config)?;
        let cluster = check_cluster(found, config)?;
        if self.config.explorer.is_some() {
            check_explored(found, config)?;
        }
        let params = pack_params(found, params)?;
        let workspace = Workspace::new(&self.memory, &program)?;
        if program.heap {
            self.memory.begin_heap().map_err(LaunchError::Memory)?;
        }
        let starved = Arc::<Starved>::default();
        let trace = self.config.trace.as_ref();
        let cluster_blocks = cluster.iter().product::<u32>() as usize;
        let memory = self.memory.snapshot();
        let recorder = || Arc::new(Recorder::new(&memory, &starved));
        let footprint = self.config.footprint.then(recorder);
        let launch = Launch {
            kernel: found.name.clone(),
            program: program.clone(),
            config: *config,
            cluster,
            params,
            grid_workspace: workspace.address,
            global: self.memory.clone(),
            memory,
            objects: self.objects().snapshot(),
            seed: self.config.seed,
            checks: self.config.checks,
            keep_going: self.config.keep_going,
            ignored: self.config.ignored.clone(),
            between: Arc::new(Mutex::new(GridOrder::new(&starved))),
            starved,
            budget: self.config.instruction_budget.unwrap_or(u64::MAX),
            limit: self
                .config
                .timeout
                .and_then(|timeout| Some((timeout, Instant::now().checked_add(timeout)?))),
            profile: self.config.profile.then(|| Collector::new(&program)),
            trace: trace.map(|trace| Log::new(trace, cluster_blocks)),
            footprint,
            explorer: self.config.explorer.clone(),
        };
        let source = module.source();
        let mut printed = Fifo::default();
        let ran = grid::run(&launch, self.pool.as_ref(), &mut printed, source);
        self.config.output.keep(printed);
        if let (Some(trace), Some(log)) = (trace, &launch.trace) {
            trace.add(log.finish(&launch, source));
        }
        if let Some(shortage) = launch.starved.get() {
            return Err(LaunchError::HostMemory {
                what: shortage.what,
                requested: shortage.bytes,
            });
        }
        let mut stats = ran.map_err(LaunchError::Fault)?;
        let footprint = launch.footprint.as_ref();
        stats.footprint = footprint.map(|recorder| Box::new(recorder.finish(&program)));
        let threads = config.block.iter().map(|e| u64::from(*e)).product();
        let dynamic = config.shared_bytes.into();
        let counters = launch
            .profile
            .map(|all| all.finish((found, &program), source, threads, dynamic));
        stats.counters = counters.map(Box::new);
        Ok(stats)
    }
}

/// The grid's workspace of one launch.
struct Workspace<'a> {
    memory: &'a GlobalMemory,
    /// `None` if the kernel does not read it.
    address: Option<u64>,
}

impl<'a> Workspace<'a> {
    fn new(memory: &'a GlobalMemory, program: &Program) -> Result<Self, LaunchError> {
        let place = || memory.alloc_variable(GRID_WORKSPACE_BYTES, GRID_WORKSPACE_BYTES, false);
        let address = program.grid_workspace.then(place).transpose();
        let address = address.map_err(LaunchError::Memory)?;
        Ok(Self { memory, address })
    }
}

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        if let Some(address) = self.address
            && let Err(error) = self.memory.free(address)
        {
            tracing::debug!(%error, "the workspace of a grid was freed already");
        }
    }
}

/// Host threads to start.
fn host_threads(asked: Option<usize>) -> usize {
    let available = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.unwrap_or_else(available).clamp(1, HOST_THREADS)
}

fn start(threads: usize) -> Result<rayon::ThreadPool, rayon::ThreadPoolBuildError> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("emulator-{index}"))
        .build()
}

/// A pool of `asked` threads or, where they cannot be started, of half as many, and so on. `None`
/// instead of one thread, which would only wait for the thread that launches.
fn start_most<P, E: Display>(asked: usize, start: impl Fn(usize) -> Result<P, E>) -> Option<P> {
    let mut threads = asked;
    while threads > 1 {
        match start(threads) {
            Ok(pool) => return Some(pool),
            Err(error) => tracing::warn!(asked, threads, %error, "threads cannot be started"),
        }
        threads /= 2;
    }
    None
}

fn check_shape(kernel: &Kernel, config: &LaunchConfig) -> Result<(), LaunchError> {
    let refuse = |what, got, allowed: String| {
        Err(LaunchError::Shape {
            kernel: kernel.name.clone(),
            what,
            got,
            allowed,
        })
    };
    for (got, limits, what) in [
        (config.grid, GRID_LIMITS, "the grid"),
        (config.block, BLOCK_LIMITS, "the block"),
    ] {
        if got
            .iter()
            .zip(limits)
            .any(|(extent, limit)| *extent == 0 || *extent > limit)
        {
            return refuse(what, got, format!("1 to {limits:?}"));
        }
    }
    let threads = volume(config.block);
    if threads > BLOCK_THREADS {
        return refuse(
            "the block",
            config.block,
            format!("{BLOCK_THREADS} threads"),
        );
    }
    if let Some(required) = kernel.reqntid
        && required != config.block
    {
        return refuse(
            "the block",
            config.block,
            format!("{required:?} (.reqntid)"),
        );
    }
    let most = kernel.maxntid.map(volume);
    if let Some(most) = most
        && threads > most
    {
        return refuse(
            "the block",
            config.block,
            format!("{most} threads (.maxntid)"),
        );
    }
    Ok(())
}

fn check_shared(
    kernel: &Kernel,
    program: &Program,
    config: &LaunchConfig,
) -> Result<(), LaunchError> {
    let (fixed, dynamic) = (program.shared_bytes, u64::from(config.shared_bytes));
    if fixed + dynamic > SHARED_LIMIT {
        return Err(LaunchError::SharedMemory {
            kernel: kernel.name.clone(),
            static_bytes: fixed,
            dynamic_bytes: dynamic,
            limit: SHARED_LIMIT,
        });
    }
    Ok(())
}

/// Refuses launches that are too large for an exploration of their orders.
fn check_explored(kernel: &Kernel, config: &LaunchConfig) -> Result<(), LaunchError> {
    let warps = volume(config.block).div_ceil(LANES as u64);
    let warps = volume(config.grid).saturating_mul(warps);
    if warps > Explorer::MOST_WARPS {
        return Err(LaunchError::Shape {
            kernel: kernel.name.clone(),
            what: "an exploration",
            got: config.grid,
            allowed: format!("{} warps", Explorer::MOST_WARPS),
        });
    }
    Ok(())
}

/// The product of extents, or `u64::MAX` if that is too small for it.
fn volume(extents: [u32; 3]) -> u64 {
    let extents = extents.into_iter().map(u64::from);
    extents.fold(1, u64::saturating_mul)
}

/// The cluster size of a launch in blocks: x, y, z.
fn check_cluster(kernel: &Kernel, config: &LaunchConfig) -> Result<[u32; 3], LaunchError> {
    let refuse = |what, got, allowed: String| {
        Err(LaunchError::Shape {
            kernel: kernel.name.clone(),
            what,
            got,
            allowed,
        })
    };
    let cluster = config.cluster.or(kernel.cluster).unwrap_or([1; 3]);
    if let Some(required) = kernel.cluster
        && cluster != required
    {
        let allowed = format!("{required:?} (.reqnctapercluster)");
        return refuse("the cluster", cluster, allowed);
    }
    let blocks = volume(cluster);
    if blocks == 0 || blocks > CLUSTER_BLOCKS {
        return refuse(
            "the cluster",
            cluster,
            format!("1 to {CLUSTER_BLOCKS} blocks"),
        );
    }
    let divides = |(grid, cluster): (u32, u32)| grid.is_multiple_of(cluster);
    if !config.grid.into_iter().zip(cluster).all(divides) {
        let allowed = format!("a multiple of the cluster, {cluster:?}");
        return refuse("the grid", config.grid, allowed);
    }
    Ok(cluster)
}

/// Lays out the parameters as the kernel reads them.
fn pack_params(kernel: &Kernel, params: &[&[u8]]) -> Result<Vec<u8>, LaunchError> {
    if params.len() != kernel.params.len() {
        return Err(LaunchError::ParameterCount {
            kernel: kernel.name.clone(),
            got: params.len(),
            want: kernel.params.len(),
        });
    }
    let mut packed = Vec::new();
    for (index, (given, layout)) in params.iter().zip(&kernel.params).enumerate() {
        if given.len() as u64 != layout.bytes {
            return Err(LaunchError::ParameterSize {
                kernel: kernel.name.clone(),
                index,
                got: given.len(),
                want: layout.bytes as usize,
            });
        }
        packed.resize(layout.offset as usize, 0);
        packed.extend_from_slice(given);
    }
    Ok(packed)
}

#[cfg(test)]
mod tests {
    use super::start_most;

    #[test]
    fn fewer_threads_are_started_where_the_system_has_no_more() {
        let most = |limit: usize| {
            move |threads: usize| match threads <= limit {
                true => Ok(threads),
                false => Err("no more threads"),
            }
        };
        assert_eq!(start_most(16, most(256)), Some(16));
        assert_eq!(start_most(16, most(5)), Some(4));
        assert_eq!(start_most(16, most(1)), None);
        assert_eq!(start_most(1, most(256)), None);
    }
}
