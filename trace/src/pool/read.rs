//! Reads the prepared files of a pool: `jobs.csv` and `sessions.csv`, plain or gzipped.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use csv::{ByteRecord, ReaderBuilder};
use limo_model::decimal::Decimal;
use limo_model::{Span, Time};

use super::error::PoolError;
use super::prepared::{JOBS, SESSIONS};
use super::session::{NameTable, Session, Sessions};
use crate::compact::{CompactSpan, Index};
use crate::input::{shown, unpacked};
use crate::workload::{Job, Treatment, Workload};

/// Most jobs of a file.
const JOB_LIMIT: usize = 50_000_000;
/// Most sessions of a file.
const SESSION_LIMIT: usize = 50_000_000;
const DAY_MS: i64 = 86_400_000;
/// Running time of a job that ends only when it is removed: a hundred years.
const FOR_EVER: Span = Span::from_secs(100 * 366 * 86_400);

/// Rows of a file with a known first line.
struct Rows {
    file: String,
    reader: csv::Reader<Box<dyn Read + Send>>,
    row: ByteRecord,
}

impl Rows {
    fn open(path: &Path, head: &'static str) -> Result<Self, PoolError> {
        let file = path.display().to_string();
        let opened = File::open(path).and_then(unpacked);
        let (source, _) = opened.map_err(|source| PoolError::Open { file: file.clone(), source })?;
        let reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(source);
        let mut rows = Self { file, reader, row: ByteRecord::new() };
        let wanted = head.trim_end();
        if !rows.advance()? || !rows.row.iter().eq(wanted.split(',').map(str::as_bytes)) {
            let value = shown(&rows.row.iter().collect::<Vec<_>>().join(&b','));
            return Err(PoolError::Head { file: rows.file, value, wanted });
        }
        Ok(rows)
    }

    fn line(&self) -> u64 {
        self.row.position().map_or(1, csv::Position::line)
    }

    /// Reads the next row; returns false at the end of the file.
    fn advance(&mut self) -> Result<bool, PoolError> {
        let read = self.reader.read_byte_record(&mut self.row);
        read.map_err(|error| {
            let (file, line) = (self.file.clone(), self.reader.position().line());
            match error.into_kind() {
                csv::ErrorKind::Io(source) if source.kind() == io::ErrorKind::UnexpectedEof => {
                    PoolError::Truncated { file, line }
                }
                csv::ErrorKind::Io(source) => PoolError::Read { file, line, source },
                other => PoolError::Record { file, line, reason: format!("{other:?}") },
            }
        })
    }

    /// Returns the cells, if they are as many as the first line has.
    fn cells<const N: usize>(&self, wanted: &'static str) -> Result<[&[u8]; N], PoolError> {
        let found = self.row.len();
        if found != N {
            return Err(PoolError::Cells { file: self.file.clone(), line: self.line(), found, wanted });
        }
        Ok(std::array::from_fn(|cell| self.row.get(cell).unwrap_or_default()))
    }

    fn wrong(&self, name: &'static str, value: &[u8], reason: &str) -> PoolError {
        let (file, line) = (self.file.clone(), self.line());
        PoolError::Cell { file, line, name, value: shown(value), reason: reason.to_owned() }
    }

    /// Returns milliseconds of a cell with seconds.
    fn seconds(&self, name: &'static str, value: &[u8]) -> Result<i64, PoolError> {
        let ms = Decimal::read(value).and_then(|seconds| seconds.rounded(3));
        let ms = ms.ok().filter(|ms: &i64| ms.unsigned_abs() < 1 << 53);
        ms.ok_or_else(|| self.wrong(name, value, "that is not a number of seconds"))
    }

    /// Returns the number of bytes of a cell, 0 if it is empty.
    fn bytes(&self, name: &'static str, value: &[u8]) -> Result<u64, PoolError> {
        let text = std::str::from_utf8(value).unwrap_or("?");
        let bytes = if text.is_empty() { Some(0) } else { text.parse().ok() };
        bytes.ok_or_else(|| self.wrong(name, value, "that is not a number of bytes"))
    }

    fn too_many(&self, what: &'static str, limit: usize) -> PoolError {
        PoolError::TooMany { file: self.file.clone(), line: self.line(), what, limit }
    }
}

/// Returns the last midnight (UTC).
fn midnight(ms: i64) -> Time {
    Time::from_unix_ms(ms.div_euclid(DAY_MS) * DAY_MS)
}

/// Returns true if a file begins as prepared jobs do.
pub fn is_jobs(path: &Path) -> bool {
    let read = |source: Box<dyn Read + Send>| {
        let mut start = Vec::new();
        source.take(JOBS.len() as u64).read_to_end(&mut start).map(|_| start)
    };
    let start = File::open(path).and_then(unpacked).and_then(|(source, _)| read(source));
    start.is_ok_and(|start| start == JOBS.as_bytes())
}

/// Reads prepared jobs; the workload starts at midnight (UTC). Each job takes a whole node, and may be suspended and run
/// again. A removed one never ends by itself.
///
/// # Errors
/// [`PoolError`] with file and line, if the file cannot be read, a cell is wrong, or the jobs are not in order.
pub fn jobs(path: &Path) -> Result<Workload, PoolError> {
    let mut rows = Rows::open(path, JOBS)?;
    let (mut workload, mut users, mut last) = (Workload::default(), NameTable::default(), i64::MIN);
    let treatment = Treatment { may_suspend: true, may_requeue: true, whole_unit: true, ..Treatment::default() };
    while rows.advance()? {
        let [_, _, submit, duration, user, result, removed, bytes_in, bytes_out] =
            rows.cells::<9>("9: id to bytes_out")?;
        let submitted = rows.seconds("submit", submit)?;
        if submitted < last {
            return Err(rows.wrong("submit", submit, "it is before the previous one: sort the jobs"));
        }
        last = submitted;
        let start = *workload.start.get_or_insert(midnight(submitted));
        let (run, removed) = match result {
            b"completed" => (Span::from_ms(rows.seconds("duration", duration)?), None),
            b"removed" => {
                let after = Span::from_ms(rows.seconds("removed", removed)? - submitted);
                (FOR_EVER, Some(after.max(Span::ZERO)))
            }
            other => return Err(rows.wrong("result", other, "expected `completed` or `removed`")),
        };
        if run < Span::ZERO {
            return Err(rows.wrong("duration", duration, "it is negative"));
        }
        if workload.jobs.len() >= JOB_LIMIT {
            return Err(rows.too_many("jobs", JOB_LIMIT));
        }
        let transfer = [rows.bytes("bytes_in", bytes_in)?, rows.bytes("bytes_out", bytes_out)?];
        let bytes = (transfer != [0, 0]).then(|| Index::of(workload.transfers.len()));
        workload.transfers.extend(bytes.map(|_| transfer));
        let user = users.index(user).and_then(|index| i32::try_from(index).ok()).unwrap_or(-1);
        workload.jobs.push(Job {
            number: i64::try_from(workload.jobs.len()).unwrap_or(i64::MAX) + 1,
            submit: Time::from_unix_ms(submitted) - start,
            wait: None,
            run,
            walltime: None,
            processors: 1,
            user,
            application: -1,
            queue: -1,
            treatment,
            chunks: None,
            moldable: None,
            removed: removed.map(CompactSpan::of),
            bytes,
        });
    }
    Ok(workload)
}

/// Reads prepared sessions, sorted by login.
///
/// # Errors
/// [`PoolError`] with file and line, if the file cannot be read, a cell is wrong, or the sessions are not in order.
pub fn sessions(path: &Path) -> Result<Sessions, PoolError> {
    let mut rows = Rows::open(path, SESSIONS)?;
    let mut read = Sessions::default();
    while rows.advance()? {
        let [login, logout, computer, user] = rows.cells::<4>("4: login,logout,computer,user")?;
        let (from, until) = (rows.seconds("login", login)?, rows.seconds("logout", logout)?);
        if read.sessions.last().is_some_and(|before| from < before.login) {
            return Err(rows.wrong("login", login, "it is before the previous one: sort the sessions"));
        }
        if until < from {
            return Err(rows.wrong("logout", logout, "it is before the login"));
        }
        if read.sessions.len() >= SESSION_LIMIT {
            return Err(rows.too_many("sessions", SESSION_LIMIT));
        }
        let names = read.computers.index(computer).zip(read.users.index(user));
        let (computer, user) = names.ok_or_else(|| rows.too_many("names", SESSION_LIMIT))?;
        read.sessions.push(Session { login: from, logout: until, computer, user });
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("f.csv");
        fs::write(&path, text).expect("written");
        (folder, path)
    }

    fn error(read: Result<impl Sized, PoolError>, folder: &tempfile::TempDir) -> String {
        let Err(error) = read else { panic!("an error") };
        error.to_string().replace(&format!("{}/", folder.path().display()), "")
    }

    #[test]
    fn jobs_and_their_errors() {
        let row = |rows: &str| file(&format!("{JOBS}{rows}"));
        let (_folder, path) = row("7.0,7,100,60.5,\"a,b\",completed,,1,\n7.1,7,160,,ann,removed,200,,\n");
        let workload = jobs(&path).expect("good");
        assert_eq!(workload.start, Some(Time::from_unix_ms(0)));
        let shown: Vec<_> = workload
            .jobs
            .iter()
            .map(|job| (job.submit, job.run, job.user, job.removed.map(CompactSpan::span)))
            .collect();
        let seconds = Span::from_secs;
        assert_eq!(
            shown,
            [(seconds(100), Span::from_ms(60_500), 0, None), (seconds(160), FOR_EVER, 1, Some(seconds(40)))]
        );
        for (rows, expected) in [
            ("7.0,7,100,60,a,completed\n", "f.csv:2: the line has 6 cells, but needs 9: id to bytes_out"),
            ("7.0,7,x,60,a,completed,,,\n", "f.csv:2: submit is `x`: that is not a number of seconds"),
            ("7.0,7,100,-1,a,completed,,,\n", "f.csv:2: duration is `-1`: it is negative"),
            ("7.0,7,100,1,a,held,,,\n", "f.csv:2: result is `held`: expected `completed` or `removed`"),
            (
                "7.0,7,100,1,a,completed,,,\n7.0,7,99,1,a,completed,,,\n",
                "f.csv:3: submit is `99`: it is before the previous one: sort the jobs",
            ),
        ] {
            let (folder, path) = row(rows);
            assert_eq!(error(jobs(&path), &folder), expected);
        }
        let (folder, path) = file("id,batch\n");
        let head = "f.csv: the first line is `id,batch`: expected `id,batch,submit,duration,user,result,removed,\
                    bytes_in,bytes_out`";
        assert_eq!(error(jobs(&path), &folder), head);
    }

    #[test]
    fn sessions_and_their_errors() {
        let row = |rows: &str| file(&format!("{SESSIONS}{rows}"));
        let (_folder, path) = row("1,2.5,a-1,ann\n2,9,a-2,\n");
        let read = sessions(&path).expect("good");
        let [one, other] = read.sessions[..] else { panic!("two: {read:?}") };
        assert_eq!((one.login, one.logout, read.computers.name(one.computer)), (1_000, 2_500, &b"a-1"[..]));
        assert_eq!((read.computers.name(other.computer), read.users.name(other.user)), (&b"a-2"[..], &b""[..]));
        for (rows, expected) in [
            ("2,1,a,b\n", "f.csv:2: logout is `1`: it is before the login"),
            ("2,3,a,b\n1,3,a,b\n", "f.csv:3: login is `1`: it is before the previous one: sort the sessions"),
            ("2,3\n", "f.csv:2: the line has 2 cells, but needs 4: login,logout,computer,user"),
        ] {
            let (folder, path) = row(rows);
            assert_eq!(error(sessions(&path), &folder), expected);
        }
    }
}
