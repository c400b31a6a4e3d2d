//! `cargo xtask ptx`: compiles the kernels of `lud-cuda` to PTX, which every driver compiles for its GPU.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// The compiler. Another version writes other bytes.
const CLANG: &str = "clang-15";

const SOURCE: &str = "lprof/src/apps/lud/lud.k";

const PTX: &str = "lprof/src/apps/lud/lud.ptx";

/// Options that make CUDA C without NVIDIA's headers, for Pascal and all later GPUs, with tiles of 64.
const OPTIONS: [&str; 13] = [
    "-xcuda",
    "--cuda-device-only",
    "--cuda-gpu-arch=sm_60",
    "-nocudainc",
    "-nocudalib",
    "-include",
    "__clang_cuda_builtin_vars.h",
    "-D__global__=__attribute__((global))",
    "-D__shared__=__attribute__((shared))",
    "-DT=64",
    "-O3",
    "-S",
    "-o-",
];

/// Writes the file.
///
/// # Errors
/// If the compiler cannot be run or fails, or the file cannot be written.
pub fn run() -> Result<()> {
    workspace::write(PTX, &compile()?)
}

fn compile() -> Result<String> {
    let output = Command::new(CLANG).args(OPTIONS).arg(SOURCE).current_dir(workspace::root()?).output();
    let output = output.with_context(|| format!("cannot run {CLANG} (`apt install {CLANG}`)"))?;
    ensure!(output.status.success(), "{CLANG} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).with_context(|| format!("{CLANG} wrote no text"))
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::fs;

    use limo_requirements::{Requirement, skip};

    use super::*;

    /// Variable with paths of `ptxas`, separated by colons.
    const PTXAS: &str = "LIMO_PTXAS";

    #[test]
    fn the_ptx_is_that_of_the_kernels() {
        if let Err(error) = Command::new(CLANG).arg("--version").output() {
            return skip(Requirement::Program, &format!("no {CLANG}: {error}"));
        }
        let found = fs::read_to_string(workspace::root().unwrap().join(PTX)).unwrap();
        assert!(found == compile().unwrap(), "{PTX} is not that of {SOURCE}: run `cargo xtask ptx`");
    }

    /// Returns the GPUs that an assembler of this version can assemble for, from Pascal (6.0) on.
    fn architectures(version: &str) -> &'static [&'static str] {
        match version.split_once("release ").map_or("", |(_, release)| release.split('.').next().unwrap_or("")) {
            "12" => &["sm_60", "sm_61", "sm_90"],
            // CUDA 13 has dropped all before Turing.
            "13" => &["sm_75", "sm_90", "sm_100"],
            _ => &["sm_75"],
        }
    }

    #[test]
    fn nvidias_assembler_takes_the_ptx() {
        let assemblers = env::var(PTXAS).unwrap_or_else(|_| "ptxas".to_owned());
        for assembler in assemblers.split(':') {
            let version = match Command::new(assembler).arg("--version").output() {
                Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
                Err(error) => {
                    let hint = format!("{PTXAS} may name it; the Python package nvidia-cuda-nvcc-cu12 has it");
                    return skip(Requirement::Program, &format!("no {assembler}: {error}; {hint}"));
                }
            };
            for architecture in architectures(&version) {
                let mut assemble = Command::new(assembler);
                assemble.args(["-v", "-arch", architecture, "-o", "/dev/null", PTX]);
                let output = assemble.current_dir(workspace::root().unwrap()).output().unwrap();
                let text = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{assembler} for {architecture}: {text}");
                println!("{assembler} for {architecture}:\n{text}");
            }
        }
    }
}
