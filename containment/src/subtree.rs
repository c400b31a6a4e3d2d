//! The place in which a node makes the groups of its attempts: a control group in each hierarchy, with one below it for
//! each attempt.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cores::Cores;
use crate::device::{self, set};
use crate::error::{ContainError, failed};
use crate::group::Group;
use crate::mounts::{Controller, Mounts};

/// Length of a period in which CPU time is limited, in microseconds. In version 1 this is the default of each new group, so
/// it is not written.
const PERIOD: u64 = 100_000;

/// The control group above those of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// One that somebody has made for this user, as in `/proc/PID/cgroup`. Only what is below it is changed.
    Delegated(&'a str),
    /// One that root makes. Controllers are enabled for it.
    Own(&'a str),
}

/// Limits of one attempt; `None` for no limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    /// Memory of all of its processes together, in bytes.
    pub memory: Option<u64>,
    /// CPUs that it may use at the same time, on average.
    pub cpus: Option<u32>,
    /// Number of its processes and threads.
    pub processes: Option<u64>,
    /// CPUs that it may use at all; for a subtree with [`Controller::Cpuset`].
    pub cores: Option<Cores>,
}

impl Limits {
    /// Returns true if a group with these limits needs the controller.
    pub(crate) fn need(&self, controller: Controller) -> bool {
        match controller {
            Controller::Memory => self.memory.is_some(),
            Controller::Cpu => self.cpus.is_some(),
            Controller::Pids => self.processes.is_some(),
            Controller::Cpuset => self.cores.is_some(),
            Controller::Cpuacct | Controller::Freezer => true,
        }
    }
}

/// Limits that groups of a subtree enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the type says what its fields are")]
pub struct Strength {
    pub memory: bool,
    pub cpu: bool,
    pub processes: bool,
}

/// The groups of one node.
#[derive(Debug)]
pub struct Subtree {
    /// The directory of version 2, with the controllers that its groups get.
    pub(crate) unified: Option<(PathBuf, BTreeSet<Controller>)>,
    /// The directories of version 1, for other controllers.
    v1: BTreeMap<Controller, PathBuf>,
    /// True if the directory above it was made for the nodes of this machine.
    is_own: bool,
    /// Reason why a hierarchy or controller is not used.
    refused: Option<ContainError>,
}

impl Subtree {
    /// Prepares the groups of the node `name`, which is the name of one directory. The groups use `controllers` as far
    /// as the machine has them.
    ///
    /// # Errors
    /// If no hierarchy can be used; says why for the first one.
    pub fn open(
        mounts: &Mounts,
        place: Place<'_>,
        name: &str,
        controllers: &[Controller],
    ) -> Result<Self, ContainError> {
        let (path, is_own) = match place {
            Place::Own(path) => (path, true),
            Place::Delegated(path) => (path, false),
        };
        let below =
            path.strip_prefix('/').filter(|below| !below.split('/').any(|part| matches!(part, "" | "." | "..")));
        let below = Path::new(below.ok_or_else(|| ContainError::Place { place: path.to_owned() })?);
        let mut refused = None;
        let unified = mounts.unified.as_ref().and_then(|mount| {
            let first = if is_own { mount.clone() } else { mount.join(below) };
            let own = mount.join(below).join(name);
            let prepared = prepare(&first, &own, controllers, &mut refused);
            prepared.map(|enabled| (own, enabled)).map_err(|error| refused = Some(error)).ok()
        });
        let has = |controller: &Controller| match &unified {
            None => false,
            Some(_) if matches!(controller, Controller::Cpuacct | Controller::Freezer) => true,
            Some((_, enabled)) => enabled.contains(controller),
        };
        let mut v1 = BTreeMap::new();
        let used = |controller: &Controller| controllers.contains(controller) && !has(controller);
        for (controller, mount) in mounts.v1.iter().filter(|(controller, _)| used(controller)) {
            let path = mount.join(below).join(name);
            let made = fs::create_dir_all(&path).map_err(failed("make", &path));
            let made = made.and_then(|()| match controller {
                Controller::Cpuset => inherit(mount, &path),
                _ => Ok(()),
            });
            match made {
                Ok(()) => drop(v1.insert(*controller, path)),
                Err(error) => drop(refused.get_or_insert(error)),
            }
        }
        if unified.is_none() && v1.is_empty() {
            return Err(refused.unwrap_or(ContainError::NotMounted));
        }
        Ok(Self { unified, v1, is_own, refused })
    }

    /// Makes one group. An empty one of that name is replaced.
    ///
    /// # Errors
    /// If one of that name has processes, or the kernel refuses; nothing is left behind then.
    pub fn make(&self, name: &str, limits: &Limits) -> Result<Group, ContainError> {
        let group = self.named(name, |controller| limits.need(*controller));
        self.fill(&group, limits)?;
        Ok(group)
    }

    /// Makes the directories of a group, whose parents exist, and sets its limits.
    pub(crate) fn fill(&self, group: &Group, limits: &Limits) -> Result<(), ContainError> {
        let made = group.all().into_iter().try_for_each(make_one).and_then(|()| self.limit(group, limits));
        made.inspect_err(|error| {
            if !matches!(error, ContainError::Busy { .. }) {
                let _ = group.close();
            }
        })
    }

    fn limit(&self, group: &Group, limits: &Limits) -> Result<(), ContainError> {
        let Strength { memory, cpu, processes } = self.strength();
        if let Some(bytes) = limits.memory.filter(|_| memory) {
            group.limit_memory(bytes)?;
        }
        if let Some(cpus) = limits.cpus.filter(|_| cpu) {
            let quota = u64::from(cpus) * PERIOD;
            match group.v1.get(&Controller::Cpu) {
                Some(path) => set(&path.join("cpu.cfs_quota_us"), &quota.to_string())?,
                None => self.set_in_v2(group, "cpu.max", &format!("{quota} {PERIOD}"))?,
            }
        }
        if let Some(most) = limits.processes.filter(|_| processes) {
            match group.v1.get(&Controller::Pids) {
                Some(path) => set(&path.join("pids.max"), &most.to_string())?,
                None => self.set_in_v2(group, "pids.max", &most.to_string())?,
            }
        }
        limits.cores.as_ref().map_or(Ok(()), |cores| group.bind(cores))
    }

    fn set_in_v2(&self, group: &Group, name: &str, value: &str) -> Result<(), ContainError> {
        group.unified.as_ref().map_or(Ok(()), |path| set(&path.join(name), value))
    }

    /// Returns the group of this name, with the directories that it needs.
    pub(crate) fn named(&self, name: &str, needs: impl Fn(&Controller) -> bool) -> Group {
        let v1 = self.v1.iter().filter(|(controller, _)| needs(controller));
        Group {
            unified: self.unified.as_ref().map(|(path, _)| path.join(name)),
            v1: v1.map(|(controller, path)| (*controller, path.join(name))).collect(),
        }
    }

    /// Returns the group of this name with its existing directories; `None` without any.
    pub(crate) fn existing(&self, name: &str) -> Option<Group> {
        let mut group = self.named(name, |_| true);
        group.unified = group.unified.filter(|path| path.exists());
        group.v1.retain(|_, path| path.exists());
        Some(group).filter(|group| !group.all().is_empty())
    }

    pub(crate) fn all(&self) -> BTreeSet<&Path> {
        let unified = self.unified.iter().map(|(path, _)| path);
        unified.chain(self.v1.values()).map(PathBuf::as_path).collect()
    }

    /// Returns the reason why a hierarchy or controller of this machine is not used.
    pub fn refusal(&self) -> Option<&ContainError> {
        self.refused.as_ref()
    }

    /// Returns the limits that its groups enforce.
    pub fn strength(&self) -> Strength {
        let has = |controller| {
            let in_v2 = self.unified.as_ref().is_some_and(|(_, enabled)| enabled.contains(&controller));
            in_v2 || self.v1.contains_key(&controller)
        };
        Strength { memory: has(Controller::Memory), cpu: has(Controller::Cpu), processes: has(Controller::Pids) }
    }

    /// Returns the CPUs to which its groups can be bound; `None` without [`Controller::Cpuset`].
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn cores(&self) -> Result<Option<Cores>, ContainError> {
        let in_v2 = self.unified.as_ref().filter(|(_, enabled)| enabled.contains(&Controller::Cpuset));
        let in_v2 = in_v2.map(|(path, _)| path.join("cpuset.cpus.effective"));
        let path = in_v2.or_else(|| self.v1.get(&Controller::Cpuset).map(|path| path.join("cpuset.cpus")));
        path.map(|path| Cores::parse(&path, &device::read(&path)?.unwrap_or_default())).transpose()
    }

    /// Returns true if one of its directories was removed.
    pub fn is_gone(&self) -> bool {
        self.all().into_iter().any(|path| !path.exists())
    }

    /// Removes it if it has no groups. Otherwise the next daemon finds them.
    pub fn leave(&self) {
        for path in self.all() {
            let is_removed = fs::remove_dir(path).is_ok();
            // The directory above it also serves other nodes of the machine, and is removed with the last of them.
            if let Some(above) = path.parent().filter(|_| is_removed && self.is_own) {
                let _ = fs::remove_dir(above);
            }
        }
    }
}

/// Makes one directory of a new group. The counters of an earlier group must not be taken for those of this one.
pub(crate) fn make_one(path: &Path) -> Result<(), ContainError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Group { unified: Some(path.to_owned()), v1: BTreeMap::new() }.close()?;
            fs::create_dir(path)
        }
        made => made,
    }
    .map_err(failed("make", path))
}

/// Gives the directories below a mount point of version 1, up to `own`, the CPUs and memory nodes of those above them.
/// They are empty in new groups, which processes cannot enter.
fn inherit(mount: &Path, own: &Path) -> Result<(), ContainError> {
    let below: Vec<&Path> = own.ancestors().take_while(|path| *path != mount).collect();
    below.into_iter().rev().try_for_each(|path| FILES_OF_CPUSET.iter().try_for_each(|name| copy_from_above(path, name)))
}

/// Files of version 1 without which processes cannot enter a group.
pub(crate) const FILES_OF_CPUSET: [&str; 2] = ["cpuset.cpus", "cpuset.mems"];

/// Fills an empty file of a group with that of the group above it.
pub(crate) fn copy_from_above(group: &Path, name: &str) -> Result<(), ContainError> {
    let own = group.join(name);
    let is_empty = device::read(&own)?.is_none_or(|text| text.trim().is_empty());
    let Some(above) = group.parent().filter(|_| is_empty).map(|above| above.join(name)) else { return Ok(()) };
    set(&own, device::read(&above)?.unwrap_or_default().trim())
}

/// Makes the directory `own` in version 2, and enables the controllers for its groups. Enables them from `first` on,
/// which is above it.
fn prepare(
    first: &Path,
    own: &Path,
    controllers: &[Controller],
    refused: &mut Option<ContainError>,
) -> Result<BTreeSet<Controller>, ContainError> {
    fs::create_dir_all(own).map_err(failed("make", own))?;
    let from_first = own.ancestors().take_while(|path| path.starts_with(first)).collect::<Vec<_>>();
    let mut enabled = BTreeSet::new();
    for path in from_first.into_iter().rev() {
        enabled = enable(path, controllers, refused)?;
    }
    Ok(enabled)
}

/// Enables the controllers that a directory has for those below it. Returns the enabled ones, and sets the reason if the
/// kernel refuses one: for example while processes are in the directory itself.
pub(crate) fn enable(
    directory: &Path,
    controllers: &[Controller],
    refused: &mut Option<ContainError>,
) -> Result<BTreeSet<Controller>, ContainError> {
    let list = |name: &str| {
        let text = device::read(&directory.join(name))?.unwrap_or_default();
        let named = text.split_ascii_whitespace().filter_map(Controller::of);
        Ok::<BTreeSet<_>, ContainError>(named.filter(|named| controllers.contains(named)).collect())
    };
    let control = "cgroup.subtree_control";
    let (available, mut enabled) = (list("cgroup.controllers")?, list(control)?);
    for controller in available.difference(&enabled.clone()) {
        match set(&directory.join(control), &format!("+{}", controller.name())) {
            Ok(()) => drop(enabled.insert(*controller)),
            Err(error) => *refused = Some(error),
        }
    }
    Ok(enabled)
}
