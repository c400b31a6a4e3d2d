//! File of a sweep: lists of varying values, and constants under the names of `lsim run`. Lists the traces that match
//! its patterns, without reading them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use limo_model::{Preset, Span, as_text};
use serde::Deserialize;
use toml::de::DeTable;
use toml::{Table, Value};

use super::glob;
use super::source::{Changes, Source};
use crate::setup::{Amount, Extent, Setting, Setup};

/// Plan of a sweep, each list in the order of the file.
#[derive(Debug)]
pub struct Plan {
    /// Constants with resolved paths.
    pub base: Setup,
    pub policies: Vec<Preset>,
    pub budgets: Vec<Period>,
    pub sources: Vec<Source>,
    pub variants: Vec<Variant>,
}

/// Entry of `budgets`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Period {
    pub label: String,
    pub amount: Option<Amount>,
    pub from: Option<Span>,
    pub until: Option<Span>,
}

/// Named settings of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    pub name: String,
    pub settings: Vec<Setting>,
}

/// Lists, as in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct Lists {
    policies: Vec<Preset>,
    budgets: Vec<Value>,
    traces: Vec<String>,
    recipes: Vec<String>,
    seeds: Vec<u64>,
    recipe: Changes,
    set: BTreeMap<String, Vec<Setting>>,
}

/// Budget with its own period.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Own {
    #[serde(with = "as_text")]
    budget: Amount,
    #[serde(with = "as_text")]
    from: Span,
    #[serde(with = "as_text")]
    until: Span,
}

const LISTS: [&str; 6] = ["policies", "budgets", "traces", "recipes", "seeds", "recipe"];

impl Plan {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// If it cannot be read or understood; names file, line and key.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("{shown}: the file cannot be read"))?;
        let (lists, base) = split(&text, &shown.to_string())?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::from_parts(lists, base, folder).map_err(|error| anyhow!("{shown}: {error:#}"))
    }

    fn from_parts(lists: Lists, mut base: Setup, folder: &Path) -> Result<Self> {
        let Setup {
            trace, platform, budgets: periods, prices, limits, profiles, variation, believed_variation, ..
        } = &mut base;
        for path in [trace, platform, periods, prices, limits, profiles, variation, believed_variation] {
            *path = path.take().map(|path| folder.join(path));
        }
        let policies = one_or_list(("policy", base.policy.take()), ("policies", lists.policies))?;
        if policies.is_empty() {
            bail!("no policy: write for example policies = [\"easy\", \"energybud\"]");
        }
        let mut sources = Vec::new();
        for pattern in &lists.traces {
            let found =
                glob::files(folder, pattern).with_context(|| format!("traces: cannot search for `{pattern}`"))?;
            if found.is_empty() {
                bail!("traces: no file matches `{pattern}` (in {})", named(folder));
            }
            sources.extend(found.into_iter().map(Source::Trace));
        }
        let one = base.trace.take().map(Source::Trace);
        let mut sources = one_or_list(("trace", one), ("traces", sources))?;
        if lists.recipes.is_empty() && !lists.seeds.is_empty() {
            bail!("seeds need recipes: write for example recipes = [\"lublin\"]");
        }
        for name in &lists.recipes {
            sources.extend(Source::of_recipe(name, folder, &lists.seeds, &lists.recipe)?);
        }
        if sources.is_empty() {
            bail!("no workload: write for example traces = [\"weeks/*.swf.gz\"] or recipes = [\"lublin\"]");
        }
        let budgets = budgets(&lists.budgets, &mut base)?;
        base.measure = base.measure.or(hull(&budgets));
        let variant = |(name, settings)| Variant { name, settings };
        let mut variants: Vec<Variant> = lists.set.into_iter().map(variant).collect();
        if variants.is_empty() {
            let shown: Vec<String> = base.set.iter().map(ToString::to_string).collect();
            variants.push(Variant { name: shown.join(" "), settings: std::mem::take(&mut base.set) });
        }
        Ok(Self { base, policies, budgets, sources, variants })
    }
}

fn named(folder: &Path) -> String {
    if folder.as_os_str().is_empty() { "this folder".to_owned() } else { folder.display().to_string() }
}

fn one_or_list<T>(one: (&str, Option<T>), list: (&str, Vec<T>)) -> Result<Vec<T>> {
    match (one.1, list.1.is_empty()) {
        (Some(_), false) => bail!("{} and {} exclude each other: write one of them", one.0, list.0),
        (Some(one), true) => Ok(vec![one]),
        (None, _) => Ok(list.1),
    }
}

/// Returns the budgets; without a list, those of the constants.
fn budgets(list: &[Value], base: &mut Setup) -> Result<Vec<Period>> {
    let mut periods = Vec::new();
    for value in list {
        periods.push(period(value, base).map_err(|error| anyhow!("budgets: {error}"))?);
    }
    let by_file = base.budgets.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let one = base.budget.take().map(|amount| Period {
        label: amount.to_string(),
        amount: Some(amount),
        from: base.from,
        until: base.until,
    });
    let mut periods = one_or_list(("budget", one), ("budgets", periods))?;
    if periods.is_empty() {
        let label = by_file.unwrap_or_else(|| "none".to_owned());
        periods.push(Period { label, amount: None, from: None, until: None });
    }
    (base.from, base.until) = (None, None);
    Ok(periods)
}

/// Returns the time of all budgets, which is the default window of all configurations.
fn hull(budgets: &[Period]) -> Option<Extent> {
    let spans = || budgets.iter().filter_map(|period| period.from.zip(period.until));
    let (from, until) = (spans().map(|(from, _)| from).min()?, spans().map(|(_, until)| until).max()?);
    Some(Extent { from, until })
}

fn period(value: &Value, base: &Setup) -> Result<Period, String> {
    match value {
        Value::String(text) if text == "none" => {
            Ok(Period { label: text.clone(), amount: None, from: None, until: None })
        }
        Value::String(text) => {
            let amount: Amount = text.parse()?;
            if base.from.is_none() || base.until.is_none() {
                return Err(format!("`{text}` needs a period: write from and until, for example from = \"2d\""));
            }
            Ok(Period { label: amount.to_string(), amount: Some(amount), from: base.from, until: base.until })
        }
        Value::Table(_) => {
            let own: Own = value.clone().try_into().map_err(|error: toml::de::Error| error.message().to_owned())?;
            let label = format!("{} {}..{}", own.budget, own.from, own.until);
            Ok(Period { label, amount: Some(own.budget), from: Some(own.from), until: Some(own.until) })
        }
        other => Err(format!(
            "`{other}` is not a budget: write \"80%\", \"40MWh\", \"none\", or a table with budget, from and until"
        )),
    }
}

/// Splits the file into lists and constants, key by key so that errors name the line.
fn split(text: &str, shown: &str) -> Result<(Lists, Setup)> {
    let line = |at: usize| 1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count();
    let spans = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        anyhow!("{shown}:{}: {}", line(at), error.message())
    })?;
    let table: Table = toml::from_str(text).map_err(|error| anyhow!("{shown}: {}", error.message()))?;
    let (mut lists, mut base) = (Table::new(), Table::new());
    for (key, _) in spans.get_ref().iter() {
        let (name, at) = (key.get_ref().as_ref(), line(key.span().start));
        let Some(value) = table.get(name) else { continue };
        // `set` and `budgets` are constants in one form and lists in another.
        let is_list =
            LISTS.contains(&name) && !(name == "budgets" && value.is_str()) || name == "set" && value.is_table();
        let alone = Table::from_iter([(name.to_owned(), value.clone())]);
        let understood = match is_list {
            true => alone.clone().try_into().map(|_: Lists| ()),
            false => alone.clone().try_into().map(|_: Setup| ()),
        };
        understood.map_err(|error: toml::de::Error| anyhow!("{shown}:{at}: {}", told(name, error.message())))?;
        if is_list { &mut lists } else { &mut base }.extend(alone);
    }
    let wrong = |error: toml::de::Error| anyhow!("{shown}: {}", error.message());
    Ok((lists.try_into().map_err(wrong)?, base.try_into().map_err(wrong)?))
}

fn told(key: &str, message: &str) -> String {
    if message.starts_with("unknown field") && message.contains(&format!("`{key}`")) {
        let lists = LISTS.join(", ");
        return format!("unknown key `{key}` (lists: {lists}, set; else the long options of `lsim run`)");
    }
    format!("{key}: {message}")
}

/// Makes a path absolute, for the nodes of a cluster.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
