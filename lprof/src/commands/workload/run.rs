//! `lprof workload run`: sends a workload to an executor and prints the figures of the session.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use serde::Serialize;

use super::source::Source;
use crate::apps::{self, Entry};
use crate::commands::serve::{ADDRESS, loopback};
use crate::measure::command_report::CommandReport;
use crate::quantity::si;
use crate::session::generator::{self, Sent};
use crate::session::wire::StreamInit;

/// Time to connect to an executor; a full queue of generators takes longer.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Longest time in which an executor takes nothing, because its job takes so long.
const STALL_LIMIT: Duration = Duration::from_secs(3600);

/// Time for the command of an executor to end after its session.
const EXIT_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub struct Run {
    #[command(flatten)]
    source: Source,
    /// Application that processes the packages: `lprof apps` lists them
    #[arg(long, value_name = "NAME", value_parser = application)]
    app: &'static Entry,
    /// Name of the session, for logs; words KEY=VALUE in it are options of the application
    #[arg(long, value_name = "TEXT", default_value = "")]
    name: String,
    /// Address of the executor, on this machine
    #[arg(long, value_name = "ADDRESS", default_value = ADDRESS)]
    connect: SocketAddr,
    /// Command whose standard input and output are the executor, such as 'lrun -w n1 lprof serve --stdio'
    #[arg(long, value_name = "COMMAND", conflicts_with = "connect")]
    stdio: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Figures of a session, with units in their names.
#[derive(Debug, Serialize)]
struct RunFigures<'a> {
    schema: u32,
    application: &'a str,
    name: &'a str,
    packages: u64,
    content_bytes: u64,
    start: String,
    end: String,
    duration_s: f64,
    packages_per_s: f64,
    bytes_per_s: f64,
    behind_s: f64,
}

impl Run {
    /// Returns the names of the application and of the workload, which is that of its file; `None` for standard input.
    pub fn names(&self) -> Option<(String, String)> {
        let path = self.source.path();
        let workload = path.file_stem().filter(|_| path != Path::new("-"))?;
        Some((self.app.name.to_owned(), workload.to_str()?.to_owned()))
    }
}

fn application(name: &str) -> Result<&'static Entry, String> {
    let names = || apps::ALL.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
    apps::named(name).ok_or_else(|| format!("possible applications: {}", names()))
}

/// Runs the session.
///
/// # Errors
/// If the executor cannot be reached or the session fails.
pub fn run(arguments: &Run) -> Result<ExitCode> {
    let init = StreamInit::new(arguments.app.id, &arguments.name)?;
    let sent = match &arguments.stdio {
        Some(command) => by_command(arguments, &init, command)?,
        None => by_address(arguments, &init)?,
    };
    reported(&sent).send()?;
    let figures = figures(arguments, &sent);
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
    } else {
        print!("{}", told(&figures));
    }
    Ok(ExitCode::SUCCESS)
}

fn by_address(arguments: &Run, init: &StreamInit) -> Result<Sent> {
    let address = loopback(arguments.connect)?;
    let hint = || format!("cannot connect to {address}; start `lprof serve` there");
    let output = TcpStream::connect_timeout(&address, CONNECT_LIMIT).with_context(hint)?;
    output.set_nodelay(true).context("cannot set up the connection")?;
    output.set_write_timeout(Some(STALL_LIMIT)).context("cannot set up the connection")?;
    let input = output.try_clone().context("cannot copy the socket")?;
    send(arguments, init, input, output)
}

fn by_command(arguments: &Run, init: &StreamInit, command: &str) -> Result<Sent> {
    let words = shell_words::split(command).with_context(|| format!("--stdio {command:?} is not a command"))?;
    let [program, rest @ ..] = words.as_slice() else { bail!("--stdio has no command") };
    let mut executor = Command::new(program);
    executor.args(rest).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut executor = Executor(executor.spawn().with_context(|| format!("cannot run {program}"))?);
    let (Some(output), Some(input)) = (executor.0.stdin.take(), executor.0.stdout.take()) else {
        bail!("{program} has no standard input or output");
    };
    send(arguments, init, input, output)
}

/// The command that is the executor. Its input has ended when this is dropped, so it ends by itself, or is killed.
struct Executor(Child);

impl Drop for Executor {
    fn drop(&mut self) {
        let begin = Instant::now();
        while begin.elapsed() < EXIT_LIMIT && matches!(self.0.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(5));
        }
        // If it has ended, there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn send(arguments: &Run, init: &StreamInit, input: impl Read + Send + 'static, output: impl Write) -> Result<Sent> {
    let mut workload = arguments.source.open()?;
    Ok(generator::run(&mut workload, init, input, output)?)
}

/// Returns what an `lprof` that measures this session stores.
fn reported(sent: &Sent) -> CommandReport {
    let lud = sent.sums.figures().lud;
    let jobs = sent.packages as f64;
    CommandReport {
        kernel_s: None,
        jobs: Some(jobs),
        operations: lud.as_ref().map(|lud| lud.total_op),
        rows: lud.map(|lud| lud.mean_dimension * jobs),
    }
}

fn figures<'a>(arguments: &'a Run, sent: &Sent) -> RunFigures<'a> {
    let time = |time| Timestamp::try_from(time).map_or_else(|_| "unknown".to_owned(), |time| format!("{time:.6}"));
    let duration_s = sent.duration.as_secs_f64();
    RunFigures {
        schema: 1,
        application: arguments.app.name,
        name: &arguments.name,
        packages: sent.packages,
        content_bytes: sent.bytes,
        start: time(sent.start),
        end: time(sent.end),
        duration_s,
        packages_per_s: sent.packages as f64 / duration_s.max(1e-9),
        bytes_per_s: sent.bytes as f64 / duration_s.max(1e-9),
        behind_s: sent.behind.as_secs_f64(),
    }
}

fn told(figures: &RunFigures) -> String {
    let mut text = format!("application  {}\n", figures.application);
    text += &format!("packages     {}, {}\n", figures.packages, si(figures.content_bytes as f64, "B"));
    text += &format!("start        {}\n", figures.start);
    text += &format!("end          {}\n", figures.end);
    text += &format!("duration     {:.6} s\n", figures.duration_s);
    let [jobs, bytes] = [si(figures.packages_per_s, "jobs/s"), si(figures.bytes_per_s, "B/s")];
    text += &format!("throughput   {jobs}, {bytes}\n");
    text += &format!("behind       {:.6} s at most\n", figures.behind_s);
    text
}
