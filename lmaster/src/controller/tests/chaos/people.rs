//! The users of a world: their submissions, and their actions at any moment.

use limo_model::{Allowance, Condition, Conditions, Dependency, Energy, Spread, Tasks, WhenUsed};
use limo_proto::{Array, Change, Parallel, Selector, Undo};
use limo_sched::{Assignment, Phase};

use super::*;

impl World {
    /// Submits a job. Its properties are chosen once, and are the same in each submission.
    pub fn submit(&mut self) {
        let key = self.next_key;
        if key < 24 {
            let exec = if self.busy { self.any_job(key) } else { self.plain_job(key) };
            self.next_key += 1;
            self.plans.insert(key, exec);
            self.hand_in(key, false);
        }
    }

    pub fn hand_in(&mut self, key: u8, again: bool) {
        if self.plans[&key].launch.io == Io::Attached {
            let length = self.dice.roll(4);
            self.talkers.entry(key).or_insert_with(|| Talker::new(length));
            return self.call(key);
        }
        let exec = SendExec { again, ..self.plans[&key].clone() };
        self.bench.say(self.client, ClientToMaster::SendExec(Box::new(exec)));
    }

    fn plain_job(&self, key: u8) -> SendExec {
        let nodes = NonZeroU32::new(u32::from(key) % 3 + 1).filter(|_| self.wide);
        let submission = exec_with(key, |exec| {
            exec.launch.io = if self.attached && key.is_multiple_of(2) { Io::Attached } else { Io::Detached };
            exec.launch.parallel = nodes.map(|_| Parallel::default());
            let cores = Cores::Count(NonZeroU32::MIN);
            exec.request.spread = nodes.map(|nodes| Spread { tasks: nodes, cores, nodes: Some(nodes), per_node: None });
        });
        let ClientToMaster::SendExec(exec) = submission else { unreachable!("a submission") };
        *exec
    }

    fn any_job(&mut self, key: u8) -> SendExec {
        let mut exec = self.plain_job(key);
        let is_attached = exec.launch.io == Io::Attached;
        if self.dice.roll(3) == 0 && !is_attached {
            let tasks = ["0-5", "0-5%1", "0-5%2", "3-9:2%2", "7"][self.dice.roll(5)];
            exec.launch.array = Some(Array { tasks: tasks.parse().expect("tasks"), entries: Vec::new() });
        }
        let conditions = self.conditions();
        let request = &mut exec.request;
        request.name = if conditions.singleton { "single".into() } else { "cg".into() };
        request.conditions = Some(Box::new(conditions)).filter(|conditions| **conditions != Conditions::default());
        (request.may_requeue, request.may_suspend) = (self.dice.roll(2) == 0, self.dice.roll(2) == 0);
        // The output of another attempt would begin again.
        request.may_requeue &= !is_attached;
        request.exclusive = self.dice.roll(8) == 0;
        request.priority = if self.dice.roll(4) == 0 { -(self.dice.roll(4) as i32) } else { 0 };
        request.time_limit =
            (self.dice.roll(12) == 0).then_some([Span::from_secs(2), Span::from_secs(20)][self.dice.roll(2)]);
        request.immediate = self.dice.roll(16) == 0 && exec.launch.array.is_none() && request.conditions.is_none();
        if self.dice.roll(12) == 0 {
            let when_used = [WhenUsed::Stop, WhenUsed::Warn][self.dice.roll(2)];
            request.allowance = Some(Allowance { energy: Some(Energy::from_joules(200)), cost: None, when_used });
        }
        if let Some(parallel) = &mut exec.launch.parallel {
            parallel.kill_on_bad_exit = self.dice.roll(2) == 0;
        }
        exec
    }

    fn conditions(&mut self) -> Conditions {
        let mut conditions = Conditions::default();
        match self.dice.roll(10) {
            0 => conditions.hold = true,
            1 => conditions.begin = Some(self.bench.now + Span::from_secs(5)),
            2 => conditions.singleton = true,
            3..7 => {
                for _ in 0..=self.dice.roll(2) {
                    let condition = Condition::ALL[self.dice.roll(4)];
                    conditions.dependencies.push(Dependency { condition, job: self.some_job() });
                }
            }
            _ => {}
        }
        conditions
    }

    /// Returns an unfinished job, a task whose turn has not come, or any number, used or not.
    pub fn some_job(&mut self) -> JobId {
        let core = &self.bench.controller.tx.core;
        let live: Vec<JobId> = core.jobs().map(|(job, _)| job).collect();
        let last = core.next_job().0;
        let coming: Vec<JobId> = (1..last).map(JobId).filter(|job| core.state().is_coming(*job)).collect();
        match self.dice.roll(8) {
            0..4 if !live.is_empty() => live[self.dice.roll(live.len())],
            4..6 if !coming.is_empty() => coming[self.dice.roll(coming.len())],
            _ => JobId(1 + self.dice.roll(usize::try_from(last).expect("few")) as u64),
        }
    }

    /// Returns one of these jobs, or any job if there are none.
    fn one_of(&mut self, jobs: Vec<JobId>) -> JobId {
        if jobs.is_empty() { self.some_job() } else { jobs[self.dice.roll(jobs.len())] }
    }

    fn some_active_job(&mut self, which: impl Fn(&Assignment) -> bool) -> JobId {
        let jobs = self.bench.controller.tx.core.jobs();
        let active = jobs.filter(|(_, job)| job.assignment().is_some_and(&which)).map(|(job, _)| job).collect();
        self.one_of(active)
    }

    /// Acts on a job, a node, or a setting for all of them.
    pub fn meddle(&mut self) {
        match self.dice.roll(100) {
            0..14 => {
                let job = self.some_job();
                self.cancel(job);
            }
            14..22 => {
                let awaited: Vec<JobId> = self.bench.controller.assignments.awaited().keys().copied().collect();
                let job = self.one_of(awaited);
                self.cancel(job);
            }
            22..26 => {
                let job = self.some_active_job(|_| true);
                self.cancel(job);
            }
            26..30 => self.cancel_selected(),
            30..42 => {
                let ends = |assignment: &Assignment| assignment.stop.is_some();
                let job = if self.dice.roll(4) == 0 { self.some_active_job(ends) } else { self.some_job() };
                self.hold_or_release(job);
            }
            42..52 => self.requeue(),
            52..57 => {
                let (jobs, priority) = (vec![self.some_job()], self.dice.roll(7) as i32 - 3);
                self.operator(Change::Priority { jobs, priority });
            }
            57..60 => {
                let job = if self.dice.roll(2) == 0 { self.some_job() } else { self.some_active_job(|_| true) };
                let jobs = vec![job];
                self.limited.extend(&jobs);
                let limit = Some([0, 1, 2, 20][self.dice.roll(4)]).filter(|secs| *secs > 0);
                self.operator(Change::TimeLimit { jobs, limit: limit.map(Span::from_secs) });
            }
            60..65 => self.set_quota(),
            65..73 => self.drain_or_resume(),
            73..79 => self.set_limits(),
            79..87 => self.suspend_or_resume(),
            87..88 => self.set_budget(),
            88..90 => self.look_around(),
            90..92 => self.reserve(),
            92..96 => {
                // This may resume a node that was given up.
                self.switch_on_given_up();
                let changes = self.bench.disk.changes.len();
                let undo = Undo { number: Some(1 + self.dice.roll(changes + 1) as u64), force: true, dry_run: false };
                self.operator(Change::Undo(undo));
            }
            _ => {
                let node = self.dice.roll(NODES);
                self.operator(Change::RemoveNodes(vec![format!("n{node}")]));
            }
        }
    }

    fn user(&mut self, change: Change) {
        self.bench.say(self.steering, ClientToMaster::ChangeConf(Box::new(change)));
    }

    /// Returns the phase of a job, to count actions by phase.
    fn stage(&self, job: JobId) -> &'static str {
        let controller = &self.bench.controller;
        let is_task = controller.tx.core.array_of(job).is_some();
        let Some(found) = controller.tx.core.job(job) else {
            return if controller.tx.core.state().is_coming(job) { "a task that is no job" } else { "none" };
        };
        match &found.phase {
            _ if controller.tx.core.array(job).is_some() => "an array",
            Phase::Waiting(_) if is_task => "a waiting task",
            Phase::Waiting(_) => "a waiting job",
            Phase::Starting(_) if controller.assignments.is_awaited(job) && is_task => "an awaited task",
            Phase::Starting(_) if controller.assignments.is_awaited(job) => "an awaited job",
            Phase::Starting(_) if controller.assignments.is_released(job) => "released",
            Phase::Starting(_) => "assigned",
            Phase::Running(..) | Phase::Suspended(..) if is_task => "a running task",
            Phase::Running(..) | Phase::Suspended(..) => "a running job",
        }
    }

    fn cancel(&mut self, job: JobId) {
        self.seen.saw(match self.stage(job) {
            "none" => "cancel of none",
            "a task that is no job" => "cancel of a task that is no job",
            "an array" => "cancel of an array",
            "a waiting task" => "cancel of a waiting task",
            "a waiting job" => "cancel of a waiting job",
            "an awaited task" => "cancel of an awaited task",
            "an awaited job" => "cancel of an awaited job",
            "released" => "cancel of what was released",
            "assigned" => "cancel of what was assigned",
            _ => "cancel of what runs",
        });
        self.unwanted.insert(job);
        self.user(Change::Cancel(vec![job]));
    }

    fn cancel_selected(&mut self) {
        let job = self.some_job();
        let (own, is_array) = match self.plan_of(job) {
            Some((own, exec)) => (own, exec.launch.array.is_some()),
            None => (job, false),
        };
        let which = match is_array {
            true => Selector::Tasks(own, self.some_tasks()),
            false => Selector::Range(job, JobId(job.0 + 1)),
        };
        let signal = [None, Some(15), Some(10)][self.dice.roll(3)];
        self.unwanted.extend((own.0..=job.0.max(own.0 + 6)).map(JobId));
        self.seen.saw("cancel of a selection");
        self.user(Change::CancelSelected { selection: vec![which].into(), signal });
    }

    fn some_tasks(&mut self) -> Tasks {
        ["0-2", "3", "1,5", "3-9:2", "0-5"][self.dice.roll(5)].parse().expect("tasks")
    }

    fn hold_or_release(&mut self, job: JobId) {
        let found = self.bench.controller.tx.core.job(job);
        let is_held = found.is_some_and(|job| job.held.is_some());
        let comes_back = found.is_some_and(|job| job.assignment().is_some_and(|assignment| assignment.stop.is_some()));
        self.seen.saw(match self.stage(job) {
            "an array" if is_held => "release of an array",
            "an array" => "hold of an array",
            "a waiting task" if is_held => "release of a task",
            "a waiting task" => "hold of a task",
            "a waiting job" if is_held => "release of a job",
            "a waiting job" => "hold of a job",
            _ if comes_back => "hold of what ends",
            _ => "hold of what does not wait",
        });
        let change = if is_held { Change::Release(vec![job]) } else { Change::Hold(vec![job]) };
        match self.dice.roll(4) {
            0 => self.operator(change),
            _ => self.user(change),
        }
    }

    fn requeue(&mut self) {
        let job = self.some_active_job(|_| true);
        if self.plan_of(job).is_some_and(|(_, exec)| exec.request.may_requeue) {
            self.seen.saw(match self.stage(job) {
                "an awaited task" | "an awaited job" => "requeue of what is awaited",
                "a running task" => "requeue of a running task",
                "a running job" => "requeue of a running job",
                _ => "requeue at another moment",
            });
        }
        self.again.insert(job);
        self.user(Change::Requeue(vec![job]));
    }

    fn suspend_or_resume(&mut self) {
        let paused = |job: &limo_sched::Job| job.causes().is_some_and(|causes| causes.by().is_some());
        let again = self.bench.controller.tx.core.jobs().find(|(_, job)| paused(job)).map(|(job, _)| job);
        let running = |job: &limo_sched::Job| matches!(job.phase, Phase::Running(..)) && job.request.may_suspend;
        let jobs = self.bench.controller.tx.core.jobs();
        let running: Vec<JobId> = jobs.filter(|(_, job)| running(job)).map(|(job, _)| job).collect();
        let job = again.filter(|_| self.dice.roll(2) == 0).unwrap_or_else(|| self.one_of(running));
        let suspended = self.bench.controller.tx.core.job(job).and_then(|job| job.causes());
        let by = suspended.map(|causes| causes.by().is_some());
        self.seen.saw(match by {
            Some(true) => "resumption by a person",
            Some(false) => "suspension of what the limit suspended",
            None => "suspension by a person",
        });
        let change = if by == Some(true) { Change::ResumeJobs(vec![job]) } else { Change::SuspendJobs(vec![job]) };
        match self.dice.roll(4) {
            0 => self.operator(change),
            _ => self.user(change),
        }
    }

    /// Makes queries, which are answered and change nothing.
    fn look_around(&mut self) {
        let query = match self.dice.roll(5) {
            0 => Query::Jobs(JobsQuery { filter: JobFilter::default(), from: JobId(0), ended: 10 }),
            1 => Query::Explain(ExplainQuery(self.some_job())),
            2 => Query::Users(UsersQuery),
            3 => Query::Job(JobQuery(self.some_job())),
            _ => Query::Wait(WaitQuery((0..3).map(|_| self.some_job()).collect())),
        };
        self.seen.saw("question");
        self.bench.say(self.root, ClientToMaster::Ask(Box::new(query)));
    }
}
