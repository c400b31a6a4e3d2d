//! Recovers the attempts of an earlier daemon from its records. Their processes are killed before the node registers.

use std::collections::BTreeMap;
use std::time::Duration;

use limo_model::{Attempt as Number, JobId};
use limo_shepherd::processes::Mark;
use tracing::{info, warn};

use super::Node;
use crate::attempt::{Attempt, Recovered, State, Swept, lost, recovered};
use crate::exchange::Effect;
use crate::faults::{self, Fault};
use crate::records::{Found, Intent};

/// Time for the processes of a killed daemon to disappear.
const LEFTOVERS: Duration = Duration::from_secs(2);

/// File that came with a job, removed when its processes have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leftover {
    cookie: String,
    uid: u32,
}

impl Node {
    /// Recovers the attempts of an earlier daemon, and kills their processes. Usually its `lshepherd` has already
    /// done so.
    pub(super) fn recover(&mut self, found: BTreeMap<(JobId, Number), Found>) {
        let mut without_trace = Vec::new();
        for ((job, number), found) in found {
            let cookie = found.intent.as_ref().map(|intent| intent.cookie.clone()).unwrap_or_default();
            let journal = found.intent.as_ref().map(|intent| intent.exec.journal);
            let journal = journal.filter(|_| !faults::has(Fault::ForeignAdopted)).unwrap_or_default();
            let state = match (recovered(&found, &self.boot), found.intent) {
                (Recovered::Ended(end), _) => State::Ended(end),
                (Recovered::Held, Some(intent)) => {
                    self.expect_streams(&intent.exec);
                    State::Held(Box::new(intent.exec))
                }
                // Without a readable intent, the attempt is lost.
                (Recovered::Held, None) => continue,
                (Recovered::Lost { reason }, intent) => {
                    warn!(%job, attempt = %number, reason, "the job is lost");
                    let end = lost(reason);
                    match intent {
                        Some(intent) => self.clear_away(&intent),
                        None => without_trace.push((job, number, end.clone())),
                    }
                    State::Sweeping(Swept { end, handle: None })
                }
            };
            info!(%job, attempt = %number, "the job is known from before");
            self.attempts.known.insert(job, Attempt { journal, number, cookie, state });
        }
        // Without an intent there is no mark to search for.
        for (job, number, end) in without_trace {
            self.ended(job, number, end);
        }
    }

    /// Kills the processes of a job and removes its file. The end of the job follows.
    fn clear_away(&mut self, Intent { exec, cookie, .. }: &Intent) {
        let (job, uid) = (exec.job, exec.launch.uid);
        let leftover = exec.launch.carried.is_some().then(|| Leftover { cookie: cookie.clone(), uid });
        self.clearing.insert(job, leftover);
        self.effect(Effect::Sweep { job, mark: Mark { cookie: cookie.clone(), uid }, patience: LEFTOVERS });
    }

    /// Handles the end of all processes of an earlier daemon's job.
    pub(super) fn cleared(&mut self, job: JobId) {
        if let Some(Some(Leftover { cookie, uid })) = self.clearing.remove(&job) {
            self.effect(Effect::RemoveCarried { cookie, uid });
        }
    }
}
