//! Tells the site about events of jobs: by a command, or by a POST to a web server. Decides nothing.
//!
//! An event is told at most once: it is lost if the master ends before it is told, or if too many wait. Events of one job
//! are told in their order.

use std::time::Duration;

use limo_feeds::fetch::{Fetcher, Post, Request};
use limo_model::{JobId, MailEvent, Span, clip_lossy};
use serde_json::json;
use tokio::process::Command;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::site_program::{ProgramLimits, run};

/// Most events that are told at a time.
const WORKERS: usize = 4;

/// Most events that wait for one worker.
const QUEUE: usize = 256;

/// Most bytes of output of a command that are read. Of stderr, they are logged if it fails.
const OUTPUT: usize = 4096;

/// The receiver of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Receiving {
    /// A command of the master's own settings, run by a shell with the event in its variables.
    Command(String),
    /// An address for a POST of JSON.
    Url(String),
}

/// The receiver in the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifySettings {
    pub to: Receiving,
    /// Time for one event.
    pub time_limit: Span,
    /// True if all jobs are told of, and not only those that ask for it.
    pub all: bool,
}

/// An event of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    pub event: MailEvent,
    pub job: JobId,
    pub name: String,
    pub user: String,
    /// The address to tell; that of the user if none was given.
    pub mail_user: String,
    pub state: &'static str,
    /// For a job that ran and is over.
    pub exit_code: Option<u8>,
}

/// An event, and the settings by which it is told.
#[derive(Debug)]
pub struct Errand {
    pub settings: NotifySettings,
    pub notification: Notification,
}

/// Passes events to the workers.
pub struct Messenger {
    workers: Vec<Sender<Errand>>,
    dropped: u64,
}

impl Messenger {
    pub fn start() -> Self {
        let worker = |_| {
            let (errands, queue) = channel(QUEUE);
            tokio::spawn(work(queue));
            errands
        };
        Self { workers: (0..WORKERS).map(worker).collect(), dropped: 0 }
    }

    /// Tells an event after the earlier ones of its job. Drops it if too many wait.
    pub fn tell(&mut self, errand: Errand) {
        let job = errand.notification.job;
        // The remainder is below the number of workers.
        let worker = usize::try_from(job.0 % WORKERS as u64).unwrap_or(0);
        if self.workers[worker].try_send(errand).is_err() {
            self.dropped += 1;
            if self.dropped.is_power_of_two() {
                tracing::warn!(%job, dropped = self.dropped, "events of jobs were not told: more than {QUEUE} wait");
            }
        }
    }
}

async fn work(mut queue: Receiver<Errand>) {
    while let Some(Errand { settings, notification }) = queue.recv().await {
        if let Err(reason) = tell(&settings, &notification).await {
            let (job, event) = (notification.job, notification.event);
            tracing::warn!(%job, %event, "the event was not told: {reason}");
        }
    }
}

async fn tell(settings: &NotifySettings, of: &Notification) -> Result<(), String> {
    match &settings.to {
        Receiving::Command(command) => run_command(command, settings.time_limit, of).await,
        Receiving::Url(url) => {
            let limit = Duration::from_millis(u64::try_from(settings.time_limit.ms()).unwrap_or(0));
            let fetcher = Fetcher::new(limit, None).map_err(|error| error.to_string())?;
            let request = Request::get(url).posting(Post::Json(body(of)));
            fetcher.fetch(&request).await.map(drop).map_err(|error| error.to_string())
        }
    }
}

fn body(of: &Notification) -> String {
    let Notification { event, job, name, user, mail_user, state, exit_code } = of;
    json!({
        "schema": 1, "event": event.to_string(), "job": job.0, "name": name, "user": user, "mail_user": mail_user,
        "state": state, "exit_code": exit_code,
    })
    .to_string()
}

async fn run_command(text: &str, time: Span, of: &Notification) -> Result<(), String> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", text]);
    let failed = |reason: &str| format!("the command `{text}` {reason}");
    let limits = ProgramLimits { time, stdout: OUTPUT, stderr: OUTPUT };
    let ended = run(command, &variables(of), (b"", limits)).await.map_err(|reason| failed(&reason))?;
    match ended.status.success() {
        true => Ok(()),
        false => {
            Err(format!("{}: {}", failed(&format!("failed with {}", ended.status)), clip_lossy(&ended.stderr, 200)))
        }
    }
}

fn variables(of: &Notification) -> [(&'static str, String); 7] {
    [
        ("LIMO_EVENT", of.event.to_string()),
        ("LIMO_JOB_ID", of.job.to_string()),
        ("LIMO_JOB_NAME", of.name.clone()),
        ("LIMO_JOB_USER", of.user.clone()),
        ("LIMO_MAIL_USER", of.mail_user.clone()),
        ("LIMO_JOB_STATE", of.state.to_owned()),
        ("LIMO_EXIT_CODE", of.exit_code.map(|code| code.to_string()).unwrap_or_default()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notification() -> Notification {
        Notification {
            event: MailEvent::Fail,
            job: JobId(7),
            name: "it's".into(),
            user: "ada".into(),
            mail_user: "ada@example.org".into(),
            state: "failed",
            exit_code: Some(3),
        }
    }

    #[tokio::test]
    async fn a_command_has_the_event_in_its_variables() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("told");
        let names =
            "$LIMO_EVENT $LIMO_JOB_ID $LIMO_JOB_NAME $LIMO_JOB_USER $LIMO_MAIL_USER $LIMO_JOB_STATE $LIMO_EXIT_CODE";
        let command = format!("echo \"{names}\" > {}", file.display());
        run_command(&command, Span::from_secs(60), &notification()).await.expect("run");
        let told = std::fs::read_to_string(&file).expect("written");
        assert_eq!(told, "FAIL 7 it's ada ada@example.org failed 3\n");
        let failed = run_command("echo no >&2; exit 3", Span::from_secs(60), &notification()).await;
        assert_eq!(failed, Err("the command `echo no >&2; exit 3` failed with exit status: 3: no\n".into()));
        let slow = run_command("sleep 1000", Span::from_ms(100), &notification()).await;
        assert_eq!(slow, Err("the command `sleep 1000` did not end within 100ms and was killed".into()));
    }

    #[tokio::test]
    async fn events_that_no_queue_has_room_for_are_dropped() {
        let mut messenger = Messenger::start();
        let settings =
            NotifySettings { to: Receiving::Command("sleep 1000".into()), time_limit: Span::from_secs(60), all: true };
        // The worker has not run yet.
        for _ in 0..QUEUE + 3 {
            messenger.tell(Errand { settings: settings.clone(), notification: notification() });
        }
        assert_eq!(messenger.dropped, 3);
    }
}
