//! Takeover of a job's streams by another client of its user: `lq attach`. The client gets the submission and the
//! offsets of the streams, and then attaches like the first client when it reconnects.

use limo_model::{JobId, Request};
use limo_proto::{AttemptReport, Io, MasterToClient, Positions, SendExec};

use super::{Controller, PeerId};

impl Controller {
    pub(super) fn take_streams(&mut self, peer: PeerId, job: JobId, take: bool) {
        let Some(caller) = self.caller(peer) else { return };
        let Some(live) = self.submissions.get(job) else {
            let known = job.0 > 0 && job < self.tx.core.next_job();
            let reason = if known { format!("job {job} is over") } else { format!("there is no job {job}") };
            return self.refuse(peer, reason, None);
        };
        if caller.uid != live.uid {
            let reason = format!("job {job} belongs to {}, not to {}", live.request.user, caller.user);
            return self.refuse(peer, reason, None);
        }
        if live.launch.io == Io::Detached {
            let hint = format!("lq logs -f {job}");
            return self.refuse(peer, format!("job {job} is detached: its output goes to files"), Some(&hint));
        }
        let exec = SendExec {
            key: live.key,
            request: Request::clone(&live.request),
            launch: live.launch_of_one(),
            again: true,
        };
        let Some(streams) = self.positions(job) else {
            return self.refuse(peer, format!("job {job} is being cancelled, because its lrun went away"), None);
        };
        match self.routes.client(job).filter(|client| *client != peer) {
            Some(_) if !take => {
                let hint = format!("lq attach --take {job}");
                return self.refuse(peer, format!("job {job} has a client: its lrun is connected"), Some(&hint));
            }
            Some(client) => {
                self.tell_client(client, MasterToClient::TakenOver { job });
                self.routes.detach(job, self.tx.now + self.tx.settings.orphan_grace);
            }
            None => {}
        }
        self.answer(peer, MasterToClient::TakenUp { job, exec: Box::new(exec), streams });
    }

    /// Returns the offsets of a job's streams for another client; `None` if they were abandoned.
    fn positions(&self, job: JobId) -> Option<Positions> {
        let several = self.is_multi_node(job);
        let route = self.routes.get(job)?;
        // If only some nodes have stdin, it is lost with the client that sent it.
        let stdin = (!route.stdin.ended && !several).then_some(route.stdin.passed);
        let outputs = route.outputs.iter().map(|of| (of.stdout.taken, of.stderr.taken)).collect();
        Some(Positions { stdin, outputs })
    }

    /// Records the offsets at a reconnected node, because a restarted master has lost them.
    pub(super) fn streams_kept(&mut self, part: u32, report: &AttemptReport) {
        let multi_node = self.is_multi_node(report.job);
        let Some(route) = self.routes.get_mut(report.job) else { return };
        let outputs = route.outputs(part);
        outputs.stdout.resume(report.kept.stdout);
        outputs.stderr.resume(report.kept.stderr);
        if !multi_node {
            route.stdin.passed = route.stdin.passed.max(report.kept.stdin);
            route.stdin.ended |= report.kept.stdin_ended;
        }
    }
}
