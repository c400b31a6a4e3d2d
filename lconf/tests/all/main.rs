//! The real `lconf` against a fake master: exit code, stdout and stderr of each command.

mod budgets;
mod changes;
mod escapes;
mod group;
mod predictor;
mod profiles;
mod queue;
mod readings;
mod refusals;
mod shown;

use std::process::Stdio;

use limo_fake::{Asked, FakeMaster};
use limo_proto::{ClientToMaster, MasterToClient};
use tokio::process::Command;

/// Makes `lconf` with these arguments for this master.
fn lconf(address: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lconf"));
    command.args(args).env("LIMO_MASTER", address).env("TZ", "UTC").env_remove("LIMO_RECONNECT_TIMEOUT");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// Returns exit code, stdout and stderr of an ended `lconf`.
async fn snapshot(mut command: Command) -> String {
    let output = command.output().await.expect("lconf runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().map_or_else(|| format!("{:?}", output.status), |code| code.to_string());
    format!("exit {code}\n--- stdout\n{}--- stderr\n{}", text(&output.stdout), text(&output.stderr))
}

/// Runs `lconf` against a master that always gives this answer; returns the output and the messages to the master.
async fn answered(args: &[&str], answer: MasterToClient) -> (String, Vec<ClientToMaster>) {
    let master = FakeMaster::start().await.expect("a master");
    let address = master.address().to_owned();
    let asked: Asked = master.answering(move |_| answer.clone());
    let output = snapshot(lconf(&address, args)).await;
    let asked = asked.lock().expect("no panic").clone();
    (output, asked)
}

fn ask(query: limo_proto::Query) -> ClientToMaster {
    ClientToMaster::Ask(Box::new(query))
}

fn change(change: limo_proto::Change) -> ClientToMaster {
    ClientToMaster::ChangeConf(Box::new(change))
}

/// Returns the snapshot of a success with this output.
fn printed(stdout: &str) -> String {
    format!("exit 0\n--- stdout\n{stdout}--- stderr\n")
}

/// Returns the snapshot of a failure with this message.
fn failed(stderr: &str) -> String {
    format!("exit 125\n--- stdout\n--- stderr\n{stderr}")
}
