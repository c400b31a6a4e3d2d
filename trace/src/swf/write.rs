//! Writes a workload in the Standard Workload Format, so that reading it gives the same jobs.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use limo_files::Outlasts;
use limo_model::decimal::text;

use super::error::WriteError;
use crate::compact::CompactSpan;
use crate::workload::{Job, Workload};

/// Writes to `path` atomically, gzipped if its name ends in `.gz`.
///
/// # Errors
/// [`WriteError`] if the file cannot be written; an earlier file of that name is then unchanged.
pub fn write(path: &Path, workload: &Workload) -> Result<(), WriteError> {
    let gzip = path.extension().is_some_and(|extension| extension == "gz");
    let written = limo_files::replace(path, 0o666, Outlasts::Crash, |file| write_file(file, workload, gzip));
    written.map_err(|source| WriteError { file: path.display().to_string(), source })
}

fn write_file(file: &mut File, workload: &Workload, gzip: bool) -> io::Result<()> {
    let mut file = if gzip {
        let mut packed = GzEncoder::new(BufWriter::new(file), Compression::default());
        write_to(&mut packed, workload)?;
        packed.finish()?
    } else {
        let mut plain = BufWriter::new(file);
        write_to(&mut plain, workload)?;
        plain
    };
    file.flush()
}

/// Writes the text of the format.
///
/// # Errors
/// The errors of `out`.
pub fn write_to(out: &mut impl Write, workload: &Workload) -> io::Result<()> {
    writeln!(out, "; Version: 2.2")?;
    writeln!(out, "; MaxJobs: {}", workload.jobs.len())?;
    writeln!(out, "; MaxRecords: {}", workload.jobs.len())?;
    if let Some(start) = workload.start {
        writeln!(out, "; UnixStartTime: {}", thousandths(start.unix_ms()))?;
    }
    if let Some(processors) = workload.processors {
        writeln!(out, "; MaxProcs: {processors}")?;
    }
    for note in &workload.notes {
        // A note is written on one line, whatever its text.
        writeln!(out, "; Note: {}", note.replace(['\n', '\r'], " "))?;
    }
    let mut line = String::with_capacity(128);
    for job in &workload.jobs {
        line.clear();
        append(&mut line, job);
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

/// Formats thousandths as the shortest decimal: `1500` is `1.5`.
fn thousandths(value: i64) -> String {
    text(value.into(), 3)
}

fn append(line: &mut String, job: &Job) {
    use std::fmt::Write as _;
    let known = |span: Option<CompactSpan>| thousandths(span.map_or(-1_000, |span| span.span().ms()));
    // Writing to a `String` cannot fail.
    let _ = writeln!(
        line,
        "{} {} {} {} {} -1 -1 {} {} -1 -1 {} -1 {} {} -1 -1 -1",
        job.number,
        thousandths(job.submit.ms()),
        known(job.wait),
        thousandths(job.run.ms()),
        job.processors,
        job.processors,
        known(job.walltime),
        job.user,
        job.application,
        job.queue,
    );
}

#[cfg(test)]
mod tests {
    use std::fs;

    use limo_model::Span;

    use super::*;
    use crate::swf::{Options, load};
    use limo_model::Time;

    fn workload() -> Workload {
        let job = Job {
            number: 7,
            submit: Span::from_ms(100),
            wait: Some(CompactSpan::of(Span::from_secs(3))),
            run: Span::from_secs(60),
            walltime: Some(CompactSpan::of(Span::from_secs(120))),
            processors: 16,
            user: 4,
            application: -1,
            queue: -1,
            treatment: crate::workload::Treatment::default(),
            chunks: None,
            moldable: None,
            removed: None,
            bytes: None,
        };
        let bare = Job { number: 8, submit: Span::from_secs(9), wait: None, walltime: None, user: -1, ..job };
        Workload {
            jobs: vec![job, bare],
            start: Some(Time::from_unix_ms(843_480_031_000)),
            processors: Some(100),
            ..Workload::default()
        }
    }

    #[test]
    fn the_text() {
        let mut out = Vec::new();
        write_to(&mut out, &workload()).expect("memory");
        let expected = "; Version: 2.2\n; MaxJobs: 2\n; MaxRecords: 2\n; UnixStartTime: 843480031\n; MaxProcs: 100\n\
            7 0.1 3 60 16 -1 -1 16 120 -1 -1 4 -1 -1 -1 -1 -1 -1\n\
            8 9 -1 60 16 -1 -1 16 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1\n";
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }

    #[test]
    fn written_and_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["w.swf", "w.swf.gz"] {
            let path = folder.path().join(name);
            write(&path, &workload()).expect("written");
            let mut read = load(&path, Options::default()).expect("read");
            assert_eq!(read.notes, ["1 jobs have no requested time (field 9): no limit on their run"]);
            read.notes.clear();
            assert_eq!(read, workload());
        }
        assert_eq!(fs::read(folder.path().join("w.swf.gz")).expect("bytes")[..2], [0x1f, 0x8b]);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);
    }

    #[test]
    fn a_failure_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("taken");
        fs::create_dir(&path).expect("a folder");
        let error = write(&path, &workload()).expect_err("a folder stands there");
        assert!(error.to_string().ends_with("taken: writing failed"));
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}
