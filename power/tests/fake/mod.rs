//! NVIDIA GPUs as directories of files, with a stand-in for the library, compiled next to its state. Tests of several
//! crates share this module; what only one of them needs is in that crate.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Two GPUs. The second has no power limit.
pub struct FakeGpus {
    dir: TempDir,
}

impl FakeGpus {
    /// Makes the library and its GPUs. Without a C compiler, prints the reason and returns `None`.
    pub fn new() -> Option<Self> {
        let gpus = Self { dir: tempfile::tempdir().expect("a directory") };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../power/tests/fake/nvml.c");
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-o"]).arg(gpus.library()).arg(source).arg("-ldl");
        match compile.output() {
            Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => {
                println!("skipped: no C compiler: {error}");
                return None;
            }
        }
        let first = [
            ("name", "NVIDIA H200"),
            ("uuid", "GPU-11111111-2222-3333-4444-555555555555"),
            ("power_mw", "120500"),
            ("energy_mj", "1000000"),
            ("limit_mw", "700000"),
            ("min_mw", "200000"),
            ("max_mw", "700000"),
            ("default_mw", "700000"),
            ("persistence", "0"),
        ];
        let second = [
            ("name", "Quadro P2000"),
            ("uuid", "GPU-66666666-7777-8888-9999-000000000000"),
            ("power_mw", "17250"),
            ("persistence", "1"),
            ("clock_mhz", "1720"),
            ("memory_mhz", "3504 810 405"),
            ("graphics_mhz", "1720 1240 1075 810 139"),
            ("graphics_mhz_405", "139"),
            ("applications_mhz", "1075 3504"),
        ];
        first.iter().for_each(|(name, value)| gpus.set(0, name, value));
        second.iter().for_each(|(name, value)| gpus.set(1, name, value));
        Some(gpus)
    }

    pub fn library(&self) -> PathBuf {
        self.dir.path().join("libnvidia-ml.so.1")
    }

    fn value(&self, gpu: u32, name: &str) -> PathBuf {
        self.dir.path().join(format!("gpu{gpu}/{name}"))
    }

    /// Writes atomically, because the library may be reading.
    pub fn set(&self, gpu: u32, name: &str, value: &str) {
        let (path, aside) = (self.value(gpu, name), self.value(gpu, &format!("{name}.new")));
        fs::create_dir_all(path.parent().expect("a GPU")).expect("made");
        fs::write(&aside, format!("{value}\n")).expect("written");
        fs::rename(aside, path).expect("renamed");
    }

    pub fn unset(&self, gpu: u32, name: &str) {
        fs::remove_file(self.value(gpu, name)).expect("removed");
    }

    pub fn read(&self, gpu: u32, name: &str) -> String {
        fs::read_to_string(self.value(gpu, name)).expect("readable").trim().to_owned()
    }
}
