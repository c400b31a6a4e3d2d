//! `lconf`: shows and changes limits, budgets, mode, policy, prices, nodes and profiles. The master makes all
//! decisions.

mod account;
mod args;
mod audit;
mod authority;
mod backup;
mod budget;
mod cert;
mod cluster;
mod fairshare;
mod feeds;
mod grid;
mod group;
mod history;
mod journal;
mod measure;
mod nodes;
mod predictor;
mod profiles;
mod queue;
mod readings;
mod relay;
mod reservation;
mod service;
mod set;
mod show;
mod status;
mod users;
mod variation;

use std::process::ExitCode;

use limo_client::{Failure, finish, in_runtime, parse};

use crate::account::{AccountCommand, QosCommand};
use crate::args::{Args, Command, NodeCommand, ProfileCommand, UserCommand};
use crate::group::GroupCommand;
use crate::queue::QueueCommand;
use crate::reservation::ReservationCommand;

const PROGRAM: &str = "lconf";

fn main() -> ExitCode {
    match parse::<Args>(PROGRAM, |_| None) {
        Ok(args) => finish(PROGRAM, run(args)),
        Err(code) => code,
    }
}

fn run(args: Args) -> Result<u8, Failure> {
    let Args { json, master, command } = args;
    let lists = matches!(
        command,
        Command::Show
            | Command::Status
            | Command::Node(NodeCommand::List | NodeCommand::Show { .. })
            | Command::Profile(ProfileCommand::List)
            | Command::Variation(variation::VariationCommand::Show)
            | Command::Predictor(predictor::PredictorCommand::Show)
            | Command::Readings(_)
            | Command::History(_)
            | Command::Undo(_)
            | Command::Reservation(ReservationCommand::List)
            | Command::Account(_)
            | Command::Qos(_)
            | Command::Queue(QueueCommand::List)
            | Command::Group(GroupCommand::List)
            | Command::User { command: None | Some(UserCommand::List | UserCommand::Show { .. }) }
            | Command::Quota(_)
            | Command::Fairshare(_)
    );
    if json && !lists {
        return Err(Failure::new(
            "--json works only with show, status, node list, node show, profile list, variation show, predictor show, reservation list, account list, qos list, queue list, group list, readings, history, undo, user, quota and fairshare",
        ));
    }
    let master = &master.master();
    in_runtime(async {
        match command {
            Command::Show => show::run(json, master).await,
            Command::Status => status::run(json, master).await,
            Command::Set(setting) => set::run(setting, master).await,
            Command::Node(command) => nodes::run(command, json, master).await,
            Command::Readings(readings) => readings::run(readings, json, master).await,
            Command::User { command } => users::run(command, json, master).await,
            Command::Fairshare(args) => fairshare::run(args, json, master).await,
            Command::Quota(args) => users::quotas(args, json, master).await,
            Command::Profile(command) => profiles::run(command, json, master).await,
            Command::Variation(command) => variation::run(command, json, master).await,
            Command::Predictor(command) => predictor::run(command, json, master).await,
            Command::Drain(drain) => service::drain(drain, master).await,
            Command::Resume(resume) => service::resume(resume, master).await,
            Command::History(history) => history::run(history, json, master).await,
            Command::Reservation(command) => reservation::run(command, json, master).await,
            Command::Account(AccountCommand::List) => account::accounts(json, master).await,
            Command::Qos(QosCommand::List) => account::qos(json, master).await,
            Command::Queue(command) => queue::run(command, json, master).await,
            Command::Group(command) => group::run(command, json, master).await,
            Command::Journal(command) => journal::run(command, master).await,
            Command::Backup(backup) => backup::run(backup, master).await,
            Command::Cluster(command) => cluster::run(&command, master).await,
            Command::Cert(command) => cert::run(&command, master).await,
            Command::Audit(audit) => audit::run(&audit),
            Command::Undo(undo) => history::undo(undo, json, master).await,
        }
    })
}
