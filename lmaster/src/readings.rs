//! Energy of nodes and the cluster by interval, for the journal's table. Pure: knows no clock and no disk.
//!
//! A node's sample is the mean since the sample before it, and counts for that time, also over the border of two intervals.
//! Where the sample before is older than a reading counts, nothing is known of the time between, and it is not filled in.
//! The cluster's line is what the master believed, measured or estimated: the same integral that its account is made of.
//! What the rounding of an interval to millijoules leaves over goes into the next one, so that energies add up.

use std::collections::BTreeMap;

use limo_journal::ReadingRow;
use limo_model::{Drawn, Energy, Power, Span, Time};
use limo_proto::Sample;

/// Rows are a reason for a commit of their own at most this often.
const WRITTEN_EVERY: Span = Span::from_secs(60);

/// The believed draw holds until it changes, and somebody looks at least once an interval: after a longer pause the
/// process, or its machine, stood still.
const LONGEST_PAUSE: i64 = 10;

/// How readings are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Of an interval: 1 min to 1 d.
    pub resolution: Span,
    /// Intervals that began longer ago are forgotten.
    pub keep: Span,
}

/// Intervals under way, and those that are over but not on disk.
#[derive(Debug)]
pub struct Ledger {
    kept: Kept,
    /// For how long a sample may count.
    gap: Span,
    /// Wall time less the time that is told; rows are in wall time.
    offset: Span,
    /// The least that it ever was: a clock that is wrong for a while must not make old rows forgotten.
    least_offset: Span,
    nodes: BTreeMap<String, Line>,
    cluster: Line,
    /// In the time that is told, as all times here.
    over: Vec<ReadingRow>,
    /// When rows were taken last.
    written: Time,
    /// When to look for nodes of which nothing is heard any more.
    sweep: Time,
}

/// One node, or the cluster.
#[derive(Debug, Default)]
struct Line {
    /// Until when its draw is known.
    last: Option<Time>,
    /// Remainder of rounding, in µJ.
    over: i128,
    open: Option<Open>,
}

/// An interval under way.
#[derive(Debug)]
struct Open {
    at: Time,
    since: Time,
    /// In µJ: 1 mW in 1 ms.
    energy: i128,
    seen: Span,
    /// Of samples, in mW: their mean where no time was seen.
    sum: i128,
    samples: u32,
    looks: u64,
    low: Power,
    high: Power,
}

impl Ledger {
    /// Begins at `now`; samples further apart than `gap` leave one.
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
        }
    }

    /// Other settings. Intervals under way end where their length changes.
    pub fn configure(&mut self, kept: Kept, gap: Span) {
        if kept.resolution != self.kept.resolution {
            self.end_all();
        }
        (self.kept, self.gap) = (kept, gap);
    }

    /// The wall clock has jumped: intervals under way end, and new ones begin at its round times. An interval that the clock
    /// shows twice has a row of each time.
    pub fn follow_clock(&mut self, offset: Span) {
        if offset != self.offset {
            self.end_all();
            let earlier = self.offset - offset;
            for row in &mut self.over {
                row.drawn.at = row.drawn.at + earlier;
            }
            self.offset = offset;
            self.least_offset = self.least_offset.min(offset);
        }
    }

    fn slots(&self) -> Slots {
        Slots { resolution: self.kept.resolution, offset: self.offset }
    }

    /// The believed draw of the cluster was `draw` until `now`; `None` where there is nothing that could draw.
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
            // A sample may still count for the time before.
            let first = self.slots().begin(now - self.gap);
            for (node, line) in &mut self.nodes {
                line.end_before(node, first, &mut self.over);
            }
        }
    }

    /// A node drew this since its sample before.
    pub fn sample(&mut self, node: &str, now: Time, sample: &Sample) {
        if !self.nodes.contains_key(node) {
            self.nodes.insert(node.to_owned(), Line::default());
        }
        let slots = self.slots();
        let Some(line) = self.nodes.get_mut(node) else { return };
        let last = line.last.replace(now).filter(|last| now - *last <= self.gap).unwrap_or(now);
        line.add(node, (last, now), sample, (slots, &mut self.over));
        if let Some(open) = &mut self.cluster.open {
            open.looks += u64::from(sample.looks);
        }
    }

    /// Nothing is known of a node from here to its next sample.
    pub fn interrupt(&mut self, node: &str) {
        if let Some(line) = self.nodes.get_mut(node) {
            line.last = None;
        }
    }

    /// The process ends, or the length of intervals changes: what is under way is over.
    pub fn end_all(&mut self) {
        for (node, line) in &mut self.nodes {
            line.end(node, &mut self.over);
        }
        self.cluster.end("", &mut self.over);
    }

    /// Nothing can be written: what is over is lost.
    pub fn drop_rows(&mut self) {
        self.over.clear();
    }

    /// Of a node, or of the cluster (an empty name): the intervals that are not on disk, in wall time; the last one goes on.
    pub fn unwritten(&self, node: &str) -> Vec<Drawn> {
        let line = if node.is_empty() { Some(&self.cluster) } else { self.nodes.get(node) };
        let open = line.and_then(|line| Some(line.open.as_ref()?.drawn(line.over).0));
        let over = self.over.iter().filter(|row| row.node == node).map(|row| row.drawn);
        over.chain(open).map(|drawn| Drawn { at: drawn.at + self.offset, ..drawn }).collect()
    }

    pub fn has_rows(&self) -> bool {
        !self.over.is_empty()
    }

    /// When rows are to be written, or an interval ends that will be; where nothing else is written before.
    pub fn due(&self) -> Option<Time> {
        let next = self.written + WRITTEN_EVERY;
        if self.has_rows() {
            return Some(next);
        }
        self.cluster.open.as_ref().map(|open| next.max(open.at + self.kept.resolution))
    }

    /// The rows that are to be written at `now`, and from when on rows are kept.
    pub fn take(&mut self, now: Time) -> (Vec<ReadingRow>, Option<Time>) {
        if self.over.is_empty() {
            return (Vec::new(), None);
        }
        self.written = now;
        for row in &mut self.over {
            // `since` tells rows of one interval apart and stays as it is: the time that is told comes only once.
            row.drawn.at = row.drawn.at + self.offset;
        }
        (std::mem::take(&mut self.over), Some(now + self.least_offset - self.kept.keep))
    }
}

impl Line {
    /// Energy in `(from, to]`, in the intervals that this touches.
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

    /// The interval of `at`; one before it is over.
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
    /// What was drawn so far, with what rounding had left over, and what it leaves.
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

/// Which intervals there are: they begin at round wall times.
#[derive(Debug, Clone, Copy)]
struct Slots {
    resolution: Span,
    /// Wall time less the time that is told.
    offset: Span,
}

impl Slots {
    /// The beginning of the interval of `at`.
    fn begin(self, at: Time) -> Time {
        let resolution = self.resolution.ms().max(1);
        let wall = (at + self.offset).unix_ms();
        Time::from_unix_ms(wall.div_euclid(resolution) * resolution) - self.offset
    }
}

/// To the nearest. `divisor` is positive.
fn rounded(number: i128, divisor: i128) -> i128 {
    (number + divisor.max(1) / 2).div_euclid(divisor.max(1))
}

fn fitting(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
