//! Accepted jobs until their ends are on disk: what the core does not keep of them, and the nodes must be told.

use std::collections::HashSet;
use std::sync::Arc;

use limo_model::{JobId, Request};
use limo_proto::{Launch, SubmissionKey};

/// The variables of a job.
type Environment = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Debug, Clone)]
pub struct Live {
    /// Its number; of an array its own.
    pub job: JobId,
    pub key: SubmissionKey,
    pub uid: u32,
    pub request: Request,
    /// Without its environment.
    pub launch: Launch,
    env: Arc<Environment>,
}

impl Live {
    pub fn new((job, key, uid): (JobId, SubmissionKey, u32), request: Request, mut launch: Launch) -> Self {
        let env = Arc::new(std::mem::take(&mut launch.env));
        Self { job, key, uid, request, launch, env }
    }

    /// The launch of one job of it, whole. The entries of an array, of which there may be a million, stay here.
    pub fn launch_of_one(&self) -> Launch {
        let Launch {
            argv,
            variants,
            cwd,
            env: _,
            umask,
            uid,
            io,
            files,
            origin,
            carried,
            terminal,
            array: _,
            parallel,
        } = &self.launch;
        Launch {
            argv: argv.clone(),
            variants: variants.clone(),
            cwd: cwd.clone(),
            env: self.env.as_ref().clone(),
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

/// Environments, each kept once: it is most of what a job takes in memory, and those that come from one shell are the same.
#[derive(Debug, Default)]
pub(super) struct Environments(HashSet<Arc<Environment>>);

impl Environments {
    /// Has the job use one that is kept already, where it is the same.
    pub(super) fn share(&mut self, live: &mut Live) {
        match self.0.get(&live.env) {
            Some(known) => live.env = Arc::clone(known),
            None => drop(self.0.insert(Arc::clone(&live.env))),
        }
    }

    /// The job is gone, and with the last that has it its environment.
    pub(super) fn release(&mut self, live: Live) {
        // The job's and the one here.
        if Arc::strong_count(&live.env) == 2 {
            self.0.remove(&live.env);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_kept_once_and_as_long_as_a_job_has_it() {
        let live = |number: u64, value: &str| {
            let launch = Launch { env: vec![(b"HOME".to_vec(), value.into())], ..Launch::default() };
            Live::new((JobId(number), [0; 16], 0), Request::one_core("true"), launch)
        };
        let mut all = Environments::default();
        let mut jobs = [live(1, "/a"), live(2, "/a"), live(3, "/b")];
        jobs.iter_mut().for_each(|job| all.share(job));
        assert!(Arc::ptr_eq(&jobs[0].env, &jobs[1].env) && !Arc::ptr_eq(&jobs[0].env, &jobs[2].env));
        assert_eq!(jobs[1].launch_of_one().env, [(b"HOME".to_vec(), b"/a".to_vec())]);
        for (job, left) in jobs.into_iter().zip([2, 1, 0]) {
            all.release(job);
            assert_eq!(all.0.len(), left);
        }
    }
}
