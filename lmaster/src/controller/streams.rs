//! stdio of attached jobs, passed on between the client and the node without being kept. The ends of each stream hold
//! what is under way and send it again after a broken connection; the master only knows how far each stream is, so that
//! it can tell the ends where to go on, and that nobody sends more than its window.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{JobEnd, JobId, NodeId, Outcome, Time};
use limo_proto::{AttemptReport, Channel, Data, Frame, Io, JobReport, MasterToNode, StreamId, WINDOW, WindowSize};
use limo_sched::{Event, Phase};

use super::multi_node::{node_at, nodes_in, place_of};
use super::{Controller, Effect, Live, PeerId};

/// How far one stream is. Offsets count the end of the stream as one more byte.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Flow {
    /// The receiver has taken everything below.
    pub(super) taken: u64,
    /// Nothing at or above was passed on.
    pub(super) passed: u64,
    /// Whether the end was passed on.
    pub(super) ended: bool,
    /// Where the receiver's connection is: it gets nothing behind a gap.
    pub(super) next: u64,
}

impl Flow {
    /// Takes note of data that is passed on.
    pub(super) fn pass(&mut self, data: &Data) -> Result<(), String> {
        let end = data.offset.saturating_add(data.bytes.len() as u64);
        if end > self.taken.saturating_add(WINDOW) {
            let window = format!("{} to {}", self.taken, self.taken.saturating_add(WINDOW));
            return Err(format!("data up to {end} of a stream whose window is {window}"));
        }
        self.ended |= data.bytes.is_empty();
        self.passed = self.passed.max(end + u64::from(data.bytes.is_empty()));
        Ok(())
    }

    /// Whether data follows what the receiver's connection was given, which then counts as given. What is behind a gap
    /// comes again.
    pub(super) fn follows(&mut self, data: &Data) -> bool {
        let follows = data.offset <= self.next;
        if follows {
            let end = data.offset + data.bytes.len() as u64 + u64::from(data.bytes.is_empty());
            self.next = self.next.max(end);
        }
        follows
    }

    /// An end of the stream says that it is at `offset`.
    pub(super) fn resume(&mut self, offset: u64) {
        self.taken = self.taken.max(offset);
        self.passed = self.passed.max(offset);
        self.next = self.next.max(offset);
    }

    fn is_done(&self) -> bool {
        self.ended && self.taken >= self.passed
    }
}

/// The stdio of one attached job.
#[derive(Debug, Default)]
pub(super) struct Route {
    pub(super) client: Option<PeerId>,
    /// When the job is given up, while it has no client.
    give_up_at: Option<Time>,
    pub(super) stdin: Flow,
    /// Whether the job's node says that it is over, which is not recorded yet: how much it took is forgotten.
    pub(super) stdin_is_over: bool,
    /// How far each node is with stdin, of a job over several: the least of them is where the stream is.
    pub(super) stdin_on: BTreeMap<NodeId, u64>,
    /// Of each of its nodes, as far as there was something.
    pub(super) outputs: Vec<Outputs>,
    /// The nodes that still have output of the job, once the job is over.
    over_on: Vec<NodeId>,
    /// Whether the end of the job is on disk and the client, where there is one, was told.
    told: bool,
}

/// What one node of a job writes.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Outputs {
    pub(super) stdout: Flow,
    pub(super) stderr: Flow,
}

impl Outputs {
    fn are_done(&self) -> bool {
        self.stdout.is_done() && self.stderr.is_done()
    }
}

impl Route {
    /// Those of the node at `part`, which is one of the job's.
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
        let ended = self.outputs.iter().filter(|outputs| outputs.are_done()).count();
        self.told && ended >= self.over_on.len().max(1)
    }
}

#[derive(Debug, Default)]
pub(super) struct Routes {
    pub(super) routes: BTreeMap<JobId, Route>,
    orphans: BTreeSet<(Time, JobId)>,
}

impl Routes {
    pub(super) fn next_orphan(&self) -> Option<Time> {
        self.orphans.first().map(|(at, _)| *at)
    }

    /// `live` is what there is: every attached job has a route, and the clients that are there keep theirs.
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

    /// A client reads the job's output from these offsets on. Returns the one that did before.
    pub(super) fn attach(&mut self, job: JobId, client: PeerId, read: &[(u64, u64)]) -> Option<PeerId> {
        let route = self.routes.entry(job).or_default();
        if let Some(at) = route.give_up_at.take() {
            self.orphans.remove(&(at, job));
        }
        // Whatever another connection was given, this one was not.
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

    /// A client is gone: its jobs are given up at that time, unless it comes back.
    pub(super) fn client_gone(&mut self, client: PeerId, give_up_at: Time) {
        let own = |(job, route): (&JobId, &Route)| (route.client == Some(client)).then_some(*job);
        for job in self.routes.iter().filter_map(own).collect::<Vec<_>>() {
            self.detach(job, give_up_at);
        }
    }

    /// The job is over; its output is still on its nodes.
    pub(super) fn over(&mut self, job: JobId, nodes: Vec<NodeId>) {
        if let Some(route) = self.routes.get_mut(&job) {
            route.over_on = nodes;
        }
    }

    /// A node of a job over several has taken stdin below `offset`.
    pub(super) fn stdin_on(&mut self, job: JobId, node: NodeId, offset: u64) {
        if let Some(route) = self.routes.get_mut(&job) {
            let known = route.stdin_on.entry(node).or_default();
            *known = offset.max(*known);
        }
    }

    fn remove(&mut self, job: JobId) -> Option<Route> {
        let route = self.routes.remove(&job)?;
        if let Some(at) = route.give_up_at {
            self.orphans.remove(&(at, job));
        }
        Some(route)
    }
}

impl Controller {
    /// The node that has the streams of a part of a job: where it runs, or ran.
    pub(super) fn stream_node(&self, job: JobId, part: u32) -> Option<NodeId> {
        match self.core.job(job).map(|job| &job.phase) {
            Some(Phase::Running(assignment, _) | Phase::Suspended(assignment, ..)) => node_at(assignment, part),
            Some(_) => None,
            None => self.routes.routes.get(&job)?.over_on.get(part as usize).copied(),
        }
    }

    /// Which part of a job a node has, as far as streams go. The first bytes may come before it is recorded that the job
    /// runs or after that it is over.
    fn stream_part(&self, job: JobId, node: NodeId) -> Option<u32> {
        match self.core.job(job) {
            Some(job) => place_of(job.assignment()?, node),
            None => {
                let place = self.routes.routes.get(&job)?.over_on.iter().position(|own| *own == node)?;
                u32::try_from(place).ok()
            }
        }
    }

    /// stdout or stderr from a node.
    pub(super) fn output(&mut self, peer: PeerId, node: NodeId, mut data: Data) {
        if data.stream.channel == Channel::Stdin {
            return self.close_node(peer, format!("a node sent stdin of job {}", data.stream.job));
        }
        let job = data.stream.job;
        let (Some(client), Some(part)) = (self.routes.client(job), self.stream_part(job, node)) else { return };
        data.stream.part = part;
        let Some(route) = self.routes.routes.get_mut(&job) else { return };
        let flow = route.output(data.stream);
        match flow.pass(&data) {
            Ok(()) if flow.follows(&data) => self.effects.push(Effect::ToClient(client, Frame::Data(data))),
            Ok(()) => {}
            Err(reason) => self.close_node(peer, format!("job {job}: {reason}")),
        }
    }

    /// A client has taken output.
    pub(super) fn output_taken(&mut self, peer: PeerId, stream: StreamId, offset: u64) {
        if self.routes.client(stream.job) != Some(peer) || stream.channel == Channel::Stdin {
            return;
        }
        let here = self.stream_node(stream.job, stream.part);
        let known = |route: &&mut Route| here.is_some() || (stream.part as usize) < route.outputs.len();
        let Some(route) = self.routes.routes.get_mut(&stream.job).filter(known) else { return };
        let flow = route.output(stream);
        if offset > flow.passed {
            let passed = flow.passed;
            let reason = format!("job {}: {offset} is acknowledged, {passed} was sent", stream.job);
            return self.close_client(peer, reason);
        }
        flow.taken = flow.taken.max(offset);
        if let Some(link) = here.and_then(|node| self.link(node)) {
            let stream = StreamId { part: 0, ..stream };
            self.tell_node(link, MasterToNode::StreamAck { stream, offset });
        }
        self.drop_route_if_done(stream.job);
    }

    /// The terminal of a job's client has another size. Of no use to a job that is over, or has no terminal.
    pub(super) fn resize(&mut self, peer: PeerId, job: JobId, size: WindowSize) {
        let link = self.stream_node(job, 0).and_then(|node| self.link(node));
        let attempt = self.core.job(job).and_then(|job| job.assignment()).map(|assignment| assignment.attempt);
        if let (Some(link), Some(attempt), true) = (link, attempt, self.routes.client(job) == Some(peer)) {
            self.tell_node(link, MasterToNode::Resize { job, attempt, size });
        }
    }

    fn drop_route_if_done(&mut self, job: JobId) {
        if self.routes.routes.get(&job).is_some_and(Route::is_done) {
            self.routes.remove(job);
        }
    }

    /// Both ends are there: each is told where the other is.
    pub(super) fn connect_ends(&mut self, job: JobId) {
        for part in 0..self.parts(job) {
            self.connect_output(job, part);
        }
        self.connect_stdin(job);
    }

    /// How many nodes have streams of the job.
    fn parts(&self, job: JobId) -> u32 {
        let over = || self.routes.routes.get(&job).map_or(0, |route| u32::try_from(route.over_on.len()).unwrap_or(0));
        self.core.job(job).map_or_else(over, |job| job.assignment().map_or(0, nodes_in))
    }

    pub(super) fn connect_output(&mut self, job: JobId, part: u32) {
        let link = self.stream_node(job, part).and_then(|node| self.link(node));
        let (Some(link), Some(route)) = (link, self.routes.routes.get_mut(&job)) else { return };
        let Outputs { stdout, stderr } = *route.outputs(part);
        // A short job may have been read to its end before it is on disk that it ran.
        if route.client.is_some() && !(stdout.is_done() && stderr.is_done()) {
            self.tell_node(link, MasterToNode::ReadFrom { job, stdout: stdout.taken, stderr: stderr.taken });
        }
    }

    /// A node is back with these attempts.
    pub(super) fn resume_streams(&mut self, peer: PeerId, node: NodeId, attempts: &[AttemptReport]) {
        for report in attempts {
            if self.is_multi_node(report.job) {
                self.routes.stdin_on(report.job, node, report.stdin_offset);
            } else if let Some(route) = self.routes.routes.get_mut(&report.job) {
                route.stdin.resume(report.stdin_offset);
            }
        }
        for report in attempts {
            if let Some(part) = self.stream_part(report.job, node) {
                self.streams_kept(part, report);
            }
        }
        let here = |job: &JobId| Some((*job, self.stream_part(*job, node)?));
        let jobs: Vec<(JobId, u32)> = self.routes.routes.keys().filter_map(here).collect();
        for (job, part) in jobs {
            self.connect_output(job, part);
            self.connect_stdin(job);
        }
        let give_up_at = self.now + self.settings.orphan_grace;
        for &AttemptReport { job, .. } in attempts {
            if self.routes.has(job) {
                continue;
            }
            match self.live_of(job).map(|live| live.launch.io) {
                Some(Io::Detached) => {}
                // Given up while the node was away.
                Some(Io::Attached) => self.tell_node(peer, MasterToNode::Discard { job }),
                // Over before this process began: its client may come back for the rest of the output.
                None => {
                    let route = Route { over_on: vec![node], told: true, ..Route::default() };
                    self.routes.routes.insert(job, route);
                    self.routes.detach(job, give_up_at);
                }
            }
        }
    }

    /// The job is over and that is on disk: the client may still be reading.
    pub(super) fn streams_of_finished(&mut self, report: &JobReport) {
        let ran = matches!(&report.end, Some(JobEnd::Ran { outcome: Outcome::Exited(_) | Outcome::Signaled(_), .. }));
        let node = |name: &String| self.core.node_named(name).map(|node| node.id());
        let nodes: Option<Vec<NodeId>> = report.nodes.iter().map(node).collect();
        match nodes.filter(|nodes| ran && !nodes.is_empty()) {
            Some(nodes) => {
                if let Some(route) = self.routes.routes.get_mut(&report.job) {
                    (route.over_on, route.told) = (nodes, true);
                }
                self.drop_route_if_done(report.job);
            }
            // There is no output to wait for.
            None => drop(self.routes.remove(report.job)),
        }
    }

    /// Gives up the jobs whose clients stayed away too long.
    pub(super) fn orphans_due(&mut self) {
        if !self.commits.is_open() {
            return;
        }
        while let Some((_, job)) = self.routes.orphans.first().copied().filter(|(at, _)| *at <= self.now) {
            let link = |part| self.stream_node(job, part).and_then(|node| self.link(node));
            let links: Vec<PeerId> = (0..self.parts(job)).filter_map(link).collect();
            self.routes.remove(job);
            for link in links {
                self.tell_node(link, MasterToNode::Discard { job });
            }
            if self.core.job(job).is_some() {
                tracing::warn!(%job, "cancelled: its lrun did not come back");
                self.must(Event::CancelRequested { job, by: "lmaster, because its lrun is gone".into() });
            }
        }
    }
}
