//! A node's connection as the controller sees it, from the first message to the registration.

use std::collections::{BTreeMap, HashMap};

use limo_model::{Containment, NodeId};
use limo_proto::{AttemptReport, Frame, MasterToNode, NodeToMaster, Registration};

use super::foreign::Foreign;
use super::tx::Tx;
use super::{Effect, NodeIncarnation, PeerId};

/// One connection of a node.
#[derive(Debug)]
pub(super) enum NodePeer {
    /// The node has not sent its name.
    Nameless,
    /// The node has sent its name, and reports its attempts.
    Registering(Box<Registration>),
    /// The node's old incarnation is being settled; keeps the frames that arrive meanwhile.
    Settling(Vec<Frame<NodeToMaster>>),
    Registered(NodeId),
}

/// The connection of a node that is registered, or about to be.
#[derive(Debug)]
pub(super) struct NodeLink {
    pub(super) peer: PeerId,
    pub(super) instance: String,
    /// The node's hold on the processes of its jobs.
    pub(super) containment: Containment,
    /// True if its owner is there; `None` if it cannot tell.
    pub(super) owner: Option<bool>,
    /// True if the registration is on disk and was confirmed to the node. The node gets no message before.
    pub(super) welcome: bool,
}

/// Messages to a node once its registration is on disk.
#[derive(Debug)]
pub(super) struct Welcome {
    pub(super) peer: PeerId,
    pub(super) node: NodeId,
    pub(super) orders: Vec<MasterToNode>,
    pub(super) attempts: Vec<AttemptReport>,
}

/// The connections of nodes, and the incarnations that are known.
#[derive(Debug, Default)]
pub(super) struct NodeLinks {
    peers: BTreeMap<PeerId, NodePeer>,
    /// The names in the certificates of nodes of other machines.
    certified: BTreeMap<PeerId, String>,
    /// The connection of each registered node.
    connected: BTreeMap<NodeId, NodeLink>,
    /// The incarnation in which each node got its last assignments, by name.
    incarnations: HashMap<String, NodeIncarnation>,
    pub(super) foreign: Foreign,
}

impl NodeLinks {
    /// Starts without connections.
    pub(super) fn new(incarnations: HashMap<String, NodeIncarnation>) -> Self {
        Self { incarnations, ..Self::default() }
    }

    /// Installs the incarnations on disk.
    pub(super) fn take_up(&mut self, incarnations: HashMap<String, NodeIncarnation>) {
        self.incarnations = incarnations;
    }

    /// Sends a message on an open connection.
    pub(super) fn tell(&self, tx: &mut Tx, peer: PeerId, message: MasterToNode) {
        if self.contains(peer) {
            tx.effects.push(Effect::ToNode(peer, Frame::Message(message)));
        }
    }

    /// Records the name in the certificate of a node, which it must register with.
    pub(super) fn certify(&mut self, peer: PeerId, name: String) {
        if self.contains(peer) {
            self.certified.insert(peer, name);
        }
    }

    /// Returns the reason if a node registers with another name than that of its certificate.
    pub(super) fn misnamed(&self, peer: PeerId, name: &str) -> Option<String> {
        let certified = self.certified(peer).filter(|certified| *certified != name)?;
        Some(format!("the certificate is of node `{certified}`, not of `{name}`"))
    }

    /// Returns the name in the certificate of a node, if it has one.
    pub(super) fn certified(&self, peer: PeerId) -> Option<&str> {
        self.certified.get(&peer).map(String::as_str)
    }

    pub(super) fn contains(&self, peer: PeerId) -> bool {
        self.peers.contains_key(&peer)
    }

    pub(super) fn get_mut(&mut self, peer: PeerId) -> Option<&mut NodePeer> {
        self.peers.get_mut(&peer)
    }

    /// Sets the stage of a connection's registration. Returns the earlier stage.
    pub(super) fn set(&mut self, peer: PeerId, is: NodePeer) -> Option<NodePeer> {
        self.peers.insert(peer, is)
    }

    /// Records the connection of a node that is registered, or about to be.
    pub(super) fn register(&mut self, node: NodeId, link: NodeLink) {
        self.peers.insert(link.peer, NodePeer::Registered(node));
        self.connected.insert(node, link);
    }

    /// Returns a registered node's hold on the processes of its jobs.
    pub(super) fn containment(&self, node: NodeId) -> Option<Containment> {
        self.connected.get(&node).map(|link| link.containment)
    }

    /// Records that a node's registration is on disk. Returns false if its connection has changed.
    pub(super) fn welcome(&mut self, peer: PeerId, node: NodeId) -> bool {
        let link = self.connected.get_mut(&node).filter(|link| link.peer == peer);
        link.map(|link| link.welcome = true).is_some()
    }

    /// Removes a closed connection. Returns its registered node.
    pub(super) fn remove(&mut self, peer: PeerId) -> Option<NodeId> {
        self.certified.remove(&peer);
        let Some(NodePeer::Registered(node)) = self.peers.remove(&peer) else { return None };
        self.connected.remove(&node);
        Some(node)
    }

    /// Returns the connection of a node that is registered, or about to be.
    pub(super) fn of(&self, node: NodeId) -> Option<&NodeLink> {
        self.connected.get(&node)
    }

    /// Returns the connection of a node whose registration was confirmed.
    pub(super) fn welcomed(&self, node: NodeId) -> Option<PeerId> {
        self.of(node).filter(|link| link.welcome).map(|link| link.peer)
    }

    /// Returns the nodes whose registrations were confirmed, with their connections.
    pub(super) fn all_welcomed(&self) -> Vec<(NodeId, PeerId)> {
        let welcomed = self.connected.iter().filter(|(_, link)| link.welcome);
        welcomed.map(|(&node, link)| (node, link.peer)).collect()
    }

    /// Sets the state of a node's owner. Returns false if the node cannot tell it.
    pub(super) fn set_owner(&mut self, node: NodeId, is_there: bool) -> bool {
        let owner = self.connected.get_mut(&node).and_then(|link| link.owner.as_mut());
        owner.map(|owner| *owner = is_there).is_some()
    }

    pub(super) fn incarnation(&self, name: &str) -> Option<&NodeIncarnation> {
        self.incarnations.get(name)
    }

    pub(super) fn set_incarnation(&mut self, name: String, incarnation: NodeIncarnation) {
        self.incarnations.insert(name, incarnation);
    }

    /// Takes out the connections of nodes whose registrations are not on disk.
    pub(super) fn take_unregistered(&mut self) -> Vec<PeerId> {
        self.connected.retain(|_, link| link.welcome);
        let is_kept = |peer: &PeerId, is: &NodePeer| match is {
            NodePeer::Registered(node) => self.connected.get(node).is_some_and(|link| link.peer == *peer),
            _ => false,
        };
        let taken: Vec<PeerId> =
            self.peers.extract_if(.., |peer, is| !is_kept(peer, is)).map(|(peer, _)| peer).collect();
        self.certified.retain(|peer, _| !taken.contains(peer));
        taken
    }

    /// Takes out all connections.
    pub(super) fn take_all(&mut self) -> Vec<PeerId> {
        self.connected.clear();
        self.certified.clear();
        std::mem::take(&mut self.peers).into_keys().collect()
    }

    /// Returns the number of connections, and the number of registered nodes among them.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.peers.len(), self.connected.len())
    }
}
