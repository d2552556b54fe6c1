//! What a launch is held against: the limits of kernel and device.

use super::Kernel;
use crate::error::{Error, KernelError, Result};
use crate::launch::LaunchConfig;

/// Most blocks of a cluster, with the opt-in to non-portable cluster sizes (portable: 8).
const MAX_CLUSTER_BLOCKS: u64 = 16;
/// First compute capability with thread block clusters.
const CLUSTER_ARCH: (u32, u32) = (9, 0);

impl Kernel {
    /// The most blocks that the device holds at a time, of a launch with the block, the dynamic shared
    /// memory and the cluster of `config`. No cooperative launch has a larger grid. The emulator answers
    /// as an H200, with an estimate of the registers.
    ///
    /// # Errors
    /// As [`launch`](Self::launch) for the block, the cluster and the shared memory;
    /// [`DeviceError::Driver`](crate::DeviceError::Driver).
    pub fn resident_blocks(&self, config: &LaunchConfig) -> Result<u32> {
        let cluster = config.cluster.or(self.inner.signature.cluster);
        let config = LaunchConfig {
            grid: cluster.unwrap_or([1; 3]),
            cluster,
            ..*config
        };
        self.check_shape(&config)?;
        self.inner.loaded.resident_blocks(&config)
    }

    /// Whether its launches are cooperative: its blocks wait for each other (`cuda_std::grid::sync`,
    /// `#[kernel(cooperative)]`, or `grid.sync()` of CUDA C++). A launch with more than
    /// [`resident_blocks`](Self::resident_blocks) is refused then.
    pub fn is_cooperative(&self) -> bool {
        self.inner.signature.is_cooperative
    }

    /// Holds a cooperative launch against what the device holds at a time.
    pub(super) fn check_resident(&self, config: &LaunchConfig) -> Result<()> {
        if !self.is_cooperative() {
            return Ok(());
        }
        let blocks = config
            .grid
            .iter()
            .map(|&extent| u64::from(extent))
            .product();
        let limit = self.resident_blocks(config)?.into();
        match blocks > limit {
            true => Err(self.limit("blocks of a cooperative launch", blocks, limit)),
            false => Ok(()),
        }
    }

    pub(super) fn check_shape(&self, config: &LaunchConfig) -> Result<()> {
        let inner = &*self.inner;
        let info = self.device.info();
        for (what, extents, limits) in [
            ("grid", config.grid, info.max_grid),
            ("block", config.block, info.max_block),
        ] {
            if extents.contains(&0) {
                return Err(Error::Kernel(KernelError::EmptyLaunch {
                    kernel: self.name().into(),
                    what,
                    got: extents,
                }));
            }
            for (&got, &limit) in extents.iter().zip(&limits) {
                if got > limit {
                    return Err(self.limit(what, got.into(), limit.into()));
                }
            }
        }
        let threads: u64 = config
            .block
            .iter()
            .map(|&extent| u64::from(extent))
            .product();
        if threads > u64::from(inner.limits.max_threads) {
            return Err(self.limit(
                "threads of a block",
                threads,
                inner.limits.max_threads.into(),
            ));
        }
        let most_shared = inner.limits.max_dynamic_shared_bytes;
        if config.shared_bytes > most_shared {
            let got = config.shared_bytes.into();
            return Err(self.limit("dynamic shared memory in bytes", got, most_shared.into()));
        }
        let least_shared = self.least_dynamic_shared_bytes();
        if config.shared_bytes < least_shared {
            return Err(Error::Kernel(KernelError::TooLittleSharedMemory {
                kernel: self.name().into(),
                got_bytes: config.shared_bytes,
                want_bytes: least_shared,
            }));
        }
        self.check_demands(config)
    }

    /// Checks block and cluster against the ones the kernel was compiled for.
    fn check_demands(&self, config: &LaunchConfig) -> Result<()> {
        let signature = &self.inner.signature;
        if let Some(block) = signature
            .required_block
            .filter(|&block| block != config.block)
        {
            return Err(Error::value(
                "block",
                format!("{:?}", config.block),
                format!("{block:?}, which `{}` demands", self.name()),
            ));
        }
        let invalid =
            |what, got: [u32; 3], want: String| Err(Error::value(what, format!("{got:?}"), want));
        let Some(cluster) = config.cluster.or(signature.cluster) else {
            return Ok(());
        };
        if let Some(demanded) = signature.cluster.filter(|&demanded| demanded != cluster) {
            let want = format!("{demanded:?}, which `{}` demands", self.name());
            return invalid("cluster", cluster, want);
        }
        let blocks = cluster
            .iter()
            .try_fold(1_u64, |blocks, &extent| blocks.checked_mul(extent.into()));
        let is_allowed = blocks.is_some_and(|blocks| (1..=MAX_CLUSTER_BLOCKS).contains(&blocks));
        if !is_allowed {
            let want = format!("1 to {MAX_CLUSTER_BLOCKS} blocks");
            return invalid("cluster", cluster, want);
        }
        let info = self.device.info();
        if cluster != [1; 3] && info.arch < CLUSTER_ARCH {
            return Err(Error::unsupported(
                format!("a launch in clusters of {cluster:?} on {info}"),
                "clusters on GPUs of compute capability 9.0 and later",
            ));
        }
        let mut extents = config.grid.iter().zip(&cluster);
        if !extents.all(|(grid, &extent)| grid.is_multiple_of(extent)) {
            let want = format!("a multiple of the cluster {cluster:?} of `{}`", self.name());
            return invalid("grid", config.grid, want);
        }
        Ok(())
    }

    #[cold]
    fn limit(&self, what: &'static str, got: u64, limit: u64) -> Error {
        Error::Kernel(KernelError::LaunchLimit {
            kernel: self.name().into(),
            what,
            got,
            limit,
        })
    }
}
