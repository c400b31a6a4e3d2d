//! The end of a world: faults and obstacles cease, and all accepted jobs end as they should.

use limo_model::{Became, Condition, Dependency, JobEnd, StopReason};
use limo_proto::{Change, JobState};

use super::*;

impl World {
    /// Brings all accepted jobs to their ends.
    pub fn heal(&mut self) {
        self.healed = true;
        self.went_back |= self.bench.ahead > Span::ZERO;
        self.bench.ahead = Span::ZERO;
        self.callers_leave();
        if self.vanishes {
            self.vanish(0);
        }
        let mut missed = self.vanished;
        for host in &mut self.hosts {
            host.doomed = None;
        }
        if self.owners {
            self.nobody_comes();
        }
        for turn in 0..2_000 {
            if self.busy && turn % 20 == 0 {
                self.clear_the_way();
            }
            self.commit();
            self.bench.answer_one();
            self.bench.input(Input::Ballast(Ok(())));
            for node in 0..NODES {
                self.connect(node);
                self.repair_disk(node);
                for _ in 0..3 {
                    self.hear(node);
                    self.deliver(node);
                }
                self.finish_one(node);
            }
            if self.attached {
                self.talk_on();
                if turn > 1_000 {
                    self.give_up_output();
                }
            }
            self.pass(Span::from_ms(200));
            self.look();
            if let Some(node) = missed.filter(|_| self.is_over()) {
                // Its draw is held until then.
                self.declared_dead(node);
                missed = None;
                continue;
            }
            if self.is_over() {
                // After a kill, the output of an ended job is kept for a client that may reconnect.
                return self.pass(self.bench.settings.orphan_grace + Span::from_ms(1));
            }
        }
        let jobs: Vec<_> = self.bench.controller.tx.core.jobs().map(|(id, job)| (id, &job.phase)).collect();
        let records: Vec<_> =
            self.hosts.iter().map(|host| (&host.name, host.link, host.slumber, &host.records)).collect();
        let nodes = self.bench.controller.tx.core.known_nodes();
        let nodes: Vec<_> = nodes.map(|node| (&node.spec().name, node.sleep(), node.drained())).collect();
        let assignments = &self.bench.controller.assignments;
        let routes = &self.bench.controller.routes;
        let talkers: Vec<_> = self.talkers.values().filter(|talker| !talker.is_over).collect();
        panic!(
            "it does not come to an end: {jobs:?}\n{records:?}\n{nodes:?}\n{assignments:?}\n{routes:?}\n{talkers:?}"
        );
    }

    /// Lets a stuck disk go on, unless the master waits for an acknowledgement of its node and will end the connection.
    fn repair_disk(&mut self, node: usize) {
        let mut awaited = self.bench.controller.assignments.awaited().values();
        let host = &mut self.hosts[node];
        if !awaited.any(|awaited| host.link.is_some_and(|link| awaited.peers.values().any(|peer| *peer == link))) {
            host.is_stuck = false;
        }
    }

    fn is_over(&self) -> bool {
        let Bench { controller, disk, answers, committing, .. } = &self.bench;
        let asleep = self.hosts.iter().filter(|host| self.is_known_asleep(host)).count();
        let is_quiet = |host: &Host| match host.link {
            Some(_) => host.records.is_empty(),
            // A record of a job that is over, or never ran, may be left: the node forgets it when it is awake.
            None => self.is_known_asleep(host) && host.records.keys().all(|key| !host.is_open(*key)),
        };
        let there = || (0..NODES).filter(|node| self.vanished != Some(*node)).map(|node| &self.hosts[node]);
        let quiet = there().all(is_quiet);
        let all = self.accepted.iter().all(|job| disk.finished.contains_key(job)) && disk.live.is_empty();
        let told = controller.is_quiet()
            && controller.tx.commits.trouble().is_none()
            && answers.is_empty()
            && committing.is_empty();
        quiet
            && all
            && told
            && self.all_talkers_are_done()
            && controller.tx.core.jobs().next().is_none()
            && controller.nodes.len().1 + asleep == there().count()
    }

    /// Removes everything that holds jobs back.
    fn clear_the_way(&mut self) {
        self.switch_on_given_up();
        let core = &self.bench.controller.tx.core;
        let held: Vec<JobId> = core.jobs().filter(|(_, job)| job.held.is_some()).map(|(id, _)| id).collect();
        let paused = |job: &limo_sched::Job| job.causes().is_some_and(|causes| causes.by().is_some());
        let paused: Vec<JobId> = core.jobs().filter(|(_, job)| paused(job)).map(|(id, _)| id).collect();
        for job in held {
            self.operator(Change::Release(vec![job]));
        }
        for job in paused {
            self.operator(Change::ResumeJobs(vec![job]));
        }
        self.lift_restrictions();
    }

    /// Returns the number and the submission of a job, or of its array, once it is on disk.
    pub fn plan_of(&self, job: JobId) -> Option<(JobId, &SendExec)> {
        let known = |(key, exec): (&u8, _)| Some((self.bench.disk.keys.get(&[*key; 16])?.0, exec));
        let mut known = self.plans.iter().filter_map(known);
        known.find(|(own, exec): &(JobId, &SendExec)| {
            let tasks = exec.launch.array.as_ref().map_or(0, |array| u64::from(array.tasks.count()));
            (own.0..=own.0 + tasks).contains(&job.0)
        })
    }

    /// Returns true if a job, or its array, may have been cancelled.
    pub fn is_unwanted(&self, job: JobId) -> bool {
        let own = self.plan_of(job).map(|(own, _)| own);
        self.unwanted.contains(&job) || own.is_some_and(|own| self.unwanted.contains(&own))
    }

    /// Returns true if the core may requeue a job, or a user has.
    pub fn may_run_again(&self, job: JobId) -> bool {
        let allowed = self.plan_of(job).is_some_and(|(_, exec)| exec.request.may_requeue);
        allowed
            && (self.owners || self.again.contains(&job) || self.preset == Preset::Limo || self.failed.contains(&job))
    }

    /// Returns true if a job may have a time limit.
    fn may_be_limited(&self, job: JobId) -> bool {
        let is_limited = |(own, exec): (JobId, &SendExec)| {
            exec.request.time_limit.is_some() || self.limited.contains(&own) || self.limited.contains(&job)
        };
        self.plan_of(job).is_some_and(is_limited)
    }

    pub fn may_be_stopped(&self, job: JobId) -> bool {
        let ends = |(_, exec): (JobId, &SendExec)| exec.request.allowance.is_some();
        let others = self.wide && (self.rebooted || self.spoiled.contains(&job));
        others
            || self.has_failed(job)
            || self.is_unwanted(job)
            || self.may_run_again(job)
            || self.may_be_limited(job)
            || self.plan_of(job).is_some_and(ends)
    }

    pub fn check(&mut self) {
        self.nothing_is_left();
        self.output_is_complete();
        for (job, starts) in &self.starts {
            assert!(starts.values().all(|count| *count == 1), "job {job} was started twice on a node: {starts:?}");
            let attempts: BTreeSet<Attempt> = starts.keys().map(|(attempt, _)| *attempt).collect();
            assert!(attempts.len() == 1 || self.may_run_again(*job), "job {job} runs again: {starts:?}");
        }
        let finished = &self.bench.disk.finished;
        for report in finished.values() {
            let end = report.end.as_ref().expect("it is over");
            match &report.array {
                Some(_) => self.check_array(report, end),
                None => self.check_end(report, end),
            }
        }
        for (key, exec) in &self.plans {
            let Some((job, _)) = self.bench.disk.keys.get(&[*key; 16]) else { continue };
            let report = &finished[job];
            let Some(conditions) = exec.request.conditions.as_ref().filter(|_| report.started.is_some()) else {
                continue;
            };
            conditions.dependencies.iter().for_each(|on| self.was_met(report, *on));
            // The rows have times of the wall clock.
            if conditions.singleton && !self.went_back {
                let before = finished.range(..*job).map(|(_, before)| before);
                let overlaps = |before: &&JobReport| before.name == report.name && before.ended > report.started;
                let other = before.filter(overlaps).map(|before| before.job).next();
                assert_eq!(other, None, "job {job} was to wait for it");
            }
        }
    }

    /// Checks that finished jobs leave nothing behind.
    fn nothing_is_left(&self) {
        let controller = &self.bench.controller;
        let Controller { submissions, assignments, questions, sessions, .. } = controller;
        let asked = questions.probes.len() + questions.measures.len();
        let left = (submissions.len(), assignments.len());
        assert_eq!(left, (0, 0), "{submissions:?} {assignments:?}");
        let waits = sessions.open_waits();
        assert_eq!((questions.len(), waits, asked), (0, 0, 0), "{questions:?} {sessions:?}");
        assert!(!controller.has_turn() && !sessions.is_held_up(), "{sessions:?}");
        assert!(controller.routes.len() == 0 && controller.routes.next_orphan().is_none(), "{:?}", controller.routes);
        let linked = self.hosts.iter().filter(|host| host.link.is_some()).count();
        assert_eq!((controller.nodes.len().0, controller.tx.core.arrays().count()), (linked, 0));
        assert!(
            controller.tx.core.nodes().iter().all(|node| node.held().is_empty()),
            "{:?}",
            controller.tx.core.nodes()
        );
        let state = serde_json::to_value(controller.tx.core.state()).expect("written");
        for table in
            ["jobs", "queue", "blocked", "over_quota", "over_licence", "charges", "active", "arrays", "finished"]
        {
            let of = &state[table];
            // An empty collection may be omitted.
            assert!(["null", "{}", "[]"].contains(&of.to_string().as_str()), "{table}: {of}");
        }
    }

    fn check_end(&self, report: &JobReport, end: &JobEnd) {
        let job = report.job;
        let plan = self.plan_of(job).map(|(_, exec)| &exec.request).expect("it was handed in");
        let starts = self.starts.get(&job);
        match end {
            JobEnd::Ran { outcome: Outcome::Lost { .. }, .. } => {
                assert!(self.rebooted || self.cut_down.contains(&job), "job {job} was lost without need");
            }
            JobEnd::Ran { outcome: Outcome::NodeFailed { .. }, .. } => {
                assert!(self.lost || self.rebooted, "job {job} failed without need");
            }
            JobEnd::Ran { outcome, stopped } => {
                let told: Vec<_> = self.told.range((job, Attempt(0))..=(job, Attempt(u32::MAX))).collect();
                let last = told.last().map(|(_, outcomes)| *outcomes).expect("a node has told it");
                assert!(self.wide || last.contains(outcome), "job {job} ended with {outcome:?}: {told:?}");
                match stopped {
                    None => {}
                    Some(StopReason::Cancelled { .. }) => assert!(self.is_unwanted(job), "job {job}"),
                    Some(StopReason::TimeLimit { .. }) => assert!(self.may_be_limited(job), "job {job}"),
                    Some(StopReason::UsedUp { .. }) => assert!(plan.allowance.is_some(), "job {job}"),
                    Some(why) => panic!("job {job} ended for good: {why:?}"),
                }
            }
            JobEnd::Cancelled { .. } => {
                let never = starts.is_none() || self.may_run_again(job);
                assert!(self.is_unwanted(job) && never, "job {job} was cancelled: {starts:?}");
            }
            JobEnd::Refused { .. } => {
                let never = starts.is_none() || self.may_run_again(job);
                assert!(plan.immediate && never, "job {job} was refused: {starts:?}");
            }
            JobEnd::Unmet { dependency, .. } => {
                let became = self.became(dependency.job);
                assert!(!became.meets(dependency.condition), "job {job}: {dependency} became {became}");
                assert!(starts.is_none(), "job {job}: {starts:?}");
            }
        }
        if report.state == JobState::Completed {
            let starts = starts.expect("it ran");
            let last = starts.keys().map(|(attempt, _)| attempt).max().expect("at least one");
            let started = starts.keys().filter(|(attempt, _)| attempt == last).map(|(_, node)| node);
            let placed: BTreeSet<&String> = report.nodes.iter().collect();
            assert_eq!(started.collect::<BTreeSet<_>>(), placed, "job {job}");
        }
    }

    /// Returns the end of a job; a task that never became a job counts as cancelled.
    fn became(&self, job: JobId) -> Became {
        let end = self.bench.disk.finished.get(&job).and_then(|report| report.end.as_ref());
        end.map_or(Became::Cancelled, Became::of)
    }

    fn was_met(&self, report: &JobReport, on: Dependency) {
        let (job, became) = (report.job, self.became(on.job));
        let is_begun = on.condition == Condition::After;
        assert!(is_begun || became.meets(on.condition), "job {job} ran: {on} became {became}");
        let other = self.bench.disk.finished.get(&on.job).filter(|_| !is_begun);
        // The rows have times of the wall clock.
        let in_order = other.is_none_or(|other| other.ended <= report.started);
        assert!(in_order || self.went_back, "job {job} ran too early: {on}");
    }

    /// Checks that each task of an array is over once; tasks of a cancelled array may never have become jobs.
    fn check_array(&self, report: &JobReport, end: &JobEnd) {
        let own = report.job;
        let array = report.array.as_ref().expect("an array");
        let all = u64::from(array.tasks.count());
        let tasks = self.bench.disk.finished.range(JobId(own.0 + 1)..=JobId(own.0 + all)).count();
        let counted = u64::from(array.ended.all());
        assert_eq!(tasks as u64, counted, "array {own}: {array:?}");
        match end {
            JobEnd::Ran { .. } => assert_eq!(counted, all, "array {own}: {array:?}"),
            JobEnd::Cancelled { .. } => assert!(self.is_unwanted(own), "array {own}"),
            JobEnd::Unmet { dependency, .. } => {
                let became = self.became(dependency.job);
                assert!(!became.meets(dependency.condition), "array {own}: {dependency} became {became}");
            }
            JobEnd::Refused { .. } => panic!("array {own}: {end:?}"),
        }
    }
}
