//! `lrun --detach COMMAND`: submits the job and prints its number. With `--wait` it stays until the job is over.

use limo_client::{Failure, MasterArg, ReconnectArg, answer, answer_json, exit, json, plain, tell, until_over};
use limo_proto::{ClientToMaster, Frame, MasterToClient, SendExec};
use serde::Serialize;

use crate::PROGRAM;
use crate::args::HowArgs;
use crate::farewell::farewell;
use crate::link::{Link, LinkEvent};
use crate::session::Leave;

#[derive(Serialize)]
struct AcceptedJson {
    schema: u32,
    id: u64,
}

/// Returns when the job is on the master's disk or, with `--wait`, over. After a broken connection it submits again
/// with the same key, so that there is only one job.
///
/// # Errors
/// If the master refuses the job or stays unreachable.
pub async fn run(mut exec: SendExec, how: &HowArgs, master: MasterArg, reconnect: ReconnectArg) -> Result<u8, Failure> {
    let (master, patience) = (master.master(), reconnect.reconnect_timeout);
    let mut link = Link::open(master.clone(), patience).await?;
    let mut told = how.quiet;
    let job = loop {
        match link.next().await {
            LinkEvent::Connected => {
                link.send(Frame::Message(ClientToMaster::SendExec(Box::new(exec.clone()))));
                exec.again = true;
            }
            LinkEvent::Heard(Frame::Message(MasterToClient::Accepted { job })) => break job,
            LinkEvent::Heard(Frame::Message(MasterToClient::Refused { reason, hint })) => {
                return Err(Failure { hint, ..Failure::new(reason) });
            }
            LinkEvent::Heard(Frame::Message(MasterToClient::Notice { text })) if !how.quiet => {
                tell(&format!("{PROGRAM}: warning: {}\n", plain(&text)));
            }
            LinkEvent::Heard(_) => {}
            LinkEvent::Broken if told => {}
            LinkEvent::Broken => {
                told = true;
                tell("lrun: the master went away before it answered; retrying\n");
            }
            LinkEvent::GaveUp(failure) => return Err(failure),
        }
    };
    if how.json {
        answer_json(&AcceptedJson { schema: json::SCHEMA, id: job.0 })?;
    } else {
        answer(&format!("{job}\n"))?;
    }
    if !how.wait {
        return Ok(exit::DONE);
    }
    drop(link);
    let reports = until_over(PROGRAM, vec![job], &master, patience).await?;
    match reports.into_iter().next() {
        Some(report) => {
            let leave = Leave::Over { report: Box::new(report), interrupt: None, output_lost: false };
            let farewell = farewell(leave, how)?;
            for line in farewell.lines() {
                tell(&format!("{PROGRAM}: {}\n", plain(&line)));
            }
            Ok(farewell.code)
        }
        None => Err(Failure::new(format_args!("the master did not say how job {job} ended"))),
    }
}
