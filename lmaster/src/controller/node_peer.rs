//! A node's connection as the controller sees it, from the first message to the registration.

use limo_model::NodeId;
use limo_proto::{AttemptReport, Frame, MasterToNode, NodeToMaster, Registration};

use super::PeerId;

/// One connection of a node.
#[derive(Debug)]
pub(super) enum NodePeer {
    /// Has not said which node it is.
    Nameless,
    /// Has said which one, and reports its attempts.
    Registering(Box<Registration>),
    /// Its old incarnation is being settled; what it has sent meanwhile.
    Settling(Vec<Frame<NodeToMaster>>),
    Registered(NodeId),
}

/// The connection of a node that is registered, or about to be.
#[derive(Debug)]
pub(super) struct NodeLink {
    pub(super) peer: PeerId,
    pub(super) instance: String,
    /// Whether the registration is on disk and the node was told so: it hears nothing before.
    pub(super) welcome: bool,
}

/// What a node is told when its registration is on disk.
#[derive(Debug)]
pub(super) struct Welcome {
    pub(super) peer: PeerId,
    pub(super) node: NodeId,
    pub(super) orders: Vec<MasterToNode>,
    pub(super) attempts: Vec<AttemptReport>,
}
