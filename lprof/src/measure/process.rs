//! Runs a command and takes the time. On emulated hardware the model runs beside it.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use limo_model::application;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::command_report::{CommandReport, REPORT_FD, ReportFile};
use super::recorder::MonotonicClock;
use super::window::TimeRange;
use crate::interrupt::{Event, Events, Interrupted};
use crate::machine::{EmulatedRunning, Testbed};

/// Time for an interrupted command to end before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// A command that is measured, with its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredCommand {
    /// Program and arguments; not empty.
    pub argv: Vec<String>,
    /// Name of the application.
    pub application: String,
    /// Size class; may be empty.
    pub size: String,
}

impl MeasuredCommand {
    /// Names a command: by the given words, otherwise by the command itself, for all users.
    ///
    /// # Errors
    /// If a name is invalid, or the command has none, such as a shell that reads its standard input.
    pub fn new(argv: Vec<String>, application: Option<String>, size: Option<String>) -> anyhow::Result<Self> {
        let derived = application::of_command(&argv);
        let application = match application {
            Some(name) => name,
            None => match application::command_of(&derived.application) {
                Some(command) => command.to_owned(),
                None => bail!("the command has no name for its profile: add `--app NAME`"),
            },
        };
        limo_model::check_name("application", &application)?;
        let size = size.unwrap_or(derived.size);
        if !size.is_empty() {
            limo_model::check_name("size class", &size)?;
        }
        Ok(Self { argv, application, size })
    }

    /// Returns the command on one line.
    pub fn shown(&self) -> String {
        self.argv.join(" ")
    }

    /// Runs the command this many times, one after another. Returns the time from the first start to the last end,
    /// and what the command reported in all.
    ///
    /// # Errors
    /// [`Interrupted`], if the command cannot be started, or if it fails.
    pub fn run(
        &self,
        times: u32,
        testbed: &Testbed,
        (events, clock): (&Events, MonotonicClock),
    ) -> anyhow::Result<(TimeRange, CommandReport)> {
        let mut range: Option<TimeRange> = None;
        let mut report = ReportFile::new().context("cannot make a temporary file")?;
        for _ in 0..times {
            let (begin, end, status) = self.run_once(testbed, &report, (events, clock))?;
            if !status.success() {
                bail!("`{}` failed with {status}; run it by hand, and measure it when it succeeds", self.shown());
            }
            let (begin_s, end_s) = (clock.seconds(begin), clock.seconds(end));
            range = Some(TimeRange { begin_s: range.map_or(begin_s, |range| range.begin_s), end_s });
        }
        Ok((range.context("no run")?, report.read().context("cannot read a temporary file")?))
    }

    fn run_once(
        &self,
        testbed: &Testbed,
        report: &ReportFile,
        (events, clock): (&Events, MonotonicClock),
    ) -> anyhow::Result<(Instant, Instant, ExitStatus)> {
        let mut command = Command::new(&self.argv[0]);
        command.args(&self.argv[1..]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        command.env(REPORT_FD, report.number().to_string());
        let key = (self.application.as_str(), self.size.as_str());
        let prepared = testbed.model().map(|mut model| model.prepare(key, &mut command)).transpose()?;
        let begin = Instant::now();
        let child = report
            .inherited(|| command.spawn())
            .and_then(|child| child)
            .with_context(|| format!("cannot run `{}`", self.argv[0]))?;
        let group = i32::try_from(child.id()).map(Pid::from_raw);
        let begun = |start| testbed.model().map(|mut model| model.begin(start, clock.now()));
        let running = prepared.and_then(begun);
        watch(child, events.sender());
        let ended = await_end(testbed, events, running, clock);
        if ended.is_err()
            && let Ok(group) = group
        {
            end(group, events);
        }
        if let Some(mut model) = testbed.model() {
            model.end(clock.now());
        }
        let (end, status) = ended?;
        Ok((begin, end, status.with_context(|| format!("cannot wait for `{}`", self.argv[0]))?))
    }
}

/// Reports the end of the child, at the instant when it was seen.
fn watch(mut child: std::process::Child, sender: Sender<Event>) {
    thread::spawn(move || {
        let status = child.wait();
        // Nobody waits after an error.
        let _ = sender.send(Event::Ended(Instant::now(), status));
    });
}

/// Waits for the end of the command. On emulated hardware tells it when its work is done.
fn await_end(
    testbed: &Testbed,
    events: &Events,
    mut running: Option<EmulatedRunning>,
    clock: MonotonicClock,
) -> Result<(Instant, std::io::Result<ExitStatus>), Interrupted> {
    loop {
        let now = (Instant::now(), clock.now());
        let done = testbed.model().and_then(|model| model.done_at(now.1));
        let deadline = done.map(|done| now.0 + done.saturating_sub(now.1));
        if let Some(ended) = events.wait(deadline)? {
            return Ok(ended);
        }
        if let (Some(mut model), Some(running)) = (testbed.model(), &mut running) {
            model.tell(running, clock.now());
        }
    }
}

/// Ends the processes of an interrupted command.
fn end(group: Pid, events: &Events) {
    for (signal, patience) in [(Signal::SIGTERM, GRACE), (Signal::SIGKILL, GRACE)] {
        // The group has ended if there is an error.
        let _ = killpg(group, signal);
        let limit = Instant::now() + patience;
        while Instant::now() < limit {
            // Further signals change nothing.
            if let Ok(Some(_)) = events.wait(Some(limit)) {
                return;
            }
        }
    }
}
