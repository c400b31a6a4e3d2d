//! A hostile user of the tests: listens in place of a master, or opens silent connections. Prints a line for each
//! event, and ends when its stdin ends.

use std::fmt::Debug;
use std::io::Read;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use limo_proto::{
    ClientToMaster, Connection, Endpoint, EnrolAnswer, EnrolRequest, Greeted, Identity, MasterToClient, MasterToNode,
    NodeToMaster, Reader, Role, Socket, accept, raise_descriptor_limit,
};
use nix::unistd::geteuid;
use serde::de::DeserializeOwned;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, UnixListener};

/// Longest wait for a greeting.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Answers each greeting as a master does, and prints everything that comes after it, which should be nothing.
    Impostor { endpoint: Endpoint },
    /// Opens `count` connections and sends nothing; replaces each that is closed.
    Crowd { endpoint: Endpoint, count: usize },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    raise_descriptor_limit()?;
    std::thread::spawn(|| {
        // The thread ends this program when the program that started it has ended.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    match Arguments::parse().what {
        What::Impostor { endpoint } => impostor(endpoint).await,
        What::Crowd { endpoint, count } => crowd(endpoint, count).await,
    }
}

async fn impostor(endpoint: Endpoint) -> Result<()> {
    enum Listener {
        Unix(UnixListener),
        Tcp(TcpListener),
    }
    let listener = match &endpoint {
        Endpoint::Unix(path) => Listener::Unix(UnixListener::bind(path).context("cannot bind the socket")?),
        Endpoint::Loopback(address) => Listener::Tcp(TcpListener::bind(address).await.context("cannot bind the port")?),
        Endpoint::Tls(_) => anyhow::bail!("an impostor has no certificate"),
        Endpoint::AnyOf(_) => anyhow::bail!("an impostor listens at one place"),
    };
    println!("listening");
    loop {
        let socket: Socket = match &listener {
            Listener::Unix(listener) => listener.accept().await?.0.into(),
            Listener::Tcp(listener) => listener.accept().await?.0.into(),
        };
        tokio::spawn(async move {
            let whose = match socket.principal().await {
                Ok(Some(peer)) if peer.uid == geteuid().as_raw() => "its own user",
                Ok(Some(_)) => "another user",
                // Clients of Limo wait for an answer, so that the kernel knows their user.
                Ok(None) | Err(_) => "somebody who did not wait",
            };
            match accept(socket, PATIENCE, Identity::default()).await {
                Ok(greeted) => hear(greeted, whose).await,
                Err(error) => println!("not greeted: {error}"),
            }
        });
    }
}

async fn hear(greeted: Greeted, whose: &str) {
    println!("greeted by a {:?}", greeted.role);
    match greeted.role {
        Role::Node => {
            let Connection { reader, writer: _writer, .. } = greeted.into_connection::<NodeToMaster, MasterToNode>();
            listen(reader, whose).await;
        }
        Role::Client => {
            let Connection { reader, writer: _writer, .. } =
                greeted.into_connection::<ClientToMaster, MasterToClient>();
            listen(reader, whose).await;
        }
        Role::Enrolment => {
            let Connection { reader, writer: _writer, .. } =
                greeted.into_brief_connection::<EnrolRequest, EnrolAnswer>();
            listen(reader, whose).await;
        }
    }
}

async fn listen<In: DeserializeOwned + Debug>(mut reader: Reader<In>, whose: &str) {
    match reader.next().await {
        Ok(None) => println!("sent nothing"),
        other => println!("SENT by {whose}: {other:?}"),
    }
}

async fn crowd(endpoint: Endpoint, count: usize) -> Result<()> {
    let mut closed = 0_usize;
    let mut open = tokio::task::JoinSet::new();
    for number in 1_usize.. {
        // A full queue of callers does not end the attack.
        if let Ok(socket) = Socket::connect(&endpoint).await {
            open.spawn(until_closed(socket));
        }
        if open.len() >= count {
            println!("open {number}");
            open.join_next().await;
            closed += 1;
            println!("closed {closed}");
        }
    }
    Ok(())
}

async fn until_closed(socket: Socket) {
    let mut bytes = Vec::new();
    // The kind of end does not matter.
    let _ = match socket {
        Socket::Unix(mut stream) => stream.read_to_end(&mut bytes).await,
        Socket::Tcp(mut stream) => stream.read_to_end(&mut bytes).await,
        // It calls only masters of its own machine.
        Socket::Tls(_) => return,
    };
}
