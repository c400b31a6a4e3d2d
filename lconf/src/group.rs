//! `lconf group`: shows the groups of nodes of the configuration, and sets their limits.

use limo_client::json::SCHEMA;
use limo_client::{Align, Failure, Master, Table, answer, answer_json, exit};
use limo_model::{Beside, Deferral, Power};
use limo_proto::{Change, GroupReport, OwnersReport, Text};
use serde::Serialize;

#[derive(Debug, clap::Subcommand)]
pub enum GroupCommand {
    /// List the groups with their draws and limits
    List,
    /// Set the upper limit of a group, such as 4.5kW, whatever the master's settings say, until they change it
    Limit { name: String, limit: Power },
}

#[derive(Serialize)]
struct GroupsJson {
    schema: u32,
    groups: Vec<GroupJson>,
}

#[derive(Serialize)]
struct GroupJson {
    name: String,
    draw_w: f64,
    limit_w: Option<f64>,
    /// The limit of the configuration.
    configured_w: Option<f64>,
    /// Short list.
    nodes: String,
    nodes_known: u32,
    owners: Option<OwnersJson>,
    /// Such as `30min` or `never`; null if the rule of the cluster holds.
    sleep_after: Option<String>,
    /// True if jobs wake its sleeping nodes.
    wake: bool,
    reboot: Option<RebootJson>,
}

/// Daily reboots.
#[derive(Serialize)]
struct RebootJson {
    /// Such as `03:00-05:00`, in UTC.
    window: String,
    defer: Deferral,
}

/// Rules for the owners of nodes.
#[derive(Serialize)]
struct OwnersJson {
    jobs: Beside,
    start_after_s: f64,
    evict_after_s: f64,
}

/// Runs a command.
///
/// # Errors
/// If the master cannot be asked, or refuses.
pub async fn run(command: GroupCommand, json: bool, master: &Master) -> Result<u8, Failure> {
    if let GroupCommand::Limit { name, limit } = command {
        master.change(Change::GroupLimit { group: name, limit }).await?;
        return Ok(exit::DONE);
    }
    let groups = master.groups().await?;
    if json {
        let groups = groups.into_iter().map(as_json).collect();
        answer_json(&GroupsJson { schema: SCHEMA, groups })?;
    } else {
        answer(&table(&groups))?;
    }
    Ok(exit::DONE)
}

fn as_json(group: GroupReport) -> GroupJson {
    let limit = |power: Power| (!power.is_unlimited()).then(|| power.watts());
    GroupJson {
        draw_w: group.draw.watts(),
        limit_w: limit(group.limit),
        configured_w: limit(group.configured),
        nodes: group.nodes,
        nodes_known: group.known,
        owners: group.owners.map(|owners| OwnersJson {
            jobs: owners.jobs,
            start_after_s: owners.start_after.secs(),
            evict_after_s: owners.evict_after.secs(),
        }),
        name: group.name,
        sleep_after: group.sleep_after.map(Text::into_string),
        wake: group.wake,
        reboot: group.reboot.map(|window| {
            let defer = if group.reboot_deferred { Deferral::UntilEnd } else { Deferral::No };
            RebootJson { window: window.into_string(), defer }
        }),
    }
}

/// Formats rules for sleep and reboots such as `sleep after 30min, woken by no job, reboot 03:00-05:00 when jobs have ended`.
fn rules_in_words(group: &GroupReport) -> String {
    let sleep = group.sleep_after.as_ref().map(|after| match &**after {
        "never" => "stay awake".to_owned(),
        after => format!("sleep after {after}"),
    });
    let wake = (!group.wake).then(|| "woken by no job".to_owned());
    let how = if group.reboot_deferred { "when jobs have ended" } else { "at once" };
    let reboot = group.reboot.as_ref().map(|window| format!("reboot {window} {how}"));
    let rules: Vec<String> = [sleep, wake, reboot].into_iter().flatten().collect();
    if rules.is_empty() { "-".to_owned() } else { rules.join(", ") }
}

/// Formats rules such as `suspend, evict after 10min, start after 15min`.
fn in_words(owners: OwnersReport) -> String {
    match owners.jobs {
        Beside::Suspend => {
            format!("suspend, evict after {}, start after {}", owners.evict_after, owners.start_after)
        }
        Beside::Run => "run".to_owned(),
    }
}

fn table(groups: &[GroupReport]) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("GROUP", left),
        ("DRAW", right),
        ("LIMIT", right),
        ("CONFIGURED", right),
        ("OWNERS", left),
        ("RULES", left),
        ("KNOWN", right),
        ("NODELIST", left),
    ]);
    let limit = |power: Power| if power.is_unlimited() { "-".to_owned() } else { power.to_string() };
    for group in groups {
        table.row([
            group.name.clone(),
            group.draw.to_string(),
            limit(group.limit),
            limit(group.configured),
            group.owners.map_or("-".to_owned(), in_words),
            rules_in_words(group),
            group.known.to_string(),
            group.nodes.clone(),
        ]);
    }
    table.render()
}
