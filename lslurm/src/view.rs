//! The properties of a job that several commands show.

use limo_client::{Clock, Used, job_label};
use limo_model::{JobId, Span, Time, host_list};
use limo_proto::JobReport;
use nix::unistd::User;

use crate::partitions::ONLY;
use crate::{moment, status, values};

/// A job, and the time and zone in which it is shown.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub job: &'a JobReport,
    pub clock: &'a Clock,
}

impl View<'_> {
    /// Returns `7`, `12_3` or `12_[4-9]`.
    pub fn label(&self) -> String {
        job_label(self.job)
    }

    /// Returns the number of the job itself.
    pub fn number(&self) -> String {
        if self.job.step.is_some() { job_label(self.job) } else { self.job.job.to_string() }
    }

    /// Returns the number of the job's array, or of the job.
    pub fn array(&self) -> String {
        self.job.task.map_or(self.job.job, |(array, _)| array).to_string()
    }

    /// Returns the number of the task in its array, or the waiting tasks.
    pub fn task(&self) -> String {
        let waiting = || Some(self.job.array.as_ref()?.waiting.as_ref()?.to_string());
        self.job.task.map(|(_, task)| task.to_string()).or_else(waiting).unwrap_or_else(|| "N/A".to_owned())
    }

    pub fn partition(&self) -> String {
        self.job.queue.clone().unwrap_or_else(|| ONLY.to_owned())
    }

    pub fn nodes(&self) -> String {
        host_list(self.job.nodes.iter().map(String::as_str))
    }

    /// Returns the number of nodes; before the start, of those that it needs.
    pub fn node_count(&self) -> u32 {
        // Reports of older journals have only the names.
        u32::try_from(self.job.nodes.len()).unwrap_or(u32::MAX).max(self.job.node_count).max(1)
    }

    /// Returns the number of cores on all nodes, at least one on each, as Slurm counts; before the start, of those that it
    /// needs.
    pub fn cores(&self) -> u32 {
        self.job.total_cores.unwrap_or(1).max(self.node_count())
    }

    /// Returns the directory in which it was submitted.
    pub fn directory(&self) -> String {
        self.job.directory.clone().unwrap_or_default()
    }

    /// Returns the resources that it used, once it is over.
    pub fn used(&self) -> Option<Used> {
        Used::of(self.job)
    }

    pub fn run(&self) -> Span {
        let end = self.job.ended.unwrap_or(self.clock.now());
        self.job.started.map_or(Span::ZERO, |started| end - started)
    }

    pub fn limit(&self) -> String {
        self.job.time_limit.map_or_else(|| "UNLIMITED".to_owned(), values::time_run)
    }

    pub fn moment(&self, time: Option<Time>, absent: &str) -> String {
        time.map_or_else(|| absent.to_owned(), |time| moment::shown(time, self.clock))
    }

    /// Returns the reason in brackets for a job that waits or failed, else the nodes.
    pub fn place_or_reason(&self) -> String {
        let has_reason = ["PENDING", "FAILED", "TIMEOUT", "OUT_OF_MEMORY"].contains(&status::of_job(self.job).name);
        if has_reason { format!("({})", status::reason(self.job)) } else { self.nodes() }
    }

    pub fn uid(&self) -> String {
        match User::from_name(&self.job.user) {
            Ok(Some(user)) => user.uid.to_string(),
            _ => self.job.user.clone(),
        }
    }

    pub fn gid(&self) -> String {
        match User::from_name(&self.job.user) {
            Ok(Some(user)) => user.gid.to_string(),
            _ => String::new(),
        }
    }

    pub fn group(&self) -> String {
        let gid = User::from_name(&self.job.user).ok().flatten().map(|user| user.gid);
        let group = gid.and_then(|gid| nix::unistd::Group::from_gid(gid).ok().flatten());
        group.map_or_else(String::new, |group| group.name)
    }

    pub fn priority(&self) -> String {
        // Slurm's priorities are positive, and 0 is that of a held job.
        let points = self.job.priority.map_or(1, |standing| standing.total().max(1));
        if self.job.held.is_some() { "0".to_owned() } else { points.to_string() }
    }

    /// Returns the account; empty without any.
    pub fn account(&self) -> String {
        self.job.account.clone().unwrap_or_default()
    }

    /// Returns the number of the association of its user with its account; 0 without an account, as by Slurm.
    pub fn association(&self) -> u32 {
        self.job.account.as_ref().map_or(0, |account| association(account, &self.job.user))
    }

    /// Returns the QOS. Slurm's name for that of all jobs is `normal`.
    pub fn qos(&self) -> String {
        self.job.qos.clone().unwrap_or_else(|| "normal".to_owned())
    }

    /// Returns the licences, such as `ansys:3,matlab:2`; empty without any.
    pub fn licences(&self) -> String {
        let all: Vec<String> = self.job.licences.iter().map(ToString::to_string).collect();
        all.join(",")
    }

    /// Returns the comment of its user; empty without one.
    pub fn comment(&self) -> String {
        self.job.labels.as_ref().and_then(|labels| labels.comment.clone()).unwrap_or_default()
    }

    /// Returns the key by which the site characterizes work; empty without one.
    pub fn wckey(&self) -> String {
        self.job.labels.as_ref().and_then(|labels| labels.wckey.clone()).unwrap_or_default()
    }

    pub fn dependencies(&self) -> String {
        let on = self.job.dependencies.iter().map(|dependency| format!("{dependency}(unfulfilled)"));
        let all: Vec<String> = on.chain(self.job.singleton.then(|| "singleton(unfulfilled)".to_owned())).collect();
        all.join(",")
    }
}

/// Returns the number of the association of a user with an account, or of the account itself if the user is empty. Limo
/// has none, so it is the hash FNV-1a of both names, from 1 to 2^31 - 1.
pub fn association(account: &str, user: &str) -> u32 {
    let bytes = account.bytes().chain([b'/']).chain(user.bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash & 0x7fff_ffff).max(1)
}

/// Returns true if the job is the one of this number, or a task of that array.
pub fn belongs(job: &JobReport, number: JobId) -> bool {
    job.job == number || job.task.is_some_and(|(array, _)| array == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_associations_are_stable() {
        // The hash of `a` is in the list of test vectors of FNV.
        let step = |hash: u64, byte: u64| (hash ^ byte) * 0x0100_0193 % (1 << 32);
        let expected = step(0xe40c_292c, 0x2f) % (1 << 31);
        assert_eq!(u64::from(association("a", "")), expected);
        assert_ne!(association("physics", "ada"), association("physics", "bob"));
        assert_ne!(association("physics", "ada"), association("optics", "ada"));
    }
}
