//! `lconf account` and `lconf qos`: show the accounts and the QOS of the configuration.

use std::collections::BTreeMap;

use limo_client::json::SCHEMA;
use limo_client::{Align, Failure, Master, Table, answer, answer_json, exit, or_dash};
use limo_model::Quota;
use limo_proto::{AccountReport, AccountsQuery, QosQuery, QosReport};
use serde::Serialize;

#[derive(Debug, clap::Subcommand)]
pub enum AccountCommand {
    /// List the accounts as a tree, with `*` after the name of the default
    List,
}

#[derive(Debug, clap::Subcommand)]
pub enum QosCommand {
    /// List the QOS, with `*` after the name of the default
    List,
}

#[derive(Serialize)]
struct AccountsJson {
    schema: u32,
    accounts: Vec<AccountEntry>,
}

#[derive(Serialize)]
struct AccountEntry {
    name: String,
    parent: Option<String>,
    description: String,
    default: bool,
    share: u32,
    /// Jobs and cores, with those of the accounts below.
    running: u32,
    waiting: u32,
    cores: u64,
    max_running_jobs: Option<u32>,
    max_submit_jobs: Option<u32>,
    max_cores: Option<u32>,
    /// Users, separated by commas; `null` without any.
    users: Option<String>,
    /// Groups of users, separated by commas; `null` without any.
    groups: Option<String>,
}

#[derive(Serialize)]
struct QosListJson {
    schema: u32,
    qos: Vec<QosJson>,
}

#[derive(Serialize)]
struct QosJson {
    name: String,
    default: bool,
    priority: i32,
    max_running_jobs_per_user: Option<u32>,
    max_cores_per_user: Option<u32>,
    max_time_s: Option<f64>,
    users: Option<String>,
    groups: Option<String>,
    accounts: Option<String>,
}

/// Lists the accounts.
///
/// # Errors
/// If the master cannot be asked.
pub async fn accounts(json: bool, master: &Master) -> Result<u8, Failure> {
    let accounts = master.ask(AccountsQuery).await?;
    if json {
        answer_json(&AccountsJson { schema: SCHEMA, accounts: accounts.into_iter().map(account_as_json).collect() })?;
    } else {
        answer(&tree(&accounts))?;
    }
    Ok(exit::DONE)
}

/// Lists the QOS.
///
/// # Errors
/// If the master cannot be asked.
pub async fn qos(json: bool, master: &Master) -> Result<u8, Failure> {
    let qos = master.ask(QosQuery).await?;
    if json {
        answer_json(&QosListJson { schema: SCHEMA, qos: qos.into_iter().map(qos_as_json).collect() })?;
    } else {
        answer(&table(&qos))?;
    }
    Ok(exit::DONE)
}

fn filled(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn account_as_json(account: AccountReport) -> AccountEntry {
    AccountEntry {
        name: account.name,
        parent: account.parent,
        description: account.description,
        default: account.is_default,
        share: account.share,
        running: account.running,
        waiting: account.waiting,
        cores: account.cores,
        max_running_jobs: account.quota.jobs,
        max_submit_jobs: account.quota.submitted,
        max_cores: account.quota.cores,
        users: filled(account.users),
        groups: filled(account.groups),
    }
}

fn qos_as_json(qos: QosReport) -> QosJson {
    QosJson {
        name: qos.name,
        default: qos.is_default,
        priority: qos.priority,
        max_running_jobs_per_user: qos.quota.jobs,
        max_cores_per_user: qos.quota.cores,
        max_time_s: qos.max_time.map(|span| span.ms() as f64 / 1e3),
        users: filled(qos.users),
        groups: filled(qos.groups),
        accounts: filled(qos.accounts),
    }
}

fn limits(quota: Quota) -> String {
    or_dash((!quota.is_empty()).then_some(quota))
}

/// Returns the tree of accounts: each is followed by those below it, indented.
fn tree(accounts: &[AccountReport]) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("ACCOUNT", left),
        ("SHARE", right),
        ("RUNNING", right),
        ("WAITING", right),
        ("CORES", right),
        ("LIMITS", left),
        ("USERS", left),
        ("GROUPS", left),
        ("DESCRIPTION", left),
    ]);
    let mut below: BTreeMap<Option<&str>, Vec<&AccountReport>> = BTreeMap::new();
    for account in accounts {
        below.entry(account.parent.as_deref()).or_default().push(account);
    }
    let roots = below.get(&None).into_iter().flatten().rev();
    let mut next: Vec<(usize, &AccountReport)> = roots.map(|account| (0, *account)).collect();
    while let Some((depth, account)) = next.pop() {
        table.row([
            format!("{}{}{}", "  ".repeat(depth), account.name, if account.is_default { "*" } else { "" }),
            account.share.to_string(),
            account.running.to_string(),
            account.waiting.to_string(),
            account.cores.to_string(),
            limits(account.quota),
            or_dash(filled(account.users.clone())),
            or_dash(filled(account.groups.clone())),
            or_dash(filled(account.description.clone())),
        ]);
        let children = below.remove(&Some(account.name.as_str())).into_iter().flatten().rev();
        next.extend(children.map(|child| (depth + 1, child)));
    }
    table.render()
}

fn table(all: &[QosReport]) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("QOS", left),
        ("PRIORITY", right),
        ("MAXTIME", right),
        ("LIMITS", left),
        ("USERS", left),
        ("GROUPS", left),
        ("ACCOUNTS", left),
    ]);
    for qos in all {
        let is_for_all = qos.users.is_empty() && qos.groups.is_empty() && qos.accounts.is_empty();
        table.row([
            format!("{}{}", qos.name, if qos.is_default { "*" } else { "" }),
            qos.priority.to_string(),
            or_dash(qos.max_time),
            limits(qos.quota),
            if is_for_all { "all".to_owned() } else { or_dash(filled(qos.users.clone())) },
            or_dash(filled(qos.groups.clone())),
            or_dash(filled(qos.accounts.clone())),
        ]);
    }
    table.render()
}
