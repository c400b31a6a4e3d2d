//! What users and operators change: cancelling, signals, limits, budgets, prices, mode, policy, nodes, profiles. Each change is an
//! event with the name of who made it.

use limo_model::{Budgets, JobId, NodeId, Profile, ProfileKey};
use limo_proto::{Answer, Change, MasterToClient};
use limo_sched::budget::possible;
use limo_sched::{Event, Refused};
use nix::libc::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};

use super::clients::Asked;
use super::commit::{After, done};
use super::select::{Purpose, Selecting};
use super::{Desk, PeerId, Question};

/// Signals that would have ended a command; before it runs they cancel the job.
pub(super) const ENDING: [i32; 5] = [SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM];

/// The highest real-time signal of Linux.
pub(super) const LAST_SIGNAL: i32 = 64;

/// Who the journal names where the master itself changes a profile.
const LEARNING: &str = "learning";
const DATABASE: &str = "profile database";

impl Desk {
    pub(super) fn change(&mut self, peer: PeerId, change: Change) {
        let Some(caller) = self.caller(peer).cloned() else { return };
        match &change {
            Change::Cancel(jobs) => return self.cancel(peer, jobs),
            Change::Hold(jobs) => return self.hold_jobs(peer, jobs),
            Change::Release(jobs) => return self.release_jobs(peer, jobs),
            Change::Requeue(jobs) => return self.requeue_jobs(peer, jobs),
            Change::Priority { jobs, priority } => return self.rank_jobs(peer, jobs, *priority),
            _ => {}
        }
        if let Change::CancelSelected { selection, signal } = change {
            let purpose = signal.map_or(Purpose::Cancel, Purpose::Signal);
            return self.select(peer, Selecting { selection, purpose });
        }
        if !caller.operator {
            let reason = format!("only root and the user that runs the master may do that, not {}", caller.user);
            return self.refuse(peer, reason, None);
        }
        let by = caller.user;
        let event = match change {
            Change::Cancel(_)
            | Change::Hold(_)
            | Change::Release(_)
            | Change::Requeue(_)
            | Change::Priority { .. }
            | Change::CancelSelected { .. } => return,
            Change::Budgets { budgets, seen } => match self.budgets(&budgets, seen.as_ref()) {
                Ok(budgets) => Ok(Event::BudgetsSet { budgets, by }),
                Err(reason) => return self.refuse(peer, reason, None),
            },
            Change::Limits(limits) => Ok(Event::LimitsSet { limits, by }),
            Change::Mode(mode) => Ok(Event::ModeSet { mode, by }),
            Change::Policy(preset) => Ok(Event::PolicySet { preset, options: self.core.settings().options, by }),
            Change::FollowFeeds => return self.follow_feeds(peer),
            Change::Prices(prices) => Ok(Event::PricesSet { prices, by }),
            Change::Drain { node, reason } => self.node(&node).map(|node| Event::NodeDrained { node, reason, by }),
            Change::Resume { node } => self.node(&node).map(|node| Event::NodeResumed { node, by }),
            Change::SetProfiles(profiles) => {
                return self.ask(peer, Question::Store(profiles), Asked::Profiles(peer));
            }
            Change::Users(change) => match self.users_changed(change, by) {
                Ok(event) => Ok(event),
                Err(reason) => return self.refuse(peer, reason, None),
            },
            Change::ForgetProfile(key) => return self.ask(peer, Question::Forget(key), Asked::Profiles(peer)),
        };
        let limits = matches!(event, Ok(Event::LimitsSet { .. }));
        match event.and_then(|event| self.record(event)) {
            Ok(()) => {
                if limits {
                    self.follow_grid();
                }
                self.after(done(peer));
            }
            Err(refused) => self.refuse(peer, refused.to_string(), None),
        }
    }

    /// The periods that are not over, or why they cannot be.
    fn budgets(&self, budgets: &Budgets, seen: Option<&Budgets>) -> Result<Budgets, String> {
        let present = self.core.settings().budgets.from_then_on(self.now);
        if seen.is_some_and(|seen| seen.from_then_on(self.now) != present) {
            return Err("the budgets were changed by somebody else just now: nothing is done".into());
        }
        let periods = budgets.from_then_on(self.now).to_vec();
        if periods.is_empty() && !budgets.is_empty() {
            return Err("every period of the budgets is over".into());
        }
        for (number, period) in (1..).zip(&periods).filter(|(_, period)| !present.contains(period)) {
            possible(period, self.core.idle()).map_err(|impossible| match periods.len() {
                1 => impossible.to_string(),
                _ => format!("period {number} of the budgets: {impossible}"),
            })?;
        }
        Budgets::new(periods).map_err(|error| error.to_string())
    }

    pub(super) fn node(&self, name: &str) -> Result<NodeId, Refused> {
        let found = self.core.node_named(name).map(|node| node.id());
        found.ok_or_else(|| {
            let known: Vec<&str> = self.core.nodes().iter().map(|node| node.spec().name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Refused::UnknownNode { name: name.to_owned(), known }
        })
    }

    /// Whether the caller may steer a job that is not over, or why not.
    pub(super) fn may_steer(&self, peer: PeerId, job: JobId) -> Result<(), String> {
        let (Some(caller), Some(live), Some(_)) = (self.caller(peer), self.live_of(job), self.core.job(job)) else {
            return Err(Refused::NoSuchJob { job }.to_string());
        };
        if caller.operator || caller.uid == live.uid {
            return Ok(());
        }
        Err(format!("job {job} belongs to {}, not to {}", live.request.user, caller.user))
    }

    /// All of them or none.
    fn cancel(&mut self, peer: PeerId, jobs: &[JobId]) {
        if let Err(reason) = jobs.iter().try_for_each(|job| self.may_steer(peer, *job)) {
            return self.refuse(peer, reason, None);
        }
        for job in jobs {
            self.cancel_for(peer, *job);
        }
        self.after(done(peer));
    }

    pub(super) fn cancel_for(&mut self, peer: PeerId, job: JobId) {
        let Some(by) = self.caller(peer).map(|caller| caller.user.clone()) else { return };
        // The same job may be named twice.
        if self.core.job(job).is_some() {
            self.must(Event::CancelRequested { job, by });
        }
    }

    /// A signal for a job. There is no answer, but where it is refused.
    pub(super) fn signal(&mut self, peer: PeerId, job: JobId, signal: i32) {
        if !(1..=LAST_SIGNAL).contains(&signal) {
            return self.refuse(peer, format!("{signal} is not a signal: 1 to {LAST_SIGNAL}"), None);
        }
        if self.core.job(job).is_none() && self.core.next_job() > job {
            // It ended while the signal was under way.
            return;
        }
        if let Err(reason) = self.may_steer(peer, job) {
            return self.refuse(peer, reason, None);
        }
        self.send_signal(peer, job, signal);
    }

    /// The profile database has changed: so has what the core believes.
    pub(super) fn profiles_stored(&mut self, peer: PeerId, profiles: Vec<(ProfileKey, Option<Profile>)>) {
        let by = self.caller(peer).map_or_else(String::new, |caller| caller.user.clone());
        for (key, profile) in profiles {
            self.profile_is(key, profile, &by);
        }
        self.after(After::Answer(peer, MasterToClient::Answer(Box::new(Answer::Done))));
    }

    /// The profile database is what is true of profiles.
    pub(super) fn follow_database(&mut self, profiles: Vec<(ProfileKey, Profile)>) {
        let gone = |key: &&ProfileKey| !profiles.iter().any(|(known, _)| known == *key);
        let gone: Vec<ProfileKey> = self.core.profiles().keys().filter(gone).cloned().collect();
        for key in gone {
            self.profile_is(key, None, DATABASE);
        }
        for (key, profile) in profiles {
            self.profile_is(key, Some(profile), DATABASE);
        }
    }

    /// A finished run has taught something.
    pub(super) fn learned(&mut self, key: ProfileKey, profile: Profile) {
        self.profile_is(key, Some(profile), LEARNING);
    }

    fn profile_is(&mut self, key: ProfileKey, profile: Option<Profile>, by: &str) {
        if self.book.is_open() && self.core.profiles().get(&key) != profile.as_ref() {
            self.must(Event::ProfileSet { key, profile, by: by.to_owned() });
        }
    }
}
