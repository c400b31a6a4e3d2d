//! Groups of nodes in reports, and their reboots.

use limo_model::{Energy, GroupSpec, Money, NodeId, Part, Power, Reboot, Span, Time};

use super::Core;
use crate::state::Node;

impl Core {
    /// Returns the cost of a job's energy on its nodes, spread evenly over `span` from `from`, at the prices of their groups.
    /// `None` if no price was known.
    pub fn cost_on(&self, placement: &[Part], energy: Energy, when: (Time, Span)) -> Option<Money> {
        self.cluster.state.cost_on(placement, energy, when)
    }

    /// Returns the groups in the order of their names, each with the believed draw of its nodes. It includes jobs that are
    /// about to start.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &GroupSpec, Power)> {
        let draw = |group| self.cluster.index.groups.draw(group);
        let groups = self.settings().groups.iter().enumerate();
        groups.map(move |(group, (name, spec))| (name, spec, draw(group)))
    }

    /// Returns the name of a node's group.
    pub fn group_of(&self, node: &Node) -> Option<&str> {
        self.settings().groups.iter().nth(node.group()?).map(|(name, _)| name)
    }

    /// Returns true if nothing on a node keeps it from the reboot for which its turn has come.
    pub fn may_reboot(&self, id: NodeId) -> bool {
        let is_ready = |node: &Node| node.connected && node.is_awake() && node.owner.here.is_none();
        let is_wanted = |node: &Node| matches!(node.reboot(), Some(Reboot::Wanted { .. }));
        self.node(id).is_some_and(|node| is_wanted(node) && is_ready(node)) && self.cluster.books.is_free(id)
    }
}

#[cfg(test)]
mod tests {
    use limo_model::{Curve, Groups, Memory, Meter, NodeId, NodeSpec, Preset, Price, UnitId, UnitKind, UnitSpec};

    use super::*;
    use crate::{Event, Options};

    /// A job has 1 core on `a` and 3 cores on each of `b` and `c`. The energy of `a` costs the price of the cluster, that of
    /// `b` twice and that of `c`, which is in no group, once: (1 + 3 x 2 + 3) / 7 of the price.
    #[test]
    fn a_job_pays_the_prices_of_its_nodes_by_its_cores() {
        let start = Time::from_unix_ms(0);
        let mut core = Core::new(start, Preset::Fifo, Options::default());
        let mut apply = |event: Event| core.apply(start, &event).expect("accepted");
        for name in ["a", "b", "c"] {
            let (kind, nameplate) = (UnitKind::Cpu, Power::from_watts(10));
            let unit = UnitSpec { name: "cpu".into(), hardware: "cpu".into(), kind, cores: 4, nameplate, caps: None };
            let (memory, idle, meter) = (Memory::from_bytes(1), Power::ZERO, Meter::None);
            apply(Event::NodeUp {
                spec: NodeSpec { name: name.into(), units: vec![unit], memory, idle, meter, rest: None },
            });
        }
        let tables = r#"{"dear": {"nodes": ["b"], "pue": 2}, "usual": {"nodes": ["a"]}}"#;
        let groups = Groups::of_tables(serde_json::from_str(tables).expect("tables")).expect("groups");
        apply(Event::GroupsSet { groups, by: "root".into() });
        let prices = Some(Curve::constant(Price::from_milli_per_mwh(70_000)));
        let part = |node, count, cores| {
            let unit = UnitId { node: NodeId(node), unit: 0 };
            Part { unit, count, cores, memory: Memory::ZERO, cap: None }
        };
        let placement = [part(0, 1, 1), part(1, 2, 3)];
        let hour = (start, Span::from_secs(3_600));
        let energy: Energy = "1 MWh".parse().expect("energy");
        assert_eq!(core.cost_on(&placement, energy, hour), None);
        core.apply(start, &Event::PricesSet { prices, by: "root".into() }).expect("accepted");
        assert_eq!(core.cost_on(&placement, energy, hour), Some(Money::from_micro(100_000_000)));
        assert_eq!(core.cost_on(&placement[..1], energy, hour), Some(Money::from_micro(70_000_000)));
    }
}
