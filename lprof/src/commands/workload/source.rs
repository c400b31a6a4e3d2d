//! A workload file as an argument.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::shown;
use crate::workload::format::{MAX_PACKAGE, Reader};
use crate::workload::summary::WorkloadSums;

/// Bytes that are read at a time.
const BUFFER: usize = 1 << 18;

#[derive(Debug, clap::Args)]
pub struct Source {
    /// Workload file; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Largest content of a package, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = MAX_PACKAGE)]
    max_package: u64,
}

impl Source {
    /// Returns the file's name for messages.
    pub fn name(&self) -> String {
        shown(&self.file)
    }

    /// Returns the path, as it was given.
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// Opens the file.
    pub fn open(&self) -> Result<Reader<Box<dyn BufRead>>> {
        let source: Box<dyn BufRead> = if self.file == Path::new("-") {
            Box::new(BufReader::with_capacity(BUFFER, io::stdin().lock()))
        } else {
            let file = File::open(&self.file).with_context(|| format!("cannot open {}", self.name()))?;
            Box::new(BufReader::with_capacity(BUFFER, file))
        };
        Ok(Reader::new(source, self.max_package))
    }

    /// Reads the whole file.
    pub fn summary(&self) -> Result<WorkloadSums> {
        let mut reader = self.open()?;
        let (mut summary, mut content) = (WorkloadSums::default(), Vec::new());
        while let Some(header) = reader.next_package(&mut content).with_context(|| self.name())? {
            summary.add(header.delay, header.size);
        }
        Ok(summary)
    }
}
