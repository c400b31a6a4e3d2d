//! One type for a connection to either database, and for its rows. Everything that differs between the databases in
//! statements of both is in [`Dialect`].

use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, ColumnIndex, Decode, PgConnection, Postgres, Row as _, Sqlite, SqliteConnection, Type};

use crate::statement::{Statement, add_to_sqlite, for_postgres, numbered};

/// A connection to the file or the server of a journal.
pub(crate) enum Db<'c> {
    File(&'c mut SqliteConnection),
    Server(&'c mut PgConnection),
}

/// Parts of statements that differ between the databases.
pub(crate) struct Dialect {
    /// Inserts a submission, but no key that exists already. Such a second job gets a random key: it cannot be found by
    /// the key, and other commits do not fail.
    pub(crate) insert_submission: &'static str,
    /// Inserts a finished job.
    pub(crate) insert_finished: &'static str,
    /// The account in a report, empty if it has none.
    pub(crate) account: &'static str,
    /// The queue in a report.
    pub(crate) queue: &'static str,
    /// Condition that a node of a report is in the list that follows; one parenthesis stays open.
    pub(crate) has_node_in: &'static str,
}

pub(crate) static SQLITE: Dialect = Dialect {
    insert_submission: "INSERT INTO submissions VALUES \
                        (?, iif(EXISTS (SELECT 1 FROM submissions WHERE key = ?), randomblob(16), ?), ?, ?)",
    insert_finished: "INSERT INTO finished (job, user, name, application, state, submitted, started, ended, energy_mj, \
                      cost_micro, cost, start_now_cost, emulated, measured, report, step_of) \
                      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?)",
    account: "coalesce(report ->> '$.account', '')",
    queue: "json_extract(report, '$.queue')",
    has_node_in: "EXISTS (SELECT 1 FROM json_each(report, '$.nodes') WHERE value IN ",
};

pub(crate) static POSTGRES: Dialect = Dialect {
    insert_submission: "INSERT INTO submissions VALUES (?, CASE WHEN EXISTS (SELECT 1 FROM submissions WHERE key = ?) \
                        THEN uuid_send(gen_random_uuid()) ELSE ? END, ?, ?)",
    insert_finished: "INSERT INTO finished (job, \"user\", name, application, state, submitted, started, ended, energy_mj, \
                      cost, start_now_cost, emulated, measured, report, step_of) \
                      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    account: "coalesce(replace(report, '\\u0000', '\\ufffd')::json ->> 'account', '')",
    queue: "(replace(report, '\\u0000', '\\ufffd')::json ->> 'queue')",
    has_node_in: "EXISTS (SELECT 1 FROM json_array_elements_text(CASE json_typeof(replace(report, '\\u0000', '\\ufffd')::json -> 'nodes') \
                  WHEN 'array' THEN replace(report, '\\u0000', '\\ufffd')::json -> 'nodes' ELSE '[]' END) AS listed (value) WHERE value IN ",
};

impl Db<'_> {
    pub(crate) fn dialect(&self) -> &'static Dialect {
        match self {
            Self::File(_) => &SQLITE,
            Self::Server(_) => &POSTGRES,
        }
    }

    pub(crate) async fn all(&mut self, statement: Statement) -> Result<Vec<Row>, sqlx::Error> {
        let Statement { text, values, is_constant } = statement;
        match self {
            Self::File(conn) => {
                let mut arguments = Default::default();
                add_to_sqlite(&mut arguments, values)?;
                let query = sqlx::query_with(AssertSqlSafe(text), arguments).persistent(is_constant);
                Ok(query.fetch_all(&mut **conn).await?.into_iter().map(Row::File).collect())
            }
            Self::Server(conn) => {
                let query = sqlx::query_with(AssertSqlSafe(numbered(&text)), for_postgres(&values)?);
                let rows = query.persistent(is_constant).fetch_all(&mut **conn).await?;
                Ok(rows.into_iter().map(Row::Server).collect())
            }
        }
    }

    /// Returns the first row, if there is one.
    pub(crate) async fn first(&mut self, statement: Statement) -> Result<Option<Row>, sqlx::Error> {
        Ok(self.all(statement).await?.into_iter().next())
    }

    /// Returns the first value of the first row.
    ///
    /// # Errors
    /// Also if there is no row.
    pub(crate) async fn value<T: Stored>(&mut self, statement: Statement) -> Result<T, sqlx::Error> {
        self.first(statement).await?.ok_or(sqlx::Error::RowNotFound)?.get(0)
    }
}

/// A type that both databases store.
pub(crate) trait Stored:
    for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres>
{
}

impl<T> Stored for T where T: for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres> {}

/// A row of either database.
pub(crate) enum Row {
    File(SqliteRow),
    Server(PgRow),
}

impl Row {
    /// Returns a value by the number or the name of its column.
    pub(crate) fn get<T: Stored>(
        &self,
        column: impl ColumnIndex<SqliteRow> + ColumnIndex<PgRow>,
    ) -> Result<T, sqlx::Error> {
        match self {
            Self::File(row) => row.try_get(column),
            Self::Server(row) => row.try_get(column),
        }
    }

    /// Returns a text without a copy.
    pub(crate) fn text(&self, column: usize) -> Result<&str, sqlx::Error> {
        match self {
            Self::File(row) => row.try_get(column),
            Self::Server(row) => row.try_get(column),
        }
    }

    /// Returns bytes without a copy.
    pub(crate) fn bytes(&self, column: usize) -> Result<&[u8], sqlx::Error> {
        match self {
            Self::File(row) => row.try_get(column),
            Self::Server(row) => row.try_get(column),
        }
    }
}
