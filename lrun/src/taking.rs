//! `lrun --attach JOB`, which `lq attach` runs: takes over the streams of a job whose own `lrun` has ended.

use limo_client::{Failure, MasterArg, ReconnectArg};
use limo_model::JobId;
use limo_proto::{ClientToMaster, Frame, MasterToClient};

use crate::args::HowArgs;
use crate::attached;
use crate::link::{Link, LinkEvent};
use crate::session::Session;
use crate::terminal;

/// Takes over the streams and passes them on; with `take`, also from a client that is still connected.
///
/// # Errors
/// If the master refuses or stays unreachable, or the job has a terminal and this process has none.
pub async fn run(
    (job, take): (JobId, bool),
    how: &HowArgs,
    master: MasterArg,
    reconnect: ReconnectArg,
) -> Result<u8, Failure> {
    let mut link = Link::open(master.master(), reconnect.reconnect_timeout).await?;
    let (exec, streams) = loop {
        match link.next().await {
            LinkEvent::Connected => link.send(Frame::Message(ClientToMaster::TakeUp { job, take })),
            LinkEvent::Heard(Frame::Message(MasterToClient::TakenUp { exec, streams, .. })) => break (exec, streams),
            LinkEvent::Heard(Frame::Message(MasterToClient::Refused { reason, hint })) => {
                return Err(Failure { hint, ..Failure::new(reason) });
            }
            LinkEvent::Heard(_) | LinkEvent::Broken => {}
            LinkEvent::GaveUp(failure) => return Err(failure),
        }
    };
    drop(link);
    let size = exec.launch.terminal.map(|_| terminal::size()).transpose()?;
    let session = Session::joining(*exec, job, (&streams, size));
    attached::follow(session, size.is_some(), (how, master, reconnect)).await
}
