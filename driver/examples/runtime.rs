//! What a C++ program of `nvcc -cudart shared` does, without nvcc: it registers a fat binary with
//! kernels and variables, and calls the runtime API. The library is found by its name.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;

use libloading::{Library, Symbol};

const PTX: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .const .align 4 .b8 factors[16];
.visible .global .align 4 .u32 launches = 5;
.visible .entry scale(.param .u64 data, .param .u32 n) {
    .reg .pred %outside;
    .reg .u32 %i, %block, %size, %n;
    .reg .u64 %data, %factors, %launches;
    .reg .f32 %x, %factor;
    ld.param.u64 %data, [data];
    ld.param.u32 %n, [n];
    mov.u32 %i, %tid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mad.lo.u32 %i, %block, %size, %i;
    setp.ge.u32 %outside, %i, %n;
    @%outside bra end;
    mov.u64 %factors, factors;
    ld.const.f32 %factor, [%factors+4];
    mad.wide.u32 %data, %i, 4, %data;
    ld.global.f32 %x, [%data];
    mul.f32 %x, %x, %factor;
    st.global.f32 [%data], %x;
    mov.u64 %launches, launches;
    setp.ne.u32 %outside, %i, 0;
    @%outside bra end;
    st.global.u32 [%launches], 6;
end:
    ret;
}
.visible .entry race(.param .u64 out) {
    .reg .u32 %thread;
    .reg .u64 %out;
    .shared .align 4 .b8 tile[256];
    ld.param.u64 %out, [out];
    mov.u32 %thread, %tid.x;
    st.global.u32 [%out], %thread;
    ret;
}
.visible .global .attribute(.managed) .align 4 .u32 total = 40;
.visible .entry sample(.param .u64 texture, .param .u64 surface) {
    .reg .u64 %texture, %surface, %total;
    .reg .u32 %sum;
    .reg .f32 %x, %value, %other<3>;
    ld.param.u64 %texture, [texture];
    ld.param.u64 %surface, [surface];
    mov.f32 %x, 0f3F800000;
    tex.2d.v4.f32.f32 {%value, %other0, %other1, %other2}, [%texture, {%x, %x}];
    mov.u32 %sum, 4;
    sust.b.2d.b32.trap [%surface, {%sum, %sum}], {%value};
    cvt.rzi.u32.f32 %sum, %value;
    mov.u64 %total, total;
    red.global.add.u32 [%total], %sum;
    ret;
}
";

/// Codes of the runtime.
const INVALID_VALUE: u32 = 1;
const INVALID_CONFIGURATION: u32 = 9;
const INVALID_SYMBOL: u32 = 13;
const INVALID_FUNCTION: u32 = 98;
const NO_KERNEL_IMAGE: u32 = 209;
const LAUNCH_FAILURE: u32 = 719;

const TO_DEVICE: i32 = 1;
const TO_HOST: i32 = 2;

#[derive(Clone, Copy)]
#[repr(C)]
struct Dim3(u32, u32, u32);

/// A fat binary: a container with one entry, which holds PTX as it is.
fn fat_binary(kind: u16, text: &str) -> Vec<u8> {
    let payload = text.len().next_multiple_of(8);
    let mut entry = vec![0; 64];
    entry[0..2].copy_from_slice(&kind.to_le_bytes());
    entry[4..8].copy_from_slice(&64_u32.to_le_bytes());
    entry[8..16].copy_from_slice(&(payload as u64).to_le_bytes());
    entry[28..32].copy_from_slice(&80_u32.to_le_bytes());
    entry.extend(text.bytes());
    entry.resize(64 + payload, 0);
    let mut container = 0xba55_ed50_u32.to_le_bytes().to_vec();
    container.extend([1, 0, 16, 0]);
    container.extend((entry.len() as u64).to_le_bytes());
    container.extend(entry);
    container
}

/// The wrapper that nvcc writes around a container.
#[repr(C)]
struct Wrapper(u32, u32, *const u8, *const c_void);

/// `cudaChannelFormatDesc`
#[repr(C)]
struct Channel([i32; 5]);

struct Runtime(Library);

/// Calls a function of the library with arguments of these types.
macro_rules! call {
    ($runtime:ident.$name:ident($($argument:expr => $type:ty),* $(,)?)) => {
        call!($runtime.$name($($argument => $type),*) -> u32)
    };
    ($runtime:ident.$name:ident($($argument:expr => $type:ty),* $(,)?) -> $result:ty) => {{
        // SAFETY: the types are those of the API, and places are valid.
        unsafe {
            let name = concat!(stringify!($name), "\0");
            let found: Symbol<'_, unsafe extern "C" fn($($type),*) -> $result> =
                $runtime.0.get(name.as_bytes()).expect(name);
            found($($argument),*)
        }
    }};
}

/// Calls a function that succeeds.
macro_rules! ok {
    ($($call:tt)*) => {
        assert_eq!(call!($($call)*), 0, "{}", stringify!($($call)*))
    };
}

impl Runtime {
    fn text(&self, code: u32) -> (String, String) {
        let name = call!(self.cudaGetErrorName(code => u32) -> *const c_char);
        let text = call!(self.cudaGetErrorString(code => u32) -> *const c_char);
        let owned = |text| {
            // SAFETY: a text of the library, which stays loaded.
            unsafe { CStr::from_ptr(text) }
                .to_string_lossy()
                .into_owned()
        };
        (owned(name), owned(text))
    }

    /// A launch as `<<<grid, block>>>` makes it.
    fn launch(&self, host: usize, grid: u32, block: u32, arguments: &mut [*mut c_void]) -> u32 {
        let shape = (Dim3(grid, 1, 1), Dim3(block, 1, 1));
        ok!(self.__cudaPushCallConfiguration(
            shape.0 => Dim3, shape.1 => Dim3, 0 => usize, null_mut() => *mut c_void,
        ));
        let mut kernel = 0;
        let known = call!(self.__cudaGetKernel(&raw mut kernel => *mut usize, host => usize));
        let (mut grid, mut block) = (Dim3(0, 0, 0), Dim3(0, 0, 0));
        let (mut shared, mut stream) = (1_usize, 1_usize);
        ok!(self.__cudaPopCallConfiguration(
            &raw mut grid => *mut Dim3, &raw mut block => *mut Dim3,
            &raw mut shared => *mut usize, &raw mut stream => *mut usize,
        ));
        let launched = call!(self.__cudaLaunchKernel(
            kernel => usize, grid => Dim3, block => Dim3,
            arguments.as_mut_ptr() => *mut *mut c_void, shared => usize, stream => usize,
        ));
        if known == 0 { launched } else { known }
    }
}

fn main() {
    // SAFETY: the library's start-up code has no demands.
    let library = unsafe { Library::new("libcudart.so.13") }.expect("the library is found");
    let runtime = Runtime(library);
    // Addresses in the host program that name kernels and variables.
    let [scale, race, lost, factors, launches, unknown, sample] =
        [1, 2, 3, 4, 5, 6, 7].map(|n| n << 12);
    let container = fat_binary(1, PTX);
    let wrapper = Wrapper(0x4662_43b1, 1, container.as_ptr(), std::ptr::null());
    let kernels = [(scale, c"scale"), (race, c"race"), (sample, c"sample")];
    let binary = register(&runtime, &wrapper, &kernels);
    let mut total: *mut u32 = null_mut();
    ok!(runtime.__cudaRegisterManagedVar(
        binary => usize, &raw mut total => *mut *mut u32, null_mut() => *mut c_void,
        c"total".as_ptr() => *const c_char, 0 => i32, 4 => usize, 0 => i32, 0 => i32,
    ));
    assert_eq!(call!(runtime.__cudaInitModule(binary => usize) -> u8), 1);
    for (shadow, name) in [(factors, c"factors"), (launches, c"launches")] {
        ok!(runtime.__cudaRegisterVar(
            binary => usize, shadow => usize, name.as_ptr() => *const c_char,
            name.as_ptr() => *const c_char, 0 => i32, 4 => usize, 0 => i32, 0 => i32,
        ));
    }
    let machine_code = fat_binary(2, "machine code");
    let no_ptx = Wrapper(0x4662_43b1, 1, machine_code.as_ptr(), std::ptr::null());
    register(&runtime, &no_ptx, &[(lost, c"lost")]);

    scales(&runtime, scale, factors, launches);
    images(&runtime, sample, total);
    refuses(&runtime, [scale, lost, factors, unknown]);
    races(&runtime, race);
    let channel = call!(runtime.cudaCreateChannelDesc(
        32 => i32, 16 => i32, 8 => i32, 0 => i32, 2 => i32,
    ) -> Channel);
    assert_eq!(channel.0, [32, 16, 8, 0, 2]);
    ok!(runtime.__cudaUnregisterFatBinary(binary => usize));
}

fn register(runtime: &Runtime, wrapper: &Wrapper, kernels: &[(usize, &CStr)]) -> usize {
    let binary = call!(runtime.__cudaRegisterFatBinary(wrapper => *const Wrapper) -> usize);
    for (host, name) in kernels {
        let null = null_mut();
        ok!(runtime.__cudaRegisterFunction(
            binary => usize, *host => usize, name.as_ptr() => *const c_char,
            name.as_ptr() => *const c_char, -1 => i32, null => *mut c_void, null => *mut c_void,
            null => *mut c_void, null => *mut c_void, null => *mut c_void,
        ));
    }
    ok!(runtime.__cudaRegisterFatBinaryEnd(binary => usize));
    binary
}

/// A whole program: memory, a variable, a launch, events and the result.
fn scales(runtime: &Runtime, scale: usize, factors: usize, launches: usize) {
    let n = 100_u32;
    let bytes = 4 * n as usize;
    let mut data: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let mut device: u64 = 0;
    ok!(runtime.cudaMalloc(&raw mut device => *mut u64, bytes => usize));
    ok!(runtime.cudaMemcpy(
        device => u64, data.as_ptr() => *const f32, bytes => usize, TO_DEVICE => i32,
    ));
    let values = [1_f32, 2.5, 0.0, 0.0];
    ok!(runtime.cudaMemcpyToSymbol(
        factors => usize, values.as_ptr() => *const f32, 16 => usize, 0 => usize, TO_DEVICE => i32,
    ));
    let (mut start, mut end) = (0_usize, 0_usize);
    ok!(runtime.cudaEventCreate(&raw mut start => *mut usize));
    ok!(runtime.cudaEventCreate(&raw mut end => *mut usize));
    ok!(runtime.cudaEventRecord(start => usize, 0 => usize));
    let mut arguments = [(&raw mut device).cast(), (&raw const n).cast_mut().cast()];
    assert_eq!(runtime.launch(scale, 4, 32, &mut arguments), 0);
    ok!(runtime.cudaEventRecord(end => usize, 0 => usize));
    ok!(runtime.cudaDeviceSynchronize());
    let mut milliseconds = -1_f32;
    ok!(runtime.cudaEventElapsedTime(
        &raw mut milliseconds => *mut f32, start => usize, end => usize,
    ));
    assert!(milliseconds >= 0.0);
    ok!(runtime.cudaMemcpy(
        data.as_mut_ptr() => *mut f32, device => u64, bytes => usize, TO_HOST => i32,
    ));
    assert!((0..n).all(|i| data[i as usize] == 2.5 * i as f32));
    let mut count = 0_u32;
    ok!(runtime.cudaMemcpyFromSymbol(
        &raw mut count => *mut u32, launches => usize, 4 => usize, 0 => usize, TO_HOST => i32,
    ));
    assert_eq!(count, 6);
    let mut properties = vec![0xff_u8; 1008 + 8];
    ok!(runtime.cudaGetDeviceProperties(properties.as_mut_ptr() => *mut u8, 0 => i32));
    assert_eq!(
        properties[384..388],
        132_i32.to_ne_bytes(),
        "multiProcessorCount"
    );
    assert_eq!(
        properties[672..680],
        232_448_u64.to_ne_bytes(),
        "sharedMemPerBlockOptin"
    );
    assert_eq!(properties[748..752], 1_i32.to_ne_bytes(), "clusterLaunch");
    assert_eq!(properties[1008..], [0xff; 8], "nothing behind the struct");
    let mut older = vec![0xff_u8; 1032 + 8];
    ok!(runtime.cudaGetDeviceProperties_v2(older.as_mut_ptr() => *mut u8, 0 => i32));
    assert_eq!(
        older[388..392],
        132_i32.to_ne_bytes(),
        "multiProcessorCount"
    );
    assert_eq!(older[772..776], 1_i32.to_ne_bytes(), "clusterLaunch");
    assert_eq!(older[1032..], [0xff; 8], "nothing behind the struct");
    ok!(runtime.cudaFree(device => u64));
    println!("scaled {n} numbers");
}

/// An array, which a kernel reads as a texture and writes as a surface, and a managed variable.
fn images(runtime: &Runtime, sample: usize, total: *mut u32) {
    // SAFETY: the module is there, so its variable is, and no kernel uses it.
    let read = || unsafe { total.read_volatile() };
    assert_eq!(read(), 40, "its first value");
    let (width, height) = (4_usize, 5_usize);
    let texels: Vec<f32> = (0..20).map(|i| i as f32).collect();
    let channel = Channel([32, 0, 0, 0, 2]);
    let mut array = 0_usize;
    ok!(runtime.cudaMallocArray(
        &raw mut array => *mut usize, &raw const channel => *const Channel, width => usize,
        height => usize, 2 => u32,
    ));
    ok!(runtime.cudaMemcpy2DToArray(
        array => usize, 0 => usize, 0 => usize, texels.as_ptr() => *const f32, 16 => usize,
        16 => usize, height => usize, TO_DEVICE => i32,
    ));
    let outside = call!(runtime.cudaMemcpy2DToArray(
        array => usize, 4 => usize, 0 => usize, texels.as_ptr() => *const f32, 16 => usize,
        16 => usize, height => usize, TO_DEVICE => i32,
    ));
    assert_eq!(outside, INVALID_VALUE);
    // The resource is an array; filtering is linear, coordinates are clamped.
    let resource = [0, array as u64, 0, 0, 0, 0, 0, 0];
    let sampling = [1_u32, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let (mut texture, mut surface) = (0_u64, 0_u64);
    ok!(runtime.cudaCreateTextureObject(
        &raw mut texture => *mut u64, resource.as_ptr() => *const u64,
        sampling.as_ptr() => *const u32, null_mut() => *mut c_void,
    ));
    ok!(runtime.cudaCreateSurfaceObject(
        &raw mut surface => *mut u64, resource.as_ptr() => *const u64,
    ));
    let mut arguments = [(&raw mut texture).cast(), (&raw mut surface).cast()];
    assert_eq!(runtime.launch(sample, 1, 1, &mut arguments), 0);
    ok!(runtime.cudaDeviceSynchronize());
    // Between 0, 1, 4 and 5.
    assert_eq!(read(), 42);
    let mut row = [0_f32; 4];
    ok!(runtime.cudaMemcpy2DFromArray(
        row.as_mut_ptr() => *mut f32, 16 => usize, array => usize, 0 => usize, 4 => usize,
        16 => usize, 1 => usize, TO_HOST => i32,
    ));
    assert_eq!(row, [16.0, 2.5, 18.0, 19.0]);
    ok!(runtime.cudaDestroyTextureObject(texture => u64));
    ok!(runtime.cudaDestroySurfaceObject(surface => u64));
    ok!(runtime.cudaFreeArray(array => usize));
    println!("sampled 20 texels");
}

/// Errors of the program, which are kept until they are asked for.
fn refuses(runtime: &Runtime, [scale, lost, factors, unknown]: [usize; 4]) {
    assert_eq!(runtime.launch(unknown, 1, 1, &mut []), INVALID_FUNCTION);
    assert_eq!(call!(runtime.cudaGetLastError()), INVALID_FUNCTION);
    assert_eq!(call!(runtime.cudaGetLastError()), 0);
    assert_eq!(runtime.launch(lost, 1, 1, &mut []), NO_KERNEL_IMAGE);
    assert_eq!(
        runtime.launch(scale, 1, 2048, &mut []),
        INVALID_CONFIGURATION
    );
    let mut host = [0_u32; 8];
    let copied = call!(runtime.cudaMemcpyFromSymbol(
        host.as_mut_ptr() => *mut u32, unknown => usize, 4 => usize, 0 => usize, TO_HOST => i32,
    ));
    assert_eq!(copied, INVALID_SYMBOL);
    let copied = call!(runtime.cudaMemcpyFromSymbol(
        host.as_mut_ptr() => *mut u32, factors => usize, 8 => usize, 12 => usize, TO_HOST => i32,
    ));
    assert_eq!(copied, INVALID_VALUE, "it ends behind the variable");
    let to = host.as_mut_ptr();
    let copied = call!(runtime.cudaMemcpy(
        to => *mut u32, host.as_ptr() => *const u32, 4 => usize, TO_DEVICE => i32,
    ));
    assert_eq!(copied, INVALID_VALUE, "the target is not on the device");
    // Extents that no memory has.
    let huge = [device_pitch(usize::MAX), device_pitch(0)];
    for place in huge {
        let extent = Extent(0, usize::MAX, usize::MAX);
        let filled = call!(runtime.cudaMemset3D(place => Pitched, 0 => i32, extent => Extent));
        assert!(matches!(filled, 0 | INVALID_VALUE));
    }
    let copied = call!(runtime.cudaMemcpy2D(
        to => *mut u32, usize::MAX => usize, host.as_ptr() => *const u32, usize::MAX => usize,
        4 => usize, usize::MAX => usize, 0 => i32,
    ));
    assert_eq!(copied, INVALID_VALUE);
    call!(runtime.cudaGetLastError());
}

/// `cudaPitchedPtr`
#[derive(Clone, Copy)]
#[repr(C)]
struct Pitched(u64, usize, usize, usize);

/// `cudaExtent`
#[derive(Clone, Copy)]
#[repr(C)]
struct Extent(usize, usize, usize);

fn device_pitch(pitch: usize) -> Pitched {
    Pitched(0x1000_0000_0000, pitch, 1, usize::MAX)
}

/// A kernel with a race, whose error stays.
fn races(runtime: &Runtime, race: usize) {
    let mut out: u64 = 0;
    ok!(runtime.cudaMallocManaged(&raw mut out => *mut u64, 4 => usize, 1 => u32));
    assert_eq!(runtime.launch(race, 1, 64, &mut [(&raw mut out).cast()]), 0);
    let waited = call!(runtime.cudaDeviceSynchronize());
    assert_eq!(waited, LAUNCH_FAILURE);
    println!("waited: {:?}", runtime.text(waited));
}
