//! Measured runs of one application and size class on one type of hardware, by cores and caps. Other counts of cores
//! and caps are interpolated or extrapolated.
//!
//! Cores. Between two measured counts the draw is interpolated linearly, the duration by logarithms. On more cores
//! than measured, the draw grows in proportion, up to the nameplate of these cores. The duration stays equal: no
//! speed-up is assumed. On fewer cores, the draw is the nameplate of these cores, up to the measured draw, and the
//! duration grows in proportion. An unmeasured draw is therefore overestimated rather than underestimated.
//!
//! Caps. Between two measured caps the logarithms of duration and draw are interpolated over the logarithm of the
//! cap. The run without a cap counts as one at the lowest ineffective cap. A count of cores without measured caps
//! uses the slowdown of another count. Below the lowest measured cap, the law of the caller applies, which may be learned
//! from these points.

use limo_model::{EstimateSource, Power, Profile, Slowdown, Span, UnitSpec};

/// The expected duration and draw of a run, and their source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Value {
    pub duration: Span,
    pub power: Power,
    pub energy: limo_model::Energy,
    pub source: EstimateSource,
    pub runs: u32,
    pub grounds: Grounds,
}

/// The distance of an estimate from the measured runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Grounds {
    /// Measured number of cores, if it differs.
    pub cores: Option<u32>,
    /// True for a cap that is not a measured one.
    pub caps: bool,
    /// True for a size between measured ones.
    pub sizes: bool,
}

#[derive(Debug, Clone, Copy)]
struct MeasuredPoint {
    cores: Option<u32>,
    cap: Option<Power>,
    profile: Profile,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Table(Vec<MeasuredPoint>);

impl Value {
    /// Converts the runs of a profile to estimates. A learned duration is the median plus the spread plus, after n
    /// runs, the n-th part of it.
    fn measured(profile: &Profile) -> Self {
        let Profile { duration, power, energy, spread_permille, runs, source } = *profile;
        let margin = match source {
            EstimateSource::Learned => i64::from(spread_permille.min(10_000)) + 1_000 / i64::from(runs.max(1)),
            EstimateSource::Imported | EstimateSource::Predicted | EstimateSource::Nameplate => 0,
        };
        let duration = duration.scaled(1_000 + margin, 1_000);
        Self { duration, power, energy, source, runs, grounds: Grounds::default() }
    }

    fn derived(self, duration: Span, power: Power, grounds: Grounds) -> Self {
        Self { duration, power, energy: power * duration, grounds, ..self }
    }

    /// Interpolates a part `fraction` of the way to `other`, by logarithms.
    pub fn towards(self, other: &Self, fraction: f64) -> Self {
        let duration = Span::from_ms(between(self.duration.ms(), other.duration.ms(), fraction));
        let power = Power::from_mw(between(self.power.mw(), other.power.mw(), fraction));
        self.derived(duration, power, Grounds { sizes: true, ..self.grounds }).least(other)
    }

    fn least(self, other: &Self) -> Self {
        Self { runs: self.runs.min(other.runs), source: self.source.max(other.source), ..self }
    }
}

/// Interpolates by logarithms, or linearly for values without a logarithm.
fn between(from: i64, to: i64, fraction: f64) -> i64 {
    let (low, high) = (from as f64, to as f64);
    let value = if from > 0 && to > 0 {
        libm::exp(libm::log(low) * (1.0 - fraction) + libm::log(high) * fraction)
    } else {
        low * (1.0 - fraction) + high * fraction
    };
    libm::round(value) as i64
}

/// Returns the relative place of `value` between two others, by logarithms.
pub(super) fn fraction(low: i64, value: i64, high: i64) -> f64 {
    let log = |value: i64| libm::log(value.max(1) as f64);
    if high <= low { 0.0 } else { (log(value) - log(low)) / (log(high) - log(low)) }
}

impl Table {
    pub fn add(&mut self, cores: Option<u32>, cap: Option<Power>, profile: Profile) {
        self.0.push(MeasuredPoint { cores, cap, profile });
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn caps(&self) -> impl Iterator<Item = Power> {
        self.0.iter().filter_map(|point| point.cap)
    }

    fn exactly(&self, cores: Option<u32>, cap: Option<Power>) -> Option<Value> {
        let same = |point: &&MeasuredPoint| point.cores == cores && point.cap == cap;
        self.0.iter().find(same).map(|point| Value::measured(&point.profile))
    }

    /// Returns the measured value for this number of cores, or for any number.
    pub fn measured(&self, cores: u32, cap: Option<Power>) -> Option<Value> {
        self.exactly(Some(cores), cap).or_else(|| self.exactly(None, cap))
    }

    /// Returns the estimate without a cap.
    pub fn free(&self, unit: &UnitSpec, cores: u32) -> Option<Value> {
        if let Some(value) = self.measured(cores, None) {
            return Some(value);
        }
        let counts = || self.0.iter().filter(|point| point.cap.is_none()).filter_map(|point| point.cores);
        let at = |count| self.exactly(Some(count), None);
        let (fewer, more) =
            (counts().filter(|count| *count < cores).max(), counts().filter(|count| *count > cores).min());
        let (low, high) = (fewer.and_then(at), more.and_then(at));
        let part = |power: Power, of: u32| power.scaled(i64::from(cores), i64::from(of.max(1)));
        let nameplate = part(unit.nameplate, unit.cores);
        let grounds = Grounds { cores: fewer.or(more), ..Grounds::default() };
        match ((low, fewer.unwrap_or(1)), (high, more.unwrap_or(1))) {
            ((Some(low), from), (Some(high), to)) => {
                let steps = (i64::from(cores - from), i64::from(to - from));
                let power = low.power + (high.power - low.power).scaled(steps.0, steps.1);
                let way = fraction(from.into(), cores.into(), to.into());
                let duration = Span::from_ms(between(low.duration.ms(), high.duration.ms(), way));
                Some(low.derived(duration, power, grounds).least(&high))
            }
            ((Some(low), from), _) => {
                let power = part(low.power, from).min(nameplate.max(low.power));
                Some(low.derived(low.duration, power, grounds))
            }
            (_, (Some(high), of)) => {
                let power = nameplate.max(part(high.power, of)).min(high.power);
                let duration = high.duration.scaled(i64::from(of), i64::from(cores.max(1)));
                Some(high.derived(duration, power, grounds))
            }
            _ => None,
        }
    }

    /// Returns the highest draw on this number of cores among runs of several size classes without a cap.
    pub fn highest(&self, unit: &UnitSpec, cores: u32) -> Option<Value> {
        let alone = |point: &MeasuredPoint| Self(vec![*point]).free(unit, cores);
        self.0.iter().filter_map(alone).max_by_key(|value| (value.power, value.duration))
    }

    /// Returns the number of cores of the profiles under caps that are used for this number: the same one, else any number,
    /// else the nearest one.
    fn donor(&self, cores: u32) -> Option<Option<u32>> {
        let counts = self.0.iter().filter(|point| point.cap.is_some()).map(|point| point.cores);
        counts.min_by_key(|count| match count {
            Some(count) if *count == cores => (0, 0),
            None => (1, 0),
            Some(count) => (2, count.abs_diff(cores)),
        })
    }

    /// Returns the law of slowdown that is nearest to the profiles under caps. The medians count, without margins.
    pub fn law(&self, cores: u32) -> Option<Slowdown> {
        let donor = self.donor(cores)?;
        let free = self.0.iter().find(|point| point.cores == donor && point.cap.is_none())?;
        let of = |point: &MeasuredPoint| (point.profile.power, point.profile.duration);
        let capped = self.0.iter().filter(|point| point.cores == donor && point.cap.is_some());
        Slowdown::learned(of(free), capped.map(of))
    }

    /// Returns the estimate under a cap between measured ones, or between the highest of them and the lowest
    /// ineffective one. `free` is the same run without a cap. Returns `None` if one of these is unknown.
    pub fn capped(&self, unit: &UnitSpec, (cores, cap): (u32, Power), free: &Value) -> Option<Value> {
        let donor = self.donor(cores)?;
        let of = donor.unwrap_or(cores);
        let uncapped = self.free(unit, of)?;
        let bites = uncapped.power.scaled(i64::from(unit.cores), i64::from(of.max(1)));
        if cap >= bites {
            return Some(*free);
        }
        let mut points: Vec<(Power, Value)> = self
            .0
            .iter()
            .filter(|point| point.cores == donor)
            .filter_map(|point| Some((point.cap.filter(|cap| *cap < bites)?, Value::measured(&point.profile))))
            .chain([(bites, uncapped)])
            .collect();
        points.sort_by_key(|(cap, _)| *cap);
        let upper =
            points.iter().position(|(of, _)| *of >= cap).filter(|upper| *upper > 0 || points[*upper].0 == cap)?;
        let ((from, low), (to, high)) = (points[upper.saturating_sub(1)], points[upper]);
        let way = if to == cap { 1.0 } else { fraction(from.mw(), cap.mw(), to.mw()) };
        let (slow, fast) = (low.duration.ms(), high.duration.ms());
        let duration = free.duration.scaled(between(slow, fast, way), uncapped.duration.ms().max(1));
        let power = free.power.scaled(between(low.power.mw(), high.power.mw(), way), uncapped.power.mw().max(1));
        let (duration, power) = (duration.max(free.duration), power.min(free.power));
        Some(free.derived(duration, power, Grounds { caps: true, ..free.grounds }).least(&low))
    }
}
