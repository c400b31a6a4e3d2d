//! Groups of nodes in a random run: no start takes the draw of a group above its limit.

use std::collections::BTreeMap;

use limo_model::{GroupSpec, Groups, NodeId, Power, nodes};
use limo_sched::{Command, Event, Refused, Round};

use super::Run;

impl Run {
    pub(super) fn groups(&mut self, of: [(u8, i64); 2]) -> Result<(), Refused> {
        let [(first, _), _] = of;
        let mut groups = BTreeMap::new();
        for (which, (mask, limit)) in of.into_iter().enumerate() {
            let mask = if which == 0 { mask } else { mask & !first };
            let nodes = (0..8).filter(|bit| mask >> bit & 1 == 1).map(|bit| format!("n{bit}")).collect();
            let owners = Self::owner_rules(limit);
            let sleep = Self::sleep_rules(limit);
            let spec = GroupSpec { nodes, limit: Power::from_watts(limit), owners, sleep, ..GroupSpec::default() };
            if mask != 0 {
                groups.insert(format!("g{which}"), spec);
            }
        }
        let groups = Groups::new(groups).expect("a node is in one of them");
        self.world.apply(Event::GroupsSet { groups, by: "root".into() })
    }

    /// Checks the believed draw of each group with a node of a job that the round starts. It includes jobs that wait for
    /// nodes or confirmations.
    pub(super) fn check_groups(&self, round: &Round) {
        let core = &self.world.core;
        for (name, spec, draw) in core.groups() {
            let is_in = |node: NodeId| core.node(node).is_some_and(|node| spec.nodes.contains(&node.spec().name));
            let own = core.nodes().iter().map(|node| node.id()).filter(|id| is_in(*id));
            let own: Power = own.map(|id| core.node_draw(id)).sum();
            assert!(own <= draw, "{name} draws {own}, not {draw}");
            let starts = |command: &Command| match command {
                Command::Start { placement, .. } => nodes(placement).any(is_in),
                _ => false,
            };
            // Caps divide a limit with a precision of a thousandth.
            let slack = if core.settings().parts().divides() { spec.limit().scaled(1, 1_000) } else { Power::ZERO };
            let keeps = draw <= spec.limit() + slack || !round.commands.iter().any(starts);
            assert!(keeps, "{name} draws {draw}, and its limit is {}: {round:?}", spec.limit());
        }
    }
}
