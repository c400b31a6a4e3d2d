//! Words of Slurm for refusals of the master. Programs that call Slurm's commands look for them.

use crate::failure::Failure;

const INVALID_ACCOUNT: &str = "Invalid account or account/partition combination specified";
const INVALID_QOS: &str = "Invalid qos specification";
const INVALID_PARTITION: &str = "Invalid partition name specified";
const NOT_IN_GROUP: &str = "User's group not permitted to use this partition";
const NODE_CONFIGURATION: &str = "Requested node configuration is not available";
const NODE_COUNT: &str = "Node count specification invalid";
const NODE_NAME: &str = "Invalid node name specified";
const TIME_LIMIT: &str = "Requested time limit is invalid (missing or exceeds some limit)";
const POLICY: &str = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)";
const RESERVATION: &str = "Requested reservation is invalid";
const LICENCES: &str = "Invalid license specification";
const DENIED: &str = "Access/permission denied";

/// A refusal by its beginning and a later part, and Slurm's words for it. The first row that matches counts.
const WORDS: [(&str, &str, &str); 27] = [
    ("there is no account `", "", INVALID_ACCOUNT),
    ("the account `", "", INVALID_ACCOUNT),
    ("user ", " has no account", INVALID_ACCOUNT),
    ("there is no QOS `", "", INVALID_QOS),
    ("the QOS `", "", INVALID_QOS),
    ("there is no queue `", "", INVALID_PARTITION),
    ("invalid partition", "", INVALID_PARTITION),
    ("the job names no queue", "", INVALID_PARTITION),
    ("the queue `", " is not for ", NOT_IN_GROUP),
    ("the queue `", " has no time limit", TIME_LIMIT),
    ("the time limit of ", " than the queue `", TIME_LIMIT),
    ("the time limit of ", " than the QOS `", POLICY),
    ("", " that are not over, ", POLICY),
    ("the job could never run within the quota of ", "", POLICY),
    ("the job asks for ", " of the licence `", LICENCES),
    ("there is no licence `", "", LICENCES),
    ("the job asks for ", " the queue `", NODE_COUNT),
    ("the job asks for ", "", NODE_CONFIGURATION),
    ("the step asks for ", "", NODE_CONFIGURATION),
    ("no node has the hardware ", "", NODE_CONFIGURATION),
    ("no unit that the job may use ", "", NODE_CONFIGURATION),
    ("no known node is in the queue ", "", NODE_CONFIGURATION),
    ("the included and excluded nodes leave none", "", NODE_CONFIGURATION),
    ("there is no node `", "", NODE_NAME),
    ("there is no reservation `", "", RESERVATION),
    ("the reservation `", "", RESERVATION),
    ("user ", " may not submit jobs", DENIED),
];

/// Returns Slurm's words for a reason of the master; `None` if Slurm has none for it.
pub fn slurm_words(reason: &str) -> Option<&'static str> {
    let is_it =
        |(begin, later, _): &&(&str, &str, &str)| reason.strip_prefix(begin).is_some_and(|rest| rest.contains(later));
    WORDS.iter().find(is_it).map(|(_, _, words)| *words)
}

impl Failure {
    /// Puts Slurm's words, behind those of the failed action, on a line after the reason of a refusal. Other failures stay.
    #[must_use]
    pub fn as_slurm(mut self, program: &str, action: &str) -> Self {
        if let Some(words) = slurm_words(&self.message) {
            self.message = format!("{}\n{program}: error: {action}: {words}", self.message);
            self.code = 1;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_refusals_have_the_words_of_slurm() {
        for (reason, words) in [
            ("there is no account `x` (accounts: optics)", INVALID_ACCOUNT),
            ("the account `physics` is not for user ada: use `optics`", INVALID_ACCOUNT),
            ("user ada has no account", INVALID_ACCOUNT),
            ("the QOS `urgent` is not for user ada", INVALID_QOS),
            ("there is no queue `x` (queues: short)", INVALID_PARTITION),
            ("the queue `short` is not for ada, who is in none of its groups: lab", NOT_IN_GROUP),
            ("the queue `short` allows at most 1h: the job has no time limit", TIME_LIMIT),
            ("the time limit of 2h is longer than the queue `short` allows: at most 1h", TIME_LIMIT),
            ("the time limit of 2h is longer than the QOS `urgent` allows: at most 1h", POLICY),
            ("user ada has 5 jobs that are not over, 1 more would be above the quota of 5", POLICY),
            ("the job asks for 3 nodes: the queue `short` allows at most 2", NODE_COUNT),
            ("the job asks for 9 cores: the largest node it may use, `n1`, offers 8 cores", NODE_CONFIGURATION),
            ("the job asks for 3 of the licence `matlab`: the cluster has 2", LICENCES),
            ("no node has the hardware a100 (hardware: cpu)", NODE_CONFIGURATION),
            ("there is no node `n9` (nodes: n1)", NODE_NAME),
            ("user ada may not submit jobs: an operator denies it", DENIED),
        ] {
            assert_eq!(slurm_words(reason), Some(words), "{reason}");
        }
        assert_eq!(slurm_words("the array has no tasks"), None);
    }

    #[test]
    fn other_failures_keep_their_message_and_code() {
        let refused = Failure::new("no node has the hardware k80 (hardware: cpu)").as_slurm("srun", "Unable");
        let expected =
            format!("no node has the hardware k80 (hardware: cpu)\nsrun: error: Unable: {NODE_CONFIGURATION}");
        assert_eq!((refused.message, refused.code), (expected, 1));
        let other = Failure::new("command not found: x").as_slurm("srun", "Unable");
        assert_eq!(other, Failure::new("command not found: x"));
    }
}
