//! State of attempts on a node, and the transitions that follow from it. Performs nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use limo_model::{Attempt as Number, JobId, JournalId, Outcome, Usage};
use limo_proto::{AttemptState, DoExec, MasterToNode, StepOf};
use limo_shepherd::Handle;

use crate::checkpoints::Checkpointed;
use crate::records::End;
use crate::scripts::Preparation;
use crate::survivor::Resumed;

/// Number of finished jobs that are remembered to answer late messages. A master sends none after `EndedAck` or
/// `Drop`, so this is only a second safeguard and may be short.
const REMEMBERED: usize = 4096;

/// Newest attempt of one job.
#[derive(Debug)]
pub struct Attempt {
    /// Journal of the order; the default if the record has none.
    pub journal: JournalId,
    pub number: Number,
    pub cookie: String,
    pub preparation: Preparation,
    /// Time between TERM and KILL when the node ends it.
    pub kill_grace: Duration,
    /// True if the node ends it for its owner.
    pub is_evicted: bool,
    pub checkpointed: Option<Checkpointed>,
    /// The attempt in whose allocation it runs, if it is a step.
    pub step: Option<StepOf>,
    pub state: State,
}

#[derive(Debug)]
pub enum State {
    /// The intent is being recorded.
    Accepting(Box<DoExec>),
    /// The intent is recorded, and the prolog runs.
    Preparing(Box<Preparing>),
    /// The intent is recorded; the attempt waits for `Go`.
    Held(Box<DoExec>),
    /// `Go` came, but the command does not run yet.
    Starting(Box<Starting>),
    Running(Running),
    /// Processes are stopped until they are continued.
    Suspended(Running),
    /// TERM was sent, and KILL follows.
    Stopping(Running),
    /// The command is over, and its other processes are being killed.
    Sweeping(Swept),
    /// All processes have ended, and the epilog runs.
    Concluding(Recording),
    /// The attempt is over, and its end is being recorded.
    Recording(Recording),
    /// The end is recorded, and waits for `EndedAck`.
    Ended(End),
}

/// End that is reported as soon as all processes of the job have ended.
#[derive(Debug, Clone)]
pub struct Swept {
    pub end: End,
    /// Name at `lshepherd`; `None` if `lshepherd` has ended.
    pub handle: Option<Handle>,
}

/// End that is reported as soon as it is recorded.
#[derive(Debug, Clone)]
pub struct Recording {
    pub end: End,
    /// True if the command ran, so that the draw changes with its end.
    pub ran: bool,
}

/// Attempt whose prolog runs.
#[derive(Debug)]
pub struct Preparing {
    pub exec: Box<DoExec>,
    /// Expected draw, if `Go` has come.
    pub going: Option<limo_model::Power>,
    /// True if the attempt is to end.
    pub stopping: bool,
}

/// Attempt between `Go` and the start of its command.
#[derive(Debug)]
pub struct Starting {
    /// Order of the job; present until the launch is ordered.
    pub exec: Option<Box<DoExec>>,
    /// User of the job.
    pub uid: u32,
    /// True if the job has a terminal.
    pub terminal: bool,
    /// Draw that the master expects.
    pub expected: limo_model::Power,
    /// Plan of the run on emulated hardware.
    pub work: Option<limo_power::Plan>,
    pub stage: Stage,
    /// True if the job is to end.
    pub stopping: bool,
    /// State of a command that an earlier daemon has launched.
    pub resumed: Resumed,
    /// Messages that need a running command, in order.
    pub deferred: Vec<MasterToNode>,
}

/// Progress of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The start is being recorded.
    Recording,
    /// The user is being looked up, with a deadline.
    LookingUp { by: Duration },
    /// `lshepherd` has the order.
    Ordered(Handle),
}

#[derive(Debug, Clone, Copy)]
pub struct Running {
    /// Name at `lshepherd`.
    pub handle: Handle,
    /// Leader of the job's session and process group. By the time of a signal its number may belong to another
    /// process, so signals go through `lshepherd`.
    pub leader: i32,
    /// User of the job's processes.
    pub uid: u32,
    /// True if the submitter has stopped the job. Then only the submitter continues it.
    pub halted: bool,
    /// True if the job has a terminal, so that its leader may be a shell that watches other processes.
    pub terminal: bool,
    /// True if its control group can be frozen, so that no signal is needed to suspend it.
    pub freezes: bool,
}

impl Attempt {
    /// Returns the processes, while the command runs.
    pub fn running(&self) -> Option<Running> {
        match &self.state {
            State::Running(running) | State::Suspended(running) | State::Stopping(running) => Some(*running),
            State::Accepting(_)
            | State::Preparing(_)
            | State::Held(_)
            | State::Starting(_)
            | State::Sweeping(_)
            | State::Concluding(_)
            | State::Recording(_)
            | State::Ended(_) => None,
        }
    }

    /// Returns the processes for changes, while the command runs.
    pub fn running_mut(&mut self) -> Option<&mut Running> {
        match &mut self.state {
            State::Running(running) | State::Suspended(running) | State::Stopping(running) => Some(running),
            State::Accepting(_)
            | State::Preparing(_)
            | State::Held(_)
            | State::Starting(_)
            | State::Sweeping(_)
            | State::Concluding(_)
            | State::Recording(_)
            | State::Ended(_) => None,
        }
    }

    /// Returns the order of the job for changes, until its launch is ordered.
    pub fn exec_mut(&mut self) -> Option<&mut DoExec> {
        match &mut self.state {
            State::Accepting(exec) | State::Held(exec) => Some(exec),
            State::Preparing(preparing) => Some(&mut preparing.exec),
            State::Starting(starting) => starting.exec.as_deref_mut(),
            _ => None,
        }
    }

    /// Returns true if the attempt has not ended.
    pub fn is_open(&self) -> bool {
        !matches!(self.state, State::Ended(_))
    }

    /// Returns true if the prolog or the command runs or is about to.
    pub fn is_stoppable(&self) -> bool {
        matches!(self.state, State::Preparing(_) | State::Starting(_)) || self.running().is_some()
    }

    /// Returns the name at `lshepherd`, while `lshepherd` has the job.
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

    /// Returns true if the command or another process of the job may still run.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, State::Accepting(_) | State::Held(_) | State::Ended(_))
    }

    /// Returns the state for the master. An end counts once it is recorded and all processes of the job have ended.
    pub fn report(&self) -> AttemptState {
        match &self.state {
            State::Accepting(_) | State::Preparing(_) | State::Held(_) => AttemptState::Held,
            State::Starting(_)
            | State::Running(_)
            | State::Suspended(_)
            | State::Stopping(_)
            | State::Sweeping(_)
            | State::Concluding(_)
            | State::Recording(_) => AttemptState::Running,
            State::Ended(end) => AttemptState::Ended { outcome: end.outcome.clone(), usage: end.usage },
        }
    }
}

/// Reaction to an assignment.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The attempt is new: record the intent and acknowledge.
    Hold,
    /// The attempt is new and replaces an older one that was never released.
    Replace(Number),
    /// The attempt is known: acknowledge again.
    Acknowledge,
    /// The attempt is known and being recorded; the answer follows.
    Wait,
    /// The attempt is known and over: report the end again.
    Repeat,
    Refuse(String),
}

/// Attempts of a node, at most one for each job.
#[derive(Debug, Default)]
pub struct Attempts {
    pub known: BTreeMap<JobId, Attempt>,
    /// Newest attempts of finished jobs.
    gone: BTreeMap<JobId, Number>,
}

impl Attempts {
    /// Returns the attempt with exactly this number.
    pub fn find(&mut self, job: JobId, number: Number) -> Option<&mut Attempt> {
        self.known.get_mut(&job).filter(|attempt| attempt.number == number)
    }

    /// Returns true if this or a newer attempt of the job was on this node and is finished.
    pub fn is_gone(&self, job: JobId, number: Number) -> bool {
        self.gone.get(&job).is_some_and(|gone| number <= *gone)
    }

    /// Forgets an attempt except for its number. Returns it.
    pub fn remove(&mut self, job: JobId) -> Option<Attempt> {
        let attempt = self.known.remove(&job)?;
        self.gone.insert(job, attempt.number);
        if self.gone.len() > REMEMBERED {
            self.gone.pop_first();
        }
        Some(attempt)
    }

    /// Forgets the numbers of finished jobs: the master has another journal.
    pub fn forget_gone(&mut self) {
        self.gone.clear();
    }

    /// Decides about attempt `offered` of `job`.
    pub fn weigh(&self, journal: JournalId, job: JobId, offered: Number) -> Verdict {
        if let Some(gone) = self.gone.get(&job).filter(|gone| offered <= **gone) {
            return Verdict::Refuse(format!("attempt {gone} of job {job} has already ended here"));
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
            State::Accepting(_) | State::Preparing(_) if offered == known.number => Verdict::Wait,
            _ if offered == known.number => Verdict::Acknowledge,
            State::Accepting(_) => Verdict::Replace(known.number),
            State::Held(_) if !known.owes_epilog() => Verdict::Replace(known.number),
            State::Preparing(_) | State::Held(_) | State::Concluding(_) => {
                Verdict::Refuse(format!("attempt {} of job {job} has not ended here", known.number))
            }
            // Two attempts of a job never run here. This one was released, so it stays, also against the master.
            _ => Verdict::Refuse(format!("attempt {} of job {job} was started here", known.number)),
        }
    }
}

/// Makes the end of a lost attempt, without other data.
pub fn lost(reason: &str) -> End {
    End { outcome: Outcome::Lost { reason: reason.to_owned() }, usage: Usage::default() }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use limo_proto::{Io, Launch};

    const JOB: JobId = JobId(7);

    pub(crate) fn exec(number: u32) -> DoExec {
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
            checkpoint: None,
            step: None,
            kill_grace: limo_model::Span::from_secs(30),
            restarts: 0,
            lease: None,
            task: None,
            share: None,
        }
    }

    fn attempt(number: u32, state: State) -> Attempt {
        let (journal, preparation) = (JournalId::default(), Preparation::default());
        Attempt {
            journal,
            number: Number(number),
            cookie: String::new(),
            preparation,
            kill_grace: Duration::ZERO,
            is_evicted: false,
            checkpointed: None,
            step: None,
            state,
        }
    }

    fn with(number: u32, state: State) -> Attempts {
        let attempt = attempt(number, state);
        Attempts { known: BTreeMap::from([(JOB, attempt)]), gone: BTreeMap::new() }
    }

    fn check(attempts: &Attempts, offered: u32, expected: Verdict) {
        assert_eq!(attempts.weigh(JournalId::default(), JOB, Number(offered)), expected, "{attempts:?}");
    }

    #[test]
    fn assignments() {
        let (handle, leader) = (Handle(1), 1);
        let running =
            || State::Running(Running { handle, leader, uid: 0, halted: false, terminal: false, freezes: false });
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
        check(&attempts, 2, Verdict::Refuse("attempt 2 of job 7 has already ended here".into()));
        check(&attempts, 3, Verdict::Hold);
    }

    #[test]
    fn remembered_attempts_are_bounded() {
        let mut attempts = Attempts::default();
        for job in 0..2 * REMEMBERED as u64 {
            let state = State::Held(Box::new(exec(1)));
            attempts.known.insert(JobId(job), attempt(1, state));
            attempts.remove(JobId(job));
        }
        assert_eq!(attempts.gone.len(), REMEMBERED);
    }
}
