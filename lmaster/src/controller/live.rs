//! Accepted jobs until their ends are on disk: the data that nodes need and the core does not keep.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use limo_model::{JobId, Memory, Request};
use limo_proto::{Launch, SubmissionKey, encoded_len};

use crate::limits::Limits;

/// Freed bytes after which memory is returned to the kernel.
const GIVEN_BACK: usize = 16 << 20;

/// An accepted job. It is small and refers to shared data, because the queue may be long.
#[derive(Debug, Clone)]
pub struct Live {
    /// The job's number, or the array's own.
    pub job: JobId,
    pub key: SubmissionKey,
    pub uid: u32,
    /// Encoded bytes of its request and its command.
    own_size: u32,
    /// Encoded bytes of the launch, once it is shared.
    launch_size: u32,
    /// Request, shared with the core, which drops it before the end is on disk.
    pub request: Arc<Request>,
    /// The command and its arguments.
    pub argv: Vec<Vec<u8>>,
    /// Launch without the command, shared with other jobs.
    pub launch: Arc<Launch>,
}

impl Live {
    pub fn new((job, key, uid): (JobId, SubmissionKey, u32), request: Arc<Request>, mut launch: Launch) -> Self {
        let argv = std::mem::take(&mut launch.argv);
        let own_size = own_size(&request, &argv);
        Self { job, key, uid, own_size, launch_size: 0, request, argv, launch: Arc::new(launch) }
    }

    /// Returns the bytes of the job's request and its launch in the journal.
    pub(super) fn size(&self) -> usize {
        self.own_size as usize + self.launch_size as usize
    }

    /// Returns the complete launch of one of its jobs. The entries of an array, possibly a million, stay here.
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
            hold,
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
            hold: *hold,
        }
    }
}

fn own_size(request: &Request, argv: &[Vec<u8>]) -> u32 {
    // Both are parts of a frame, so the sum fits.
    u32::try_from(encoded_len(request) + encoded_len(&argv)).unwrap_or(u32::MAX)
}

/// Launches without their commands, each kept once, and the encoded bytes of each user's jobs. Environment and
/// directory take most of a job's memory, and jobs from one shell share them.
#[derive(Debug, Default)]
pub struct Launches {
    /// Launches with their sizes.
    all: HashMap<Arc<Launch>, usize>,
    users: BTreeMap<u32, Used>,
    /// Memory of the jobs of all users.
    memory: usize,
    /// Freed bytes that were not yet returned to the kernel.
    freed: usize,
}

/// Sums over the unfinished jobs of a user.
#[derive(Debug, Default)]
struct Used {
    /// Number of jobs; an array counts as one.
    jobs: u32,
    /// Memory for requests and commands, and each distinct launch once.
    memory: usize,
    /// Size in the journal, where each job has its own launch.
    journal: usize,
}

impl Launches {
    /// Checks that a user may have one more job.
    ///
    /// # Errors
    /// The exceeded limit, with its value.
    pub(super) fn check(&self, uid: u32, request: &Request, launch: &mut Launch, limits: Limits) -> Result<(), String> {
        let argv = std::mem::take(&mut launch.argv);
        let own = own_size(request, &argv) as usize;
        let (size, is_known) = match self.all.get(&*launch) {
            Some(size) => (*size, true),
            None => (encoded_len(launch), false),
        };
        launch.argv = argv;
        let none = Used::default();
        let used = self.users.get(&uid).unwrap_or(&none);
        if used.jobs >= limits.jobs {
            return Err(format!(
                "{} jobs of one user are waiting or running: the limit is reached (limits.jobs)",
                used.jobs
            ));
        }
        let more = own + if is_known { 0 } else { size };
        for (what, name, used, more, limit) in [
            ("memory for the jobs of one user", "launches", used.memory, more, limits.launches),
            ("memory for the jobs of all users", "all_launches", self.memory, more, limits.all_launches),
            (
                "space in the journal for the jobs of one user",
                "submissions",
                used.journal,
                own + size,
                limits.submissions,
            ),
        ] {
            if used + more > limit {
                let [used, more, limit] = [used, more, limit].map(|size| Memory::from_bytes(size as u64));
                return Err(format!(
                    "the {what} is used up: {used} are taken, the job takes {more}, and the limit is {limit} (limits.{name})"
                ));
            }
        }
        Ok(())
    }

    /// Replaces the job's launch by an equal one that is already kept.
    pub fn share(&mut self, live: &mut Live) {
        let used = self.users.entry(live.uid).or_default();
        let own = live.own_size as usize;
        let (size, more) = match self.all.get_key_value(&live.launch) {
            Some((known, size)) => {
                live.launch = Arc::clone(known);
                (*size, own)
            }
            None => {
                let size = encoded_len(&*live.launch);
                self.all.insert(Arc::clone(&live.launch), size);
                (size, own + size)
            }
        };
        // Both are parts of a frame, so the size fits.
        live.launch_size = u32::try_from(size).unwrap_or(u32::MAX);
        used.jobs += 1;
        used.memory += more;
        used.journal += own + size;
        self.memory += more;
    }

    /// Removes a job, and its launch with the last job that has it. Returns true if much memory was freed since it last
    /// returned true.
    pub(super) fn release(&mut self, live: Live) -> bool {
        let (own, size) = (live.own_size as usize, live.launch_size as usize);
        // The job and this table hold one reference each.
        let less = if Arc::strong_count(&live.launch) == 2 {
            self.all.remove(&live.launch);
            own + size
        } else {
            own
        };
        self.memory -= less.min(self.memory);
        if let Some(used) = self.users.get_mut(&live.uid) {
            used.jobs = used.jobs.saturating_sub(1);
            used.memory = used.memory.saturating_sub(less);
            used.journal = used.journal.saturating_sub(own + size);
            if used.jobs == 0 {
                self.users.remove(&live.uid);
            }
        }
        self.freed += less;
        let is_much = self.freed >= GIVEN_BACK;
        if is_much {
            self.freed = 0;
        }
        is_much
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.users.is_empty() && self.memory == 0
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
    fn shared_environments_are_kept_once_until_their_last_job() {
        let mut all = Launches::default();
        let mut jobs = [live(1, "a", "/a"), live(2, "b", "/a"), live(3, "b", "/b")];
        jobs.iter_mut().for_each(|job| all.share(job));
        assert!(Arc::ptr_eq(&jobs[0].launch, &jobs[1].launch) && !Arc::ptr_eq(&jobs[0].launch, &jobs[2].launch));
        let [launch, other] = [&jobs[1], &jobs[0]].map(Live::launch_of_one);
        assert_eq!((launch.argv, other.argv), (vec![b"b".to_vec()], vec![b"a".to_vec()]));
        assert_eq!((launch.env, launch.umask), (vec![(b"HOME".to_vec(), b"/a".to_vec())], 0o27));
        for (job, left) in jobs.into_iter().zip([2, 1, 0]) {
            all.release(job);
            assert_eq!(all.all.len(), left);
        }
        assert!(all.is_empty(), "{all:?}");
    }

    #[test]
    fn a_launch_counts_once_in_memory_and_for_each_job_in_the_journal() {
        let (mut all, request) = (Launches::default(), Request::one_core("true"));
        let mut launch = Launch { argv: vec![b"a".to_vec()], ..Launch::default() };
        launch.env = vec![(b"HOME".to_vec(), vec![b'x'; 100_000])];
        let limits = Limits { launches: 150_000, submissions: 250_000, jobs: 3, ..Limits::default() };
        let mut jobs = Vec::new();
        let mut add = |all: &mut Launches, launch: &Launch, uid| {
            all.check(uid, &request, &mut launch.clone(), limits)?;
            let mut live = Live::new((JobId(1), [0; 16], uid), Arc::new(request.clone()), launch.clone());
            all.share(&mut live);
            jobs.push(live);
            Ok::<_, String>(())
        };
        add(&mut all, &launch, 7).expect("room");
        let mut other = Launch { umask: 0o77, ..launch.clone() };
        let reason = add(&mut all, &other, 7).expect_err("another launch is too much");
        assert!(reason.starts_with("the memory for the jobs of one user is used up: 97."), "{reason}");
        assert!(reason.ends_with("and the limit is 146.4 KiB (limits.launches)"), "{reason}");
        add(&mut all, &launch, 7).expect("it is shared");
        let reason = add(&mut all, &launch, 7).expect_err("a third in the journal");
        assert!(reason.starts_with("the space in the journal for the jobs of one user is used up"), "{reason}");
        other.uid = 8;
        add(&mut all, &other, 8).expect("another user has limits of its own");
        other.env.clear();
        add(&mut all, &other, 7).expect("a small one");
        let reason = add(&mut all, &other, 7).expect_err("a fourth job");
        assert_eq!(reason, "3 jobs of one user are waiting or running: the limit is reached (limits.jobs)");
        for job in jobs {
            all.release(job);
        }
        assert!(all.is_empty(), "{all:?}");
    }

    /// Bounds the memory of an entry in the master's map, which may have 100,000 jobs and half-full leaves.
    #[test]
    fn a_record_is_small() {
        assert!(size_of::<Live>() <= 80, "{} bytes", size_of::<Live>());
    }
}
