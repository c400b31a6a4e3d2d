//! New jobs, and clients that reconnect to theirs.

use std::sync::Arc;

use limo_journal::Submission;
use limo_model::{JobId, NameError, Request, Span, application, check_file_name, check_mail_user, check_name};
use limo_proto::{BODY_LIMIT, Io, Launch, MasterToClient, SendExec, SubmissionKey, encode_stored};
use limo_sched::{Event, Phase};

use super::changes::LAST_SIGNAL;
use super::commit::After;
use super::queues::list_of;
use super::{Controller, Live, PeerId};

/// Most waiting jobs. Each takes some kilobytes of memory for its environment.
const WAITING_LIMIT: usize = 1_000_000;

/// Longest name of a job in bytes, because tables show it.
const NAME_LIMIT: usize = 256;

/// Most names of nodes or hardware in one request; more is a mistake.
const LIST_LIMIT: usize = 10_000;

/// Bytes besides the launch in a frame to a node and in its record of the job: names and a placement.
const FRAME_REST: usize = 4096;

/// The same for each node of a multi-node job: its name, its number of tasks, and their files.
const SHARE_REST: usize = 96;

/// A client that reconnects, with its offsets of the output.
#[derive(Debug, Clone)]
pub(super) struct Attach {
    pub(super) job: JobId,
    pub(super) key: SubmissionKey,
    /// Offsets in stdout and stderr, for each of its nodes.
    pub(super) read: Vec<(u64, u64)>,
}

impl Controller {
    pub(super) fn submit(&mut self, peer: PeerId, exec: Box<SendExec>) {
        if let Some(job) = self.submissions.by_key(&exec.key) {
            return self.submitted_before(peer, job);
        }
        if let Some(trouble) = self.tx.commits.trouble() {
            let hint = "make room on the disk of the master's state directory, or make it writable; running jobs go on";
            let reason = format!("new jobs are not accepted: {trouble}");
            return self.refuse(peer, reason, Some(hint));
        }
        if self.tx.core.waiting() >= WAITING_LIMIT {
            return self.refuse(peer, format!("{WAITING_LIMIT} jobs are waiting: the limit is reached"), None);
        }
        if let Err(reason) = check(&exec) {
            return self.refuse(peer, reason, None);
        }
        let most = self.tx.settings.kill_grace;
        if let Some(grace) = exec.request.kill_grace.filter(|grace| !(Span::ZERO..=most).contains(grace)) {
            return self.refuse(
                peer,
                format!("a grace of {grace} from TERM to KILL is not within 0 s to {most}"),
                None,
            );
        }
        if let Err(reason) = self.may_submit_at(peer, exec.request.priority) {
            return self.refuse(peer, reason, Some("lrun without --priority"));
        }
        if exec.again {
            return self.look_up_submission(peer, exec, false);
        }
        self.ask_hook(peer, exec);
    }

    /// Handles a repeated submission: the first answer was lost.
    fn submitted_before(&mut self, peer: PeerId, job: JobId) {
        let uid = self.caller(peer).map(|caller| caller.uid);
        match self.submissions.get(job) {
            Some(live) if Some(live.uid) == uid => {
                if live.launch.io == Io::Attached {
                    self.after(After::Attach(peer, Attach { job, key: live.key, read: Vec::new() }));
                } else {
                    self.answer(peer, MasterToClient::Accepted { job });
                }
            }
            _ => self.refuse(peer, "the submission key belongs to a job of another user", None),
        }
    }

    /// Accepts a checked submission.
    pub(super) fn accept(&mut self, peer: PeerId, exec: SendExec) {
        let Some(caller) = self.caller(peer).cloned() else { return };
        // The same job may have been submitted on two connections at once, and may be over already.
        if let Some(job) = self.submissions.by_key(&exec.key) {
            return self.submitted_before(peer, job);
        }
        if self.submissions.was_ended(&exec.key) {
            return self.look_up_submission(peer, Box::new(exec), true);
        }
        let SendExec { key, mut request, mut launch, again: _ } = exec;
        if let Some(step) = request.step {
            if let Err(reason) = self.settle_step(&caller, &mut request, step) {
                return self.refuse(peer, reason, None);
            }
        } else if let Err(refused) = self.tx.core.resolve(&mut request, &caller.user, &caller.groups) {
            return self.refuse(peer, refused.to_string(), Some(list_of(&refused)));
        } else if let Err(error) = request.settle(|request| self.tx.core.offered_cores(request)) {
            return self.refuse(peer, error.to_string(), None);
        }
        let sharing = request.spread.map_or(0, |_| request.nodes.get() as usize);
        let rest = FRAME_REST + SHARE_REST * sharing;
        match application::of_user(&caller.user, &request.application) {
            Ok(application) => request.application = application,
            Err(error) => return self.refuse(peer, error.to_string(), None),
        }
        request.user = caller.user;
        if request.step.is_none() {
            request.predicted = self.predicted(&request, (launch.array.is_some(), self.tx.wall()));
        }
        launch.uid = caller.uid;
        let encoded = match encode_stored(&launch) {
            Ok(encoded) if encoded.len() + rest <= BODY_LIMIT => encoded,
            Ok(encoded) => {
                let (size, limit) = (encoded.len(), BODY_LIMIT.saturating_sub(rest));
                return self.refuse(peer, format!("the job takes {size} bytes: the limit is {limit}"), None);
            }
            Err(error) => return self.refuse(peer, format!("the job is too large: {error}"), None),
        };
        let limits = self.tx.settings.limits.of(caller.operator);
        if let Err(reason) = self.submissions.check(caller.uid, &request, &mut launch, limits) {
            let hint = "cancel jobs, or wait until some are over; those that are submitted from one shell share their environment";
            return self.refuse(peer, reason, Some(hint));
        }
        let job = self.tx.core.next_job();
        let request = Box::new(request);
        let event = match &launch.array {
            None => Event::Submitted { job, request },
            Some(array) => Event::ArraySubmitted { job, tasks: array.tasks.clone(), request },
        };
        if let Err(refused) = self.tx.record(event) {
            return self.refuse(peer, refused.to_string(), None);
        }
        self.tx.submitted(Submission { job, key, uid: caller.uid, launch: encoded });
        let attached = launch.io == Io::Attached;
        // The job was recorded just now.
        if let Some(request) = self.tx.core.job(job).map(|job| Arc::clone(&job.request)) {
            self.submissions.insert(Live::new((job, key, caller.uid), request, launch));
        }
        if attached {
            self.routes.attach(job, peer, &[]);
        }
        self.answer(peer, MasterToClient::Accepted { job });
    }

    pub(super) fn attach(&mut self, peer: PeerId, attach: Attach) {
        let Attach { job, key, .. } = attach;
        let uid = self.caller(peer).map(|caller| caller.uid);
        match self.submissions.get(job) {
            None => self.look_up_attached(peer, attach),
            Some(live) if live.key != key || Some(live.uid) != uid => {
                self.refuse(peer, format!("job {job} was not submitted by this client"), None);
            }
            Some(live) if live.launch.io == Io::Detached => {
                self.refuse(peer, format!("job {job} is detached: its output goes to files"), None);
            }
            Some(_) if !self.routes.has(job) => {
                let grace = self.tx.settings.orphan_grace;
                let reason = format!("job {job} was cancelled, because its lrun was away for more than {grace}");
                self.refuse(peer, reason, None);
            }
            Some(_) => self.after(After::Attach(peer, attach)),
        }
    }

    /// Attaches a client to an unfinished job and sends it the job's state.
    pub(super) fn attached(&mut self, peer: PeerId, attach: Attach) {
        let Attach { job, ref read, .. } = attach;
        if self.caller(peer).is_none() {
            return;
        }
        if !self.submissions.contains(job) {
            // The end was written meanwhile, and reported to the earlier client.
            return self.look_up_attached(peer, attach);
        }
        self.tell_client(peer, MasterToClient::Accepted { job });
        if let Some(before) = self.routes.attach(job, peer, read) {
            tracing::info!(%job, "attached to by another connection");
            self.close_client(before, format!("job {job} was attached to by another connection"));
        }
        match self.tx.core.job(job).map(|job| job.phase.clone()) {
            Some(Phase::Waiting(Some(wait))) => self.tell_client(peer, MasterToClient::Waiting { job, wait }),
            Some(Phase::Running(..) | Phase::Suspended(..)) => self.after_start(job),
            // The end will be reported soon.
            None => self.connect_ends(job),
            _ => {}
        }
    }
}

/// Checks that the tasks of a job agree with its launch.
fn check_tasks(request: &Request, launch: &Launch) -> Result<(), String> {
    let Some((spread, parallel)) = request.spread.zip(launch.parallel) else {
        return match request.spread.is_some() == launch.parallel.is_some() && request.nodes.get() == 1 {
            true => Ok(()),
            false => Err("a job of several tasks must state how they share its streams".into()),
        };
    };
    if launch.terminal.is_some() {
        return Err("a terminal is for a job of one task".into());
    }
    match parallel.reader.filter(|reader| *reader >= spread.tasks.get()) {
        Some(reader) => Err(format!("standard input is for task {reader}: there are {}", spread.tasks)),
        None => Ok(()),
    }
}

/// Checks a submission beyond the checks of the core.
pub(super) fn check(exec: &SendExec) -> Result<(), String> {
    let SendExec { request, launch, .. } = exec;
    launch.check().map_err(|error| error.to_string())?;
    let name = |error: NameError| error.to_string();
    if !request.size.is_empty() {
        check_name("size class", &request.size).map_err(name)?;
    }
    for (what, own) in [("queue", &request.queue), ("account", &request.account), ("QOS", &request.qos)] {
        own.iter().try_for_each(|own| check_name(what, own)).map_err(name)?;
    }
    if request.name.len() > NAME_LIMIT || request.name.chars().any(char::is_control) {
        return Err(format!("the job's name is longer than {NAME_LIMIT} bytes or has control characters"));
    }
    for (what, names) in [
        ("included nodes", &request.include),
        ("excluded nodes", &request.exclude),
        ("hardware", &request.hardware),
        ("variants", &request.variants),
    ] {
        if names.len() > LIST_LIMIT {
            return Err(format!("the list of {what} has {} names: the limit is {LIST_LIMIT}", names.len()));
        }
        let is_all = what == "hardware" && names.len() == 1;
        let named =
            |names: &str| names.split(if is_all { "&" } else { "|" }).try_for_each(|name| check_name(what, name));
        names.iter().try_for_each(|names| named(names)).map_err(name)?;
    }
    let mail_user = request.mail.as_ref().map_or("", |mail| &mail.user);
    check_mail_user(mail_user).map_err(|error| format!("the address for mail {error}"))?;
    request.labels.as_ref().map_or(Ok(()), |labels| labels.check())?;
    if launch.argv.first().is_none_or(Vec::is_empty) || launch.variants.iter().any(|(_, argv)| argv.is_empty()) {
        return Err("there is no command to run".into());
    }
    if let Some(missing) = request.variants.iter().find(|name| !launch.variants.iter().any(|(own, _)| own == *name)) {
        return Err(format!("there is no command for the variant `{missing}`"));
    }
    if let Some(array) = &launch.array {
        let (tasks, entries) = (array.tasks.count(), array.entries.len());
        if launch.io == Io::Attached {
            return Err("an array cannot be attached to: it is detached".into());
        }
        if request.immediate {
            return Err("an array cannot start at once: its tasks start in turn".into());
        }
        if entries != 0 && entries != tasks as usize {
            return Err(format!("the array has {tasks} tasks and {entries} entries"));
        }
    }
    check_tasks(request, launch)?;
    super::steps::check(request, launch)?;
    if request.malleable {
        return Err("jobs can change their nodes while they run only in simulations".into());
    }
    let files = &launch.files;
    for (what, file) in [("input", &files.stdin), ("output", &files.stdout), ("errors", &files.stderr)] {
        let checked = file.as_deref().map_or(Ok(()), check_file_name);
        checked.map_err(|error| format!("the file for {what}: {error}"))?;
    }
    if launch.umask > 0o777 {
        return Err(format!("the umask {:o} is not within 0 to 777", launch.umask));
    }
    let dependencies = request.conditions.as_ref().map_or(0, |conditions| conditions.dependencies.len());
    if dependencies > LIST_LIMIT {
        return Err(format!("the job depends on {dependencies} others: the limit is {LIST_LIMIT}"));
    }
    let negative = |what: &str| Err(format!("the {what} is negative"));
    if let Some(warning) = request.warning {
        check_signal(warning.signal)?;
        if request.time_limit.is_none_or(|limit| warning.before >= limit || warning.before <= Span::ZERO) {
            return Err("the job is to be warned ahead of a time limit that it does not have so long".into());
        }
    }
    super::checkpoints::check(request)?;
    match request.time_limit {
        Some(limit) if limit <= limo_model::Span::ZERO => negative("time limit, which must be above zero,"),
        _ => Ok(()),
    }
}

/// Checks the number of a signal for a job's processes.
pub(super) fn check_signal(signal: i32) -> Result<(), String> {
    match (1..=LAST_SIGNAL).contains(&signal) {
        true => Ok(()),
        false => Err(format!("{signal} is not a signal: 1 to {LAST_SIGNAL}")),
    }
}
