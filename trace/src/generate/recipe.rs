//! Recipe of a synthetic workload, as in a file, and the built-in recipes.
//!
//! Keys are in kebab case; spans have a unit; unknown keys are refused.

use limo_model::{Span, as_text};
use serde::{Deserialize, Serialize};

use super::RecipeError;

/// Synthetic workload: equal recipes give equal jobs on every machine. Times are whole seconds, as in the Standard
/// Workload Format.
///
/// Two of `jobs`, `span` and `utilisation` determine the amount and the rate. If the arrivals have their own rate,
/// one of `jobs` and `span` is enough.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Recipe {
    /// Seed; each seed gives another workload of the same kind. TOML holds up to 2^63 - 1.
    pub seed: u64,
    /// Processors of the machine, which are the most for a job.
    pub machine: u32,
    /// Number of jobs, 1 to 100,000,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,
    /// Length of the workload, in which jobs are submitted. Up to 36525 d.
    #[serde(default, with = "as_text::option", skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
    /// Offered load: the sum over the jobs of run x processors, by span x machine. Met within 1 %. From 0.001 to 10;
    /// above 1 the queue grows without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// Processors of jobs.
    pub sizes: Sizes,
    /// Running times of jobs.
    pub runtimes: Runtimes,
    /// Submission times of jobs.
    pub arrivals: Arrivals,
    /// Requested times; the running times by default.
    #[serde(default)]
    pub walltimes: Walltimes,
    /// Users; without this, jobs have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<Users>,
}

/// Processors of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Sizes {
    /// Sizes as on the machines of Lublin and Feitelson.
    Lublin(LublinSizes),
    /// Each number from `min` to `max` is equally likely.
    Uniform {
        /// Lower bound, at least 1.
        min: u32,
        /// Upper bound, at most the processors of the machine.
        max: u32,
    },
    /// All jobs have one size.
    Constant {
        /// Size, from 1 to the processors of the machine.
        processors: u32,
    },
}

/// Sizes of rigid parallel jobs: serial ones, powers of two, and others. The logarithm (base 2) of a parallel size is
/// uniform in two stages. U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the
/// characteristics of rigid jobs", JPDC 63(11), 2003; the defaults are the published values for batch and interactive
/// jobs together, checked against the authors' program `m_lublin99.c`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct LublinSizes {
    /// Probability of one processor: 0.244.
    pub serial: f64,
    /// Probability of a power of two above one: 0.576.
    pub power_of_two: f64,
    /// Least logarithm of a parallel job's size: 0.8, which makes 2 about as frequent as 4.
    pub ulow: f64,
    /// Beginning of the second stage. Default: `uhi` - 2.5, as the authors advise, which is 4.5 on their 128
    /// processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub umed: Option<f64>,
    /// Greatest logarithm. Default: that of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uhi: Option<f64>,
    /// Probability of the first stage: 0.86.
    pub uprob: f64,
}

impl Default for LublinSizes {
    fn default() -> Self {
        Self { serial: 0.244, power_of_two: 0.576, ulow: 0.8, umed: None, uhi: None, uprob: 0.86 }
    }
}

/// True running time of a job; rounded to whole seconds, at least one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Runtimes {
    /// Times as on the machines of Lublin and Feitelson.
    Lublin(LublinRuntimes),
    /// Each second from `min` to `max` is equally likely.
    Uniform {
        /// Lower bound, at least 1 s.
        #[serde(with = "as_text")]
        min: Span,
        /// Upper bound, not below `min`.
        #[serde(with = "as_text")]
        max: Span,
    },
    /// The logarithm is normal, with the deviation `sigma` (0 to 10). Values above `max` are drawn again.
    LogNormal {
        /// Median running time; positive.
        #[serde(with = "as_text")]
        median: Span,
        /// Deviation of the natural logarithm of the seconds, without a unit.
        sigma: f64,
        /// Upper bound, at least the median.
        #[serde(with = "as_text")]
        max: Span,
    },
    /// All jobs run for the same time.
    Constant {
        /// Running time, at least 1 s.
        #[serde(with = "as_text")]
        time: Span,
    },
}

/// The natural logarithm of the seconds is gamma(a1, b1) with probability p, else gamma(a2, b2) (shape, scale), with
/// p = pa x processors + pb, clamped to 0 to 1: larger jobs run longer. The source is that of [`LublinSizes`]. The
/// authors fitted machines with some hundred processors: with their pa, every job with 145 or more is of the second,
/// longer kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct LublinRuntimes {
    /// Shape of the shorter kind: 4.2.
    pub a1: f64,
    /// Scale of the shorter kind: 0.94.
    pub b1: f64,
    /// Shape of the longer kind: 312.
    pub a2: f64,
    /// Scale of the longer kind: 0.03.
    pub b2: f64,
    /// Change of the probability of the shorter kind for each processor: -0.0054.
    pub pa: f64,
    /// Probability of the shorter kind for no processors: 0.78.
    pub pb: f64,
    /// Largest logarithm: 12, which is 45 hours. Larger ones are drawn again.
    pub longest: f64,
}

impl Default for LublinRuntimes {
    fn default() -> Self {
        Self { a1: 4.2, b1: 0.94, a2: 312.0, b2: 0.03, pa: -0.0054, pb: 0.78, longest: 12.0 }
    }
}

/// Submission times of jobs. `uniform`, `left-skewed` and `burst` are those of scheduling-power-capping-2018, section
/// 5.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// A Poisson process: independent gaps with the mean `mean-gap`; without it the gaps are scaled so that the last
    /// job is submitted at the end of the span.
    Exponential {
        /// Mean gap; positive.
        #[serde(default, with = "as_text::option", skip_serializing_if = "Option::is_none")]
        mean_gap: Option<Span>,
    },
    /// Uniform over the span.
    Uniform,
    /// More jobs at the beginning: the density falls linearly to zero at the end of the span, so the mean is at a
    /// third.
    LeftSkewed,
    /// `count` groups, each spread evenly over `width`, which begin span / `count` after one another.
    Burst {
        /// Number of groups, at least 1.
        count: u32,
        /// Not negative; 0 submits each group at one moment.
        #[serde(with = "as_text")]
        width: Span,
    },
    /// The offered work grows evenly: each job comes when a machine with the load `utilisation` has had time for all
    /// earlier jobs.
    Steady,
    /// By the hour of the day, as on the machines of Lublin and Feitelson.
    Lublin(LublinArrivals),
}

/// Gaps whose natural logarithm is gamma(`aarr` x `arar`, `barr`) seconds, on a clock that follows the day. Half hour
/// i from 05:00 on has the share of gamma(`anum`, `bnum`) from i - 1/2 to i + 1/2. The workload begins at midnight.
/// The source is that of [`LublinSizes`]. A fitted span or load scales the gaps, not the day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct LublinArrivals {
    /// Shape in the rush hours: 10.2303.
    pub aarr: f64,
    /// Scale of the logarithm of a gap: 0.4871.
    pub barr: f64,
    /// Shape of the distribution over the day: 8.1737.
    pub anum: f64,
    /// Scale of the distribution over the day: 3.9631.
    pub bnum: f64,
    /// Factor from the shape in the rush hours to that of the whole day: 1.0225.
    pub arar: f64,
    /// Largest logarithm: 13, which is 5 days. Larger ones are drawn again.
    pub longest: f64,
}

impl Default for LublinArrivals {
    fn default() -> Self {
        Self { aarr: 10.2303, barr: 0.4871, anum: 8.1737, bnum: 3.9631, arar: 1.0225, longest: 13.0 }
    }
}

/// Requested times; never less than the run, in whole seconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Walltimes {
    /// The running times.
    #[default]
    Exact,
    /// The running times times a factor, uniform from `min` to `max` (1 to 1000), rounded up.
    Factor {
        /// The smallest factor.
        min: f64,
        /// The largest factor, not below `min`.
        max: f64,
    },
    /// Round numbers, as users choose them.
    Popular(Popular),
}

/// Like `factor`, then rounded up to the next of `values`, or above the last to a multiple of the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Popular {
    /// The smallest factor, as for [`Walltimes::Factor`].
    pub min: f64,
    /// The largest factor.
    pub max: f64,
    /// Values in ascending order.
    pub values: Vec<Length>,
}

/// Span within a list.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Length(#[serde(with = "as_text")] pub Span);

impl Default for Popular {
    fn default() -> Self {
        // Users type such times: quarters of an hour, then doublings, then days.
        let values = [15, 30, 60, 120, 240, 480, 720, 1440].map(|minutes| Length(Span::from_secs(minutes * 60)));
        Self { min: 1.0, max: 1.0, values: values.to_vec() }
    }
}

/// Users, numbered from 1; user k submits a share proportional to 1 / k^`exponent` of the jobs (Zipf).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Users {
    /// Number of users, 1 to 1,000,000.
    pub count: u32,
    /// Exponent, from 0 (all users equal) to 10.
    #[serde(default = "zipf")]
    pub exponent: f64,
}

fn zipf() -> f64 {
    1.0
}

/// Names and texts of the built-in recipes.
const READY: [(&str, &str); 6] = [
    ("burst", include_str!("recipes/burst.toml")),
    ("htc", include_str!("recipes/htc.toml")),
    ("left-skewed", include_str!("recipes/left-skewed.toml")),
    ("lublin", include_str!("recipes/lublin.toml")),
    ("steady", include_str!("recipes/steady.toml")),
    ("uniform", include_str!("recipes/uniform.toml")),
];

impl Recipe {
    /// Parses a recipe; [`generate`](super::generate()) checks its values.
    ///
    /// # Errors
    /// [`RecipeError::Text`] with line, column and the line itself.
    pub fn from_toml(text: &str) -> Result<Self, RecipeError> {
        toml::from_str(text).map_err(|error| RecipeError::text(text, &error))
    }

    /// Returns the built-in recipe of that name.
    ///
    /// # Errors
    /// [`RecipeError::Name`] with the known names.
    pub fn named(name: &str) -> Result<Self, RecipeError> {
        Self::from_toml(Self::text(name)?)
    }

    /// Returns the text of the built-in recipe of that name.
    ///
    /// # Errors
    /// [`RecipeError::Name`] with the known names.
    pub fn text(name: &str) -> Result<&'static str, RecipeError> {
        let found = READY.iter().find(|(known, _)| *known == name);
        found.map(|(_, text)| *text).ok_or_else(|| RecipeError::Name { name: name.to_owned(), known: Self::names() })
    }

    /// Returns the names of the built-in recipes, in alphabetical order.
    pub fn names() -> Vec<&'static str> {
        READY.iter().map(|(name, _)| *name).collect()
    }
}
