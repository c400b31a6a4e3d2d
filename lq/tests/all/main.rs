//! The real `lq` against a fake master: exit code, stdout and stderr of each command.

mod commands;
mod escapes;
mod json;
mod list;
mod refusals;
mod wait;

use std::process::Stdio;

use limo_fake::{Asked, FakeMaster};
use limo_proto::{ClientToMaster, MasterToClient};
use tokio::process::Command;

/// Makes `lq` with these arguments for this master.
fn lq(address: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lq"));
    command.args(args).env("LIMO_MASTER", address).env("TZ", "UTC").env_remove("LIMO_RECONNECT_TIMEOUT");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// Returns exit code, stdout and stderr of an ended `lq`.
async fn snapshot(mut command: Command) -> String {
    // `output` would replace the stdout of the test, so it is not used.
    let child = command.spawn().expect("lq runs");
    let output = child.wait_with_output().await.expect("lq ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().map_or_else(|| format!("{:?}", output.status), |code| code.to_string());
    format!("exit {code}\n--- stdout\n{}--- stderr\n{}", text(&output.stdout), text(&output.stderr))
}

/// Runs `lq` against a master that always gives this answer; returns the output and the messages to the master.
async fn answered(args: &[&str], answer: MasterToClient) -> (String, Vec<ClientToMaster>) {
    let master = FakeMaster::start().await.expect("a master");
    let address = master.address().to_owned();
    let asked: Asked = master.answering(move |_| answer.clone());
    let output = snapshot(lq(&address, args)).await;
    let asked = asked.lock().expect("no panic").clone();
    (output, asked)
}

fn ask(query: limo_proto::Query) -> ClientToMaster {
    ClientToMaster::Ask(Box::new(query))
}
