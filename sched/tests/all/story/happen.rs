//! Events of a story, and its report.

use std::collections::BTreeMap;

use limo_model::{
    Band, Beside, Curve, Eviction, Fairshare, GroupSpec, Groups, JobEnd, JobId, Lease, Licences, NodeId, NodeSessions,
    OwnerRules, Part, QueueSpec, Queues, Quota, Reboot, Reservation, SessionSums, SleepRules, Span, StopReason,
    TaskCounts, Time,
};
use limo_sched::{Command, Event, Round};

use super::{Story, clock, fields, parse, prices, shown, watts};

impl Story {
    pub fn happen(&mut self, words: &[&str]) {
        let by = || "root".to_owned();
        let node = |story: &Self, name: &str| story.world.core.node_named(name).map(|node| node.id()).expect("a node");
        match words {
            ["submit", name, rest @ ..] => self.submit(name, rest),
            ["cancel", name] => self.apply(Event::CancelRequested { job: self.names[*name], by: by() }),
            ["hold", name] => self.apply(Event::Held { job: self.names[*name], by: by() }),
            ["hold", name, who] => self.apply(Event::Held { job: self.names[*name], by: (*who).to_owned() }),
            ["why", name] => match self.world.core.reason(self.names[*name], self.world.now) {
                Some(reason) => self.say(&format!("why {name} {}", reason.shown(shown))),
                None => self.say(&format!("why {name} -")),
            },
            ["release", name] => self.apply(Event::Released { job: self.names[*name], by: by() }),
            ["requeue", name] => self.apply(Event::RequeueRequested { job: self.names[*name], by: by() }),
            ["suspend", name, who] => {
                let event = Event::SuspendRequested { job: self.names[*name], by: (*who).to_owned() };
                self.try_apply(event);
            }
            ["continue", name, who] => {
                let event = Event::ResumeRequested { job: self.names[*name], by: (*who).to_owned() };
                self.try_apply(event);
            }
            ["quota", user, rest @ ..] => self.quota(user, &fields(rest)),
            ["fairshare", rest @ ..] => self.fairshare(&fields(rest)),
            ["deny", users @ ..] => {
                let denied = users.iter().map(|user| (*user).to_owned()).collect();
                self.apply(Event::UsersDenied { denied, by: by() });
            }
            ["priority", name, priority] => {
                self.apply(Event::PrioritySet { job: self.names[*name], priority: parse(priority), by: by() });
            }
            ["limits", low, high] => {
                let limits = Curve::constant(Band::new(watts(low), watts(high)).expect("a band"));
                self.apply(Event::LimitsSet { limits, by: by() });
            }
            ["forecast", rest @ ..] => self.forecast(rest),
            ["option" | "policy" | "profile" | "variation", ..] => self.set_up(words),
            ["explore", share] => self.apply(Event::ExploreSet { share: parse(share), by: by() }),
            ["price", rest @ ..] => self.apply(Event::PricesSet { prices: Some(prices(rest)), by: by() }),
            ["budget", energy, rest @ ..] => self.budget(energy, &fields(rest)),
            ["metered", energy] => self.apply(Event::Metered { energy: parse(energy) }),
            ["mode", mode] => self.apply(Event::ModeSet { mode: parse(mode), by: by() }),
            ["drain", name] => {
                self.apply(Event::NodeDrained { node: node(self, name), reason: "test".into(), by: by() });
            }
            ["resume", name] => self.apply(Event::NodeResumed { node: node(self, name), by: by() }),
            ["remove", name] => {
                let node = node(self, name);
                self.try_apply(Event::NodeRemoved { node, by: by() });
            }
            ["away", name] => self.apply(Event::NodeAway { node: node(self, name) }),
            ["lost", name] => match self.world.lose(node(self, name)) {
                Ok(jobs) => {
                    for job in jobs {
                        let name = self.name_of(job);
                        self.say(&format!("node-failed {name}"));
                    }
                }
                Err(refused) => self.say(&format!("refused {refused}")),
            },
            ["draw-released", name] => {
                self.apply(Event::DrawReleased { node: node(self, name), kept: Vec::new(), by: by() });
            }
            ["lease", span] => {
                let lease = Lease { span: parse(span), grace: Span::ZERO };
                self.apply(Event::LeaseSet { lease, by: by() });
            }
            ["up", name] => {
                let spec = self.world.core.node_named(name).expect("a node").spec().clone();
                self.apply(Event::NodeUp { spec });
            }
            ["reading", name, draw] => {
                self.apply(Event::Readings { draws: vec![(node(self, name), watts(draw))] });
            }
            ["queues", rest @ ..] => self.queues(rest),
            ["groups", rest @ ..] => self.groups(rest),
            ["licences", rest @ ..] => {
                let all = fields(rest).into_iter().map(|(name, count)| (name.to_owned(), parse(count)));
                let licences = Licences::new(all.collect()).expect("licences");
                self.apply(Event::LicencesSet { licences, by: by() });
            }
            ["account", name, rest @ ..] => self.account(name, &fields(rest)),
            ["qos", name, rest @ ..] => self.qos(name, &fields(rest)),
            ["owner-came", name] => self.apply(Event::OwnerCame { node: node(self, name) }),
            ["reboot", name, "off"] => self.apply(Event::Rebooting { node: node(self, name), reboot: None }),
            ["reboot", name, "ordered"] => {
                let (node, reboot) = (node(self, name), Some(Reboot::Ordered { boot: "boot".into() }));
                assert!(self.world.core.may_reboot(node), "{name} has a job or an owner");
                self.apply(Event::Rebooting { node, reboot });
            }
            ["reboot", name, until, rest @ ..] => {
                let reboot = Reboot::Wanted { until: clock(until), evicts: rest.contains(&"evicts") };
                self.apply(Event::Rebooting { node: node(self, name), reboot: Some(reboot) });
            }
            ["owner-left", name] => self.apply(Event::OwnerLeft { node: node(self, name) }),
            ["reboot-evicts", name, on] => {
                let (job, node) = (self.names[*name], node(self, on));
                let attempt = self.world.core.job(job).and_then(|job| job.assignment()).expect("assigned").attempt;
                self.apply(Event::Evicted { job, attempt, node, why: Eviction::Reboot });
                self.world.stop(job, attempt);
            }
            ["checkpointed", name, ran] => {
                let (job, ran) = (self.names[*name], parse(ran));
                let attempt = self.world.core.job(job).and_then(|job| job.assignment()).expect("assigned").attempt;
                self.apply(Event::Checkpointed { job, attempt, ran, took: Span::ZERO, failed: None });
            }
            ["kept", name] => {
                let kept = self.world.core.job(self.names[*name]).expect("not over").kept.ran;
                self.say(&format!("kept {name} {kept}"));
            }
            ["sessions-known", rest @ ..] => self.sessions_known(rest),
            ["reservation", name, "none"] => self.reserve(name, None),
            ["reservation", name, rest @ ..] => self.reserve(name, Some(&fields(rest))),
            ["cannot-cap", name] => drop(self.world.capless.insert(node(self, name))),
            // Nodes keep their confirmations; `confirm` sends the first one, `confirm 1` the next.
            ["slow"] => self.world.is_slow = true,
            ["confirm"] => self.world.send_kept(0),
            ["confirm", place] => self.world.send_kept(parse(place)),
            ["silent", name] => drop(self.world.silent.insert(node(self, name))),
            ["takes-back", name] => {
                let job = self.names[*name];
                let attempt = self.world.core.job(job).and_then(|job| job.assignment()).expect("assigned").attempt;
                self.apply(Event::TakenBack { job, attempt, reason: "test".into(), suspect: true, blame: None });
            }
            ["part-ends", name, on] => {
                let job = self.names[*name];
                let attempt = self.world.core.job(job).and_then(|job| job.assignment()).expect("assigned").attempt;
                let (outcome, usage) = (limo_model::Outcome::Exited(0), limo_model::Usage::default());
                self.apply(Event::PartEnded { job, attempt, node: node(self, on), outcome, usage });
            }
            _ => panic!("unknown line: {words:?}"),
        }
    }

    /// Applies an event, and reports the reason if it is refused.
    fn try_apply(&mut self, event: Event) {
        if let Err(refused) = self.world.apply(event) {
            self.say(&format!("refused {refused}"));
        }
    }

    /// `reservation NAME on=n0,n1 from=01:00 until=02:00 [for=user,other]`, or `reservation NAME none`; reports a
    /// refusal.
    fn reserve(&mut self, name: &str, given: Option<&BTreeMap<&str, &str>>) {
        let list = |text: Option<&&str>| text.map_or(Vec::new(), |text| text.split(',').map(str::to_owned).collect());
        let reservation = given.map(|given| {
            let (from, until) = (clock(given["from"]), clock(given["until"]));
            Box::new(Reservation {
                nodes: list(given.get("on")),
                from,
                until,
                users: list(given.get("for")),
                reason: String::new(),
            })
        });
        let event = Event::ReservationSet { name: name.to_owned(), reservation, by: "root".into() };
        if let Err(refused) = self.world.apply(event) {
            self.say(&format!("refused {name} {refused}"));
        }
    }

    /// The words are `NAME [nodes=n0,n1] [wait=1h] [default-time=10min] [max-time=1h] [max-nodes=1] [users=user,other]
    /// [groups=physics] [down] [default]` for each queue, with `/` between queues.
    fn queues(&mut self, words: &[&str]) {
        let queue = |words: &[&str]| {
            let given = fields(words);
            let list = |key| given.get(key).map_or("", |text| *text).split(',').filter(|name| !name.is_empty());
            let spec = QueueSpec {
                nodes: list("nodes").map(str::to_owned).collect(),
                expected_wait: given.get("wait").map(|text| parse(text)),
                default_time: given.get("default-time").map(|text| parse(text)),
                max_time: given.get("max-time").map(|text| parse(text)),
                max_nodes: given.get("max-nodes").map(|text| parse(text)),
                users: list("users").map(str::to_owned).collect(),
                groups: list("groups").map(str::to_owned).collect(),
                is_down: given.contains_key("down"),
                down_by_operator: None,
                is_default: given.contains_key("default"),
            };
            (words[0].to_owned(), spec)
        };
        let all = words.split(|word| *word == "/").filter(|words| !words.is_empty()).map(queue).collect();
        self.apply(Event::QueuesSet { queues: Queues::new(all).expect("queues"), by: "root".into() });
    }

    /// The words are `NODE sessions=2 used=30min gaps=1 free=1h` for each node, with `/` between nodes.
    fn sessions_known(&mut self, words: &[&str]) {
        let sessions = |words: &[&str]| {
            let given = fields(words);
            let (used, free) = (parse(given["used"]), parse(given["free"]));
            let sums = SessionSums { sessions: parse(given["sessions"]), used, gaps: parse(given["gaps"]), free };
            NodeSessions { node: self.world.core.node_named(words[0]).expect("a node").id(), sums }
        };
        let nodes = words.split(|word| *word == "/").map(sessions).collect();
        self.apply(Event::SessionsKnown { nodes });
    }

    /// The words are `NAME on=n[0-1] [limit=100W] [owners=suspend start-after=15min evict-after=10min]
    /// [sleep-after=30min|never] [stays-asleep] [open=08:00-18:00]` for each group, with `/` between groups.
    fn groups(&mut self, words: &[&str]) {
        let group = |words: &[&str]| {
            let given = fields(words);
            let nodes = limo_model::parse_hosts(given["on"]).expect("nodes").into_iter().collect();
            let rules = |jobs: &&str| OwnerRules {
                jobs: if *jobs == "run" { Beside::Run } else { Beside::Suspend },
                start_after: parse(given["start-after"]),
                evict_after: parse(given["evict-after"]),
            };
            let limit = watts(given.get("limit").unwrap_or(&"none"));
            let owners = given.get("owners").map(rules);
            let open = given.get("open").and_then(|hours| hours.split_once('-')).map(|(from, until)| {
                Curve::new(vec![(clock(from), true), (clock(until), false)], None).expect("a curve")
            });
            let sleep = SleepRules {
                after: given.get("sleep-after").map(|after| parse(after)),
                stays: given.contains_key("stays-asleep"),
            };
            (words[0].to_owned(), GroupSpec { nodes, limit, owners, sleep, open, ..GroupSpec::default() })
        };
        let all = words.split(|word| *word == "/").map(group).collect();
        self.apply(Event::GroupsSet { groups: Groups::new(all).expect("groups"), by: "root".into() });
    }

    /// The words are `00:00=39W..60W 00:10=60W..90W [until=01:00]`.
    fn forecast(&mut self, words: &[&str]) {
        let steps = words.iter().filter_map(|word| word.split_once('=')).filter(|(at, _)| at.contains(':'));
        let band = |text: &str| {
            let (low, high) = text.split_once("..").expect("low..high");
            Band::new(watts(low), watts(high)).expect("a band")
        };
        let steps = steps.map(|(at, text)| (clock(at), band(text))).collect();
        let limits = Curve::new(steps, fields(words).get("until").map(|at| clock(at))).expect("a curve");
        self.apply(Event::LimitsSet { limits, by: "root".into() });
    }

    /// The words are `USER|default [jobs=2] [cores=4] [energy=1kWh/day] [submitted=9]`.
    fn quota(&mut self, user: &str, given: &BTreeMap<&str, &str>) {
        let count = |name: &str| given.get(name).map(|text| parse(text));
        let energy = given.get("energy").and_then(|text| text.split_once('/'));
        let energy = energy.map(|(energy, window)| (parse(energy), window.parse().expect("a window")));
        let quota = Quota { jobs: count("jobs"), cores: count("cores"), energy, submitted: count("submitted") };
        let mut quotas = self.world.core.settings().quotas.clone();
        match user {
            "default" => quotas.default = quota,
            user => drop(quotas.users.insert(user.to_owned(), quota)),
        }
        self.apply(Event::QuotasSet { quotas, by: "root".into() });
    }

    /// The words are `[age=100] [age-max=7d] [weight=100] [half-life=7d] [by=energy] [every=1min] [share=USER:N]`.
    fn fairshare(&mut self, given: &BTreeMap<&str, &str>) {
        let weight = |name: &str| given.get(name).map_or(0, |text| parse(text));
        let span = |name: &str, usual: Span| given.get(name).map_or(usual, |text| parse(text));
        let usual = Fairshare::default();
        let share = given.get("share").and_then(|text| text.split_once(':'));
        let fairshare = Fairshare {
            age_weight: weight("age"),
            age_max: span("age-max", usual.age_max),
            weight: weight("weight"),
            half_life: span("half-life", usual.half_life),
            measure: given.get("by").map(|text| parse(text)).unwrap_or_default(),
            rank_every: span("every", usual.rank_every),
            shares: share.map(|(user, share)| (user.to_owned(), parse(share))).into_iter().collect(),
        };
        self.apply(Event::FairshareSet { fairshare, by: "root".into() });
    }

    /// Names each node of a packed job with the number of chunks there, and units other than the first: `n0:2 n1:1/gpu0`.
    fn packed(&self, job: JobId, placement: &[Part]) -> String {
        let request = &self.world.core.job(job).expect("it starts").request;
        let on = |(node, chunks): (NodeId, u32)| {
            let spec = self.world.core.node(node).expect("a node").spec();
            let here = || placement.iter().filter(|part| part.is_on(node));
            let names = here().map(|part| spec.units[usize::from(part.unit.unit)].name.as_str());
            let names = names.collect::<Vec<_>>().join("+");
            let cap = here().find_map(|part| part.cap).map_or(String::new(), |cap| format!(" cap {cap}"));
            let units = if here().all(|part| part.unit.unit == 0) { String::new() } else { format!("/{names}") };
            format!("{}:{chunks}{units}{cap}", spec.name)
        };
        let nodes = limo_model::nodes(placement).zip(request.chunks_by_node(placement));
        nodes.map(on).collect::<Vec<_>>().join(" ")
    }

    fn tell(&mut self, round: &Round) {
        let mode = self.world.core.settings().mode;
        if self.shows_mode && self.mode != Some(mode) {
            self.mode = Some(mode);
            self.say(&format!("mode {mode}"));
        }
        for command in &round.commands {
            let text = match command {
                Command::Release { job, .. } => format!("release {}", self.name_of(*job)),
                Command::Start { job, placement, .. }
                    if self.world.core.job(*job).is_some_and(|job| job.request.is_packed()) =>
                {
                    format!("start {} {}", self.name_of(*job), self.packed(*job, placement))
                }
                Command::Start { job, placement, .. } => {
                    let part = placement[0];
                    let node = self.world.core.node(part.unit.node).expect("a node").spec();
                    // For a job on several units of each node, one part stands for all of its node.
                    let here = placement.iter().filter(|other| other.unit.node == part.unit.node);
                    let names =
                        here.map(|part| node.units[usize::from(part.unit.unit)].name.as_str()).collect::<Vec<_>>();
                    let unit = if part.unit.unit == 0 { String::new() } else { format!("/{}", names.join("+")) };
                    let cap = part.cap.map_or(String::new(), |cap| format!(" cap {cap}"));
                    let nodes = match names.len() {
                        1 => self.runs(placement.iter().map(|part| (part.unit.node, part.count))),
                        _ => self.runs(limo_model::runs(placement)),
                    };
                    format!("start {} {nodes}{unit}{cap}", self.name_of(*job))
                }
                Command::Cap { node, caps, .. } => {
                    let name = &self.world.core.node(*node).expect("a node").spec().name;
                    let caps = caps.iter().map(|cap| cap.map_or("none".to_owned(), |cap| cap.to_string()));
                    format!("cap {name} {}", caps.collect::<Vec<_>>().join(" "))
                }
                Command::Suspend { job, .. } => format!("suspend {}", self.name_of(*job)),
                Command::UsedUp { job, used_up, .. } => format!("used-up {} {used_up}", self.name_of(*job)),
                Command::Signal { job, signal, .. } => format!("signal {} {signal}", self.name_of(*job)),
                Command::Resume { job, .. } => format!("resume {}", self.name_of(*job)),
                Command::Resize { job, placement, .. } => {
                    format!("resize {} {}", self.name_of(*job), self.runs(limo_model::runs(placement)))
                }
                Command::Sleep { nodes } => format!("sleep {}", self.runs(nodes.iter().copied())),
                Command::Wake { nodes } => format!("wake {}", self.runs(nodes.iter().copied())),
                Command::Stop { job, why, .. } => format!("stop {} {why}", self.name_of(*job)),
            };
            self.say(&text);
        }
        for (job, wait) in &round.waits {
            self.say(&format!("wait {} {}", self.name_of(*job), wait.shown(shown)));
        }
        for finished in &round.finished {
            let name = self.name_of(finished.job);
            match &finished.end {
                JobEnd::Cancelled { by } => self.say(&format!("cancelled {name} by {by}")),
                JobEnd::Refused { wait } => self.say(&format!("refuse {name} {}", wait.shown(shown))),
                JobEnd::Unmet { dependency, became } => {
                    self.say(&format!("cancelled {name} {dependency}: {} {became}", self.name_of(dependency.job)));
                }
                JobEnd::Ran { stopped: Some(why @ StopReason::GivenUp { .. }), .. } => {
                    self.say(&format!("end {name} {why}"))
                }
                JobEnd::Ran { .. } => {}
            }
            if let Some(TaskCounts { completed, failed, cancelled }) = finished.tasks {
                self.say(&format!("over {name} {completed} completed, {failed} failed, {cancelled} cancelled"));
            }
        }
        assert_eq!(round.violations, [], "the checker found something");
    }

    pub fn step(&mut self, to: Time) {
        for job in self.world.advance(to) {
            let name = self.name_of(job);
            self.say(&format!("end {name}"));
        }
    }

    pub fn settle(&mut self) {
        let round = self.world.round();
        self.tell(&round);
        if !round.commands.is_empty() {
            // The beginnings and ends of jobs on nodes are events as well.
            self.settle();
        }
    }
}
