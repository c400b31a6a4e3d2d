//! What a node knows of its attempts and what follows from that, without doing any of it.

use std::collections::BTreeMap;
use std::time::Duration;

use limo_model::{Attempt as Number, JobId, JournalId, Outcome, Usage};
use limo_proto::{AttemptState, DoExec, MasterToNode};
use limo_shepherd::Handle;

use crate::faults::{self, Fault};
use crate::records::{End, Found};

/// How many jobs that were here are remembered after their end, to answer a message that comes late. A master sends
/// none after `EndedAck` or `Drop`, so this is a second line of defence and may be short.
const REMEMBERED: usize = 4096;

/// The newest attempt of one job.
#[derive(Debug)]
pub struct Attempt {
    /// Of the order; the default if the record does not tell.
    pub journal: JournalId,
    pub number: Number,
    pub cookie: String,
    pub state: State,
}

#[derive(Debug)]
pub enum State {
    /// The intent is being recorded.
    Accepting(Box<DoExec>),
    /// The intent is recorded; waits for `Go`.
    Held(Box<DoExec>),
    /// `Go` came; its command does not run yet.
    Starting(Box<Starting>),
    Running(Running),
    /// Its processes are stopped, until they are let go on.
    Suspended(Running),
    /// TERM was sent, and KILL follows.
    Stopping(Running),
    /// The command is over; what it left behind is being killed.
    Sweeping(Swept),
    /// Over; the end is being recorded.
    Recording(Recording),
    /// Over, and recorded; waits for `EndedAck`.
    Ended(End),
}

/// An end that is told once nothing of the job is left.
#[derive(Debug, Clone)]
pub struct Swept {
    pub end: End,
    /// `None` if `lshepherd` is gone.
    pub handle: Option<Handle>,
}

/// An end that is told once it is recorded.
#[derive(Debug)]
pub struct Recording {
    pub end: End,
    /// Whether the command ran, so that the draw changes with its end.
    pub ran: bool,
}

/// Between `Go` and the start of the command.
#[derive(Debug)]
pub struct Starting {
    /// Until the launch is ordered.
    pub exec: Option<Box<DoExec>>,
    /// Of the job.
    pub uid: u32,
    /// Whether the job has a terminal.
    pub terminal: bool,
    /// What the master expects it to draw.
    pub expected: limo_model::Power,
    /// What emulated hardware says of the run.
    pub work: Option<limo_power::Plan>,
    pub stage: Stage,
    /// Whether the job is to end.
    pub stopping: bool,
    /// Messages that need the command to run, in order.
    pub deferred: Vec<MasterToNode>,
}

/// How far a start has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The start is being recorded.
    Recording,
    /// The user is being looked up, until then at the latest.
    LookingUp { by: Duration },
    /// `lshepherd` has the order.
    Ordered(Handle),
}

#[derive(Debug, Clone, Copy)]
pub struct Running {
    /// Its name at `lshepherd`.
    pub handle: Handle,
    /// Leader of the job's session and process group. Its number may be another process's by the time that it is used, so
    /// that signals go through `lshepherd`.
    pub leader: i32,
    /// Of the job's processes.
    pub uid: u32,
    /// Its submitter has stopped it, and has not let it go on: nobody else does.
    pub halted: bool,
    /// Whether the job has a terminal, so that its leader may be a shell that watches others.
    pub terminal: bool,
}

impl Attempt {
    /// The processes, while the command runs.
    pub fn running(&self) -> Option<Running> {
        match &self.state {
            State::Running(running) | State::Suspended(running) | State::Stopping(running) => Some(*running),
            State::Accepting(_)
            | State::Held(_)
            | State::Starting(_)
            | State::Sweeping(_)
            | State::Recording(_)
            | State::Ended(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn running_mut(&mut self) -> Option<&mut Running> {
        match &mut self.state {
            State::Running(running) | State::Suspended(running) | State::Stopping(running) => Some(running),
            State::Accepting(_)
            | State::Held(_)
            | State::Starting(_)
            | State::Sweeping(_)
            | State::Recording(_)
            | State::Ended(_) => None,
        }
    }

    /// Whether its end is still to come.
    pub fn is_open(&self) -> bool {
        !matches!(self.state, State::Ended(_))
    }

    /// Whether its command runs or is about to.
    pub fn is_stoppable(&self) -> bool {
        matches!(self.state, State::Starting(_)) || self.running().is_some()
    }

    /// The name at `lshepherd`, while that has to do with it.
    pub fn handle(&self) -> Option<Handle> {
        match &self.state {
            State::Starting(starting) => match starting.stage {
                Stage::Ordered(handle) => Some(handle),
                Stage::Recording | Stage::LookingUp { .. } => None,
            },
            State::Sweeping(swept) => swept.handle,
            _ => self.running().map(|running| running.handle),
        }
    }

    /// Whether the command or something that it left behind may still run.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, State::Accepting(_) | State::Held(_) | State::Ended(_))
    }

    /// As the master sees it. An end counts once it is recorded and nothing of the job is left.
    pub fn report(&self) -> AttemptState {
        match &self.state {
            State::Accepting(_) | State::Held(_) => AttemptState::Held,
            State::Starting(_)
            | State::Running(_)
            | State::Suspended(_)
            | State::Stopping(_)
            | State::Sweeping(_)
            | State::Recording(_) => AttemptState::Running,
            State::Ended(end) => AttemptState::Ended { outcome: end.outcome.clone(), usage: end.usage },
        }
    }
}

/// What to do with an assignment.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// New here: record the intent and acknowledge.
    Hold,
    /// The same after an older attempt, which was never let go, is forgotten.
    Replace(Number),
    /// Known: acknowledge again.
    Acknowledge,
    /// Known, and being recorded: the answer follows.
    Wait,
    /// Known and over: tell the end again.
    Repeat,
    Refuse(String),
}

/// The attempts of a node, at most one of each job.
#[derive(Debug, Default)]
pub struct Attempts {
    pub known: BTreeMap<JobId, Attempt>,
    /// The newest attempt of jobs that are gone.
    gone: BTreeMap<JobId, Number>,
}

impl Attempts {
    /// The attempt with exactly this number.
    pub fn find(&mut self, job: JobId, number: Number) -> Option<&mut Attempt> {
        self.known.get_mut(&job).filter(|attempt| attempt.number == number)
    }

    /// Whether this or a newer attempt of the job was here and is gone.
    pub fn is_gone(&self, job: JobId, number: Number) -> bool {
        self.gone.get(&job).is_some_and(|gone| number <= *gone)
    }

    /// Forgets an attempt, but for its number.
    pub fn remove(&mut self, job: JobId) {
        let Some(attempt) = self.known.remove(&job) else { return };
        self.gone.insert(job, attempt.number);
        if self.gone.len() > REMEMBERED {
            self.gone.pop_first();
        }
    }

    /// Numbers of jobs that are gone mean nothing any longer: the master works from another journal.
    pub fn forget_gone(&mut self) {
        self.gone.clear();
    }

    /// What to do with attempt `offered` of `job`.
    pub fn weigh(&self, journal: JournalId, job: JobId, offered: Number) -> Verdict {
        if let Some(gone) = self.gone.get(&job).filter(|gone| offered <= **gone) {
            return Verdict::Refuse(format!("attempt {gone} of job {job} was here and is gone"));
        }
        let Some(known) = self.known.get(&job) else { return Verdict::Hold };
        if !journal.owns(known.journal) {
            return Verdict::Refuse(format!("job {job} of another journal is still being ended here"));
        }
        match &known.state {
            _ if offered < known.number => {
                Verdict::Refuse(format!("attempt {offered} of job {job} is older than attempt {}", known.number))
            }
            State::Ended(_) if offered == known.number => Verdict::Repeat,
            State::Accepting(_) if offered == known.number => Verdict::Wait,
            _ if offered == known.number => Verdict::Acknowledge,
            State::Accepting(_) | State::Held(_) => Verdict::Replace(known.number),
            // Two attempts of a job never run: whatever the master believes, this one was let go.
            _ => Verdict::Refuse(format!("attempt {} of job {job} was started here", known.number)),
        }
    }
}

/// What becomes of an attempt that a daemon before this one left in its records.
#[derive(Debug, PartialEq, Eq)]
pub enum Recovered {
    Held,
    Ended(End),
    /// Whatever of it still runs must be killed before this is told.
    Lost {
        reason: &'static str,
    },
}

/// `boot` is the kernel's boot id now. A command that may have been started is never started again.
pub fn recovered(found: &Found, boot: &str) -> Recovered {
    if let Some(end) = &found.end {
        if let (Outcome::Exited(code), true) = (&end.outcome, faults::has(Fault::CodeChanged)) {
            return Recovered::Ended(End { outcome: Outcome::Exited(code ^ 1), usage: end.usage });
        }
        // Daemons of before have recorded reasons of any length.
        return Recovered::Ended(End { outcome: end.outcome.clone().clipped(), usage: end.usage });
    }
    match &found.intent {
        None => Recovered::Lost { reason: "the node cannot read its record of the job" },
        // Nothing was flushed to the disk, so the record of a start may be missing: the intent alone proves nothing.
        Some(intent) if intent.boot != boot => Recovered::Lost { reason: "the node was restarted" },
        Some(_) if found.going && !faults::has(Fault::StartedAgain) => {
            Recovered::Lost { reason: "the node daemon was killed while the job ran" }
        }
        Some(_) => Recovered::Held,
    }
}

/// The end of an attempt of which nothing else is known.
pub fn lost(reason: &str) -> End {
    End { outcome: Outcome::Lost { reason: reason.to_owned() }, usage: Usage::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Intent;
    use limo_proto::{Io, Launch};

    const JOB: JobId = JobId(7);

    fn exec(number: u32) -> DoExec {
        DoExec {
            journal: JournalId::default(),
            job: JOB,
            attempt: Number(number),
            name: "true".into(),
            application: "true".into(),
            size: String::new(),
            user: "root".into(),
            placement: Vec::new(),
            launch: Launch {
                argv: vec![b"true".to_vec()],
                variants: Vec::new(),
                cwd: b"/".to_vec(),
                env: Vec::new(),
                umask: 0o022,
                uid: 0,
                io: Io::Attached,
                ..Launch::default()
            },
            time_limit: None,
            warning: None,
            kill_grace: limo_model::Span::from_secs(30),
            restarts: 0,
            lease: None,
            task: None,
            share: None,
        }
    }

    fn with(number: u32, state: State) -> Attempts {
        let attempt = Attempt { journal: JournalId::default(), number: Number(number), cookie: String::new(), state };
        Attempts { known: BTreeMap::from([(JOB, attempt)]), gone: BTreeMap::new() }
    }

    fn check(attempts: &Attempts, offered: u32, expected: Verdict) {
        assert_eq!(attempts.weigh(JournalId::default(), JOB, Number(offered)), expected, "{attempts:?}");
    }

    #[test]
    fn assignments() {
        let (handle, leader) = (Handle(1), 1);
        let running = || State::Running(Running { handle, leader, uid: 0, halted: false, terminal: false });
        check(&Attempts::default(), 1, Verdict::Hold);
        check(&with(2, State::Accepting(Box::new(exec(2)))), 2, Verdict::Wait);
        check(&with(2, State::Accepting(Box::new(exec(2)))), 3, Verdict::Replace(Number(2)));
        check(&with(2, State::Held(Box::new(exec(2)))), 2, Verdict::Acknowledge);
        check(&with(2, State::Held(Box::new(exec(2)))), 3, Verdict::Replace(Number(2)));
        check(&with(2, running()), 2, Verdict::Acknowledge);
        check(&with(2, State::Ended(lost("x"))), 2, Verdict::Repeat);
        check(&with(2, running()), 1, Verdict::Refuse("attempt 1 of job 7 is older than attempt 2".into()));
        check(&with(2, running()), 3, Verdict::Refuse("attempt 2 of job 7 was started here".into()));
        check(&with(2, State::Ended(lost("x"))), 3, Verdict::Refuse("attempt 2 of job 7 was started here".into()));
        let mut attempts = with(2, State::Ended(lost("x")));
        attempts.remove(JOB);
        check(&attempts, 2, Verdict::Refuse("attempt 2 of job 7 was here and is gone".into()));
        check(&attempts, 3, Verdict::Hold);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut attempts = Attempts::default();
        for job in 0..2 * REMEMBERED as u64 {
            let state = State::Held(Box::new(exec(1)));
            let attempt = Attempt { journal: JournalId::default(), number: Number(1), cookie: String::new(), state };
            attempts.known.insert(JobId(job), attempt);
            attempts.remove(JobId(job));
        }
        assert_eq!(attempts.gone.len(), REMEMBERED);
    }

    #[test]
    fn after_a_restart() {
        let check = |intent: Option<&str>, going, ended: bool, expected| {
            let intent = intent.map(|boot| Intent { exec: exec(1), cookie: String::new(), boot: boot.into() });
            let end = ended.then(|| lost("before"));
            assert_eq!(recovered(&Found { intent, going, end }, "this boot"), expected);
        };
        check(Some("this boot"), false, false, Recovered::Held);
        check(
            Some("this boot"),
            true,
            false,
            Recovered::Lost { reason: "the node daemon was killed while the job ran" },
        );
        check(Some("other"), true, false, Recovered::Lost { reason: "the node was restarted" });
        check(Some("other"), false, false, Recovered::Lost { reason: "the node was restarted" });
        check(None, false, false, Recovered::Lost { reason: "the node cannot read its record of the job" });
        check(Some("other"), true, true, Recovered::Ended(lost("before")));
    }
}
