//! Offsets of the streams of attached jobs, and their connections. Handles jobs and nodes only by number.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{JobId, NodeId, Span, Time};
use limo_proto::{Channel, Data, Io, StreamId, WINDOW};

use super::{Live, PeerId};

/// Offsets of one stream. The end of the stream counts as one more byte.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Flow {
    /// Offset up to which the receiver has consumed everything.
    pub(super) taken: u64,
    /// Offset up to which data was passed on.
    pub(super) passed: u64,
    /// True if the end was passed on.
    pub(super) ended: bool,
    /// Offset of the receiver's connection. After a gap it gets no data.
    pub(super) next: u64,
    /// Value of `taken` that the sender of an output knows.
    pub(super) confirmed: u64,
}

impl Flow {
    /// Records data that is passed on.
    pub(super) fn pass(&mut self, data: &Data) -> Result<(), String> {
        let end = data.offset.saturating_add(data.bytes.len() as u64);
        if end > self.taken.saturating_add(WINDOW) {
            let window = format!("{} to {}", self.taken, self.taken.saturating_add(WINDOW));
            return Err(format!("data up to {end} of a stream whose window is {window}"));
        }
        let is_end = data.bytes.is_empty();
        if is_end && self.ended && end == self.passed {
            // A node without the stream ends it at the position of the receiver, which has the end already.
            return Ok(());
        }
        // An end before data is not that of the stream: its node has lost the data.
        self.ended |= is_end && end >= self.passed;
        self.passed = self.passed.max(end + u64::from(is_end));
        Ok(())
    }

    /// Returns true if data continues the receiver's connection, and counts it as sent. Data after a gap will be sent
    /// again.
    pub(super) fn follows(&mut self, data: &Data) -> bool {
        let follows = data.offset <= self.next;
        if follows {
            let end = data.offset + data.bytes.len() as u64 + u64::from(data.bytes.is_empty());
            self.next = self.next.max(end);
        }
        follows
    }

    /// Resumes at `offset`, which one end of the stream reported.
    pub(super) fn resume(&mut self, offset: u64) {
        self.taken = self.taken.max(offset);
        self.passed = self.passed.max(offset);
        self.next = self.next.max(offset);
    }

    pub(super) fn is_done(&self) -> bool {
        self.ended && self.taken >= self.passed
    }
}

/// The stdio of one attached job.
#[derive(Debug, Default)]
pub(super) struct Route {
    pub(super) client: Option<PeerId>,
    /// Time at which the job is abandoned, while it has no client.
    give_up_at: Option<Time>,
    pub(super) stdin: Flow,
    /// True if the job's node reports an end that is not recorded yet. The offset is then unknown.
    pub(super) stdin_is_over: bool,
    /// Offset of stdin on each node of a multi-node job; the lowest is the stream's.
    pub(super) stdin_on: BTreeMap<NodeId, u64>,
    /// Output by node, up to the last node with output so far.
    pub(super) outputs: Vec<Outputs>,
    /// Nodes that still have output of the job, once the job is over.
    over_on: Vec<NodeId>,
    /// True if the end of the job is on disk and its client, if any, was told.
    told: bool,
}

/// Output of one node of a job.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Outputs {
    pub(super) stdout: Flow,
    pub(super) stderr: Flow,
}

impl Outputs {
    /// Returns true if the receiver has everything.
    pub(super) fn are_done(&self) -> bool {
        self.stdout.is_done() && self.stderr.is_done()
    }

    /// Returns true if the receiver has everything, and the node knows.
    pub(super) fn are_confirmed(&self) -> bool {
        self.are_done() && [self.stdout, self.stderr].iter().all(|flow| flow.confirmed >= flow.taken)
    }
}

impl Route {
    /// Returns the output of the node at `part` of the job.
    pub(super) fn outputs(&mut self, part: u32) -> &mut Outputs {
        let part = part as usize;
        if part >= self.outputs.len() {
            self.outputs.resize_with(part + 1, Outputs::default);
        }
        &mut self.outputs[part]
    }

    pub(super) fn output(&mut self, stream: StreamId) -> &mut Flow {
        let outputs = self.outputs(stream.part);
        if stream.channel == Channel::Stderr { &mut outputs.stderr } else { &mut outputs.stdout }
    }

    fn is_done(&self) -> bool {
        let ended = self.outputs.iter().filter(|outputs| outputs.are_confirmed()).count();
        self.told && ended >= self.over_on.len().max(1)
    }
}

#[derive(Debug, Default)]
pub(super) struct Routes {
    routes: BTreeMap<JobId, Route>,
    orphans: BTreeSet<(Time, JobId)>,
}

impl Routes {
    pub(super) fn get(&self, job: JobId) -> Option<&Route> {
        self.routes.get(&job)
    }

    pub(super) fn get_mut(&mut self, job: JobId) -> Option<&mut Route> {
        self.routes.get_mut(&job)
    }

    pub(super) fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.routes.keys().copied()
    }

    /// Returns the nodes that still have output of a job that is over.
    pub(super) fn over_on(&self, job: JobId) -> &[NodeId] {
        self.routes.get(&job).map_or(&[], |route| &route.over_on)
    }

    /// Keeps the output on a node of a job that ended under an earlier process, for a client that may reconnect. Returns a client
    /// that reads the output of other nodes: it is detached.
    pub(super) fn keep_output(&mut self, job: JobId, node: NodeId, give_up_at: Time) -> Option<PeerId> {
        let route = self.routes.entry(job).or_insert_with(|| Route { told: true, ..Route::default() });
        if !route.told || route.over_on.contains(&node) {
            return None;
        }
        route.over_on.push(node);
        let client = route.client;
        self.detach(job, give_up_at);
        client
    }

    /// Records that a job's end is on disk, and its client was told.
    pub(super) fn finished(&mut self, job: JobId, nodes: Vec<NodeId>) {
        if let Some(route) = self.routes.get_mut(&job) {
            (route.over_on, route.told) = (nodes, true);
        }
        self.remove_if_done(job);
    }

    pub(super) fn remove_if_done(&mut self, job: JobId) {
        if self.routes.get(&job).is_some_and(Route::is_done) {
            self.remove(job);
        }
    }

    /// Returns a job whose client was disconnected for too long.
    pub(super) fn orphan(&self, now: Time) -> Option<JobId> {
        self.orphans.first().filter(|(at, _)| *at <= now).map(|(_, job)| *job)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.routes.len()
    }

    pub(super) fn next_orphan(&self) -> Option<Time> {
        self.orphans.first().map(|(at, _)| *at)
    }

    /// Gives disconnected clients this time in addition.
    pub(super) fn extend(&mut self, by: Span) {
        for (at, job) in std::mem::take(&mut self.orphans) {
            self.orphans.insert((at + by, job));
            if let Some(route) = self.routes.get_mut(&job) {
                route.give_up_at = Some(at + by);
            }
        }
    }

    /// Installs `live` as the accepted jobs. Every attached job gets a route, and connected clients keep theirs.
    pub(super) fn take_up(&mut self, live: &BTreeMap<JobId, Live>, give_up_at: Time) {
        let gone: Vec<JobId> = self
            .routes
            .iter()
            .filter(|(job, route)| !live.contains_key(job) && !route.told)
            .map(|(job, _)| *job)
            .collect();
        for job in gone {
            self.remove(job);
        }
        for (job, _) in live.iter().filter(|(_, live)| live.launch.io == Io::Attached) {
            let route = self.routes.entry(*job).or_default();
            route.over_on.clear();
            route.stdin_on.clear();
            route.stdin_is_over = false;
            route.told = false;
            if self.client(*job).is_none() {
                self.detach(*job, give_up_at);
            }
        }
    }

    pub(super) fn client(&self, job: JobId) -> Option<PeerId> {
        self.routes.get(&job).and_then(|route| route.client)
    }

    pub(super) fn has(&self, job: JobId) -> bool {
        self.routes.contains_key(&job)
    }

    /// Attaches a client that reads the job's output from these offsets on. Returns the earlier client.
    pub(super) fn attach(&mut self, job: JobId, client: PeerId, read: &[(u64, u64)]) -> Option<PeerId> {
        let route = self.routes.entry(job).or_default();
        if let Some(at) = route.give_up_at.take() {
            self.orphans.remove(&(at, job));
        }
        // Nothing was sent on the new connection yet.
        for flow in route.outputs.iter_mut().flat_map(|of| [&mut of.stdout, &mut of.stderr]) {
            flow.next = flow.taken;
        }
        for (part, (stdout, stderr)) in (0..).zip(read) {
            route.outputs(part).stdout.resume(*stdout);
            route.outputs(part).stderr.resume(*stderr);
        }
        route.client.replace(client).filter(|before| *before != client)
    }

    pub(super) fn detach(&mut self, job: JobId, give_up_at: Time) {
        let Some(route) = self.routes.get_mut(&job) else { return };
        route.client = None;
        if let Some(before) = route.give_up_at.replace(give_up_at) {
            self.orphans.remove(&(before, job));
        }
        self.orphans.insert((give_up_at, job));
    }

    /// Sets the time at which the jobs of a disconnected client are abandoned, unless the client returns.
    pub(super) fn client_gone(&mut self, client: PeerId, give_up_at: Time) {
        let own = |(job, route): (&JobId, &Route)| (route.client == Some(client)).then_some(*job);
        for job in self.routes.iter().filter_map(own).collect::<Vec<_>>() {
            self.detach(job, give_up_at);
        }
    }

    /// Notes that a job is over while its output is still on its nodes.
    pub(super) fn over(&mut self, job: JobId, nodes: Vec<NodeId>) {
        if let Some(route) = self.routes.get_mut(&job) {
            route.over_on = nodes;
        }
    }

    /// Notes that a node of a multi-node job has consumed stdin below `offset`.
    pub(super) fn stdin_on(&mut self, job: JobId, node: NodeId, offset: u64) {
        if let Some(route) = self.routes.get_mut(&job) {
            let known = route.stdin_on.entry(node).or_default();
            *known = offset.max(*known);
        }
    }

    pub(super) fn remove(&mut self, job: JobId) {
        if let Some(at) = self.routes.remove(&job).and_then(|route| route.give_up_at) {
            self.orphans.remove(&(at, job));
        }
    }
}
