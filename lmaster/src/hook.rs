//! The submit hook: a program of the site that may change, refuse or comment on each submission before the master
//! decides about it. It gets the submission as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use limo_model::{Conditions, Cores, LicenceCount, Request, Span, clip, clip_lossy};
use limo_proto::SendExec;
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::site_program::{ProgramLimits, ProgramResult, run};

/// Most hooks that run at a time; others wait for their turn.
const AT_ONCE: usize = 16;

/// The same for one user, so that a user with many submissions leaves turns to others.
const AT_ONCE_PER_USER: usize = 4;

/// Most bytes of an answer.
const ANSWER_LIMIT: usize = 64 * 1024;

/// Most bytes of warnings, or of the reason of a refusal.
pub const WORDS_LIMIT: usize = 1024;

/// The number of the form of the JSON.
const SCHEMA: u32 = 1;

/// The hook of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmitHook {
    /// Absolute path. Only root and the daemon's user can change the file.
    pub path: PathBuf,
    /// Time after which it is killed.
    pub time_limit: Span,
}

/// The hook's answer.
#[derive(Debug, Default, PartialEq)]
pub struct HookAnswer {
    pub changes: HookChanges,
    /// Text for the user; empty without any.
    pub warning: String,
}

/// The hook's decision about a submission.
#[derive(Debug, PartialEq)]
pub enum Hooked {
    Accepted(Box<HookAnswer>),
    /// The reason, for the user.
    Refused(String),
}

/// Turns of running hooks.
#[derive(Debug)]
pub struct HookTurns {
    all: Arc<Semaphore>,
    users: Mutex<BTreeMap<u32, Arc<Semaphore>>>,
}

impl Default for HookTurns {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(AT_ONCE)), users: Mutex::default() }
    }
}

impl HookTurns {
    /// Waits for a turn of a user, which ends when the result is dropped.
    pub async fn take(&self, uid: u32) -> [Option<OwnedSemaphorePermit>; 2] {
        let own = {
            let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody holds or awaits a turn of these users.
            users.retain(|_, turns| Arc::strong_count(turns) > 1);
            Arc::clone(users.entry(uid).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE_PER_USER))))
        };
        // The semaphores are never closed.
        let own = own.acquire_owned().await.ok();
        [own, Arc::clone(&self.all).acquire_owned().await.ok()]
    }
}

/// The submission as the hook sees it. `null` means that nothing was requested.
#[derive(Debug, Serialize)]
struct Submission<'a> {
    schema: u32,
    user: &'a str,
    uid: u32,
    groups: &'a BTreeSet<String>,
    operator: bool,
    name: &'a str,
    application: &'a str,
    command: Vec<String>,
    directory: String,
    host: &'a str,
    queue: Option<&'a str>,
    account: Option<&'a str>,
    qos: Option<&'a str>,
    time_limit_s: Option<f64>,
    priority: i32,
    hold: bool,
    licences: Vec<String>,
    reservation: Option<&'a str>,
    nodes: u32,
    tasks: u32,
    /// Cores of each chunk; `null` means all of a unit.
    cores: Option<u32>,
    memory_bytes: u64,
    accelerators: u32,
    exclusive: bool,
    immediate: bool,
    requeue: bool,
    deadline_unix_ms: Option<i64>,
    array_tasks: Option<u32>,
    detached: bool,
}

/// Returns the input of the hook.
pub fn input((user, uid, operator): (&str, u32, bool), groups: &BTreeSet<String>, exec: &SendExec) -> Vec<u8> {
    let SendExec { request, launch, .. } = exec;
    let submission = Submission {
        schema: SCHEMA,
        user,
        uid,
        groups,
        operator,
        name: &request.name,
        application: &request.application,
        command: launch.argv.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect(),
        directory: String::from_utf8_lossy(&launch.cwd).into_owned(),
        host: &launch.origin.host,
        queue: request.queue.as_deref(),
        account: request.account.as_deref(),
        qos: request.qos.as_deref(),
        time_limit_s: request.time_limit.map(|limit| limit.secs()),
        priority: request.priority,
        hold: request.conditions.as_ref().is_some_and(|conditions| conditions.hold),
        licences: request.licences.iter().map(ToString::to_string).collect(),
        reservation: request.reservation.as_deref(),
        nodes: request.widths.map_or(request.nodes, |widths| widths.most).get(),
        tasks: request.spread.map_or(1, |spread| spread.tasks.get()),
        cores: match request.cores {
            Cores::Count(count) => Some(count.get()),
            Cores::All => None,
        },
        memory_bytes: request.memory.bytes(),
        accelerators: request.accelerators.map_or(0, |count| count.get()),
        exclusive: request.exclusive,
        immediate: request.immediate,
        requeue: request.may_requeue,
        deadline_unix_ms: request.deadline.map(|at| at.unix_ms()),
        array_tasks: launch.array.as_ref().map(|array| array.tasks.count()),
        detached: launch.io == limo_proto::Io::Detached,
    };
    // Texts, numbers and lists can always be written.
    serde_json::to_vec(&submission).unwrap_or_default()
}

/// Changes of a submission: fields that are not named stay as they are, and `null` removes a value.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HookChanges {
    name: Option<String>,
    #[serde(deserialize_with = "named")]
    queue: Option<Option<String>>,
    #[serde(deserialize_with = "named")]
    account: Option<Option<String>>,
    #[serde(deserialize_with = "named")]
    qos: Option<Option<String>>,
    #[serde(deserialize_with = "named")]
    time_limit_s: Option<Option<f64>>,
    priority: Option<i32>,
    hold: Option<bool>,
    licences: Option<Vec<String>>,
    #[serde(deserialize_with = "named")]
    reservation: Option<Option<String>>,
}

/// Tells a field that is `null` from one that is not named.
fn named<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// Longest time limit in seconds; a hundred years.
const LONGEST: f64 = 36_525.0 * 86_400.0;

impl HookChanges {
    /// Changes a request.
    ///
    /// # Errors
    /// The value that is not possible, as the rest of a sentence about the hook.
    pub fn apply(self, request: &mut Request) -> Result<(), String> {
        let Self { name, queue, account, qos, time_limit_s, priority, hold, licences, reservation } = self;
        if let Some(name) = name {
            request.name = name;
        }
        if let Some(queue) = queue {
            request.queue = queue;
        }
        if let Some(account) = account {
            request.account = account;
        }
        if let Some(qos) = qos {
            request.qos = qos;
        }
        if let Some(limit) = time_limit_s {
            let span = |seconds: f64| match seconds > 0.0 && seconds <= LONGEST {
                true => Ok(Span::from_ms((seconds * 1e3).ceil() as i64)),
                false => Err(format!("answered with a time_limit_s of {seconds}: it must be above 0")),
            };
            request.time_limit = limit.map(span).transpose()?;
        }
        if let Some(priority) = priority {
            request.priority = priority;
        }
        if let Some(hold) = hold {
            let before = request.conditions.take().unwrap_or_default();
            let conditions = Conditions { hold, ..*before };
            request.conditions = (conditions != Conditions::default()).then(|| Box::new(conditions));
        }
        if let Some(licences) = licences {
            let parsed = licences.iter().map(|text| text.parse()).collect::<Result<Vec<LicenceCount>, _>>();
            request.licences =
                parsed.map_err(|error| format!("answered with licences that are not possible: {error}"))?;
            request.licences.sort_unstable();
        }
        if let Some(reservation) = reservation {
            if let Some(name) = &reservation {
                limo_model::check_name("reservation", name).map_err(|error| format!("answered: {error}"))?;
            }
            request.reservation = reservation;
        }
        Ok(())
    }
}

impl SubmitHook {
    /// Runs the hook.
    ///
    /// # Errors
    /// If it cannot be run, exceeds a limit, is killed, or answers what Limo does not understand.
    pub async fn ask(&self, input: &[u8]) -> Result<Hooked, String> {
        let limits = ProgramLimits { time: self.time_limit, stdout: ANSWER_LIMIT, stderr: WORDS_LIMIT };
        decision(run(Command::new(&self.path), &[], (input, limits)).await?)
    }

    /// Returns a sentence about a fault of the hook.
    pub fn fault(&self, reason: &str) -> String {
        format!("the submit hook {} of the master {reason}", self.path.display())
    }
}

fn decision(ended: ProgramResult) -> Result<Hooked, String> {
    // First, because the rest of a long answer is not read, which may end the hook.
    if ended.stdout.len() > ANSWER_LIMIT {
        return Err(format!("answered with more than {ANSWER_LIMIT} bytes"));
    }
    let words = words(&ended.stderr);
    match ended.status.code() {
        Some(0) => {}
        Some(code) if words.is_empty() => {
            return Ok(Hooked::Refused(format!("the submit hook of the master refused the job with exit code {code}")));
        }
        Some(_) => return Ok(Hooked::Refused(words)),
        None => return Err(format!("was ended by signal {}", ended.status.signal().unwrap_or_default())),
    }
    let changes = match ended.stdout.trim_ascii() {
        [] => HookChanges::default(),
        text => serde_json::from_slice(text)
            .map_err(|error| format!("answered with wrong JSON: {}", clip(error.to_string(), 200)))?,
    };
    Ok(Hooked::Accepted(Box::new(HookAnswer { changes, warning: words })))
}

/// Returns the lines of a text without control characters.
fn words(bytes: &[u8]) -> String {
    let text = clip_lossy(bytes, WORDS_LIMIT);
    let line = |line: &str| line.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned();
    text.lines().map(line).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use limo_model::Request;

    use super::*;

    async fn answered(script: &str, time_limit: Span) -> Result<Hooked, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("hook");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("own file");
        SubmitHook { path, time_limit }.ask(b"{\"queue\": null}").await
    }

    const LONG: Span = Span::from_secs(60);

    #[tokio::test]
    async fn a_hook_changes_warns_and_refuses() {
        let said =
            answered("cat > /dev/null; echo '{\"queue\": \"short\"}'; echo slow >&2; echo ' queue' >&2", LONG).await;
        let Ok(Hooked::Accepted(answer)) = said else { panic!("{said:?}") };
        assert_eq!((answer.warning.as_str(), answer.changes.queue), ("slow; queue", Some(Some("short".into()))));
        assert_eq!(answered("exit 0", LONG).await, Ok(Hooked::Accepted(Box::default())), "it need not read");
        let refused = answered("echo 'no queue for you' >&2; exit 3", LONG).await;
        assert_eq!(refused, Ok(Hooked::Refused("no queue for you".into())));
        let silent = answered("exit 3", LONG).await;
        assert_eq!(
            silent,
            Ok(Hooked::Refused("the submit hook of the master refused the job with exit code 3".into()))
        );
    }

    #[tokio::test]
    async fn a_broken_hook_is_a_fault() {
        let check = |found: Result<Hooked, String>, expected: &str| {
            let fault = found.expect_err(expected);
            assert!(fault.starts_with(expected), "{fault}");
        };
        check(answered("echo '{\"quue\": 1}'", LONG).await, "answered with wrong JSON: unknown field `quue`");
        check(answered("echo hello", LONG).await, "answered with wrong JSON: expected value");
        check(answered("kill -9 $$", LONG).await, "was ended by signal 9");
        check(answered("yes | head -c 70000", LONG).await, "answered with more than 65536 bytes");
        check(answered("sleep 1000", Span::from_ms(100)).await, "did not end within 100ms and was killed");
        let missing = SubmitHook { path: "/nowhere/hook".into(), time_limit: LONG };
        check(missing.ask(b"").await, "cannot be run: No such file");
    }

    #[test]
    fn changes_name_fields_and_null_removes_values() {
        let change = |json: &str, before: Request| {
            let mut request = before;
            let changes: HookChanges = serde_json::from_str(json).expect(json);
            changes.apply(&mut request).map(|()| request)
        };
        let before =
            || Request { queue: Some("long".into()), time_limit: Some(Span::from_secs(60)), ..Request::one_core("a") };
        assert_eq!(change("{}", before()), Ok(before()));
        let removed = Request { queue: None, time_limit: None, ..before() };
        assert_eq!(change(r#"{"queue": null, "time_limit_s": null}"#, before()), Ok(removed));
        let changed =
            change(r#"{"time_limit_s": 0.5, "priority": 7, "hold": true, "licences": ["b:2", "a"]}"#, before());
        let changed = changed.expect("possible");
        assert_eq!((changed.time_limit, changed.priority), (Some(Span::from_ms(500)), 7));
        assert!(changed.conditions.is_some_and(|conditions| conditions.hold));
        assert_eq!(changed.licences.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a:1", "b:2"]);
        let check = |json: &str, expected: &str| assert_eq!(change(json, before()), Err(expected.to_owned()), "{json}");
        check(r#"{"time_limit_s": 0}"#, "answered with a time_limit_s of 0: it must be above 0");
        check(
            r#"{"licences": ["a:0"]}"#,
            "answered with licences that are not possible: `0` is not a number of licences: write 1 or more",
        );
    }

    #[tokio::test]
    async fn a_user_has_few_turns_at_a_time() {
        let turns = HookTurns::default();
        let mut held = Vec::new();
        for _ in 0..AT_ONCE_PER_USER {
            held.push(turns.take(7).await);
        }
        let waits = |uid| {
            let turn = std::pin::pin!(turns.take(uid));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            std::future::Future::poll(turn, &mut context).is_pending()
        };
        assert!(waits(7) && !waits(8), "user 7 has all of its turns, and user 8 has none");
        held.clear();
        assert!(!waits(7));
    }
}
