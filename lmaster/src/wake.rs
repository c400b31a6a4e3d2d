//! Wakes nodes: sends magic packets, and runs the command of the master's settings. Decides nothing. A node that is
//! awake registers.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use limo_model::{Mac, NodeId};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::net::UdpSocket;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;

use crate::controller::Input;

/// Most commands that run at a time; others are queued.
const AT_ONCE: usize = 16;

/// Time limit of a command, which should only switch a machine on and not wait for it.
const LONGEST: Duration = Duration::from_secs(60);

/// The way to wake one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WakeOrder {
    /// A magic packet of Wake-on-LAN.
    Packet { mac: Mac, to: SocketAddrV4 },
    /// A command of the master's own settings, run by a shell with the node's name as its last argument.
    Command { command: String, node: String },
}

/// Carries out wake orders beside the loop.
pub struct Waker {
    inputs: Sender<Input>,
    places: Arc<Semaphore>,
}

impl Waker {
    pub fn new(inputs: Sender<Input>) -> Self {
        Self { inputs, places: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Begins to wake a node. [`Input::WakeFailed`] follows if that fails at once.
    pub fn wake(&self, node: NodeId, order: WakeOrder) {
        let (inputs, places) = (self.inputs.clone(), Arc::clone(&self.places));
        tokio::spawn(async move {
            let done = match order {
                WakeOrder::Packet { mac, to } => send(mac, to).await,
                WakeOrder::Command { command, node } => {
                    let _place = places.acquire().await;
                    run(&command, &node).await
                }
            };
            if let Err(error) = done {
                // The receiver no longer exists when the loop has ended.
                let _ = inputs.send(Input::WakeFailed(node, format!("{error:#}"))).await;
            }
        });
    }
}

async fn send(mac: Mac, to: SocketAddrV4) -> Result<()> {
    let failed = || format!("cannot send a magic packet for {mac} to {to}");
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await.with_context(failed)?;
    socket.set_broadcast(true).with_context(failed)?;
    socket.send_to(&mac.magic_packet(), to).await.with_context(failed)?;
    Ok(())
}

/// Passes the name as an argument of the shell, not in its text. Output of the command goes to the master's log.
async fn run(command: &str, node: &str) -> Result<()> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("{command} \"$1\""), "lmaster", node]);
    shell.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0).kill_on_drop(true);
    let mut child = shell.spawn().with_context(|| format!("cannot run the wake command `{command}`"))?;
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    match tokio::time::timeout(LONGEST, child.wait()).await {
        Ok(status) => {
            let status = status.with_context(|| format!("cannot wait for the wake command `{command}`"))?;
            if !status.success() {
                bail!("the wake command `{command}` failed with {status}");
            }
            Ok(())
        }
        Err(_) => {
            // The process was not waited for, so its number is still valid.
            let _ = group.map(|group| killpg(Pid::from_raw(group), Signal::SIGKILL));
            bail!("the wake command `{command}` did not end within {} s and was killed", LONGEST.as_secs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::channel;

    #[tokio::test]
    async fn a_magic_packet_arrives_as_it_is_specified() {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let std::net::SocketAddr::V4(to) = socket.local_addr().expect("an address") else { panic!("not IPv4") };
        let (inputs, mut failures) = channel(1);
        let mac = Mac([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
        Waker::new(inputs).wake(NodeId(0), WakeOrder::Packet { mac, to });
        let mut bytes = [0; 200];
        let (length, _) = socket.recv_from(&mut bytes).await.expect("a packet");
        let mut expected = vec![0xff; 6];
        (0..16).for_each(|_| expected.extend([0x52, 0x54, 0, 0x12, 0x34, 0x56]));
        assert_eq!(bytes[..length], expected[..]);
        assert!(failures.recv().await.is_none(), "nothing failed");
    }

    #[tokio::test]
    async fn a_wake_command_gets_the_name_of_its_node_as_an_argument() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("woken");
        let command = format!("f() {{ echo \"$# $1\" >> {}; }}; f", file.display());
        run(&command, "n1").await.expect("run");
        run(&command, "$(id)").await.expect("run");
        assert_eq!(std::fs::read_to_string(&file).expect("written"), "1 n1\n1 $(id)\n");
    }

    #[tokio::test]
    async fn a_wake_command_that_fails_is_reported() {
        let (inputs, mut failures) = channel(1);
        let order = WakeOrder::Command { command: "exit 3;".into(), node: "n1".into() };
        Waker::new(inputs).wake(NodeId(4), order);
        let Some(Input::WakeFailed(node, reason)) = failures.recv().await else { panic!("no failure") };
        assert_eq!((node, reason.as_str()), (NodeId(4), "the wake command `exit 3;` failed with exit status: 3"));
    }
}
