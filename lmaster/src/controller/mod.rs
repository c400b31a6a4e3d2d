//! The controller: the only code that changes the master's state. Inputs and times go in, effects come out. It has no
//! socket, file or clock, so every interleaving can be tested.
//!
//! Reports follow the disk. Events are applied to the core at once; a batch of them with the round that follows is
//! committed in one transaction; dependent messages are released when it is durable (`commit`). Only stdio is passed on
//! at once (`streams`): it is not part of the state.

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
mod pause;
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

/// One connection, from its beginning to its end. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u64);

impl PeerId {
    /// Number for the master itself: no connection has this number.
    const NOBODY: Self = Self(0);
}

/// A running query of the journal or the profile database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The caller of a client's connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub uid: u32,
    pub user: String,
    /// True if it may control everything, not only its own jobs.
    pub operator: bool,
}

/// A finished run from which the profile database may learn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    pub job: JobId,
    pub key: ProfileKey,
    pub duration: Span,
    /// Energy above idle, as its node measured it.
    pub energy: Energy,
    /// Confidence that this energy was the run's own, in thousandths.
    pub confidence: u16,
}

/// Identity of a node's incarnation. A start that was released earlier is not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeIncarnation {
    /// Instance of its state directory.
    pub instance: String,
    /// Boot id of its kernel.
    pub boot: String,
}

/// Inputs beside the journal when the process begins.
#[derive(Debug)]
pub struct Outside {
    /// The sources of limits, as of `clock`.
    pub grid: Arbiter,
    /// The clock of this process.
    pub clock: limo_sched::Clock,
}

pub struct Controller {
    core: Core,
    stages: Stages,
    metering: Metering,
    /// Time of the last input; never goes back.
    now: Time,
    /// The clock of this process, with the offset of its start.
    clock: limo_sched::Clock,
    settings: Settings,
    submissions: Submissions,
    nodes: NodeLinks,
    sessions: Sessions,
    /// Identity of the journal.
    journal: JournalId,
    /// Texts of other components that are in the journal, or in a batch for it.
    kept: BTreeMap<String, String>,
    grid: Grid,
    routes: Routes,
    assignments: Assignments,
    liveness: Liveness,
    sleepers: Sleepers,
    foreign: Foreign,
    commits: Commits,
    questions: Questions,
    /// The latest report of the feeds.
    news: Option<News>,
    probes: Probes,
    effects: Vec<Effect>,
    /// Number of inputs so far. The changes of one input form one change.
    steps: u64,
    /// Operator behind events that name another author, or undo something.
    actor: Option<Actor>,
    backup: Option<Backup>,
}

impl Controller {
    /// Starts from the restored state. The first step makes it durable that all nodes are disconnected.
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
        // An earlier process may have released starting attempts.
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

    /// Handles `input` at `now` and returns the effects, in order. A `now` before the last one counts as the last one.
    pub fn step(&mut self, now: Now, input: Input) -> Vec<Effect> {
        self.now = self.now.max(now.at);
        self.steps += 1;
        self.draw_goes_on();
        self.follow_clock(now);
        if self.steps == 1 {
            // Earlier time belongs to the journal: nodes and clients could not reconnect yet.
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
            // The shell has already freed the place of this frame.
            Input::Placed(input, _) => return self.step(now, *input),
            Input::Stop => {
                self.metering.end();
                self.commits.want_snapshot();
            }
        }
        self.close_batch();
        std::mem::take(&mut self.effects)
    }

    /// Returns the time to step with [`Input::Timer`], if no input comes before.
    pub fn deadline(&self) -> Option<Time> {
        // While the state is being read back, jobs cannot be abandoned.
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

    /// Returns true if all inputs so far are on disk.
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

    /// Keeps a text over a restart in place of the earlier one. Returns true if it is in the journal or in a batch
    /// for it.
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

    /// Returns the starting attempts.
    fn starting(&self) -> impl Iterator<Item = (JobId, Attempt)> {
        let starting = |(id, job): (JobId, &limo_sched::Job)| match &job.phase {
            limo_sched::Phase::Starting(assignment) => Some((id, assignment.attempt)),
            _ => None,
        };
        self.core.jobs().filter_map(starting)
    }

    /// Installs `live` as the accepted jobs: at the start, and after a failed commit.
    fn take_up(&mut self, live: BTreeMap<JobId, Live>) {
        self.submissions = Submissions::new(live);
        self.routes.take_up(self.submissions.all(), self.now + self.settings.orphan_grace);
    }

    /// Records the first events of this process: all nodes are disconnected, and the configuration is in force.
    fn begin(&mut self, fresh: bool) {
        use limo_sched::Event;
        let by = || CONFIGURATION.to_owned();
        if fresh {
            let Initial { preset, band, mode } = self.settings.initial;
            let limits = limo_model::Curve::constant(band);
            let options = settings::consistent(preset, self.settings.options);
            self.must(Event::PolicySet { preset, options, by: by() });
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
        // Reads updates of the profile database that the journal missed.
        let ticket = self.questions.ask(PeerId::NOBODY);
        self.effects.push(Effect::Ask(ticket, Question::new(changes::AllProfiles)));
    }
}
