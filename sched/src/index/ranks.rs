//! Nodes by the energy and by the duration of an application on them, from the variation of units. Each order is made
//! when it is first needed after a change.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use limo_model::{Factor, NodeId, UnitId, UnitKind};

use super::{Class, Classes};
use crate::facts::units_like;
use crate::options::RankBy;
use crate::state::State;

/// The orders of all applications.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ranks {
    /// By application with factors of its own.
    own: BTreeMap<String, OnceLock<Rank>>,
    /// For all other applications.
    blind: OnceLock<Rank>,
}

/// The nodes in the order of one application.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rank {
    /// By class and unit.
    units: Vec<Vec<UnitRank>>,
}

/// The nodes of one class in the orders of one of their units.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnitRank {
    pub energy: UnitOrder,
    pub duration: UnitOrder,
}

/// The nodes of one class in an order.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnitOrder {
    /// By position: the energy or duration, in millionths of the typical one.
    factors: Vec<u64>,
    /// Positions with their factors, the least first.
    ordered: Vec<(u64, u32)>,
}

impl UnitOrder {
    fn new(factors: Vec<u64>) -> Self {
        let mut ordered: Vec<(u64, u32)> = factors.iter().copied().zip(0..).collect();
        ordered.sort_unstable();
        Self { factors, ordered }
    }

    /// Number of positions.
    pub fn len(&self) -> usize {
        self.ordered.len()
    }

    /// Returns the factor of a position.
    pub fn of(&self, position: u32) -> u64 {
        self.factors.get(position as usize).copied().unwrap_or(u64::from(limo_model::MILLION))
    }

    /// Returns the number of positions for which `is_before` is true. They come first in the order; the first `known` of
    /// them are known.
    pub fn before(&self, known: usize, is_before: impl Fn(u64, u32) -> bool) -> usize {
        let rest = self.ordered.get(known..).unwrap_or_default();
        known + rest.iter().take_while(|(factor, position)| is_before(*factor, *position)).count()
    }
}

impl Ranks {
    pub fn of(state: &State) -> Self {
        let own = state.variation.applications().map(|name| (name.to_owned(), OnceLock::new())).collect();
        Self { own, blind: OnceLock::new() }
    }

    /// Returns the order for an application.
    pub fn get(&self, state: &State, classes: &Classes, (application, by): (&str, RankBy)) -> &Rank {
        let variation = &state.variation;
        if let Some(rank) = self.own.get(application).filter(|_| by == RankBy::Application) {
            let factors = variation.of(application);
            return rank.get_or_init(|| Rank::of(classes, |unit| factors.factor(unit, None)));
        }
        self.blind.get_or_init(|| Rank::of(classes, |unit| variation.blind(unit)))
    }
}

impl Rank {
    fn of(classes: &Classes, factor: impl Fn(UnitId) -> Factor) -> Self {
        let of_class = |class: &Class| {
            let units = 0..u16::try_from(class.units.len()).unwrap_or(u16::MAX);
            units.map(|unit| UnitRank::of(class, unit, &factor)).collect()
        };
        Self { units: classes.all().iter().map(of_class).collect() }
    }

    /// Returns the order of a class for one of its units.
    pub fn unit(&self, class: usize, unit: u16) -> Option<&UnitRank> {
        self.units.get(class)?.get(usize::from(unit))
    }
}

impl UnitRank {
    /// A job may get any accelerators of the type, so their mean counts.
    fn of(class: &Class, unit: u16, factor: impl Fn(UnitId) -> Factor) -> Self {
        let alike: Vec<u16> = match class.units.get(usize::from(unit)) {
            Some(of) if of.kind == UnitKind::Accelerator => units_like(&class.units, unit).collect(),
            _ => vec![unit],
        };
        let count = alike.len() as u64;
        let mean = |of: fn(Factor) -> u64| {
            let each = |node: &NodeId| {
                alike.iter().map(|unit| of(factor(UnitId { node: *node, unit: *unit }))).sum::<u64>() / count
            };
            UnitOrder::new(class.nodes.iter().map(each).collect())
        };
        Self { energy: mean(Factor::energy), duration: mean(|factor| u64::from(factor.duration)) }
    }
}
