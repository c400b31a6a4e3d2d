//! The way of a caller of the web server to the controller: an ordinary connection of a client, for the user whom the
//! kernel names. So limits, privacy and the audit are those of every client.

use axum::http::StatusCode;
use limo_proto::{ClientToMaster, Connection, MasterToClient, Principal, Role, Socket, connect_over};
use tokio::net::UnixStream;
use tokio::runtime::Handle;

use super::{ApiError, WebCaller};
use crate::listen::Door;

/// A connection of the web server to the controller.
pub type Line = Connection<MasterToClient, ClientToMaster>;

/// Opens connections for users.
pub struct Entrance {
    door: Door,
    /// The runtime of the master's loop, in which the other end is served.
    runtime: Handle,
}

impl Entrance {
    pub fn new(door: Door, runtime: Handle) -> Self {
        Self { door, runtime }
    }

    /// Connects for the user who calls.
    ///
    /// # Errors
    /// If the kernel knows no user, the user has too many connections, or the master is stopping.
    pub async fn connect(&self, caller: &WebCaller) -> Result<Line, ApiError> {
        let unknown =
            || ApiError::new(StatusCode::FORBIDDEN, "the kernel knows no user of this machine for the caller");
        let socket = self.socket(caller.user.ok_or_else(unknown)?);
        let socket = socket.map_err(|error| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
        let refused =
            |error: limo_proto::ConnectionError| ApiError::new(StatusCode::TOO_MANY_REQUESTS, error.to_string());
        connect_over(socket, Role::Client).await.map_err(refused)
    }

    fn socket(&self, user: Principal) -> std::io::Result<Socket> {
        let outer = {
            let _inside = self.runtime.enter();
            self.door.let_in(user)?
        };
        Ok(UnixStream::from_std(outer)?.into())
    }
}
