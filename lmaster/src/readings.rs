//! Energy of nodes and the cluster by interval, for the journal's table. Pure, without clock and disk.
//!
//! A node's sample is the mean since its previous sample, and counts for that time, also across two intervals. If the
//! previous sample is older than a reading counts, the time between is unknown and stays empty. The cluster's series is
//! the draw that the master believes, measured or estimated: the same integral as its account. The rounding remainder
//! of an interval, below 1 mJ, goes into the next one, so energies add up.

use std::collections::BTreeMap;

use limo_journal::{ReadingRow, StateRow};
use limo_model::{Drawn, Energy, NodeActivity, NodeId, Power, Span, Time};
use limo_proto::Sample;

mod states;

use states::StateLedger;

/// Least time between commits that are made only for rows.
const WRITTEN_EVERY: Span = Span::from_secs(60);

/// Longest pause of the believed draw, in intervals. It holds until it changes, and is read at least once an
/// interval. After a longer pause the process or its machine was stopped.
const LONGEST_PAUSE: i64 = 10;

/// Resolution and retention of readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Length of an interval: 1 min to 1 d.
    pub resolution: Span,
    /// Age from which on intervals are deleted.
    pub keep: Span,
}

/// Open intervals, and closed ones that are not on disk.
#[derive(Debug)]
pub struct Ledger {
    kept: Kept,
    /// Longest time that a sample may cover.
    gap: Span,
    /// Wall time minus cluster time; rows are in wall time.
    offset: Span,
    /// The smallest offset so far, so that a wrong clock does not cause old rows to be deleted.
    least_offset: Span,
    nodes: BTreeMap<String, Line>,
    cluster: Line,
    /// Closed intervals; like all times here, in cluster time.
    over: Vec<ReadingRow>,
    /// Time at which rows were last taken.
    written: Time,
    /// Time of the next check for nodes without samples.
    sweep: Time,
    states: StateLedger,
}

/// Rows to write.
#[derive(Debug, Default)]
pub struct Rows {
    pub readings: Vec<ReadingRow>,
    pub states: Vec<StateRow>,
    /// Time before which older rows are deleted.
    pub forget: Option<Time>,
}

/// A series of one node, or of the cluster.
#[derive(Debug, Default)]
struct Line {
    /// End of the time for which its draw is known.
    last: Option<Time>,
    /// Remainder of rounding, in µJ.
    over: i128,
    open: Option<Open>,
}

/// An open interval.
#[derive(Debug)]
struct Open {
    at: Time,
    since: Time,
    /// Energy in µJ, which is 1 mW in 1 ms.
    energy: i128,
    seen: Span,
    /// Sum of samples, in mW; their mean counts if the samples cover no time.
    sum: i128,
    samples: u32,
    looks: u64,
    low: Power,
    high: Power,
}

impl Ledger {
    /// Makes a ledger that begins at `now`. Samples further apart than `gap` leave a gap.
    pub fn new(now: Time, kept: Kept, gap: Span) -> Self {
        let (nodes, cluster) = (BTreeMap::new(), Line::default());
        Self {
            kept,
            gap,
            offset: Span::ZERO,
            least_offset: Span::ZERO,
            nodes,
            cluster,
            over: Vec::new(),
            written: now,
            sweep: now,
            states: StateLedger::default(),
        }
    }

    /// Applies other settings. Open intervals end if the length changes.
    pub fn configure(&mut self, kept: Kept, gap: Span) {
        if kept.resolution != self.kept.resolution {
            self.end_all();
        }
        (self.kept, self.gap) = (kept, gap);
    }

    /// Handles a jump of the wall clock: open intervals end, and new ones begin at round wall times. An interval that
    /// occurs twice on the clock has a row for each.
    pub fn follow_clock(&mut self, offset: Span) {
        if offset != self.offset {
            self.end_all();
            let earlier = self.offset - offset;
            for row in &mut self.over {
                row.drawn.at = row.drawn.at + earlier;
            }
            self.states.shift(earlier);
            self.offset = offset;
            self.least_offset = self.least_offset.min(offset);
        }
    }

    fn slots(&self) -> Slots {
        Slots { resolution: self.kept.resolution, offset: self.offset }
    }

    /// Adds the believed draw of the cluster until `now`; `None` if nothing could draw.
    pub fn pass(&mut self, now: Time, draw: Option<Power>) {
        let longest = self.kept.resolution.scaled(LONGEST_PAUSE, 1);
        let last = self.cluster.last.replace(now).filter(|last| now - *last <= longest);
        if let (Some(last), Some(draw)) = (last, draw) {
            let sample = Sample { looks: 0, ..Sample::once(draw) };
            self.cluster.add("", (last, now), &sample, (self.slots(), &mut self.over));
        }
        self.cluster.end_before("", self.slots().begin(now), &mut self.over);
        if self.sweep <= now {
            self.sweep = self.slots().begin(now) + self.kept.resolution + self.gap;
            // A sample may still count for earlier time.
            let first = self.slots().begin(now - self.gap);
            for (node, line) in &mut self.nodes {
                line.end_before(node, first, &mut self.over);
            }
        }
    }

    /// Returns true if it is time to look at the states of the nodes.
    pub fn wants_states(&self, now: Time) -> bool {
        self.states.is_due(now)
    }

    /// Adds the time until `now` to the states of the nodes, which they had since the previous input.
    pub fn look(&mut self, now: Time, states: &[(NodeId, NodeActivity)], name: impl Fn(NodeId) -> String) {
        self.states.look(now, self.offset, states, name);
    }

    /// Adds a node's draw since its previous sample.
    pub fn sample(&mut self, (id, node): (NodeId, &str), now: Time, sample: &Sample) {
        if !self.nodes.contains_key(node) {
            self.nodes.insert(node.to_owned(), Line::default());
        }
        let slots = self.slots();
        let Some(line) = self.nodes.get_mut(node) else { return };
        let last = line.last.replace(now).filter(|last| now - *last <= self.gap).unwrap_or(now);
        line.add(node, (last, now), sample, (slots, &mut self.over));
        self.states.sample(id, sample.draw, now - last);
        if let Some(open) = &mut self.cluster.open {
            open.looks += u64::from(sample.looks);
        }
    }

    /// Marks a node's draw as unknown from here to its next sample.
    pub fn interrupt(&mut self, node: &str) {
        if let Some(line) = self.nodes.get_mut(node) {
            line.last = None;
        }
    }

    /// Closes all open intervals, when the process ends or their length changes.
    pub fn end_all(&mut self) {
        for (node, line) in &mut self.nodes {
            line.end(node, &mut self.over);
        }
        self.cluster.end("", &mut self.over);
        self.states.end();
    }

    /// Drops closed intervals, which cannot be written.
    pub fn drop_rows(&mut self) {
        self.over.clear();
        self.states.drop_rows();
    }

    /// Returns the intervals of a node, or of the cluster (empty name), that are not on disk, in wall time. The last
    /// one is still open.
    pub fn unwritten(&self, node: &str) -> Vec<Drawn> {
        let line = if node.is_empty() { Some(&self.cluster) } else { self.nodes.get(node) };
        let open = line.and_then(|line| Some(line.open.as_ref()?.drawn(line.over).0));
        let over = self.over.iter().filter(|row| row.node == node).map(|row| row.drawn);
        over.chain(open).map(|drawn| Drawn { at: drawn.at + self.offset, ..drawn }).collect()
    }

    pub fn has_rows(&self) -> bool {
        !self.over.is_empty()
    }

    /// Returns the time by which rows should be written, if nothing else is written before.
    pub fn due(&self) -> Option<Time> {
        let next = self.written + WRITTEN_EVERY;
        if self.has_rows() {
            return Some(next);
        }
        self.cluster.open.as_ref().map(|open| next.max(open.at + self.kept.resolution))
    }

    /// Returns the rows to write at `now`.
    pub fn take(&mut self, now: Time) -> Rows {
        // States change with each look, and alone cause no row.
        if self.over.is_empty() {
            return Rows::default();
        }
        self.written = now;
        for row in &mut self.over {
            // `since` distinguishes rows of one interval. It stays unchanged, because cluster time never repeats.
            row.drawn.at = row.drawn.at + self.offset;
        }
        let (readings, states) = (std::mem::take(&mut self.over), self.states.take(self.offset));
        Rows { readings, states, forget: Some(now + self.least_offset - self.kept.keep) }
    }
}

impl Line {
    /// Adds energy in `(from, to]` to the intervals that it touches.
    fn add(&mut self, node: &str, (from, to): (Time, Time), sample: &Sample, out: (Slots, &mut Vec<ReadingRow>)) {
        let (slots, over) = out;
        let mut at = from;
        while at < to {
            let end = (slots.begin(at) + slots.resolution).min(to);
            let open = self.open_at(node, at, (slots, over));
            open.energy += i128::from(sample.draw.mw()) * i128::from((end - at).ms());
            open.seen = open.seen + (end - at);
            open.bound(sample);
            at = end;
        }
        if sample.looks > 0 {
            // The end of an interval still belongs to it.
            let open = match &mut self.open {
                Some(open) if from < to => open,
                _ => self.open_at(node, to, (slots, over)),
            };
            open.looks += u64::from(sample.looks);
            open.sum += i128::from(sample.draw.mw());
            open.samples += 1;
            open.bound(sample);
        }
    }

    /// Returns the interval of `at`, and closes an earlier one.
    fn open_at(&mut self, node: &str, at: Time, (slots, over): (Slots, &mut Vec<ReadingRow>)) -> &mut Open {
        let begin = slots.begin(at);
        self.end_before(node, begin, over);
        self.open.get_or_insert(Open {
            at: begin,
            since: at,
            energy: 0,
            seen: Span::ZERO,
            sum: 0,
            samples: 0,
            looks: 0,
            low: Power::MAX,
            high: Power::ZERO,
        })
    }

    fn end_before(&mut self, node: &str, begin: Time, over: &mut Vec<ReadingRow>) {
        if self.open.as_ref().is_some_and(|open| open.at < begin) {
            self.end(node, over);
        }
    }

    fn end(&mut self, node: &str, over: &mut Vec<ReadingRow>) {
        let Some(open) = self.open.take() else { return };
        if open.seen == Span::ZERO && open.looks == 0 {
            return;
        }
        let (drawn, rest) = open.drawn(self.over);
        self.over = rest;
        over.push(ReadingRow { node: node.to_owned(), since: open.since, drawn });
    }
}

impl Open {
    /// Returns the interval's row with the earlier rounding remainder, and the new remainder.
    fn drawn(&self, over: i128) -> (Drawn, i128) {
        let total = self.energy + over;
        let mj = rounded(total, 1_000);
        let (sum, of) = match self.seen.ms() {
            0 => (self.sum, i128::from(self.samples)),
            seen => (self.energy, i128::from(seen)),
        };
        let (energy, mean) = (Energy::from_mj(fitting(mj)), Power::from_mw(fitting(rounded(sum, of))));
        let Open { at, low, high, seen, looks, .. } = *self;
        (Drawn { at, mean, low, high, energy, seen, looks }, total - mj * 1_000)
    }

    fn bound(&mut self, sample: &Sample) {
        (self.low, self.high) = (self.low.min(sample.low), self.high.max(sample.high));
    }
}

/// The grid of intervals: they begin at round wall times.
#[derive(Debug, Clone, Copy)]
struct Slots {
    resolution: Span,
    /// Wall time minus cluster time.
    offset: Span,
}

impl Slots {
    /// Returns the beginning of the interval of `at`.
    fn begin(self, at: Time) -> Time {
        let resolution = self.resolution.ms().max(1);
        let wall = (at + self.offset).unix_ms();
        Time::from_unix_ms(wall.div_euclid(resolution) * resolution) - self.offset
    }
}

/// Divides and rounds to the nearest. `divisor` is positive.
fn rounded(number: i128, divisor: i128) -> i128 {
    (number + divisor.max(1) / 2).div_euclid(divisor.max(1))
}

fn fitting(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
