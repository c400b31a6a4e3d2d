//! stdio of attached jobs, passed on between the client and the node without being kept. The ends of each stream hold
//! what is under way and send it again after a broken connection; the master only knows how far each stream is, so that
//! it can tell the ends where to go on, and that nobody sends more than its window.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{JobId, NodeId, Outcome, Time};
use limo_proto::{
    AttemptReport, Channel, Data, Frame, Io, JobReport, MasterToClient, MasterToNode, StreamId, WINDOW, WindowSize,
};
use limo_sched::{Event, JobEnd, Phase};

use super::assign::node_of;
use super::{Desk, Effect, Live, PeerId};

/// How far one stream is. Offsets count the end of the stream as one more byte.
#[derive(Debug, Default, Clone, Copy)]
struct Flow {
    /// The receiver has taken everything below.
    taken: u64,
    /// Nothing at or above was passed on.
    passed: u64,
    /// Whether the end was passed on.
    ended: bool,
}

impl Flow {
    /// Takes note of data that is passed on.
    fn pass(&mut self, data: &Data) -> Result<(), String> {
        let end = data.offset.saturating_add(data.bytes.len() as u64);
        if end > self.taken.saturating_add(WINDOW) {
            let window = format!("{} to {}", self.taken, self.taken.saturating_add(WINDOW));
            return Err(format!("data up to {end} of a stream whose window is {window}"));
        }
        self.ended |= data.bytes.is_empty();
        self.passed = self.passed.max(end + u64::from(data.bytes.is_empty()));
        Ok(())
    }

    /// An end of the stream says that it is at `offset`.
    fn resume(&mut self, offset: u64) {
        self.taken = self.taken.max(offset);
        self.passed = self.passed.max(offset);
    }

    fn is_done(&self) -> bool {
        self.ended && self.taken >= self.passed
    }
}

/// The stdio of one attached job.
#[derive(Debug, Default)]
struct Route {
    client: Option<PeerId>,
    /// When the job is given up, while it has no client.
    give_up_at: Option<Time>,
    stdin: Flow,
    stdout: Flow,
    stderr: Flow,
    /// The node that still has output of the job, once the job is over.
    over_on: Option<NodeId>,
    /// Whether the end of the job is on disk and the client, where there is one, was told.
    told: bool,
}

#[derive(Debug, Default)]
pub(super) struct Routes {
    routes: BTreeMap<JobId, Route>,
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
            (route.over_on, route.told) = (None, false);
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
    pub(super) fn attach(&mut self, job: JobId, client: PeerId, stdout: u64, stderr: u64) -> Option<PeerId> {
        let route = self.routes.entry(job).or_default();
        if let Some(at) = route.give_up_at.take() {
            self.orphans.remove(&(at, job));
        }
        route.stdout.resume(stdout);
        route.stderr.resume(stderr);
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

    /// The job is over; its output is still on `node`.
    pub(super) fn over(&mut self, job: JobId, node: NodeId) {
        if let Some(route) = self.routes.get_mut(&job) {
            route.over_on = Some(node);
        }
    }

    fn remove(&mut self, job: JobId) -> Option<Route> {
        let route = self.routes.remove(&job)?;
        if let Some(at) = route.give_up_at {
            self.orphans.remove(&(at, job));
        }
        Some(route)
    }

    fn flow(&mut self, stream: StreamId) -> Option<&mut Flow> {
        let route = self.routes.get_mut(&stream.job)?;
        Some(match stream.channel {
            Channel::Stdin => &mut route.stdin,
            Channel::Stdout => &mut route.stdout,
            Channel::Stderr => &mut route.stderr,
        })
    }
}

impl Desk {
    /// The node that has the streams of a job: where it runs, or ran.
    fn stream_node(&self, job: JobId) -> Option<NodeId> {
        match self.core.job(job).map(|job| &job.phase) {
            Some(Phase::Running(assignment, _) | Phase::Suspended(assignment, ..)) => node_of(assignment),
            Some(_) => None,
            None => self.routes.routes.get(&job)?.over_on,
        }
    }

    /// stdout or stderr from a node.
    pub(super) fn output(&mut self, peer: PeerId, node: NodeId, data: Data) {
        if data.stream.channel == Channel::Stdin {
            return self.close_node(peer, format!("a node sent stdin of job {}", data.stream.job));
        }
        let job = data.stream.job;
        // The first bytes may come before it is recorded that the job runs or after that it is over.
        let here = self.stream_node(job).or_else(|| self.core.job(job)?.assignment().and_then(node_of));
        let Some(client) = self.routes.client(job).filter(|_| here == Some(node)) else { return };
        let Some(flow) = self.routes.flow(data.stream) else { return };
        match flow.pass(&data) {
            Ok(()) => self.effects.push(Effect::ToClient(client, Frame::Data(data))),
            Err(reason) => self.close_node(peer, format!("job {job}: {reason}")),
        }
    }

    /// stdin from a client.
    pub(super) fn input(&mut self, peer: PeerId, data: Data) {
        let job = data.stream.job;
        if data.stream.channel != Channel::Stdin {
            return self.close_client(peer, format!("a client sent output of job {job}"));
        }
        // It may come late, when the job is over or its node is gone: then nobody takes it, and where the job goes on
        // the client is told from where to send it again.
        let link = self.stream_node(job).and_then(|node| self.link(node));
        let Some(link) = link.filter(|_| self.routes.client(job) == Some(peer)) else { return };
        let Some(flow) = self.routes.flow(data.stream) else { return };
        match flow.pass(&data) {
            Ok(()) => self.effects.push(Effect::ToNode(link, Frame::Data(data))),
            Err(reason) => self.close_client(peer, format!("job {job}: {reason}")),
        }
    }

    /// A node has taken stdin.
    pub(super) fn stdin_taken(&mut self, node: NodeId, stream: StreamId, offset: u64) {
        if stream.channel != Channel::Stdin || self.stream_node(stream.job) != Some(node) {
            return;
        }
        let client = self.routes.client(stream.job);
        let Some(flow) = self.routes.flow(stream).filter(|flow| offset <= flow.passed) else { return };
        flow.taken = flow.taken.max(offset);
        if let Some(client) = client {
            self.tell_client(client, MasterToClient::StreamAck { stream, offset });
        }
    }

    /// A client has taken output.
    pub(super) fn output_taken(&mut self, peer: PeerId, stream: StreamId, offset: u64) {
        if self.routes.client(stream.job) != Some(peer) || stream.channel == Channel::Stdin {
            return;
        }
        let Some(flow) = self.routes.flow(stream) else { return };
        if offset > flow.passed {
            let passed = flow.passed;
            let reason = format!("job {}: {offset} is acknowledged, {passed} was sent", stream.job);
            return self.close_client(peer, reason);
        }
        flow.taken = flow.taken.max(offset);
        if let Some(link) = self.stream_node(stream.job).and_then(|node| self.link(node)) {
            self.tell_node(link, MasterToNode::StreamAck { stream, offset });
        }
        self.drop_route_if_done(stream.job);
    }

    /// The terminal of a job's client has another size. Of no use to a job that is over, or has no terminal.
    pub(super) fn resize(&mut self, peer: PeerId, job: JobId, size: WindowSize) {
        let link = self.stream_node(job).and_then(|node| self.link(node));
        let attempt = self.core.job(job).and_then(|job| job.assignment()).map(|assignment| assignment.attempt);
        if let (Some(link), Some(attempt), true) = (link, attempt, self.routes.client(job) == Some(peer)) {
            self.tell_node(link, MasterToNode::Resize { job, attempt, size });
        }
    }

    fn drop_route_if_done(&mut self, job: JobId) {
        let done = |route: &Route| route.told && route.stdout.is_done() && route.stderr.is_done();
        if self.routes.routes.get(&job).is_some_and(done) {
            self.routes.remove(job);
        }
    }

    /// Both ends are there: each is told where the other is.
    pub(super) fn connect_ends(&mut self, job: JobId) {
        let link = self.stream_node(job).and_then(|node| self.link(node));
        let (Some(link), Some(route)) = (link, self.routes.routes.get(&job)) else { return };
        let Some(client) = route.client else { return };
        let (stdin_offset, stdout, stderr) = (route.stdin.taken, route.stdout.taken, route.stderr.taken);
        // A short job may have been read to its end before it is on disk that it ran.
        if !(route.stdout.is_done() && route.stderr.is_done()) {
            self.tell_node(link, MasterToNode::ReadFrom { job, stdout, stderr });
        }
        // A job that is over takes nothing, and how much it took is forgotten: an offset would be too low.
        if self.core.job(job).is_some() {
            self.tell_client(client, MasterToClient::Attached { job, stdin_offset });
        }
    }

    /// A node is back with these attempts.
    pub(super) fn resume_streams(&mut self, peer: PeerId, node: NodeId, attempts: &[AttemptReport]) {
        for report in attempts {
            if let Some(route) = self.routes.routes.get_mut(&report.job) {
                route.stdin.resume(report.stdin_offset);
            }
        }
        let here = |job: &JobId| self.stream_node(*job) == Some(node);
        let jobs: Vec<JobId> = self.routes.routes.keys().copied().filter(here).collect();
        for job in jobs {
            self.connect_ends(job);
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
                    let route = Route { over_on: Some(node), told: true, ..Route::default() };
                    self.routes.routes.insert(job, route);
                    self.routes.detach(job, give_up_at);
                }
            }
        }
    }

    /// The job is over and that is on disk: the client may still be reading.
    pub(super) fn streams_of_finished(&mut self, report: &JobReport) {
        let ran = matches!(&report.end, Some(JobEnd::Ran { outcome: Outcome::Exited(_) | Outcome::Signaled(_), .. }));
        let node = report.nodes.first().and_then(|name| self.core.node_named(name)).map(|node| node.id());
        match node.filter(|_| ran) {
            Some(node) => {
                if let Some(route) = self.routes.routes.get_mut(&report.job) {
                    (route.over_on, route.told) = (Some(node), true);
                }
                self.drop_route_if_done(report.job);
            }
            // There is no output to wait for.
            None => drop(self.routes.remove(report.job)),
        }
    }

    /// Gives up the jobs whose clients stayed away too long.
    pub(super) fn orphans_due(&mut self) {
        if !self.book.is_open() {
            return;
        }
        while let Some((_, job)) = self.routes.orphans.first().copied().filter(|(at, _)| *at <= self.now) {
            let link = self.stream_node(job).and_then(|node| self.link(node));
            self.routes.remove(job);
            if let Some(link) = link {
                self.tell_node(link, MasterToNode::Discard { job });
            }
            if self.core.job(job).is_some() {
                tracing::warn!(%job, "cancelled: its lrun did not come back");
                self.must(Event::CancelRequested { job, by: "lmaster, because its lrun is gone".into() });
            }
        }
    }
}
