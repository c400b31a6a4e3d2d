//! Who may connect: accepts connections over loopback, finds out who calls and as what, and hands over those that may.

use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use limo_proto::{
    ClientToMaster, Connection, Frame, Greeted, MasterToClient, MasterToNode, NodeToMaster, Role, accept,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::Sender;

use crate::desk::Caller;
use crate::peer;

/// Connections that one user may have at a time: enough for a thousand attached jobs, and few enough that one user does
/// not use up the file descriptors of all. Operators have no such limit: every node is a connection of theirs.
const PER_USER: usize = 1024;

/// After a failure to accept, such as no free file descriptor, which does not go away at once.
const PAUSE: Duration = Duration::from_millis(100);

/// How long the name of a user is taken to be what it was: a user who gets another one calls again soon.
const KNOWN: Duration = Duration::from_secs(60);

/// A caller that may connect.
pub enum Arrival {
    Node(Connection<NodeToMaster, MasterToNode>, Place),
    Client(Connection<ClientToMaster, MasterToClient>, Caller, Place),
}

/// Begins to listen, and writes the address to DIR/address, whole or not at all.
///
/// # Errors
/// Where the address cannot be had or not be written down.
pub async fn bind(address: SocketAddr, state_dir: &Path) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let bound = listener.local_addr().context("cannot find the own address")?;
    let path = state_dir.join("address");
    let write = || -> std::io::Result<()> {
        let unfinished = state_dir.join("address.tmp");
        std::fs::File::create(&unfinished)?.write_all(format!("{bound}\n").as_bytes())?;
        std::fs::rename(&unfinished, &path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))?;
    tracing::info!(address = %bound, "listening");
    Ok(listener)
}

/// Accepts callers until nobody takes them any more.
pub async fn serve(listener: TcpListener, arrivals: Sender<Arrival>) {
    let (places, names) = (Places::default(), Names::default());
    while !arrivals.is_closed() {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (arrivals, places, names) = (arrivals.clone(), places.clone(), names.clone());
                tokio::spawn(async move {
                    if let Err(error) = greet(stream, arrivals, (places, names)).await {
                        tracing::warn!(error = format!("{error:#}"), "a caller was turned away");
                    }
                });
            }
            Err(error) => {
                tracing::error!(%error, "cannot accept connections");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn greet(stream: TcpStream, arrivals: Sender<Arrival>, (places, names): (Places, Names)) -> Result<()> {
    let (local, remote) = (stream.local_addr()?, stream.peer_addr()?);
    // Before anything is awaited from it: a caller that hangs up is nobody any more.
    let owner = match peer::owner_at_once(remote, local) {
        Ok(owner) => owner,
        Err(_) => tokio::task::spawn_blocking(move || peer::owner(remote, local))
            .await?
            .context("cannot find out who is calling")?,
    };
    let Some(uid) = owner else {
        anyhow::bail!("the kernel knows no user of this machine that calls from {remote}");
    };
    let user = names.of(uid).await?;
    let operator = uid == 0 || uid == nix::unistd::geteuid().as_raw();
    let place = places.take(uid, if operator { usize::MAX } else { PER_USER });
    let greeted = accept(stream).await.with_context(|| format!("{user} at {remote}"))?;
    let arrival = match (greeted.role, place) {
        (_, None) => return refuse(greeted, format!("{user} has {PER_USER} connections: the limit is reached")).await,
        (Role::Node, Some(_)) if !operator => {
            let reason = format!("{user} may not run nodes: only root and the user that runs the master may");
            return refuse(greeted, reason).await;
        }
        (Role::Node, Some(place)) => Arrival::Node(greeted.into_connection(), place),
        (Role::Client, Some(place)) => {
            Arrival::Client(greeted.into_connection(), Caller { uid, user, operator }, place)
        }
    };
    // When the master stops, nobody is let in any more.
    let _ = arrivals.send(arrival).await;
    Ok(())
}

async fn refuse(greeted: Greeted, reason: String) -> Result<()> {
    match greeted.role {
        Role::Node => {
            let mut connection: Connection<NodeToMaster, MasterToNode> = greeted.into_connection();
            connection.writer.send(&Frame::Message(MasterToNode::Refused { reason: reason.as_str().into() })).await?;
        }
        Role::Client => {
            let mut connection: Connection<ClientToMaster, MasterToClient> = greeted.into_connection();
            let refused = MasterToClient::Refused { reason: reason.clone(), hint: None };
            connection.writer.send(&Frame::Message(refused)).await?;
        }
    }
    anyhow::bail!(reason)
}

/// The names of users who called before. A directory over the network may take its time to tell one.
#[derive(Debug, Clone, Default)]
struct Names(Arc<Mutex<HashMap<u32, (Instant, String)>>>);

impl Names {
    async fn of(&self, uid: u32) -> Result<String> {
        if let Some((_, name)) = self.lock().get(&uid).filter(|(since, _)| since.elapsed() < KNOWN) {
            return Ok(name.clone());
        }
        let name = tokio::task::spawn_blocking(move || peer::user_name(uid)).await?;
        self.lock().insert(uid, (Instant::now(), name.clone()));
        Ok(name)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, (Instant, String)>> {
        // The map is whole at every moment, whatever became of who held it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many connections each user has.
#[derive(Debug, Clone, Default)]
struct Places(Arc<Mutex<HashMap<u32, usize>>>);

/// One connection of one user; given back when dropped.
#[derive(Debug)]
pub struct Place {
    places: Places,
    uid: u32,
}

impl Places {
    /// `None` where the user has `most` already.
    fn take(&self, uid: u32, most: usize) -> Option<Place> {
        // The map is whole at every moment, whatever became of who held it.
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(uid).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place { places: self.clone(), uid })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_so_many_places_and_others_have_theirs() {
        let places = Places::default();
        let mut taken: Vec<_> = (0..PER_USER).map(|_| places.take(7, PER_USER).expect("free")).collect();
        assert!(places.take(7, PER_USER).is_none() && places.take(8, PER_USER).is_some());
        taken.push(places.take(7, usize::MAX).expect("an operator has no limit"));
        taken.truncate(PER_USER - 1);
        assert!(places.take(7, PER_USER).is_some());
        drop(taken);
        assert!(places.0.lock().expect("whole").is_empty());
    }
}
