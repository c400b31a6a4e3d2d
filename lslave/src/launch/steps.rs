//! What the child does before it becomes the program. Only system calls that are safe there: no allocation, no lock, and
//! nothing that reaches other threads of the daemon, whose memory it still shares (`super::child`).
//!
//! The child drops its privileges itself: groups, then user, then umask and directory, then its files, so that whatever
//! it touches it touches as the submitter.

use std::ffi::CString;
use std::os::fd::RawFd;

use limo_proto::{DoExec, FileNames, Io};
use nix::libc;
use nix::unistd::{Uid, User, geteuid, getgrouplist};

use super::LaunchError;
use super::child::errno;
use crate::tasks::share;

/// Whom the job runs as; `None` where the daemon already is that user.
pub(super) fn identity(uid: u32) -> Result<Option<Identity>, LaunchError> {
    let own = geteuid();
    if !own.is_root() {
        return if own.as_raw() == uid { Ok(None) } else { Err(LaunchError::OtherUser { own: own.as_raw(), uid }) };
    }
    let look_up = |source| LaunchError::LookUp { uid, source };
    let user = User::from_uid(Uid::from_raw(uid)).map_err(look_up)?.ok_or(LaunchError::UnknownUser { uid })?;
    let name = CString::new(user.name).map_err(|_| LaunchError::Nul)?;
    let groups = getgrouplist(&name, user.gid).map_err(look_up)?;
    Ok(Some(Identity { uid, gid: user.gid.as_raw(), groups: groups.into_iter().map(|group| group.as_raw()).collect() }))
}

pub(super) struct Identity {
    uid: libc::uid_t,
    gid: libc::gid_t,
    groups: Vec<libc::gid_t>,
}

impl Identity {
    /// Whom files that are made for the job belong to.
    pub(super) fn owner(&self) -> (u32, u32) {
        (self.uid, self.gid)
    }
}

/// Which step failed: an errno alone does not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Session,
    Identity,
    Directory,
    Stdin,
    Stdout,
    Stderr,
    Terminal,
    Kept,
}

type Done = Result<(), (Step, libc::c_int)>;

pub(super) struct Steps {
    identity: Option<Identity>,
    umask: libc::mode_t,
    directory: CString,
    /// For stdin, stdout and stderr, relative to `directory`.
    files: [Option<CString>; 3],
    /// Whether what is in the files of stdout and stderr stays.
    keep: [bool; 2],
    /// Whether stdin is the job's own terminal.
    terminal: bool,
    /// Descriptors that the command inherits.
    kept: [Option<RawFd>; 2],
    /// Whether the command runs the job's tasks, whose signals it must not take for its own, from its first instruction on.
    several: bool,
}

impl Steps {
    /// # Errors
    /// Where a name has a NUL byte.
    pub(super) fn prepare(
        exec: &DoExec,
        (files, keep): (&FileNames, [bool; 2]),
        identity: Option<Identity>,
        kept: [Option<RawFd>; 2],
    ) -> Result<Self, LaunchError> {
        let text = |bytes: &Vec<u8>| CString::new(bytes.clone()).map_err(|_| LaunchError::Nul);
        let file = |name: &Option<Vec<u8>>| name.as_ref().map(text).transpose();
        Ok(Self {
            identity,
            umask: exec.launch.umask & 0o777,
            directory: text(&exec.launch.cwd)?,
            files: [file(&files.stdin)?, file(&files.stdout)?, file(&files.stderr)?],
            keep: keep.map(|keep| keep || exec.launch.files.append),
            terminal: exec.launch.terminal.is_some() && exec.launch.io == Io::Attached,
            kept,
            several: share(exec).is_some(),
        })
    }

    /// Runs in the child: only system calls, no allocation, no lock. All signals are blocked until it is done.
    pub(super) fn run(&self) -> Done {
        // SAFETY: every pointer is to memory of this process that lives until the call returns.
        unsafe {
            check(Step::Session, libc::setsid() >= 0)?;
            if self.terminal {
                check(Step::Terminal, libc::ioctl(libc::STDIN_FILENO, libc::TIOCSCTTY, 0) == 0)?;
            }
            // What the daemon ignores, the job would ignore too; numbers that cannot be set are refused, harmlessly.
            for signal in 1..=libc::SIGRTMAX() {
                libc::signal(signal, libc::SIG_DFL);
            }
            if let Some(identity) = &self.identity {
                let Identity { uid, gid, groups } = identity;
                // The C library's own would ask all threads of the daemon to become the user, too.
                let done = |result: libc::c_long| check(Step::Identity, result == 0);
                done(libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()))?;
                done(libc::syscall(libc::SYS_setresgid, *gid, *gid, *gid))?;
                done(libc::syscall(libc::SYS_setresuid, *uid, *uid, *uid))?;
            }
            libc::umask(self.umask);
            check(Step::Directory, libc::chdir(self.directory.as_ptr()) == 0)?;
            let [stdin, stdout, stderr] = &self.files;
            if let Some(name) = stdin {
                self.read_from(name)?;
            }
            if let Some(name) = stdout {
                self.write_to(Step::Stdout, (name, self.keep[0]), libc::STDOUT_FILENO)?;
            }
            if let Some(name) = stderr {
                self.write_to(Step::Stderr, (name, self.keep[1]), libc::STDERR_FILENO)?;
            }
            for kept in self.kept.into_iter().flatten() {
                check(Step::Kept, libc::fcntl(kept, libc::F_SETFD, 0) == 0)?;
            }
            if !self.several {
                let mut none = std::mem::zeroed();
                libc::sigemptyset(&raw mut none);
                let let_in = libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
                check(Step::Kept, let_in == 0)?;
            }
        }
        Ok(())
    }

    /// Makes stdin read a file.
    ///
    /// # Safety
    /// Only in the child.
    unsafe fn read_from(&self, name: &CString) -> Done {
        // SAFETY: as in `redirect`; a read of no byte touches no memory.
        unsafe {
            self.redirect(Step::Stdin, name, libc::O_RDONLY, libc::STDIN_FILENO)?;
            // It opens, and only reading it says that it is a directory.
            check(Step::Stdin, libc::read(libc::STDIN_FILENO, std::ptr::null_mut(), 0) == 0)
        }
    }

    /// Makes the descriptor `onto` write to a file.
    ///
    /// # Safety
    /// Only in the child.
    unsafe fn write_to(&self, step: Step, (name, keep): (&CString, bool), onto: RawFd) -> Done {
        let truncate = if keep { 0 } else { libc::O_TRUNC };
        // Appending in any case, so that two descriptors of one file do not write over each other.
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | truncate;
        // SAFETY: as in `redirect`.
        unsafe { self.redirect(step, name, flags, onto) }
    }

    /// Puts a file in the place of the descriptor `onto`.
    ///
    /// # Safety
    /// Only in the child.
    unsafe fn redirect(&self, step: Step, name: &CString, flags: libc::c_int, onto: RawFd) -> Done {
        // Without O_NONBLOCK a FIFO of that name, which anybody may make, would stop the daemon until somebody opens it.
        let open = flags | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
        // SAFETY: `name` lives until the calls return, and `onto` is a descriptor of this process.
        unsafe {
            let fd = libc::open(name.as_ptr(), open, 0o666);
            check(step, fd >= 0)?;
            check(step, libc::fcntl(fd, libc::F_SETFL, flags & libc::O_APPEND) == 0)?;
            check(step, libc::dup2(fd, onto) == onto)
        }
    }
}

fn check(step: Step, done: bool) -> Done {
    if done { Ok(()) } else { Err((step, errno())) }
}
