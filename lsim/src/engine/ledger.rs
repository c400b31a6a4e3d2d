//! Ledger of a pool: time and energy of each node in each state (htc-sim-2015, equation 1).
//!
//! An owner counts as full load. A job beside an owner adds nothing, whether it runs or stands still.

pub use limo_model::NodeActivity;
use limo_model::{Curve, NodeId, Power, Price, Span, Time};
use limo_trace::Platform;
use limo_trace::platform::{Draw, Rest};

use super::visits::{HoursOfDay, Priced, all_uj};

/// Power state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Switched {
    #[default]
    Awake,
    Down,
    Asleep,
    Up,
}

/// Conditions that decide the state of a node.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts {
    pub owner: bool,
    /// Numbers of jobs that run, and that stand still.
    pub running: u16,
    pub still: u16,
    pub switched: Switched,
    pub reboots: bool,
}

impl Facts {
    fn activity(&self) -> NodeActivity {
        match self.switched {
            _ if self.reboots => NodeActivity::Reboot,
            Switched::Asleep => NodeActivity::Sleep,
            Switched::Down => NodeActivity::Down,
            Switched::Up => NodeActivity::Up,
            Switched::Awake if self.running > 0 && self.owner => NodeActivity::Both,
            Switched::Awake if self.running > 0 => NodeActivity::Job,
            Switched::Awake if self.still > 0 => NodeActivity::Suspended,
            Switched::Awake if self.owner => NodeActivity::User,
            Switched::Awake => NodeActivity::Idle,
        }
    }

    /// Returns true if an owner or a reboot loads the node, and no job does.
    fn is_loaded_apart(&self) -> bool {
        let awake = self.switched == Switched::Awake;
        awake && self.running == 0 && (self.owner || self.reboots)
    }
}

/// Time and energy of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    pub span: Span,
    /// In µJ (mW x ms).
    pub uj: i128,
}

struct OfNode {
    group: u16,
    facts: Facts,
    since: Time,
    spent: [Spent; 9],
    priced: Priced,
}

/// Time and energy by state, for each group of the platform.
pub type SpentByGroup = Vec<[Spent; 9]>;

pub struct NodeLedger {
    draws: Vec<(Draw, Option<Rest>)>,
    nodes: Vec<OfNode>,
    prices: Option<Curve<Price>>,
    hours: HoursOfDay,
}

/// Contents of a ledger at its end.
pub struct ClosedLedger {
    pub groups: SpentByGroup,
    pub nodes: Vec<Priced>,
    pub hours: HoursOfDay,
}

impl NodeLedger {
    pub fn new(platform: &Platform, now: Time, prices: Option<Curve<Price>>) -> Self {
        let entry = |group: u16| OfNode {
            group,
            facts: Facts::default(),
            since: now,
            spent: Default::default(),
            priced: Priced::default(),
        };
        let nodes = (0..).zip(&platform.groups).flat_map(|(group, of)| (0..of.count).map(move |_| entry(group)));
        let draws = platform.groups.iter().map(|group| (group.draw, group.rest)).collect();
        Self { nodes: nodes.collect(), draws, prices, hours: HoursOfDay::default() }
    }

    pub fn facts(&self, node: NodeId) -> Facts {
        self.nodes.get(node.0 as usize).map(|entry| entry.facts).unwrap_or_default()
    }

    /// Returns the draw of a node under full load.
    pub fn busy(&self, node: NodeId) -> Power {
        self.nodes.get(node.0 as usize).map_or(Power::ZERO, |entry| self.draws[usize::from(entry.group)].0.busy)
    }

    /// Changes the conditions of a node. Returns the change of its draw above that of its jobs.
    pub fn change(&mut self, node: NodeId, now: Time, change: impl FnOnce(&mut Facts)) -> Power {
        let Some(entry) = self.nodes.get_mut(node.0 as usize) else { return Power::ZERO };
        let (draw, rest) = &self.draws[usize::from(entry.group)];
        count(entry, (draw, rest.as_ref()), now, (self.prices.as_ref(), &mut self.hours));
        let before = entry.facts.is_loaded_apart();
        change(&mut entry.facts);
        let more = draw.busy - draw.idle;
        match (before, entry.facts.is_loaded_apart()) {
            (false, true) => more,
            (true, false) => -more,
            _ => Power::ZERO,
        }
    }

    /// Returns the times and energies until `now`.
    pub fn close(mut self, now: Time) -> ClosedLedger {
        let mut groups = vec![[Spent::default(); 9]; self.draws.len()];
        for entry in &mut self.nodes {
            let (draw, rest) = &self.draws[usize::from(entry.group)];
            count(entry, (draw, rest.as_ref()), now, (self.prices.as_ref(), &mut self.hours));
            for (sum, spent) in groups[usize::from(entry.group)].iter_mut().zip(entry.spent) {
                sum.span = sum.span + spent.span;
                sum.uj += spent.uj;
            }
        }
        let of_nodes = self.nodes.iter().map(|entry| Priced { uj: all_uj(&entry.spent), ..entry.priced });
        ClosedLedger { groups, nodes: of_nodes.collect(), hours: self.hours }
    }
}

fn count(
    entry: &mut OfNode,
    (draw, rest): (&Draw, Option<&Rest>),
    now: Time,
    (prices, hours): (Option<&Curve<Price>>, &mut HoursOfDay),
) {
    let span = now - entry.since;
    if span <= Span::ZERO {
        return;
    }
    let since = std::mem::replace(&mut entry.since, now);
    let activity = entry.facts.activity();
    let draw = match activity {
        NodeActivity::Idle => draw.idle,
        NodeActivity::Suspended if !entry.facts.owner => draw.idle,
        NodeActivity::Sleep => rest.map_or(draw.idle, |rest| rest.draw),
        NodeActivity::Down => rest.map_or(draw.idle, |rest| rest.down_draw),
        NodeActivity::Up => rest.map_or(draw.idle, |rest| rest.up_draw),
        _ => draw.busy,
    };
    let spent = &mut entry.spent[activity as usize];
    spent.span = spent.span + span;
    spent.uj += i128::from(draw.mw()) * i128::from(span.ms());
    entry.priced.add(draw.mw(), (since, now), prices);
    hours.add(activity, since, now);
}
