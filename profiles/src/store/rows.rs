//! Statements of the profile database. Each function is part of its caller's transaction.

use limo_model::{Energy, EstimateSource, JobId, Power, Profile, ProfileKey, Span};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::{LEARNED_WINS, Run, StoreError};
use crate::statistics::{Measurement, WINDOW, profile, surest};

/// Notes that a run of `job` is learned; returns `false` if it was learned before.
pub(super) async fn first_time(conn: &mut SqliteConnection, job: JobId) -> Result<bool, StoreError> {
    let number = i64::try_from(job.0).map_err(|_| StoreError::Job { job })?;
    let inserted = sqlx::query("INSERT INTO jobs VALUES (?) ON CONFLICT DO NOTHING").bind(number).execute(conn).await?;
    Ok(inserted.rows_affected() > 0)
}

/// Returns the stored form of a cap.
fn stored(cap: Option<Power>) -> i64 {
    cap.map_or(-1, Power::mw)
}

/// Returns the stored form of a number of cores or nodes.
fn count(number: Option<u32>) -> u32 {
    number.unwrap_or(0)
}

/// Returns the row of a key; creates it if it is missing.
pub(super) async fn key_id(conn: &mut SqliteConnection, key: &ProfileKey) -> Result<i64, StoreError> {
    // This update changes nothing, and is needed only to return the row either way.
    let id = sqlx::query_scalar(
        "INSERT INTO keys (application, size, hardware, cores, nodes, cap_mw) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET learned = learned RETURNING id",
    );
    let id = id.bind(&key.application).bind(&key.size).bind(&key.hardware);
    let id = id.bind(count(key.cores)).bind(count(key.nodes)).bind(stored(key.cap));
    Ok(id.fetch_one(conn).await?)
}

/// Returns all keys, in order.
pub(super) async fn keys(conn: &mut SqliteConnection) -> Result<Vec<(i64, ProfileKey)>, StoreError> {
    let rows = sqlx::query("SELECT * FROM keys ORDER BY application, size, hardware, cores, nodes, cap_mw");
    let rows = rows.fetch_all(conn).await?;
    rows.iter().map(|row| key(row).map_err(StoreError::from)).collect()
}

fn key(row: &SqliteRow) -> Result<(i64, ProfileKey), sqlx::Error> {
    let cap: i64 = row.try_get("cap_mw")?;
    let key = ProfileKey {
        application: row.try_get("application")?,
        size: row.try_get("size")?,
        hardware: row.try_get("hardware")?,
        cores: Some(row.try_get("cores")?).filter(|cores| *cores > 0),
        nodes: Some(row.try_get("nodes")?).filter(|nodes| *nodes > 0),
        cap: (cap >= 0).then(|| Power::from_mw(cap)),
    };
    Ok((row.try_get("id")?, key))
}

/// Adds a run, and removes those that have left the window.
pub(super) async fn add_run(conn: &mut SqliteConnection, key: i64, run: &Run) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO runs (key, duration_ms, power_mw, energy_mj, confidence) VALUES (?, ?, ?, ?, ?)")
        .bind(key)
        .bind(run.duration.ms())
        .bind(run.power.mw())
        .bind(run.energy.mj())
        .bind(run.confidence)
        .execute(&mut *conn)
        .await?;
    let old = sqlx::query(
        "DELETE FROM runs WHERE ordinal IN
         (SELECT ordinal FROM runs WHERE key = ? ORDER BY ordinal DESC LIMIT -1 OFFSET ?)",
    );
    old.bind(key).bind(WINDOW as i64).execute(&mut *conn).await?;
    sqlx::query("UPDATE keys SET learned = learned + 1 WHERE id = ?").bind(key).execute(conn).await?;
    Ok(())
}

/// Replaces the imported profile of a key.
pub(super) async fn import(conn: &mut SqliteConnection, key: i64, profile: &Profile) -> Result<(), StoreError> {
    sqlx::query("INSERT OR REPLACE INTO imported VALUES (?, ?, ?, ?, ?, ?)")
        .bind(key)
        .bind(profile.duration.ms())
        .bind(profile.power.mw())
        .bind(profile.energy.mj())
        .bind(profile.spread_permille)
        .bind(profile.runs)
        .execute(conn)
        .await?;
    Ok(())
}

/// Returns the profile in force for a key.
pub(super) async fn in_force(conn: &mut SqliteConnection, key: i64) -> Result<Option<Profile>, StoreError> {
    let learned = learned(conn, key).await?;
    if learned.is_some_and(|profile| profile.runs >= LEARNED_WINS) {
        return Ok(learned);
    }
    let row = sqlx::query("SELECT * FROM imported WHERE key = ?").bind(key).fetch_optional(conn).await?;
    let imported = row.as_ref().map(imported).transpose()?;
    Ok(imported.or(learned))
}

async fn learned(conn: &mut SqliteConnection, key: i64) -> Result<Option<Profile>, StoreError> {
    let rows = sqlx::query("SELECT duration_ms, power_mw, energy_mj, confidence FROM runs WHERE key = ?").bind(key);
    let rows = rows.fetch_all(&mut *conn).await?;
    let window = rows.iter().map(sure).collect::<Result<Vec<_>, _>>()?;
    let window = surest(&window);
    let total: i64 = sqlx::query_scalar("SELECT learned FROM keys WHERE id = ?").bind(key).fetch_one(conn).await?;
    Ok(profile(&window, u32::try_from(total).unwrap_or(u32::MAX)))
}

fn sure(row: &SqliteRow) -> Result<(Measurement, u16), sqlx::Error> {
    Ok((measurement(row)?, row.try_get("confidence")?))
}

fn measurement(row: &SqliteRow) -> Result<Measurement, sqlx::Error> {
    Ok(Measurement {
        duration: Span::from_ms(row.try_get("duration_ms")?),
        power: Power::from_mw(row.try_get("power_mw")?),
        energy: Energy::from_mj(row.try_get("energy_mj")?),
    })
}

fn imported(row: &SqliteRow) -> Result<Profile, sqlx::Error> {
    let Measurement { duration, power, energy } = measurement(row)?;
    Ok(Profile {
        duration,
        power,
        energy,
        spread_permille: row.try_get("spread_permille")?,
        runs: row.try_get("runs")?,
        source: EstimateSource::Imported,
    })
}

/// Deletes a key with all of its rows.
pub(super) async fn forget(conn: &mut SqliteConnection, key: &ProfileKey) -> Result<bool, StoreError> {
    let row = sqlx::query(
        "DELETE FROM keys
         WHERE application = ? AND size = ? AND hardware = ? AND cores = ? AND nodes = ? AND cap_mw = ?",
    );
    let row = row.bind(&key.application).bind(&key.size).bind(&key.hardware);
    let row = row.bind(count(key.cores)).bind(count(key.nodes)).bind(stored(key.cap));
    Ok(row.execute(conn).await?.rows_affected() > 0)
}
