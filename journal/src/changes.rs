//! The table of changes: the author, time and items of each change of the cluster. Rows in, rows out. The content is
//! opaque.

use limo_model::Time;

use crate::db::{Db, Row};
use crate::error::{QueryError, ReadError};
use crate::journal::Journal;
use crate::script::Script;
use crate::statement::Statement;

/// A change, which may have several items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeRow {
    /// Number from 1 on. The journal assigns it; the value in a batch is ignored.
    pub number: u64,
    /// Time at which the master made the change.
    pub at: Time,
    /// Operator or component that made the change.
    pub by: String,
    /// The change that this one undoes.
    pub undo_of: Option<u64>,
    /// Items, at least one: a change without items leaves no row.
    pub items: Vec<ChangeItem>,
}

/// A changed setting or object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeItem {
    /// Subject of the item. Changes with the same subject form a sequence.
    pub subject: String,
    /// Opaque to the journal.
    pub body: String,
}

/// A part of the list of changes, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeQuery {
    /// Changes at this time or later.
    pub since: Option<Time>,
    /// Changes by this operator.
    pub by: Option<String>,
    /// Changes with a lower number.
    pub before: Option<u64>,
    /// Most changes, regardless of the number of their items.
    pub limit: u32,
}

/// Expression for the number of the change that is being written: the first of its items takes the next number.
const FIRST: &str = "INSERT INTO changes (number, item, at, by, undo_of, subject, body) \
                     VALUES ((SELECT coalesce(max(number), 0) + 1 FROM changes), ?, ?, ?, ?, ?, ?)";
const FURTHER: &str = "INSERT INTO changes (number, item, at, by, undo_of, subject, body) \
                       VALUES ((SELECT max(number) FROM changes), ?, ?, ?, ?, ?, ?)";

/// Appends a change under the next number.
pub(crate) fn insert(script: &mut Script, row: &ChangeRow) {
    for (place, item) in (0_i64..).zip(&row.items) {
        script
            .add(if place == 0 { FIRST } else { FURTHER })
            .bind(place)
            .bind(row.at.unix_ms())
            .bind(&row.by)
            .bind(row.undo_of.map(stored))
            .bind(&item.subject)
            .bind(&item.body);
    }
}

async fn list(mut db: Db<'_>, query: &ChangeQuery) -> Result<Vec<ChangeRow>, ReadError> {
    let mut statement = Statement::new(
        "SELECT number, at, by, undo_of, subject, body FROM changes
         WHERE number IN (SELECT number FROM changes WHERE item = 0",
    );
    if let Some(since) = query.since {
        statement.push(" AND at >= ").push_bind(since.unix_ms());
    }
    if let Some(by) = &query.by {
        statement.push(" AND by = ").push_bind(by);
    }
    if let Some(before) = query.before {
        statement.push(" AND number < ").push_bind(stored(before));
    }
    statement.push(" ORDER BY number DESC LIMIT ").push_bind(query.limit).push(") ORDER BY number DESC, item");
    rows(&db.all(statement).await?)
}

async fn one(mut db: Db<'_>, number: u64) -> Result<Option<ChangeRow>, ReadError> {
    let text = "SELECT number, at, by, undo_of, subject, body FROM changes WHERE number = ? ORDER BY item";
    Ok(rows(&db.all(Statement::new(text).bind(stored(number))).await?)?.pop())
}

/// Returns the newest change of `subject`.
async fn newest_of(mut db: Db<'_>, subject: &str) -> Result<Option<u64>, ReadError> {
    let newest = Statement::new("SELECT max(number) FROM changes WHERE subject = ?").bind(subject);
    Ok(db.value::<Option<i64>>(newest).await?.map(number))
}

/// Merges consecutive items of the same change into one row.
fn rows(found: &[Row]) -> Result<Vec<ChangeRow>, ReadError> {
    let mut changes: Vec<ChangeRow> = Vec::new();
    for row in found {
        let place = number(row.get(0)?);
        let item = ChangeItem { subject: row.get(4)?, body: row.get(5)? };
        match changes.last_mut().filter(|change| change.number == place) {
            Some(change) => change.items.push(item),
            None => changes.push(ChangeRow {
                number: place,
                at: Time::from_unix_ms(row.get(1)?),
                by: row.get(2)?,
                undo_of: row.get::<Option<i64>>(3)?.map(number),
                items: vec![item],
            }),
        }
    }
    Ok(changes)
}

/// Converts a number. If a database cannot store it, returns one that no change has.
fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn number(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or_default()
}

impl Journal {
    /// Returns changes of operators, newest first.
    ///
    /// # Errors
    /// [`QueryError`] if the journal cannot be read.
    pub async fn changes(&self, query: ChangeQuery) -> Result<Vec<ChangeRow>, QueryError> {
        self.read(move |db| Box::pin(async move { list(db, &query).await })).await
    }

    /// Returns a change by its number.
    ///
    /// # Errors
    /// [`QueryError`] if the journal cannot be read.
    pub async fn change(&self, number: u64) -> Result<Option<ChangeRow>, QueryError> {
        self.read(move |db| Box::pin(one(db, number))).await
    }

    /// Returns the newest change of a subject.
    ///
    /// # Errors
    /// [`QueryError`] if the journal cannot be read.
    pub async fn newest_change_of(&self, subject: String) -> Result<Option<u64>, QueryError> {
        self.read(move |db| Box::pin(async move { newest_of(db, &subject).await })).await
    }
}
