//! The table of the states of nodes. Several processes may have seen parts of one hour, each with its own rows.

use limo_model::{Energy, Span, Time};

use crate::batch::StateRow;
use crate::db::{Db, Row};
use crate::error::{QueryError, ReadError};
use crate::journal::Journal;
use crate::script::Script;
use crate::statement::Statement;

/// Rows in one statement: seven values each, and SQLite takes 32,766.
const ROWS: usize = 500;

pub(crate) fn insert(script: &mut Script, rows: &[StateRow]) {
    for rows in rows.chunks(ROWS) {
        let places = vec!["(?, ?, ?, ?, ?, ?, ?)"; rows.len()].join(", ");
        script.add_made(&format!(
            "INSERT INTO states VALUES {places} ON CONFLICT (at, node, state, since) DO UPDATE SET \
             span_ms = excluded.span_ms, energy_mj = excluded.energy_mj, seen_ms = excluded.seen_ms"
        ));
        for StateRow { at, node, state, since, span, energy, seen } in rows {
            script
                .bind(at.unix_ms())
                .bind(node.as_str())
                .bind(state.name())
                .bind(since.unix_ms())
                .bind(span.ms())
                .bind(energy.mj())
                .bind(seen.ms());
        }
    }
}

pub(crate) fn forget(script: &mut Script, before: Time) {
    script.add("DELETE FROM states WHERE at < ?").bind(before.unix_ms());
}

/// Time and energy of nodes in a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateSum {
    /// Name of the state.
    pub state: String,
    /// Time in the state, over all nodes.
    pub span: Span,
    /// Energy by the meters of the nodes, during `seen`.
    pub energy: Energy,
    /// Part of the time for which the energy is known.
    pub seen: Span,
}

async fn by_state(
    mut db: Db<'_>,
    nodes: &[String],
    (since, until): (Option<Time>, Option<Time>),
) -> Result<Vec<StateSum>, ReadError> {
    let mut query = Statement::new(
        "SELECT state, CAST(sum(span_ms) AS BIGINT), CAST(sum(energy_mj) AS BIGINT), CAST(sum(seen_ms) AS BIGINT) \
         FROM states",
    );
    query.push(" WHERE at >= ").push_bind(since.map_or(i64::MIN, Time::unix_ms));
    query.push(" AND at < ").push_bind(until.map_or(i64::MAX, Time::unix_ms));
    if !nodes.is_empty() {
        query.push(" AND node IN ").push_list(nodes);
    }
    query.push(" GROUP BY state ORDER BY 3 DESC, 2 DESC, 1");
    let rows = db.all(query).await?;
    let sum = |row: &Row| {
        let [span, seen] = [row.get(1)?, row.get(3)?].map(Span::from_ms);
        let energy = Energy::from_mj(row.get(2)?);
        Ok::<_, sqlx::Error>(StateSum { state: row.get(0)?, span, energy, seen })
    };
    Ok(rows.iter().map(sum).collect::<Result<_, _>>()?)
}

impl Journal {
    /// Returns the time and the energy in each state during the hours that begin in `[since, until)`, by descending energy:
    /// of these nodes, or of all nodes if there are none.
    ///
    /// # Errors
    /// [`QueryError`] if the journal cannot be read.
    pub async fn states(
        &self,
        nodes: Vec<String>,
        range: (Option<Time>, Option<Time>),
    ) -> Result<Vec<StateSum>, QueryError> {
        self.read(move |db| Box::pin(async move { by_state(db, &nodes, range).await })).await
    }
}
