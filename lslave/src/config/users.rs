//! Settings of the users of jobs.

use clap::Args;
use limo_node::UserRules;
use limo_proto::Endpoint;
use serde::Deserialize;

#[derive(Debug, Clone, Default, Args)]
pub struct UserArguments {
    /// Run jobs of root [default: true, but false with a master of another machine (tls://)]
    #[arg(long, env = "LIMO_ROOT_JOBS", value_name = "true|false")]
    pub root_jobs: Option<bool>,
    /// Run jobs of users from this number on, besides root [default: 0]
    #[arg(long, env = "LIMO_MIN_UID", value_name = "UID")]
    pub min_uid: Option<u32>,
    /// Start jobs with no_new_privs: set-user-ID programs such as sudo give no rights [default: false]
    #[arg(long, env = "LIMO_NO_NEW_PRIVS", value_name = "true|false")]
    pub no_new_privs: Option<bool>,
}

/// The table `[users]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserTable {
    root_jobs: Option<bool>,
    min_uid: Option<u32>,
    no_new_privs: Option<bool>,
}

/// Settings of a running daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserSettings {
    pub rules: UserRules,
    pub no_new_privs: bool,
}

impl UserTable {
    /// Returns the settings of the file, replaced by those of the command line.
    pub fn with(self, given: &UserArguments, master: &Endpoint) -> UserSettings {
        // Root of the master's machine need not be root of this one.
        let root_jobs = given.root_jobs.or(self.root_jobs).unwrap_or(!matches!(master, Endpoint::Tls(_)));
        let min_uid = given.min_uid.or(self.min_uid).unwrap_or(0);
        let no_new_privs = given.no_new_privs.or(self.no_new_privs).unwrap_or(false);
        UserSettings { rules: UserRules { root_jobs, min_uid }, no_new_privs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_root_come_from_this_machine_or_are_allowed() {
        let check = |master: &str, file: Option<bool>, flag: Option<bool>| {
            let table = UserTable { root_jobs: file, ..UserTable::default() };
            let given = UserArguments { root_jobs: flag, ..UserArguments::default() };
            table.with(&given, &master.parse().expect("an address")).rules.root_jobs
        };
        assert!(check("unix:/run/limo/master.sock", None, None));
        assert!(!check("tls://head:6818", None, None));
        assert!(check("tls://head:6818", Some(true), None));
        assert!(!check("tls://head:6818", Some(true), Some(false)));
    }
}
