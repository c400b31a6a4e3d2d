//! The controller: the only code that changes the master's state. Inputs and times go in, effects come out. It has no
//! socket, file or clock, so every interleaving can be tested.
//!
//! Reports follow the disk. Events are applied to the core at once; a batch of them with the round that follows is
//! committed in one transaction; dependent messages are released when it is durable (`commit`). Only stdio is passed on
//! at once (`streams`): it is not part of the state.

mod accounts;
mod arrays;
mod assign;
mod assignments;
mod audited;
mod backup;
mod batch;
mod changes;
mod checkpoints;
mod clients;
mod commit;
mod commits;
mod deeds;
mod dependencies;
mod drops;
mod exchange;
pub mod faults;
mod feeds;
mod figures;
mod finished;
mod foreign;
mod grid;
mod groups;
mod history;
mod hold;
mod hook;
mod listing;
mod live;
mod liveness;
mod lookup;
mod measured;
mod metering;
mod multi_node;
mod node_peer;
mod nodes;
mod notify;
mod numbers;
mod owners;
mod pages;
mod pause;
mod plan;
mod predictor;
mod presence;
mod probes;
mod queries;
mod questions;
mod queues;
mod read_only;
mod readings;
mod reboots;
mod requests;
mod returning;
mod routes;
mod select;
mod sessions;
mod settings;
mod sift;
mod signals;
mod sleep;
mod stdin;
mod steer;
mod steps;
mod stopped;
mod streams;
mod submissions;
mod submit;
mod takeover;
#[cfg(test)]
mod tests;
mod time_limits;
mod turns;
mod tx;
mod unfit;
mod users;
mod variation;
mod waits;
mod warnings;
mod web;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limo_feeds::grid::Arbiter;
use limo_model::{Energy, JobId, NodeId, Now, ProfileKey, Span, Time, UnitId};

use crate::changed::CONFIGURATION;
use crate::hook::HookTurns;
use crate::readings::Kept as ReadingsKept;
use crate::recover::Restored;
use assignments::Assignments;
use commits::Commits;
pub use exchange::{Effect, Input};
use faults::Fault;
pub use feeds::{KEPT as KEPT_PRICES, News};
pub use figures::{DrawSource, Figures, NodeFigures};
use figures::{Ended, JobCounts};
use grid::Grid;
pub use grid::KEPT as KEPT_GRID;
pub use history::Found;
pub use live::{Launches, Live};
use liveness::Liveness;
pub use lookup::{Question, Reply};
use metering::Metering;
use node_peer::NodeLinks;
use plan::Planned;
use predictor::{LoadModel, Predictions};
use presence::Presence;
use questions::Questions;
use reboots::Reboots;
use routes::Routes;
use sessions::Sessions;
pub use settings::{Initial, Settings};
use signals::Signals;
pub use sleep::IdleSettings;
use sleep::Sleepers;
use submissions::Submissions;
use tx::Tx;

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
    /// The groups of its user on this machine, by name.
    pub groups: Arc<BTreeSet<String>>,
    /// True if it may control everything, not only its own jobs.
    pub operator: bool,
    /// True if it may not submit or change anything.
    pub may_only_ask: bool,
}

/// A finished run from which the profile database may learn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    pub job: JobId,
    pub key: ProfileKey,
    /// Its unit; `None` for a run over several nodes.
    pub unit: Option<UnitId>,
    pub duration: Span,
    /// Energy above idle on each node, as the nodes measured it.
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

/// The components of the master, each with its own state, and what they share.
pub struct Controller {
    tx: Tx,
    submissions: Submissions,
    nodes: NodeLinks,
    sessions: Sessions,
    signals: Signals,
    routes: Routes,
    assignments: Assignments,
    liveness: Liveness,
    presence: Presence,
    sleepers: Sleepers,
    reboots: Reboots,
    questions: Questions,
    predictions: Predictions,
    planned: Planned,
    ended: Ended,
    counts: JobCounts,
    hook_turns: Arc<HookTurns>,
}

impl Controller {
    /// Starts from the restored state. The first step makes it durable that all nodes are disconnected.
    pub fn new(restored: Restored, settings: Settings, outside: Outside, has_ballast: bool) -> Self {
        let tx = Tx {
            now: restored.last,
            clock: outside.clock.clone(),
            core: restored.core,
            stages: restored.stages,
            metering: Metering::new(&settings, restored.last),
            settings,
            journal: restored.journal,
            commits: Commits::new(restored.generation, restored.entries),
            effects: Vec::new(),
            steps: 0,
            actor: None,
        };
        let mut controller = Self {
            tx,
            submissions: Submissions::default(),
            nodes: NodeLinks::new(restored.incarnations),
            sessions: Sessions::default(),
            signals: Signals::new(Grid::new(outside.grid, outside.clock.offset), restored.kept),
            routes: Routes::default(),
            assignments: Assignments::default(),
            liveness: Liveness::default(),
            presence: Presence::default(),
            sleepers: Sleepers::default(),
            reboots: Reboots::default(),
            questions: Questions::default(),
            predictions: Predictions::default(),
            planned: Planned::default(),
            counts: JobCounts::default(),
            ended: Ended::default(),
            hook_turns: Arc::default(),
        };
        controller.take_up(restored.live);
        // An earlier process may have released starting attempts.
        let starting: Vec<_> = controller.tx.starting().collect();
        controller.assignments.take_up(starting.into_iter());
        if let Some(reason) = restored.read_only {
            controller.become_read_only(&reason);
            return controller;
        }
        controller.begin(restored.fresh);
        if !has_ballast {
            controller.tx.commits.suffer("the disk under the journal is full".into(), controller.tx.now);
        }
        controller
    }

    /// Handles `input` at `now` and returns the effects, in order. A `now` before the last one counts as the last one.
    pub fn step(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let of_wall = faults::has(Fault::WallClockFollowed).then(|| Time::from_unix_ms(now.wall.unix_ms()));
        self.tx.now = self.tx.now.max(of_wall.unwrap_or(now.at));
        self.tx.steps += 1;
        self.notice_absence();
        self.tx.draw_goes_on();
        self.signals.follow_clock(&mut self.tx, now);
        if self.tx.steps == 1 {
            // Earlier time belongs to the journal: nodes and clients could not reconnect yet.
            self.liveness.take_up(&self.tx);
            self.sleepers.take_up(&mut self.tx, &mut self.assignments);
            self.reboots_in_force();
            self.routes.take_up(self.submissions.all(), self.tx.now + self.tx.settings.orphan_grace);
        }
        match input {
            Input::NodeConnected(peer) => self.node_connected(peer),
            Input::NodeCertified(peer, name) => self.nodes.certify(peer, name),
            Input::ClientConnected(peer, caller) => self.client_connected(peer, caller),
            Input::Node(peer, frame) => self.node_frame(peer, frame),
            Input::Client(peer, frame) => self.client_frame(peer, frame),
            Input::Gone(peer) => {
                self.node_gone(peer);
                self.client_gone(peer);
            }
            Input::Committed(result) => self.committed(result),
            Input::Recovered(result) => self.recovered(result),
            Input::Ballast(result) => self.tx.commits.ballast(result, &mut self.tx.effects),
            Input::Answered(ticket, reply) => self.answered(ticket, reply),
            Input::Learned(key, profile) => self.learned(key, profile),
            Input::Metered(meter, shown) => self.metered(meter, shown),
            Input::Timer => self.timer(),
            Input::Feeds(news) => self.signals.told(&mut self.tx, *news),
            Input::Word(source, word) => self.signals.word(&mut self.tx, source, word),
            Input::Configured(settings) => self.configured(*settings),
            Input::Drained(peer) => self.drained(peer),
            Input::Dropped(peer, stream, offset) => self.dropped(peer, stream, offset),
            Input::Turn => self.turn(),
            Input::PageFound(peer, report) => self.page_found(peer, report),
            Input::WakeFailed(node, reason) => self.sleepers.wake_failed(&self.tx, node, reason),
            // The shell has already freed the place of this frame.
            Input::Placed(input, _) => return self.step(now, *input),
            Input::Stop => {
                self.tx.metering.end();
                self.tx.commits.want_snapshot();
            }
        }
        self.order_reboots();
        self.close_batch();
        std::mem::take(&mut self.tx.effects)
    }

    /// Returns the time to step with [`Input::Timer`], if no input comes before.
    pub fn deadline(&self) -> Option<Time> {
        // While the state is being read back, jobs cannot be abandoned.
        let is_open = self.tx.commits.is_open();
        let orphans = self.routes.next_orphan().filter(|_| is_open);
        let leases = self.liveness.next().filter(|_| is_open);
        let sleepers = self.sleepers.next().filter(|_| is_open);
        let (late, missed) = (self.assignments.next_late(), self.assignments.next_missed());
        let peers = [orphans, leases, sleepers, late, missed].into_iter().flatten().min();
        [
            peers,
            self.presence.next().filter(|_| peers.is_some()),
            self.tx.commits.deadline(self.tx.metering.due(), self.tx.metering.rows_due()),
            self.tx.stage_due(),
            self.reboots.next().filter(|_| is_open),
            self.questions.probes.next(),
            self.questions.measures.next(),
            self.signals.grid_due(&self.tx),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns true if all inputs so far are on disk.
    pub fn is_quiet(&self) -> bool {
        self.tx.commits.is_quiet()
    }

    fn timer(&mut self) {
        self.acks_missed();
        self.orphans_due();
        self.leases_due();
        self.sleep_due();
        self.reboots.decide(&mut self.tx);
        self.probes_due();
        self.measures_due();
        self.stop_late();
        if self.tx.stage_due().is_some_and(|due| due <= self.tx.now) {
            self.tx.stage();
        }
        if self.signals.grid_due(&self.tx).is_some_and(|due| due <= self.tx.now) {
            self.signals.follow_grid(&mut self.tx);
        }
        self.tx.commits.timer(self.tx.now, &mut self.tx.effects);
    }

    /// Installs `live` as the accepted jobs: at the start, and after a failed commit.
    fn take_up(&mut self, live: BTreeMap<JobId, Live>) {
        self.submissions.take_up(live);
        self.routes.take_up(self.submissions.all(), self.tx.now + self.tx.settings.orphan_grace);
    }

    /// Records the first events of this process: all nodes are disconnected, and the configuration is in force.
    fn begin(&mut self, fresh: bool) {
        use limo_sched::Event;
        let by = || CONFIGURATION.to_owned();
        if fresh {
            let Initial { preset, band, mode } = self.tx.settings.initial;
            let limits = limo_model::Curve::constant(band);
            let options = settings::consistent(preset, self.tx.settings.options);
            self.tx.must(Event::PolicySet { preset, options, by: by() });
            self.tx.must(Event::LimitsSet { limits, by: by() });
            self.tx.must(Event::ModeSet { mode, by: by() });
        }
        let offset = self.tx.core.clock().offset;
        self.signals.keep_clock(&mut self.tx, offset);
        self.signals.keep_currency(&mut self.tx);
        self.tx.options_in_force();
        self.tx.queues_in_force();
        self.tx.groups_in_force();
        self.tx.licences_in_force();
        self.tx.accounts_in_force();
        self.signals.feeds_in_force(&mut self.tx);
        self.signals.follow_grid(&mut self.tx);
        let away: BTreeSet<NodeId> =
            self.tx.core.nodes().iter().filter(|node| node.is_connected() && node.is_awake()).map(|n| n.id()).collect();
        for node in away {
            self.tx.must(Event::NodeAway { node });
        }
        Liveness::lease_in_force(&mut self.tx);
        // Reads updates of the profile database that the journal missed.
        let ticket = self.questions.ask(PeerId::NOBODY);
        self.tx.effects.push(Effect::Ask(ticket, Question::new(changes::AllProfiles)));
        let (ticket, wall) = (self.questions.ask(PeerId::NOBODY), self.tx.wall());
        self.tx.effects.push(Effect::Ask(ticket, Question::new(LoadModel(wall))));
    }
}
