//! Groups of nodes: the effect of new ones.

use std::collections::BTreeMap;

use limo_model::{Groups, Time};

use super::nodes::settle;
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
    let places: BTreeMap<&str, u16> =
        specs.flat_map(|(place, (_, spec))| spec.nodes.iter().map(move |node| (node.as_str(), place))).collect();
    for node in cluster.state.nodes.iter_mut().filter(|node| !node.is_removed()) {
        node.group = places.get(node.spec.name.as_str()).copied();
    }
    cluster.state.settings.groups = groups.clone();
    cluster.find_again(now);
    Ok(())
}
