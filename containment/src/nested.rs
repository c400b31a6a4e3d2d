//! Groups of a job and its steps: the group of the job has its limits, and below it are those of its script and of each
//! step, so that they have together at most what the job has.
//!
//! Version 2 allows controllers only below a group without processes of its own, so the script has a group below, too.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::device::{set, write};
use crate::error::{ContainError, failed};
use crate::group::{Group, directories};
use crate::mounts::Controller;
use crate::subtree::{FILES_OF_CPUSET, Limits, Subtree, copy_from_above, make_one};

/// Name of the group of a job's own processes, below that of the job.
const SCRIPT: &str = "script";

/// Beginning of the name of the group of a step, below that of its job. Its own name follows.
const STEP: &str = "step-";

impl Group {
    /// Returns the group of the job above that of a script or a step; `None` for other groups.
    pub(crate) fn above(&self) -> Option<Self> {
        let name = self.all().first()?.file_name()?.to_str()?;
        if name != SCRIPT && !name.starts_with(STEP) {
            return None;
        }
        let parent = |path: &PathBuf| path.parent().map(Path::to_owned);
        let unified = self.unified.as_ref().and_then(parent);
        let v1 = self.v1.iter().filter_map(|(controller, path)| Some((*controller, parent(path)?)));
        Some(Self { unified, v1: v1.collect() })
    }

    /// Returns true for the group of a job's own processes.
    pub(crate) fn is_script(&self) -> bool {
        self.all().first().is_some_and(|path| path.file_name().is_some_and(|name| name == SCRIPT))
    }

    /// Removes the group of the job above it, unless another group is there.
    pub(crate) fn leave_above(&self) {
        let Some(above) = self.above() else { return };
        for path in above.all() {
            // With another group below it is busy. The last of them removes it.
            let _ = fs::remove_dir(path);
        }
    }
}

impl Subtree {
    /// Makes the group of a job, and returns that of its own processes. Empty ones of that name are replaced.
    ///
    /// # Errors
    /// If one of that name has processes, or the kernel refuses; nothing is left behind then.
    pub fn make_job(&self, name: &str, limits: &Limits) -> Result<Group, ContainError> {
        let job = self.make(name, limits)?;
        let script = Group {
            unified: job.unified.as_ref().map(|path| path.join(SCRIPT)),
            v1: job.v1.iter().map(|(controller, path)| (*controller, path.join(SCRIPT))).collect(),
        };
        // Kernels before 5.11 count the groups below only on request.
        let counts_below = job.v1.get(&Controller::Memory).map(|path| write(&path.join("memory.use_hierarchy"), "1"));
        let made = counts_below.transpose().and_then(|_| script.all().into_iter().try_for_each(make_one));
        let made = made.and_then(|()| match script.v1.get(&Controller::Cpuset) {
            Some(path) => FILES_OF_CPUSET.iter().try_for_each(|name| copy_from_above(path, name)),
            None => Ok(()),
        });
        made.map(|()| script).inspect_err(|_| drop(job.close()))
    }

    /// Makes the group of a step. It is below that of its job, unless an earlier version has made the group of the job.
    ///
    /// # Errors
    /// If one of that name has processes, or the kernel refuses; nothing is left behind then.
    pub fn make_step(&self, job: &str, name: &str, limits: &Limits) -> Result<Group, ContainError> {
        let Some(of) = self.existing(job).filter(|of| of.all().into_iter().any(|path| path.join(SCRIPT).exists()))
        else {
            return self.make(name, limits);
        };
        let is_needed = |controller: &Controller| limits.need(*controller) || of.v1.contains_key(controller);
        let step = self.named(&format!("{job}/{STEP}{name}"), is_needed);
        for path in step.all().into_iter().filter_map(Path::parent) {
            match fs::create_dir(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed("make", path)(error)),
                _ => {}
            }
        }
        if let (Some(path), Some((_, enabled))) = (&of.unified, &self.unified) {
            let enabled: Vec<String> = enabled.iter().map(|controller| format!("+{}", controller.name())).collect();
            set(&path.join("cgroup.subtree_control"), &enabled.join(" "))?;
        }
        self.fill(&step, limits)?;
        Ok(step)
    }

    /// Returns the existing group of the attempt `name`: that of the processes of a job, or of a step.
    pub fn find(&self, name: &str) -> Option<Group> {
        if let Some(script) = self.existing(&format!("{name}/{SCRIPT}")) {
            return Some(script);
        }
        // Without its script, the group of a job is that of its steps.
        if let Some(own) = self.existing(name) {
            let has_steps = own.all().into_iter().any(|path| !steps_in(path).is_empty());
            return Some(own).filter(|_| !has_steps);
        }
        let jobs = self.all().into_iter().flat_map(|path| directories(path).unwrap_or_default());
        let mut jobs = jobs.filter_map(|name| name.into_string().ok());
        jobs.find_map(|job| self.existing(&format!("{job}/{STEP}{name}")))
    }

    /// Returns the names of all attempts that have groups.
    ///
    /// # Errors
    /// If a directory cannot be read.
    pub fn names(&self) -> Result<BTreeSet<String>, ContainError> {
        let mut names = BTreeSet::new();
        for path in self.all() {
            for job in directories(path)? {
                names.extend(steps_in(&path.join(&job)));
                names.extend(job.into_string().ok());
            }
        }
        Ok(names)
    }
}

/// Returns the names of the steps with groups in the directory of a job.
fn steps_in(job: &Path) -> Vec<String> {
    let below = directories(job).unwrap_or_default().into_iter().filter_map(|name| name.into_string().ok());
    below.filter_map(|name| name.strip_prefix(STEP).map(str::to_owned)).collect()
}
