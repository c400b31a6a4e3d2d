//! Expected duration and draw of a job on a unit, from profiles, else from a prediction, else from the nameplate, with
//! the source.
//!
//! Of an application's profiles, those for the job's number of nodes count; without any, those for any number; else those
//! for the nearest smaller number, or for the smallest. Among these, profiles are searched in this order: for the job's application and size class; for the two nearest numeric size
//! classes, with logarithmic interpolation; for the application without a size class. Then the same search follows
//! for the command of any user ([`limo_model::application`]). If only other size classes of an application are known,
//! their highest draw is expected for the job's time limit.

mod law;
mod predicted;
mod table;

use std::collections::BTreeMap;

use limo_model::{
    Confidence, Estimate, EstimateSource, Power, Profile, ProfileKey, Request, Slowdown, SlowdownKey, Span, UnitSpec,
    application,
};

use crate::facts::{cores_on, host_cores};
use crate::state::State;
use law::{Law, by_formula};
pub(super) use predicted::margin;
use table::{Table, Value, fraction};

/// Input of all estimates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    pub profiles: &'a BTreeMap<ProfileKey, Profile>,
    pub default_duration: Span,
    pub slowdowns: &'a BTreeMap<SlowdownKey, Slowdown>,
    pub cap_factor_permille: u32,
    /// Confidence of the draws that come from predictions.
    pub confidence: Confidence,
}

impl<'a> Known<'a> {
    pub fn of(state: &'a State) -> Self {
        let options = &state.settings.options;
        Self {
            profiles: &state.profiles,
            default_duration: options.default_duration,
            slowdowns: &state.slowdowns,
            cap_factor_permille: options.cap_factor_permille,
            confidence: options.confidence,
        }
    }

    /// Returns the profiles of an application on a type of hardware, each with its size class, from `size` on.
    fn from(
        self,
        (application, size, unit): (&str, &str, &'a UnitSpec),
    ) -> impl Iterator<Item = (&'a ProfileKey, &'a Profile)> {
        let first = ProfileKey {
            application: application.to_owned(),
            size: size.to_owned(),
            hardware: if size.is_empty() { String::new() } else { unit.hardware.clone() },
            cores: None,
            nodes: None,
            cap: None,
        };
        let application = application.to_owned();
        let found = self.profiles.range(first..).take_while(move |(key, _)| key.application == application);
        found.filter(|(key, _)| key.hardware == unit.hardware)
    }

    /// Returns the profiles of one size class for a number of nodes.
    fn table(self, (application, nodes): (&str, u32), size: &str, unit: &'a UnitSpec) -> Table {
        let of_size = self.from((application, size, unit)).take_while(|(key, _)| key.size == size);
        let of_size: Vec<_> = of_size.collect();
        let nodes = nearest(nodes, || of_size.iter().map(|(key, _)| key.nodes));
        let mut table = Table::default();
        for (key, profile) in of_size.into_iter().filter(|(key, _)| key.nodes == nodes) {
            table.add(key.cores, key.cap, *profile);
        }
        table
    }

    /// Returns the numbers of nodes for which runs of the job's application and size class on a type of unit are known.
    pub fn widths(self, request: &Request, unit: &'a UnitSpec) -> Vec<u32> {
        let name = request.application.as_str();
        let names = [Some(name), application::command_of(name)];
        let of = |name| {
            let of_size = self.from((name, &request.size, unit)).take_while(|(key, _)| key.size == request.size);
            let widths: Vec<u32> =
                of_size.filter(|(key, _)| key.cap.is_none()).filter_map(|(key, _)| key.nodes).collect();
            (!widths.is_empty()).then_some(widths)
        };
        names.into_iter().flatten().find_map(of).unwrap_or_default()
    }
}

/// Returns the number of nodes whose profiles count for a job on `nodes` nodes, among these numbers.
fn nearest<K: Iterator<Item = Option<u32>>>(nodes: u32, known: impl Fn() -> K) -> Option<u32> {
    let exact = || known().find(|of| *of == Some(nodes)).or_else(|| known().find(Option::is_none));
    let numbers = || known().flatten();
    let near = || numbers().filter(|of| *of < nodes).max().or_else(|| numbers().min());
    exact().unwrap_or_else(near)
}

/// Returns the estimate for `request` on `unit`, uncapped or at the cap that it requests, from a profile, a prediction
/// or the nameplate.
pub(crate) fn estimate(known: Known<'_>, request: &Request, unit: &UnitSpec) -> Estimate {
    if known.profiles.is_empty() && request.cap.is_none() {
        // The search would find nothing.
        return unmeasured(known, request, unit);
    }
    Looked::up(known, request, unit).under_cap(known, request, unit, request.cap)
}

/// Returns the estimate of an application without any profile.
fn unmeasured(known: Known<'_>, request: &Request, unit: &UnitSpec) -> Estimate {
    predicted::estimate(known, request, unit).unwrap_or_else(|| nameplate(known, request, unit))
}

/// Returns the expected draw of the cores that the job takes next to its accelerators on a node with these units.
pub(crate) fn host_power(known: Known<'_>, request: &Request, units: &[UnitSpec]) -> Power {
    let unit = host_cores(request, units).and_then(|host| units.get(usize::from(host.unit)));
    unit.map_or(Power::ZERO, |unit| estimate(known, request, unit).power)
}

/// Returns the estimate at `cap`. `measured` is the known draw of the job, in thousandths of the profile's.
pub(crate) fn under_cap(
    known: Known<'_>,
    request: &Request,
    unit: &UnitSpec,
    (cap, measured): (Option<Power>, i64),
) -> Estimate {
    let looked = Looked::up(known, request, unit);
    let corrected = |estimate: Estimate| Estimate { power: estimate.power.scaled(measured, 1_000), ..estimate };
    match (cap, looked.value(unit, cores_on(request, unit), cap)) {
        (Some(cap), None) => {
            let free = corrected(looked.under_cap(known, request, unit, None));
            by_formula(Law::of(known, request, unit, &looked).law, free, share(request, unit, cap))
        }
        _ => corrected(looked.under_cap(known, request, unit, cap)),
    }
}

/// Returns the job's part of a cap on a unit.
fn share(request: &Request, unit: &UnitSpec, cap: Power) -> Power {
    cap.scaled(i64::from(cores_on(request, unit)), i64::from(unit.cores))
}

/// The profiles of an application on a type of hardware, looked up once for many jobs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Looked {
    /// The profile of the size class, or of the two sizes around it with the relative distance from the first.
    exact: Table,
    above: Option<(Table, f64)>,
    /// The profile of the application without a size class.
    classless: Table,
    /// Profiles of other size classes only.
    others: Table,
    /// True if the profile is that of the command, of any user.
    command: bool,
}

impl Looked {
    pub fn up(known: Known<'_>, request: &Request, unit: &UnitSpec) -> Self {
        if known.profiles.is_empty() {
            return Self::default();
        }
        let name = request.application.as_str();
        if name == application::UNKNOWN {
            return Self::default();
        }
        let nodes = if request.is_packed() { 1 } else { request.nodes.get() };
        let found = Self::of(known, (name, nodes), &request.size, unit);
        match application::command_of(name).filter(|_| found.is_empty()) {
            Some(command) => {
                let of_all = Self::of(known, (command, nodes), &request.size, unit);
                if of_all.is_empty() { found } else { Self { command: true, ..of_all } }
            }
            None => found,
        }
    }

    fn of(known: Known<'_>, named: (&str, u32), size: &str, unit: &UnitSpec) -> Self {
        let exact = known.table(named, size, unit);
        let classless = if size.is_empty() { Table::default() } else { known.table(named, "", unit) };
        let found = Self { exact, classless, ..Self::default() };
        if found.exact.is_empty() { found.with_other_sizes(known, named, (size, unit)) } else { found }
    }

    /// Adds the size classes on both sides of an unmeasured one, or any others if there are none.
    fn with_other_sizes(mut self, known: Known<'_>, named: (&str, u32), (size, unit): (&str, &UnitSpec)) -> Self {
        if size.is_empty() {
            return self;
        }
        let mut sizes: Vec<(i64, &str)> = Vec::new();
        for (key, profile) in known.from((named.0, "", unit)).filter(|(key, _)| !key.size.is_empty()) {
            self.others.add(key.cores, key.cap, *profile);
            sizes.extend(number(&key.size).map(|number| (number, key.size.as_str())));
        }
        let Some(wanted) = number(size) else { return self };
        let low = sizes.iter().filter(|(number, _)| *number <= wanted).max();
        let high = sizes.iter().filter(|(number, _)| *number >= wanted).min();
        if let Some(((from, low), (to, high))) = low.zip(high) {
            self.exact = known.table(named, low, unit);
            self.above = Some((known.table(named, high, unit), fraction(*from, wanted, *to)));
        }
        self
    }

    fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.classless.is_empty() && self.others.is_empty()
    }

    /// Returns the caps with a profile that the unit obeys, lowest first.
    pub fn caps(&self, unit: &UnitSpec) -> Vec<Power> {
        let Some((low, high)) = unit.caps else { return Vec::new() };
        let above = self.above.iter().flat_map(|(table, _)| table.caps());
        let all = self.exact.caps().chain(above).chain(self.classless.caps());
        let mut caps: Vec<Power> = all.filter(|cap| (low..=high).contains(cap)).collect();
        caps.sort_unstable();
        caps.dedup();
        caps
    }

    fn value(&self, unit: &UnitSpec, cores: u32, cap: Option<Power>) -> Option<Value> {
        let sized = match &self.above {
            None => self.in_table(&self.exact, unit, (cores, cap)),
            Some((above, fraction)) => {
                let low = self.in_table(&self.exact, unit, (cores, cap));
                let high = self.in_table(above, unit, (cores, cap));
                low.zip(high).map(|(low, high)| low.towards(&high, *fraction))
            }
        };
        sized.or_else(|| self.in_table(&self.classless, unit, (cores, cap)))
    }

    /// Uses the application's slowdown without a size class, if a table has no data for a cap.
    fn in_table(&self, table: &Table, unit: &UnitSpec, (cores, cap): (u32, Option<Power>)) -> Option<Value> {
        if let Some(value) = table.measured(cores, cap) {
            return Some(value);
        }
        let free = table.free(unit, cores)?;
        match cap {
            None => Some(free),
            Some(cap) => [table, &self.classless].iter().find_map(|table| table.capped(unit, (cores, cap), &free)),
        }
    }

    /// Returns the law of slowdown that the profiles under caps tell.
    fn law(&self, cores: u32) -> Option<Slowdown> {
        [&self.exact, &self.classless].into_iter().find_map(|table| table.law(cores))
    }

    /// Returns the same as [`under_cap`], for a job without measurements.
    pub fn under_cap(&self, known: Known<'_>, request: &Request, unit: &UnitSpec, cap: Option<Power>) -> Estimate {
        let cores = cores_on(request, unit);
        match (self.value(unit, cores, cap), cap) {
            (Some(value), _) => of_value(request, &value),
            (None, Some(cap)) => {
                let free = self.under_cap(known, request, unit, None);
                by_formula(Law::of(known, request, unit, self).law, free, share(request, unit, cap))
            }
            (None, None) => {
                let others = self.of_other_sizes(known, request, unit);
                others.unwrap_or_else(|| unmeasured(known, request, unit))
            }
        }
    }

    /// Estimates from other sizes: the draw of an application hardly depends on its size, but the duration does.
    fn of_other_sizes(&self, known: Known<'_>, request: &Request, unit: &UnitSpec) -> Option<Estimate> {
        let found = self.others.highest(unit, cores_on(request, unit))?;
        let duration = request.time_limit.unwrap_or(known.default_duration.max(found.duration));
        let Value { power, source, runs, .. } = found;
        Some(Estimate { duration, power, energy: power * duration, source, runs })
    }

    /// Describes the source of the estimate.
    pub fn origin(&self, known: Known<'_>, request: &Request, unit: &UnitSpec, cap: Option<Power>) -> String {
        let cores = cores_on(request, unit);
        let free = || self.value(unit, cores, None);
        let (value, by_formula) = match self.value(unit, cores, cap) {
            Some(value) => (Some(value), false),
            None => (free(), cap.is_some()),
        };
        let others = || self.others.highest(unit, cores);
        let sized = value.is_some();
        let Some(found) = value.or_else(others) else { return predicted::origin(known, request, unit) };
        let application = request.application.as_str();
        let named = application::command_of(application).filter(|_| self.command).unwrap_or(application);
        let (grounds, runs) = (found.grounds, if found.runs == 1 { "run" } else { "runs" });
        let from = match found.source {
            EstimateSource::Imported => "imported".to_owned(),
            source => format!("{source} from {} {runs}", found.runs),
        };
        let count = |cores: u32| format!("{cores} {}", if cores == 1 { "core" } else { "cores" });
        let words = [
            (!sized).then(|| "of other sizes: power only".to_owned()),
            grounds.sizes.then(|| "between measured sizes".to_owned()),
            grounds.cores.map(|from| format!("scaled from {} to {}", count(from), count(cores))),
            grounds.caps.then(|| "between measured caps".to_owned()),
            by_formula.then(|| Law::of(known, request, unit, self).words()),
        ];
        let words: String = words.into_iter().flatten().map(|word| format!(", {word}")).collect();
        format!("{from} of {named}{words}")
    }
}

/// Returns a numeric size class in thousandths.
fn number(size: &str) -> Option<i64> {
    let number: f64 = size.parse().ok()?;
    let plain = size.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    // Larger numbers would be inexact.
    (plain && (0.001..1e12).contains(&number)).then(|| libm::round(number * 1e3) as i64)
}

/// Converts a value to an estimate. A time limit bounds the duration.
fn of_value(request: &Request, value: &Value) -> Estimate {
    let duration = request.time_limit.map_or(value.duration, |limit| limit.min(value.duration));
    let energy = if duration == value.duration { value.energy } else { value.power * duration };
    Estimate { duration, power: value.power, energy, source: value.source, runs: value.runs }
}

/// Returns the job's share of the nameplate's draw, for the job's time limit.
fn nameplate(known: Known<'_>, request: &Request, unit: &UnitSpec) -> Estimate {
    let cores = cores_on(request, unit).min(unit.cores);
    let power = unit.nameplate.scaled(i64::from(cores), i64::from(unit.cores));
    let duration = request.time_limit.unwrap_or(known.default_duration);
    Estimate { duration, power, energy: power * duration, source: EstimateSource::Nameplate, runs: 0 }
}

#[cfg(test)]
mod tests;
