//! `cudaDeviceProp`, from the attributes of the device. Its fields are stated in the order of the
//! header; CUDA 12 has some that CUDA 13 lacks.

use std::ffi::c_char;

use crate::c::Out;
use crate::code::Answer;

use super::cu;

/// Which header the program was compiled with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Generation {
    Cuda12,
    Cuda13,
}

/// Bytes of the struct in each header.
const BYTES_12: usize = 1032;
const BYTES_13: usize = 1008;

const NAME_BYTES: usize = 256;
const LUID_BYTES: usize = 8;

/// A field after the identifiers at the start.
enum Field {
    /// An `int`, from an attribute by its number.
    Int(u32),
    /// An `int` of CUDA 12 alone.
    Old(u32),
    /// A `size_t`, from an attribute.
    Size(u32),
    /// The memory of the device in bytes: a `size_t`.
    Memory,
    /// So many `int` that are 0.
    Zeros(usize),
}

use Field::{Int, Memory, Old, Size, Zeros};

/// The fields from `luidDeviceNodeMask` on.
const FIELDS: &[Field] = &[
    Zeros(1), // luidDeviceNodeMask
    Memory,
    Size(8),
    Int(12),
    Int(10),
    Size(11),
    Int(1),
    Int(2),
    Int(3),
    Int(4),
    Int(5),
    Int(6),
    Int(7),
    Old(13), // clockRate
    Size(9),
    Int(75),
    Int(76),
    Size(14),
    Size(51),
    Old(15), // deviceOverlap
    Int(16),
    Old(17), // kernelExecTimeoutEnabled
    Int(18),
    Int(19),
    Old(20), // computeMode
    Int(21), // maxTexture1D
    Int(77),
    Old(69), // maxTexture1DLinear
    Int(22), // maxTexture2D
    Int(23),
    Int(73), // maxTexture2DMipmap
    Int(74),
    Int(70), // maxTexture2DLinear
    Int(71),
    Int(72),
    Int(45), // maxTexture2DGather
    Int(46),
    Int(24), // maxTexture3D
    Int(25),
    Int(26),
    Int(47), // maxTexture3DAlt
    Int(48),
    Int(49),
    Int(52), // maxTextureCubemap
    Int(42), // maxTexture1DLayered
    Int(43),
    Int(27), // maxTexture2DLayered
    Int(28),
    Int(29),
    Int(53), // maxTextureCubemapLayered
    Int(54),
    Int(55), // maxSurface1D
    Int(56), // maxSurface2D
    Int(57),
    Int(58), // maxSurface3D
    Int(59),
    Int(60),
    Int(61), // maxSurface1DLayered
    Int(62),
    Int(63), // maxSurface2DLayered
    Int(64),
    Int(65),
    Int(66), // maxSurfaceCubemap
    Int(67), // maxSurfaceCubemapLayered
    Int(68),
    Size(30),
    Int(31), // concurrentKernels
    Int(32),
    Int(33), // pciBusID
    Int(34),
    Int(50),
    Int(35), // tccDriver
    Int(40),
    Int(41),
    Old(36), // memoryClockRate
    Int(37),
    Int(38),
    Int(108), // persistingL2CacheMaxSize
    Int(39),
    Int(78),
    Int(79),
    Int(80),
    Size(81),
    Int(82),
    Int(83),
    Int(84),
    Int(85),
    Int(86),
    Old(87), // singleToDoublePrecisionPerfRatio
    Int(88),
    Int(89),
    Int(90),
    Int(91),
    Int(95),
    Old(96), // cooperativeMultiDeviceLaunch
    Size(97),
    Int(100),
    Int(101),
    Int(106),
    Int(109),
    Size(111),
    Int(99), // hostRegisterSupported
    Int(112),
    Int(113),
    Int(114),
    Int(115),
    Int(116),
    Int(117),
    Int(118),
    Int(119),
    Int(121), // deferredMappingCudaArraySupported
    Int(125),
    Int(120), // clusterLaunch
    Int(129),
];

fn attribute(number: u32) -> Answer<i32> {
    let mut value = 0;
    cu!(device::cuDeviceGetAttribute(Out::to(&mut value), number, 0))?;
    Ok(value)
}

/// The struct of a generation, byte by byte.
pub(super) fn bytes(generation: Generation) -> Answer<Vec<u8>> {
    let mut name: [c_char; NAME_BYTES] = [0; NAME_BYTES];
    let place = Out::to_all(&mut name);
    cu!(device::cuDeviceGetName(place, NAME_BYTES as i32, 0))?;
    let mut uuid = [0; 16];
    cu!(device::cuDeviceGetUuid_v2(Out::to(&mut uuid), 0))?;
    let mut memory = 0;
    cu!(device::cuDeviceTotalMem_v2(Out::to(&mut memory), 0))?;

    let mut bytes: Vec<u8> = name.map(|byte| byte as u8).to_vec();
    bytes.extend(uuid);
    bytes.extend([0; LUID_BYTES]);
    for field in FIELDS {
        let size = match field {
            Memory => memory,
            Size(number) => attribute(*number)? as usize,
            Old(_) if generation == Generation::Cuda13 => continue,
            Int(number) | Old(number) => {
                bytes.extend(attribute(*number)?.to_ne_bytes());
                continue;
            }
            Zeros(count) => {
                bytes.extend(std::iter::repeat_n(0, count * size_of::<i32>()));
                continue;
            }
        };
        bytes.resize(bytes.len().next_multiple_of(size_of::<usize>()), 0);
        bytes.extend(size.to_ne_bytes());
    }
    let whole = match generation {
        Generation::Cuda12 => BYTES_12,
        Generation::Cuda13 => BYTES_13,
    };
    bytes.resize(whole, 0);
    Ok(bytes)
}
