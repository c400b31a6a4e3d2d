//! Time and energy of each node in each of its states, by hour, for the journal's table. Pure, without clock and disk.
//!
//! The time since the previous look belongs to the present states of the nodes: looks come before the changes of an input,
//! and are at least a second apart. The energy of a sample belongs to the state at the last look.

use std::collections::BTreeMap;

use limo_journal::StateRow;
use limo_model::{Energy, NodeActivity, NodeId, Power, Span, Time};

use super::Slots;

/// Length of an interval.
const HOUR: Span = Span::from_secs(3_600);

/// Least time between two looks.
const LOOKS_EVERY: Span = Span::from_secs(1);

/// Longest time between two looks that counts. After a longer one the process or its machine was stopped.
const LONGEST: Span = HOUR;

/// Time and energy in one state during an hour.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    span: Span,
    /// Energy in µJ, and the time for which it is known.
    uj: i128,
    seen: Span,
    /// True if it differs from the rows that were taken.
    is_new: bool,
}

#[derive(Debug)]
struct OfNode {
    name: String,
    state: NodeActivity,
    spent: [Spent; NodeActivity::ALL.len()],
}

/// States of all nodes. Times are in cluster time.
#[derive(Debug, Default)]
pub struct StateLedger {
    nodes: BTreeMap<NodeId, OfNode>,
    /// Begin of the hour, and the time since which this process observes it.
    hour: Option<(Time, Time)>,
    last: Option<Time>,
    /// Rows of hours that are over.
    over: Vec<StateRow>,
}

impl StateLedger {
    /// Returns true if it is time for a look.
    pub fn is_due(&self, now: Time) -> bool {
        self.last.is_none_or(|last| now - last >= LOOKS_EVERY)
    }

    /// Adds the time since the previous look to the present states of the nodes. Nodes that are not among them are gone.
    pub(super) fn look(
        &mut self,
        now: Time,
        offset: Span,
        states: &[(NodeId, NodeActivity)],
        name: impl Fn(NodeId) -> String,
    ) {
        let last = self.last.replace(now).filter(|last| now - *last <= LONGEST);
        for (id, state) in states {
            let new = || OfNode { name: name(*id), state: *state, spent: Default::default() };
            self.nodes.entry(*id).or_insert_with(new).state = *state;
        }
        if self.nodes.len() > states.len() {
            // The states are in the order of the nodes.
            let is_gone = |id: &NodeId| states.binary_search_by_key(id, |(id, _)| *id).is_err();
            for (_, of) in self.nodes.extract_if(.., |id, _| is_gone(id)) {
                self.over.extend(rows_of(&of, self.hour));
            }
        }
        let slots = Slots { resolution: HOUR, offset };
        let mut at = last.unwrap_or(now);
        loop {
            let begin = slots.begin(at);
            if self.hour.is_some_and(|(hour, _)| hour != begin) {
                self.end();
            }
            self.hour.get_or_insert((begin, at));
            let end = (begin + HOUR).min(now);
            for of in self.nodes.values_mut().filter(|_| at < end) {
                let spent = &mut of.spent[of.state as usize];
                spent.span = spent.span + (end - at);
                spent.is_new = true;
            }
            at = end;
            if at >= now {
                return;
            }
        }
    }

    /// Adds the energy of a sample that counts for this time.
    pub(super) fn sample(&mut self, node: NodeId, draw: Power, span: Span) {
        if let Some(of) = self.nodes.get_mut(&node).filter(|_| span > Span::ZERO) {
            let spent = &mut of.spent[of.state as usize];
            spent.uj += i128::from(draw.mw()) * i128::from(span.ms());
            spent.seen = spent.seen + span;
            spent.is_new = true;
        }
    }

    /// Ends the hour: at its end, when the clock jumps, and when the process ends.
    pub(super) fn end(&mut self) {
        for of in self.nodes.values_mut() {
            self.over.extend(rows_of(of, self.hour));
            for spent in &mut of.spent {
                // The rest of the rounding goes into the next hour.
                *spent = Spent { uj: spent.uj.rem_euclid(1_000), ..Spent::default() };
            }
        }
        self.hour = None;
    }

    /// Moves rows that are not taken yet, after a jump of the wall clock.
    pub(super) fn shift(&mut self, earlier: Span) {
        self.over.iter_mut().for_each(|row| row.at = row.at + earlier);
    }

    pub(super) fn drop_rows(&mut self) {
        self.over.clear();
    }

    /// Takes the rows to write, in wall time. Those of the present hour will be replaced.
    pub(super) fn take(&mut self, offset: Span) -> Vec<StateRow> {
        let mut rows = std::mem::take(&mut self.over);
        for of in self.nodes.values_mut() {
            rows.extend(rows_of(of, self.hour));
            of.spent.iter_mut().for_each(|spent| spent.is_new = false);
        }
        rows.iter_mut().for_each(|row| row.at = row.at + offset);
        rows
    }
}

/// Returns the rows of a node that differ from those taken.
fn rows_of(of: &OfNode, hour: Option<(Time, Time)>) -> Vec<StateRow> {
    let Some((at, since)) = hour else { return Vec::new() };
    let row = |(state, spent): (NodeActivity, &Spent)| StateRow {
        at,
        node: of.name.clone(),
        state,
        since,
        span: spent.span,
        energy: Energy::from_mj(i64::try_from(spent.uj.div_euclid(1_000)).unwrap_or(i64::MAX)),
        seen: spent.seen,
    };
    NodeActivity::ALL.into_iter().zip(&of.spent).filter(|(_, spent)| spent.is_new).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Time {
        Time::from_unix_ms(1_000 * secs)
    }

    fn look(ledger: &mut StateLedger, secs: i64, state: NodeActivity) {
        ledger.look(at(secs), Span::ZERO, &[(NodeId(0), state)], |_| "n0".to_owned());
    }

    /// Returns the hour, the state, the seconds, the millijoules and the known seconds of rows.
    fn taken(ledger: &mut StateLedger) -> Vec<(i64, &'static str, i64, i64, i64)> {
        let row = |row: StateRow| {
            assert_eq!(row.node, "n0");
            let [at, span, seen] = [row.at.unix_ms(), row.span.ms(), row.seen.ms()].map(|ms| ms / 1_000);
            (at / 3_600, row.state.name(), span, row.energy.mj(), seen)
        };
        ledger.take(Span::ZERO).into_iter().map(row).collect()
    }

    #[test]
    fn time_and_energy_belong_to_states_and_hours() {
        let mut ledger = StateLedger::default();
        look(&mut ledger, 3_000, NodeActivity::Idle);
        assert!(!ledger.is_due(at(3_000)) && ledger.is_due(at(3_001)));
        assert_eq!(taken(&mut ledger), []);
        look(&mut ledger, 3_100, NodeActivity::Idle);
        ledger.sample(NodeId(0), Power::from_mw(1), Span::from_secs(1) + Span::from_ms(500));
        look(&mut ledger, 3_110, NodeActivity::Job);
        ledger.sample(NodeId(0), Power::from_watts(50), Span::from_secs(10));
        assert_eq!(taken(&mut ledger), [(0, "idle", 100, 1, 1), (0, "job", 10, 500_000, 10)]);
        assert_eq!(taken(&mut ledger), []);
        // Rows of the same hour are whole; the next hour begins at 3,600 s. Half a millijoule is left over.
        look(&mut ledger, 3_700, NodeActivity::Idle);
        ledger.sample(NodeId(0), Power::from_mw(1), Span::from_ms(500));
        assert_eq!(taken(&mut ledger), [(0, "idle", 590, 1, 1), (1, "idle", 100, 1, 0)]);
        // A process that was stopped for longer than an hour has seen nothing.
        look(&mut ledger, 9_000, NodeActivity::Job);
        ledger.end();
        assert_eq!(taken(&mut ledger), []);
    }

    #[test]
    fn a_node_that_is_removed_leaves_its_rows() {
        let mut ledger = StateLedger::default();
        look(&mut ledger, 0, NodeActivity::Away);
        look(&mut ledger, 60, NodeActivity::Away);
        ledger.look(at(70), Span::ZERO, &[], |_| String::new());
        assert_eq!(taken(&mut ledger), [(0, "away", 60, 0, 0)]);
    }
}
