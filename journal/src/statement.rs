//! Statements for both databases: a text with `?` for each value, and the values in order. Independent of tables.

use sqlx::postgres::PgArguments;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, Encode, Postgres, Type};

/// A value of a row. `None` is null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Int(Option<i64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
    Bool(Option<bool>),
}

macro_rules! from {
    ($($from:ty => $variant:ident($value:ident) $made:expr;)*) => {
        $(impl From<$from> for Value {
            fn from($value: $from) -> Self {
                Self::$variant($made)
            }
        })*
    };
}

from! {
    i64 => Int(value) Some(value);
    u32 => Int(value) Some(value.into());
    Option<i64> => Int(value) value;
    &str => Text(value) Some(value.to_owned());
    &String => Text(value) Some(value.clone());
    String => Text(value) Some(value);
    Option<String> => Text(value) value;
    &[u8] => Bytes(value) Some(value.to_owned());
    Option<Vec<u8>> => Bytes(value) value;
    bool => Bool(value) Some(value);
    Option<bool> => Bool(value) value;
}

/// A statement with its values.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) text: String,
    pub(crate) values: Vec<Value>,
    /// True if the text is a constant, so that its compiled form is worth keeping.
    pub(crate) is_constant: bool,
}

impl Statement {
    /// Begins a statement with a constant text.
    pub(crate) fn new(text: &'static str) -> Self {
        Self { text: text.to_owned(), values: Vec::new(), is_constant: true }
    }

    /// Binds the next `?` of the text.
    pub(crate) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Appends text made of constants of this program.
    pub(crate) fn push(&mut self, text: &str) -> &mut Self {
        self.is_constant = false;
        self.text.push_str(text);
        self
    }

    /// Appends a place for a value, and binds it.
    pub(crate) fn push_bind(&mut self, value: impl Into<Value>) -> &mut Self {
        self.values.push(value.into());
        self.push("?")
    }

    /// Appends a list in parentheses.
    pub(crate) fn push_list(&mut self, values: &[String]) -> &mut Self {
        let places = vec!["?"; values.len()].join(", ");
        self.values.extend(values.iter().map(Value::from));
        self.push("(").push(&places).push(")")
    }
}

/// Adds values to the arguments for SQLite.
pub(crate) fn add_to_sqlite(arguments: &mut SqliteArguments, values: Vec<Value>) -> Result<(), sqlx::Error> {
    for value in values {
        let added = match value {
            Value::Int(value) => arguments.add(value),
            Value::Text(value) => arguments.add(value),
            Value::Bytes(value) => arguments.add(value),
            Value::Bool(value) => arguments.add(value),
        };
        added.map_err(sqlx::Error::Encode)?;
    }
    Ok(())
}

/// Returns the arguments for PostgreSQL.
pub(crate) fn for_postgres(values: &[Value]) -> Result<PgArguments, sqlx::Error> {
    fn add<'q>(
        arguments: &mut PgArguments,
        value: impl Encode<'q, Postgres> + Type<Postgres>,
    ) -> Result<(), sqlx::Error> {
        arguments.add(value).map_err(sqlx::Error::Encode)
    }
    let mut arguments = PgArguments::default();
    for value in values {
        match value {
            Value::Int(value) => add(&mut arguments, value)?,
            // PostgreSQL stores no zero in texts. JSON, which most texts are, has none.
            Value::Text(Some(text)) if text.contains('\0') => add(&mut arguments, text.replace('\0', "\u{fffd}"))?,
            Value::Text(value) => add(&mut arguments, value.as_deref())?,
            Value::Bytes(value) => add(&mut arguments, value.as_deref())?,
            Value::Bool(value) => add(&mut arguments, value)?,
        }
    }
    Ok(arguments)
}

/// Returns the text for PostgreSQL, which numbers the places of values. No constant text has a `?` of another meaning.
pub(crate) fn numbered(text: &str) -> String {
    let mut numbered = String::with_capacity(text.len() + 16);
    for (number, part) in text.split('?').enumerate() {
        if number > 0 {
            numbered.push('$');
            numbered.push_str(&number.to_string());
        }
        numbered.push_str(part);
    }
    numbered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_of_postgresql_have_numbers() {
        assert_eq!(numbered("SELECT 1"), "SELECT 1");
        assert_eq!(numbered("a = ? AND b IN (?, ?)"), "a = $1 AND b IN ($2, $3)");
    }

    #[test]
    fn a_built_statement_has_a_place_for_each_value() {
        let mut statement = Statement::new("SELECT a FROM t WHERE b = ?").bind(7_i64);
        assert!(statement.is_constant);
        statement.push(" AND c IN ").push_list(&["x".to_owned(), "y".to_owned()]).push(" LIMIT ").push_bind(9_u32);
        assert_eq!(statement.text, "SELECT a FROM t WHERE b = ? AND c IN (?, ?) LIMIT ?");
        let expected = [Value::Int(Some(7)), "x".into(), "y".into(), Value::Int(Some(9))];
        assert!(statement.values == expected && !statement.is_constant);
    }
}
