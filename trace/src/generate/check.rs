//! Checks each value of a recipe. Accepted values cannot overflow, divide by zero or draw without end. `extent`
//! checks their combination with `jobs`, `span` and `utilisation`.

use std::fmt::Display;
use std::ops::RangeInclusive;

use limo_model::Span;

use super::arrivals::DayClock;
use super::recipe::{
    Arrivals, LublinArrivals, LublinRuntimes, LublinSizes, Popular, Recipe, Runtimes, Sizes, Users, Walltimes,
};
use super::{MAX_JOBS, MAX_SPAN_S, RecipeError};

type Checked = Result<(), RecipeError>;

/// Accepted shapes of gamma distributions.
const SHAPES: RangeInclusive<f64> = 0.01..=100_000.0;

pub(super) fn recipe(recipe: &Recipe) -> Checked {
    within("machine", recipe.machine, 1..=1_000_000_000)?;
    if let Some(jobs) = recipe.jobs {
        within("jobs", jobs, 1..=MAX_JOBS)?;
    }
    if let Some(length) = recipe.span {
        span("span", length)?;
    }
    if let Some(load) = recipe.utilisation {
        within("utilisation", load, 0.001..=10.0)?;
    }
    sizes(&recipe.sizes, recipe.machine)?;
    runtimes(&recipe.runtimes)?;
    arrivals(&recipe.arrivals, recipe.span)?;
    walltimes(&recipe.walltimes)?;
    recipe.users.as_ref().map_or(Ok(()), users)
}

fn refuse<T>(key: &'static str, value: impl Display, rule: String) -> Result<T, RecipeError> {
    Err(RecipeError::Value { key, value: value.to_string(), rule })
}

fn within<T: PartialOrd + Display>(key: &'static str, value: T, range: RangeInclusive<T>) -> Checked {
    if range.contains(&value) {
        return Ok(());
    }
    refuse(key, value, format!("outside {} to {}", range.start(), range.end()))
}

/// Checks a whole number of seconds, at least one.
fn span(key: &'static str, span: Span) -> Checked {
    if span.ms() % 1_000 != 0 || !(1..=MAX_SPAN_S).contains(&(span.ms() / 1_000)) {
        return refuse(key, span, "not a whole number of seconds from 1s to 36525d".to_owned());
    }
    Ok(())
}

/// Checks that `value` of the key `key` is not less than `least` of the key `other`.
fn not_below<T: PartialOrd + Display>(key: &'static str, value: T, other: &str, least: T) -> Checked {
    if value < least {
        return refuse(key, value, format!("below `{other}`, {least}"));
    }
    Ok(())
}

fn sizes(sizes: &Sizes, machine: u32) -> Checked {
    let fits = |key, size| {
        if (1..=machine).contains(&size) {
            return Ok(());
        }
        refuse(key, size, format!("not within 1 and the {machine} processors of `machine`"))
    };
    match sizes {
        Sizes::Lublin(model) => lublin_sizes(model, machine),
        Sizes::Uniform { min, max } => {
            fits("sizes.uniform.min", *min)?;
            fits("sizes.uniform.max", *max)?;
            not_below("sizes.uniform.max", *max, "min", *min)
        }
        Sizes::Constant { processors } => fits("sizes.constant.processors", *processors),
    }
}

fn lublin_sizes(model: &LublinSizes, machine: u32) -> Checked {
    within("sizes.lublin.serial", model.serial, 0.0..=1.0)?;
    within("sizes.lublin.power-of-two", model.power_of_two, 0.0..=1.0)?;
    // The sum of 0.4 and 0.6 is slightly more than 1 in binary.
    if model.serial + model.power_of_two > 1.0 + 1e-9 {
        let rule = format!("above 1 together with `serial`, {}", model.serial);
        return refuse("sizes.lublin.power-of-two", model.power_of_two, rule);
    }
    within("sizes.lublin.uprob", model.uprob, 0.0..=1.0)?;
    // The tolerance allows for 6.644, as users write the logarithm of 100.
    let largest = libm::log2(f64::from(machine)) + 0.001;
    // On a machine of one processor, the model's own 0.8 is rounded to the machine's logarithm.
    within("sizes.lublin.ulow", model.ulow, 0.0..=largest.max(1.0))?;
    if let Some(uhi) = model.uhi {
        if !(0.0..=largest).contains(&uhi) {
            let rule = format!("not within 0 and the logarithm (base 2) of the {machine} processors of `machine`");
            return refuse("sizes.lublin.uhi", uhi, rule);
        }
        not_below("sizes.lublin.uhi", uhi, "ulow", model.ulow)?;
    }
    if let Some(umed) = model.umed {
        within("sizes.lublin.umed", umed, 0.0..=30.0)?;
        not_below("sizes.lublin.umed", umed, "ulow", model.ulow)?;
        let above = umed > model.uhi.unwrap_or(largest);
        return if above { refuse("sizes.lublin.umed", umed, "above `uhi`".to_owned()) } else { Ok(()) };
    }
    Ok(())
}

fn runtimes(runtimes: &Runtimes) -> Checked {
    match runtimes {
        Runtimes::Lublin(model) => lublin_runtimes(model),
        Runtimes::Uniform { min, max } => {
            span("runtimes.uniform.min", *min)?;
            span("runtimes.uniform.max", *max)?;
            not_below("runtimes.uniform.max", *max, "min", *min)
        }
        Runtimes::LogNormal { median, sigma, max } => {
            span("runtimes.log-normal.median", *median)?;
            span("runtimes.log-normal.max", *max)?;
            within("runtimes.log-normal.sigma", *sigma, 0.0..=10.0)?;
            // This keeps at least every second draw.
            not_below("runtimes.log-normal.max", *max, "median", *median)
        }
        Runtimes::Constant { time } => span("runtimes.constant.time", *time),
    }
}

fn lublin_runtimes(model: &LublinRuntimes) -> Checked {
    // e^20 s is fifteen years.
    within("runtimes.lublin.longest", model.longest, 0.1..=20.0)?;
    within("runtimes.lublin.a1", model.a1, SHAPES)?;
    within("runtimes.lublin.a2", model.a2, SHAPES)?;
    scale("runtimes.lublin.b1", model.b1, model.a1, model.longest)?;
    scale("runtimes.lublin.b2", model.b2, model.a2, model.longest)?;
    within("runtimes.lublin.pa", model.pa, -1.0..=1.0)?;
    within("runtimes.lublin.pb", model.pb, -1000.0..=1000.0)
}

/// Checks the scale of a gamma distribution of logarithms that are drawn again above `longest`. Its median is below its
/// mean, so with the mean within the limit at least every second draw is kept.
fn scale(key: &'static str, scale: f64, shape: f64, longest: f64) -> Checked {
    within(key, scale, 0.000_01..=100.0)?;
    let mean = shape * scale;
    if mean > longest {
        return refuse(key, scale, format!("which makes the mean {mean}, above `longest`, {longest}"));
    }
    Ok(())
}

fn arrivals(arrivals: &Arrivals, whole: Option<Span>) -> Checked {
    match arrivals {
        Arrivals::Exponential { mean_gap: Some(gap) } => {
            if !(1..=MAX_SPAN_S * 1_000).contains(&gap.ms()) {
                return refuse("arrivals.exponential.mean-gap", gap, "outside 1ms to 36525d".to_owned());
            }
            Ok(())
        }
        Arrivals::Exponential { mean_gap: None } | Arrivals::Uniform | Arrivals::LeftSkewed | Arrivals::Steady => {
            Ok(())
        }
        Arrivals::Burst { count, width } => {
            within("arrivals.burst.count", *count, 1..=1_000_000)?;
            span("arrivals.burst.width", *width)?;
            match whole {
                Some(whole) => burst_fits(*count, *width, whole),
                None => Ok(()),
            }
        }
        Arrivals::Lublin(model) => lublin_arrivals(model),
    }
}

/// Checks that bursts do not overlap.
pub(super) fn burst_fits(count: u32, width: Span, whole: Span) -> Checked {
    let period = Span::from_ms(whole.ms() / i64::from(count));
    if width > period {
        let rule = format!("longer than {period}, the time from one of {count} bursts in {whole} to the next");
        return refuse("arrivals.burst.width", width, rule);
    }
    Ok(())
}

fn lublin_arrivals(model: &LublinArrivals) -> Checked {
    within("arrivals.lublin.longest", model.longest, 0.1..=20.0)?;
    within("arrivals.lublin.aarr", model.aarr, SHAPES)?;
    within("arrivals.lublin.arar", model.arar, 0.01..=100.0)?;
    scale("arrivals.lublin.barr", model.barr, model.aarr * model.arar, model.longest)?;
    within("arrivals.lublin.anum", model.anum, 0.1..=1000.0)?;
    // The series of the gamma share converges up to 700 scales; the day ends at 58.5 half hours.
    within("arrivals.lublin.bnum", model.bnum, 0.1..=1000.0)?;
    if DayClock::new(model).is_none() {
        let rule = format!("which with `bnum` {} makes an hour of the day without jobs", model.bnum);
        return refuse("arrivals.lublin.anum", model.anum, rule);
    }
    Ok(())
}

fn walltimes(walltimes: &Walltimes) -> Checked {
    match walltimes {
        Walltimes::Exact => Ok(()),
        Walltimes::Factor { min, max } => {
            within("walltimes.factor.min", *min, 1.0..=1000.0)?;
            within("walltimes.factor.max", *max, 1.0..=1000.0)?;
            not_below("walltimes.factor.max", *max, "min", *min)
        }
        Walltimes::Popular(popular) => popular_values(popular),
    }
}

fn popular_values(popular: &Popular) -> Checked {
    const KEY: &str = "walltimes.popular.values";
    within("walltimes.popular.min", popular.min, 1.0..=1000.0)?;
    within("walltimes.popular.max", popular.max, 1.0..=1000.0)?;
    not_below("walltimes.popular.max", popular.max, "min", popular.min)?;
    if popular.values.is_empty() {
        return refuse(KEY, "[]", "which leaves nothing to ask for".to_owned());
    }
    for value in &popular.values {
        span(KEY, value.0)?;
    }
    match popular.values.windows(2).find(|pair| pair[1].0 <= pair[0].0) {
        Some(pair) => refuse(KEY, pair[1].0, format!("not longer than {} before it", pair[0].0)),
        None => Ok(()),
    }
}

fn users(users: &Users) -> Checked {
    within("users.count", users.count, 1..=1_000_000)?;
    within("users.exponent", users.exponent, 0.0..=10.0)
}
