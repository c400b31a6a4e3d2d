//! Changes by users and operators: cancelling, signals, limits, budgets, prices, mode, policy, nodes, profiles. Each
//! change is an event with the name of its author.

use std::collections::BTreeSet;

use limo_model::{Budgets, JobId, NodeId, NodeSpec, Profile, ProfileKey, Reservation, SlowdownKey, check_name};
use limo_proto::{Answer, Change, JournalSizes, MasterToClient};
use limo_sched::budget::possible;
use limo_sched::{Event, Refused};
use nix::libc::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};

use super::commit::{After, done};
use super::deeds::Deed;
use super::history::UndoLookup;
use super::lookup::Lookup;
use super::select::{Purpose, Selecting};
use super::warnings::About;
use super::{Controller, PeerId};
use crate::changed::{DATABASE, LEARNING};
use crate::database::Database;

/// Signals that would end a command. Before the command runs, they cancel the job.
pub(super) const ENDING: [i32; 5] = [SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM];

/// The highest real-time signal of Linux.
pub(super) const LAST_SIGNAL: i32 = 64;

/// Most reservations. Each start checks those of its node, and clients get all of them in one message.
const RESERVATIONS_LIMIT: usize = 1_000;

/// Longest text in a reservation, in bytes.
const TEXT_LIMIT: usize = 1_000;

/// Imports profiles.
#[derive(Debug)]
struct StoreProfiles(Vec<(ProfileKey, Profile)>);

impl Lookup for StoreProfiles {
    type Found = Vec<(ProfileKey, Profile)>;

    async fn read(&self, from: &dyn Database) -> anyhow::Result<Self::Found> {
        from.store_profiles(self.0.clone()).await
    }

    fn found(self, controller: &mut Controller, peer: PeerId, stored: Self::Found) {
        controller.profiles_stored(peer, stored.into_iter().map(|(key, profile)| (key, Some(profile))).collect());
    }
}

/// Deletes a profile.
#[derive(Debug)]
struct ForgetProfile(ProfileKey);

impl Lookup for ForgetProfile {
    type Found = ();

    async fn read(&self, from: &dyn Database) -> anyhow::Result<()> {
        anyhow::ensure!(from.forget_profile(&self.0).await?, "there is no profile of {}", self.0);
        Ok(())
    }

    fn found(self, controller: &mut Controller, peer: PeerId, (): ()) {
        controller.profiles_stored(peer, vec![(self.0, None)]);
    }
}

/// All profiles in the database, for the core.
#[derive(Debug)]
pub(super) struct AllProfiles;

impl Lookup for AllProfiles {
    type Found = Vec<(ProfileKey, Profile)>;

    async fn read(&self, from: &dyn Database) -> anyhow::Result<Self::Found> {
        from.profiles().await
    }

    fn found(self, controller: &mut Controller, _: PeerId, profiles: Self::Found) {
        controller.follow_database(profiles);
    }

    fn failed(&self, _: &mut Controller, reason: &str) {
        tracing::error!(reason, "the profile database could not be read");
    }
}

#[derive(Debug)]
struct CompactJournal;

impl Lookup for CompactJournal {
    type Found = JournalSizes;

    async fn read(&self, from: &dyn Database) -> anyhow::Result<JournalSizes> {
        from.compact().await
    }

    fn found(self, controller: &mut Controller, peer: PeerId, sizes: JournalSizes) {
        controller.say(peer, Answer::Compacted(sizes));
    }
}

impl Controller {
    pub(super) fn change(&mut self, peer: PeerId, change: Change) {
        let Some(caller) = self.caller(peer).cloned() else { return };
        if let Some(jobs) = change.jobs()
            && jobs.len() > self.tx.settings.limits.wait_numbers as usize
        {
            let (count, limit) = (jobs.len(), self.tx.settings.limits.wait_numbers);
            let reason = format!("the change names {count} jobs: the limit is {limit}");
            return self.refuse(peer, reason, Some("name them in several requests"));
        }
        match &change {
            Change::Cancel(jobs) => return self.cancel(peer, jobs),
            Change::Hold(jobs) => return self.hold_jobs(peer, jobs),
            Change::Release(jobs) => return self.release_jobs(peer, jobs),
            Change::Requeue(jobs) => return self.requeue_jobs(peer, jobs),
            Change::SuspendJobs(jobs) => return self.suspend_jobs(peer, jobs),
            Change::ResumeJobs(jobs) => return self.resume_jobs(peer, jobs),
            Change::Priority { jobs, priority } => return self.rank_jobs(peer, jobs, *priority),
            Change::TimeLimit { jobs, limit } => return self.limit_jobs(peer, jobs, *limit),
            _ => {}
        }
        if let Change::CancelSelected { selection, signal } = change {
            let purpose = signal.map_or(Purpose::Cancel, Purpose::Signal);
            return self.select(peer, Selecting::new(selection, purpose));
        }
        if !caller.operator {
            let reason = format!("only an operator may do that, not {}", caller.user);
            return self.refuse(peer, reason, None);
        }
        self.audit_change(peer, &change);
        let by = caller.user;
        let event = match change {
            Change::Cancel(_)
            | Change::Hold(_)
            | Change::Release(_)
            | Change::Requeue(_)
            | Change::SuspendJobs(_)
            | Change::ResumeJobs(_)
            | Change::Priority { .. }
            | Change::TimeLimit { .. }
            | Change::CancelSelected { .. } => return,
            Change::Budgets { budgets, seen } => match self.budgets(&budgets, seen.as_ref()) {
                Ok(budgets) => Ok(Event::BudgetsSet { budgets, by }),
                Err(reason) => return self.refuse(peer, reason, None),
            },
            Change::Limits(limits) => Ok(Event::LimitsSet { limits, by }),
            Change::QueueState { queue, is_down } => match self.queue_state(&queue, is_down, by) {
                Ok(event) => Ok(event),
                Err(reason) => return self.refuse(peer, reason, Some("lconf queue list")),
            },
            Change::GroupLimit { group, limit } => self.group_limit(&group, limit, by),
            Change::Mode(mode) => Ok(Event::ModeSet { mode, by }),
            Change::Explore(share) => Ok(Event::ExploreSet { share, by }),
            Change::SetVariation(factors) => match self.factors(factors) {
                Ok(factors) => Ok(Event::VariationSet { factors, by }),
                Err(reason) => return self.refuse(peer, reason, Some("lconf node list")),
            },
            Change::Slowdown { key, law } => match named(&key) {
                Ok(()) => Ok(Event::SlowdownSet { key, law, by }),
                Err(reason) => return self.refuse(peer, reason, Some(SLOWDOWN_HINT)),
            },
            Change::Policy { preset, parts } => match self.options_with(preset, &parts) {
                Ok(options) => Ok(Event::PolicySet { preset, options, by }),
                Err(reason) => return self.refuse(peer, reason, None),
            },
            Change::FollowFeeds => return self.follow_feeds(peer),
            Change::Prices(prices) => Ok(Event::PricesSet { prices, by }),
            Change::Drain { nodes, reason } => {
                return self.serve_nodes(peer, &nodes, |node| {
                    let (reason, by) = (reason.clone(), by.clone());
                    Event::NodeDrained { node, reason, by }
                });
            }
            Change::StopNodes { nodes, reason } => return self.stop_nodes(peer, &nodes, (&reason, &by)),
            Change::Resume { nodes } => {
                return self.serve_nodes(peer, &nodes, |node| Event::NodeResumed { node, by: by.clone() });
            }
            Change::SetProfiles(profiles) => return self.ask(peer, StoreProfiles(profiles)),
            Change::Users(change) => match self.users_changed(change, by) {
                Ok(event) => Ok(event),
                Err(reason) => return self.refuse(peer, reason, None),
            },
            Change::ForgetProfile(key) => return self.ask(peer, ForgetProfile(key)),
            Change::Backup => return self.back_up(peer),
            Change::TrainPredictor => return self.train_predictor(peer),
            Change::CompactJournal => return self.ask(peer, CompactJournal),
            Change::Reserve { name, reservation } => match self.reservable(&name, &reservation) {
                Ok(()) => Ok(Event::ReservationSet { name, reservation: Some(reservation), by }),
                Err(reason) => return self.refuse(peer, reason, Some("lconf reservation list")),
            },
            Change::AddNodes(specs) => return self.add_nodes(peer, specs, &by),
            Change::RemoveNodes(names) => return self.remove_nodes(peer, &names, &by),
            Change::NodesLost(names) => return self.nodes_lost(peer, &names, &by),
            Change::Unreserve { name } => Ok(Event::ReservationSet { name, reservation: None, by }),
            Change::Undo(undo) => return self.ask(peer, UndoLookup(undo)),
        };
        let about = event.as_ref().map_or(About::Nothing, About::of);
        match event.and_then(|event| self.tx.record(event)) {
            Ok(()) => {
                if about == About::Limits {
                    self.signals.follow_grid(&mut self.tx);
                }
                match self.warnings(about) {
                    none if none.is_empty() => self.after(done(peer)),
                    warnings => self.answer(peer, MasterToClient::Answer(Box::new(Answer::Warned(warnings)))),
                }
            }
            Err(refused) => self.refuse(peer, refused.to_string(), None),
        }
    }

    /// Returns the periods that are not over, or the reason if they are invalid.
    fn budgets(&self, budgets: &Budgets, seen: Option<&Budgets>) -> Result<Budgets, String> {
        let wall = self.tx.wall();
        let present = self.tx.core.clock().shown_budgets(&self.tx.core.settings().budgets);
        let present = present.from_then_on(wall);
        if seen.is_some_and(|seen| seen.from_then_on(wall) != present) {
            return Err("another user has just changed the budgets: nothing is done".into());
        }
        let periods = budgets.from_then_on(wall).to_vec();
        if periods.is_empty() && !budgets.is_empty() {
            return Err("every budget period is over".into());
        }
        for (number, period) in (1..).zip(&periods).filter(|(_, period)| !present.contains(period)) {
            possible(period, self.tx.core.idle()).map_err(|impossible| match periods.len() {
                1 => impossible.to_string(),
                _ => format!("period {number} of the budgets: {impossible}"),
            })?;
        }
        Budgets::new(periods).map_err(|error| error.to_string())
    }

    fn add_nodes(&mut self, peer: PeerId, specs: Vec<NodeSpec>, by: &str) {
        let mut names = BTreeSet::new();
        for spec in &specs {
            if let Err(error) = spec.check() {
                return self.refuse(peer, error.to_string(), None);
            }
            if self.tx.core.node_named(&spec.name).is_some() || !names.insert(&spec.name) {
                let refused = Refused::KnownNode { name: spec.name.clone() };
                return self.refuse(peer, refused.to_string(), Some("lconf node list"));
            }
        }
        // This equals the rule for a registering node: such a record cannot switch a node on.
        let specs = specs.into_iter().map(|spec| self.tx.metering.with_meter(NodeSpec { rest: None, ..spec }));
        for spec in specs.collect::<Vec<_>>() {
            self.tx.must(Event::NodeAdded { spec, by: by.to_owned() });
        }
        self.after(done(peer));
    }

    fn remove_nodes(&mut self, peer: PeerId, names: &[String], by: &str) {
        let node = |name: &String| {
            let node = self.node(name)?;
            self.tx.core.check_removal(node).map(|()| node)
        };
        match names.iter().map(node).collect::<Result<BTreeSet<NodeId>, Refused>>() {
            Ok(nodes) => {
                for node in nodes {
                    self.tx.must(Event::NodeRemoved { node, by: by.to_owned() });
                }
                self.after(done(peer));
            }
            Err(refused) => self.refuse(peer, refused.to_string(), None),
        }
    }

    /// Checks a new reservation beyond the checks of the core.
    fn reservable(&self, name: &str, new: &Reservation) -> Result<(), String> {
        check_name("reservation", name).map_err(|error| error.to_string())?;
        if self.tx.core.reservations().contains_key(name) {
            return Err(format!("the reservation `{name}` already exists"));
        }
        if self.tx.core.reservations().len() >= RESERVATIONS_LIMIT {
            return Err(format!("the limit is {RESERVATIONS_LIMIT} reservations at a time"));
        }
        let longest = new.users.iter().chain(&new.nodes).chain([&new.reason]).map(String::len).max();
        if longest.is_some_and(|longest| longest > TEXT_LIMIT) {
            return Err(format!("a user, a node or the reason is longer than {TEXT_LIMIT} bytes"));
        }
        Ok(())
    }

    /// Makes one event for each of the nodes, or none if a name is unknown.
    fn serve_nodes(&mut self, peer: PeerId, names: &[String], event: impl Fn(NodeId) -> Event) {
        match names.iter().map(|name| self.node(name)).collect::<Result<Vec<NodeId>, Refused>>() {
            Ok(nodes) => {
                nodes.into_iter().for_each(|node| self.tx.must(event(node)));
                self.after(done(peer));
            }
            Err(refused) => self.refuse(peer, refused.to_string(), None),
        }
    }

    pub(super) fn node(&self, name: &str) -> Result<NodeId, Refused> {
        let found = self.tx.core.node_named(name).map(|node| node.id());
        found.ok_or_else(|| {
            let known: Vec<&str> = self.tx.core.known_nodes().map(|node| node.spec().name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Refused::UnknownNode { name: name.to_owned(), known }
        })
    }

    /// Checks that the caller may control an unfinished job.
    pub(super) fn may_steer(&self, peer: PeerId, job: JobId) -> Result<(), String> {
        let (Some(caller), Some(live), true) = (self.caller(peer), self.live_of(job), self.is_known(job)) else {
            return Err(Refused::NoSuchJob { job }.to_string());
        };
        if caller.operator || caller.uid == live.uid {
            return Ok(());
        }
        Err(format!("job {job} belongs to {}, not to {}", live.request.user, caller.user))
    }

    /// Cancels all of the jobs or none.
    fn cancel(&mut self, peer: PeerId, jobs: &[JobId]) {
        match jobs.iter().try_for_each(|job| self.may_steer(peer, *job)) {
            Ok(()) => self.do_all(peer, Deed::Cancel, jobs.iter().copied().collect()),
            Err(reason) => self.refuse(peer, reason, None),
        }
    }

    pub(super) fn cancel_for(&mut self, peer: PeerId, job: JobId) {
        let Some(by) = self.caller(peer).map(|caller| caller.user.clone()) else { return };
        // A request may list the same job twice.
        if self.is_known(job) {
            self.tx.must(Event::CancelRequested { job, by });
            self.stop_now(job);
        }
    }

    /// Sends a signal to a job. Only a refusal is answered.
    pub(super) fn signal(&mut self, peer: PeerId, job: JobId, signal: i32) {
        if !(1..=LAST_SIGNAL).contains(&signal) {
            return self.refuse(peer, format!("{signal} is not a signal: 1 to {LAST_SIGNAL}"), None);
        }
        if self.tx.core.job(job).is_none() && self.tx.core.next_job() > job {
            // The job ended before the signal arrived.
            return;
        }
        if let Err(reason) = self.may_steer(peer, job) {
            return self.refuse(peer, reason, None);
        }
        self.audit_deed(peer, Deed::Signal(signal), &std::iter::once(job).collect());
        self.send_signal(peer, job, signal);
    }

    /// Updates the core's profiles after a change of the database.
    fn profiles_stored(&mut self, peer: PeerId, profiles: Vec<(ProfileKey, Option<Profile>)>) {
        let by = self.caller(peer).map_or_else(String::new, |caller| caller.user.clone());
        for (key, profile) in profiles {
            self.profile_is(key, profile, &by);
        }
        self.after(After::Answer(peer, MasterToClient::Answer(Box::new(Answer::Done))));
    }

    /// Replaces the core's profiles by those of the database.
    fn follow_database(&mut self, profiles: Vec<(ProfileKey, Profile)>) {
        let gone = |key: &&ProfileKey| !profiles.iter().any(|(known, _)| known == *key);
        let gone: Vec<ProfileKey> = self.tx.core.profiles().keys().filter(gone).cloned().collect();
        for key in gone {
            self.profile_is(key, None, DATABASE);
        }
        for (key, profile) in profiles {
            self.profile_is(key, Some(profile), DATABASE);
        }
    }

    /// Applies a profile that a finished run has updated.
    pub(super) fn learned(&mut self, key: ProfileKey, profile: Profile) {
        self.profile_is(key, Some(profile), LEARNING);
    }

    fn profile_is(&mut self, key: ProfileKey, profile: Option<Profile>, by: &str) {
        if self.tx.commits.is_open() && self.tx.core.profiles().get(&key) != profile.as_ref() {
            self.tx.must(Event::ProfileSet { key, profile, by: by.to_owned() });
        }
    }
}

/// Hint after a law of slowdown for nothing.
const SLOWDOWN_HINT: &str = "lconf set slowdown F=0.75 --app cg --hardware xeon";

/// Checks that a law of slowdown is for an application, a type of hardware or both, by their names.
fn named(key: &SlowdownKey) -> Result<(), String> {
    let SlowdownKey { application, hardware } = key;
    if application.is_empty() && hardware.is_empty() {
        return Err("a law of slowdown needs an application, a type of hardware or both".to_owned());
    }
    [("application", application), ("hardware", hardware)]
        .into_iter()
        .filter(|(_, name)| !name.is_empty())
        .try_for_each(|(what, name)| check_name(what, name).map_err(|error| error.to_string()))
}
