//! Data of other users that a user can see: `[privacy]`.

use serde::Deserialize;

/// The section `[privacy]`; only in the file.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PrivacyTable {
    commands: Option<Viewers>,
}

/// Those who see the command line and the paths of a job, besides operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Viewers {
    Owner,
    All,
}

impl PrivacyTable {
    /// Returns true if commands are hidden from other users: by default in a cluster of several machines.
    pub(super) fn hides_commands(self, is_cluster: bool) -> bool {
        self.commands.map_or(is_cluster, |viewers| viewers == Viewers::Owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_hidden_in_a_cluster_unless_an_operator_says_otherwise() {
        let read = |text: &str| toml::from_str::<PrivacyTable>(text).expect("readable");
        let (none, owner, all) = (read(""), read("commands = \"owner\""), read("commands = \"all\""));
        assert_eq!([none, owner, all].map(|table| table.hides_commands(true)), [true, true, false]);
        assert_eq!([none, owner, all].map(|table| table.hides_commands(false)), [false, true, false]);
        assert!(toml::from_str::<PrivacyTable>("commands = \"nobody\"").is_err());
    }
}
