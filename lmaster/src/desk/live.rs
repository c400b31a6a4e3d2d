//! Accepted jobs until their ends are on disk: what the core does not keep of them, and the nodes must be told.

use std::collections::HashSet;
use std::sync::Arc;

use limo_model::{JobId, Request};
use limo_proto::{Launch, SubmissionKey};

/// Small, and it points to the rest: there are as many as jobs in a queue.
#[derive(Debug, Clone)]
pub struct Live {
    /// Its number; of an array its own.
    pub job: JobId,
    pub key: SubmissionKey,
    pub uid: u32,
    /// The core's, which is gone from there before the end is on disk.
    pub request: Arc<Request>,
    /// The command and its arguments.
    pub argv: Vec<Vec<u8>>,
    /// Without the command, and shared with jobs that have the same.
    pub launch: Arc<Launch>,
}

impl Live {
    pub fn new((job, key, uid): (JobId, SubmissionKey, u32), request: Arc<Request>, mut launch: Launch) -> Self {
        let argv = std::mem::take(&mut launch.argv);
        Self { job, key, uid, request, argv, launch: Arc::new(launch) }
    }

    /// The launch of one job of it, whole. The entries of an array, of which there may be a million, stay here.
    pub fn launch_of_one(&self) -> Launch {
        let Launch {
            argv: _,
            variants,
            cwd,
            env,
            umask,
            uid,
            io,
            files,
            origin,
            carried,
            terminal,
            array: _,
            parallel,
        } = self.launch.as_ref();
        Launch {
            argv: self.argv.clone(),
            variants: variants.clone(),
            cwd: cwd.clone(),
            env: env.clone(),
            umask: *umask,
            uid: *uid,
            io: *io,
            files: files.clone(),
            origin: origin.clone(),
            carried: carried.clone(),
            terminal: *terminal,
            array: None,
            parallel: *parallel,
        }
    }
}

/// Launches without their commands, each kept once: environment and directory are most of what a job takes in memory, and
/// those that come from one shell are the same.
#[derive(Debug, Default)]
pub struct Launches(HashSet<Arc<Launch>>);

impl Launches {
    /// Has the job use one that is kept already, where it is the same.
    pub fn share(&mut self, live: &mut Live) {
        match self.0.get(&live.launch) {
            Some(known) => live.launch = Arc::clone(known),
            None => drop(self.0.insert(Arc::clone(&live.launch))),
        }
    }

    /// The job is gone, and with the last that has it its launch.
    pub(super) fn release(&mut self, live: Live) {
        // The job's and the one here.
        if Arc::strong_count(&live.launch) == 2 {
            self.0.remove(&live.launch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(number: u64, word: &str, variable: &str) -> Live {
        let env = vec![(b"HOME".to_vec(), variable.into())];
        let launch = Launch { argv: vec![word.into()], env, umask: 0o27, ..Launch::default() };
        Live::new((JobId(number), [0; 16], 0), Arc::new(Request::one_core("true")), launch)
    }

    #[test]
    fn what_jobs_of_one_shell_share_is_kept_once_and_as_long_as_a_job_has_it() {
        let mut all = Launches::default();
        let mut jobs = [live(1, "a", "/a"), live(2, "b", "/a"), live(3, "b", "/b")];
        jobs.iter_mut().for_each(|job| all.share(job));
        assert!(Arc::ptr_eq(&jobs[0].launch, &jobs[1].launch) && !Arc::ptr_eq(&jobs[0].launch, &jobs[2].launch));
        let [launch, other] = [&jobs[1], &jobs[0]].map(Live::launch_of_one);
        assert_eq!((launch.argv, other.argv), (vec![b"b".to_vec()], vec![b"a".to_vec()]));
        assert_eq!((launch.env, launch.umask), (vec![(b"HOME".to_vec(), b"/a".to_vec())], 0o27));
        for (job, left) in jobs.into_iter().zip([2, 1, 0]) {
            all.release(job);
            assert_eq!(all.0.len(), left);
        }
    }

    /// A queue of 100,000 takes so much in the master's map of them, whose leaves may be half full.
    #[test]
    fn a_record_is_small() {
        assert!(size_of::<Live>() <= 80, "{} bytes", size_of::<Live>());
    }
}
