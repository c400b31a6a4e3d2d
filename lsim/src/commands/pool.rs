//! `lsim import htcondor|logins|fta` and `lsim sanitise`: files of pools whose computers have owners.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use jiff::tz::TimeZone;
use limo_trace::pool::{self, PoolClock, Pseudonyms, Sessions, Transfers};

#[derive(Debug, clap::Subcommand)]
pub enum PoolImport {
    /// Jobs of HTCondor: history files, condor_history -long, -xml, -json or -jsonl, event logs in text, XML or JSON
    Htcondor(HtcondorImport),
    /// Sessions of users, from a dump of logins and one of logouts: time,computer,user
    Logins(LoginImport),
    /// Sessions of users, from an event_trace of the Failure Trace Archive
    Fta(FtaImport),
}

/// Options for dates in event logs and dumps.
#[derive(Debug, clap::Args)]
struct Dates {
    /// Time zone of dates without one, such as Europe/London
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = zone)]
    zone: TimeZone,
    /// Year of the first event, for dates without a year
    #[arg(long, value_name = "YEAR", value_parser = clap::value_parser!(i16).range(1970..=9998))]
    year: Option<i16>,
}

impl Dates {
    fn clock(&self) -> PoolClock {
        PoolClock::new(self.zone.clone(), self.year)
    }
}

fn zone(name: &str) -> Result<TimeZone, String> {
    let hint = "write a name such as Europe/London, which this machine must know";
    TimeZone::get(name).map_err(|_| format!("there is no time zone `{name}`: {hint}"))
}

#[derive(Debug, clap::Args)]
pub struct HtcondorImport {
    /// Histories and event logs of one pool, plain or gzipped; event logs in order of time
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// File to write: id,batch,submit,duration,user,result,removed,bytes_in,bytes_out; gzipped if its name ends in .gz
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Rules of a paper: with 2015, BytesSent is the input, as in Table II of htc-sim-2015
    #[arg(long, value_name = "RULES")]
    compat: Option<TransferRules>,
    #[command(flatten)]
    dates: Dates,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum TransferRules {
    #[value(name = "2015")]
    Compat2015,
}

#[derive(Debug, clap::Args)]
pub struct LoginImport {
    /// Dump of logins, plain or gzipped, in any order
    #[arg(value_name = "LOGINS")]
    logins: PathBuf,
    /// Dump of logouts
    #[arg(value_name = "LOGOUTS")]
    logouts: PathBuf,
    #[command(flatten)]
    written: WrittenSessions,
    /// File with 16 to 4096 secret bytes; users are written as pseudonyms
    #[arg(long, value_name = "FILE")]
    salt: Option<PathBuf>,
    #[command(flatten)]
    dates: Dates,
}

#[derive(Debug, clap::Args)]
pub struct FtaImport {
    /// event_trace of nine columns, plain or gzipped
    #[arg(value_name = "FILE")]
    trace: PathBuf,
    #[command(flatten)]
    written: WrittenSessions,
    /// Reasons that stand for a user
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2,3")]
    reasons: Vec<i64>,
}

#[derive(Debug, clap::Args)]
struct WrittenSessions {
    /// File to write: login,logout,computer,user; gzipped if its name ends in .gz
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

impl WrittenSessions {
    fn write(&self, sessions: &Sessions) -> Result<()> {
        sessions.write(&self.output)?;
        println!("{}: {} sessions", self.output.display(), sessions.sessions.len());
        Ok(())
    }
}

#[derive(Debug, clap::Args)]
pub struct Sanitising {
    /// Histories and event logs, plain or gzipped
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// File to write, which `lsim import htcondor` reads; gzipped if its name ends in .gz
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// File with 16 to 4096 secret bytes; equal names have equal pseudonyms with the same file
    #[arg(long, value_name = "FILE")]
    salt: PathBuf,
    #[command(flatten)]
    dates: Dates,
}

/// Writes prepared jobs or sessions.
///
/// # Errors
/// If a file cannot be read or written.
pub fn import(import: &PoolImport) -> Result<()> {
    match import {
        PoolImport::Htcondor(arguments) => {
            let transfers = match arguments.compat {
                None => Transfers::OfJob,
                Some(TransferRules::Compat2015) => Transfers::Compat2015,
            };
            let clock = arguments.dates.clock();
            let tally = pool::htcondor(&arguments.files, &arguments.output, transfers, clock)?;
            tally.notes().iter().for_each(|note| eprintln!("lsim: note: {note}"));
            println!("{}: {} jobs of {} records", arguments.output.display(), tally.jobs, tally.records);
            Ok(())
        }
        PoolImport::Logins(arguments) => {
            let pseudonyms = arguments.salt.as_deref().map(Pseudonyms::from_file).transpose()?;
            let (mut sessions, tally) = pool::logins(&arguments.logins, &arguments.logouts, arguments.dates.clock())?;
            pseudonyms.iter().for_each(|pseudonyms| sessions.hide(pseudonyms));
            eprintln!("lsim: note: {tally}");
            arguments.written.write(&sessions)
        }
        PoolImport::Fta(arguments) => {
            let (sessions, tally) = pool::fta(&arguments.trace, &arguments.reasons)?;
            eprintln!("lsim: note: {tally}");
            arguments.written.write(&sessions)
        }
    }
}

/// Writes the sanitised records.
///
/// # Errors
/// If a file cannot be read or written.
pub fn sanitise(arguments: &Sanitising) -> Result<ExitCode> {
    let pseudonyms = Pseudonyms::from_file(&arguments.salt)?;
    let clock = arguments.dates.clock();
    let records = pool::sanitise(&arguments.files, &arguments.output, &pseudonyms, clock)?;
    println!("{}: {records} records", arguments.output.display());
    Ok(ExitCode::SUCCESS)
}
