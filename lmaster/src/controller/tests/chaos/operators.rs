//! The operators of a world: limits, budgets, prices, quotas, reservations and nodes.

use limo_model::{Budget, Budgets, CapRule, Curve, Energy, PartRule, Price, QuotaLimit, Release, Reservation};
use limo_proto::{Change, UsersChange};

use super::*;

/// Names of reservations.
const RESERVATIONS: [&str; 3] = ["maint", "demo", "course"];

impl World {
    pub fn operator(&mut self, change: Change) {
        let what = match &change {
            Change::Priority { .. } => "priority",
            Change::TimeLimit { .. } => "time limit",
            Change::Users(_) => "quota",
            Change::Drain { .. } => "drain",
            Change::Resume { .. } => "resume",
            Change::Limits(_) => "limits",
            Change::Prices(_) => "prices",
            Change::Undo(_) => "undo",
            Change::RemoveNodes(_) => "removal of a node",
            Change::Reserve { .. } => "reservation",
            Change::Budgets { .. } => "budget",
            _ => "another change",
        };
        if !self.healed {
            self.seen.saw(what);
        }
        self.bench.say(self.root, ClientToMaster::ChangeConf(Box::new(change)));
    }

    pub fn set_policy(&mut self) {
        let parts = if self.capped { vec![PartRule::Caps(CapRule::Even)] } else { Vec::new() };
        self.operator(Change::Policy { preset: self.preset, parts });
    }

    pub fn set_quota(&mut self) {
        let limit = match self.dice.roll(8) {
            0..3 => QuotaLimit::None,
            3 => QuotaLimit::Cores(Some(1 + self.dice.roll(3) as u32)),
            4 => QuotaLimit::Submitted(Some(20 + self.dice.roll(30) as u32)),
            _ => QuotaLimit::Jobs(Some(self.dice.roll(3) as u32)),
        };
        let user = (self.dice.roll(2) == 0).then(|| "user7".to_owned());
        self.operator(Change::Users(UsersChange::Quota { user, limits: vec![limit] }));
    }

    pub fn drain_or_resume(&mut self) {
        let nodes = vec![format!("n{}", self.dice.roll(NODES))];
        match self.dice.roll(4) {
            0 => self.operator(Change::Drain { nodes, reason: "fans".into() }),
            _ => {
                self.switch_on_given_up();
                self.operator(Change::Resume { nodes });
            }
        }
    }

    pub fn set_limits(&mut self) {
        let band = |high| Band::new(Power::ZERO, Power::from_watts(high)).expect("a band");
        match self.dice.roll(6) {
            0 => self.operator(Change::Prices(Some(Curve::constant(Price::from_milli_per_mwh(80_000))))),
            1 => self.operator(Change::Prices(None)),
            2 => self.operator(Change::Limits(Curve::constant(Band::UNLIMITED))),
            3 if self.capped => self.operator(Change::Limits(Curve::constant(power::narrow()))),
            roll => self.operator(Change::Limits(Curve::constant(band([40, 100, 150][roll - 3])))),
        }
    }

    /// Keeps a node free for a while, for a user or for nobody, or ends that.
    pub fn reserve(&mut self) {
        let name = RESERVATIONS[self.dice.roll(RESERVATIONS.len())].to_owned();
        if self.dice.roll(3) == 0 {
            return self.operator(Change::Unreserve { name });
        }
        let from = self.bench.now + self.bench.ahead + Span::from_secs(self.dice.roll(6) as i64);
        let reservation = Reservation {
            nodes: vec![format!("n{}", self.dice.roll(NODES))],
            from,
            until: from + Span::from_secs(1 + self.dice.roll(20) as i64),
            users: if self.dice.roll(2) == 0 { vec!["user7".into()] } else { Vec::new() },
            reason: String::new(),
        };
        self.operator(Change::Reserve { name, reservation: Box::new(reservation) });
    }

    /// Sets a budget that is enough for some jobs, or none.
    pub fn set_budget(&mut self) {
        let from = self.bench.now + self.bench.ahead;
        let energy = Energy::from_joules([2_000, 20_000, 200_000][self.dice.roll(3)]);
        let budget = Budget { from, until: from + Span::from_secs(3_600), energy, release: Release::Even };
        let budgets = if self.dice.roll(3) == 0 { Vec::new() } else { vec![budget] };
        self.budgets(budgets);
    }

    fn budgets(&mut self, budgets: Vec<Budget>) {
        let budgets = Budgets::new(budgets).expect("at most one");
        self.operator(Change::Budgets { budgets, seen: None });
    }

    /// Removes everything that holds jobs back, apart from what people did to the jobs themselves.
    pub fn lift_restrictions(&mut self) {
        let core = &self.bench.controller.tx.core;
        let drained = core.known_nodes().filter(|node| node.drained().is_some());
        let nodes: Vec<String> = drained.map(|node| node.spec().name.clone()).collect();
        self.operator(Change::Resume { nodes });
        RESERVATIONS.iter().for_each(|name| self.operator(Change::Unreserve { name: (*name).into() }));
        self.budgets(Vec::new());
        let band = if self.capped { power::narrow() } else { Band::UNLIMITED };
        self.operator(Change::Limits(Curve::constant(band)));
        self.operator(Change::Prices(None));
        self.set_policy();
        for user in [None, Some("user7".to_owned())] {
            let limits = vec![QuotaLimit::None];
            self.operator(Change::Users(UsersChange::Quota { user, limits }));
        }
    }
}
