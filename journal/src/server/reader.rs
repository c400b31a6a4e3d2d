//! Answers questions from a separate connection to the server, which cannot write.

use sqlx::{Connection, PgConnection};
use tokio::sync::mpsc::UnboundedReceiver;

use super::schema::Server;
use super::within;
use crate::db::Db;
use crate::reader::Question;

/// Setting of the connection.
const READ_ONLY: &str = "SET default_transaction_read_only = on";

pub(crate) async fn serve(server: Server, mut questions: UnboundedReceiver<Question>) {
    let mut conn: Option<PgConnection> = None;
    while let Some(question) = questions.recv().await {
        if let Some(open) = &mut conn
            && within(open.ping()).await.is_err()
        {
            conn = None;
        }
        if conn.is_none() {
            conn = match open(&server).await {
                Ok(opened) => Some(opened),
                Err(error) => {
                    tracing::warn!(%error, %server, "cannot read the journal");
                    None
                }
            };
        }
        // Without a connection, the caller gets the error that the journal is closed.
        if let Some(conn) = &mut conn {
            question(Db::Server(conn)).await;
        }
    }
    if let Some(conn) = conn {
        let _ = conn.close().await;
    }
}

async fn open(server: &Server) -> Result<PgConnection, sqlx::Error> {
    let mut conn = within(server.connect()).await?;
    sqlx::raw_sql(READ_ONLY).execute(&mut conn).await?;
    Ok(conn)
}
