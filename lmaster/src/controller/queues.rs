//! Queues: the configured ones come into force, and clients ask for them. Licences come into force.

use std::collections::BTreeSet;

use limo_model::{QueueSpec, clip, host_list};
use limo_proto::{Answer, QueueReport, QueuesQuery};
use limo_sched::{Event, Refused};

use super::queries::Serve;
use super::tx::Tx;
use super::{Controller, PeerId};
use crate::changed::CONFIGURATION;

/// Longest part of an unknown name in a refusal, in bytes.
pub(super) const NAME_SHOWN: usize = 64;

/// Returns the command that lists the names which a refused job may have.
pub(super) fn list_of(refused: &Refused) -> &'static str {
    match refused {
        Refused::NoSuchAccount { .. } | Refused::AccountForOthers { .. } | Refused::NoAccount { .. } => {
            "lconf account list"
        }
        Refused::NoSuchQos { .. } | Refused::QosForOthers { .. } | Refused::QosTooShort { .. } => "lconf qos list",
        _ => "lconf queue list",
    }
}

impl Tx {
    /// Applies the configured queues.
    pub(super) fn queues_in_force(&mut self) {
        let queues = self.settings.queues.clone().after(&self.core.settings().queues);
        if self.core.settings().queues == queues {
            return;
        }
        for (queue, spec) in queues.iter() {
            let nodes = self.unregistered(&spec.nodes);
            if !nodes.is_empty() {
                tracing::warn!(queue, nodes, "the queue names nodes that have not registered so far");
            }
        }
        self.must(Event::QueuesSet { queues, by: CONFIGURATION.to_owned() });
    }

    /// Applies the configured licences.
    pub(super) fn licences_in_force(&mut self) {
        let licences = self.settings.licences.clone();
        if self.core.settings().licences != licences {
            self.must(Event::LicencesSet { licences, by: CONFIGURATION.to_owned() });
        }
    }

    /// Returns a list of those of these nodes that have not registered so far.
    pub(super) fn unregistered(&self, nodes: &BTreeSet<String>) -> String {
        host_list(nodes.iter().map(String::as_str).filter(|node| self.core.node_named(node).is_none()))
    }
}

impl Controller {
    /// Returns the event that takes a queue down or up.
    pub(super) fn queue_state(&self, queue: &str, is_down: bool, by: String) -> Result<Event, String> {
        let queues = &self.tx.core.settings().queues;
        let changed = queues.clone().with_state(queue, Some(is_down));
        let names = || queues.iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
        let refused = || format!("there is no queue `{}` (queues: {})", clip(queue.to_owned(), NAME_SHOWN), names());
        changed.map(|queues| Event::QueuesSet { queues, by }).ok_or_else(refused)
    }
}

impl Serve for QueuesQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        let (core, now) = (&controller.tx.core, controller.tx.now);
        let queues = core.settings().queues.iter().map(|(name, spec)| {
            let own = || core.known_nodes().filter(|node| spec.has(&node.spec().name));
            let available = own().filter(|node| node.is_available(now)).count();
            report((name, spec), [own().count(), available])
        });
        let queues = queues.collect();
        controller.say(peer, Answer::Queues(queues));
    }
}

fn report((name, spec): (&str, &QueueSpec), nodes: [usize; 2]) -> QueueReport {
    let [known, available] = nodes.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    QueueReport {
        name: name.to_owned(),
        is_default: spec.is_default,
        is_down: spec.is_closed(),
        expected_wait: spec.expected_wait,
        default_time: spec.default_time,
        max_time: spec.max_time,
        max_nodes: spec.max_nodes.map(|most| most.get()),
        nodes: (!spec.nodes.is_empty()).then(|| host_list(spec.nodes.iter().map(String::as_str))),
        known,
        available,
        users: joined(&spec.users),
        groups: joined(&spec.groups),
    }
}

pub(super) fn joined(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}
