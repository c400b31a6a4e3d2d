//! `lud-opencl`: the kernels of `lud.k` on a device of OpenCL 1.2, whose library is loaded at run time.

use std::io;

use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU, Device};
use opencl3::error_codes::{CL_DEVICE_NOT_FOUND, ClError, DLOPEN_RUNTIME_LOAD_FAILED};
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE, ClMem};
use opencl3::platform::get_platforms;
use opencl3::program::Program;
use opencl3::types::CL_BLOCKING;
use tempfile::TempDir;

use super::{DIAGONAL_ROWS, Decomposer, SIDE, application, steps};
use crate::apps::{Application, ApplicationError, read_options};

const SOURCE: &str = include_str!("lud.k");

/// Error of the loader: it knows no driver (`CL_PLATFORM_NOT_FOUND_KHR`).
const NO_PLATFORM: i32 = -1001;

/// Rows of an item of `lud_internal_rows`.
const ROWS: usize = 4;

/// The kernel for the products, which take most of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interior {
    /// Rows in registers, without barriers, in tiles of 16.
    Rows,
    /// Tiles of this dimension in local memory.
    Local(usize),
}

impl Interior {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "rows" => Some(Self::Rows),
            "local16" => Some(Self::Local(16)),
            "local64" => Some(Self::Local(64)),
            _ => None,
        }
    }

    fn tile(self) -> usize {
        match self {
            Self::Rows => 16,
            Self::Local(tile) => tile,
        }
    }
}

/// The variant.
pub struct OpenCl {
    context: Context,
    queue: CommandQueue,
    diagonal: Kernel,
    perimeter: Kernel,
    internal: Kernel,
    interior: Interior,
    /// Rows of items in the group of `diagonal`.
    diagonal_rows: usize,
    buffer: Option<Buffer<f32>>,
    /// Numbers that fit into the buffer.
    room: usize,
    /// Size in bytes of the largest buffer of the device.
    limit: u64,
}

/// Gives the compiler of PoCL a directory of its own, which lasts as long as the returned value. So each session
/// begins with the compilation, as each program of the thesis did.
///
/// Must be called before another thread runs, and before OpenCL is used.
///
/// # Errors
/// If the directory cannot be made.
pub fn own_cache() -> io::Result<TempDir> {
    let dir = tempfile::Builder::new().prefix("lprof-pocl-").tempdir()?;
    // SAFETY: no other thread runs, so none reads the environment.
    unsafe { std::env::set_var("POCL_CACHE_DIR", dir.path()) };
    Ok(dir)
}

/// Prepares a session on the device that `device=N` names, or on the first. `interior=` names the kernel for the
/// products; without it, processors have `rows`, and others `local64`.
pub fn init(session: &str) -> Result<Box<dyn Application>, ApplicationError> {
    let (mut wanted, mut interior) = (0, None);
    read_options(session, "device=N, interior=rows|local16|local64", |key, value| match key {
        "device" => value.parse().map(|number| wanted = number).is_ok(),
        "interior" => {
            interior = Interior::parse(value);
            interior.is_some()
        }
        _ => false,
    })?;
    let all = all_devices()?;
    let known = all.len();
    let device = all.into_iter().nth(wanted).ok_or(ApplicationError::NoDevice { wanted, known })?;
    Ok(application(OpenCl::new(&device, interior)?))
}

/// Lists the devices of all drivers, with their numbers.
pub fn devices() -> Result<Vec<String>, ApplicationError> {
    let line = |(number, device): (usize, &Device)| {
        let kind = if is_processor(device)? { "CPU" } else { "GPU or other" };
        let (name, version) = (device.name().map_err(failed)?, device.version().map_err(failed)?);
        Ok(format!("device={number}: {} ({kind}, {})", name.trim(), version.trim()))
    };
    all_devices()?.iter().enumerate().map(line).collect()
}

fn is_processor(device: &Device) -> Result<bool, ApplicationError> {
    Ok(device.dev_type().map_err(failed)? & CL_DEVICE_TYPE_CPU != 0)
}

fn all_devices() -> Result<Vec<Device>, ApplicationError> {
    let platforms = match get_platforms() {
        Ok(platforms) => platforms,
        Err(ClError(DLOPEN_RUNTIME_LOAD_FAILED)) => {
            return Err(ApplicationError::Missing {
                what: "libOpenCL.so.1 cannot be loaded",
                get: "ocl-icd-libopencl1 of Debian or ocl-icd of Fedora",
            });
        }
        Err(ClError(NO_PLATFORM)) => Vec::new(),
        Err(error) => return Err(failed(error)),
    };
    let mut devices = Vec::new();
    for platform in platforms {
        match platform.get_devices(CL_DEVICE_TYPE_ALL) {
            Ok(ids) => devices.extend(ids.into_iter().map(Device::new)),
            Err(ClError(CL_DEVICE_NOT_FOUND)) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    if devices.is_empty() {
        return Err(ApplicationError::Missing {
            what: "OpenCL has no driver with a device",
            get: "the driver of the GPU, or for the CPU pocl-opencl-icd of Debian or pocl of Fedora",
        });
    }
    Ok(devices)
}

fn failed(error: ClError) -> ApplicationError {
    ApplicationError::Device { message: format!("OpenCL: {error}") }
}

impl OpenCl {
    fn new(device: &Device, interior: Option<Interior>) -> Result<Self, ApplicationError> {
        let is_processor = is_processor(device)?;
        let interior = interior.unwrap_or(if is_processor { Interior::Rows } else { Interior::Local(64) });
        let limit = device.max_mem_alloc_size().map_err(failed)?;
        let context = Context::from_device(device).map_err(failed)?;
        let queue = CommandQueue::create_default(&context, 0).map_err(failed)?;
        let options = format!("-cl-std=CL1.2 -cl-mad-enable -DT={}", interior.tile());
        let program = Program::create_and_build_from_source(&context, SOURCE, &options)
            .map_err(|message| ApplicationError::Device { message: format!("OpenCL: {message}") })?;
        let kernel = |name| Kernel::create(&program, name).map_err(failed);
        let internal = kernel(if interior == Interior::Rows { "lud_internal_rows" } else { "lud_internal" })?;
        let (diagonal, perimeter) = (kernel("lud_diagonal")?, kernel("lud_perimeter")?);
        // Each row of items costs a processor more than it saves.
        let diagonal_rows = if is_processor { 1 } else { DIAGONAL_ROWS };
        let (buffer, room) = (None, 0);
        Ok(Self { context, queue, diagonal, perimeter, internal, interior, diagonal_rows, buffer, room, limit })
    }

    /// Takes the buffer, with room for `size` numbers.
    fn take_buffer(&mut self, size: usize) -> Result<Buffer<f32>, ApplicationError> {
        if let Some(buffer) = self.buffer.take().filter(|_| self.room >= size) {
            return Ok(buffer);
        }
        let bytes = size_of::<f32>() as u64 * size as u64;
        if bytes > self.limit {
            return Err(ApplicationError::Memory { size: bytes, limit: self.limit });
        }
        // SAFETY: without a pointer to memory of the host, nothing is shared.
        let buffer = unsafe { Buffer::create(&self.context, CL_MEM_READ_WRITE, size, std::ptr::null_mut()) };
        self.room = size;
        buffer.map_err(failed)
    }

    /// Queues the kernels of a step. `tiles` is their number right of the diagonal.
    fn step(&self, offset: i32, tiles: usize) -> Result<(), ClError> {
        let tile = self.interior.tile();
        let diagonal = [tile, self.diagonal_rows];
        self.enqueue(&self.diagonal, offset, diagonal, diagonal)?;
        if tiles == 0 {
            return Ok(());
        }
        self.enqueue(&self.perimeter, offset, [tile * tiles, 2], [tile, 1])?;
        // PoCL compiles a kernel for each size of a group, so it is always the same.
        match self.interior {
            Interior::Rows => self.enqueue(&self.internal, offset, [tiles, tile / ROWS * tiles], [1, tile / ROWS]),
            Interior::Local(_) => self.enqueue(&self.internal, offset, [SIDE * tiles, SIDE * tiles], [SIDE, SIDE]),
        }
    }

    fn enqueue(&self, kernel: &Kernel, offset: i32, items: [usize; 2], group: [usize; 2]) -> Result<(), ClError> {
        // SAFETY: the third argument of all kernels is an int. The other two are set, and the kernels of a step touch
        // only tiles of the matrix.
        unsafe {
            kernel.set_arg(2, &offset)?;
            self.queue.enqueue_nd_range_kernel(
                kernel.get(),
                2,
                std::ptr::null(),
                items.as_ptr(),
                group.as_ptr(),
                &[],
            )?;
        }
        Ok(())
    }

    fn run(&self, buffer: &mut Buffer<f32>, matrix: &mut [f32], dimension: usize) -> Result<(), ClError> {
        let (memory, size) = (buffer.get(), dimension as i32);
        // SAFETY: the first arguments of all kernels are a buffer and an int. The transfers block, and the buffer has
        // room for the matrix.
        unsafe {
            for kernel in [&self.diagonal, &self.perimeter, &self.internal] {
                kernel.set_arg(0, &memory)?;
                kernel.set_arg(1, &size)?;
            }
            self.queue.enqueue_write_buffer(buffer, CL_BLOCKING, 0, matrix, &[])?;
            for (offset, tiles) in steps(dimension, self.interior.tile()) {
                self.step(offset, tiles)?;
            }
            self.queue.enqueue_read_buffer(buffer, CL_BLOCKING, 0, matrix, &[])?;
        }
        Ok(())
    }
}

impl Decomposer for OpenCl {
    fn decompose(&mut self, matrix: &mut [f32], dimension: usize) -> Result<(), ApplicationError> {
        let mut buffer = self.take_buffer(matrix.len())?;
        self.run(&mut buffer, matrix, dimension).map_err(failed)?;
        self.buffer = Some(buffer);
        Ok(())
    }
}
