//! `lq logs`: prints the output file of a detached job, with the rights of its caller.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::time::Duration;

use limo_client::{Failure, Master, Patience, exit, until_over};
use limo_proto::{JobReport, Selector};

use crate::PROGRAM;

/// Interval between reads of a growing file, or checks for the start of a job.
const LOOK: Duration = Duration::from_millis(200);

/// Most bytes of one read.
const PIECE: usize = 64 * 1024;

/// Output to print, and true to continue until the job is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct What {
    pub stderr: bool,
    pub follow: bool,
}

/// Prints the output.
///
/// # Errors
/// If the job has no file, has not started, or the file is not on this machine.
pub async fn run(which: &[Selector], what: What, master: &Master, patience: Patience) -> Result<u8, Failure> {
    let ids = master.select(which, false).await?;
    let [id] = ids[..] else {
        return Err(Failure::new(format_args!(
            "{} jobs are selected, but logs prints the output of only one",
            ids.len()
        )));
    };
    let mut report = master.session().await?.job(id).await?;
    while what.follow && report.started.is_none() && report.end.is_none() {
        tokio::time::sleep(LOOK).await;
        report = master.session().await?.job(id).await?;
    }
    let mut log = Log::open(&report, what.stderr)?;
    if !what.follow {
        log.pass_on()?;
        return Ok(exit::DONE);
    }
    let over = until_over(PROGRAM, vec![id], master, patience);
    tokio::pin!(over);
    loop {
        if !log.pass_on()? {
            return Ok(exit::DONE);
        }
        tokio::select! {
            ended = &mut over => {
                ended?;
                log.pass_on()?;
                return Ok(exit::DONE);
            }
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

struct Log {
    path: String,
    file: File,
    at: u64,
}

impl Log {
    fn open(report: &JobReport, stderr: bool) -> Result<Self, Failure> {
        let id = report.job;
        let path = if stderr { &report.stderr } else { &report.stdout };
        let Some(path) = path.clone() else {
            return Err(match (report.started, report.end.is_some()) {
                (None, false) => Failure::new(format_args!("job {id} has not started yet"))
                    .hint(format_args!("type `lq logs -f {id}` to wait for it, or `lq explain {id}` for the reason")),
                (None, true) => Failure::new(format_args!("job {id} never ran")),
                _ => Failure::new(format_args!("job {id} has no file: its output went to its lrun")),
            });
        };
        let node = report.nodes.first().map_or("its node", String::as_str);
        match File::open(&path) {
            Ok(file) => Ok(Self { path, file, at: 0 }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(Failure::new(format_args!("the output of job {id} is not on this machine: on {node} it is {path}")))
            }
            Err(error) => Err(Failure::new(format_args!("cannot read {path}: {error}"))),
        }
    }

    /// Prints new bytes; returns false if stdout has no reader.
    fn pass_on(&mut self) -> Result<bool, Failure> {
        let cannot = |error: io::Error| Failure::new(format_args!("cannot read {}: {error}", self.path));
        if self.file.metadata().map_err(cannot)?.len() < self.at {
            // The job runs again, so its output starts again.
            self.at = self.file.seek(SeekFrom::Start(0)).map_err(cannot)?;
        }
        let mut piece = vec![0; PIECE];
        loop {
            let count = self.file.read(&mut piece).map_err(cannot)?;
            self.at += count as u64;
            if count == 0 {
                return Ok(true);
            }
            let mut stdout = io::stdout();
            match stdout.write_all(&piece[..count]).and_then(|()| stdout.flush()) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(false),
                Err(error) => return Err(Failure::new(format_args!("cannot write the answer: {error}"))),
            }
        }
    }
}
