//! `lud-cuda` by the whole path of its crate, on a stand-in for NVIDIA's library.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use limo_requirements::{Requirement, skip};
use lprof::apps::{self, ApplicationError};
use lprof::workload::matrix::{Matrices, residual};
use serde_json::Value;
use tempfile::TempDir;

/// Variable that selects the part of a test that runs in a process of its own: a process loads the library once.
const WITHIN: &str = "LIMO_TEST_WITHIN";

/// The library, next to its state.
struct FakeCuda {
    dir: TempDir,
}

impl FakeCuda {
    /// Compiles the library. Skips the rest of the test without a C compiler.
    fn new(options: &[&str]) -> Option<Self> {
        let cuda = Self { dir: tempfile::tempdir().unwrap() };
        let library = cuda.dir.path().join("libcuda.so.1");
        let mut compile = Command::new("cc");
        compile.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library);
        compile.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake/cuda.c")).args(options).arg("-ldl");
        match compile.output() {
            Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => {
                skip(Requirement::Platform, &format!("no C compiler: {error}"));
                return None;
            }
        }
        // The first name that is tried: a real library of that name is not found before.
        fs::copy(&library, cuda.dir.path().join("libcuda.so")).unwrap();
        Some(cuda)
    }

    fn set(&self, name: &str, value: u64) -> &Self {
        fs::write(self.dir.path().join(name), value.to_string()).unwrap();
        self
    }

    fn unset(&self, name: &str) {
        fs::remove_file(self.dir.path().join(name)).unwrap();
    }

    /// The row of `lud-cuda` in `lprof apps`.
    fn row(&self) -> Value {
        row(self.dir.path())
    }

    /// Checks that `lprof apps` says what is missing.
    #[track_caller]
    fn check_missing(&self, expected: &str) {
        let row = self.row();
        assert_eq!((&row["works"], row["missing"].as_str()), (&false.into(), Some(expected)), "{row}");
    }

    /// Runs a test of this file with [`WITHIN`] in a process that finds the library.
    #[track_caller]
    fn run_within(&self, test: &str) {
        let mut process = Command::new(env::current_exe().unwrap());
        process.args(["--exact", test, "--nocapture"]).env(WITHIN, test).env("LD_LIBRARY_PATH", self.dir.path());
        let output = process.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }
}

fn row(dir: &Path) -> Value {
    let mut apps = Command::new(env!("CARGO_BIN_EXE_lprof"));
    // No driver of OpenCL, which would take seconds to compile kernels.
    apps.args(["apps", "--json"]).env("LD_LIBRARY_PATH", dir).env("OCL_ICD_VENDORS", dir);
    let output = apps.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = list["applications"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == "lud-cuda").unwrap().clone()
}

fn is_within(test: &str) -> bool {
    env::var(WITHIN).is_ok_and(|within| within == test)
}

/// Decomposes a matrix of that dimension, and returns the relative residual.
fn residual_of(application: &mut dyn apps::Application, dimension: usize) -> Result<f64, ApplicationError> {
    let matrix = Matrices::new(dimension as u64).draw(dimension).to_vec();
    let mut bytes: Vec<u8> = matrix.iter().flat_map(|value| value.to_le_bytes()).collect();
    application.process(&mut bytes)?;
    let decomposed: Vec<f32> = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    Ok(residual(&matrix, &decomposed, dimension))
}

#[test]
fn the_fake_gpu_decomposes_all_dimensions() {
    const TEST: &str = "the_fake_gpu_decomposes_all_dimensions";
    if !is_within(TEST) {
        let Some(cuda) = FakeCuda::new(&[]) else { return };
        cuda.run_within(TEST);
        // CU_CTX_SCHED_BLOCKING_SYNC: no thread polls for the end of a job.
        assert_eq!(fs::read_to_string(cuda.dir.path().join("flags")).unwrap(), "4");
        cuda.set("pools", 0).run_within(TEST);
        return;
    }
    let mut application = (apps::named("lud-cuda").unwrap().init)("").unwrap();
    // Growing and shrinking: the buffer is replaced, then used for less than it has room for.
    for dimension in (16..=256).step_by(16).chain([16, 80, 128]) {
        let residual = residual_of(application.as_mut(), dimension).unwrap();
        assert!(residual < 1e-6, "{residual:e} at dimension {dimension}");
    }
    for size in [0, 4, 4 * 8 * 8, 4 * 24 * 24, 4 * 16 * 16 + 4] {
        let error = application.process(&mut vec![0; size]).unwrap_err();
        assert_eq!(error, ApplicationError::Dimension { size: size as u64 });
    }
    application.fini().unwrap();
}

#[test]
fn matrices_larger_than_the_memory_are_refused() {
    const TEST: &str = "matrices_larger_than_the_memory_are_refused";
    if !is_within(TEST) {
        let Some(cuda) = FakeCuda::new(&[]) else { return };
        // 128 rows of 128 numbers of 4 bytes.
        cuda.set("memory_bytes", 65_536).run_within(TEST);
        return;
    }
    let mut application = (apps::named("lud-cuda").unwrap().init)("").unwrap();
    assert!(residual_of(application.as_mut(), 128).unwrap() < 1e-6);
    let error = residual_of(application.as_mut(), 144).unwrap_err().to_string();
    assert_eq!(error, "the matrix of 82944 bytes is larger than the 65536 bytes that the device has for it");
    // The session may go on.
    assert!(residual_of(application.as_mut(), 112).unwrap() < 1e-6);
}

#[test]
fn apps_lists_the_gpus() {
    let Some(cuda) = FakeCuda::new(&[]) else { return };
    let row = cuda.set("devices", 2).set("capability", 90).set("memory_bytes", 80_000_000_000).row();
    assert_eq!((&row["works"], &row["missing"]), (&true.into(), &Value::Null), "{row}");
    let devices = ["device=0: Fake GPU (sm_90, 80.0 GB)", "device=1: Fake GPU (sm_90, 80.0 GB)"];
    assert_eq!(row["devices"], Value::from(devices.to_vec()));
}

#[test]
fn a_missing_library_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["libcuda.so", "libcuda.so.1"] {
        fs::write(dir.path().join(name), "junk").unwrap();
    }
    let expected = "libcuda.so.1 cannot be loaded: install the driver of the GPU, which is nvidia-driver of Debian";
    assert_eq!(row(dir.path())["missing"], expected);
}

#[test]
fn obstacles_are_named() {
    let Some(cuda) = FakeCuda::new(&[]) else { return };
    cuda.set("devices", 0).check_missing("CUDA: no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE)");
    cuda.unset("devices");
    cuda.set("version", 10_020)
        .check_missing("CUDA: the driver has 10.2, not 11.4 or newer: install driver 470 or newer");
    cuda.unset("version");
    cuda.set("capability", 52).check_missing("CUDA: device=0 is sm_52, and the kernels need sm_60 or newer");
    cuda.unset("capability");
    // Some errors are reported by the call that waits.
    for function in ["cuLaunchKernel", "cuStreamSynchronize", "cuMemcpyDtoHAsync_v2"] {
        cuda.set(&format!("error_{function}"), 719);
        cuda.check_missing("CUDA: unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED)");
        cuda.unset(&format!("error_{function}"));
    }
    cuda.set("error_cuModuleLoadData", 200);
    cuda.check_missing("CUDA: device kernel image is invalid (CUDA_ERROR_INVALID_IMAGE)");
    cuda.unset("error_cuModuleLoadData");
    assert_eq!(cuda.row()["works"], true);
}

#[test]
fn a_driver_without_a_function_is_named() {
    let Some(cuda) = FakeCuda::new(&["-DOLD"]) else { return };
    cuda.check_missing("CUDA: the driver has no function cuMemFreeAsync: install driver 470 or newer");
}
