//! Launches in clusters, on every device that has them (`WARPSMITH_TEST_DEVICE` chooses).

use warpsmith::testing::devices;
use warpsmith::{ArgumentError, Device, DeviceBuffer, Error, Kernel, LaunchConfig};

/// Each block adds 1 to its own word; `DEMAND` stands for what the kernel demands.
const COUNT: &str = ".version 8.0
.target sm_90
.address_size 64
.visible .entry count(.param .u64 out)
DEMAND
{
    .reg .u64 %rd<3>;
    .reg .u32 %r<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %ctaid.x;
    mad.wide.u32 %rd2, %r1, 4, %rd1;
    red.global.add.u32 [%rd2], 1;
    ret;
}
";

fn kernel(device: &Device, demand: &str) -> Kernel {
    let module = device.load_ptx(&COUNT.replace("DEMAND", demand));
    let kernel = module.expect("loads").kernel("count");
    kernel.expect("is there")
}

fn capable() -> impl Iterator<Item = Device> {
    devices()
        .into_iter()
        .filter(|device| device.arch() >= (9, 0))
}

#[test]
fn every_block_of_a_launch_in_clusters_runs_once() {
    for device in capable() {
        let stream = device.stream().expect("a stream");
        for (demand, cluster) in [
            ("", Some([2, 1, 1])),
            ("", Some([16, 1, 1])),
            ("", Some([1, 1, 1])),
            (".reqnctapercluster 4, 1, 1", Some([4, 1, 1])),
            (".reqnctapercluster 4, 1, 1", None),
        ] {
            let mut out = DeviceBuffer::<u32>::zeros(&stream, 32).expect("allocates");
            let config = LaunchConfig {
                cluster,
                ..LaunchConfig::linear(32, 1)
            };
            // SAFETY: a word for each block.
            let launched = unsafe { kernel(&device, demand).launch(&stream, config, (&mut out,)) };
            launched.expect("launches");
            assert_eq!(
                out.to_vec().expect("reads"),
                [1; 32],
                "{demand} {cluster:?}"
            );
        }
    }
}

#[test]
fn clusters_that_cannot_be_are_refused_with_what_would_be_right() {
    for device in capable() {
        let stream = device.stream().expect("a stream");
        let mut out = DeviceBuffer::<u32>::zeros(&stream, 64).expect("allocates");
        let mut refuse = |demand, blocks, cluster| {
            let config = LaunchConfig::linear(blocks, 1).cluster(cluster);
            // SAFETY: refused before anything runs.
            let launched = unsafe { kernel(&device, demand).launch(&stream, config, (&mut out,)) };
            let error = launched.expect_err("cannot be");
            assert!(
                matches!(error, Error::Argument(ArgumentError::Value { .. })),
                "{error}"
            );
            error.to_string()
        };
        assert_eq!(
            refuse("", 5, [2, 1, 1]),
            "grid is [5, 1, 1], want a multiple of the cluster [2, 1, 1] of `count`"
        );
        assert_eq!(
            refuse("", 32, [32, 1, 1]),
            "cluster is [32, 1, 1], want 1 to 16 blocks"
        );
        assert_eq!(
            refuse("", 32, [0, 1, 1]),
            "cluster is [0, 1, 1], want 1 to 16 blocks"
        );
        assert_eq!(
            refuse("", 32, [u32::MAX; 3]),
            "cluster is [4294967295, 4294967295, 4294967295], want 1 to 16 blocks"
        );
        assert_eq!(
            refuse(".reqnctapercluster 4, 1, 1", 8, [2, 1, 1]),
            "cluster is [2, 1, 1], want [4, 1, 1], which `count` demands"
        );
        assert_eq!(out.to_vec().expect("reads"), [0; 64]);
    }
}
