//! `lconf reservation`: reserves nodes for users, or keeps them free of jobs, for a time.

use limo_client::json::SCHEMA;
use limo_client::{Align, Clock, Failure, Master, Table, answer, answer_json, exit};
use limo_model::{Reservation, Span, Time, check_name};
use limo_proto::Change;
use serde::Serialize;

use crate::service::{Nodes, nodes, reason};
use crate::users::warn_of;

#[derive(Debug, clap::Subcommand)]
pub enum ReservationCommand {
    /// Reserve nodes for users, or keep them free of jobs
    Add(AddReservation),
    /// List the reservations that are not over
    List,
    /// Remove a reservation
    Remove { name: String },
}

#[derive(Debug, clap::Args)]
pub struct AddReservation {
    /// Name of the reservation; jobs use it with `lrun --reservation NAME`
    #[arg(value_parser = name)]
    name: String,
    /// Nodes, e.g. n[1-4,7]
    #[arg(long, value_name = "NODES", value_parser = nodes)]
    nodes: Nodes,
    /// Begin, e.g. 18:00 or now+2h
    #[arg(long, value_name = "TIME", default_value = "now")]
    start: String,
    /// Duration, e.g. 2h
    #[arg(long, value_name = "SPAN", value_parser = span)]
    duration: Span,
    /// Users whose jobs may run in it, separated by commas [default: none, so that the nodes are free of jobs]
    #[arg(long, value_name = "USERS", value_delimiter = ',', value_parser = user)]
    users: Vec<String>,
    /// Reason, shown in listings
    #[arg(short, long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
}

#[derive(Serialize)]
struct ReservationsJson {
    schema: u32,
    reservations: Vec<ReservationJson>,
}

#[derive(Serialize)]
struct ReservationJson {
    name: String,
    nodes: Vec<String>,
    from_unix_ms: i64,
    until_unix_ms: i64,
    /// Users; empty means that no jobs may run.
    users: Vec<String>,
    reason: Option<String>,
}

/// Runs a command.
///
/// # Errors
/// If a time is invalid, or the master cannot be asked or refuses.
pub async fn run(command: ReservationCommand, json: bool, master: &Master) -> Result<u8, Failure> {
    match command {
        ReservationCommand::Add(add) => {
            let (name, reservation) = built(add, &Clock::system())?;
            let users = reservation.users.clone();
            master.change(Change::Reserve { name, reservation: Box::new(reservation) }).await?;
            users.iter().for_each(|user| warn_of(user));
        }
        ReservationCommand::Remove { name } => master.change(Change::Unreserve { name }).await?,
        ReservationCommand::List => {
            let all = master.reservations().await?;
            if json {
                let reservations = all.into_iter().map(as_json).collect();
                answer_json(&ReservationsJson { schema: SCHEMA, reservations })?;
            } else {
                answer(&table(&all, &Clock::system()))?;
            }
        }
    }
    Ok(exit::DONE)
}

fn built(add: AddReservation, clock: &Clock) -> Result<(String, Reservation), Failure> {
    let AddReservation { name, nodes, start, duration, mut users, reason } = add;
    let from: Time = clock.parse(&start).map_err(|error| Failure::new(format_args!("--start: {error}")))?;
    users.sort();
    users.dedup();
    let (nodes, reason) = (nodes.0, reason.unwrap_or_default());
    Ok((name, Reservation { nodes, from, until: from + duration, users, reason }))
}

fn as_json((name, of): (String, Reservation)) -> ReservationJson {
    ReservationJson {
        name,
        nodes: of.nodes,
        from_unix_ms: of.from.unix_ms(),
        until_unix_ms: of.until.unix_ms(),
        users: of.users,
        reason: Some(of.reason).filter(|reason| !reason.is_empty()),
    }
}

fn table(all: &[(String, Reservation)], clock: &Clock) -> String {
    let titles = ["NAME", "FROM", "UNTIL", "NODES", "USERS", "REASON"];
    let mut table = Table::new(&titles.map(|title| (title, Align::Left)));
    for (name, of) in all {
        let users = if of.users.is_empty() { "nobody".to_owned() } else { of.users.join(",") };
        let reason = if of.reason.is_empty() { "-".to_owned() } else { of.reason.clone() };
        table.row([name.clone(), clock.show(of.from), clock.show(of.until), of.nodes.join(","), users, reason]);
    }
    table.render()
}

fn name(text: &str) -> Result<String, String> {
    check_name("reservation", text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

fn user(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("not the name of a user".into());
    }
    Ok(text.to_owned())
}

fn span(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: limo_model::UnitError| error.to_string())?;
    if span > Span::ZERO { Ok(span) } else { Err("is not above zero".into()) }
}
