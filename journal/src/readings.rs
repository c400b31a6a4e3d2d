//! The table of draws: rows in, rows out, rows deleted. Several processes may have seen parts of one interval, each
//! with its own row. Reading merges them.

use limo_model::{Drawn, Energy, Power, Span, Time};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::batch::ReadingRow;
use crate::error::{QueryError, ReadError};
use crate::journal::Journal;
use crate::script::Script;

/// Rows in one statement: nine values each, and SQLite takes 32,766.
const ROWS: usize = 500;

pub(crate) fn insert(script: &mut Script, rows: &[ReadingRow]) {
    for rows in rows.chunks(ROWS) {
        let places = vec!["(?, ?, ?, ?, ?, ?, ?, ?, ?)"; rows.len()].join(", ");
        // An existing row comes from a commit that seemed to have failed, and is equal.
        script.add_made(&format!("INSERT OR REPLACE INTO readings VALUES {places}"));
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
async fn between(
    conn: &mut SqliteConnection,
    node: &str,
    (from, until): (Time, Time),
    limit: u32,
) -> Result<Vec<Drawn>, ReadError> {
    let rows = sqlx::query(
        "WITH RECURSIVE slots(slot) AS (
             SELECT min(at) FROM readings WHERE at >= ?1
             UNION ALL
             SELECT (SELECT min(at) FROM readings WHERE at > slot) FROM slots WHERE slot < ?2
         )
         SELECT at, sum(energy_mj), sum(seen_ms), min(low_mw), max(high_mw), sum(looks), avg(mean_mw)
         FROM slots CROSS JOIN readings ON at = slot WHERE slot < ?2 AND node = ?3
         GROUP BY slot ORDER BY slot LIMIT ?4",
    )
    .bind(from.unix_ms())
    .bind(until.unix_ms())
    .bind(node)
    .bind(limit)
    .fetch_all(conn)
    .await?;
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
async fn by_node(
    conn: &mut SqliteConnection,
    (since, until): (Option<Time>, Option<Time>),
) -> Result<Vec<NodeSum>, ReadError> {
    let rows = sqlx::query(
        "SELECT node, sum(energy_mj), sum(seen_ms) FROM readings WHERE at >= ? AND at < ?
         GROUP BY node ORDER BY 2 DESC, 1",
    )
    .bind(since.map_or(i64::MIN, Time::unix_ms))
    .bind(until.map_or(i64::MAX, Time::unix_ms))
    .fetch_all(conn)
    .await?;
    let sum = |row: &SqliteRow| {
        let (energy, seen) = (Energy::from_mj(row.try_get(1)?), Span::from_ms(row.try_get(2)?));
        Ok::<_, sqlx::Error>(NodeSum { node: row.try_get(0)?, energy, seen })
    };
    Ok(rows.iter().map(sum).collect::<Result<_, _>>()?)
}

fn drawn(row: &SqliteRow) -> Result<Drawn, sqlx::Error> {
    let (energy, seen) = (Energy::from_mj(row.try_get(1)?), Span::from_ms(row.try_get(2)?));
    let of_looks: f64 = row.try_get(6)?;
    Ok(Drawn {
        at: Time::from_unix_ms(row.try_get(0)?),
        mean: if seen > Span::ZERO { energy.over(seen) } else { Power::from_mw(of_looks.round() as i64) },
        low: Power::from_mw(row.try_get(3)?),
        high: Power::from_mw(row.try_get(4)?),
        energy,
        seen,
        looks: u64::try_from(row.try_get::<i64, _>(5)?).unwrap_or(0),
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
        self.read(move |conn| Box::pin(async move { between(conn, &node, range, limit).await })).await
    }

    /// Returns the draw of each node in the intervals that begin in `[since, until)`, by descending energy.
    ///
    /// # Errors
    /// [`QueryError`] if the journal cannot be read.
    pub async fn drawn(&self, range: (Option<Time>, Option<Time>)) -> Result<Vec<NodeSum>, QueryError> {
        self.read(move |conn| Box::pin(by_node(conn, range))).await
    }
}
