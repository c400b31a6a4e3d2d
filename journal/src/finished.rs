//! The table of finished jobs: rows in, rows out by a filter, sums over them. A report is opaque, except for the names
//! of its nodes.

use limo_model::{Energy, JobId, Money, Time};

use crate::batch::FinishedRow;
use crate::db::{Db, Dialect, Row};
use crate::error::{QueryError, ReadError};
use crate::journal::Journal;
use crate::read::job;
use crate::script::Script;
use crate::statement::Statement;

/// Filter of finished jobs. An empty list or `None` does not filter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FinishedFilter {
    /// Users who submitted the jobs.
    pub users: Vec<String>,
    /// Final states, by [`FinishedRow::state`](crate::FinishedRow::state).
    pub states: Vec<String>,
    /// Names of the jobs.
    pub names: Vec<String>,
    /// Nodes on which the jobs ran: names in the list `nodes` of the report, which must be JSON.
    pub nodes: Vec<String>,
    /// Queues of the jobs: the text `queue` of the report.
    pub queues: Vec<String>,
    /// The job whose steps are selected. Without it, no step is.
    pub steps_of: Option<JobId>,
    /// Earliest end.
    pub since: Option<Time>,
    /// First instant after the selected ends.
    pub until: Option<Time>,
}

/// A part of the list of finished jobs, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FinishedQuery {
    /// Selected jobs.
    pub filter: FinishedFilter,
    /// End and number of a job; only later rows of the list are returned.
    pub after: Option<(Time, JobId)>,
    /// Largest number of rows.
    pub limit: u32,
}

impl FinishedQuery {
    /// Selects the jobs that ended last.
    pub fn newest(limit: u32) -> Self {
        Self { limit, ..Self::default() }
    }
}

/// The grouping of sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SumBy {
    /// By user.
    User,
    /// By application, over all users.
    Application,
    /// By account, without those below it.
    Account,
    /// By job.
    Job,
    /// By the time of the end: each interval between two neighbours of this list, identified by its begin.
    Days(Vec<Time>),
    /// One sum for everything.
    Nothing,
}

/// Energy and cost of jobs that ran. Jobs that never started are in no sum.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobSum {
    /// User, application, account (empty for jobs of none), job number, or begin of a day in milliseconds; empty for a single sum.
    pub key: String,
    /// Number of jobs.
    pub jobs: u64,
    /// Energy above idle.
    pub energy: Energy,
    /// Part of `energy` modelled by emulated hardware.
    pub emulated: Energy,
    /// Part of `energy` measured by nodes.
    pub measured: Energy,
    /// Part of `energy` that was estimated. The remaining part is from jobs without a record of this.
    pub estimated: Energy,
    /// Sum over the jobs with a known cost.
    pub cost: Option<Money>,
    /// Cost that starts at submission would have had, over the jobs with a known one.
    pub start_now_cost: Option<Money>,
}

/// Quoted, because `user` is a keyword of PostgreSQL.
const SELECT: &str = "SELECT job, \"user\", name, application, state, submitted, started, ended, energy_mj, cost, \
                      start_now_cost, emulated, measured, report, step_of FROM finished";

pub(crate) fn insert(script: &mut Script, number: i64, row: &FinishedRow) {
    let text = script.dialect.insert_finished;
    script
        .add(text)
        .bind(number)
        .bind(&row.user)
        .bind(&row.name)
        .bind(&row.application)
        .bind(&row.state)
        .bind(row.submitted.unix_ms())
        .bind(row.started.map(Time::unix_ms))
        .bind(row.ended.unix_ms())
        .bind(row.energy.mj())
        .bind(row.cost.map(Money::micro))
        .bind(row.start_now_cost.map(Money::micro))
        .bind(row.emulated)
        .bind(row.measured)
        .bind(&row.report)
        .bind(row.step_of.map(|of| i64::try_from(of.0).unwrap_or(i64::MAX)));
    script.add("UPDATE submissions SET launch = NULL WHERE job = ?").bind(number);
}

async fn list(mut db: Db<'_>, query: &FinishedQuery) -> Result<Vec<FinishedRow>, ReadError> {
    let mut statement = Statement::new(SELECT);
    statement.push(" WHERE true");
    restrict(&mut statement, &query.filter, db.dialect());
    if let Some((ended, job)) = query.after {
        statement.push(" AND (ended, job) < (").push_bind(ended.unix_ms()).push(", ");
        statement.push_bind(i64::try_from(job.0).unwrap_or(i64::MAX)).push(")");
    }
    statement.push(" ORDER BY ended DESC, job DESC LIMIT ").push_bind(query.limit);
    db.all(statement).await?.iter().map(finished_row).collect()
}

async fn one(mut db: Db<'_>, job: JobId) -> Result<Option<FinishedRow>, ReadError> {
    // No database can store such a number, so no job has it.
    let Ok(number) = i64::try_from(job.0) else { return Ok(None) };
    let mut statement = Statement::new(SELECT);
    statement.push(" WHERE job = ").push_bind(number);
    db.first(statement).await?.as_ref().map(finished_row).transpose()
}

/// Returns the sums over the filtered jobs, at most `limit`: days in order, all others by descending energy.
async fn sums(mut db: Db<'_>, by: &SumBy, filter: &FinishedFilter, limit: u32) -> Result<Vec<JobSum>, ReadError> {
    let mut statement = Statement::new("");
    let key = match by {
        SumBy::User => "\"user\"",
        SumBy::Application => "application",
        SumBy::Account => db.dialect().account,
        SumBy::Job => "CAST(job AS TEXT)",
        SumBy::Days(_) => "CAST(begins AS TEXT)",
        SumBy::Nothing => "''",
    };
    if let SumBy::Days(times) = by {
        statement.push("WITH days (begins, ends) AS (VALUES ");
        for (place, pair) in times.windows(2).enumerate() {
            statement.push(if place == 0 { "(" } else { ", (" });
            statement.push_bind(pair[0].unix_ms()).push(", ").push_bind(pair[1].unix_ms()).push(")");
        }
        statement.push(") ");
    }
    statement.push(&format!("SELECT {key}, count(*), "));
    // A sum of integers is an integer in SQLite, and a decimal number in PostgreSQL.
    for part in ["", "emulated", "NOT emulated AND measured", "NOT emulated AND NOT measured"] {
        let condition = if part.is_empty() { String::new() } else { format!(" FILTER (WHERE {part})") };
        statement.push(&format!("CAST(coalesce(sum(energy_mj){condition}, 0) AS BIGINT), "));
    }
    statement.push("CAST(sum(cost) AS BIGINT), CAST(sum(start_now_cost) AS BIGINT) FROM ");
    statement.push(match by {
        SumBy::Days(_) => "days CROSS JOIN finished WHERE ended >= begins AND ended < ends AND",
        _ => "finished WHERE",
    });
    statement.push(" started IS NOT NULL");
    restrict(&mut statement, filter, db.dialect());
    match by {
        SumBy::Nothing => {}
        SumBy::Days(_) => drop(statement.push(" GROUP BY begins ORDER BY begins")),
        _ => drop(statement.push(&format!(" GROUP BY {key} ORDER BY 3 DESC, 1"))),
    }
    statement.push(" LIMIT ").push_bind(limit);
    Ok(db.all(statement).await?.iter().map(sum).collect::<Result<_, sqlx::Error>>()?)
}

fn restrict(statement: &mut Statement, filter: &FinishedFilter, dialect: &Dialect) {
    match filter.steps_of {
        Some(of) => drop(statement.push(" AND step_of = ").push_bind(i64::try_from(of.0).unwrap_or(i64::MAX))),
        None => drop(statement.push(" AND step_of IS NULL")),
    }
    for (column, values) in [("\"user\"", &filter.users), ("state", &filter.states), ("name", &filter.names)] {
        if !values.is_empty() {
            statement.push(&format!(" AND {column} IN ")).push_list(values);
        }
    }
    if !filter.nodes.is_empty() {
        statement.push(" AND ").push(dialect.has_node_in).push_list(&filter.nodes).push(")");
    }
    if !filter.queues.is_empty() {
        statement.push(" AND ").push(dialect.queue).push(" IN ").push_list(&filter.queues);
    }
    if let Some(since) = filter.since {
        statement.push(" AND ended >= ").push_bind(since.unix_ms());
    }
    if let Some(until) = filter.until {
        statement.push(" AND ended < ").push_bind(until.unix_ms());
    }
}

fn finished_row(row: &Row) -> Result<FinishedRow, ReadError> {
    let started: Option<i64> = row.get("started")?;
    Ok(FinishedRow {
        job: job(row.get("job")?)?,
        user: row.get("user")?,
        name: row.get("name")?,
        application: row.get("application")?,
        state: row.get("state")?,
        submitted: Time::from_unix_ms(row.get("submitted")?),
        started: started.map(Time::from_unix_ms),
        ended: Time::from_unix_ms(row.get("ended")?),
        energy: Energy::from_mj(row.get("energy_mj")?),
        cost: row.get::<Option<i64>>("cost")?.map(Money::from_micro),
        start_now_cost: row.get::<Option<i64>>("start_now_cost")?.map(Money::from_micro),
        emulated: row.get("emulated")?,
        measured: row.get("measured")?,
        report: row.get("report")?,
        step_of: row.get::<Option<i64>>("step_of")?.map(job).transpose()?,
    })
}

fn sum(row: &Row) -> Result<JobSum, sqlx::Error> {
    let energy = |column: usize| Ok::<_, sqlx::Error>(Energy::from_mj(row.get(column)?));
    Ok(JobSum {
        key: row.get(0)?,
        jobs: u64::try_from(row.get::<i64>(1)?).unwrap_or(0),
        energy: energy(2)?,
        emulated: energy(3)?,
        measured: energy(4)?,
        estimated: energy(5)?,
        cost: row.get::<Option<i64>>(6)?.map(Money::from_micro),
        start_now_cost: row.get::<Option<i64>>(7)?.map(Money::from_micro),
    })
}

impl Journal {
    /// Returns finished jobs, newest first.
    ///
    /// # Errors
    /// [`QueryError`] if the journal cannot be read.
    pub async fn finished(&self, query: FinishedQuery) -> Result<Vec<FinishedRow>, QueryError> {
        self.read(move |db| Box::pin(async move { list(db, &query).await })).await
    }

    /// Returns sums over the filtered finished jobs, at most `limit`: days in order, all others by descending energy.
    ///
    /// # Errors
    /// [`QueryError`] if the journal cannot be read.
    pub async fn sums(&self, by: SumBy, filter: FinishedFilter, limit: u32) -> Result<Vec<JobSum>, QueryError> {
        self.read(move |db| Box::pin(async move { sums(db, &by, &filter, limit).await })).await
    }

    /// Returns one finished job.
    ///
    /// # Errors
    /// [`QueryError`] if the journal cannot be read.
    pub async fn finished_job(&self, job: JobId) -> Result<Option<FinishedRow>, QueryError> {
        self.read(move |db| Box::pin(one(db, job))).await
    }
}
