//! Source of a configuration's jobs: a trace, or a recipe with a seed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use limo_model::{Digest, Span, as_text};
use limo_trace::Workload;
use limo_trace::generate::{Recipe, generate};
use serde::Deserialize;

use super::digest::of_file;
use crate::setup::Setup;

#[derive(Debug, Clone)]
pub enum Source {
    Trace(PathBuf),
    Recipe { name: String, recipe: Box<Recipe> },
}

/// Replacements for values of recipes, as with `lsim generate`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Changes {
    jobs: Option<u32>,
    machine: Option<u32>,
    #[serde(with = "as_text::option")]
    span: Option<Span>,
    utilisation: Option<f64>,
}

impl Source {
    /// Makes a source for each seed; without seeds, one with the recipe's own. A name with `/` or `.toml` is a file
    /// below `folder`.
    ///
    /// # Errors
    /// If the recipe is unknown or wrong.
    pub fn of_recipe(name: &str, folder: &Path, seeds: &[u64], changes: &Changes) -> Result<Vec<Self>> {
        let is_file = name.contains('/') || name.ends_with(".toml");
        let mut recipe = if is_file {
            let path = folder.join(name);
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("recipes: {}: the file cannot be read", path.display()))?;
            Recipe::from_toml(&text).with_context(|| format!("recipes: {}", path.display()))?
        } else {
            Recipe::named(name).context("recipes")?
        };
        recipe.jobs = changes.jobs.or(recipe.jobs);
        recipe.machine = changes.machine.unwrap_or(recipe.machine);
        recipe.span = changes.span.or(recipe.span);
        recipe.utilisation = changes.utilisation.or(recipe.utilisation);
        let own = [recipe.seed];
        let stem =
            Path::new(name).file_stem().map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into_owned());
        let seeded = |seed: &u64| {
            let recipe = Box::new(Recipe { seed: *seed, ..recipe.clone() });
            Self::Recipe { name: stem.clone(), recipe }
        };
        Ok(if seeds.is_empty() { &own } else { seeds }.iter().map(seeded).collect())
    }

    /// Returns the name of the file or the recipe.
    pub fn name(&self) -> String {
        match self {
            Self::Trace(path) => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            Self::Recipe { name, .. } => name.clone(),
        }
    }

    pub fn seed(&self) -> Option<u64> {
        match self {
            Self::Trace(_) => None,
            Self::Recipe { recipe, .. } => Some(recipe.seed),
        }
    }

    /// Digests all jobs.
    ///
    /// # Errors
    /// If a trace cannot be read.
    pub fn digest(&self) -> Result<Digest> {
        match self {
            Self::Trace(path) => of_file(path).with_context(|| format!("{}: the file cannot be read", path.display())),
            Self::Recipe { recipe, .. } => Ok(Digest::new().with(format!("{recipe:?}").as_bytes())),
        }
    }

    /// Returns the value for [`Setup::trace`]; only the name of a recipe is used.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::Trace(path) => path.clone(),
            Self::Recipe { name, .. } => PathBuf::from(name),
        }
    }

    /// Reads or makes the jobs, and takes the part that `setup` selects.
    ///
    /// # Errors
    /// If a trace or a recipe is wrong.
    pub fn workload(&self, setup: &Setup) -> Result<Workload> {
        match self {
            Self::Trace(_) => setup.workload(),
            Self::Recipe { name, recipe } => {
                let made = generate(recipe).with_context(|| format!("recipe {name}, seed {}", recipe.seed))?;
                Ok(setup.part(made))
            }
        }
    }
}
