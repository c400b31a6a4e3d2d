//! Errors of recipes: name the key, its value and the accepted values.

use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum RecipeError {
    /// The text is not TOML, or a key is unknown, missing or of the wrong kind.
    #[error(
        "recipe, line {line}, column {column}, at `{text}`: {message}; \
         `lsim generate` knows ready recipes to begin with"
    )]
    Text { line: usize, column: usize, text: String, message: String },
    /// Value out of range.
    #[error("recipe: `{key}` is {value}, {rule}")]
    Value { key: &'static str, value: String, rule: String },
    /// Too few or too many keys determine the number of jobs and their rate.
    #[error("recipe: `arrivals` with {given} {fault}; {hint}")]
    Extent { given: String, fault: &'static str, hint: &'static str },
    /// Too many jobs.
    #[error("recipe: {given} makes more than {limit} jobs; take a shorter `span`, a lower rate or longer jobs")]
    TooMany { given: String, limit: u32 },
    /// Too long a time.
    #[error("recipe: {given} takes longer than 36525 d; take fewer `jobs` or a higher rate")]
    TooLong { given: String },
    /// The load cannot be met within 1 % with whole jobs and whole seconds.
    #[error(
        "recipe: `utilisation` is {utilisation}, which whole jobs cannot meet within 1 % over {span_s} s; \
         take a longer `span` or more `jobs`"
    )]
    Load { utilisation: String, span_s: i64 },
    #[error("there is no recipe `{name}` (known: {})", .known.join(", "))]
    Name { name: String, known: Vec<&'static str> },
}

impl RecipeError {
    /// Makes the error for the place in `text` at which the parser stopped.
    pub(super) fn text(text: &str, error: &toml::de::Error) -> Self {
        // Without a place, or with an invalid one, the whole text is meant.
        let start = error.span().map_or(0, |span| span.start);
        let before = text.get(..start).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line_text = text.get(line_start..).unwrap_or_default().lines().next().unwrap_or_default().trim();
        Self::Text {
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
            text: line_text.to_owned(),
            message: error.message().to_owned(),
        }
    }
}
