//! The controller: the one place where what the master knows is changed. Inputs go in, effects come out, and the time is told
//! to it: no socket, no file, no clock, so that every interleaving can be tested.
//!
//! What others are told follows what is on disk. Events are applied to the core at once; a batch of them with the round
//! that follows is committed in one transaction; what depends on it is let out when that is durable (`commit`). Only
//! stdio is passed on at once (`streams`): it is not part of the state.

mod arrays;
mod assign;
mod assignments;
mod backup;
mod batch;
mod changes;
mod clients;
mod clock;
mod commit;
mod commits;
mod deeds;
mod dependencies;
mod drops;
mod exchange;
mod faults;
mod feeds;
mod finished;
mod foreign;
mod grid;
mod history;
mod hold;
mod live;
mod liveness;
mod lookup;
mod metering;
mod multi_node;
mod node_peer;
mod nodes;
mod numbers;
mod pages;
mod probes;
mod queries;
mod questions;
mod read_only;
mod readings;
mod requests;
mod routes;
mod select;
mod sessions;
mod settings;
mod sift;
mod sleep;
mod stdin;
mod steer;
mod streams;
mod submissions;
mod submit;
mod takeover;
#[cfg(test)]
mod tests;
mod time_limits;
mod turns;
mod users;
mod waits;
mod warnings;

use std::collections::{BTreeMap, BTreeSet};

use limo_feeds::grid::Arbiter;
use limo_model::{Attempt, Energy, JobId, JournalId, NodeId, Now, ProfileKey, Span, Time};
use limo_sched::Core;

use crate::budget::Stages;
use crate::changed::CONFIGURATION;
use crate::readings::Kept as ReadingsKept;
use crate::recover::Restored;
use assignments::Assignments;
use backup::Backup;
use commits::Commits;
pub use exchange::{Effect, Input};
use faults::Fault;
pub use feeds::{KEPT as KEPT_PRICES, News};
use foreign::Foreign;
use grid::Grid;
pub use grid::KEPT as KEPT_GRID;
use history::Actor;
pub use history::Found;
pub use live::{Launches, Live};
use liveness::Liveness;
pub use lookup::{Question, Reply};
use metering::Metering;
use node_peer::NodeLinks;
use probes::Probes;
use questions::Questions;
use routes::Routes;
use sessions::Sessions;
pub use settings::{Initial, Settings};
pub use sleep::IdleSettings;
use sleep::Sleepers;
use submissions::Submissions;

/// One connection, from its beginning to its end. Never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u64);

impl PeerId {
    /// Stands for the master itself: no connection has this number.
    const NOBODY: Self = Self(0);
}

/// A question to the journal or the profile database that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The caller of a client's connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub uid: u32,
    pub user: String,
    /// May steer everything, not only own jobs.
    pub operator: bool,
}

/// A finished run from which the profile database may learn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    pub job: JobId,
    pub key: ProfileKey,
    pub duration: Span,
    /// Above idle, as its node measured it.
    pub energy: Energy,
    /// How sure it is that this was the run's own, in thousandths.
    pub confidence: u16,
}

/// What tells one incarnation of a node from another: a start that was released before it began is not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeIncarnation {
    /// Of its state directory.
    pub instance: String,
    /// Of its kernel.
    pub boot: String,
}

/// Inputs beside the journal when the process begins.
#[derive(Debug)]
pub struct Outside {
    /// The sources of limits, as of `clock`.
    pub grid: Arbiter,
    /// How this process tells the time.
    pub clock: limo_sched::Clock,
}

pub struct Controller {
    core: Core,
    stages: Stages,
    metering: Metering,
    /// The last time that was told; never goes back.
    now: Time,
    /// How this process tells the time, with the offset of its start.
    clock: limo_sched::Clock,
    settings: Settings,
    submissions: Submissions,
    nodes: NodeLinks,
    sessions: Sessions,
    /// Whose journal it is.
    journal: JournalId,
    /// Texts of others that are in the journal, or in a batch for it.
    kept: BTreeMap<String, String>,
    grid: Grid,
    routes: Routes,
    assignments: Assignments,
    liveness: Liveness,
    sleepers: Sleepers,
    foreign: Foreign,
    commits: Commits,
    questions: Questions,
    /// Newest reports of the feeds.
    news: Option<News>,
    probes: Probes,
    effects: Vec<Effect>,
    /// How many inputs there were: what one input changed is one change.
    steps: u64,
    /// On whose word events are made that name another, or set something back.
    actor: Option<Actor>,
    backup: Option<Backup>,
}

impl Controller {
    /// Takes up what was restored. The first effects, which make it durable that no node is connected now, come with the
    /// first step.
    pub fn new(restored: Restored, settings: Settings, outside: Outside, has_ballast: bool) -> Self {
        let mut controller = Self {
            now: restored.last,
            clock: outside.clock.clone(),
            core: restored.core,
            stages: restored.stages,
            metering: Metering::new(&settings, restored.last),
            settings,
            submissions: Submissions::default(),
            nodes: NodeLinks::new(restored.incarnations),
            journal: restored.journal,
            kept: restored.kept,
            sessions: Sessions::default(),
            grid: Grid::new(outside.grid, outside.clock.offset),
            routes: Routes::default(),
            assignments: Assignments::default(),
            liveness: Liveness::default(),
            sleepers: Sleepers::default(),
            foreign: Foreign::default(),
            commits: Commits::new(restored.generation, restored.entries),
            questions: Questions::default(),
            news: None,
            probes: Probes::default(),
            effects: Vec::new(),
            steps: 0,
            actor: None,
            backup: None,
        };
        controller.take_up(restored.live);
        // Whatever is starting may have been released by the process before this one.
        let starting: Vec<_> = controller.starting().collect();
        controller.assignments.take_up(starting.into_iter());
        if let Some(reason) = restored.read_only {
            controller.become_read_only(&reason);
            return controller;
        }
        controller.begin(restored.fresh);
        if !has_ballast {
            controller.commits.suffer("the disk under the journal is full".into(), controller.now);
        }
        controller
    }

    /// Takes note of `input` at `now` and says what to do, in order. A `now` before the last one counts as the last one.
    pub fn step(&mut self, now: Now, input: Input) -> Vec<Effect> {
        self.now = self.now.max(now.at);
        self.steps += 1;
        self.draw_goes_on();
        self.follow_clock(now);
        if self.steps == 1 {
            // The time before that is the journal's: nodes and clients have had no time to come back.
            self.take_up_liveness();
            self.take_up_sleep();
            self.routes.take_up(self.submissions.all(), self.now + self.settings.orphan_grace);
        }
        match input {
            Input::NodeConnected(peer) => self.node_connected(peer),
            Input::ClientConnected(peer, caller) => self.client_connected(peer, caller),
            Input::Node(peer, frame) => self.node_frame(peer, frame),
            Input::Client(peer, frame) => self.client_frame(peer, frame),
            Input::Gone(peer) => {
                self.node_gone(peer);
                self.client_gone(peer);
            }
            Input::Committed(result) => self.committed(result),
            Input::Recovered(result) => self.recovered(result),
            Input::Ballast(result) => self.commits.ballast(result, &mut self.effects),
            Input::Answered(ticket, reply) => self.answered(ticket, reply),
            Input::Learned(key, profile) => self.learned(key, profile),
            Input::Metered(meter, shown) => self.metered(meter, shown),
            Input::Timer => self.timer(),
            Input::Feeds(news) => self.told(*news),
            Input::Word(source, word) => self.word(source, word),
            Input::Configured(settings) => self.configured(*settings),
            Input::Drained(peer) => self.drained(peer),
            Input::Dropped(peer, stream, offset) => self.dropped(peer, stream, offset),
            Input::Turn => self.turn(),
            Input::WakeFailed(node, reason) => self.wake_failed(node, reason),
            // The shell has taken it out of its place.
            Input::Placed(input, _) => return self.step(now, *input),
            Input::Stop => {
                self.metering.end();
                self.commits.want_snapshot();
            }
        }
        self.close_batch();
        std::mem::take(&mut self.effects)
    }

    /// When to step with [`Input::Timer`], if nothing happens before.
    pub fn deadline(&self) -> Option<Time> {
        // While the state is being read back, nothing can be given up.
        let orphans = self.routes.next_orphan().filter(|_| self.commits.is_open());
        let leases = self.liveness.next().filter(|_| self.commits.is_open());
        let sleepers = self.sleepers.next().filter(|_| self.commits.is_open());
        let commits = self.commits.deadline(self.metering.due(), self.metering.rows_due());
        [
            commits,
            self.stage_due(),
            self.assignments.next_late(),
            self.assignments.next_missed(),
            orphans,
            leases,
            sleepers,
            self.probes.next(),
            self.grid_due(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns true if everything that was taken in is on disk.
    pub fn is_quiet(&self) -> bool {
        self.commits.is_quiet()
    }

    fn timer(&mut self) {
        self.acks_missed();
        self.orphans_due();
        self.leases_due();
        self.sleep_due();
        self.probes_due();
        self.stop_late();
        if self.stage_due().is_some_and(|due| due <= self.now) {
            self.stage();
        }
        if self.grid_due().is_some_and(|due| due <= self.now) {
            self.follow_grid();
        }
        self.commits.timer(self.now, &mut self.effects);
    }

    /// Keeps a text over a restart, in place of the one before. Tells whether it is in the journal or on its way there.
    fn keep(&mut self, name: &str, text: &str) -> bool {
        if self.kept.get(name).is_some_and(|kept| kept == text) {
            return true;
        }
        if !self.commits.is_open() {
            return false;
        }
        self.kept.insert(name.to_owned(), text.to_owned());
        self.commits.batch().keep(name, text);
        true
    }

    /// Starting attempts.
    fn starting(&self) -> impl Iterator<Item = (JobId, Attempt)> {
        let starting = |(id, job): (JobId, &limo_sched::Job)| match &job.phase {
            limo_sched::Phase::Starting(assignment) => Some((id, assignment.attempt)),
            _ => None,
        };
        self.core.jobs().filter_map(starting)
    }

    /// Makes `live` what holds: at the start, and after a commit that failed.
    fn take_up(&mut self, live: BTreeMap<JobId, Live>) {
        self.submissions = Submissions::new(live);
        self.routes.take_up(self.submissions.all(), self.now + self.settings.orphan_grace);
    }

    /// The first events of this process: no node is connected, and the configuration is in force.
    fn begin(&mut self, fresh: bool) {
        use limo_sched::Event;
        let by = || CONFIGURATION.to_owned();
        if fresh {
            let Initial { preset, band, mode } = self.settings.initial;
            let limits = limo_model::Curve::constant(band);
            self.must(Event::PolicySet { preset, options: self.settings.options, by: by() });
            self.must(Event::LimitsSet { limits, by: by() });
            self.must(Event::ModeSet { mode, by: by() });
        }
        self.keep_clock(self.core.clock().offset);
        self.options_in_force();
        self.feeds_in_force();
        self.follow_grid();
        let away: BTreeSet<NodeId> =
            self.core.nodes().iter().filter(|node| node.is_connected() && node.is_awake()).map(|n| n.id()).collect();
        for node in away {
            self.must(Event::NodeAway { node });
        }
        self.lease_in_force();
        // What the database learned and the journal did not hear of.
        let ticket = self.questions.ask(PeerId::NOBODY);
        self.effects.push(Effect::Ask(ticket, Question::new(changes::AllProfiles)));
    }
}
