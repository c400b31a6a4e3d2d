//! Curves of a run: its samples in at most [`BUCKETS`] buckets, each with minimum, maximum and mean.
//!
//! Needs bounded memory and one pass: when the buckets are used up, neighbours are merged and the width doubles. Only
//! the place of an extreme within its bucket is lost, which is less than a pixel. Exact figures are in `draw.csv`.

use limo_model::Time;
use limo_model::decimal::divide;

use crate::output::json::Json;
use crate::record::Sample;

/// Most buckets: a thousand pairs of minimum and maximum are the 2,000 points that a wide screen shows.
pub const BUCKETS: usize = 1_000;

/// Value that means "no value"; power, energy and price never have it.
const NONE: i64 = i64::MIN;

/// The curves, by their keys in the report's data; units are those of `limo-model`.
const KEYS: [&str; 15] = [
    "draw",
    "believed",
    "limit",
    "lower",
    "released",
    "spent",
    "reserved",
    "price",
    "queued",
    "running",
    "idle",
    "computing",
    "off",
    "switching_on",
    "switching_off",
];

fn values(sample: &Sample) -> [i64; KEYS.len()] {
    let power = |power: Option<limo_model::Power>| power.filter(|p| !p.is_unlimited()).map_or(NONE, |p| p.mw());
    let budget = sample.budget;
    let processors = &sample.processors;
    [
        sample.draw.mw(),
        sample.believed.mw(),
        power(sample.limit),
        power(sample.lower),
        budget.map_or(NONE, |b| b.released.mj()),
        budget.map_or(NONE, |b| b.spent.mj()),
        budget.map_or(NONE, |b| b.reserved.mj()),
        sample.price.map_or(NONE, |p| p.milli_per_mwh()),
        i64::from(sample.queued),
        i64::from(sample.running),
        i64::from(processors.idle),
        i64::from(processors.computing),
        i64::from(processors.off),
        i64::from(processors.switching_on),
        i64::from(processors.switching_off),
    ]
}

/// Values of one curve within one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    least: i64,
    greatest: i64,
    /// Sum of value x ms; `ms` is the time with a value.
    sum: i128,
    ms: i64,
}

impl Cell {
    const EMPTY: Self = Self { least: i64::MAX, greatest: i64::MIN, sum: 0, ms: 0 };

    fn add(&mut self, value: i64, ms: i64) {
        self.least = self.least.min(value);
        self.greatest = self.greatest.max(value);
        self.sum += i128::from(value) * i128::from(ms);
        self.ms += ms;
    }

    fn merged(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            greatest: self.greatest.max(other.greatest),
            sum: self.sum + other.sum,
            ms: self.ms + other.ms,
        }
    }
}

#[derive(Debug, Clone)]
struct Channel {
    /// Time until which `open` has counted it.
    since: i64,
    open: Cell,
    /// Closed cells; empty until the first value.
    closed: Vec<Cell>,
    /// True after the first value.
    used: bool,
}

impl Channel {
    /// Counts the value since the last count.
    fn count_until(&mut self, at: i64, value: i64) {
        if value != NONE && at > self.since {
            self.open.add(value, at - self.since);
        }
        self.since = at;
    }
}

/// Curves of a run. Samples come in order of time, one per instant.
#[derive(Debug)]
pub struct Series {
    /// Time of the first sample; after [`Series::end`], time of the end.
    from: Option<i64>,
    until: i64,
    width: i64,
    /// Number of complete buckets; each used channel has as many closed cells.
    closed: usize,
    /// End of the open bucket.
    ends: i64,
    /// Newest value of each channel. They are kept together, because each sample is compared with them.
    values: [i64; KEYS.len()],
    channels: [Channel; KEYS.len()],
}

impl Default for Series {
    fn default() -> Self {
        Self {
            from: None,
            until: 0,
            width: 1,
            closed: 0,
            ends: i64::MIN,
            values: [NONE; _],
            channels: std::array::from_fn(|_| Channel { since: 0, open: Cell::EMPTY, closed: Vec::new(), used: false }),
        }
    }
}

impl Series {
    pub fn add(&mut self, sample: &Sample) {
        let at = sample.at.unix_ms();
        if self.from.is_none() {
            self.from = Some(at);
        }
        self.advance(at);
        for ((channel, before), value) in self.channels.iter_mut().zip(&mut self.values).zip(&values(sample)) {
            if before != value {
                channel.count_until(at, *before);
                *before = *value;
                if !channel.used {
                    channel.used = true;
                    channel.closed.resize(self.closed, Cell::EMPTY);
                }
            }
        }
    }

    /// Ends the last sample.
    pub fn end(&mut self, end: Time) {
        self.advance(end.unix_ms());
        self.until = end.unix_ms();
        for (channel, value) in self.used() {
            channel.count_until(end.unix_ms(), value);
            channel.closed.push(channel.open);
        }
        self.closed += 1;
    }

    /// Returns the used channels, with their newest values.
    fn used(&mut self) -> impl Iterator<Item = (&mut Channel, i64)> {
        self.channels.iter_mut().zip(self.values).filter(|(channel, _)| channel.used)
    }

    /// Closes the buckets that end until `at`.
    fn advance(&mut self, at: i64) {
        let Some(from) = self.from.filter(|_| at >= self.ends) else { return };
        while (at - from) / self.width >= BUCKETS as i64 {
            self.double();
        }
        let current = ((at - from) / self.width) as usize;
        while self.closed < current {
            self.closed += 1;
            let end = from + self.width * self.closed as i64;
            for (channel, value) in self.used() {
                channel.count_until(end, value);
                channel.closed.push(std::mem::replace(&mut channel.open, Cell::EMPTY));
            }
        }
        self.ends = from + self.width * (current + 1) as i64;
    }

    fn double(&mut self) {
        self.width *= 2;
        let odd = self.closed % 2 == 1;
        self.closed /= 2;
        let closed = self.closed;
        for (channel, _) in self.used() {
            if let Some(last) = channel.closed.pop_if(|_| odd) {
                channel.open = last.merged(channel.open);
            }
            for at in 0..closed {
                channel.closed[at] = channel.closed[2 * at].merged(channel.closed[2 * at + 1]);
            }
            channel.closed.truncate(closed);
        }
    }

    /// Writes `{"from", "until", "width", KEY: [[least], [greatest], [mean]]}`, with times in ms from `start`. Curves
    /// without any value are omitted.
    pub fn write(&self, json: &mut Json, start: Time) {
        let from = self.from.unwrap_or(start.unix_ms());
        json.object(|json| {
            json.key("from").int(i128::from(from - start.unix_ms()));
            json.key("until").int(i128::from(self.until.max(from) - start.unix_ms()));
            json.key("width").int(i128::from(self.width));
            for (key, channel) in KEYS.iter().zip(&self.channels) {
                if channel.closed.iter().any(|cell| cell.ms > 0) {
                    json.key(key).array(|json| {
                        list(json, &channel.closed, |cell| i128::from(cell.least));
                        list(json, &channel.closed, |cell| i128::from(cell.greatest));
                        list(json, &channel.closed, |cell| divide(cell.sum, i128::from(cell.ms)));
                    });
                }
            }
        });
    }
}

fn list(json: &mut Json, cells: &[Cell], value: impl Fn(&Cell) -> i128) {
    json.array(|json| {
        for cell in cells {
            if cell.ms > 0 { json.int(value(cell)) } else { json.null() }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::Power;

    fn sample(at: i64, mw: i64, limit: Option<i64>) -> Sample {
        let (at, draw, limit) = (Time::from_unix_ms(at), Power::from_mw(mw), limit.map(Power::from_mw));
        Sample { at, draw, limit, ..Sample::default() }
    }

    fn written(series: &Series) -> serde_json::Value {
        let mut json = Json::default();
        series.write(&mut json, Time::from_unix_ms(100));
        serde_json::from_str(&json.into_text()).expect("JSON")
    }

    #[test]
    fn a_few_samples_by_hand() {
        let mut series = Series::default();
        series.add(&sample(100, 10, None));
        series.add(&sample(1_000, 30, Some(7)));
        // The 1,000 buckets of 1 ms end at 1,100; from here on they are 2 ms wide.
        series.add(&sample(1_101, 20, None));
        series.end(Time::from_unix_ms(1_103));
        let data = written(&series);
        assert_eq!((&data["from"], &data["until"], &data["width"]), (&0.into(), &1_003.into(), &2.into()));
        let [least, greatest, mean] = [0, 1, 2].map(|at| data["draw"][at].as_array().expect("a list").clone());
        assert_eq!(least.len(), 502);
        assert_eq!((&least[449], &greatest[449]), (&10.into(), &10.into()));
        assert_eq!((&least[450], &greatest[450]), (&30.into(), &30.into()));
        // The bucket from 1,100 to 1,102 has half of each value, that from 1,102 to 1,103 only the last.
        assert_eq!((&least[500], &greatest[500], &mean[500]), (&20.into(), &30.into(), &25.into()));
        assert_eq!((&least[501], &mean[501]), (&20.into(), &20.into()));
        assert_eq!((&data["limit"][0][449], &data["limit"][0][500]), (&serde_json::Value::Null, &7.into()));
        assert_eq!(data["limit"][0][501], serde_json::Value::Null);
        assert!(data.get("lower").is_none());
    }

    #[test]
    fn long_runs_keep_their_integral_and_their_extremes() {
        let mut series = Series::default();
        let (mut integral, mut last) = (0_i128, None::<(i64, i64)>);
        let mut at = 100;
        for step in 0..50_000_i64 {
            let value = if step == 31_234 { 9_999 } else { step * 7_919 % 1_000 };
            if let Some((time, value)) = last {
                integral += i128::from(value) * i128::from(at - time);
            }
            series.add(&sample(at, value, None));
            last = Some((at, value));
            // Samples are up to 97 s apart, with one gap of a week.
            at += if step == 40_000 { 604_800_000 } else { 1 + step * 31 % 97_000 };
        }
        let (time, value) = last.expect("a sample");
        integral += i128::from(value) * i128::from(at - time);
        series.end(Time::from_unix_ms(at));
        let draw = &series.channels[0];
        assert!(draw.closed.len() <= BUCKETS && draw.closed.len() > BUCKETS / 2 - 1, "{}", draw.closed.len());
        assert_eq!(draw.closed.iter().map(|cell| cell.sum).sum::<i128>(), integral);
        assert_eq!(draw.closed.iter().map(|cell| cell.ms).sum::<i64>(), at - 100);
        assert_eq!(draw.closed.iter().map(|cell| cell.greatest).max(), Some(9_999));
    }

    #[test]
    fn no_sample_at_all() {
        let mut series = Series::default();
        series.end(Time::from_unix_ms(500));
        let data = written(&series);
        assert_eq!((&data["from"], &data["until"]), (&0.into(), &400.into()));
    }
}
