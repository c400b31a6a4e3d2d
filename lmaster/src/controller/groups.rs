//! Groups of nodes: the configured ones come into force, operators change their limits, and clients ask for them.

use limo_model::{Deferral, Power, clip, host_list};
use limo_proto::{Answer, GroupDraw, GroupReport, GroupsQuery};
use limo_sched::{Core, Event, Refused};

use super::queries::Serve;
use super::queues::NAME_SHOWN;
use super::tx::Tx;
use super::{Controller, PeerId};
use crate::changed::CONFIGURATION;

impl Tx {
    /// Applies the configured groups.
    pub(super) fn groups_in_force(&mut self) {
        let groups = self.settings.groups.clone().after(&self.core.settings().groups);
        if self.core.settings().groups == groups {
            return;
        }
        for (group, spec) in groups.iter() {
            let nodes = self.unregistered(&spec.nodes);
            if !nodes.is_empty() {
                tracing::warn!(group, nodes, "the group names nodes that have not registered so far");
            }
        }
        self.must(Event::GroupsSet { groups, by: CONFIGURATION.to_owned() });
    }
}

impl Controller {
    /// Returns the event that sets the limit of a group.
    pub(super) fn group_limit(&self, group: &str, limit: Power, by: String) -> Result<Event, Refused> {
        let groups = &self.tx.core.settings().groups;
        let changed = groups.clone().with_limit(group, Some(limit))?;
        let known = || groups.iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
        let name = || clip(group.to_owned(), NAME_SHOWN);
        let groups = changed.ok_or_else(|| Refused::NoSuchGroup { name: name(), known: known() })?;
        Ok(Event::GroupsSet { groups, by })
    }
}

/// Returns the groups whose draw is limited.
pub(super) fn limited(core: &Core) -> Vec<GroupDraw> {
    let limited = core.groups().filter(|(_, spec, _)| !spec.limit().is_unlimited());
    limited.map(|(name, spec, draw)| GroupDraw { name: name.to_owned(), draw, limit: spec.limit() }).collect()
}

impl Serve for GroupsQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        let core = &controller.tx.core;
        let groups = core.groups().map(|(name, spec, draw)| {
            let known = spec.nodes.iter().filter(|node| core.node_named(node).is_some()).count();
            GroupReport {
                name: name.to_owned(),
                draw,
                limit: spec.limit(),
                configured: spec.limit,
                nodes: host_list(spec.nodes.iter().map(String::as_str)),
                known: u32::try_from(known).unwrap_or(u32::MAX),
                owners: spec.owners.map(Into::into),
                sleep_after: spec.sleep.after.map(|after| after.to_string().into()),
                wake: !spec.sleep.stays,
                reboot: spec.reboot.map(|rule| rule.window.to_string().into()),
                reboot_deferred: spec.reboot.is_some_and(|rule| rule.defer == Deferral::UntilEnd),
            }
        });
        let groups = groups.collect();
        controller.say(peer, Answer::Groups(groups));
    }
}
