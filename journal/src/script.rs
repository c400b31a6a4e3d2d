//! Several statements that go to the database together. Each trip to the thread of a connection and back wakes two
//! threads, which takes longer than most statements. With a script, a small transaction takes one trip to a file. A
//! server gets one statement at a time. Independent of tables.

use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, PgConnection, SqliteConnection};

use crate::db::{Dialect, POSTGRES, SQLITE};
use crate::server::within;
use crate::statement::{Statement, Value, add_to_sqlite, for_postgres, numbered};

/// Most statements of one trip. For each statement that it compiles, SQLite copies all of the following text.
const TOGETHER: usize = 64;

/// Largest number of statements in a script that is kept compiled. A busy hour has few kinds of scripts of this size.
const KEPT: usize = 10;

/// Statements in their order, with their values.
pub(crate) struct Script {
    statements: Vec<Statement>,
    pub(crate) dialect: &'static Dialect,
}

impl Script {
    pub(crate) fn for_file() -> Self {
        Self { statements: Vec::new(), dialect: &SQLITE }
    }

    pub(crate) fn for_server() -> Self {
        Self { statements: Vec::new(), dialect: &POSTGRES }
    }

    /// Adds a statement, whose values follow. Its text is a constant of this program.
    pub(crate) fn add(&mut self, statement: &'static str) -> &mut Self {
        self.statements.push(Statement::new(statement));
        self
    }

    /// Adds a statement with a text made of constants of this program.
    pub(crate) fn add_made(&mut self, statement: &str) -> &mut Self {
        self.add("");
        if let Some(last) = self.statements.last_mut() {
            last.push(statement);
        }
        self
    }

    /// Binds the next value of the last statement.
    pub(crate) fn bind(&mut self, value: impl Into<Value>) -> &mut Self {
        if let Some(last) = self.statements.last_mut() {
            last.values.push(value.into());
        }
        self
    }

    /// Runs all statements on a file, up to the first that fails.
    pub(crate) async fn run(self, conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let mut statements = self.statements.into_iter().peekable();
        while statements.peek().is_some() {
            let (mut text, mut arguments, mut count) = (String::new(), SqliteArguments::default(), 0);
            for statement in statements.by_ref().take(TOGETHER) {
                text.push_str(&statement.text);
                text.push_str(";\n");
                add_to_sqlite(&mut arguments, statement.values)?;
                count += 1;
            }
            let query = sqlx::query_with(AssertSqlSafe(text), arguments).persistent(count <= KEPT);
            query.execute(&mut *conn).await?;
        }
        Ok(())
    }

    /// Runs all statements on a server, up to the first that fails. The script can be run again.
    pub(crate) async fn run_on_server(&self, conn: &mut PgConnection) -> Result<(), sqlx::Error> {
        for Statement { text, values, is_constant } in &self.statements {
            let query = sqlx::query_with(AssertSqlSafe(numbered(text)), for_postgres(values)?);
            within(query.persistent(*is_constant).execute(&mut *conn)).await?;
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
        let mut script = Script::for_file();
        script.add("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)").add("BEGIN");
        for number in 0..200 {
            script.add("INSERT INTO t VALUES (?, ?)").bind(i64::from(number)).bind(format!("row {number}"));
        }
        script.add("DELETE FROM t WHERE a >= ?").bind(199_i64).add("COMMIT");
        script.run(&mut conn).await.expect("done");
        assert_eq!(numbers(&mut conn).await, (0..199).collect::<Vec<_>>());
        let text: String =
            sqlx::query_scalar("SELECT b FROM t WHERE a = 150").fetch_one(&mut conn).await.expect("there");
        assert_eq!(text, "row 150");
        let mut script = Script::for_file();
        script.add("BEGIN").add("INSERT INTO t VALUES (?, 'x')").bind(500_i64);
        script.add("INSERT INTO t VALUES (?, 'twice')").bind(7_i64).add("COMMIT");
        assert!(script.run(&mut conn).await.is_err());
        sqlx::query("ROLLBACK").execute(&mut conn).await.expect("still in the transaction");
        assert_eq!(numbers(&mut conn).await.len(), 199);
        conn.close().await.expect("closed");
    }
}
