//! Copies all rows of a journal to another database, of either kind, page by page in the order of the keys.

use std::path::{Path, PathBuf};

use sqlx::{ConnectOptions, PgConnection, SqliteConnection};

use crate::db::{Db, Row};
use crate::directory::{Claim, LOCK_PATIENCE, claim, prepare_file};
use crate::error::{OpenError, TransferError};
use crate::schema;
use crate::server::lease::{self, Attempted};
use crate::server::schema::{self as server_schema, Server};
use crate::server::within;
use crate::statement::{Statement, Value};

/// Rows of a page; an entry may be 100 KiB.
const PAGE: i64 = 200;

#[derive(Debug, Clone, Copy)]
enum Kind {
    Int,
    Text,
    Bytes,
    Bool,
}

use Kind::{Bool, Bytes, Int, Text};

/// A table of both databases.
struct Table {
    name: &'static str,
    /// Columns, beginning with those of the key.
    columns: &'static [(&'static str, Kind)],
    key: usize,
}

const TABLES: [Table; 9] = [
    Table { name: "entries", columns: &[("seq", Int), ("at", Int), ("kind", Text), ("body", Text)], key: 1 },
    Table { name: "snapshots", columns: &[("seq", Int), ("body", Text)], key: 1 },
    Table { name: "submissions", columns: &[("job", Int), ("key", Bytes), ("uid", Int), ("launch", Bytes)], key: 1 },
    Table {
        name: "finished",
        columns: &[
            ("job", Int),
            ("\"user\"", Text),
            ("name", Text),
            ("application", Text),
            ("state", Text),
            ("submitted", Int),
            ("started", Int),
            ("ended", Int),
            ("energy_mj", Int),
            ("cost", Int),
            ("start_now_cost", Int),
            ("emulated", Bool),
            ("measured", Bool),
            ("report", Text),
            ("step_of", Int),
        ],
        key: 1,
    },
    Table {
        name: "readings",
        columns: &[
            ("at", Int),
            ("node", Text),
            ("since", Int),
            ("mean_mw", Int),
            ("low_mw", Int),
            ("high_mw", Int),
            ("energy_mj", Int),
            ("seen_ms", Int),
            ("looks", Int),
        ],
        key: 3,
    },
    Table {
        name: "states",
        columns: &[
            ("at", Int),
            ("node", Text),
            ("state", Text),
            ("since", Int),
            ("span_ms", Int),
            ("energy_mj", Int),
            ("seen_ms", Int),
        ],
        key: 4,
    },
    Table {
        name: "changes",
        columns: &[
            ("number", Int),
            ("item", Int),
            ("at", Int),
            ("by", Text),
            ("undo_of", Int),
            ("subject", Text),
            ("body", Text),
        ],
        key: 2,
    },
    Table { name: "nodes", columns: &[("name", Text), ("instance", Text), ("boot", Text)], key: 1 },
    Table { name: "kept", columns: &[("name", Text), ("body", Text)], key: 1 },
];

/// A journal without a master.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// The file in a state directory.
    Directory(PathBuf),
    /// A database of a server.
    Server(Server),
}

impl Place {
    /// Reads `postgres://...`, or else the path of a state directory.
    ///
    /// # Errors
    /// If the address of a server is invalid.
    pub fn read(text: &str) -> Result<Self, String> {
        if Server::is_meant(text) { text.parse().map(Self::Server) } else { Ok(Self::Directory(text.into())) }
    }
}

/// An open journal that no master uses.
enum Held {
    /// The claim is dropped last.
    File(Box<SqliteConnection>, #[expect(dead_code, reason = "held until the end")] Option<Claim>),
    Server(Box<PgConnection>, i64),
}

impl Held {
    /// Opens the journal; an earlier file gets the present tables. `claimed` is a directory that is locked already.
    async fn open(place: &Place, claimed: Option<&Path>) -> Result<Self, TransferError> {
        match place {
            Place::Directory(dir) => {
                let claim = if claimed == Some(dir) { None } else { Some(claim(dir, LOCK_PATIENCE)?) };
                let path = dir.join(schema::FILE);
                prepare_file(&path).map_err(|source| OpenError::Directory { dir: dir.clone(), source })?;
                let connected = schema::writing(&path).connect().await;
                let mut conn = connected.map_err(|error| OpenError::from_sqlite(&error, &path))?;
                schema::prepare(&mut conn, &path).await?;
                Ok(Self::File(Box::new(conn), claim))
            }
            Place::Server(server) => {
                let mut conn = server.connect().await.map_err(|error| server.failed(&error))?;
                server_schema::prepare(&mut conn, server).await?;
                match lease::take(&mut conn, "a transfer of the journal").await? {
                    Attempted::Taken(epoch, _) => Ok(Self::Server(Box::new(conn), epoch)),
                    Attempted::HeldBy(holder) => Err(TransferError::InUse { holder }),
                }
            }
        }
    }

    fn directory(place: &Place) -> Option<&Path> {
        match place {
            Place::Directory(dir) => Some(dir),
            Place::Server(_) => None,
        }
    }

    fn db(&mut self) -> Db<'_> {
        match self {
            Self::File(conn, _) => Db::File(conn),
            Self::Server(conn, _) => Db::Server(conn),
        }
    }

    async fn raw(&mut self, text: &'static str) -> Result<(), sqlx::Error> {
        match self {
            Self::File(conn, _) => sqlx::raw_sql(text).execute(&mut **conn).await.map(drop),
            Self::Server(conn, _) => within(sqlx::raw_sql(text).execute(&mut **conn)).await.map(drop),
        }
    }

    /// Begins a transaction. On a server it locks the lease, so that no master can take it meanwhile.
    async fn begin(&mut self) -> Result<(), TransferError> {
        self.raw("BEGIN").await?;
        if let Self::Server(conn, epoch) = self
            && lease::advance(conn, *epoch).await?.is_none()
        {
            return Err(TransferError::InUse { holder: "another master".into() });
        }
        Ok(())
    }

    /// Returns the generation, which is the epoch on a server.
    async fn generation(&mut self) -> Result<i64, sqlx::Error> {
        let text = match self {
            Self::File(..) => "SELECT generation FROM meta",
            Self::Server(..) => "SELECT epoch FROM lease",
        };
        self.db().value(Statement::new(text)).await
    }

    /// Raises the generation to at least `least`, and on a server gives the lease back.
    async fn finish(&mut self, least: i64) -> Result<(), sqlx::Error> {
        let text = match self {
            Self::File(..) => "UPDATE meta SET generation = max(generation, ?)",
            Self::Server(..) => "UPDATE lease SET epoch = greatest(epoch, ?), renewed_at = to_timestamp(0)",
        };
        self.db().all(Statement::new(text).bind(least)).await?;
        self.raw("COMMIT").await
    }

    /// Undoes everything, and gives a lease back. If that fails, the lease runs out by itself.
    async fn give_back(&mut self) {
        let _ = self.raw("ROLLBACK").await;
        if let Self::Server(conn, epoch) = self {
            let _ = lease::give_back(conn, *epoch).await;
        }
    }
}

/// Moves a journal to an empty place. No master may use either. The moved journal is the same one for nodes. What stays
/// in the old place is a copy: a master that opens it begins a new incarnation. Returns the number of rows.
///
/// # Errors
/// [`TransferError`] if one of the places is in use, the new one is not empty, or a row cannot be read or written. Nothing is
/// changed then.
pub async fn transfer(from: &Place, to: &Place) -> Result<u64, TransferError> {
    let mut source = Held::open(from, None).await?;
    let mut target = match Held::open(to, Held::directory(from)).await {
        Ok(target) => target,
        Err(error) => {
            source.give_back().await;
            return Err(error);
        }
    };
    let moved = move_rows(&mut source, &mut target).await;
    if moved.is_err() {
        target.give_back().await;
        source.give_back().await;
    }
    moved
}

async fn move_rows(source: &mut Held, target: &mut Held) -> Result<u64, TransferError> {
    source.begin().await?;
    target.begin().await?;
    let occupied = "SELECT (SELECT count(*) FROM entries) + (SELECT count(*) FROM submissions)";
    if target.db().value::<i64>(Statement::new(occupied)).await? > 0 {
        return Err(TransferError::Occupied);
    }
    let mut rows = 0;
    for table in &TABLES {
        rows += copy(table, source.db(), target.db()).await?;
    }
    let row = source.db().first(Statement::new("SELECT cluster, incarnation, begun FROM meta")).await?;
    let row = row.ok_or(sqlx::Error::RowNotFound)?;
    let meta = Statement::new("UPDATE meta SET cluster = ?, incarnation = ?, begun = ?");
    let meta = meta.bind(row.bytes(0)?).bind(row.get::<i64>(1)?).bind(row.get::<bool>(2)?);
    target.db().all(meta).await?;
    let generation = source.generation().await?;
    source.db().all(Statement::new("UPDATE meta SET begun = ?").bind(false)).await?;
    // After a crash between the two commits, both journals are whole.
    target.finish(generation).await?;
    source.finish(generation).await?;
    Ok(rows)
}

async fn copy(table: &Table, mut from: Db<'_>, mut to: Db<'_>) -> Result<u64, TransferError> {
    let Table { name, columns, key } = table;
    let names = |columns: &[(&str, Kind)]| columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let (all, keys) = (names(columns), names(&columns[..*key]));
    // A column of earlier versions, which exists in files only.
    let (more, constant) =
        if *name == "finished" && matches!(to, Db::File(_)) { (", cost_micro", ", 0") } else { ("", "") };
    let (mut copied, mut after) = (0, None::<Vec<Value>>);
    loop {
        let mut page = Statement::new("SELECT ");
        page.push(&all).push(" FROM ").push(name);
        if let Some(after) = after.take() {
            push_row(page.push(" WHERE (").push(&keys).push(") > "), after, "");
        }
        page.push(" ORDER BY ").push(&keys).push(" LIMIT ").push_bind(PAGE);
        let rows = from.all(page).await?;
        if rows.is_empty() {
            return Ok(copied);
        }
        copied += rows.len() as u64;
        let mut insert = Statement::new("INSERT INTO ");
        insert.push(name).push(" (").push(&all).push(more).push(") VALUES ");
        for (place, row) in rows.iter().enumerate() {
            let mut values = Vec::with_capacity(columns.len());
            for (column, (_, kind)) in columns.iter().enumerate() {
                values.push(value(row, column, *kind)?);
            }
            after = Some(values[..*key].to_vec());
            push_row(insert.push(if place == 0 { "" } else { ", " }), values, constant);
        }
        to.all(insert).await?;
    }
}

/// Appends values in parentheses, with a further constant.
fn push_row(statement: &mut Statement, values: Vec<Value>, constant: &str) {
    statement.push("(");
    for (place, value) in values.into_iter().enumerate() {
        statement.push(if place == 0 { "" } else { ", " }).push_bind(value);
    }
    statement.push(constant).push(")");
}

fn value(row: &Row, column: usize, kind: Kind) -> Result<Value, sqlx::Error> {
    Ok(match kind {
        Int => Value::Int(row.get(column)?),
        Text => Value::Text(row.get(column)?),
        Bytes => Value::Bytes(row.get(column)?),
        Bool => Value::Bool(row.get(column)?),
    })
}
