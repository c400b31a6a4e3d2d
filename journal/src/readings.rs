//! The table of draws: rows in, rows out, rows deleted. Several processes may have seen parts of one interval, each
//! with its own row. Reading merges them.

use limo_model::{Drawn, Energy, Power, Span, Time};

use crate::batch::ReadingRow;
use crate::db::{Db, Row};
use crate::error::{QueryError, ReadError};
use crate::journal::Journal;
use crate::script::Script;
use crate::statement::Statement;

/// Rows in one statement: nine values each, and SQLite takes 32,766.
const ROWS: usize = 500;

pub(crate) fn insert(script: &mut Script, rows: &[ReadingRow]) {
    for rows in rows.chunks(ROWS) {
        let places = vec!["(?, ?, ?, ?, ?, ?, ?, ?, ?)"; rows.len()].join(", ");
        // An existing row comes from a commit that seemed to have failed, and is equal.
        script.add_made(&format!(
            "INSERT INTO readings VALUES {places} ON CONFLICT (at, node, since) DO UPDATE SET \
             mean_mw = excluded.mean_mw, low_mw = excluded.low_mw, high_mw = excluded.high_mw, \
             energy_mj = excluded.energy_mj, seen_ms = excluded.seen_ms, looks = excluded.looks"
        ));
        for ReadingRow { node, since, drawn } in rows {
            script
                .bind(drawn.at.unix_ms())
                .bind(node.as_str())
                .bind(since.unix_ms())
                .bind(drawn.mean.mw())
                .bind(drawn.low.mw())
                .bind(drawn.high.mw())
                .bind(drawn.energy.mj())
                .bind(drawn.seen.ms())
                .bind(i64::try_from(drawn.looks).unwrap_or(i64::MAX));
        }
    }
}

pub(crate) fn forget(script: &mut Script, before: Time) {
    script.add("DELETE FROM readings WHERE at < ?").bind(before.unix_ms());
}

/// Returns the intervals of one node, or of the cluster if `node` is empty, that begin in `[from, until)`: in order,
/// at most `limit`. The key leads from interval to interval, past all other nodes.
async fn between(mut db: Db<'_>, node: &str, (from, until): (Time, Time), limit: u32) -> Result<Vec<Drawn>, ReadError> {
    let statement = Statement::new(
        "WITH RECURSIVE slots(slot) AS (
             SELECT min(at) FROM readings WHERE at >= ?
             UNION ALL
             SELECT (SELECT min(at) FROM readings WHERE at > slot) FROM slots WHERE slot < ?
         )
         SELECT slot, CAST(sum(energy_mj) AS BIGINT), CAST(sum(seen_ms) AS BIGINT), min(low_mw), max(high_mw),
             CAST(sum(looks) AS BIGINT), CAST(avg(mean_mw) AS DOUBLE PRECISION)
         FROM slots CROSS JOIN readings WHERE at = slot AND slot < ? AND node = ?
         GROUP BY slot ORDER BY slot LIMIT ?",
    );
    let (from, until) = (from.unix_ms(), until.unix_ms());
    let rows = db.all(statement.bind(from).bind(until).bind(until).bind(node).bind(limit)).await?;
    Ok(rows.iter().map(drawn).collect::<Result<_, sqlx::Error>>()?)
}

/// Energy of a node in a time, including idle draw, by its meter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSum {
    /// Name of the node; empty for the believed draw of the whole cluster.
    pub node: String,
    /// Energy during [`NodeSum::seen`].
    pub energy: Energy,
    /// Part of the time for which the energy is known.
    pub seen: Span,
}

/// Returns the sum of every node with readings of intervals that begin in the range, by descending energy.
async fn by_node(mut db: Db<'_>, (since, until): (Option<Time>, Option<Time>)) -> Result<Vec<NodeSum>, ReadError> {
    let statement = Statement::new(
        "SELECT node, CAST(sum(energy_mj) AS BIGINT), CAST(sum(seen_ms) AS BIGINT) FROM readings
         WHERE at >= ? AND at < ? GROUP BY node ORDER BY 2 DESC, 1",
    );
    let (since, until) = (since.map_or(i64::MIN, Time::unix_ms), until.map_or(i64::MAX, Time::unix_ms));
    let rows = db.all(statement.bind(since).bind(until)).await?;
    let sum = |row: &Row| {
        let (energy, seen) = (Energy::from_mj(row.get(1)?), Span::from_ms(row.get(2)?));
        Ok::<_, sqlx::Error>(NodeSum { node: row.get(0)?, energy, seen })
    };
    Ok(rows.iter().map(sum).collect::<Result<_, _>>()?)
}

fn drawn(row: &Row) -> Result<Drawn, sqlx::Error> {
    let (energy, seen) = (Energy::from_mj(row.get(1)?), Span::from_ms(row.get(2)?));
    let of_looks: f64 = row.get(6)?;
    Ok(Drawn {
        at: Time::from_unix_ms(row.get(0)?),
        mean: if seen > Span::ZERO { energy.over(seen) } else { Power::from_mw(of_looks.round() as i64) },
        low: Power::from_mw(row.get(3)?),
        high: Power::from_mw(row.get(4)?),
        energy,
        seen,
        looks: u64::try_from(row.get::<i64>(5)?).unwrap_or(0),
    })
}

impl Journal {
    /// Returns the draw of a node, or of the cluster if `node` is empty, in the intervals that begin in `[from,
    /// until)`: in order, at most `limit`.
    ///
    /// # Errors
    /// [`QueryError`] if the journal cannot be read.
    pub async fn readings(&self, node: &str, range: (Time, Time), limit: u32) -> Result<Vec<Drawn>, QueryError> {
        let node = node.to_owned();
        self.read(move |db| Box::pin(async move { between(db, &node, range, limit).await })).await
    }

    /// Returns the draw of each node in the intervals that begin in `[since, until)`, by descending energy.
    ///
    /// # Errors
    /// [`QueryError`] if the journal cannot be read.
    pub async fn drawn(&self, range: (Option<Time>, Option<Time>)) -> Result<Vec<NodeSum>, QueryError> {
        self.read(move |db| Box::pin(by_node(db, range))).await
    }
}
