//! Measures the reader of the Standard Workload Format: `swf_speed [FILE]`; without a file it reads 3,000,000 made-up
//! lines.

use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

use limo_trace::swf::{Options, Reader, load};

const LINES: usize = 3_000_000;

fn made_up() -> Result<(tempfile::TempDir, PathBuf), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("made-up.swf");
    let mut text = String::from("; MaxProcs: 80640\n");
    for job in 0..LINES {
        let (submit, run, processors) = (job * 7, 60 + job * 31 % 80_000, 1 + job * 13 % 512);
        writeln!(
            text,
            "{job} {submit} {} {run} {processors} -1 -1 {processors} 86400 -1 1 357 251 -1 1 10 -1 -1",
            job % 999
        )?;
    }
    std::fs::write(&path, text)?;
    Ok((folder, path))
}

fn main() -> Result<(), Box<dyn Error>> {
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let (_folder, path) = match given {
        Some(path) => (None, path),
        None => made_up().map(|(folder, path)| (Some(folder), path))?,
    };
    for _ in 0..3 {
        let start = Instant::now();
        let mut lines = 0_u32;
        for record in Reader::open(&path)? {
            record?;
            lines += 1;
        }
        let stream = start.elapsed();
        let start = Instant::now();
        let jobs = load(&path, Options::default())?.jobs.len();
        let load = start.elapsed();
        println!(
            "{lines} lines: {:.2} million lines/s as records, {:.2} million/s as a workload of {jobs} jobs",
            f64::from(lines) / stream.as_secs_f64() / 1e6,
            f64::from(lines) / load.as_secs_f64() / 1e6,
        );
    }
    Ok(())
}
