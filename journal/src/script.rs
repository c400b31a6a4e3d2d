//! Several statements that go to the database together. Each trip to the thread of a connection and back wakes two
//! threads, which takes longer than most statements. With a script, a small transaction takes one trip. Independent
//! of tables.

use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, AssertSqlSafe, Encode, Sqlite, SqliteConnection, Type};

/// Most statements of one trip. For each statement that it compiles, SQLite copies all of the following text.
const TOGETHER: usize = 64;

/// Largest number of statements in a script that is kept compiled. A busy hour has few kinds of scripts of this size.
const KEPT: usize = 10;

#[derive(Default)]
struct Trip {
    text: String,
    arguments: SqliteArguments,
    statements: usize,
}

/// Statements in their order, with their values.
#[derive(Default)]
pub(crate) struct Script {
    trips: Vec<Trip>,
    /// Error of a value that could not be bound; the script is then not run.
    failed: Option<sqlx::Error>,
}

impl Script {
    /// Adds a statement, whose values follow. Its text is a constant of this program.
    pub(crate) fn add(&mut self, statement: &'static str) -> &mut Self {
        self.add_made(statement)
    }

    /// Adds a statement with a text made of constants of this program.
    pub(crate) fn add_made(&mut self, statement: &str) -> &mut Self {
        if self.trips.last().is_none_or(|trip| trip.statements == TOGETHER) {
            self.trips.push(Trip::default());
        }
        if let Some(trip) = self.trips.last_mut() {
            trip.text.push_str(statement);
            trip.text.push_str(";\n");
            trip.statements += 1;
        }
        self
    }

    /// Binds the next value of the last statement.
    pub(crate) fn bind<'q, T: Encode<'q, Sqlite> + Type<Sqlite>>(&mut self, value: T) -> &mut Self {
        if let Some(trip) = self.trips.last_mut()
            && let Err(error) = trip.arguments.add(value)
        {
            self.failed = Some(sqlx::Error::Encode(error));
        }
        self
    }

    /// Runs all statements, up to the first that fails.
    pub(crate) async fn run(self, conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        for Trip { text, arguments, statements } in self.trips {
            let query = sqlx::query_with(AssertSqlSafe(text), arguments).persistent(statements <= KEPT);
            query.execute(&mut *conn).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sqlx::{ConnectOptions, Connection};

    use super::*;

    async fn numbers(conn: &mut SqliteConnection) -> Vec<i64> {
        sqlx::query_scalar("SELECT a FROM t ORDER BY a").fetch_all(conn).await.expect("rows")
    }

    #[tokio::test]
    async fn each_statement_has_its_own_values_and_the_first_failure_ends_it() {
        let options = sqlx::sqlite::SqliteConnectOptions::new().in_memory(true);
        let mut conn = options.connect().await.expect("a database");
        let mut script = Script::default();
        script.add("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)").add("BEGIN");
        for number in 0..200 {
            script.add("INSERT INTO t VALUES (?, ?)").bind(number).bind(format!("row {number}"));
        }
        script.add("DELETE FROM t WHERE a >= ?").bind(199).add("COMMIT");
        script.run(&mut conn).await.expect("done");
        assert_eq!(numbers(&mut conn).await, (0..199).collect::<Vec<_>>());
        let text: String =
            sqlx::query_scalar("SELECT b FROM t WHERE a = 150").fetch_one(&mut conn).await.expect("there");
        assert_eq!(text, "row 150");
        let mut script = Script::default();
        script.add("BEGIN").add("INSERT INTO t VALUES (?, 'x')").bind(500);
        script.add("INSERT INTO t VALUES (?, 'twice')").bind(7).add("COMMIT");
        assert!(script.run(&mut conn).await.is_err());
        sqlx::query("ROLLBACK").execute(&mut conn).await.expect("still in the transaction");
        assert_eq!(numbers(&mut conn).await.len(), 199);
        conn.close().await.expect("closed");
    }
}
