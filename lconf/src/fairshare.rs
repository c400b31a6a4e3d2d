//! `lconf fairshare`: weights of waiting time and past usage in priorities.

use limo_client::json::SCHEMA;
use limo_client::{Align, Failure, Master, Table, answer, answer_json, exit, or_dash, plain};
use limo_proto::{Change, FairshareChange, UsersChange, UsersReport};
use serde::Serialize;

use crate::args::FairshareArgs;
use crate::users::warn_of;

#[derive(Serialize)]
struct FairshareJson {
    schema: u32,
    weight: u32,
    half_life_s: f64,
    /// Measure of usage: `energy` or `core-seconds`.
    by: String,
    age_weight: u32,
    age_max_s: f64,
    rank_every_s: f64,
    users: Vec<ShareJson>,
}

#[derive(Serialize)]
struct ShareJson {
    name: String,
    shares: u32,
    /// Share of all usage; `null` without any usage.
    used: Option<f64>,
}

/// Sets or shows the weights.
///
/// # Errors
/// If shares are given without a user, or a user without shares; or the master cannot be asked or refuses.
pub async fn run(args: FairshareArgs, json: bool, master: &Master) -> Result<u8, Failure> {
    let user = args.user.filter(|user| user != "show");
    let share = match (user, args.shares) {
        (None, _) => None,
        (Some(user), Some(shares)) => Some((user, shares)),
        (Some(user), None) => {
            let failure = Failure::new(format_args!("`{user}` needs a number of shares"));
            return Err(failure.hint("lconf fairshare USER SHARES"));
        }
    };
    let change = FairshareChange {
        age_weight: args.age_weight,
        age_max: args.age_max,
        weight: args.weight,
        half_life: args.half_life,
        measure: args.by,
        rank_every: args.rank_every,
        share,
    };
    if change == FairshareChange::default() {
        show(&master.users().await?, json)?;
    } else if json {
        return Err(Failure::new("--json cannot be combined with changes"));
    } else {
        let user = change.share.as_ref().map(|(user, _)| user.clone());
        master.change(Change::Users(UsersChange::Fairshare(change))).await?;
        user.iter().for_each(|user| warn_of(user));
    }
    Ok(exit::DONE)
}

fn show(report: &UsersReport, json: bool) -> Result<(), Failure> {
    let set = &report.fairshare;
    if json {
        let share = |user: &limo_proto::UserReport| ShareJson {
            name: user.name.clone(),
            shares: user.share,
            used: user.counted_permille.map(|permille| f64::from(permille) / 1e3),
        };
        return answer_json(&FairshareJson {
            schema: SCHEMA,
            weight: set.weight,
            half_life_s: set.half_life.secs(),
            by: set.measure.to_string(),
            age_weight: set.age_weight,
            age_max_s: set.age_max.secs(),
            rank_every_s: set.rank_every.secs(),
            users: report.users.iter().map(share).collect(),
        });
    }
    let mut text = format!("weight       {} by {}, half-life {}\n", set.weight, set.measure, set.half_life);
    text += &format!("age          {} after {}\n", set.age_weight, set.age_max);
    text += &format!("ranked       every {}\n", set.rank_every);
    let mut table = Table::new(&[("USER", Align::Left), ("SHARES", Align::Right), ("USED", Align::Right)]);
    for user in &report.users {
        let used = user.counted_permille.map(|permille| format!("{}.{} %", permille / 10, permille % 10));
        table.row([plain(&user.name), user.share.to_string(), or_dash(used)]);
    }
    if !report.users.is_empty() {
        text += "\n";
        text += &table.render();
    }
    answer(&text)
}
