//! Groups of nodes: the effect of new ones.

use std::collections::BTreeMap;

use limo_model::{GroupSpec, Groups, NodeId, Time};

use super::nodes::settle;
use super::{owners, sessions};
use crate::cluster::Cluster;
use crate::refused::Refused;

/// Returns the group of a node of that name, as a place in the order of their names.
pub(super) fn of(groups: &Groups, node: &str) -> Option<u16> {
    groups.iter().position(|(_, spec)| spec.nodes.contains(node)).and_then(|place| u16::try_from(place).ok())
}

pub(super) fn set(cluster: &mut Cluster, now: Time, groups: &Groups) -> Result<(), Refused> {
    groups.check()?;
    settle(cluster, now);
    let specs = (0..).zip(groups.iter());
    let of_nodes: BTreeMap<&str, (u16, &GroupSpec)> = specs
        .flat_map(|(place, (_, spec))| spec.nodes.iter().map(move |node| (node.as_str(), (place, spec))))
        .collect();
    let mut changed: Vec<NodeId> = Vec::new();
    for node in cluster.state.nodes.iter_mut().filter(|node| !node.is_removed()) {
        let of = of_nodes.get(node.spec.name.as_str());
        let rules = of.and_then(|(_, spec)| spec.owners);
        node.group = of.map(|(place, _)| *place);
        if std::mem::replace(&mut node.owner.rules, rules) != rules {
            changed.push(node.id);
        }
        let sleep = of.map(|(_, spec)| spec.sleep).unwrap_or_default();
        if std::mem::replace(&mut node.rules, sleep).after != sleep.after {
            // The time since which it has no job was not noted for a node that was not to sleep.
            node.idle_since = now;
        }
        sessions::owned(node, now);
    }
    sessions::regrouped(&mut cluster.state, groups);
    cluster.state.settings.groups = groups.clone();
    cluster.parts = cluster.state.settings.parts();
    cluster.find_again(now);
    owners::rules_changed(cluster, now, &changed);
    cluster.find_again(now);
    Ok(())
}
