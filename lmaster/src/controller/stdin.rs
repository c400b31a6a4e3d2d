//! Stdin of attached jobs. In a multi-node job, all nodes get stdin, or only the one with the reading task. The
//! offset of the stream is that of the slowest unfinished node, so that one credit covers all.

use limo_model::{JobId, NodeId};
use limo_proto::{Channel, Data, Frame, MasterToClient, StreamId};

use super::{Controller, Effect, PeerId};

impl Controller {
    /// Passes stdin from a client on.
    pub(super) fn input(&mut self, peer: PeerId, data: Data) {
        let job = data.stream.job;
        if data.stream.channel != Channel::Stdin || data.stream.part != 0 {
            return self.close_client(peer, format!("a client sent output of job {job}"));
        }
        if self.routes.client(job) != Some(peer) {
            return;
        }
        // Data may arrive when the job is over or its node is disconnected, and is then dropped. If the job continues,
        // the client learns the offset from which to send.
        let links: Vec<PeerId> = self.readers(job).into_iter().filter_map(|node| self.link(node)).collect();
        let Some(route) = self.routes.get_mut(job).filter(|_| !links.is_empty()) else { return };
        match route.stdin.pass(&data) {
            Ok(()) => {
                let frames = links.into_iter().map(|link| Effect::ToNode(link, Frame::Data(data.clone())));
                self.tx.effects.extend(frames);
            }
            Err(reason) => self.close_client(peer, format!("job {job}: {reason}")),
        }
    }

    /// Handles a node's acknowledgement of stdin.
    pub(super) fn stdin_taken(&mut self, node: NodeId, stream: StreamId, offset: u64) {
        let job = stream.job;
        if stream.channel != Channel::Stdin || !self.readers(job).contains(&node) {
            return;
        }
        let multi_node = self.is_multi_node(job);
        let Some(route) = self.routes.get_mut(job).filter(|route| offset <= route.stdin.passed) else { return };
        if !multi_node {
            route.stdin.taken = route.stdin.taken.max(offset);
            if let Some(client) = self.routes.client(job) {
                self.tell_client(client, MasterToClient::StreamAck { stream, offset });
            }
            return;
        }
        self.routes.stdin_on(job, node, offset);
        self.stdin_of_slowest(job);
    }

    /// Returns the lowest offset of stdin on the reading nodes of a multi-node job, once all are known.
    pub(super) fn slowest(&self, job: JobId) -> Option<u64> {
        let on = &self.routes.get(job)?.stdin_on;
        let offsets = self.readers(job).into_iter().map(|node| on.get(&node).copied());
        offsets.collect::<Option<Vec<u64>>>()?.into_iter().min()
    }

    /// Passes on the progress of the slowest node.
    pub(super) fn stdin_of_slowest(&mut self, job: JobId) {
        let Some(offset) = self.slowest(job) else { return };
        let Some(route) = self.routes.get_mut(job) else { return };
        if offset <= route.stdin.taken || offset > route.stdin.passed {
            return;
        }
        route.stdin.taken = offset;
        if let Some(client) = route.client {
            let stream = StreamId::new(job, Channel::Stdin);
            self.tell_client(client, MasterToClient::StreamAck { stream, offset });
        }
    }

    /// Connects stdin, unless the job is over: its offset is then forgotten, and a guess would be too low. The same
    /// holds for a multi-node job until all nodes have reconnected.
    pub(super) fn connect_stdin(&mut self, job: JobId) {
        let multi_node = self.is_multi_node(job);
        let linked = self.stream_node(job, 0).is_some_and(|node| multi_node || self.link(node).is_some());
        let slowest = self.slowest(job);
        let is_open = |route: &&mut super::routes::Route| linked && !route.stdin_is_over;
        let Some(route) = self.routes.get_mut(job).filter(is_open) else { return };
        let (Some(client), Some(_)) = (route.client, self.tx.core.job(job)) else { return };
        if multi_node {
            let Some(slowest) = slowest else { return };
            route.stdin.resume(slowest);
        }
        let stdin_offset = route.stdin.taken;
        self.tell_client(client, MasterToClient::Attached { job, stdin_offset });
    }
}
