//! Settings of the prolog and epilog of jobs.

use std::path::PathBuf;

use anyhow::{Context, bail};
use limo_model::Span;
use limo_node::Scripts;
use limo_proto::safe_program;
use serde::Deserialize;

const DEFAULT_TIME_LIMIT: Span = Span::from_secs(60);
const LONGEST: Span = Span::from_secs(3600);

/// The table `[prolog]` or `[epilog]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptTable {
    program: PathBuf,
    #[serde(default, deserialize_with = "limo_model::as_text::option::deserialize")]
    time_limit: Option<Span>,
}

/// A program of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptProgram {
    /// Absolute path. Only root and the daemon's user can change the file.
    pub path: PathBuf,
    /// Time after which the program is killed: above 0, at most 1 h.
    pub time_limit: Span,
}

/// The programs of a running daemon.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScriptSettings {
    pub prolog: Option<ScriptProgram>,
    pub epilog: Option<ScriptProgram>,
}

impl ScriptSettings {
    /// Checks the tables and their programs.
    ///
    /// # Errors
    /// If a path is relative, other users can change its file, or a time limit is out of range.
    pub fn checked(prolog: Option<ScriptTable>, epilog: Option<ScriptTable>) -> anyhow::Result<Self> {
        let check = |table: Option<ScriptTable>, name| table.map(|table| table.checked(name)).transpose();
        Ok(Self { prolog: check(prolog, "prolog")?, epilog: check(epilog, "epilog")? })
    }

    /// Returns the programs that there are.
    pub fn present(&self) -> Scripts {
        Scripts { prolog: self.prolog.is_some(), epilog: self.epilog.is_some() }
    }
}

impl ScriptTable {
    fn checked(self, name: &str) -> anyhow::Result<ScriptProgram> {
        let Self { program: path, time_limit } = self;
        if !path.is_absolute() {
            bail!("the program `{}` of [{name}] must be an absolute path, such as `/etc/limo/{name}`", path.display());
        }
        safe_program(&path).with_context(|| format!("the program of [{name}] cannot be used"))?;
        let time_limit = time_limit.unwrap_or(DEFAULT_TIME_LIMIT);
        if time_limit <= Span::ZERO || time_limit > LONGEST {
            bail!("the time limit of [{name}] is {time_limit}: it must be positive and at most {LONGEST}");
        }
        Ok(ScriptProgram { path, time_limit })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn refused(table: &str) -> String {
        let table: ScriptTable = toml::from_str(table).expect("a table");
        format!("{:#}", ScriptSettings::checked(Some(table), None).expect_err("refused"))
    }

    #[test]
    fn a_program_that_others_can_change_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("prolog");
        fs::write(&path, "#!/bin/sh\n").expect("written");
        let mode = |mode| fs::set_permissions(&path, Permissions::from_mode(mode)).expect("own file");
        let table = format!("program = \"{}\"\n", path.display());
        mode(0o775);
        let error = refused(&table);
        assert!(error.starts_with("the program of [prolog] cannot be used: "), "{error}");
        assert!(error.ends_with(&format!("(mode 0775): run `chmod go-w {}`", path.display())), "{error}");
        mode(0o644);
        assert!(refused(&table).ends_with("is not an executable file"), "{}", refused(&table));
        mode(0o755);
        let parsed = ScriptSettings::checked(toml::from_str(&table).expect("a table"), None).expect("safe");
        assert_eq!(parsed.prolog, Some(ScriptProgram { path: path.clone(), time_limit: Span::from_secs(60) }));
        assert_eq!(parsed.present(), Scripts { prolog: true, epilog: false });
        for limit in ["0s", "2h"] {
            let error = refused(&format!("{table}time_limit = \"{limit}\"\n"));
            assert!(error.ends_with("it must be positive and at most 1h"), "{error}");
        }
        assert!(refused("program = \"prolog\"").contains("must be an absolute path"));
    }
}
