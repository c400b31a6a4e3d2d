//! `lud-cuda`: the kernels of `lud.k` on a GPU of NVIDIA, whose library is loaded at run time. They are in this program as
//! PTX, which the driver compiles for its GPU.

use std::sync::Arc;

use cudarc::driver::sys::{CUctx_flags, CUdevice_attribute};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DriverError, LaunchConfig, PushKernelArg, result, sys,
};
use cudarc::nvrtc::Ptx;

use super::{DIAGONAL_ROWS, Decomposer, SIDE, application, steps};
use crate::apps::{Application, ApplicationError, device_option};
use crate::quantity::si;

/// The kernels, compiled by `cargo xtask ptx`.
const PTX: &str = include_str!("lud.ptx");

/// Dimension of a tile in the PTX: `T` of `lud.k`.
const TILE: usize = 64;

/// Oldest version of CUDA in a driver: the major number times 1000, plus the minor one times 10.
const OLDEST_VERSION: i32 = 11_040;

/// Least compute capability of a GPU, which the PTX names: Pascal.
const LEAST_CAPABILITY: (i32, i32) = (6, 0);

/// Functions of the library that this variant uses. `cudarc` panics at a call of a missing one.
const FUNCTIONS: [&str; 26] = [
    "cuDriverGetVersion",
    "cuInit",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceTotalMem_v2",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxSetFlags_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuModuleUnload",
    "cuMemGetInfo_v2",
    "cuMemAlloc_v2",
    "cuMemAllocAsync",
    "cuMemFree_v2",
    "cuMemFreeAsync",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuLaunchKernel",
    "cuStreamSynchronize",
];

/// The variant.
pub struct Cuda {
    stream: Arc<CudaStream>,
    diagonal: CudaFunction,
    perimeter: CudaFunction,
    internal: CudaFunction,
    buffer: Option<CudaSlice<f32>>,
}

/// Prepares a session on the GPU that `device=N` names, or on the first.
pub fn init(session: &str) -> Result<Box<dyn Application>, ApplicationError> {
    let wanted = device_option(session)?;
    let known = count()?;
    if wanted >= known {
        return Err(ApplicationError::NoDevice { wanted, known });
    }
    Ok(application(Cuda::new(wanted)?))
}

/// Lists the GPUs, with their numbers.
pub fn devices() -> Result<Vec<String>, ApplicationError> {
    (0..count()?).map(|number| line(number).map_err(failed)).collect()
}

fn line(number: usize) -> Result<String, DriverError> {
    let device = device(number)?;
    let (major, minor) = capability(device)?;
    // SAFETY: the device is one of the driver.
    let memory = unsafe { result::device::total_mem(device)? };
    let name = result::device::get_name(device)?;
    Ok(format!("device={number}: {name} (sm_{major}{minor}, {})", si(memory as f64, "B")))
}

/// Returns the number of GPUs, at least one. Loads the library, and checks that it has all that is used later.
fn count() -> Result<usize, ApplicationError> {
    // SAFETY: libraries of this name are NVIDIA's, and may be loaded.
    let library = unsafe { sys::is_culib_present().then(|| sys::culib()) };
    let library = library.ok_or(ApplicationError::Missing {
        what: "libcuda.so.1 cannot be loaded",
        get: "the driver of the GPU, which is nvidia-driver of Debian",
    })?;
    // SAFETY: the function is only looked up.
    let is_missing = |name: &&&str| unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()).is_err() };
    let old = |cause: String| message(format!("{cause}: install driver 470 or newer"));
    if !is_missing(&&"cuDriverGetVersion") {
        let mut version = 0;
        // SAFETY: the library has the function, which writes the number.
        unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(failed)?;
        if version < OLDEST_VERSION {
            let told = |version: i32| format!("{}.{}", version / 1000, version % 1000 / 10);
            return Err(old(format!("the driver has {}, not {} or newer", told(version), told(OLDEST_VERSION))));
        }
    }
    if let Some(name) = FUNCTIONS.iter().find(is_missing) {
        return Err(old(format!("the driver has no function {name}")));
    }
    result::init().map_err(failed)?;
    match result::device::get_count().map_err(failed)? {
        count @ 1.. => Ok(count as usize),
        _ => Err(message("the driver finds no GPU".to_owned())),
    }
}

fn message(cause: String) -> ApplicationError {
    ApplicationError::Device { message: format!("CUDA: {cause}") }
}

fn failed(error: DriverError) -> ApplicationError {
    let text = error.error_string().map_or_else(|_| "an error without a text".into(), |text| text.to_string_lossy());
    message(format!("{text} ({:?})", error.0))
}

fn device(number: usize) -> Result<sys::CUdevice, DriverError> {
    result::device::get(number as i32)
}

fn capability(device: sys::CUdevice) -> Result<(i32, i32), DriverError> {
    // SAFETY: the device is one of the driver.
    let value = |attribute| unsafe { result::device::get_attribute(device, attribute) };
    let major = value(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = value(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    Ok((major, minor))
}

impl Cuda {
    fn new(number: usize) -> Result<Self, ApplicationError> {
        let (major, minor) = device(number).and_then(capability).map_err(failed)?;
        if (major, minor) < LEAST_CAPABILITY {
            let (least_major, least_minor) = LEAST_CAPABILITY;
            return Err(message(format!(
                "device={number} is sm_{major}{minor}, and the kernels need sm_{least_major}{least_minor} or newer"
            )));
        }
        Self::load(number).map_err(failed)
    }

    fn load(number: usize) -> Result<Self, DriverError> {
        // Otherwise a thread of this process polls for the end of each job, which takes a core. `set_blocking_synchronize`
        // of `cudarc` does the same, and needs CUDA 12.1.
        let flags = CUctx_flags::CU_CTX_SCHED_BLOCKING_SYNC as u32;
        // SAFETY: the device is one of the driver.
        unsafe { sys::cuDevicePrimaryCtxSetFlags_v2(device(number)?, flags) }.result()?;
        let context = CudaContext::new(number)?;
        // SAFETY: there is one stream, so no other one uses its memory.
        unsafe { context.disable_event_tracking() };
        let module = context.load_module(Ptx::from_src(PTX))?;
        let kernel = |name| module.load_function(name);
        let (diagonal, perimeter, internal) =
            (kernel("lud_diagonal")?, kernel("lud_perimeter")?, kernel("lud_internal")?);
        Ok(Self { stream: context.default_stream(), diagonal, perimeter, internal, buffer: None })
    }

    /// Takes the buffer, with room for `size` numbers.
    fn take_buffer(&mut self, size: usize) -> Result<CudaSlice<f32>, ApplicationError> {
        if let Some(buffer) = self.buffer.take().filter(|buffer| buffer.len() >= size) {
            return Ok(buffer);
        }
        // The memory of a smaller buffer is free when the stream has come to that.
        self.stream.synchronize().map_err(failed)?;
        let (free, _) = self.stream.context().mem_get_info().map_err(failed)?;
        let bytes = size_of::<f32>() * size;
        if bytes > free {
            return Err(ApplicationError::Memory { size: bytes as u64, limit: free as u64 });
        }
        // SAFETY: the matrix is copied into it before a kernel reads it.
        unsafe { self.stream.alloc(size) }.map_err(failed)
    }

    fn run(&self, buffer: &mut CudaSlice<f32>, matrix: &mut [f32], dimension: usize) -> Result<(), DriverError> {
        self.stream.memcpy_htod(matrix, buffer)?;
        for (offset, tiles) in steps(dimension, TILE) {
            let mut launch = |kernel: &CudaFunction, groups: [usize; 2], items: [usize; 2]| {
                let dimensions = |[x, y]: [usize; 2]| (x as u32, y as u32, 1);
                let (grid_dim, block_dim) = (dimensions(groups), dimensions(items));
                let config = LaunchConfig { grid_dim, block_dim, shared_mem_bytes: 0 };
                let size = dimension as i32;
                let mut launch = self.stream.launch_builder(kernel);
                // SAFETY: the arguments of all kernels are a pointer and two ints. A kernel uses only numbers of the
                // matrix, which are in the buffer.
                unsafe { launch.arg(&mut *buffer).arg(&size).arg(&offset).launch(config) }
            };
            launch(&self.diagonal, [1, 1], [TILE, DIAGONAL_ROWS])?;
            if tiles > 0 {
                launch(&self.perimeter, [tiles, 2], [TILE, 1])?;
                launch(&self.internal, [tiles, tiles], [SIDE, SIDE])?;
            }
        }
        self.stream.memcpy_dtoh(&buffer.slice(..matrix.len()), matrix)?;
        self.stream.synchronize()
    }
}

impl Decomposer for Cuda {
    fn decompose(&mut self, matrix: &mut [f32], dimension: usize) -> Result<(), ApplicationError> {
        let mut buffer = self.take_buffer(matrix.len())?;
        self.run(&mut buffer, matrix, dimension).map_err(failed)?;
        self.buffer = Some(buffer);
        Ok(())
    }
}
