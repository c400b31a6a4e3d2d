//! stdio of attached jobs, passed on between the client and the node without being kept. The ends of each stream keep
//! unacknowledged data and send it again after a broken connection. The master has only the offsets: it tells the
//! ends where to resume, and enforces the window.

use std::collections::BTreeSet;

use limo_model::{JobEnd, JobId, NodeId, Outcome};
use limo_proto::{
    AttemptReport, AttemptState, Channel, Data, Frame, Io, JobReport, MasterToNode, StreamId, WindowSize,
};
use limo_sched::{Event, Phase};

use super::multi_node::{node_at, nodes_in, place_of};
use super::routes::{Outputs, Route};
use super::{Controller, Effect, Fault, PeerId, faults};

impl Controller {
    /// Returns the node with the streams of a part of a job that has started.
    pub(super) fn stream_node(&self, job: JobId, part: u32) -> Option<NodeId> {
        let phase = self.tx.core.job(job).map(|job| &job.phase);
        let has_started = phase.is_none_or(|phase| matches!(phase, Phase::Running(..) | Phase::Suspended(..)));
        self.output_node(job, part).filter(|_| has_started)
    }

    /// Returns the node with the output of a part of a job. Some parts may have begun, and ended, before all have.
    fn output_node(&self, job: JobId, part: u32) -> Option<NodeId> {
        match self.tx.core.job(job) {
            Some(job) => node_at(job.assignment()?, part),
            None => self.routes.over_on(job).get(part as usize).copied(),
        }
    }

    /// Returns the part of a job that a node has, for streams. Bytes may arrive before the job's start is recorded, or
    /// after its end.
    fn stream_part(&self, job: JobId, node: NodeId) -> Option<u32> {
        match self.tx.core.job(job) {
            Some(job) => place_of(job.assignment()?, node),
            None => {
                let place = self.routes.over_on(job).iter().position(|own| *own == node)?;
                u32::try_from(place).ok()
            }
        }
    }

    /// Passes stdout or stderr from a node on.
    pub(super) fn output(&mut self, peer: PeerId, node: NodeId, mut data: Data) {
        if data.stream.channel == Channel::Stdin {
            return self.close_node(peer, format!("a node sent stdin of job {}", data.stream.job));
        }
        let job = data.stream.job;
        let (Some(client), Some(part)) = (self.routes.client(job), self.stream_part(job, node)) else { return };
        if self.may_be_taken_back(job) {
            return;
        }
        data.stream.part = part;
        let Some(route) = self.routes.get_mut(job) else { return };
        let flow = route.output(data.stream);
        match flow.pass(&data) {
            Ok(()) if flow.follows(&data) => self.tx.effects.push(Effect::ToClient(client, Frame::Data(data))),
            Ok(()) => {}
            Err(reason) => self.close_node(peer, format!("job {job}: {reason}")),
        }
    }

    /// Returns true if no command of the job's attempt has begun. A part that was stopped ends its streams, and the next attempt
    /// begins them again. They are requested once the job has begun, or is over.
    fn may_be_taken_back(&self, job: JobId) -> bool {
        let Some(Phase::Starting(assignment)) = self.tx.core.job(job).map(|job| &job.phase) else { return false };
        !self.assignments.has_any_begun(job, assignment.attempt)
    }

    /// Handles a client's acknowledgement of output.
    pub(super) fn output_taken(&mut self, peer: PeerId, stream: StreamId, offset: u64) {
        if self.routes.client(stream.job) != Some(peer) || stream.channel == Channel::Stdin {
            return;
        }
        let here = self.output_node(stream.job, stream.part);
        let known = |route: &&mut Route| here.is_some() || (stream.part as usize) < route.outputs.len();
        let Some(route) = self.routes.get_mut(stream.job).filter(known) else { return };
        let flow = route.output(stream);
        if offset > flow.passed {
            let passed = flow.passed;
            let reason = format!("job {}: {offset} is acknowledged, {passed} was sent", stream.job);
            return self.close_client(peer, reason);
        }
        flow.taken = flow.taken.max(offset);
        // A frame that was dropped meanwhile repeated bytes that the client has.
        flow.next = flow.next.max(offset);
        if let Some(link) = here.and_then(|node| self.link(node)) {
            let here = StreamId { part: 0, ..stream };
            self.tell_node(link, MasterToNode::StreamAck { stream: here, offset });
            if let Some(route) = self.routes.get_mut(stream.job) {
                route.output(stream).confirmed = offset;
            }
        }
        self.routes.remove_if_done(stream.job);
    }

    /// Passes on a new size of the client's terminal, if the job is running and has a terminal.
    pub(super) fn resize(&mut self, peer: PeerId, job: JobId, size: WindowSize) {
        let link = self.stream_node(job, 0).and_then(|node| self.link(node));
        let attempt = self.tx.core.job(job).and_then(|job| job.assignment()).map(|assignment| assignment.attempt);
        if let (Some(link), Some(attempt), true) = (link, attempt, self.routes.client(job) == Some(peer)) {
            self.tell_node(link, MasterToNode::Resize { job, attempt, size });
        }
    }

    /// Tells both ends of a job's streams the offset of the other.
    pub(super) fn connect_ends(&mut self, job: JobId) {
        for part in 0..self.parts(job) {
            self.connect_output(job, part);
        }
        self.connect_stdin(job);
    }

    /// Returns the number of nodes with streams of the job.
    fn parts(&self, job: JobId) -> u32 {
        let over = || u32::try_from(self.routes.over_on(job).len()).unwrap_or(0);
        self.tx.core.job(job).map_or_else(over, |job| job.assignment().map_or(0, nodes_in))
    }

    /// Requests the output of a part of a job from the offsets of its client on, or acknowledges it if the client has all.
    pub(super) fn connect_output(&mut self, job: JobId, part: u32) {
        let link = self.stream_node(job, part).and_then(|node| self.link(node));
        let (Some(link), Some(route)) = (link, self.routes.get_mut(job)) else { return };
        let has_client = route.client.is_some();
        let outputs = route.outputs(part);
        let Outputs { stdout, stderr } = *outputs;
        // The output of a short job may have been read completely before its start is on disk.
        if !has_client || outputs.are_confirmed() {
            return;
        }
        (outputs.stdout.confirmed, outputs.stderr.confirmed) = (stdout.taken, stderr.taken);
        if outputs.are_done() {
            for (channel, offset) in [(Channel::Stdout, stdout.taken), (Channel::Stderr, stderr.taken)] {
                self.tell_node(link, MasterToNode::StreamAck { stream: StreamId::new(job, channel), offset });
            }
            self.routes.remove_if_done(job);
        } else {
            self.tell_node(link, MasterToNode::ReadFrom { job, stdout: stdout.taken, stderr: stderr.taken });
        }
    }

    /// Resumes the streams of a reconnected node with these attempts.
    pub(super) fn resume_streams(&mut self, peer: PeerId, node: NodeId, attempts: &[AttemptReport]) {
        for report in attempts.iter().filter(|_| !faults::has(Fault::WindowLost)) {
            if self.is_multi_node(report.job) {
                self.routes.stdin_on(report.job, node, report.stdin_offset);
            } else if let Some(route) = self.routes.get_mut(report.job) {
                route.stdin.resume(report.stdin_offset);
            }
        }
        for report in attempts {
            if let Some(part) = self.stream_part(report.job, node) {
                self.streams_kept(part, report);
            }
        }
        let here = |job: JobId| Some((job, self.stream_part(job, node)?));
        let jobs: Vec<(JobId, u32)> = self.routes.jobs().filter_map(here).collect();
        for (job, part) in jobs {
            if let Some(route) = self.routes.get_mut(job) {
                // The last acknowledgements may be lost.
                let Outputs { stdout, stderr } = route.outputs(part);
                (stdout.confirmed, stderr.confirmed) = (0, 0);
            }
            self.connect_output(job, part);
            self.connect_stdin(job);
        }
        let give_up_at = self.tx.now + self.tx.settings.orphan_grace;
        for &AttemptReport { job, ref state, .. } in attempts {
            match self.live_of(job).map(|live| live.launch.io) {
                // The job was abandoned while the node was disconnected.
                Some(Io::Attached) if !self.routes.has(job) => self.tell_node(peer, MasterToNode::Discard { job }),
                Some(_) if *state != AttemptState::Held => self.drop_stray_output(peer, node, job),
                Some(_) => {}
                // It is told to drop the attempt.
                None if *state == AttemptState::Held => {}
                // The job ended under an earlier process: its client may reconnect for the remaining output. One that reads the
                // output of other nodes calls again, and is told of the nodes that the end of the job names.
                None => {
                    if let Some(client) = self.routes.keep_output(job, node, give_up_at) {
                        self.close_client(client, format!("another node has output of job {job}"));
                    }
                }
            }
        }
    }

    /// Drops the output of an attempt that was taken back or replaced, and that its node had all the same.
    pub(super) fn drop_stray_output(&mut self, peer: PeerId, node: NodeId, job: JobId) {
        let is_detached = self.live_of(job).is_some_and(|live| live.launch.io == Io::Detached);
        if !is_detached && self.stream_part(job, node).is_none() {
            self.tell_node(peer, MasterToNode::Discard { job });
        }
    }

    /// Handles the end of a job, which is on disk: the client may still be reading.
    pub(super) fn streams_of_finished(&mut self, report: &JobReport) {
        let ran = matches!(&report.end, Some(JobEnd::Ran { outcome: Outcome::Exited(_) | Outcome::Signaled(_), .. }));
        let node = |name: &String| self.tx.core.node_named(name).map(|node| node.id());
        let (job, mut nodes) = (report.job, report.nodes.iter().filter_map(node).collect::<Vec<NodeId>>());
        if ran && !nodes.is_empty() && nodes.len() == report.nodes.len() {
            // Other nodes may have kept output of an earlier attempt.
            let others = self.routes.over_on(job).iter().filter(|node| !nodes.contains(node));
            for link in others.filter_map(|node| self.link(*node)).collect::<Vec<_>>() {
                self.tell_node(link, MasterToNode::Discard { job });
            }
            return self.routes.finished(job, nodes);
        }
        // The client does not wait for output. A node that was unreachable, or ended the job before it began, may have
        // some.
        nodes.extend(self.routes.over_on(job));
        for link in nodes.into_iter().filter_map(|node| self.link(node)).collect::<BTreeSet<_>>() {
            self.tell_node(link, MasterToNode::Discard { job });
        }
        self.routes.remove(job);
    }

    /// Abandons the jobs whose clients were away too long.
    pub(super) fn orphans_due(&mut self) {
        if !self.tx.commits.is_open() {
            return;
        }
        while let Some(job) = self.routes.orphan(self.tx.now) {
            let link = |part| self.stream_node(job, part).and_then(|node| self.link(node));
            let links: Vec<PeerId> = (0..self.parts(job)).filter_map(link).collect();
            self.routes.remove(job);
            for link in links {
                self.tell_node(link, MasterToNode::Discard { job });
            }
            if self.tx.core.job(job).is_some() {
                tracing::warn!(%job, "cancelled: its lrun did not come back");
                self.tx.must(Event::CancelRequested { job, by: "lmaster, because its lrun is gone".into() });
            }
        }
    }
}
