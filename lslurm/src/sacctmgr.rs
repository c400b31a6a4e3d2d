//! `sacctmgr show` and `list`: accounts, users, associations, QOS and the cluster, as far as programs read them. Limo's are in
//! the settings of the master, so nothing can be changed here.

use std::collections::{BTreeMap, BTreeSet};

use limo_client::{Failure, answer, exit};
use limo_proto::{AccountReport, AccountsQuery, QosQuery, QosReport};

use crate::call::{Call, VERSION};
use crate::format::cell;
use crate::select::{own_groups, own_user};
use crate::{values, view};

/// Name of the cluster.
const CLUSTER: &str = "limo";

/// Largest width of a column: more than any terminal has.
const WIDEST: usize = 4_096;

/// Columns by the name in `format=`, with their titles and widths. A name may be cut, as in Slurm.
const COLUMNS: [(&str, &str, usize); 25] = [
    ("account", "Account", 10),
    ("admin", "Admin", 9),
    ("cluster", "Cluster", 10),
    ("controlhost", "ControlHost", 15),
    ("controlport", "ControlPort", 12),
    ("coordinators", "Coord Accounts", 20),
    ("defaultaccount", "Def Acct", 10),
    ("defaultqos", "Def QOS", 9),
    ("description", "Descr", 20),
    ("fairshare", "Share", 9),
    ("flags", "Flags", 20),
    ("grpjobs", "GrpJobs", 7),
    ("grpsubmitjobs", "GrpSubmit", 9),
    ("grptres", "GrpTRES", 13),
    ("id", "ID", 6),
    ("maxjobsperuser", "MaxJobsPU", 9),
    ("maxtresperuser", "MaxTRESPU", 13),
    ("maxwall", "MaxWall", 11),
    ("name", "Name", 10),
    ("organization", "Org", 20),
    ("parentname", "Par Name", 10),
    ("partition", "Partition", 10),
    ("priority", "Priority", 10),
    ("qos", "QOS", 20),
    ("user", "User", 10),
];

type Row = BTreeMap<&'static str, String>;

/// The words after `show`, sorted out.
#[derive(Debug, Default, PartialEq, Eq)]
struct ShowRequest {
    entity: String,
    /// Values of the conditions, by the name of the column.
    only: BTreeMap<&'static str, BTreeSet<String>>,
    format: Option<String>,
    /// Text between columns, and true if it is also after the last one.
    between: Option<bool>,
    no_header: bool,
    with_associations: bool,
}

/// Shows what the words ask for.
///
/// # Errors
/// If the words ask for a change or for something unknown, or the master cannot be asked.
pub async fn run(call: Call) -> Result<u8, Failure> {
    if call.words.iter().any(|word| ["-V", "--version"].contains(&word.as_str())) {
        answer(&format!("slurm-wlm {VERSION}\n"))?;
        return Ok(exit::DONE);
    }
    let wanted = ShowRequest::of(&call.words)?;
    let master = call.master()?;
    let (usual, rows) = match wanted.entity.as_str() {
        "cluster" => ("cluster,controlhost,controlport", vec![cluster()]),
        "qos" => {
            let rows = master.ask(QosQuery).await?.iter().map(qos).collect();
            ("name,priority,flags,maxwall,maxtresperuser,maxjobsperuser", rows)
        }
        entity => {
            let accounts = master.ask(AccountsQuery).await?;
            match entity {
                "account" => ("account,description,organization", accounts.iter().map(account).collect()),
                "user" if !wanted.with_associations => ("user,defaultaccount,admin", users(&wanted, &accounts)),
                "user" => ("user,defaultaccount,admin,cluster,account,fairshare,qos", members(&wanted, &accounts)),
                _ => {
                    let own =
                        accounts.iter().map(|account| Row::from([("user", String::new())]).with(association(account)));
                    let rows = own.chain(members(&wanted, &accounts)).collect();
                    ("cluster,account,user,partition,fairshare,grpjobs,grptres,grpsubmitjobs,qos", rows)
                }
            }
        }
    };
    answer(&wanted.table(usual, &rows)?)?;
    Ok(exit::DONE)
}

/// Adds values to a row.
trait With {
    fn with(self, more: Row) -> Row;
}

impl With for Row {
    fn with(mut self, more: Row) -> Row {
        self.extend(more);
        self
    }
}

/// Finds a column by its name, which may be cut.
fn column(name: &str) -> Option<(&'static str, &'static str, usize)> {
    let name = name.to_ascii_lowercase();
    let name = match name.as_str() {
        "share" => "fairshare",
        "grpcpus" => "grptres",
        "maxjobspu" => "maxjobsperuser",
        "maxtrespu" => "maxtresperuser",
        "maxwalldurationperjob" => "maxwall",
        other => other,
    };
    COLUMNS.into_iter().find(|(own, _, _)| !name.is_empty() && own.starts_with(name))
}

impl ShowRequest {
    fn of(words: &[String]) -> Result<Self, Failure> {
        let mut wanted = Self::default();
        let mut plain = Vec::new();
        for word in words {
            match word.as_str() {
                "-n" | "--noheader" => wanted.no_header = true,
                "-p" | "--parsable" => wanted.between = Some(true),
                "-P" | "--parsable2" => wanted.between = Some(false),
                "-s" | "--associations" => wanted.with_associations = true,
                "-nP" | "-Pn" => (wanted.no_header, wanted.between) = (true, Some(false)),
                option if option.starts_with('-') => {}
                other => plain.push(other),
            }
        }
        let [verb, entity, conditions @ ..] = plain.as_slice() else {
            return Err(Failure::new("name what to show: account, user, assoc, qos, cluster"));
        };
        if !["show", "list"].contains(&verb.to_ascii_lowercase().as_str()) {
            let failure =
                Failure::new("accounts and QOS are in the settings of the master: only `show` and `list` are there");
            return Err(failure.hint("edit [account.NAME] and [qos.NAME] of lmaster.toml"));
        }
        let entities =
            [("account", "account"), ("assoc", "assoc"), ("cluster", "cluster"), ("qos", "qos"), ("user", "user")];
        let lower = entity.to_ascii_lowercase();
        let found = entities.iter().find(|(start, _)| lower.starts_with(start));
        let (_, entity) =
            found.ok_or_else(|| Failure::new(format_args!("No valid entity in list command: {entity}")))?;
        wanted.entity = (*entity).to_owned();
        for condition in conditions {
            wanted.condition(condition)?;
        }
        Ok(wanted)
    }

    fn condition(&mut self, text: &str) -> Result<(), Failure> {
        let own = if self.entity == "qos" { "name" } else { self.entity.as_str() };
        let (name, value) = text.split_once('=').unwrap_or((own, text));
        match name.to_ascii_lowercase().as_str() {
            "where" | "set" => {}
            _ if ["where", "withassoc", "withassociations"].contains(&text.to_ascii_lowercase().as_str()) => {
                self.with_associations |= text.len() > "where".len();
            }
            "format" => self.format = Some(value.to_owned()),
            name => {
                let name = name.strip_suffix('s').filter(|_| name != "qos").unwrap_or(name);
                let name = if name == "name" && self.entity != "qos" { self.entity.as_str() } else { name };
                let (name, _, _) =
                    column(name).ok_or_else(|| Failure::new(format_args!("Unknown condition: {text}")))?;
                let values = value.split(',').filter(|value| !value.is_empty()).map(str::to_owned);
                self.only.entry(name).or_default().extend(values);
            }
        }
        Ok(())
    }

    fn table(&self, usual: &str, rows: &[Row]) -> Result<String, Failure> {
        let mut shown = Vec::new();
        for item in self.format.as_deref().unwrap_or(usual).split(',').filter(|item| !item.is_empty()) {
            let (name, width) = item.split_once('%').unwrap_or((item, ""));
            let (name, title, own) =
                column(name).ok_or_else(|| Failure::new(format_args!("Unknown field '{name}'")))?;
            let given = width.trim_start_matches('-').parse().ok().filter(|width| (1..=WIDEST).contains(width));
            shown.push((name, title, given.unwrap_or(own)));
        }
        let line = |values: Vec<String>| match self.between {
            Some(last) => values.join("|") + if last { "|\n" } else { "\n" },
            None => {
                let cells = values.iter().zip(&shown).map(|(value, (_, _, width))| cell(value, *width, true) + " ");
                cells.collect::<String>() + "\n"
            }
        };
        let mut text = String::new();
        if !self.no_header {
            text += &line(shown.iter().map(|(_, title, _)| (*title).to_owned()).collect());
            if self.between.is_none() {
                text += &line(shown.iter().map(|(_, _, width)| "-".repeat(*width)).collect());
            }
        }
        let is_wanted = |row: &&Row| {
            self.only
                .iter()
                .all(|(name, values)| values.is_empty() || row.get(name).is_some_and(|value| values.contains(value)))
        };
        for row in rows.iter().filter(is_wanted) {
            text += &line(shown.iter().map(|(name, _, _)| row.get(name).cloned().unwrap_or_default()).collect());
        }
        Ok(text)
    }
}

fn cluster() -> Row {
    Row::from([("cluster", CLUSTER.to_owned()), ("name", CLUSTER.to_owned()), ("controlport", "0".to_owned())])
}

fn number<T: ToString>(limit: Option<T>) -> String {
    limit.map(|limit| limit.to_string()).unwrap_or_default()
}

fn cores(limit: Option<u32>) -> String {
    limit.map(|cores| format!("cpu={cores}")).unwrap_or_default()
}

fn qos(qos: &QosReport) -> Row {
    let wall = qos.max_time.map(values::time_whole).unwrap_or_default();
    Row::from([
        ("name", qos.name.clone()),
        ("priority", qos.priority.to_string()),
        ("flags", "DenyOnLimit".to_owned()),
        ("maxwall", wall),
        ("maxjobsperuser", number(qos.quota.jobs)),
        ("maxtresperuser", cores(qos.quota.cores)),
    ])
}

fn account(account: &AccountReport) -> Row {
    let text = Some(&account.description).filter(|text| !text.is_empty()).unwrap_or(&account.name);
    Row::from([("description", text.clone()), ("organization", account.name.clone())]).with(association(account))
}

/// The values of an account in its associations.
fn association(account: &AccountReport) -> Row {
    Row::from([
        ("account", account.name.clone()),
        ("cluster", CLUSTER.to_owned()),
        ("fairshare", account.share.to_string()),
        ("id", view::association(&account.name, "").to_string()),
        ("grpjobs", number(account.quota.jobs)),
        ("grptres", cores(account.quota.cores)),
        ("grpsubmitjobs", number(account.quota.submitted)),
        ("parentname", account.parent.clone().unwrap_or_else(|| "root".to_owned())),
    ])
}

/// Returns the users with the accounts that they may use: those whom accounts list, those whom the words name, and the caller.
fn by_user<'a>(wanted: &ShowRequest, accounts: &'a [AccountReport]) -> BTreeMap<String, Vec<&'a AccountReport>> {
    let list = |text: &str| text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let own = own_user();
    let named = wanted.only.get("user").into_iter().flatten().cloned();
    let listed = accounts.iter().flat_map(|account| list(&account.users));
    let all: BTreeSet<String> = listed.chain(named).chain([own.clone()]).collect();
    let groups = own_groups();
    let may_use = |user: &String, account: &AccountReport| {
        let by_group = *user == own && list(&account.groups).iter().any(|group| groups.contains(group));
        by_group || list(&account.users).contains(user)
    };
    let of = |user: String| {
        let mut may: Vec<&AccountReport> = accounts.iter().filter(|account| may_use(&user, account)).collect();
        may.extend(accounts.iter().filter(|account| account.is_default && !may_use(&user, account)));
        (user, may)
    };
    all.into_iter().map(of).filter(|(_, may)| !may.is_empty()).collect()
}

fn user((user, accounts): (&String, &[&AccountReport])) -> Row {
    let default = accounts.first().map(|account| account.name.clone()).unwrap_or_default();
    Row::from([("user", user.clone()), ("defaultaccount", default), ("admin", "None".to_owned())])
}

fn users(wanted: &ShowRequest, accounts: &[AccountReport]) -> Vec<Row> {
    by_user(wanted, accounts).iter().map(|(name, may)| user((name, may))).collect()
}

/// Returns a row for each user and account.
fn members(wanted: &ShowRequest, accounts: &[AccountReport]) -> Vec<Row> {
    let all = by_user(wanted, accounts);
    let rows = all.iter().flat_map(|(name, may)| {
        may.iter().map(move |account| {
            let own = Row::from([
                ("account", account.name.clone()),
                ("cluster", CLUSTER.to_owned()),
                ("id", view::association(&account.name, name).to_string()),
            ]);
            user((name, may)).with(own).with(Row::from([("fairshare", "1".to_owned())]))
        })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::Quota;

    fn accounts() -> Vec<AccountReport> {
        let quota = Quota { cores: Some(8), ..Quota::default() };
        let physics = AccountReport {
            name: "physics".to_owned(),
            parent: None,
            description: "all labs".to_owned(),
            users: String::new(),
            groups: String::new(),
            quota,
            share: 3,
            is_default: false,
            running: 0,
            waiting: 0,
            cores: 0,
        };
        let optics = AccountReport {
            name: "optics".to_owned(),
            parent: Some("physics".to_owned()),
            users: "ada,bob".to_owned(),
            quota: Quota::default(),
            ..physics.clone()
        };
        vec![optics, physics]
    }

    fn wanted(line: &str) -> Result<ShowRequest, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        ShowRequest::of(&words).map_err(|failure| failure.message)
    }

    #[test]
    fn clients_read_accounts_of_users() {
        let check = |line: &str, expected: &str| {
            let wanted = wanted(line).expect(line);
            let rows = if wanted.entity == "user" && !wanted.with_associations {
                users(&wanted, &accounts())
            } else {
                members(&wanted, &accounts())
            };
            assert_eq!(wanted.table("user,defaultaccount,admin", &rows).expect(line), expected, "{line}");
        };
        check("-n -s list user ada format=account%12", "      optics \n");
        check("-n -P -s show user ada,bob format=user,account", "ada|optics\nbob|optics\n");
        check(
            "show user name=ada",
            "      User   Def Acct     Admin \n---------- ---------- --------- \n       ada     optics      None \n",
        );
        check(
            "-P show assoc where user=bob account=optics format=cluster,account,user",
            "Cluster|Account|User\nlimo|optics|bob\n",
        );
        check("-n -p list associations users=eve format=account", "");
    }

    #[test]
    fn limits_have_the_names_of_slurm() {
        let rows: Vec<Row> = accounts().iter().map(account).collect();
        let table = wanted("-P list account format=account,descr,parentn,share,grptres").expect("words");
        let expected =
            "Account|Descr|Par Name|Share|GrpTRES\noptics|all labs|physics|3|\nphysics|all labs|root|3|cpu=8\n";
        assert_eq!(table.table("", &rows).expect("columns"), expected);
    }

    #[test]
    fn wrong_words_are_refused() {
        let refused = |line: &str, expected: &str| assert_eq!(wanted(line), Err(expected.to_owned()), "{line}");
        refused("show event", "No valid entity in list command: event");
        refused("show", "name what to show: account, user, assoc, qos, cluster");
        refused(
            "add account x",
            "accounts and QOS are in the settings of the master: only `show` and `list` are there",
        );
        refused("show user color=red", "Unknown condition: color=red");
        let wrong = wanted("show user format=color").expect("words").table("", &[]).map_err(|failure| failure.message);
        assert_eq!(wrong, Err("Unknown field 'color'".to_owned()));
    }
}
