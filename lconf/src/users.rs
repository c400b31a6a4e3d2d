//! `lconf user`, `lconf quota`: shows usage and quotas of users, and refuses or allows their jobs.

use limo_client::json::SCHEMA;
use limo_client::{Align, Failure, Master, Table, answer, answer_json, exit, may_be_user, or_dash, plain, warn};
use limo_model::{Quota, QuotaLimit};
use limo_proto::{Change, UserReport, UsersChange, UsersReport};
use serde::Serialize;

use crate::PROGRAM;
use crate::args::{QuotaArgs, UserCommand};

#[derive(Serialize)]
struct UsersJson {
    schema: u32,
    default_quota: QuotaJson,
    users: Vec<UserJson>,
}

#[derive(Serialize)]
struct UserJson {
    name: String,
    running_count: u32,
    cores: u32,
    waiting_count: u32,
    expected_j: f64,
    /// Energy used today; `null` before energy is counted, which begins with the first quota or share.
    used_day_j: Option<f64>,
    used_week_j: Option<f64>,
    used_month_j: Option<f64>,
    denied: bool,
    /// Own quota; `null` means the default.
    quota: Option<QuotaJson>,
}

/// Quota; `null` means any number.
#[derive(Serialize)]
struct QuotaJson {
    jobs: Option<u32>,
    cores: Option<u32>,
    energy_j: Option<f64>,
    /// Period of the energy limit: `day`, `week` or `month`.
    energy_over: Option<&'static str>,
    submitted: Option<u32>,
}

impl From<&Quota> for QuotaJson {
    fn from(quota: &Quota) -> Self {
        Self {
            jobs: quota.jobs,
            cores: quota.cores,
            energy_j: quota.energy.map(|(energy, _)| energy.joules()),
            energy_over: quota.energy.map(|(_, window)| window.name()),
            submitted: quota.submitted,
        }
    }
}

impl From<&UserReport> for UserJson {
    fn from(user: &UserReport) -> Self {
        let used = |window: usize| user.used.map(|used| used[window].joules());
        Self {
            name: user.name.clone(),
            running_count: user.running,
            cores: user.cores,
            waiting_count: user.waiting,
            expected_j: user.expected.joules(),
            used_day_j: used(0),
            used_week_j: used(1),
            used_month_j: used(2),
            denied: user.denied,
            quota: user.quota.as_ref().map(QuotaJson::from),
        }
    }
}

/// Runs a command.
///
/// # Errors
/// If the master cannot be asked, refuses, or does not know the user.
pub async fn run(command: Option<UserCommand>, json: bool, master: &Master) -> Result<u8, Failure> {
    match command.unwrap_or(UserCommand::List) {
        UserCommand::List => list(&master.users().await?, json)?,
        UserCommand::Show { name } => {
            let mut report = master.users().await?;
            report.users.retain(|user| user.name == name);
            match report.users.first() {
                None => return Err(Failure::new(format_args!("the master does not know a user `{name}`"))),
                Some(_) if json => list(&report, true)?,
                Some(user) => answer(&facts(user, &report.default))?,
            }
        }
        UserCommand::Deny { names } => {
            master.change(Change::Users(UsersChange::Denied { names: names.clone(), denied: true })).await?;
            names.iter().for_each(|name| warn_of(name));
        }
        UserCommand::Allow { names } => {
            master.change(Change::Users(UsersChange::Denied { names, denied: false })).await?;
        }
    }
    Ok(exit::DONE)
}

/// Warns of a name that this machine does not know, since it may be mistyped.
pub fn warn_of(name: &str) {
    if !may_be_user(name) {
        warn(PROGRAM, &format!("this machine does not know a user `{name}`"));
    }
}

fn list(report: &UsersReport, json: bool) -> Result<(), Failure> {
    if json {
        let users = report.users.iter().map(UserJson::from).collect();
        return answer_json(&UsersJson { schema: SCHEMA, default_quota: (&report.default).into(), users });
    }
    let mut table = Table::new(&[
        ("USER", Align::Left),
        ("RUNNING", Align::Right),
        ("WAITING", Align::Right),
        ("CORES", Align::Right),
        ("TODAY", Align::Figure),
        ("MONTH", Align::Figure),
        ("QUOTA", Align::Left),
    ]);
    for user in &report.users {
        table.row([
            plain(&user.name),
            user.running.to_string(),
            user.waiting.to_string(),
            user.cores.to_string(),
            or_dash(user.used.map(|used| used[0])),
            or_dash(user.used.map(|used| used[2])),
            quota(user, &report.default),
        ]);
    }
    answer(&table.render())
}

/// Formats the quota of a user.
fn quota(user: &UserReport, default: &Quota) -> String {
    match (user.denied, user.quota) {
        (true, _) => "denied".into(),
        (false, Some(own)) => own.to_string(),
        (false, None) => or_dash((!default.is_empty()).then_some(default)),
    }
}

fn facts(user: &UserReport, default: &Quota) -> String {
    let mut lines = vec![
        ("user", plain(&user.name)),
        ("running", format!("{} on {} cores, {} expected", user.running, user.cores, user.expected)),
        ("waiting", user.waiting.to_string()),
    ];
    if let Some([day, week, month]) = user.used {
        lines.push(("used", format!("{day} today, {week} this week, {month} this month (UTC)")));
    }
    let of_all = if user.quota.is_none() && !default.is_empty() { " (default)" } else { "" };
    let quota = Some(user.quota.unwrap_or(*default)).filter(|quota| !quota.is_empty());
    lines.push(("quota", quota.map_or_else(|| "none".into(), |quota| format!("{quota}{of_all}"))));
    if user.denied {
        lines.push(("denied", "new jobs are refused".into()));
    }
    lines.iter().map(|(name, value)| format!("{name:<12} {value}\n")).collect()
}

/// Sets or shows quotas.
///
/// # Errors
/// If a limit is invalid, or the master cannot be asked or refuses.
pub async fn quotas(args: QuotaArgs, json: bool, master: &Master) -> Result<u8, Failure> {
    let mut words = args.words;
    let user = if args.default || words.is_empty() { None } else { Some(words.remove(0)) };
    if let Some(user) = user.as_ref().filter(|user| user.contains('=')) {
        let failure = Failure::new(format_args!("`{user}` is not the name of a user"));
        return Err(failure.hint("lconf quota USER LIMIT..., or lconf quota --default LIMIT..."));
    }
    let limits: Result<Vec<QuotaLimit>, String> = words.iter().map(|word| word.parse()).collect();
    let limits = limits.map_err(Failure::new)?;
    if !limits.is_empty() {
        if json {
            return Err(Failure::new("--json cannot be combined with limits"));
        }
        master.change(Change::Users(UsersChange::Quota { user: user.clone(), limits })).await?;
        user.iter().for_each(|name| warn_of(name));
        return Ok(exit::DONE);
    }
    let mut report = master.users().await?;
    report
        .users
        .retain(|known| user.as_ref().map_or(known.quota.is_some(), |user| known.name == *user) && !args.default);
    if json {
        list(&report, true)?;
        return Ok(exit::DONE);
    }
    let shown = |quota: &Quota| if quota.is_empty() { "none".to_owned() } else { quota.to_string() };
    let mut text = String::new();
    if user.is_none() {
        text += &format!("{:<12} {}\n", "default", shown(&report.default));
    }
    if let Some(user) = user.as_ref().filter(|_| report.users.is_empty()) {
        text += &format!("{:<12} {}\n", plain(user), shown(&report.default));
    }
    for user in &report.users {
        text += &format!("{:<12} {}\n", plain(&user.name), shown(&user.quota.unwrap_or(report.default)));
    }
    answer(&text)?;
    Ok(exit::DONE)
}
