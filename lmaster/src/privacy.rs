//! Hides from users what describes the commands of other users: command lines, paths, and names that were derived from
//! command lines. Works on answers, so that each query of each program shows the same.

use limo_model::application::{JOINT, is_of_other};
use limo_model::{JobEnd, Outcome};
use limo_proto::{Answer, ChangeReport, EnergySum, Explanation, ItemReport, JobReport, MasterToClient};

/// Text in place of what is hidden.
pub const HIDDEN: &str = "(hidden)";

/// Beginning of the subject of a changed profile.
const PROFILE: &str = "profile ";

/// Hides the commands of others in a message to `user`.
pub fn hide(message: &mut MasterToClient, user: &str) {
    match message {
        MasterToClient::Answer(answer) | MasterToClient::Piece(answer) => hide_in_answer(answer, user),
        MasterToClient::Finished { report, .. } => hide_in_report(report, user),
        // These are about the client's own request or job.
        MasterToClient::Accepted { .. }
        | MasterToClient::Refused { .. }
        | MasterToClient::Waiting { .. }
        | MasterToClient::Running { .. }
        | MasterToClient::Attached { .. }
        | MasterToClient::StreamAck { .. }
        | MasterToClient::UsedUp { .. }
        | MasterToClient::TakenUp { .. }
        | MasterToClient::TakenOver { .. }
        | MasterToClient::Notice { .. } => {}
    }
}

fn hide_in_answer(answer: &mut Answer, user: &str) {
    match answer {
        Answer::Jobs(jobs) | Answer::JobsUpTo { jobs, .. } | Answer::History { jobs, .. } => {
            jobs.iter_mut().for_each(|job| hide_in_report(job, user));
        }
        Answer::Explanation(explanation) => hide_in_explanation(explanation, user),
        Answer::Variation(factors) => factors.retain(|(name, _)| !is_of_other(&name.application, user)),
        Answer::Profiles(profiles) => profiles.retain(|(key, _)| !is_of_other(&key.application, user)),
        Answer::Energy(report) => report.sums.iter_mut().for_each(|sum| hide_in_sum(sum, user)),
        Answer::Plan(report) => {
            let others = report.starts.iter_mut().filter(|start| start.user != user && start.name.contains(JOINT));
            others.for_each(|start| HIDDEN.clone_into(&mut start.name));
        }
        Answer::Changes { changes, .. } => changes.iter_mut().for_each(|change| hide_in_change(change, user)),
        // The rest has no commands, or is for operators only.
        _ => {}
    }
}

fn hide_in_report(job: &mut JobReport, user: &str) {
    if job.user == user {
        return;
    }
    HIDDEN.clone_into(&mut job.command);
    if job.application.contains(JOINT) {
        HIDDEN.clone_into(&mut job.application);
    }
    (job.stdout, job.stderr, job.directory, job.labels) = (None, None, None, None);
    // The reason names the program.
    if let Some(JobEnd::Ran { outcome: Outcome::NotStarted { reason, .. }, .. }) = &mut job.end {
        HIDDEN.clone_into(reason);
    }
}

fn hide_in_explanation(explanation: &mut Explanation, user: &str) {
    if explanation.job.user != user {
        hide_in_report(&mut explanation.job, user);
        // The origin of an estimate names the application.
        explanation.candidates.iter_mut().for_each(|candidate| HIDDEN.clone_into(&mut candidate.origin));
    }
}

fn hide_in_sum(sum: &mut EnergySum, user: &str) {
    if is_of_other(&sum.key, user) {
        sum.key = hidden_of(&sum.key);
    }
}

fn hide_in_change(change: &mut ChangeReport, user: &str) {
    for ItemReport { subject, .. } in &mut change.items {
        if let Some(key) = subject.strip_prefix(PROFILE).filter(|key| is_of_other(key, user)) {
            *subject = format!("{PROFILE}{}", hidden_of(key));
        }
    }
}

/// Returns what remains of a derived name: its user.
fn hidden_of(application: &str) -> String {
    let owner = application.split_once(JOINT).map_or("", |(owner, _)| owner);
    format!("{owner}{JOINT}{HIDDEN}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_derived_names_of_others_are_hidden() {
        let check = |key: &str, expected: &str| {
            let mut sum = EnergySum { key: key.to_owned(), ..EnergySum::default() };
            hide_in_sum(&mut sum, "bob");
            assert_eq!(sum.key, expected);
        };
        check("ada+git+gc+--prune+now", "ada+(hidden)");
        check("bob+git+gc", "bob+git+gc");
        check("solver", "solver");
        check("ada", "ada");
    }

    #[test]
    fn changes_of_profiles_do_not_show_the_commands_of_others() {
        let item = |subject: &str| ItemReport {
            subject: subject.to_owned(),
            old: String::new(),
            new: "set".to_owned(),
            can_undo: false,
        };
        let items = ["profile ada+cg+-n+N/5 on cpu", "profile bob+cg on cpu", "limits"].map(item).to_vec();
        let mut change = ChangeReport {
            number: 1,
            at: limo_model::Time::from_unix_ms(0),
            by: "root".to_owned(),
            undo_of: None,
            items,
            more: 0,
        };
        hide_in_change(&mut change, "bob");
        let subjects: Vec<&str> = change.items.iter().map(|item| item.subject.as_str()).collect();
        assert_eq!(subjects, ["profile ada+(hidden)", "profile bob+cg on cpu", "limits"]);
    }
}
