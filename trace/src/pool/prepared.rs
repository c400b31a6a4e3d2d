//! Prepared files of a pool: `jobs.csv` and `sessions.csv`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use limo_files::Outlasts;

use super::error::PoolError;
use super::job::{Outcome, PoolJob};

/// First line of prepared jobs.
pub(super) const JOBS: &str = "id,batch,submit,duration,user,result,removed,bytes_in,bytes_out\n";

/// First line of prepared sessions.
pub(super) const SESSIONS: &str = "login,logout,computer,user\n";

/// Writes a file atomically, gzipped if its name ends in `.gz`.
///
/// # Errors
/// The error of `write`, or [`PoolError::Write`]; an earlier file of that name is then unchanged.
pub(super) fn file(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<(), PoolError>) -> Result<(), PoolError> {
    let gzip = path.extension().is_some_and(|extension| extension == "gz");
    let mut fault = None;
    let mut kept = |result: Result<(), PoolError>| {
        result.map_err(|error| {
            fault = Some(error);
            io::Error::other("an error that is reported instead")
        })
    };
    let written = limo_files::replace(path, 0o666, Outlasts::Crash, |file: &mut File| {
        if gzip {
            let mut packed = GzEncoder::new(BufWriter::new(file), Compression::fast());
            kept(write(&mut packed))?;
            packed.finish()?.flush()
        } else {
            let mut plain = BufWriter::new(file);
            kept(write(&mut plain))?;
            plain.flush()
        }
    });
    written.map_err(|source| match fault {
        Some(fault) => fault,
        None => PoolError::Write { file: path.display().to_string(), source },
    })
}

/// Writes the first line of prepared jobs.
pub(super) fn jobs_head(out: &mut dyn Write) -> io::Result<()> {
    out.write_all(JOBS.as_bytes())
}

/// Writes the line of a job.
pub(super) fn job(out: &mut dyn Write, job: &PoolJob) -> io::Result<()> {
    write!(out, "{}.{},{},{},", job.batch, job.process, job.batch, job.submit)?;
    let removed = match job.outcome {
        Outcome::Completed { duration } => {
            write!(out, "{duration},")?;
            None
        }
        Outcome::Removed { at } => {
            out.write_all(b",")?;
            Some(at)
        }
    };
    cell(out, &job.user)?;
    out.write_all(if removed.is_some() { b",removed" } else { b",completed" })?;
    for number in [removed, job.bytes_in, job.bytes_out] {
        match number {
            Some(number) => write!(out, ",{number}")?,
            None => out.write_all(b",")?,
        }
    }
    out.write_all(b"\n")
}

/// Writes a text, in quotes if it needs them.
pub(super) fn cell(out: &mut dyn Write, text: &[u8]) -> io::Result<()> {
    if !text.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        return out.write_all(text);
    }
    out.write_all(b"\"")?;
    for part in text.split_inclusive(|byte| *byte == b'"') {
        out.write_all(part)?;
        if part.ends_with(b"\"") {
            out.write_all(b"\"")?;
        }
    }
    out.write_all(b"\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(outcome: Outcome, user: &str) -> String {
        let user = user.as_bytes().to_vec();
        let (global, changed, bytes_out) = (Vec::new(), 0, None);
        let one =
            PoolJob { submit: 9, batch: 7, process: 3, global, changed, outcome, user, bytes_in: Some(1), bytes_out };
        let mut text = Vec::new();
        job(&mut text, &one).expect("memory");
        String::from_utf8(text).expect("UTF-8")
    }

    #[test]
    fn lines_of_jobs() {
        assert_eq!(line(Outcome::Completed { duration: 5 }, "ann"), "7.3,7,9,5,ann,completed,,1,\n");
        assert_eq!(line(Outcome::Removed { at: 99 }, ""), "7.3,7,9,,,removed,99,1,\n");
        assert_eq!(
            line(Outcome::Completed { duration: 0 }, "a,\"b\"\n"),
            "7.3,7,9,0,\"a,\"\"b\"\"\n\",completed,,1,\n"
        );
    }
}
