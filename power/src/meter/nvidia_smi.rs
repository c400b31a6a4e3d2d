//! NVIDIA GPUs through `nvidia-smi`, for machines without their driver's library. All GPUs are added; one that does not
//! report its draw (`[N/A]`), or disappears, makes the meter fail, because it draws power.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use limo_model::Power;

use super::run::{LIMIT, succeeded};
use super::{Meter, MeterError, Reading, plausible};

const ARGUMENTS: [&str; 2] = ["--query-gpu=power.draw", "--format=csv,noheader,nounits"];

/// Draw of all GPUs.
#[derive(Debug)]
pub struct NvidiaSmi {
    program: PathBuf,
    /// Number of GPUs at the first reading.
    most: usize,
}

impl NvidiaSmi {
    /// Makes a meter. `program` is a path, or a name in `PATH`.
    pub fn new(program: &Path) -> Self {
        Self { program: program.to_owned(), most: 0 }
    }
}

impl Meter for NvidiaSmi {
    fn read(&mut self, _now: Duration) -> Result<Reading, MeterError> {
        let shown = format!("{} {}", self.program.display(), ARGUMENTS.join(" "));
        let mut command = Command::new(&self.program);
        command.args(ARGUMENTS);
        let ran = succeeded(command, &shown, LIMIT)?;
        let lines: Vec<&str> = ran.stdout.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let draws: Option<Vec<Power>> = lines.iter().map(|line| format!("{line} W").parse().ok()).collect();
        match draws {
            Some(draws) if !draws.is_empty() && draws.len() < self.most => {
                Err(MeterError::GpusGone { found: draws.len(), before: self.most })
            }
            Some(draws) if !draws.is_empty() => {
                self.most = draws.len();
                plausible(draws.into_iter().sum(), || format!("`{shown}`"))
            }
            _ => Err(MeterError::NoDraws { command: shown, printed: ran.shown() }),
        }
    }
}
