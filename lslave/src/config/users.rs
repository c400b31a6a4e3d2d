//! Settings of the users of jobs.

use std::path::Path;

use anyhow::{Context, bail};
use clap::Args;
use libloading::Library;
use limo_model::clip_lossy;
use limo_node::UserRules;
use limo_proto::Endpoint;
use nix::unistd::geteuid;
use serde::Deserialize;

const LIBPAM: &str = "libpam.so.0";

/// Directories of the files of PAM services.
const SERVICES: [&str; 2] = ["/etc/pam.d", "/usr/lib/pam.d"];

/// Longest name of a PAM service, in bytes.
const LONGEST_SERVICE: usize = 64;

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
    /// PAM service that opens a session for each job; only for a daemon of root [default: none]
    #[arg(long, env = "LIMO_PAM", value_name = "SERVICE")]
    pub pam: Option<String>,
}

/// The table `[users]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserTable {
    root_jobs: Option<bool>,
    min_uid: Option<u32>,
    no_new_privs: Option<bool>,
    pam: Option<String>,
}

/// Settings of a running daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserSettings {
    pub rules: UserRules,
    pub no_new_privs: bool,
    /// Name of a PAM service of this machine.
    pub pam: Option<String>,
}

impl UserTable {
    /// Returns the settings of the file, replaced by those of the command line.
    ///
    /// # Errors
    /// If the PAM service cannot be used.
    pub fn with(self, given: &UserArguments, master: &Endpoint) -> anyhow::Result<UserSettings> {
        // Root of the master's machine need not be root of this one.
        let root_jobs = given.root_jobs.or(self.root_jobs).unwrap_or(!matches!(master, Endpoint::Tls(_)));
        let min_uid = given.min_uid.or(self.min_uid).unwrap_or(0);
        let no_new_privs = given.no_new_privs.or(self.no_new_privs).unwrap_or(false);
        let pam = given.pam.clone().or(self.pam);
        if let Some(service) = &pam {
            check_service(service, &SERVICES.map(Path::new))?;
            if !geteuid().is_root() {
                bail!("the PAM service `{service}` is set, but only a daemon of root can open sessions: remove `pam`");
            }
            // SAFETY: libpam has no initialization that depends on this process, and the operator chooses the libraries
            // of the machine.
            unsafe { Library::new(LIBPAM) }
                .with_context(|| format!("cannot load {LIBPAM} for the PAM service `{service}`"))?;
        }
        Ok(UserSettings { rules: UserRules { root_jobs, min_uid }, no_new_privs, pam })
    }
}

/// Checks the name of a PAM service and its file in one of the directories.
fn check_service(service: &str, directories: &[&Path]) -> anyhow::Result<()> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if service.is_empty() || service.len() > LONGEST_SERVICE || !service.bytes().all(is_allowed) {
        bail!(
            "the PAM service `{}` must be 1 to {LONGEST_SERVICE} letters, digits, `-` or `_`, for example `limo`",
            clip_lossy(service.as_bytes(), LONGEST_SERVICE)
        );
    }
    if !directories.iter().any(|directory| directory.join(service).is_file()) {
        let places: Vec<_> =
            directories.iter().map(|directory| directory.join(service).display().to_string()).collect();
        bail!("the PAM service `{service}` does not exist: create {}", places.join(" or "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_root_come_from_this_machine_or_are_allowed() {
        let check = |master: &str, file: Option<bool>, flag: Option<bool>| {
            let table = UserTable { root_jobs: file, ..UserTable::default() };
            let given = UserArguments { root_jobs: flag, ..UserArguments::default() };
            table.with(&given, &master.parse().expect("an address")).expect("valid").rules.root_jobs
        };
        assert!(check("unix:/run/limo/master.sock", None, None));
        assert!(!check("tls://head:6818", None, None));
        assert!(check("tls://head:6818", Some(true), None));
        assert!(!check("tls://head:6818", Some(true), Some(false)));
    }

    #[test]
    fn a_pam_service_is_the_name_of_an_existing_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let longest = "a".repeat(64);
        for name in ["limo", "Limo_2-x", &longest] {
            std::fs::write(directory.path().join(name), "").expect("written");
            check_service(name, &[directory.path()]).expect("valid");
        }
        let refused = |name: &str| check_service(name, &[directory.path()]).expect_err(name).to_string();
        for name in ["", "../limo", "li mo", "li.mo", &"a".repeat(65)] {
            assert!(refused(name).contains("must be 1 to 64 letters"), "{name}");
        }
        let missing = format!("the PAM service `other` does not exist: create {}/other", directory.path().display());
        assert_eq!(refused("other"), missing);
    }
}
