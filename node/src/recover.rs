//! Recovers the attempts of an earlier daemon from its records and its shepherds. Jobs with a shepherd go on. The
//! processes of lost jobs are killed before the node registers.

use std::time::Duration;

use limo_model::{Attempt as Number, JobId, Power};
use limo_proto::Io;
use limo_shepherd::processes::Mark;
use limo_shepherd::{Handle, Order};
use tracing::{info, warn};

use super::{Node, duration};
use crate::attempt::{Attempt, Stage, Starting, State, Swept, lost};
use crate::exchange::Effect;
use crate::faults::{self, Fault};
use crate::held::Holding;
use crate::io::JobIo;
use crate::lease::Leased;
use crate::records::{Found, Intent};
use crate::scripts::Preparation;
use crate::survivor::{Fate, Recovered, Recovery, Survivor, recovered};

/// Time for the processes of a lost job to disappear.
const LEFTOVERS: Duration = Duration::from_secs(2);

/// File that came with a job, removed when its processes have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leftover {
    cookie: String,
    uid: u32,
}

impl Node {
    /// Recovers the attempts of an earlier daemon.
    pub(super) fn recover(&mut self, recovery: Recovery) {
        let Recovery { found, mut survivors, mut abandoned, owner, capped } = recovery;
        self.recover_owner(owner);
        let newest = survivors.values().map(|survivor| survivor.handle).max();
        self.next_handle = newest.map_or(self.next_handle, |newest| self.next_handle.max(Handle(newest.0 + 1)));
        for ((job, number), found) in found {
            let survivor = match (&found.intent, survivors.remove(&(job, number))) {
                (Some(intent), Some(survivor)) if intent.cookie == survivor.cookie => Some(survivor),
                (_, other) => {
                    if let Some(other) = other {
                        // Its socket has the attempt's name, so the attempt counts as started.
                        self.disown((job, number), &other);
                        abandoned.insert((job, number));
                    }
                    None
                }
            };
            let fate = match (&survivor, abandoned.remove(&(job, number))) {
                (Some(_), _) => Fate::Alive,
                (None, true) => Fate::Killed,
                (None, false) => Fate::Never,
            };
            if let Some(older) = self.attempts.known.get(&job).map(|older| older.number) {
                // Only its output was not delivered yet, and nobody reads that any longer.
                self.drop_streams(job);
                self.release(job, older);
                self.forget(job, older);
            }
            self.recover_one((job, number), found, survivor, fate);
        }
        for (key, survivor) in survivors {
            self.disown(key, &survivor);
        }
        for (job, attempt) in abandoned {
            self.effect(Effect::Release { job, attempt, handle: None });
        }
        if capped {
            self.resume_caps();
        }
    }

    fn recover_one(&mut self, key: (JobId, Number), found: Found, survivor: Option<Survivor>, fate: Fate) {
        let (job, number) = key;
        let cookie = found.intent.as_ref().map(|intent| intent.cookie.clone()).unwrap_or_default();
        let journal = found.intent.as_ref().map(|intent| intent.exec.journal);
        let journal = journal.filter(|_| !faults::has(Fault::ForeignAdopted)).unwrap_or_default();
        let preparation = Preparation::resumed(&found, self.scripts);
        let kill_grace = found.intent.as_ref().map_or(Duration::ZERO, |intent| duration(intent.exec.kill_grace));
        let is_evicted = found.is_evicted;
        let expected = found.released.unwrap_or(Power::ZERO);
        let uid = found.intent.as_ref().map_or(0, |intent| intent.exec.launch.uid);
        if let Some(Survivor { handle, streams, .. }) = &survivor {
            self.holding.insert(job, Holding { number, handle: Some(*handle), uid });
            if let Some(held) = streams {
                let resumed = JobIo::resumed(job, held, &mut self.effects);
                self.streams.insert(job, resumed);
            }
        }
        if fate == Fate::Killed {
            self.holding.insert(job, Holding { number, handle: None, uid });
        }
        let step = found.intent.as_ref().and_then(|intent| intent.exec.step);
        let mut has_no_mark = None;
        let state = match (recovered(&found, &self.boot, fate), found.intent, survivor) {
            (Recovered::Ended(end), ..) => State::Ended(end),
            (Recovered::Alive, Some(intent), Some(survivor)) => self.revived(intent, &survivor, expected),
            (Recovered::Held, Some(intent), _) => {
                self.expect_streams(&intent.exec);
                State::Held(Box::new(intent.exec))
            }
            // Without a readable intent, the attempt is lost.
            (Recovered::Held | Recovered::Alive, ..) => return,
            (Recovered::Lost { reason }, intent, _) => {
                warn!(%job, attempt = %number, reason, "the job is lost");
                let end = lost(reason);
                match intent {
                    Some(intent) => self.clear_away(&intent),
                    None => has_no_mark = Some(end.clone()),
                }
                State::Sweeping(Swept { end, handle: None })
            }
        };
        info!(%job, attempt = %number, "the job is known from before");
        let is_recorded = matches!(state, State::Ended(_));
        let checkpointed = None;
        self.attempts.known.insert(
            job,
            Attempt { journal, number, cookie, preparation, kill_grace, is_evicted, checkpointed, step, state },
        );
        if is_recorded {
            self.release(job, number);
            self.send_output(job);
        }
        // Without an intent there is no mark to search for.
        if let Some(end) = has_no_mark {
            self.ended(job, number, end);
        }
    }

    /// Returns the state of an attempt that goes on. The answers of its shepherd follow.
    fn revived(&mut self, intent: Intent, survivor: &Survivor, expected: Power) -> State {
        let Intent { exec, .. } = intent;
        let (job, number) = (exec.job, exec.attempt);
        if let Some(lease) = exec.lease {
            self.leases.insert(job, Leased::new(number, lease));
        }
        State::Starting(Box::new(Starting {
            uid: exec.launch.uid,
            terminal: exec.launch.terminal.is_some() && exec.launch.io == Io::Attached,
            expected,
            work: self.plan(&exec),
            exec: None,
            stage: Stage::Ordered(survivor.handle),
            stopping: false,
            resumed: survivor.resumed,
            deferred: Vec::new(),
        }))
    }

    /// Ends a shepherd whose attempt has no matching record: nobody may ask for it.
    fn disown(&mut self, (job, attempt): (JobId, Number), survivor: &Survivor) {
        let handle = survivor.handle;
        warn!(%job, %attempt, "a shepherd holds a job that the records do not have; the job is ended");
        self.order(Order::Stop { handle, grace: 0, evicts: false });
        self.effect(Effect::Release { job, attempt, handle: Some(handle) });
    }

    /// Kills the processes of a job and removes its file. The end of the job follows.
    fn clear_away(&mut self, Intent { exec, cookie, .. }: &Intent) {
        let (job, attempt, uid) = (exec.job, exec.attempt, exec.launch.uid);
        let leftover = exec.launch.carried.is_some().then(|| Leftover { cookie: cookie.clone(), uid });
        self.clearing.insert(job, leftover);
        let mark = Mark { cookie: cookie.clone(), uid };
        self.effect(Effect::Sweep { job, attempt, mark, patience: LEFTOVERS });
    }

    /// Handles the end of all processes of an earlier daemon's job.
    pub(super) fn cleared(&mut self, job: JobId) {
        if let Some(Some(Leftover { cookie, uid })) = self.clearing.remove(&job) {
            self.effect(Effect::RemoveCarried { cookie, uid });
        }
    }
}
