//! The nodes that jobs may have, by kind of unit: units of one kind are one candidate, however many there are.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::rc::Rc;

use limo_model::{NodeId, Part, Power, Request, Span, UnitId, UnitSpec};

use crate::facts::{Known, Looked, waking_draw};
use crate::state::{Node, Sleep};
use crate::view::View;

/// Properties of equal units, apart from the times at which they are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PoolKind {
    pub class: usize,
    pub unit: u16,
    /// Present cap, if the unit has jobs.
    pub shared: Option<Option<Power>>,
    /// True if the unit can be capped.
    pub obeys: bool,
    /// Waking of the node, if it sleeps.
    pub waking: Option<Waking>,
}

/// Waking of a node: the time, and the additional draw compared to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waking {
    pub span: Span,
    pub draw: Power,
}

impl Waking {
    fn of(node: &Node) -> Option<Self> {
        if node.sleep != Sleep::Asleep {
            return None;
        }
        let rest = node.spec.rest()?;
        Some(Self { span: rest.up.span, draw: waking_draw(node) })
    }
}

/// Facts about an application on a unit of a class.
type OnUnit = ((usize, u16), Rc<Looked>);

/// Facts about an application, its size class and a number of nodes, on the units that were looked up.
pub(super) type OnUnits = Rc<RefCell<Vec<OnUnit>>>;

/// The nodes with units of each kind, in order.
#[derive(Debug, Clone, Default)]
pub(in crate::policy) struct Pools<'a> {
    pub(super) kinds: BTreeMap<PoolKind, Vec<NodeId>>,
    /// Facts about applications and their size classes on the units of a class.
    looked: RefCell<BTreeMap<(&'a str, &'a str, NonZeroU32), OnUnits>>,
}

impl<'a> Pools<'a> {
    /// Makes pools of the usable nodes.
    pub fn of(view: &View<'a>, usable: impl Fn(&Node) -> bool) -> Self {
        let mut pools = Self::default();
        for node in view.nodes().iter().filter(|node| usable(node)) {
            let Some((class, _)) = view.index().classes.place_of(node.id) else { continue };
            let waking = Waking::of(node);
            // The node has equal units, but those of 10,000 nodes are far apart in memory.
            for (unit, spec) in (0..).zip(&view.index().classes.class(class).units) {
                let taken = view.index().cores_used(UnitId { node: node.id, unit }) > 0;
                let shared = taken.then(|| node.cap(unit));
                let obeys = spec.caps.is_some() && !node.caps.failed.contains(&unit);
                let kind = PoolKind { class, unit, shared, obeys, waking };
                pools.kinds.entry(kind).or_default().push(node.id);
            }
        }
        pools
    }

    /// Places a job on these units: from now on they have its cap. Returns true if the kinds of units changed.
    pub fn take(&mut self, view: &View<'_>, placement: &[Part]) -> bool {
        let mut others = false;
        for (unit, cap) in placement.iter().flat_map(|part| part.units().map(|unit| (unit, part.cap))) {
            let Some((class, _)) = view.index().classes.place_of(unit.node) else { continue };
            let of = |kind: &PoolKind| kind.class == class && kind.unit == unit.unit;
            let held = self.kinds.iter_mut().filter(|(kind, _)| of(kind));
            let found = held.filter_map(|(kind, nodes)| Some((*kind, nodes.binary_search(&unit.node).ok()?, nodes)));
            let Some((kind, at, nodes)) = found.last() else { continue };
            if kind.shared == Some(cap) {
                continue;
            }
            nodes.remove(at);
            others |= nodes.is_empty();
            let nodes = self.kinds.entry(PoolKind { shared: Some(cap), ..kind }).or_default();
            others |= nodes.is_empty();
            if let Err(at) = nodes.binary_search(&unit.node) {
                nodes.insert(at, unit.node);
            }
        }
        others
    }

    pub(super) fn on_units(&self, request: &'a Request) -> OnUnits {
        self.looked.borrow_mut().entry((&request.application, &request.size, request.nodes)).or_default().clone()
    }
}

/// Returns the facts about a job's application on a unit of a class.
pub(super) fn looked_up(
    on: &OnUnits,
    known: Known<'_>,
    request: &Request,
    (kind, unit): (&PoolKind, &UnitSpec),
) -> Rc<Looked> {
    let mut units = on.borrow_mut();
    let of = (kind.class, kind.unit);
    if let Some((_, found)) = units.iter().find(|(unit, _)| *unit == of) {
        return found.clone();
    }
    let found = Rc::new(Looked::up(known, request, unit));
    units.push((of, found.clone()));
    found
}
