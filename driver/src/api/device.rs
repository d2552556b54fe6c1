//! Devices. There is one: an H200 as far as attributes go.

use std::ffi::c_char;

use warpsmith_emulator::{COMPUTE_CAPABILITY, MULTIPROCESSORS};

use crate::c::{Device, DeviceProperties, Out, Text};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::state::{Driver, check_device, driver};

const NAME: &[u8] = b"warpsmith emulator\0";
const PCI_BUS_ID: &[u8] = b"0000:00:00.0\0";
const UUID: [u8; 16] = *b"warpsmith-emul-0";

pub(super) const MAX_THREADS: u32 = 1024;
/// Dynamic shared memory that a launch may use without asking for more.
pub(super) const SHARED_BYTES: u32 = 48 << 10;
/// Shared memory that a block may ask for.
pub(super) const SHARED_BYTES_OPTIN: u32 = 227 << 10;
const GRID: [i32; 3] = [i32::MAX, 65_535, 65_535];
const BLOCK: [i32; 3] = [1024, 1024, 64];
const CONSTANT_BYTES: i32 = 64 << 10;
const WARP: i32 = 32;
const PITCH: i32 = i32::MAX;
const REGISTERS: i32 = 64 << 10;
const CLOCK_KHZ: i32 = 1_980_000;
const TEXTURE_ALIGN: i32 = 512;
/// Most elements of a texture on linear memory in one dimension.
const TEXELS_1D: i32 = 1 << 28;

/// Attributes that are not 0, by their numbers in the API.
const ATTRIBUTES: &[(u32, i32)] = &[
    (1, MAX_THREADS as i32),
    (2, BLOCK[0]),
    (3, BLOCK[1]),
    (4, BLOCK[2]),
    (5, GRID[0]),
    (6, GRID[1]),
    (7, GRID[2]),
    (8, SHARED_BYTES as i32),
    (9, CONSTANT_BYTES),
    (10, WARP),
    (11, PITCH),
    (12, REGISTERS),
    (13, CLOCK_KHZ),
    (14, TEXTURE_ALIGN),
    (15, 1), // copies overlap kernels
    (16, MULTIPROCESSORS as i32),
    (19, 1),       // host memory can be mapped
    (21, 131_072), // textures: 1D
    (22, 131_072), // 2D
    (23, 65_536),
    (24, 16_384), // 3D
    (25, 16_384),
    (26, 16_384),
    (27, 32_768), // 2D with layers
    (28, 32_768),
    (29, 2048),
    (30, 512),       // surface alignment
    (31, 1),         // concurrent kernels
    (36, 3_201_000), // memory clock in kHz
    (37, 6144),      // memory bus in bits
    (38, 60 << 20),  // L2 in bytes
    (39, 2048),      // threads of a multiprocessor
    (40, 1),         // copy engines
    (41, 1),         // unified addresses
    (42, 32_768),    // textures: 1D with layers
    (43, 2048),
    (44, 1), // gathers
    (45, 32_768),
    (46, 32_768),
    (47, 8192), // 3D, the other shape
    (48, 8192),
    (49, 32_768),
    (51, 32),     // pitch alignment of textures
    (52, 32_768), // textures: cubes
    (53, 32_768), // cubes with layers
    (54, 2046),
    (55, 32_768),  // surfaces: 1D
    (56, 131_072), // 2D
    (57, 65_536),
    (58, 16_384), // 3D
    (59, 16_384),
    (60, 16_384),
    (61, 32_768), // 1D with layers
    (62, 2048),
    (63, 32_768), // 2D with layers
    (64, 32_768),
    (65, 2048),
    (66, 32_768), // cubes
    (67, 32_768), // cubes with layers
    (68, 2046),
    (69, TEXELS_1D), // textures on linear memory: 1D
    (70, 131_072),   // 2D
    (71, 65_000),
    (72, 2_097_120), // and bytes of its pitch
    (73, 32_768),    // textures with levels: 2D
    (74, 32_768),
    (75, COMPUTE_CAPABILITY.0 as i32),
    (76, COMPUTE_CAPABILITY.1 as i32),
    (77, 32_768),    // textures with levels: 1D
    (78, 1),         // stream priorities
    (79, 1),         // L1 for global memory
    (80, 1),         // L1 for local memory
    (81, 228 << 10), // shared memory of a multiprocessor
    (82, REGISTERS),
    (83, 1), // managed memory
    (87, 2), // ratio of f32 to f64
    (89, 1), // the host may use managed memory while kernels run
    (90, 1), // preemption
    (91, 1), // registered memory has one address
    (95, 1), // cooperative launches
    (97, SHARED_BYTES_OPTIN as i32),
    (99, 1),     // host memory can be registered
    (102, 1),    // virtual memory management
    (106, 32),   // blocks of a multiprocessor
    (111, 1024), // shared memory that the system takes
    (113, 1),    // registered memory may be read-only
    (115, 1),    // memory pools
    (120, 1),    // clusters
    (126, 4),    // memory synchronisation domains
    (127, 1),    // tensor maps
    (134, -1),   // NUMA node of the host: none
];

/// One more than the last attribute of the API.
const ATTRIBUTE_END: u32 = 162;

/// The driver, if the device exists.
fn with(device: Device) -> Answer<&'static Driver> {
    let driver = driver()?;
    check_device(device)?;
    Ok(driver)
}

fn set_text(text: &[u8], out: Out<c_char>, room: i32) -> Answer {
    let room = usize::try_from(room).map_err(|_| Code::INVALID_VALUE)?;
    let kept = text.len().min(room).saturating_sub(1);
    let bytes = text.iter().take(kept).chain(&[0]);
    out.set_all(bytes.map(|byte| *byte as c_char), room)
}

entries! {
    fn cuDeviceGet: "cuDeviceGet" @ 2000 (device: Out<Device>, ordinal: i32) {
        with(ordinal)?;
        device.set(ordinal)
    }

    fn cuDeviceGetCount: "cuDeviceGetCount" @ 2000 (count: Out<i32>) {
        driver()?;
        count.set(1)
    }

    fn cuDeviceGetName: "cuDeviceGetName" @ 2000 (name: Out<c_char>, room: i32, device: Device) {
        with(device)?;
        set_text(NAME, name, room)
    }

    fn cuDeviceGetUuid: "cuDeviceGetUuid" @ 9020 (uuid: Out<[u8; 16]>, device: Device) {
        with(device)?;
        uuid.set(UUID)
    }

    fn cuDeviceGetUuid_v2: "cuDeviceGetUuid" @ 11040 (uuid: Out<[u8; 16]>, device: Device) {
        with(device)?;
        uuid.set(UUID)
    }

    fn cuDeviceTotalMem_v2: "cuDeviceTotalMem" @ 3020 (bytes: Out<usize>, device: Device) {
        let driver = with(device)?;
        bytes.set(driver.memory_bytes as usize)
    }

    fn cuDeviceGetAttribute: "cuDeviceGetAttribute" @ 2000 (
        value: Out<i32>, attribute: u32, device: Device,
    ) {
        with(device)?;
        if attribute == 0 || attribute >= ATTRIBUTE_END {
            return Err(Code::INVALID_VALUE);
        }
        let found = ATTRIBUTES.iter().find(|(number, _)| *number == attribute);
        value.set(found.map_or(0, |(_, value)| *value))
    }

    fn cuDeviceComputeCapability: "cuDeviceComputeCapability" @ 2000 (
        major: Out<i32>, minor: Out<i32>, device: Device,
    ) {
        with(device)?;
        major.set(COMPUTE_CAPABILITY.0 as i32)?;
        minor.set(COMPUTE_CAPABILITY.1 as i32)
    }

    fn cuDeviceGetProperties: "cuDeviceGetProperties" @ 2000 (
        properties: Out<DeviceProperties>, device: Device,
    ) {
        with(device)?;
        properties.set(DeviceProperties {
            max_threads: MAX_THREADS as i32,
            max_block: BLOCK,
            max_grid: GRID,
            shared_bytes: SHARED_BYTES as i32,
            constant_bytes: CONSTANT_BYTES,
            warp: WARP,
            pitch: PITCH,
            registers: REGISTERS,
            clock_khz: CLOCK_KHZ,
            texture_align: TEXTURE_ALIGN,
        })
    }

    fn cuDeviceGetPCIBusId: "cuDeviceGetPCIBusId" @ 4010 (
        name: Out<c_char>, room: i32, device: Device,
    ) {
        with(device)?;
        set_text(PCI_BUS_ID, name, room)
    }

    fn cuDeviceGetByPCIBusId: "cuDeviceGetByPCIBusId" @ 4010 (device: Out<Device>, name: Text) {
        driver()?;
        let wanted = name.bytes()?;
        match PCI_BUS_ID.strip_suffix(&[0]) == Some(wanted) {
            true => device.set(0),
            false => Err(Code::INVALID_DEVICE),
        }
    }

    fn cuDeviceCanAccessPeer: "cuDeviceCanAccessPeer" @ 4000 (
        can: Out<i32>, device: Device, peer: Device,
    ) {
        with(device)?;
        check_device(peer)?;
        can.set(0)
    }

    fn cuDeviceGetP2PAttribute: "cuDeviceGetP2PAttribute" @ 8000 (
        _value: Out<i32>, _attribute: u32, device: Device, peer: Device,
    ) {
        with(device)?;
        check_device(peer)?;
        // A device is not a peer of itself.
        Err(Code::INVALID_DEVICE)
    }

    fn cuDeviceGetExecAffinitySupport: "cuDeviceGetExecAffinitySupport" @ 11040 (
        can: Out<i32>, _kind: u32, device: Device,
    ) {
        with(device)?;
        can.set(0)
    }

    fn cuDeviceGetTexture1DLinearMaxWidth: "cuDeviceGetTexture1DLinearMaxWidth" @ 11010 (
        elements: Out<usize>, _format: u32, _channels: u32, device: Device,
    ) {
        with(device)?;
        elements.set(TEXELS_1D as usize)
    }
}
