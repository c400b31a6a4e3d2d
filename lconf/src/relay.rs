//! `lconf cluster relay`: serves the users of a submit host. Accepts them on a Unix socket, where the kernel names them,
//! and passes their requests on to the master, each over its own connection. Decides nothing: the master does not accept
//! every user.

use std::collections::HashMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use limo_client::{AskError, Failure, Master, tell};
use limo_proto::{
    ClientToMaster, Connection, ConnectionError, Frame, MasterToClient, Reader, Received, Role, SYSTEM_SOCKET, Socket,
    Writer, accept, make_directory, turn_away, user_name,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

/// Most connections of one user, and of all.
const OF_ONE: usize = 256;
const ALL: usize = 4096;

/// Longest time from the accept to the greeting of a user.
const GREETING_TIME: Duration = Duration::from_secs(5);

/// Time for the end that is still open, when the other one has closed its connection.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Pause after a failure to accept. A lack of descriptors, for example, lasts for a while.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
pub struct RelayArguments {
    /// Unix socket for the users of this machine
    #[arg(long, value_name = "PATH", default_value = SYSTEM_SOCKET)]
    socket: PathBuf,
}

/// The open connections.
#[derive(Debug, Clone, Default)]
struct Open(Arc<Mutex<HashMap<u32, usize>>>);

/// One connection, which ends when this is dropped.
struct OpenOne {
    open: Open,
    uid: u32,
}

impl Open {
    /// Counts a connection; `None` if there are too many.
    fn begin(&self, uid: u32) -> Option<OpenOne> {
        let mut counts = self.lock();
        let (all, own) = (counts.values().sum::<usize>(), counts.get(&uid).copied().unwrap_or(0));
        if all >= ALL || own >= OF_ONE {
            return None;
        }
        counts.insert(uid, own + 1);
        Some(OpenOne { open: self.clone(), uid })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, usize>> {
        // The counts are complete at every moment, even if a thread panicked with the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenOne {
    fn drop(&mut self) {
        let mut counts = self.open.lock();
        match counts.get_mut(&self.uid) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(counts.remove(&self.uid)),
        }
    }
}

/// Serves users until the process is ended.
///
/// # Errors
/// If the master is on this machine, or the socket cannot be made.
pub async fn run(arguments: &RelayArguments, master: &Master) -> Result<u8, Failure> {
    let path = &arguments.socket;
    // The master of this machine serves its users itself, and the relay would call its own socket.
    if !master.address().starts_with("tls://") {
        let failure =
            Failure::new(format_args!("a relay passes users on to another machine, not to {}", master.address()));
        return Err(failure.hint("name the master: --master tls://HOST:PORT, or LIMO_MASTER"));
    }
    let listener = bind(path).await;
    let listener =
        listener.map_err(|error| Failure::new(format_args!("cannot listen on {}: {error}", path.display())))?;
    tell(&format!("lconf: passing the users of {} on to {}\n", path.display(), master.address()));
    let open = Open::default();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tell(&format!("lconf: cannot accept a user: {error}\n"));
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let (open, master) = (open.clone(), master.clone());
        tokio::spawn(async move { serve(stream.into(), &open, &master).await });
    }
}

/// Makes the socket, in place of one without a listener.
async fn bind(path: &Path) -> io::Result<UnixListener> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    make_directory(directory, 0o755).map_err(io::Error::other)?;
    match UnixStream::connect(path).await {
        Ok(_) => return Err(io::Error::other("another program listens there: choose another path with --socket")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    // Every user may call, because the kernel identifies the caller.
    fs::set_permissions(path, Permissions::from_mode(0o666))?;
    Ok(listener)
}

async fn serve(socket: Socket, open: &Open, master: &Master) {
    let Ok(Some(principal)) = socket.principal().await else { return };
    let uid = principal.uid;
    let Some(_one) = open.begin(uid) else {
        return turn_away(socket, "this machine has too many connections to the master: try again later".to_owned());
    };
    match call(uid, master).await {
        // The relay continues when a connection ends.
        Ok(connection) => drop(pass(socket, connection).await),
        Err(error) => turn_away(socket, error.to_string()),
    }
}

type Upward = Connection<MasterToClient, ClientToMaster>;

/// Connects to the master for a user of this machine.
async fn call(uid: u32, master: &Master) -> Result<Upward, AskError> {
    // A name service may be slow.
    let user = tokio::task::spawn_blocking(move || user_name(uid)).await.map_err(|_| AskError::Closed)?;
    let mut connection = master.connect().await?;
    let on_behalf = ClientToMaster::OnBehalf { uid, user: user.into() };
    connection.writer.send(&Frame::Message(on_behalf)).await.map_err(AskError::from)?;
    Ok(connection)
}

/// Passes frames in both directions until one end closes its connection.
async fn pass(socket: Socket, mut up: Upward) -> Result<(), ConnectionError> {
    let greeted = accept(socket, GREETING_TIME, up.identity).await?;
    if greeted.role != Role::Client {
        return Ok(());
    }
    let mut down: Connection<ClientToMaster, MasterToClient> = greeted.into_connection();
    let mut requests = pin!(copy(&mut down.reader, &mut up.writer));
    let mut answers = pin!(copy(&mut up.reader, &mut down.writer));
    // The user must be able to read the last answer, also if it is a refusal that came before the first request.
    tokio::select! {
        ended = &mut answers => timeout(LAST_WORDS, requests).await.unwrap_or(ended),
        ended = &mut requests => timeout(LAST_WORDS, answers).await.unwrap_or(ended),
    }
}

async fn copy<M>(from: &mut Reader<M>, to: &mut Writer<M>) -> Result<(), ConnectionError>
where
    M: DeserializeOwned + Serialize + limo_proto::Replace,
{
    while let Some(received) = from.receive().await? {
        match received {
            Received::Frame(frame) => to.send(&frame).await?,
            Received::Sign(sign) => {
                to.feed_sign(sign);
                to.flush().await?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_has_at_most_256_connections() {
        let open = Open::default();
        let mut held: Vec<OpenOne> = (0..256).map(|_| open.begin(7).expect("room")).collect();
        assert!(open.begin(7).is_none());
        held.push(open.begin(8).expect("another user"));
        held.remove(0);
        assert!(open.begin(7).is_some());
        drop(held);
        assert!(open.lock().is_empty());
    }
}
