//! Output that did not reach a client, because its user's queue is too large. Its node sends it again once the client
//! has read the queue. Nodes keep unacknowledged bytes, so none is lost.

use limo_proto::StreamId;

use super::{Controller, PeerId};

impl Controller {
    /// Records that a frame of output at `offset` was dropped.
    pub(super) fn dropped(&mut self, peer: PeerId, stream: StreamId, offset: u64) {
        if self.routes.client(stream.job) != Some(peer) {
            return;
        }
        if let Some(route) = self.routes.get_mut(stream.job) {
            let flow = route.output(stream);
            // A repeated frame may begin with bytes that the client has, and that will not be sent again.
            flow.next = flow.next.min(offset).max(flow.taken);
        }
        self.mark_behind(peer, (stream.job, stream.part));
    }

    /// Requests dropped output again after a client has read its queue.
    pub(super) fn send_again(&mut self, peer: PeerId) {
        let Some(client) = self.sessions.get_mut(peer) else { return };
        for (job, part) in std::mem::take(&mut client.behind) {
            if self.routes.client(job) == Some(peer) {
                self.connect_output(job, part);
            }
        }
    }
}
